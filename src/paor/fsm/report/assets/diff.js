// What is new in a text: by lines, then by words within a line that has changed. Bounded in time and memory.

const EDITS = 600;
const LINES_SHOWN = 400;
const WORDS = 1200;

// the shortest edit from a to b as [mark, item] with mark "", "new" or "gone" (Myers); beyond `most` edits all of it
function edits(a, b, most = EDITS) {
  let head = 0,
    tail = 0;
  while (head < a.length && head < b.length && a[head] === b[head]) head += 1;
  while (tail < a.length - head && tail < b.length - head && a[a.length - 1 - tail] === b[b.length - 1 - tail]) tail += 1;
  const middle = between(a.slice(head, a.length - tail), b.slice(head, b.length - tail), most);
  return [...a.slice(0, head).map(item => ["", item]), ...middle, ...a.slice(a.length - tail).map(item => ["", item])];
}

function between(a, b, most) {
  const n = a.length,
    m = b.length,
    size = Math.min(n + m, most),
    trace = [];
  let reach = new Int32Array(2 * size + 3);
  for (let d = 0; d <= size; d += 1) {
    trace.push(reach.slice(size + 1 - d - 1, size + 1 + d + 2));
    for (let k = -d; k <= d; k += 2) {
      const at = size + 1 + k;
      let x = k === -d || (k !== d && reach[at - 1] < reach[at + 1]) ? reach[at + 1] : reach[at - 1] + 1;
      while (x < n && x - k < m && a[x] === b[x - k]) x += 1;
      reach[at] = x;
      if (x >= n && x - k >= m) return walked(a, b, trace);
    }
  }
  return [...a.map(item => ["gone", item]), ...b.map(item => ["new", item])];
}

function walked(a, b, trace) {
  const found = [];
  let x = a.length,
    y = b.length;
  for (let d = trace.length - 1; d >= 0; d -= 1) {
    const reach = k => trace[d][k + d + 1],
      k = x - y;
    const before = k === -d || (k !== d && reach(k - 1) < reach(k + 1)) ? k + 1 : k - 1;
    const px = d ? reach(before) : 0,
      py = d ? px - before : 0;
    while (x > px && y > py) {
      x -= 1;
      y -= 1;
      found.push(["", a[x]]);
    }
    if (d && x === px) {
      y -= 1;
      found.push(["new", b[y]]);
    } else if (d) {
      x -= 1;
      found.push(["gone", a[x]]);
    }
  }
  return found.reverse();
}

// removed lines stand before added ones; a pair of them that shares words is compared word by word
function lineDiff(a, b) {
  const list = edits(a.split("\n"), b.split("\n")).map(([mark, text]) => ({mark, text}));
  for (let i = 0; i < list.length;) {
    if (!list[i].mark) {
      i += 1;
      continue;
    }
    let end = i;
    while (end < list.length && list[end].mark) end += 1;
    const block = list.slice(i, end),
      gone = block.filter(line => line.mark === "gone"),
      fresh = block.filter(line => line.mark === "new");
    for (let j = 0; j < Math.min(gone.length, fresh.length); j += 1) pairWords(gone[j], fresh[j]);
    list.splice(i, end - i, ...gone, ...fresh);
    i = end;
  }
  return list;
}

function pairWords(gone, fresh) {
  const split = text => text.match(/[\p{L}\p{N}_]+|\s+|[^\p{L}\p{N}_\s]/gu) || [];
  if (gone.text.length > 8000 || fresh.text.length > 8000) return;
  const a = split(gone.text),
    b = split(fresh.text);
  if (a.length > WORDS || b.length > WORDS) return;
  const found = edits(a, b, 200),
    same = found.reduce((sum, [mark, word]) => sum + (mark ? 0 : word.trim().length), 0);
  if (same * 3 < Math.max(gone.text.length, fresh.text.length)) return;
  gone.words = found.filter(([mark]) => mark !== "new");
  fresh.words = found.filter(([mark]) => mark !== "gone");
}

// runs of unchanged lines folded to one line, one line of them kept at each change
function folded(list, near = 1) {
  const out = [],
    keep = new Uint8Array(list.length);
  list.forEach((line, i) => line.mark && keep.fill(1, Math.max(0, i - near), i + near + 1));
  for (let i = 0; i < list.length;) {
    let end = i;
    while (end < list.length && !keep[end]) end += 1;
    if (end - i > 1) out.push({mark: "fold", text: plural(end - i, "line") + " as before"});
    else if (end > i) out.push(list[i]);
    i = end;
    while (i < list.length && keep[i]) out.push(list[i++]);
  }
  return out;
}

function lineNode(line) {
  const words = line.words && line.words.map(([mark, text]) => (mark ? el("b", text) : text));
  return el(
    "span" + (line.mark ? "." + line.mark : ""),
    line.mark === "new" && el("span.say", "new: "),
    line.mark === "gone" && el("span.say", "gone: "),
    words || line.text || " ",
  );
}

// a block of lines, the first ones of very many
function block(list) {
  const box = el("pre", {tabindex: "0"}, list.slice(0, LINES_SHOWN).map(lineNode));
  if (list.length <= LINES_SHOWN) return box;
  const all = button(
    ".more",
    () => {
      box.append(...list.slice(LINES_SHOWN).map(lineNode));
      all.remove();
    },
    `show all ${num(list.length)} lines`,
  );
  return el("div", box, all);
}
const plain = text => block(text.split("\n").map(line => ({mark: "", text: line})));
