// Calls: what came of each, who decided on it, what it was given; and the list of rows by step.

const ACTIONS = {
  accept: "Approved",
  approve: "Approved",
  deny: "Denied",
  decline: "Declined",
  "not approved": "Denied",
  denied: "Denied",
  approved: "Approved",
  done: "In doubt; settled as done",
  retry: "In doubt; tried again",
  fail: "In doubt; settled as failed",
};

const decisionOf = one => cut(own(ACTIONS, one.decision) || one.decision, 80);
const labelOf = call => (call.outcome === "ok" ? "ran" : call.outcome);

// what the model's requests within a call have cost, in millionths
function costOf(run, call) {
  let sum = 0;
  for (let i = call.seq; i <= call.last && i < run.n; i += 1) sum += run.rows[i].cost_micro;
  return sum;
}

// the arguments of a call as texts; numbers that JSON.parse would not keep as they were written come as they were
const argsOf = (run, call) =>
  own(run.data.exact, call.seq) ?? Object.entries(call.arguments || {}).map(([name, value]) => [name, cut(asText(value), 400)]);

// one row; the first of a step has the step's name above it
function rowNode(run, i, bad) {
  const {trigger, dest, tool} = run.rows[i],
    lane = run.lane(i),
    long = lane === "person" ? run.since(i) : run.took(i);
  const tone = run.off(i) || dest === "Failed" ? ".off" : run.marked(i, TURN) ? ".turn" : "";
  const line = el(
    "div.row" + tone + (bad >= 0 && i >= bad ? ".broken" : ""),
    el("span.no", num(i)),
    el("b", cut(trigger, 40)),
    el("span.to", cut((lane === "tool" && tool) || dest, 60)),
    el("span.du", long > 999 ? dur(long) : ""),
  );
  const step = run.steps[run.stepOf[i]];
  return el("div.item", step.first === i && stepHead(run, step), line);
}

function stepHead(run, step) {
  const tools = [...new Set(run.calls.filter(call => call.step === step.step && call.tool).map(call => call.tool))];
  return el(
    "div.step-head",
    el("b", step.step ? `Step ${num(step.step)}` : "Before the first step"),
    el("span.to", cut(tools.join(", "), 80)),
    el("span.du", dur(run.rows[step.last].at - run.rows[step.first].at + run.took(step.first))),
  );
}

// rows grouped by step, all of them or those that were found
class RowList {
  constructor(run, pick, finder) {
    this.run = run;
    this.found = null;
    this.list = new List({
      label: "Rows",
      id: "row",
      size: 24,
      make: k => rowNode(run, this.found ? this.found[k] : k, run.bad),
      pick: k => pick(this.found ? this.found[k] : k),
    });
    this.card = el("section.card.pane.left", {"aria-label": "Rows by step"}, finder, this.list.box);
  }

  // the rows that are listed, null for all; from row `fresh` on they are made anew
  set(found, fresh) {
    this.found = found;
    this.list.set(found ? found.length : this.run.n, found ? found.filter(i => i < fresh).length : fresh);
    if (this.now !== undefined) this.show(this.now);
  }

  show(i) {
    this.now = i;
    this.list.select(this.found ? this.found.indexOf(i) : i);
  }
}
