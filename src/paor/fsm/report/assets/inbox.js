// What waits for a person: the exact call, why it asks, what the answer counts for, and the answer.

const KINDS = {approval: "approval", in_doubt: "in doubt", argument: "a value is missing", elicitation: "question"};
const NUMBER = /^-?(0|[1-9]\d*)(\.\d+)?([eE][+-]?\d+)?$/;

const titleOf = wait =>
  wait.kind === "approval" && wait.tool
    ? `May ${wait.tool} be called?`
    : wait.kind === "in_doubt" && wait.tool
      ? `Did ${wait.tool} happen?`
      : wait.message;

// one field of an answer: its input, and its JSON text as it was written; numbers are not read
function fieldOf(name, schema, required) {
  const type = Array.isArray(schema.type) ? schema.type.find(item => item !== "null") : schema.type,
    choices = schema.enum || (type === "boolean" ? [true, false] : null);
  let input,
    read = text => JSON.stringify(text),
    hint = schema.description || "";
  if (choices) {
    input = el(
      "select",
      el("option", {value: ""}, required ? "choose" : "not given"),
      choices.map((item, k) => el("option", {value: String(k)}, typeof item === "string" ? item : JSON.stringify(item))),
    );
    read = text => JSON.stringify(choices[Number(text)]);
  } else if (type === "number" || type === "integer") {
    input = el("input", {type: "text", inputmode: "decimal"});
    hint = [hint, boundsOf(schema)].filter(Boolean).join(", ");
    read = text => {
      if (!NUMBER.test(text.trim())) throw new Error(`${name} is a number`);
      return text.trim();
    };
  } else if (!type || type === "object" || type === "array") {
    input = el("textarea.mono", {rows: 2});
    hint ||= "JSON, or a text";
    read = text => {
      try {
        JSON.parse(text);
        return text;
      } catch {
        if (/^\s*[{["]/.test(text)) throw new Error(`${name} is not JSON`);
        return JSON.stringify(text);
      }
    };
  } else {
    input = el(schema.maxLength > 200 ? "textarea" : "input");
  }
  if (required) input.required = true;
  const label = el("label", el("span", name, hint && [": ", cut(hint, 300)]), input);
  return {
    label,
    json: () => {
      if (input.value === "" && (choices || !required)) {
        if (required) throw new Error(`${name} is needed`);
        return null;
      }
      if (input.value === "" && required && type !== "string") throw new Error(`${name} is needed`);
      return `${JSON.stringify(name)}:${read(input.value)}`;
    },
  };
}

// what a number may be, as its schema says
const BOUNDS = {minimum: "at least", exclusiveMinimum: "more than", maximum: "at most", exclusiveMaximum: "less than"};
const boundsOf = schema =>
  Object.entries(BOUNDS)
    .filter(([name]) => typeof own(schema, name) === "number")
    .map(([name, told]) => `${told} ${schema[name]}`)
    .join(", ");

async function send(path, body) {
  const answer = await fetch(live + path, {
    method: "POST",
    headers: {"Content-Type": "application/json", "X-Paor-Token": state.index.token || ""},
    body,
  }).catch(error => ({ok: false, status: 0, json: async () => ({error: `not sent: ${error.message}`})}));
  const told = await answer.json().catch(() => ({}));
  if (!answer.ok) throw new Error(told.error || `the server answered ${answer.status}`);
  return told;
}

class WaitCard {
  constructor(wait) {
    this.wait = wait;
    this.note = el("p.note", {hidden: true, role: "status"});
    const id = `q-${wait.run}-${wait.seq}`,
      may = live && state.index.actions !== false;
    const to = `#run/${encode(wait.run)}/row-${wait.seq}`;
    this.node = el(
      "article.card.ask",
      {"aria-labelledby": id},
      el(
        "div.line",
        el("span.chip.warn", own(KINDS, wait.kind) || wait.kind),
        el("span.sub.small", `waits since ${when(wait.since)}`, live && `, ${dur(Math.max(0, Date.now() * 1e3 - wait.since))}`),
        el("a.more.mono.end", {href: to}, `${wait.run.slice(0, 13)} row ${wait.seq}`),
      ),
      el("h2", {id}, titleOf(wait)),
      el("p.sub", wait.objective ?? "(the objective was erased)"),
      Object.keys(wait.metadata || {}).length > 0 && pairs(metaOf(wait.metadata)),
      wait.tool &&
        el(
          "div.exact",
          el(
            "div.tool",
            el("b", wait.tool),
            wait.effect && el("span.chip", wait.effect),
            wait.description && el("span.sub.small", wait.description),
          ),
          wait.arguments.length
            ? el(
                "dl",
                wait.arguments.map(([name, text]) => [el("dt", name), el("dd.mono", text)]),
              )
            : el("p.sub.none", "no arguments"),
        ),
      pairs([
        ["it says", wait.kind !== "approval" && titleOf(wait) !== wait.message && wait.message],
        ["conversation", wait.conversation],
        ["wanted for", wait.wanted_for],
        ["why it asks", wait.why.join("; ")],
        ["counts for", wait.counts_for],
        ["safe to retry?", wait.safe_to_retry],
        [
          "so far",
          `${plural(wait.rows, "row")}, ${num(wait.tokens)} tokens${wait.cost_micro ? `, cost ${money(wait.cost_micro)}` : ""}`,
        ],
        ["call key", wait.call_key && hashes(wait.call_key)],
      ]),
      (this.form = may ? this.fields() : null),
      this.note,
      el("details.cli", {open: !may}, el("summary", "Answer from a terminal"), el("code.block", wait.command)),
    );
  }

  fields() {
    const {wait} = this,
      {kind} = wait,
      schema = wait.schema || {},
      needed = schema.required || [];
    this.reason = el("input", {
      type: "text",
      maxlength: 2000,
      placeholder: kind === "in_doubt" ? "where you looked, and what stands there" : "why",
    });
    this.actor = el("input", {type: "text", maxlength: 200, placeholder: "your name", autocomplete: "name", required: true});
    const answer = (spec, name, json) => button(".btn" + spec, () => this.answer(name, json), name);
    let fields = [],
      buttons;
    if (kind === "approval") {
      const other = wait.given ? this.other() : null;
      if (other) fields = [other.part];
      buttons = [
        answer(".no", "Deny", () => '"answer":{"approve":false}'),
        answer(".pri", "Approve", () => `"answer":{"approve":true${other ? other.json() : ""}}`),
      ];
    } else if (kind === "in_doubt") {
      const result = fieldOf("result", {description: "what it returned, if it happened: JSON, or a text"}, false);
      fields = [result.label];
      const outcome = name => () => [`"outcome":"${name}"`, name === "done" && result.json()].filter(Boolean).join(",");
      buttons = [
        answer("", "It failed", outcome("fail")),
        answer("", "Try again", outcome("retry")),
        answer("", "It happened", outcome("done")),
      ];
    } else {
      const parts = Object.entries(schema.properties || {}).map(([name, part]) =>
        fieldOf(name, part && typeof part === "object" ? part : {}, needed.includes(name)),
      );
      const whole = parts.length ? null : fieldOf("answer", schema.type ? schema : {type: "string"}, true);
      fields = whole ? [whole.label] : parts.map(item => item.label);
      const json = whole
        ? () => whole.json()
        : () =>
            `"answer":{${parts
              .map(item => item.json())
              .filter(Boolean)
              .join(",")}}`;
      buttons = [answer(".no", "Decline", () => '"answer":{"action":"decline"}'), answer(".pri", "Answer", json)];
    }
    return el(
      "form.form",
      {onsubmit: event => event.preventDefault()},
      fields,
      el("label.half", el("span", "Reason, kept with the answer"), this.reason),
      !state.index.named && el("label.half", el("span", "Who answers"), this.actor),
      el("div.buttons", buttons),
    );
  }

  // all arguments of the call as JSON, to be approved instead of those that are asked about
  other() {
    const shown = indented(this.wait.given),
      input = el("textarea.mono", {rows: Math.min(12, shown.split("\n").length), spellcheck: "false"});
    input.value = shown;
    return {
      part: el(
        "details.other",
        el("summary", "Change the arguments"),
        el("label", el("span", "All arguments, as JSON: exactly these reach the tool, and the model is told"), input),
      ),
      json: () => {
        if (input.value === shown) return "";
        let read = null;
        try {
          read = JSON.parse(input.value);
        } catch {}
        if (!read || typeof read !== "object" || Array.isArray(read)) throw new Error("the arguments are no JSON object");
        return `,"arguments":${input.value}`;
      },
    };
  }

  // numbers go as they were written, so the body is put together as text
  async answer(name, json) {
    try {
      if (!state.index.named && !this.actor.value.trim()) {
        this.actor.focus();
        throw new Error("who answers? A name is needed");
      }
      const given = [
        ["reason", this.reason.value],
        ["actor", this.actor.value],
      ]
        .filter(([, text]) => text.trim())
        .map(([key, text]) => `,"${key}":${JSON.stringify(text)}`);
      const body = `{"name":${JSON.stringify(this.wait.name)},${json()}${given.join("")}}`;
      this.lock(true);
      this.tell(`${name}: sent. Its row has not come yet.`);
      this.sent = name;
      const told = await send("answer/" + encode(this.wait.run), body);
      this.next = told.next ? ` It goes on with: ${told.next}` : "";
    } catch (error) {
      this.sent = "";
      this.lock(false);
      this.tell(`Not answered: ${error.message}`, true);
    }
  }

  lock(on) {
    for (const item of this.form?.querySelectorAll("button,input,select,textarea") || []) item.disabled = on;
    this.node.classList.toggle("pending", on);
  }

  tell(text, bad) {
    this.note.hidden = false;
    this.note.classList.toggle("bad", Boolean(bad));
    this.note.replaceChildren(...visible(text));
  }

  // its question waits no more: say who has answered
  async settled() {
    if (this.over) return;
    this.over = true;
    this.lock(true);
    let who = "";
    try {
      const {story} = await load(`run/${this.wait.run}/${this.wait.seq}`),
        all = story.calls.flatMap(call => call.decided).filter(one => one.seq == null || one.seq > this.wait.seq);
      all.sort((a, b) => a.seq - b.seq);
      if (all.length) who = `${all[0].decision} by ${all[0].actor || "somebody"}${all[0].reason ? ": " + all[0].reason : ""}`;
    } catch {
      who = "";
    }
    this.tell(
      this.sent
        ? `${this.sent}: the row of your answer is there${who ? ", " + who : ""}.${this.next || ""}`
        : `Answered meanwhile${who ? ", " + who : " by somebody else"}. Nothing of yours was sent.`,
    );
    this.note.append(" ", link(`#run/${encode(this.wait.run)}/row-${this.wait.seq + 1}`, `row ${this.wait.seq + 1}`));
  }
}

class InboxView {
  constructor() {
    this.cards = new Map();
    const change = () => this.filter();
    this.tool = el("select", {name: "tool", onchange: change});
    this.told = el("input", {
      type: "search",
      name: "metadata",
      placeholder: "words, or tenant:acme",
      oninput: change,
    });
    this.filters = el(
      "div.filters",
      {role: "search"},
      el("label", el("span", "metadata"), this.told),
      el("label", el("span", "tool"), this.tool),
    );
    this.title = el("h1");
    this.asks = el("div.asks");
    this.before = el("div");
    this.box = el(
      "main.page.inbox",
      {tabindex: "-1"},
      this.title,
      el("p.sub", "These runs stand still until somebody answers. An answer is one row of the journal."),
      this.filters,
      this.asks,
      this.before,
    );
  }

  // what is chosen stands in the address
  open(query) {
    const given = new URLSearchParams(query);
    this.update(given.get("tool") || "");
    this.told.value = given.get("metadata") || "";
    this.filter(true);
  }

  filter(quiet) {
    const tool = this.tool.value,
      words = wordsOf(this.told.value),
      {waits} = state.index;
    let shown = 0;
    for (const card of this.cards.values()) {
      const text = [...metaWords(card.wait.metadata), card.wait.conversation].join("\n").toLowerCase();
      card.node.hidden = Boolean((tool && card.wait.tool !== tool) || !words.every(word => text.includes(word)));
      if (!card.node.hidden && !card.over) shown += 1;
    }
    const all = plural(waits.length, "question");
    this.title.textContent = !waits.length
      ? "Nothing waits"
      : shown < waits.length
        ? `${num(shown)} of ${all}`
        : `${all} ${waits.length === 1 ? "waits" : "wait"}`;
    const told = new URLSearchParams(
      [
        ["tool", tool],
        ["metadata", this.told.value],
      ].filter(([, text]) => text),
    ).toString();
    if (!quiet) remember("#inbox" + (told && "?" + told));
  }

  update(chosen = this.tool.value) {
    const {waits} = state.index,
      open = new Set();
    // the one that has waited longest first; nothing that is there is moved, somebody may be writing in it
    for (const wait of [...waits].sort((a, b) => a.since - b.since)) {
      const key = `${wait.run} ${wait.seq}`;
      open.add(key);
      if (this.cards.has(key)) continue;
      const card = new WaitCard(wait),
        later = [...this.cards.values()].filter(item => item.wait.since > wait.since);
      later.sort((a, b) => a.wait.since - b.wait.since);
      this.cards.set(key, card);
      this.asks.insertBefore(card.node, later.length ? later[0].node : null);
    }
    for (const [key, card] of this.cards) if (!open.has(key)) card.settled();
    const tools = [...new Set([...waits.map(wait => wait.tool), chosen].filter(Boolean))].sort();
    this.tool.replaceChildren(
      el("option", {value: ""}, "any"),
      ...tools.map(name => Object.assign(el("option", cut(name, 80)), {value: name})),
    );
    this.tool.value = chosen;
    this.filters.hidden = waits.length < 2 && !chosen && !this.told.value;
    this.filter(true);
    const run = state.view?.run,
      done = run ? run.calls.flatMap(call => call.decided.map(one => ({call, one}))) : [];
    this.before.replaceChildren(
      ...(done.length
        ? [
            el("h2", "Answered before in this run"),
            el(
              "ul.card.answered",
              done
                .slice(0, 200)
                .map(({call, one}) =>
                  el(
                    "li",
                    el("span.sub", clock(one.at)),
                    el("b", cut(call.tool, 120)),
                    el("span", cut(one.decision, 120)),
                    el("span.sub", cut([one.actor, one.reason].filter(Boolean).join(": "), 400)),
                    one.seq != null && link(rowHash(run, one.seq), `row ${one.seq}`),
                  ),
                ),
            ),
          ]
        : []),
    );
  }
}
