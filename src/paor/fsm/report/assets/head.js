// The verdict: did it work, and may I believe it.

const CRITERIA_SHOWN = 6;
const toneOf = line => ({done: "done", failed: "failed", waiting: "waits"})[line.status] || "runs";
const fact = (name, ...value) => el("div", el("dt", name), el("dd", ...value));

function criterion(item) {
  const [tone, sign, told] =
    item.met === true ? ["ok", "✓", "met"] : item.met === false ? ["bad", "×", "not met"] : ["sub", "○", "open"];
  return el(
    "li",
    el("span.sign." + tone, {role: "img", "aria-label": told}, sign),
    el("span", item.criterion, " ", item.evidence && el("span.sub.small", item.evidence)),
  );
}

function chainFact(chain) {
  const {state, checked, run} = chain;
  if (state === "checking") return el("span.sub", checked ? `checking ${Math.floor((checked / run.n) * 100)} %` : "checking…");
  if (state === "unable") return el("span.sub", chain.why ? `not checked: ${chain.why}` : "not checked: no WebCrypto here");
  if (state === "broken") return el("span.bad", `× row ${num(chain.bad)} does not fit`);
  return el(
    "span.ok",
    {title: "computed here from the rows; texts were checked when the page was written"},
    `✓ ${plural(run.n, "row")} ${run.n === 1 ? "holds" : "hold"}`,
  );
}

function replayFact(replay) {
  if (!replay) return null;
  const different = replay.count ?? replay.divergences.length,
    open = (replay.unchecked || []).length;
  const told = replay.identical
    ? el("span.ok", "✓ identical")
    : replay.error
      ? el("span.bad", "× not possible")
      : different
        ? el("span.bad", `× ${plural(different, "divergence")}`)
        : el("span", "not in full");
  return fact("replay", told, open > 0 && el("span.sub", ` ${num(open)} unchecked`));
}

// what replay, verify and the people before had to say, where there is anything
function findings(run) {
  const {replay, verify} = run.data,
    out = [];
  const shown = value => cut(asText(value), 200);
  if (replay?.error) out.push(el("li.bad", replay.error));
  for (const item of replay?.divergences || [])
    out.push(
      el(
        "li",
        item.seq >= 0 && link(rowHash(run, item.seq), `row ${item.seq}`),
        ` ${item.field}: recorded `,
        el("code", shown(item.recorded)),
        ", derived ",
        el("code", shown(item.derived)),
      ),
    );
  for (const item of replay?.unchecked || [])
    out.push(el("li.sub", `${item.seq < 0 ? "" : `row ${item.seq} `}${item.field} was not checked: ${item.why}`));
  for (const text of replay?.changed || []) out.push(el("li", text));
  for (const text of verify?.defects || []) out.push(el("li.bad", text));
  return (
    out.length > 0 &&
    el(
      "details.findings",
      {open: Boolean(replay?.error || replay?.divergences.length || verify?.defects.length)},
      el("summary", "What checking found"),
      el("ul", out.slice(0, 50), out.length > 50 && el("li.sub", `and ${num(out.length - 50)} more`)),
    )
  );
}

function waited(run) {
  let sum = 0;
  for (let i = 0; i < run.n; i += 1) if (run.marked(i, ["answered"])) sum += run.since(i);
  return sum;
}

class Head {
  constructor(run) {
    this.run = run;
    this.chain = el("span", {"aria-live": "polite"});
    this.node = el("div.verdict");
    this.fill();
  }

  fill() {
    const {data, line, story} = this.run,
      wait = waited(this.run),
      list = story.criteria;
    const facts = [
      fact(
        "chain",
        this.chain,
        " ",
        data.chain.head && el("span.mono.sub", {title: data.chain.head}, data.chain.head.slice(0, 8)),
      ),
      replayFact(data.replay),
      data.verify &&
        fact(
          "verify",
          data.verify.defects.length
            ? el("span.bad", `× ${plural(data.verify.count ?? data.verify.defects.length, "defect")}`)
            : el("span.ok", "✓"),
        ),
      line.model && fact("model", line.model),
      fact("began UTC", when(line.created_at)),
      fact("worked", dur(line.time_us)),
      wait > 0 && fact("waited for a person", dur(wait)),
      fact(
        "tokens",
        num(line.tokens) + (line.cached_share ? `, ${Math.round(100 * line.cached_share)} % of the input cached` : ""),
      ),
      fact("cost", money(line.cost_micro)),
      data.redacted && fact("texts", "redacted"),
    ];
    this.node.replaceChildren(
      el(
        "div.line",
        el("h1", line.objective ?? "(the objective was erased)"),
        el("span.pill." + toneOf(line), verdictWords(line)),
      ),
      list.length > 0 &&
        el(
          "ul.crit",
          {"aria-label": "Criteria"},
          list.slice(0, CRITERIA_SHOWN).map(criterion),
          list.length > CRITERIA_SHOWN &&
            el(
              "li",
              el(
                "details",
                el("summary.more", `${num(list.length - CRITERIA_SHOWN)} more`),
                el("ul.crit", list.slice(CRITERIA_SHOWN).map(criterion)),
              ),
            ),
        ),
      story.answer &&
        el(
          "details.answer",
          el("summary", el("span.sub", "answer"), el("span.first", cut(story.answer.split("\n")[0], 400))),
          plain(story.answer),
        ),
      el("dl.facts", facts),
      findings(this.run) || "",
    );
    for (const text of [...this.node.childNodes]) if (text.nodeType === 3) text.remove();
  }

  told(chain) {
    this.chain.replaceChildren(chainFact(chain));
  }
}

// "Done: every success criterion is met" with a dot in place of the colon
const verdictWords = line => cut(String(line.verdict || line.status).replace(/^([A-Z][a-z]+): /, "$1 · "), 160);
