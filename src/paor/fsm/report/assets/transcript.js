// The transcript: what was said and done, from top to bottom. Rows that only the machine has taken are in the list beside it.

const GIVEN = -1; // before the rows: what the run was given; before that the earlier rounds of its conversation
const DRAFT = 5e8; // after them: what is being written, and then the later rounds
const LATER = 1e9;
const LINES_SAID = 14;
const ENDS = ["Done", "Failed"];

const isSaid = (run, i) => {
  const {model, asked, said, marks, dest} = run.rows[i];
  return Boolean(model || asked === "tool" || said || marks.length || (i === run.n - 1 && ENDS.includes(dest)));
};

// names and values of a JSON object or list as they were written; null for any other text
function partsOf(text) {
  if (!/^\s*[{[]/.test(text)) return null;
  try {
    JSON.parse(text);
  } catch {
    return null;
  }
  const parts = [];
  let depth = 0,
    from = 0,
    name = "";
  for (const {0: token, 1: colon, index} of text.matchAll(/"(?:[^"\\]|\\.)*"(\s*:)?|[{}[\],]/g)) {
    const opens = "{[".includes(token),
      closes = "}]".includes(token);
    if (depth === 1 && (closes || token === ",")) {
      const value = text.slice(from, index).trim();
      if (value) parts.push([name, value]);
    }
    if (depth === 1 && colon) name = JSON.parse(token.slice(0, -colon.length));
    if ((depth === 0 && opens) || (depth === 1 && (colon || token === ","))) from = index + token.length;
    depth += opens ? 1 : closes ? -1 : 0;
  }
  return parts;
}
const worth = ([, value]) => !["null", '""', "[]", "{}"].includes(value);
const isText = value => value[0] === '"';

// a value in a line: a text as it is, the names and values of an object, a list as it was written
function brief(value) {
  if (isText(value)) return JSON.parse(value);
  const parts = value[0] === "{" ? partsOf(value).filter(worth) : [];
  return parts.length && parts.every(([, one]) => !"{[".includes(one[0]))
    ? parts.map(([name, one]) => `${name}: ${brief(one)}`).join(", ")
    : value;
}

// the same, its beginning where it is long, and all of it when that is asked for
function valueOf(value) {
  const text = brief(value);
  if (isText(value) || text.length <= 160) return text;
  const box = el("span", el("span.mono.small", cut(text, 120)), " ");
  box.append(button(".more", () => box.replaceChildren(plain(indented(value, true))), "all of it"));
  return box;
}

// a text as it is said: its first lines, the others when they are asked for
function saidText(text, tone = "") {
  const lines = text.split("\n");
  if (lines.length <= LINES_SAID + 3) return el("p.said" + tone, text);
  const box = el("p.said" + tone, lines.slice(0, LINES_SAID).join("\n"));
  const all = button(
    ".more",
    () => {
      box.replaceChildren(...visible(text));
      all.remove();
    },
    `show all ${num(lines.length)} lines`,
  );
  return [box, all];
}

const valueList = fields =>
  el(
    "dl.values",
    fields.map(([name, value]) => [el("dt", name), el("dd", value)]),
  );

// what a model has replied: words as words, calls as calls, another JSON object as its fields
function replied(text) {
  const parts = partsOf(text);
  if (!parts || text.trim()[0] === "[") return saidText(text);
  const shown = parts.filter(worth);
  if (parts.every(([name]) => name === "text" || name === "calls"))
    return shown.map(([name, value]) =>
      name === "text" ? saidText(brief(value)) : partsOf(value).map(([, call]) => callAsked(new Map(partsOf(call)))),
    );
  return valueList(shown.map(([name, value]) => [name, valueOf(value)]));
}

const callAsked = call =>
  el("div.asked.mono", el("b", brief(call.get("name"))), "(", cut(brief(call.get("arguments") || "{}"), 400), ")");

// who speaks in a row: a person, a model, a tool, else the machine; and what it is that is said
const speakerOf = (row, lane, call) =>
  ({person: row.actor || "somebody", model: row.model, tool: row.tool || call?.tool})[lane] ||
  (row.marks.includes("waits") ? "asks" : ENDS.includes(row.dest) ? row.dest : row.trigger);
const kindOf = (row, lane) =>
  ({person: row.came.replace(/^answer /, ""), model: row.asked + (row.attempt ? `, attempt ${row.attempt + 1}` : "")})[lane];
const markChip = mark => chip(own({in_doubt: "in doubt", fault: "failed", invalid: "not usable"}, mark) || mark);

class Transcript {
  constructor(run, pick) {
    Object.assign(this, {run, items: [], found: null, rounds: [], words: ""});
    this.list = new List({
      label: "Transcript",
      id: "entry",
      size: 110,
      feed: true,
      make: k => this.node(this.items[k]),
      pick: k => this.items[k] >= 0 && this.items[k] < run.n && pick(this.items[k]),
    });
    this.box = this.list.box;
    this.draft = el(
      "div.entry.model.draft",
      el("div.line", el("b", "writes"), el("span.sub.small", "provisional until its row is there")),
      (this.written = el("p.said")),
    );
  }

  // what is listed: all that was said, or those rows of it that were found
  set(found, fresh) {
    const {run, rounds} = this;
    this.found = found;
    const rows = [];
    for (const i of found || run.rows.keys()) if (found || isSaid(run, i)) rows.push(i);
    const later = rounds.filter(one => one.later).length;
    this.items = found
      ? rows
      : [
          ...rounds.slice(0, rounds.length - later).map((_, k) => k - rounds.length + later + GIVEN),
          GIVEN,
          ...rows,
          ...(this.words ? [DRAFT] : []),
          ...rounds.slice(rounds.length - later).map((_, k) => LATER + k),
        ];
    const pinned = this.list.pin >= 0;
    this.list.set(this.items.length, this.items.filter(item => item < fresh).length);
    if (this.now !== undefined) this.show(this.now, !pinned);
  }

  // what was said in the other rounds of the conversation, before this one and after it
  hear(messages, error) {
    this.unheard?.remove();
    if (error) this.box.before((this.unheard = el("p.note", `The other rounds of the conversation cannot be read: ${error}`)));
    const {id} = this.run,
      first = messages.findIndex(one => one.run_id === id);
    this.rounds = messages.map((one, k) => ({...one, later: first >= 0 && k > first})).filter(one => one.run_id !== id);
    this.set(this.found, -LATER);
  }

  // the last item at or before row i
  place(i) {
    let low = 0,
      high = this.items.length - 1;
    while (low < high) {
      const middle = (low + high + 1) >> 1;
      if (this.items[middle] <= i) low = middle;
      else high = middle - 1;
    }
    return this.items[low] <= i ? low : -1;
  }

  show(i, quiet) {
    this.now = i;
    const k = this.place(i);
    this.list.select(this.items[k] >= 0 ? k : -1, undefined, quiet);
  }

  // words of a reply that is being written; a row that comes takes their place
  say(text, anew) {
    const was = this.words;
    this.words = anew ? text : was + text;
    this.written.replaceChildren(...visible(cut(this.words.slice(-4000), 4000)));
    const follow = this.box.scrollTop + this.box.clientHeight > this.list.space.clientHeight - 60;
    if (Boolean(was) !== Boolean(this.words)) this.set(this.found, DRAFT);
    this.list.later();
    if (follow && this.words && !this.found) this.list.reveal(this.items.indexOf(DRAFT));
  }

  node(item) {
    if (item >= LATER) return this.round(this.rounds.filter(one => one.later)[item - LATER]);
    if (item < GIVEN) return this.round(this.rounds[this.rounds.filter(one => !one.later).length + item + 1]);
    if (item === GIVEN) return this.given();
    if (item === DRAFT) return this.draft;
    return this.turn(item);
  }

  // one message of another round of the conversation
  round({role, text, run_id, at}) {
    return el(
      "div.entry.round" + (role === "user" ? ".user" : ".model"),
      el(
        "div.line",
        el("b", role === "user" ? "user" : "answer"),
        link("#run/" + encode(run_id), "its run"),
        el("span.sub.small.end", when(at)),
      ),
      saidText(text),
    );
  }

  given() {
    const {line, story} = this.run,
      system = el("details.under", {ontoggle: () => this.list.later()}, el("summary.more", "instructions"));
    const node = el(
      "div.entry.user",
      el("div.line", el("b", "user"), el("span.sub.small.end", when(line.created_at))),
      saidText(line.objective ?? "(the objective was erased)"),
      story.criteria.length > 0 &&
        el(
          "ul.sub",
          story.criteria.map(item => el("li", "○ ", item.criterion)),
        ),
      documentList(story.documents.filter(item => item.given)),
      system,
    );
    const first = this.run.rows.findIndex(row => row.model);
    system.hidden = true;
    if (first >= 0 && first < 256)
      this.run.row(first).then(
        found => {
          const texts = found.row.prompt.filter((_, k) => found.row.roles[k] === "system").map(name => stored(found, name).text);
          if (!texts[0]) return;
          system.append(...texts.map(plain));
          system.hidden = false;
          this.list.later();
        },
        () => 0,
      );
    return node;
  }

  // who did it, when, how long it took, and what it was
  turn(i) {
    const {run} = this,
      row = run.rows[i],
      lane = run.lane(i),
      call = run.calls[run.callAt(i)],
      step = run.steps[run.stepOf[i]],
      before = this.items[this.place(i) - 1],
      end = ENDS.includes(row.dest);
    const long = lane === "person" ? run.since(i) : run.took(i),
      what = kindOf(row, lane);
    const body = el("div.body");
    const node = el(
      "div.entry." +
        (lane || "code") +
        (run.off(i) || row.dest === "Failed" ? ".off" : row.marks.includes("waits") ? ".asks-turn" : ""),
      step.step > 0 && (before === undefined || before < step.first) && el("h3.step", `Step ${num(step.step)}`),
      el(
        "div.line",
        el("b", cut(speakerOf(row, lane, call), 120)),
        what && el("span.sub.small", what),
        lane === "tool" && call && !row.marks.length && chip(labelOf(call)),
        lane !== "person" && row.marks.map(markChip),
        el("span.sub.small.end", clock(row.at) + (long > 999 ? ` · ${lane === "person" ? "after " : ""}${dur(long)}` : "")),
        link(rowHash(run, i), `row ${i}`),
      ),
      body,
    );
    const fill = parts => {
      body.replaceChildren();
      add(body, parts);
      this.list.later();
    };
    fill(this.known(i, row, lane, call, end));
    if (lane === "model" || lane === "tool" || row.marks.includes("waits"))
      run.row(i).then(
        found =>
          fill([this.behind(i, found, lane, call), this.known(i, row, lane, call, end, stored(found, found.row.reply).text)]),
        error => fill([el("p.sub", `Its texts cannot be shown: ${error.message}`), this.known(i, row, lane, call, end)]),
      );
    return node;
  }

  // what the story itself says of the row, and what is not said in the reply
  known(i, row, lane, call, end, reply = "") {
    const {run} = this,
      asks = row.marks.includes("waits"),
      lost = lane === "tool" && call?.outcome !== "ok" ? call?.result : "";
    return [
      asks && !lane && call && valueList(argsOf(run, call)),
      lost && run.off(i) && saidText(lost, ".bad"),
      row.said &&
        row.said !== lost &&
        !reply?.includes(JSON.stringify(row.said).slice(1, -1)) &&
        saidText(row.said, run.off(i) ? ".bad" : ""),
      lane === "model" && run.marked(i, ["invalid"]) && !row.said && el("p.bad", row.came),
      asks && i === run.n - 1 && live && link("#inbox", "to the inbox"),
      end &&
        i === run.n - 1 && [
          el("p." + (row.dest === "Failed" ? "bad" : "ok"), verdictWords(run.line)),
          run.story.answer && saidText(run.story.answer),
        ],
    ];
  }

  // what its texts say: thought and reply, arguments and results, the question
  behind(i, found, lane, call) {
    const {row} = found,
      text = name => stored(found, name).text,
      asks = this.run.marked(i, ["waits"]);
    const result = row.documents.map(([, name]) => stored(found, name));
    return [
      row.thought && el("details.under", {ontoggle: () => this.list.later()}, el("summary.more", "thought"), plain(row.thought)),
      lane === "model" &&
        row.reply &&
        (text(row.reply) != null ? replied(text(row.reply)) : el("p.sub.gone", stored(found, row.reply).gone)),
      lane === "tool" && call && valueList(argsOf(this.run, call)),
      lane === "tool" &&
        result.map(one => (one.text != null ? el("div.result", saidText(indented(one.text, true))) : el("p.sub.gone", one.gone))),
      asks && row.set && questionOf(text(row.set)),
    ];
  }
}

// the words of a question, as the row that asks has set it
function questionOf(text) {
  try {
    const {message} = JSON.parse(text).question;
    return message && saidText(message);
  } catch {
    return null;
  }
}
