// Elements are made here and nowhere else: every text of a run passes `visible` or `spell` on its way into the page.

const SVG = "http://www.w3.org/2000/svg";
// what has no shape of its own or changes the order of its neighbours: control, format, bidi, lone surrogates, fillers
const UNSEEN = /(?![\n\t])[\p{C}\p{Zl}\p{Zp}\u034f\u115f\u1160\u17b4\u17b5\u3164\uffa0]/gu;
const INLINE_CHARS = 1500;
const MARKS = 2000;

const code = sign => "U+" + sign.codePointAt(0).toString(16).toUpperCase().padStart(4, "0");

// the text for an attribute or a title: what cannot be seen stands as its code
const spell = text => String(text).replace(UNSEEN, sign => "⟨" + code(sign) + "⟩");

// the first characters of a text, no pair of surrogates cut in two
function cut(text, most) {
  text = String(text);
  if (text.length <= most) return text;
  return text.slice(0, /[\ud800-\udbff]/.test(text[most - 1]) ? most - 1 : most) + "…";
}

// the nodes of a text: each character that cannot be seen is a small mark with its code
function visible(text) {
  const nodes = [];
  let from = 0;
  for (const found of text.matchAll(UNSEEN)) {
    if (nodes.length > MARKS) return [...nodes, text.slice(from).replace(UNSEEN, sign => " " + code(sign) + " ")];
    if (found.index > from) nodes.push(text.slice(from, found.index));
    const mark = document.createElement("span");
    mark.className = "mark";
    mark.textContent = code(found[0]);
    nodes.push(mark);
    from = found.index + found[0].length;
  }
  if (from < text.length) nodes.push(text.slice(from));
  return nodes;
}

function add(node, children) {
  for (const child of children.flat(9)) {
    if (child == null || child === false) continue;
    if (child instanceof Node) node.append(child);
    else if (node.namespaceURI === SVG) node.append(spell(child));
    else if (String(child).length <= INLINE_CHARS) node.append(...visible(String(child)));
    else node.append(...bounded(String(child)));
  }
  return node;
}

// the beginning of a long text, and a button that shows all of it
function bounded(text) {
  const all = make("button", ["more"], [{type: "button"}, `show all ${num(text.length)} characters`]);
  const part = make("span", [], []);
  part.append(...visible(cut(text, INLINE_CHARS)));
  all.addEventListener("click", event => {
    event.stopPropagation();
    part.replaceChildren(...visible(text));
    all.remove();
  });
  return [part, " ", all];
}

function make(tag, classes, rest, space) {
  const node = space ? document.createElementNS(space, tag) : document.createElement(tag);
  if (classes.length) node.setAttribute("class", classes.join(" "));
  const first = rest[0];
  if (first && typeof first === "object" && !(first instanceof Node) && !Array.isArray(first)) {
    rest = rest.slice(1);
    for (const [name, value] of Object.entries(first)) {
      if (value == null || value === false) continue;
      if (typeof value === "function") node.addEventListener(name.slice(2), value);
      else node.setAttribute(name, value === true ? "" : spell(value));
    }
  }
  return add(node, rest);
}

// el("p.small.sub", {title: "…"}, "text", node, [more])
const el = (spec, ...rest) => {
  const [tag, ...classes] = spec.split(".");
  return make(tag, classes, rest);
};
const sv = (spec, ...rest) => {
  const [tag, ...classes] = spec.split(".");
  return make(tag, classes, rest, SVG);
};

const link = (to, ...rest) => el("a.more", {href: to}, ...rest);
const button = (spec, press, ...rest) => {
  const node = el("button" + spec, ...rest);
  node.type = "button";
  node.addEventListener("click", press);
  return node;
};
// a name that a hostile object cannot answer by inheritance
const own = (object, name) => (object && Object.hasOwn(object, name) ? object[name] : undefined);

// -- figures as they are read --------------------------------------------------------------------------------------

const num = value => Number(value).toLocaleString("en-GB");
const plural = (n, word) => num(n) + " " + word + (n === 1 ? "" : "s");
// a cost of 0 is no fact: models without a price cost that as well
const money = (micro, none = "–") => (micro ? (micro / 1e6).toFixed(Math.abs(micro) < 1000 ? 6 : 4) : none);
function dur(us) {
  if (us < 1000) return Math.round(us) + " µs";
  if (us < 1e6) return Math.round(us / 1e3) + " ms";
  if (us < 59.95e6) return (us / 1e6).toFixed(1) + " s";
  const s = Math.round(us / 1e6);
  if (s < 3600) return Math.floor(s / 60) + " min" + (s % 60 ? " " + (s % 60) + " s" : "");
  const min = Math.round(s / 60);
  if (min < 2880) return Math.floor(min / 60) + " h" + (min % 60 ? " " + (min % 60) + " min" : "");
  return Math.round(min / 1440) + " days";
}
const iso = us => (Math.abs(us) < 8.64e18 ? new Date(us / 1e3).toISOString() : String(us));
const clock = us => iso(us).slice(11, 19);
const day = us => iso(us).slice(0, 10);
const when = us => day(us) + " " + clock(us);
const hashes = text => el("span.mono", text);

// -- small parts that several views use --------------------------------------------------------------------------------

const CHIPS = {
  ran: ["ok", "✓"],
  failed: ["bad", "×"],
  refused: ["bad", "⊘"],
  blocked: ["bad", "⊘"],
  denied: ["bad", "⊘"],
  waits: ["warn", "?"],
  waiting: ["warn", "?"],
  "in doubt": ["warn", "?"],
  "not usable": ["bad", "×"],
  done: ["ok", "✓"],
  running: ["acc", "▸"],
};
function chip(name, told = name) {
  const [tone, sign] = own(CHIPS, name) || ["", ""];
  return el("span.chip" + (tone && "." + tone), sign && sign + " ", told);
}
// where a run stands: which task of its workflow it is, or which action of another run has called it
const placeIn = found => (found.action ? ` called by action ${found.action}` : ` round ${found.round}, task ${found.task}`);
// pairs of a name and what it is; pairs without a value are left out
const pairs = list =>
  el(
    "dl.kv",
    list
      .filter(([, value]) => value != null && value !== "" && value !== false)
      .map(([name, value]) => [el("dt", name), el("dd", value)]),
  );
// a value as people read it: a text as it is, anything else as JSON
const asText = value => (typeof value === "string" ? value : JSON.stringify(value));
// names and values of a run's metadata
const metaOf = metadata => Object.entries(metadata || {}).map(([name, value]) => [name, asText(value)]);
function meter(name, used, allowed, told) {
  const full = allowed != null && used >= allowed,
    bar = el("i" + (full ? ".full" : ""));
  bar.style.width = allowed ? Math.min(100, (used / allowed) * 100) + "%" : used && allowed === 0 ? "100%" : "0";
  return [
    el("span.sub", name),
    el("span.track", {"aria-hidden": "true"}, allowed != null && bar),
    el("span.v", told(used), allowed != null && " of " + told(allowed)),
  ];
}
const UNITS = {
  s: value => num(+Number(value).toFixed(1)) + " s",
  money: value => money(value * 1e6, "0.0000"),
  tokens: num,
  count: num,
};
// a part that opens, with its jump mark
function part(name, note, ...rest) {
  return el("details.part", {open: true}, el("summary", el("span.name", name), note && el("span.sub", note)), ...rest);
}
// JSON indented without reading it: numbers, escapes and doubled keys stay as they were written. To be read, a text within it that is JSON itself
// or has several lines is not escaped twice: it stands as it is, in “ and ”
function indented(text, toRead = false) {
  if (text.length > 2e5) return text;
  try {
    JSON.parse(text);
  } catch {
    return text;
  }
  let depth = 0;
  const line = () => "\n" + "  ".repeat(depth);
  return text.replace(
    /("(?:[^"\\]|\\.)*")(?=(\s*:)?)|\s+|([{[])\s*([}\]])?|([}\]])|(,)|(:)/g,
    (_, quoted, name, open, empty, close, comma, colon) => {
      if (quoted) return toRead && !name ? unquoted(quoted, line()) : quoted;
      if (open && empty) return open + empty;
      if (open) {
        depth += 1;
        return open + line();
      }
      if (close) {
        depth -= 1;
        return line() + close;
      }
      return comma ? "," + line() : colon ? ": " : "";
    },
  );
}

function unquoted(quoted, line) {
  if (!quoted.includes("\\")) return quoted;
  const text = JSON.parse(quoted),
    within = /^\s*[{[]/.test(text) ? indented(text, true) : text;
  return within.includes("\n") ? "“" + within.replaceAll("\n", line) + "”" : quoted;
}
