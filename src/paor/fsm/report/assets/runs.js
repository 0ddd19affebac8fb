// The list of runs: filtered by text, status, reason, tool and date, sorted; what is chosen stands in the address.

const SORTS = {
  newest: line => -line.created_at,
  oldest: line => line.created_at,
  "most rows": line => -line.rows,
  "most tokens": line => -line.tokens,
  "highest cost": line => -line.cost_micro,
  "longest work": line => -line.time_us,
  "most refused": line => -line.refused,
};
const STATUS_CHIP = {waiting: "waiting", running: "running", done: "done", failed: "failed"};

const haystack = line =>
  [
    line.id,
    line.objective,
    line.verdict,
    line.reason,
    line.model,
    line.mode,
    line.key,
    ...line.tools,
    JSON.stringify(line.metadata),
    line.conversation,
  ]
    .join("\n")
    .toLowerCase();

class RunsView {
  constructor(index) {
    Object.assign(this, {index, found: new Set(), texts: new Map()});
    this.box = el("main.page.runs", {tabindex: "-1"});
    const change = () => this.filter();
    const select = name => el("select", {name, onchange: change});
    this.q = el("input", {
      type: "search",
      name: "q",
      placeholder: "id, objective, tool, reason, metadata",
      oninput: () => {
        this.search();
        change();
      },
    });
    this.fields = {
      q: this.q,
      status: select("status"),
      reason: select("reason"),
      tool: select("tool"),
      from: el("input", {type: "date", name: "from", onchange: change}),
      to: el("input", {type: "date", name: "to", onchange: change}),
      sort: select("sort"),
    };
    this.count = el("p.sub", {"aria-live": "polite"});
    const label = name => el("label", el("span", {q: "search"}[name] || name), this.fields[name]);
    this.list = new List({label: "Runs", id: "run", size: 84, make: i => this.node(this.lines[i]), pick: i => this.pick(i)});
    this.list.box.addEventListener("keydown", event => {
      if (event.key === "Enter" && this.list.on[0] >= 0) location.hash = "#run/" + encode(this.lines[this.list.on[0]].id);
    });
    this.box.append(
      el("h1", index.title || index.journal || "Runs"),
      el(
        "form.filters",
        {role: "search", onsubmit: event => event.preventDefault()},
        Object.keys(this.fields).map(label),
        button(".btn", () => this.clear(), "Clear"),
      ),
      this.count,
      el("section.card.pane", {"aria-label": "Runs"}, this.list.box),
    );
    this.options();
  }

  // the reasons and tools that there are
  options() {
    const lines = this.index.runs,
      of = values => [...new Set(values.flat().filter(Boolean))].sort();
    const lists = {
      status: of(lines.map(line => line.status)),
      reason: of(lines.map(line => line.reason)),
      tool: of(lines.map(line => line.tools)),
      sort: Object.keys(SORTS),
    };
    for (const [name, values] of Object.entries(lists)) {
      const select = this.fields[name],
        now = select.value;
      select.replaceChildren(
        ...(name === "sort" ? [] : [el("option", {value: ""}, "any")]),
        ...values.map(value => {
          const option = el("option", cut(value, 80));
          option.value = value;
          return option;
        }),
      );
      if (now && values.includes(now)) select.value = now;
    }
  }

  open(query) {
    const given = new URLSearchParams(query);
    for (const [name, field] of Object.entries(this.fields)) field.value = given.get(name) || (name === "sort" ? "newest" : "");
    this.search();
    this.filter(true);
  }

  clear() {
    this.found.clear();
    this.open("");
    this.filter();
  }

  filter(quiet) {
    const value = name => this.fields[name].value,
      q = value("q").trim().toLowerCase(),
      day0 = value("from"),
      day1 = value("to");
    this.lines = this.index.runs.filter(
      line =>
        (!q || this.text(line).includes(q) || this.found.has(line.id)) &&
        (!value("status") || line.status === value("status")) &&
        (!value("reason") || line.reason === value("reason")) &&
        (!value("tool") || line.tools.includes(value("tool"))) &&
        (!day0 || day(line.created_at) >= day0) &&
        (!day1 || day(line.created_at) <= day1),
    );
    const key = SORTS[value("sort")] || SORTS.newest;
    this.lines.sort((a, b) => key(a) - key(b));
    this.count.textContent =
      this.lines.length === this.index.runs.length
        ? plural(this.lines.length, "run")
        : `${num(this.lines.length)} of ${plural(this.index.runs.length, "run")}`;
    this.list.select(-1);
    this.list.box.scrollTop = quiet ? this.list.box.scrollTop : 0;
    this.list.set(this.lines.length, 0);
    const told = new URLSearchParams(
      Object.entries(this.fields)
        .map(([name, field]) => [name, field.value])
        .filter(([name, text]) => text && !(name === "sort" && text === "newest")),
    ).toString();
    if (!quiet) remember("#runs" + (told && "?" + told));
  }

  text(line) {
    if (!this.texts.has(line.id)) this.texts.set(line.id, haystack(line));
    return this.texts.get(line.id);
  }

  // the server looks into prompts and replies, too
  search() {
    if (!live) return;
    clearTimeout(this.asking);
    const q = this.q.value.trim();
    this.asking = setTimeout(async () => {
      const answer = q && (await fetch(live + "search?q=" + encode(q)).catch(() => null));
      if (q !== this.q.value.trim()) return;
      this.found = new Set(answer && answer.ok ? (await answer.json()).runs : []);
      this.filter(true);
    }, 200);
  }

  node(line) {
    const meta = [
      line.model,
      line.mode,
      `${plural(line.rows, "row")}`,
      plural(line.calls, "call"),
      line.refused > 0 && `${num(line.refused)} refused`,
      num(line.tokens) + " tokens",
      money(line.cost_micro),
      dur(line.time_us),
      line.parent && "a fork",
      line.workflow && placeIn(line.workflow),
    ].filter(Boolean);
    return el(
      "div.one",
      el(
        "div.line",
        el("b", cut(line.objective ?? "(the objective was erased)", 200)),
        chip(
          STATUS_CHIP[line.status] || line.status,
          line.waits_for ? own(KINDS, line.waits_for) || line.waits_for : line.status,
        ),
      ),
      el("div.sub", cut(verdictWords(line), 200)),
      el(
        "div.sub.small.line",
        el("span", when(line.created_at)),
        el("span.mono", line.id.slice(0, 13)),
        el("span.grow", meta.join(" · ")),
      ),
    );
  }

  // the first time marked, the second time opened; by mouse at once
  pick(i) {
    const byKey = this.list.box.matches(":focus-visible");
    this.list.select(i);
    if (!byKey) location.hash = "#run/" + encode(this.lines[i].id);
  }

  update() {
    this.texts.clear();
    this.options();
    const at = this.list.box.scrollTop;
    this.filter(true);
    this.list.box.scrollTop = at;
  }
}
