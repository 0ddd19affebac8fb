// Many runs at once: success, latency, waits and cost over time, and by reason, tool, model, day or a name of the metadata.

const BUCKETS = 48;
const WIDTHS = [1, 5, 15, 60, 180, 360, 720, 1440, 4320, 10080, 43200].map(minutes => minutes * 6e7);
const OUTCOMES = ["done", "failed", "waiting", "running"];

// until when what waits has waited: on a live page now, in a file its last moment
let until = 0;
const lastMoment = lines => lines.reduce((at, line) => Math.max(at, line.created_at, line.ended_at || 0, line.asked_at || 0), 0);
const waitOf = line => line.waited_us + (line.asked_at ? Math.max(0, until - line.asked_at) : 0);
const ended = line => line.ended_at != null;
// from its creation to its end, without what it waited for people
const latency = line => Math.max(0, line.ended_at - line.created_at - line.waited_us);
// the value that a share of sorted values is at most
const quantile = (sorted, share) => sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * share))];
const sortedOf = (lines, value) => Float64Array.from(lines, value).sort();
const percent = share => Math.round(share * 100) + " %";

function figuresOf(lines) {
  const over = lines.filter(ended),
    waits = lines.filter(line => waitOf(line) > 0);
  return {
    n: lines.length,
    ended: over.length,
    count: Object.fromEntries(OUTCOMES.map(name => [name, lines.filter(line => line.status === name).length])),
    success: over.length ? over.filter(line => line.status === "done").length / over.length : null,
    latency: sortedOf(over, latency),
    wait: sortedOf(waits, waitOf),
    cost: lines.reduce((sum, line) => sum + line.cost_micro, 0),
  };
}

// lines in buckets of a round width, from the oldest to the newest
function buckets(lines) {
  let first = Infinity,
    last = -Infinity;
  for (const {created_at: at} of lines) [first, last] = [Math.min(first, at), Math.max(last, at)];
  const width = WIDTHS.find(one => (last - first) / one < BUCKETS) ?? Math.ceil((last - first) / BUCKETS / 864e8) * 864e8,
    begin = Math.floor(first / width) * width,
    found = Array.from({length: Math.floor((last - begin) / width) + 1}, (_, k) => ({at: begin + k * width, lines: []}));
  for (const line of lines) found[Math.floor((line.created_at - begin) / width)].lines.push(line);
  return {width, list: found.map(one => ({at: one.at, ...figuresOf(one.lines)}))};
}

const HIGH = 92,
  SIDE = 68;

// a bar for each bucket, of the layers one above the other; a `mark` is a line at its own value
function chart(name, note, {width, list}, layers, told) {
  const WIDE = innerWidth < 760 ? 334 : 540, // about as it is shown, so that its words are as large as others
    step = (WIDE - SIDE) / list.length,
    most = Math.max(
      ...list.map(one =>
        layers.reduce((sum, layer) => (layer.mark ? Math.max(sum, layer.value(one)) : sum + layer.value(one)), 0),
      ),
    ),
    y = value => 8 + (HIGH - 8) * (1 - (most ? value / most : 0)),
    stamp = us =>
      width >= 864e8 ? day(us).slice(5) : width >= 36e8 ? day(us).slice(5) + " " + clock(us).slice(0, 5) : clock(us).slice(0, 5);
  const bar = (one, k) => {
    let base = 0;
    const x = SIDE + k * step + Math.min(1, step / 6),
      wide = Math.max(1, step - Math.min(2, step / 3));
    return layers.map(layer => {
      const value = layer.value(one);
      if (!value) return null;
      if (layer.mark) return sv("rect." + layer.tone, {x, y: y(value) - 1, width: wide, height: 2});
      base += value;
      return sv("rect." + layer.tone, {x, y: y(base), width: wide, height: Math.max(1, y(base - value) - y(base))});
    });
  };
  const bars = list.map((one, k) =>
    sv(
      "g",
      sv("title", `${when(one.at).slice(0, 16)}: ${one.n ? told(one) : "no runs"}`),
      sv("rect.whole", {x: SIDE + k * step, y: 0, width: step, height: HIGH}),
      bar(one, k),
    ),
  );
  const svg = sv(
    "svg",
    {
      viewBox: `0 0 ${WIDE} ${HIGH + 18}`,
      role: "img",
      "aria-label": `${name} over time, ${list.length} spans of ${dur(width)} each; the figures are in the table by time`,
    },
    sv("line.rule", {x1: SIDE, x2: WIDE, y1: HIGH + 0.5, y2: HIGH + 0.5}),
    sv("line.rule.light", {x1: SIDE, x2: WIDE, y1: 8.5, y2: 8.5}),
    sv("text", {x: SIDE - 6, y: 12, "text-anchor": "end"}, layers[0].told(most)),
    bars,
    sv("text", {x: SIDE, y: HIGH + 14}, stamp(list[0].at)),
    list.length > 1 && sv("text", {x: WIDE, y: HIGH + 14, "text-anchor": "end"}, stamp(list.at(-1).at + width)),
  );
  return el("section.card.chart", {"aria-label": name}, el("div.bar", el("h2", name), el("span.sub.small", note)), svg);
}

const swatch = (tone, told) => el("span.unit", el("i.key." + tone, {"aria-hidden": "true"}), told, " ");
const swatches = sorted =>
  sorted.length
    ? [swatch("half", `half within ${dur(quantile(sorted, 0.5))}`), swatch("most", `95 % within ${dur(quantile(sorted, 0.95))}`)]
    : "none";
const spread = sorted =>
  sorted.length ? `half within ${dur(quantile(sorted, 0.5))}, 95 % within ${dur(quantile(sorted, 0.95))}` : "none";
const shareTold = one => (one.success === null ? "none has ended" : `${percent(one.success)} of the ended runs are done`);

function charts(lines) {
  const spans = buckets(lines),
    all = figuresOf(lines),
    halves = name => [
      {tone: "half", value: one => quantile(one[name], 0.5) || 0, told: dur},
      {tone: "most", value: one => quantile(one[name], 0.95) || 0, told: dur, mark: true},
    ];
  return el(
    "div.charts",
    chart(
      "Success",
      [
        all.success !== null && el("span.unit", percent(all.success), " "),
        OUTCOMES.filter(name => all.count[name]).map(name => swatch(name, `${num(all.count[name])} ${name}`)),
      ],
      spans,
      OUTCOMES.map(name => ({tone: name, value: one => one.count[name], told: value => num(Math.round(value))})),
      one => `${plural(one.n, "run")}, ${shareTold(one)}` + (one.count.failed ? `, ${num(one.count.failed)} failed` : ""),
    ),
    chart("Latency", swatches(all.latency), spans, halves("latency"), one => spread(one.latency)),
    chart(
      "Wait for a person",
      swatches(all.wait),
      spans,
      halves("wait"),
      one => `${plural(one.wait.length, "run")} waited: ${spread(one.wait)}`,
    ),
    chart(
      "Cost",
      all.cost ? `${money(all.cost)} in all, ${money(all.cost / all.n)} a run` : "no price is known",
      spans,
      [{tone: "half", value: one => one.cost, told: money}],
      one => money(one.cost),
    ),
  );
}

// what runs can be told apart by: a name, the values of a line, and the filter that finds the runs of one value
function groupings(lines) {
  const told = new Set(lines.flatMap(line => Object.keys(line.metadata)));
  return {
    reason: [line => [line.reason || line.status], name => (OUTCOMES.includes(name) ? {status: name} : {reason: name})],
    tool: [line => line.tools, name => ({tool: name})],
    model: [line => [line.model].filter(Boolean), name => ({q: exactly(name)})],
    time: [line => [day(line.created_at)], name => ({from: name, to: name})],
    ...Object.fromEntries(
      [...told]
        .sort()
        .slice(0, 12)
        .map(key => [
          key + ":",
          [
            line => (own(line.metadata, key) == null ? [] : [asText(line.metadata[key])]),
            name => ({q: exactly(`${key}:${name}`)}),
          ],
        ]),
    ),
  };
}

const GROUPS_SHOWN = 40;

function table(lines, by, pick) {
  const [values, filter] = groupings(lines)[by],
    groups = new Map();
  for (const line of lines)
    for (const value of values(line)) groups.has(value) ? groups.get(value).push(line) : groups.set(value, [line]);
  const list = [...groups].map(([name, ones]) => ({name, ...figuresOf(ones)}));
  list.sort(by === "time" ? (a, b) => (a.name < b.name ? 1 : -1) : (a, b) => b.n - a.n || (a.name < b.name ? -1 : 1));
  const cell = (sorted, share) => (sorted.length ? dur(quantile(sorted, share)) : "–");
  return el(
    "div.wide",
    {tabindex: "0", role: "region", "aria-label": "Figures by " + by},
    el(
      "table",
      el(
        "thead",
        el(
          "tr",
          [by, "runs", "done", "failed", "success", "latency, half", "95 %", "wait, half", "cost a run", "cost"].map(text =>
            el("th", {scope: "col"}, text),
          ),
        ),
      ),
      el(
        "tbody",
        list.slice(0, GROUPS_SHOWN).map(one =>
          el(
            "tr",
            el(
              "th",
              {scope: "row"},
              button(".more", () => pick(filter(one.name)), cut(one.name, 80)),
            ),
            [
              num(one.n),
              num(one.count.done),
              num(one.count.failed),
              one.success === null ? "–" : percent(one.success),
              cell(one.latency, 0.5),
              cell(one.latency, 0.95),
              cell(one.wait, 0.5),
              money(one.cost / one.n),
              money(one.cost),
            ].map(text => el("td", text)),
          ),
        ),
      ),
    ),
    !list.length && el("p.sub", "Nothing."),
    list.length > GROUPS_SHOWN && el("p.sub", `and ${num(list.length - GROUPS_SHOWN)} more`),
  );
}

class Overview {
  // pick(filter) is called with the fields of a filter that was chosen
  constructor(pick) {
    Object.assign(this, {pick, by: "reason"});
    this.node = el("div.overview");
  }

  fill(lines) {
    if (!lines.length) return this.node.replaceChildren(el("p.sub", "No runs."));
    until = live ? Date.now() * 1000 : lastMoment(lines);
    const names = Object.keys(groupings(lines));
    if (!names.includes(this.by)) this.by = "reason";
    const focused = this.node.contains(document.activeElement) && document.activeElement.textContent;
    const choose = name => {
      this.by = name;
      this.fill(lines);
    };
    this.node.replaceChildren(
      charts(lines),
      el(
        "section.card.blk",
        {"aria-label": "By"},
        el(
          "div.seg",
          {role: "group", "aria-label": "By"},
          names.map(name => button("", () => choose(name), {"aria-pressed": String(name === this.by)}, name.replace(/:$/, ""))),
        ),
        table(lines, this.by, this.pick),
      ),
    );
    if (focused) [...this.node.querySelectorAll("button")].find(one => one.textContent === focused)?.focus();
  }
}
