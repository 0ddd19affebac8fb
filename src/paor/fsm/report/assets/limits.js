// What the run could not do, what it used of what it was allowed, what it cost, and what else belongs to it.

const LISTED = 20;
const LISTED_MOST = 2000;
// the first of a list; the others when they are asked for
function some(list, make) {
  const rest = list.length - LISTED,
    more = el("ul");
  const fill = () => {
    if (!more.firstChild)
      add(more, [
        list.slice(LISTED, LISTED_MOST).map(make),
        list.length > LISTED_MOST && el("li.sub", `and ${num(list.length - LISTED_MOST)} that only the list of rows has`),
      ]);
  };
  return [
    list.slice(0, LISTED).map(make),
    rest > 0 && el("li", el("details", {ontoggle: fill}, el("summary.more", `${num(rest)} more`), more)),
  ];
}
const names = list => list.slice(0, 60).flatMap((name, k) => [k > 0 && ", ", el("code", cut(name, 120))]);

function couldNot(run) {
  const policy = run.story.policy || {never: [], asks: [], offered: [], denied: [], only: []},
    called = new Set(run.calls.filter(call => call.started_at != null).map(call => call.tool)),
    uncalled = policy.offered.filter(name => !called.has(name));
  const refused = run.rows
    .filter(row => row.marks.includes("refused"))
    .map(({seq, tool, said}) => ({seq, tool, told: "refused", why: said}));
  const lost = run.calls
    .filter(call => ["failed", "cancelled"].includes(call.outcome))
    .map(call => ({seq: call.seq, tool: call.tool, told: labelOf(call), why: call.result}));
  const held = [...refused, ...lost].sort((a, b) => a.seq - b.seq);
  const items = [
    ...some(held, one =>
      el(
        "li",
        el("b", cut(one.tool || "a call", 120)),
        ` ${one.told}: `,
        linkedRows(run, cut(one.why || "", 300)),
        " ",
        link(rowHash(run, one.seq), "row " + one.seq),
      ),
    ),
    ...some(policy.denied, ([name, why]) =>
      el("li", "Not offered: ", el("code", cut(name, 120)), el("span.sub", " " + cut(why, 200))),
    ),
    policy.only.length > 0 && el("li", "Only: ", names(policy.only), el("span.sub", " by policy")),
    policy.never.length > 0 && el("li", "Never: ", names(policy.never), el("span.sub", " by policy")),
    policy.asks.length > 0 && el("li", "Not without a person: ", names(policy.asks)),
    uncalled.length > 0 && el("li.sub", "Offered and not called: ", names(uncalled)),
  ];
  return el(
    "div",
    el("h3", "What it could not do"),
    items.flat().some(Boolean)
      ? el("ul", items)
      : !run.story.policy
        ? el("p.sub", "Erased with the spec of the run.")
        : el("p.sub", "Nothing was refused, withheld or denied."),
  );
}

function limitsUsed(run) {
  const shown = (run.story.spec ? run.story.used : []).filter(item => item.allowed != null || item.used);
  return el(
    "div",
    el("h3", "Used of allowed"),
    shown.length
      ? el(
          "div.meters",
          shown.map(item => meter(item.name, item.used, item.allowed, own(UNITS, item.unit) || num)),
        )
      : el("p.sub", run.story.policy ? "No limit was set." : "Erased, too."),
  );
}

// where tokens, time and money went: of each kind of request, model, or called tool, the dearest first
function spentBy(run, name) {
  const found = new Map(),
    of = key => found.get(key) || found.set(key, {name: key, n: 0, failed: 0, tin: 0, tout: 0, cost: 0, time: 0}).get(key);
  if (name === "tool")
    for (const call of run.calls)
      if (call.started_at != null) {
        of(call.tool).n += 1;
        of(call.tool).failed += call.outcome === "failed";
      }
  for (const row of run.rows) {
    const key =
      name === "kind" ? row.asked !== "recall" && row.asked : name === "model" ? row.model : row.asked === "tool" && row.tool;
    if (!key || (name === "tool" && !found.has(key))) continue;
    const one = of(key);
    one.n += name !== "tool";
    one.tin += row.tokens_in;
    one.tout += row.tokens_out;
    one.cost += row.cost_micro;
    one.time += row.time_us;
  }
  return [...found.values()].sort((a, b) => b.cost - a.cost || b.n - a.n || (a.name < b.name ? -1 : 1));
}

// cost by kind, tool or model: a bar of shares and a table
function costPart(run) {
  const holder = el("div"),
    tabs = ["kind", "tool", "model"].map(name => button("", () => open(name), {"aria-pressed": "false"}, name));
  function open(name) {
    tabs.forEach(tab => tab.setAttribute("aria-pressed", String(tab.textContent === name)));
    const tool = name === "tool",
      note = ({failed, tin, tout}) => (!tool ? `${num(tin)} in, ${num(tout)} out` : failed ? `${num(failed)} failed` : ""),
      list = spentBy(run, name);
    const by = list.some(item => item.cost) ? "cost" : "time";
    const total = list.reduce((sum, item) => sum + item[by], 0),
      bar = el("div.stack", {"aria-hidden": "true"});
    list.slice(0, 6).forEach((item, k) => {
      if (total && item[by]) {
        const share = el("i.k" + k);
        share.style.flexGrow = item[by] / total;
        bar.append(share);
      }
    });
    const row = (item, k) =>
      el(
        "tr",
        el("td", el("i.key.k" + Math.min(k, 5), {"aria-hidden": "true"}), cut(item.name || "none", 80)),
        el("td", num(item.n)),
        el("td", note(item)),
        el("td", dur(item.time)),
        el("td", money(item.cost)),
      );
    const head = el(
      "tr",
      [name, tool ? "calls" : "asked", tool ? "" : "tokens", "time", "cost"].map(text =>
        text ? el("th", {scope: "col"}, text) : el("td"),
      ),
    );
    holder.replaceChildren(
      bar,
      list.length ? el("table", el("thead", head), el("tbody", list.slice(0, 12).map(row))) : el("p.sub", "Nothing."),
    );
  }
  open("kind");
  return el("div.cost", el("div.bar", el("h3", "Cost"), el("div.seg", tabs)), holder);
}

// "[[3,3],[5,9]]" as "3 5-9"
const rangesOf = text =>
  [...text.matchAll(/\[(\d+),\s*(\d+)\]/g)].map(([, first, last]) => (first === last ? first : `${first}-${last}`)).join(" ");

// whom it belongs to and what was done to it
function around(run) {
  const {data, line, story} = run,
    settings = story.spec || {},
    runLink = (id, seq) =>
      link(seq == null ? "#run/" + encode(id) : `#run/${encode(id)}/row-${seq}`, el("span.mono", id.slice(0, 13)));
  const beside = (one, other) => live && [" ", link(`#compare/${encode(one)}/${encode(other)}`, "compare")];
  const list = (title, items, make) => items && items.length > 0 && el("div", el("h3", title), el("ul", some(items, make)));
  const blocks = [
    story.spec &&
      el(
        "div",
        el("h3", "Settings"),
        pairs([
          ["paor", settings.engine],
          ["mode", settings.mode],
          ["stage", settings.profile.stage],
          ["language", settings.language],
          ["task type", settings.task_type],
          ["machine", data.machine.rows.some(row => row.host) && "the host's own"],
          ["context", settings.context],
        ]),
      ),
    line.parent &&
      el(
        "div",
        el("h3", "Forked from"),
        el("p", runLink(line.parent[0], line.parent[1]), ` at row ${line.parent[1]}`, beside(line.parent[0], line.id)),
      ),
    list("Forks", data.forks, fork =>
      el("li", runLink(fork.id), ` at `, link(rowHash(run, fork.seq), `row ${fork.seq}`), beside(line.id, fork.id)),
    ),
    line.workflow &&
      el(
        "div",
        el("h3", line.workflow.action ? "Called by" : "Workflow"),
        el("p", runLink(line.workflow.id), placeIn(line.workflow)),
      ),
    line.conversation && el("div", el("h3", "Conversation"), el("p", line.conversation)),
    list("Runs that it called", data.tasks, task =>
      el("li", runLink(task.id), " ", chip(task.status), " ", cut(task.objective ?? "(erased)", 160)),
    ),
    list("Amendments", data.amendments, one =>
      el("li", link(rowHash(run, one.seq), `row ${one.seq}`), " ", one.parts.join(", ")),
    ),
    list("Erased", story.erasures, one =>
      el("li", `${when(one.at)}: ${one.reason} `, el("span.sub", `payloads ${rangesOf(one.payloads)}`)),
    ),
    story.documents.length > 0 && el("div", el("h3", "Documents"), documentList(story.documents.slice(0, 100))),
    Object.keys(line.metadata || {}).length > 0 && el("div", el("h3", "Metadata"), pairs(metaOf(line.metadata))),
  ].filter(Boolean);
  return blocks.length > 0 && el("div.cols.around", blocks);
}

function limitsCard(run) {
  return el("div.limits", el("div.cols", couldNot(run), limitsUsed(run)), costPart(run), around(run));
}
