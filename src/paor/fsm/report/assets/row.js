// One row: why it was taken, what was new in its prompt, what came back, counters and hashes. Built for the open row only.

const FORWARD = new Set(["select", "specify", "execute", "finish"]);
const BACK = new Set(["reselect", "respecify", "refuse", "withhold", "retry_step", "reassess", "retry", "fail", "wait"]);

// "row 4" in words of the page as a link
const linkedRows = (run, text) =>
  String(text)
    .split(/(\brow \d+\b)/)
    .map((piece, k) => (k % 2 && Number(piece.slice(4)) < run.n ? link(rowHash(run, piece.slice(4)), piece) : piece));

// every row of the table that could be taken here, in order, and what became of it
function candidates(run, i, row) {
  const {source, trigger, dest} = run.rows[i],
    waiting = i > 0 && run.rows[i - 1].trigger === "wait";
  const here = item => item.source === source && (item.when === "both" || (item.when === "waiting") === waiting);
  let reached = false;
  return run.data.machine.rows.filter(here).map(item => {
    const guards = item.guards.map(([name, wanted]) => {
      const value = reached ? undefined : own(row.guards, name);
      return {
        name,
        wanted,
        value,
        stops: value !== undefined && value !== wanted,
        fact: own(row.words, name) || own(run.data.machine.guards, name) || "",
      };
    });
    const fits = !reached && item.trigger === trigger && item.dest === dest && !guards.some(guard => guard.stops);
    const fate = reached ? "later" : fits ? "taken" : "kept";
    reached ||= fits;
    return {...item, guards, fate};
  });
}

function guardLine(run, guard) {
  const tone = guard.stops ? "stop" : guard.value === undefined ? "open" : "hold";
  const told = guard.name === "hard_stop" ? guard.fact.split("; ") : [guard.fact];
  return el(
    "div.g." + tone,
    el(
      "span.m",
      {"aria-label": {stop: "closed:", hold: "holds:", open: "not looked at:"}[tone], role: "img"},
      {stop: "×", hold: "✓", open: "·"}[tone],
    ),
    el(
      "div",
      el("b", (guard.wanted ? "" : "not ") + guard.name),
      " ",
      el("span.sub", linkedRows(run, told[0])),
      told.length > 1 && el("details", el("summary.more", "budgets"), el("span.sub", guard.fact)),
    ),
  );
}

function whyPart(run, i, row) {
  const list = candidates(run, i, row),
    taken = list.find(item => item.fate === "taken"),
    kept = list.filter(item => item.fate === "kept");
  const later = list.filter(item => item.fate === "later"),
    back = BACK.has(run.rows[i].trigger);
  const host = item => item.host && el("span.chip", "host");
  const tried = item => {
    const stops = item.guards.filter(guard => guard.stops),
      rest = item.guards.filter(guard => !guard.stops);
    return el(
      "li.kept" + (back && FORWARD.has(item.trigger) ? ".way" : ""),
      el("div", el("b", item.trigger), el("div.sub.small", "→ " + item.dest), host(item)),
      el(
        "div",
        stops.map(guard => guardLine(run, guard)),
        !stops.length && el("span.sub.small", "no guard of it was recorded"),
        rest.length > 0 &&
          el(
            "details",
            el("summary.more", plural(rest.length, "other guard")),
            rest.map(guard => guardLine(run, guard)),
          ),
      ),
    );
  };
  return part(
    "Why this row",
    null,
    taken
      ? el(
          "div.taken",
          el("div.line", el("b", taken.trigger), el("span.sub", "→ " + taken.dest), host(taken), el("span.tag", "taken")),
          taken.meaning && el("p.sub.small", taken.meaning),
          taken.guards.map(guard => guardLine(run, guard)),
        )
      : el(
          "p.sub",
          "The table in this page has no row for it; the values of its guards: " +
            (Object.entries(row.guards)
              .map(([name, value]) => (value ? "" : "not ") + name)
              .join(", ") || "none") +
            ".",
        ),
    kept.length > 0 && [el("h3", "Tried before it, and why not"), el("ul", kept.map(tried))],
    later.length > 0 && el("p.sub.small", "Not tried: " + later.map(item => item.trigger).join(", ")),
    row.note && el("p.sub.small", row.note),
  );
}

// a stored text, or what there is instead of it
function stored(found, name) {
  if (!name) return {};
  const text = own(found.texts, name);
  if (!text) return {gone: "not in this file"};
  if (text.text != null) return {text: text.text};
  return {gone: text.bytes ? `${num(text.bytes)} bytes of ${text.type}` : "erased"};
}
const shownText = (found, name) => {
  const {text, gone} = stored(found, name);
  return gone ? el("p.sub.gone", gone) : plain(indented(text, true));
};
const promptOf = found =>
  found.row.prompt
    .map((name, i) => {
      const {text, gone} = stored(found, name),
        role = found.row.roles && found.row.roles[i];
      return (role ? `[${role}]\n` : "") + (gone ? `(${gone})` : text);
    })
    .join("\n\n");

async function promptPart(run, found) {
  const now = promptOf(found),
    earlier = found.row.previous;
  if (earlier == null) return part("Prompt", "first of its kind", plain(now));
  let list;
  try {
    list = lineDiff(promptOf(await run.row(earlier)), now);
  } catch (error) {
    return part("Prompt", error.message, plain(now));
  }
  const fresh = list.filter(line => line.mark === "new").length,
    holder = el("div", block(folded(list)));
  let whole = false;
  const toggle = button(
    ".more",
    () => {
      whole = !whole;
      holder.replaceChildren(block(whole ? list : folded(list)));
      toggle.textContent = whole ? "changes only" : "whole prompt";
    },
    "whole prompt",
  );
  return part("Prompt", [plural(fresh, "new line") + " since ", link(rowHash(run, earlier), "row " + earlier)], holder, toggle);
}

function documentsPart(run, found) {
  const texts = new Map(found.row.documents),
    list = run.story.documents.filter(item => texts.has(item.number));
  return (
    list.length > 0 &&
    part(
      "Documents",
      num(list.length),
      documentList(list),
      list.map(
        item =>
          own(found.texts, texts.get(item.number))?.text != null &&
          el("details", el("summary.more", item.label), shownText(found, texts.get(item.number))),
      ),
    )
  );
}
const documentList = list =>
  el(
    "ul.docs",
    list.map(item =>
      el(
        "li",
        el("b", item.label || item.name),
        " ",
        el(
          "span.sub",
          [
            item.name !== item.label && item.name,
            item.mime,
            item.erased ? "erased" : num(item.bytes) + " bytes",
            item.given && "given",
          ]
            .filter(Boolean)
            .join(" · "),
        ),
        el("div.mono.sub.wrap", item.digest),
      ),
    ),
  );

// counters of the row against the limits of the run
function countersPart(run, i, row) {
  const left = new Map(row.counters),
    sum = (...names) => run.rows.slice(0, i + 1).reduce((all, one) => names.reduce((part, name) => part + one[name], all), 0);
  const used = {
    step: () => run.rows[i].step,
    tokens: () => sum("tokens_in", "tokens_out"),
    time: () => sum("time_us") / 1e6,
    cost: () => sum("cost_micro") / 1e6,
  };
  const lines = run.story.used.map(item => {
    const value = own(used, item.counter) ? used[item.counter]() : left.get(item.counter) || 0;
    left.delete(item.counter);
    return (item.allowed != null || value > 0) && meter(item.name, value, item.allowed, own(UNITS, item.unit) || num);
  });
  const rest = [...left].map(([name, value]) => [name, asText(value)]);
  const told = run.rows[i];
  const spent = [
    [
      "this row",
      [
        dur(run.took(i)),
        told.tokens_in + told.tokens_out ? `${num(told.tokens_in)} in, ${num(told.tokens_out)} out` : "",
        told.cost_micro ? money(told.cost_micro) : "",
      ]
        .filter(Boolean)
        .join(" · "),
    ],
  ];
  return part("Counters and budget", null, el("div.meters", lines), pairs([...spent, ...rest]));
}

function askedOf(run, i) {
  const {asked, model, attempt, tool} = run.rows[i];
  if (model) return `${asked} from ${model}${attempt ? `, attempt ${attempt + 1}` : ""}`;
  return asked === "tool" ? `${tool} (${run.calls[run.callAt(i)]?.effect})` : asked === "recall" ? "stored texts" : asked;
}

function detailsOf(run, i, found, prompt, actions) {
  const {row} = found,
    told = run.rows[i],
    tokens = told.tokens_in + told.tokens_out;
  const parts = [
    el(
      "div.blk",
      pairs([
        ["asked for", askedOf(run, i)],
        ["came back", told.came + (told.actor ? ` by ${told.actor}` : "") + (told.said ? `: ${told.said}` : "")],
        ["spec", run.amended.has(i) && "amended from this row on"],
        ["erased", row.erased && "some of its texts; their digests stand in the row"],
        ["row of", i < run.shared && "the run that this one was forked from"],
      ]),
    ),
    whyPart(run, i, row),
    callPart(run, i),
    prompt,
    row.answer && part("Answer", null, shownText(found, row.answer)),
    row.thought && part("Thought", "as the provider gave it", plain(row.thought)),
    row.reply &&
      part("Reply", tokens ? `${num(told.tokens_in)} in, ${num(told.tokens_out)} out` : null, shownText(found, row.reply)),
    (row.inner || []).length > 0 &&
      part(
        "Texts within the call",
        num(row.inner.length),
        row.inner.flat().map(name => shownText(found, name)),
      ),
    row.set && part("What was read", null, shownText(found, row.set)),
    documentsPart(run, found),
    countersPart(run, i, row),
    row.values && part("Values of the host", null, shownText(found, row.values)),
    el(
      "div.blk",
      pairs([
        ["row hash", hashes(row.hash)],
        ["before", el("span.mono.sub", row.prev)],
      ]),
      el("details", el("summary.more", "what is hashed"), plain(row.canonical)),
      actions,
    ),
  ];
  return parts.filter(Boolean);
}

// the call that the row belongs to: complete arguments, key, and who decided on it
function callPart(run, i) {
  const call = run.calls[run.callAt(i)];
  if (!call) return null;
  const args = argsOf(run, call);
  const decided = call.decided.map(one =>
    el(
      "div",
      decisionOf(one),
      ` at ${clock(one.at)}`,
      one.actor && ` by ${one.actor}`,
      one.reason && `: ${one.reason}`,
      one.seq != null && [" ", link(rowHash(run, one.seq), `row ${one.seq}`)],
    ),
  );
  return part(
    "Call",
    chip(labelOf(call)),
    args.length > 0 &&
      el(
        "div.exact",
        el(
          "dl",
          args.map(([name, value]) => [el("dt", name), el("dd.mono", value)]),
        ),
      ),
    pairs([
      ["tool", [el("b", call.tool || "(erased)"), call.effect && ` ${call.effect}`]],
      ["result", call.result],
      ["decided", decided.length > 0 && decided],
      ["cost", costOf(run, call) > 0 && money(costOf(run, call))],
      ["key", call.key && hashes(call.key)],
      ["begun by", call.caller],
    ]),
  );
}

class RowPane {
  constructor(run) {
    this.run = run;
    this.title = el("h2");
    this.number = el("span.sub");
    this.time = el("span.sub.small.end");
    this.way = el("p.sub");
    this.jumps = el("div.jumps");
    this.body = el("div");
    this.box = el(
      "div.scroll",
      {tabindex: "0", role: "region", "aria-label": "Details of the row"},
      el("div.top", el("div.line", this.title, this.number, this.time), this.way, this.jumps),
      this.body,
    );
    this.card = el("section.card.pane.detail", {id: "detail", tabindex: "-1", "aria-label": "Selected row"}, this.box);
  }

  // the head at once, the rest when its chunk is there; a later call wins
  async show(i, actions) {
    const run = this.run,
      turn = (this.turn = (this.turn || 0) + 1);
    this.at = i;
    this.card.classList.toggle("doubted", run.bad >= 0 && i >= run.bad);
    const {trigger, source, dest, at} = run.rows[i];
    for (const [node, text] of [
      [this.title, trigger],
      [this.number, `row ${num(i)}`],
      [this.time, clock(at) + (run.took(i) > 999 ? " · " + dur(run.took(i)) : "")],
      [this.way, `${source} → ${dest}`],
    ])
      node.replaceChildren(...visible(text));
    try {
      const found = await run.row(i);
      if (turn !== this.turn) return;
      const prompt = found.row.prompt.length ? await promptPart(run, found) : null;
      if (turn !== this.turn) return;
      this.fill(detailsOf(run, i, found, prompt, actions && actions(i)));
    } catch (error) {
      if (turn === this.turn) this.fill([el("div.blk", el("p.bad", `Row ${i} cannot be shown: ${error.message}`))]);
    }
  }

  fill(parts) {
    this.body.replaceChildren(...parts);
    this.card.dataset.shown = this.at;
    this.box.scrollTop = 0;
    this.jumps.replaceChildren(
      ...[...this.body.children]
        .filter(node => node.matches(".part"))
        .map(node => {
          const name = node.querySelector(".name").textContent;
          return button(
            ".more",
            () => {
              node.open = true;
              this.box.scrollTop = node.offsetTop - this.box.firstChild.offsetHeight - this.box.offsetTop;
              node.scrollIntoView({block: "nearest"});
            },
            {
              "Why this row": "Why",
              "Counters and budget": "Counters",
              "What was read": "Read",
              "Texts within the call": "Within",
              "Values of the host": "Values",
            }[name] || name,
          );
        }),
    );
  }
}
