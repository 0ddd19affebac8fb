// The machine that a run walks: what was walked up to the row, where it stands, and a dot along the way it took.

const DOT_MS = 420;
const DRAWN = new Set([
  "svg",
  "g",
  "path",
  "text",
  "tspan",
  "rect",
  "circle",
  "ellipse",
  "line",
  "polygon",
  "polyline",
  "title",
  "desc",
]);
const policy = globalThis.trustedTypes?.createPolicy("paor", {createHTML: text => text});

// the drawing as elements of this page: shapes and text only, no references, no styles, no handlers
function drawing(text) {
  const read = new DOMParser().parseFromString(policy ? policy.createHTML(text) : text, "image/svg+xml").documentElement;
  const copied = node => {
    if (node.nodeType === 3) return node.data;
    if (node.nodeType !== 1 || !DRAWN.has(node.localName)) return null;
    const kept = [...node.attributes]
      .filter(({name}) => !/^on|href|^style$|^xmlns/.test(name))
      .map(({name, value}) => [name, value]);
    return sv(node.localName, Object.fromEntries(kept), [...node.childNodes].map(copied));
  };
  return read.localName === "svg" ? copied(read) : null;
}

// a count in at most three characters, for which the drawing has room
const short = n =>
  n < 1000 ? n : n < 1e5 ? Math.floor(n / 1000) + "k" : n < 1e6 ? "." + Math.floor(n / 1e5) + "M" : Math.floor(n / 1e6) + "M";

class MachineCard {
  constructor(run) {
    Object.assign(this, {run, frame: 0, now: -1, still: matchMedia("(prefers-reduced-motion: reduce)")});
    this.said = el("p.say", {"aria-live": "polite"});
    this.draw = el("div.draw", {tabindex: "0", role: "group", "aria-label": "Drawing of the machine"});
    this.card = el("div.machine-card", this.draw, this.said);
    this.take();
  }

  // the drawing of the run's machine, and the elements of each way and phase
  take() {
    const {svg, edges, nodes} = this.run.data.machine;
    this.svg = svg ? drawing(svg) : null;
    this.draw.replaceChildren(this.svg || el("p.sub", "The record of this machine was erased; its rows stand in the list."));
    if (!this.svg) return;
    this.svg.append((this.dot = sv("circle.token", {r: 5, opacity: 0})));
    const at = id => this.svg.querySelector("#" + CSS.escape(id));
    this.edges = new Map(Object.entries(edges).map(([edge, ids]) => [edge, ids.map(at).filter(Boolean)]));
    this.nodes = new Map(
      Object.entries(nodes)
        .map(([phase, id]) => [phase, at(id)])
        .filter(([, node]) => node),
    );
  }

  show(i) {
    this.now = i;
    clearTimeout(this.saying);
    this.saying = setTimeout(() => {
      this.said.textContent = spell(this.sentence(i));
    }, 250);
    if (this.svg) this.paint(i);
  }

  // the step in words, for whoever does not see the drawing
  sentence(i) {
    const run = this.run,
      found = run.data.machine.rows.find(item => `${item.source}|${item.trigger}|${item.dest}` === run.edge(i));
    const {trigger, source, dest} = run.rows[i];
    return `Row ${i}, ${trigger}: from ${source} to ${dest}${found?.meaning ? ", " + found.meaning : ""}`;
  }

  paint(i) {
    const run = this.run,
      counts = run.counts(i),
      now = run.edge(i),
      {dest, marks: told} = run.rows[i],
      seen = new Set([run.rows[0].source]);
    const marks = new Map();
    for (const [edge, nodes] of this.edges) {
      const times = counts.get(edge) || 0;
      for (const node of nodes) {
        const mark = marks.get(node) || {walked: false, taken: false};
        marks.set(node, {walked: mark.walked || times > 0, taken: mark.taken || edge === now});
        if (node.classList.contains("count")) node.textContent = times > 1 ? "×" + short(times) : "";
      }
    }
    for (const edge of counts.keys()) seen.add(edge.slice(edge.lastIndexOf("|") + 1));
    for (const [node, mark] of marks) {
      node.classList.toggle("walked", mark.walked);
      node.classList.toggle("taken", mark.taken);
    }
    for (const [phase, node] of this.nodes) {
      node.classList.toggle("walked", seen.has(phase));
      node.classList.toggle("now", phase === dest);
      node.classList.toggle("waits", phase === dest && told.includes("waits"));
    }
    const ends = this.nodes.get(dest);
    for (const [name, status] of [
      ["good", "done"],
      ["lost", "failed"],
    ])
      ends?.classList.toggle(name, i === run.n - 1 && run.line.status === status);
    this.follow(now);
    this.center(ends);
  }

  // a dot along the way that was taken
  follow(edge) {
    cancelAnimationFrame(this.frame);
    const line =
      (this.edges.get(edge) || []).find(node => node.localName === "path") ||
      (this.edges.get(edge) || [])[0]?.querySelector("path");
    this.dot.setAttribute("opacity", 0);
    if (!line || this.still.matches) return;
    const length = line.getTotalLength(),
      begin = performance.now();
    const step = time => {
      const share = Math.max(0, Math.min(1, (time - begin) / DOT_MS)),
        {x, y} = line.getPointAtLength(length * share);
      this.dot.setAttribute("cx", x);
      this.dot.setAttribute("cy", y);
      this.dot.setAttribute("opacity", share < 1 ? 1 : 0);
      if (share < 1) this.frame = requestAnimationFrame(step);
    };
    this.frame = requestAnimationFrame(step);
  }

  // on a narrow screen the phase stays in sight
  center(node) {
    if (!node || this.draw.scrollWidth <= this.draw.clientWidth + 4) return;
    const box = node.getBoundingClientRect(),
      frame = this.draw.getBoundingClientRect();
    this.draw.scrollTo({
      left: this.draw.scrollLeft + box.left + box.width / 2 - frame.left - frame.width / 2,
      behavior: this.still.matches ? "auto" : "smooth",
    });
  }
}
