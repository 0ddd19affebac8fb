// Left: what the agent did to the world (calls), or what the machine did (rows).

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

// the work of a call, without the time that it waited for a person
function workOf(run, call) {
  let sum = 0;
  for (let i = call.seq; i <= call.last && i < run.n; i += 1) if (run.lane(i) === "tool") sum += run.took(i);
  return sum;
}

// what the model's requests within a call have cost, in millionths
function costOf(run, call) {
  let sum = 0;
  for (let i = call.seq; i <= call.last && i < run.n; i += 1) sum += run.rows[i].cost_micro;
  return sum;
}

// the arguments of a call as texts; numbers that JSON.parse would not keep as they were written come as they were
const argsOf = (run, call) =>
  own(run.data.exact, call.seq) ??
  Object.entries(call.arguments || {}).map(([name, value]) => [name, cut(typeof value === "string" ? value : JSON.stringify(value), 400)]);

function callNode(run, call) {
  const args = argsOf(run, call)
    .map(([name, value]) => name + ": " + value)
    .join(", ");
  const work = workOf(run, call),
    meta = [
      work > 0 && dur(work),
      call.effect,
      costOf(run, call) > 0 && "cost " + money(costOf(run, call)),
      call.last > call.seq ? `rows ${num(call.seq)}–${num(call.last)}` : `row ${num(call.seq)}`,
      call.caller,
    ].filter(Boolean);
  const result = cut(call.result || "", 300);
  return el(
    "div.call",
    el("div.line", el("b", cut(call.tool || "(erased)", 120)), chip(labelOf(call))),
    args && el("div.args.mono", cut(args, 240)),
    result && el("div.res", call.outcome === "ok" && "→ ", result),
    call.decided.map(one =>
      el(
        "div.by",
        el("b", decisionOf(one)),
        ` at ${clock(one.at)}`,
        call.asked_at && one.at > call.asked_at && ` after ${dur(one.at - call.asked_at)}`,
        (one.actor || one.reason) && el("span.sub", ": " + cut([one.actor, one.reason].filter(Boolean).join(": "), 300)),
      ),
    ),
    el(
      "div.meta",
      meta.flatMap((text, k) => [k > 0 && " · ", el("span.unit", text)]),
    ),
  );
}

function rowNode(run, i, bad) {
  const {trigger, dest, tool} = run.rows[i],
    lane = run.lane(i),
    long = lane === "person" ? run.since(i) : run.took(i);
  const tone = run.off(i) ? ".off" : run.marked(i, TURN) ? ".turn" : "";
  return el(
    "div.row" + tone + (bad >= 0 && i >= bad ? ".broken" : ""),
    el("span.no", num(i)),
    el("b", cut(trigger, 40)),
    el("span.to", cut((lane === "tool" && tool) || dest, 60)),
    el("span.du", long > 999 ? dur(long) : ""),
  );
}

class Lists {
  constructor(run, pick) {
    this.run = run;
    this.calls = new List({
      label: "Calls",
      id: "call",
      size: 104,
      make: i => callNode(run, run.calls[i]),
      pick: i => pick(this.rowOf(run.calls[i])),
    });
    this.rows = new List({label: "Rows", id: "row", size: 24, fixed: true, make: i => rowNode(run, i, run.bad), pick});
    this.foot = el("span.sub.small");
    this.tabs = ["Calls", "Rows"].map((name, k) => button("", () => this.open(k), {"aria-pressed": "false"}, name));
    this.card = el(
      "section.card.pane.left",
      {"aria-label": "Calls and rows"},
      el("div.bar", el("div.seg", this.tabs), this.foot),
      this.calls.box,
      this.rows.box,
    );
    this.fill();
    this.open(run.calls.length ? 0 : 1);
  }

  fill() {
    this.calls.set(this.run.calls.length, true);
    this.rows.set(this.run.n);
    this.count();
  }

  count() {
    const {calls} = this.run,
      good = calls.filter(call => call.outcome === "ok").length;
    this.foot.textContent = this.rows.box.hidden ? `${num(good)} of ${num(calls.length)} succeeded` : plural(this.run.n, "row");
  }

  open(k) {
    this.tabs.forEach((tab, j) => tab.setAttribute("aria-pressed", String(j === k)));
    this.calls.box.hidden = k !== 0;
    this.rows.box.hidden = k !== 1;
    this.count();
    if (this.now !== undefined) this.show(this.now);
  }

  // the row of a call that says most: where it ran, or was kept from it
  rowOf(call) {
    for (let i = call.seq; i <= call.last && i < this.run.n; i += 1)
      if (this.run.rows[i].trigger === "execute" || this.run.marked(i, ["refused", "fault"])) return i;
    return call.seq;
  }

  show(i) {
    this.now = i;
    this.calls.select(this.run.callAt(i));
    this.rows.select(i);
  }
}
