// The list of runs: filtered by words, status, reason, tool and date, sorted, or looked at as a whole; what is chosen stands in the address.

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

// what marks the ends of a value, so that ="tenant:acme" finds this one and no longer one
const WHOLE = ["\u0002", "\u0003"];
const whole = text => WHOLE.join(text);
const exactly = text => (text.includes('"') ? text : `="${text}"`);

// the words of a search, in small letters; what stands in quotes is one
const wordsOf = text =>
  [...text.toLowerCase().matchAll(/(=?)"([^"]+)"|\S+/g)].map(([word, exact, quoted]) => (exact ? whole(quoted) : quoted || word));

const metaWords = metadata => metaOf(metadata).map(pair => whole(pair.join(":")));

const haystack = line =>
  [
    line.id,
    line.objective,
    line.verdict,
    line.reason,
    line.model && whole(line.model),
    line.mode,
    line.key,
    ...line.tools,
    ...metaWords(line.metadata),
    line.conversation,
  ]
    .join("\n")
    .toLowerCase();

class RunsView {
  constructor(index) {
    Object.assign(this, {index, found: new Map(), texts: new Map(), view: "list"});
    this.box = el("main.page.runs", {tabindex: "-1"});
    const change = () => this.filter();
    const select = name => el("select", {name, onchange: change});
    this.q = el("input", {
      type: "search",
      name: "q",
      placeholder: 'words, tenant:acme, "two words"',
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
    this.views = ["List", "Overview"].map(name =>
      button("", () => this.show(name.toLowerCase()), {"aria-pressed": "false"}, name),
    );
    this.overview = new Overview(filter => {
      for (const [name, value] of Object.entries(filter)) this.fields[name].value = value;
      this.search();
      this.show("list");
      this.list.box.focus();
    });
    this.chosen = el("p.note", {hidden: true});
    const label = name => el("label", el("span", {q: "search"}[name] || name), this.fields[name]);
    this.list = new List({label: "Runs", id: "run", size: 84, make: i => this.node(this.lines[i]), pick: i => this.pick(i)});
    this.list.box.addEventListener("keydown", event => {
      if (event.key === "Enter" && this.list.on[0] >= 0) this.go(this.list.on[0]);
    });
    this.box.append(
      el("h1", index.title || index.journal || "Runs"),
      el(
        "form.filters",
        {role: "search", onsubmit: event => event.preventDefault()},
        Object.keys(this.fields).map(label),
        button(".btn", () => this.clear(), "Clear"),
      ),
      this.chosen,
      el("div.bar", this.count, el("div.seg", {role: "group", "aria-label": "View"}, this.views)),
      (this.card = el("section.card.pane", {"aria-label": "Runs"}, this.list.box)),
      this.overview.node,
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
    this.view = given.get("view") === "overview" ? "overview" : "list";
    this.beside = given.get("with") || "";
    const other = this.index.runs.find(line => line.id === this.beside);
    this.chosen.hidden = !this.beside;
    this.chosen.replaceChildren(
      ...(this.beside
        ? el(
            "i",
            "Choose the run to be compared with ",
            el("b", cut(other?.objective ?? this.beside, 120)),
            ". ",
            link("#run/" + encode(this.beside), "back to it"),
          ).childNodes
        : []),
    );
    this.search();
    this.filter(true);
  }

  show(view) {
    this.view = view;
    this.filter();
  }

  clear() {
    this.open(this.view === "overview" ? "view=overview" : "");
    this.filter();
  }

  filter(quiet) {
    const value = name => this.fields[name].value,
      words = wordsOf(value("q")),
      day0 = value("from"),
      day1 = value("to");
    this.lines = this.index.runs.filter(
      line =>
        words.every(word => this.text(line).includes(word) || this.found.get(word)?.has(line.id)) &&
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
    const overview = this.view === "overview";
    this.box.classList.toggle("over", overview);
    this.card.hidden = overview;
    this.overview.node.hidden = !overview;
    this.views.forEach(tab => tab.setAttribute("aria-pressed", String(tab.textContent.toLowerCase() === this.view)));
    if (overview) this.overview.fill(this.lines);
    const told = new URLSearchParams(
      [
        ...Object.entries(this.fields).map(([name, field]) => [name, field.value]),
        ["view", overview && "overview"],
        ["with", this.beside],
      ].filter(([name, text]) => text && !(name === "sort" && text === "newest")),
    ).toString();
    if (!quiet) remember("#runs" + (told && "?" + told));
  }

  text(line) {
    if (!this.texts.has(line.id)) this.texts.set(line.id, haystack(line));
    return this.texts.get(line.id);
  }

  // the server looks into prompts and replies for each of the words, too
  search() {
    if (!live) return;
    clearTimeout(this.asking);
    const words = wordsOf(this.q.value);
    for (const word of this.found.keys()) if (!words.includes(word)) this.found.delete(word);
    const ask = async word => {
      const answer = await fetch(live + "search?q=" + encode(word)).catch(() => null);
      if (answer?.ok && wordsOf(this.q.value).includes(word)) this.found.set(word, new Set((await answer.json()).runs));
    };
    this.asking = setTimeout(async () => {
      await Promise.all(words.filter(word => !word.startsWith(WHOLE[0]) && !this.found.has(word)).map(ask));
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
        Object.keys(line.metadata).length > 0 &&
          el(
            "span.with",
            cut(
              metaOf(line.metadata)
                .map(pair => pair.join(": "))
                .join(", "),
              80,
            ),
          ),
        el("span.grow", meta.join(" · ")),
      ),
    );
  }

  // the first time marked, the second time opened; by mouse at once
  pick(i) {
    const byKey = this.list.box.matches(":focus-visible");
    this.list.select(i);
    if (!byKey) this.go(i);
  }

  go(i) {
    const {id} = this.lines[i];
    location.hash = this.beside && this.beside !== id ? `#compare/${encode(this.beside)}/${encode(id)}` : "#run/" + encode(id);
  }

  // of lines that have changed or are new
  update(lines) {
    for (const line of lines) this.texts.delete(line.id);
    this.options();
    const at = this.list.box.scrollTop;
    this.filter(true);
    this.list.box.scrollTop = at;
  }
}
