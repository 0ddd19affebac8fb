// Two runs side by side up to their first difference, its cause on top.

const AFTER = 40;

function sideCard(run, other, told) {
  const {line} = run,
    more = (name, value, his) => [name, el("span" + (value === his ? "" : ".differs"), value)];
  return el(
    "section.card.side",
    {"aria-label": told},
    el("div.line", el("span.chip", told), el("span.pill." + toneOf(line), verdictWords(line))),
    el("h2", link("#run/" + encode(run.id), cut(line.objective ?? "(erased)", 300))),
    pairs([
      ["run", hashes(run.id)],
      more("model", line.model, other.line.model),
      more("rows", num(run.n), num(other.n)),
      more("steps", num(line.steps), num(other.line.steps)),
      more("tokens", num(line.tokens), num(other.line.tokens)),
      more("cost", money(line.cost_micro), money(other.line.cost_micro)),
      more("worked", dur(line.time_us), dur(other.line.time_us)),
    ]),
  );
}

// the rows of both from the difference on, a pair a line
function pairedRows(left, right, seq) {
  const cell = (run, i, same) =>
    i < run.n
      ? el(
          "td" + (same ? "" : ".differs"),
          link(`#run/${encode(run.id)}/row-${i}`, run.rows[i].trigger),
          el("span.sub", " → " + run.rows[i].dest),
          run.rows[i].tool && el("span.sub.small", " " + cut(run.rows[i].tool, 60)),
        )
      : el("td.sub", "no row");
  const rows = [],
    end = Math.max(left.n, right.n),
    from = Math.max(0, seq - 2);
  for (let i = from; i < Math.min(end, seq + AFTER); i += 1) {
    const same = i < left.n && i < right.n && left.edge(i) === right.edge(i) && left.rows[i].tool === right.rows[i].tool;
    rows.push(
      el("tr" + (i === seq ? ".first" : ""), el("th", {scope: "row"}, num(i)), cell(left, i, same), cell(right, i, same)),
    );
  }
  return el(
    "section.card.pairs",
    {"aria-label": "Rows side by side"},
    from > 0 && el("p.sub", `rows 0 to ${num(from - 1)} are the same`),
    el(
      "table",
      el("thead", el("tr", el("th", {scope: "col"}, "row"), el("th", {scope: "col"}, "left"), el("th", {scope: "col"}, "right"))),
      el("tbody", rows),
    ),
    end > seq + AFTER && el("p.sub", `and ${num(end - seq - AFTER)} more rows`),
  );
}

// what the row of the difference holds in both runs, as a difference of lines
async function rowDifference(left, right, found) {
  if (found.seq == null) return null;
  const blocks = [],
    both = found.seq < left.n && found.seq < right.n;
  const whole = both && /^(request\.prompt|outcome\.reply)/.test(found.field); // shown below as a whole
  if (!whole && (found.left_text || found.right_text))
    blocks.push(
      el("h3", found.line ? `${found.field}, line ${num(found.line)}` : found.field),
      block(lineDiff(found.left_text || "", found.right_text || "")),
    );
  if (both) {
    const [one, two] = await Promise.all([left.row(found.seq), right.row(found.seq)]);
    const text = (item, name) => (name ? (stored(item, name).text ?? "(erased)") : "");
    for (const [name, a, b] of [
      ["Prompt", promptOf(one), promptOf(two)],
      ["Reply", text(one, one.row.reply), text(two, two.row.reply)],
    ]) {
      if (a !== b) blocks.push(el("h3", name, el("span.sub", " struck out: left, marked: right")), block(folded(lineDiff(a, b))));
    }
  }
  return blocks.length > 0 && el("section.card.blk", {"aria-label": "The row that differs"}, blocks);
}

// of the two that a file is about, or of two of a live journal
async function compareView(...ids) {
  const found = await load(["diff", ...ids].join("/")),
    [left, right] = await Promise.all([openRun(found.left, true), openRun(found.right, true)]);
  const box = el("main.page", {tabindex: "-1"}),
    why = found.identical ? "Nothing differs but ids, times and salts." : found.detail;
  const [one, two] = [left, right].map(run => ["done", "failed"].includes(run.line.status));
  const ends =
    one && two
      ? found.same_end
        ? "both end alike"
        : "they end differently"
      : one || two
        ? "one of them has not ended"
        : "neither has ended";
  const answers =
    left.story.answer == null && right.story.answer == null ? "no answer" : found.same_answer ? "same answer" : "another answer";
  const notes = [
    found.shared > 0 && `${plural(found.shared, "row")} shared by reference`,
    found.identical && left.id === right.id ? null : ends,
    answers,
    found.decision_seq != null && found.decision_seq !== found.seq && `first other decision in row ${num(found.decision_seq)}`,
  ].filter(Boolean);
  add(box, [
    el("h1", found.identical ? "The same run twice" : `They part at row ${num(found.seq)}`),
    el(
      "section.card.cause",
      {"aria-label": "Cause"},
      !found.identical &&
        el(
          "p",
          el("span.chip.acc", found.cause || "difference"),
          " ",
          el("code", found.field),
          found.source && el("span.sub", ` in ${found.source}`),
        ),
      el("p.lead", why),
      (found.parts || []).some(name => !why.includes(name)) && el("p", "in ", names(found.parts)),
      el("p.sub", notes.join(" · ")),
      (found.others || []).length > 0 && el("p.sub", "differs, too, without being the cause: ", names(found.others)),
    ),
    el("div.sides", sideCard(left, right, "left"), sideCard(right, left, "right")),
    await rowDifference(left, right, found),
    !found.identical && pairedRows(left, right, found.seq),
  ]);
  return box;
}
