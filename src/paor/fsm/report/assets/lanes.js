// Three lanes by wall clock: work to scale, waits and other gaps folded to one width; from BARS_MOST rows on by pixel. And the player.

const BARS_MOST = 400;
const LANES = ["model", "tool", "person"];
const LEFT = 52,
  RIGHT = 4,
  TOP = 16, // for the scale
  LANE = 24,
  BAR = 18,
  FOOT = TOP + LANES.length * LANE;
const PLAY_MS = 650;

class Lanes {
  constructor(run, pick, player) {
    Object.assign(this, {run, pick, width: 0, rows: 0});
    this.svg = sv("svg", {"aria-hidden": "true"});
    this.tip = el("div.tip", {hidden: true});
    this.box = el(
      "div.lanes",
      {
        tabindex: "0",
        role: "slider",
        "aria-label": "Lanes: row by time",
        "aria-orientation": "horizontal",
        onclick: event => pick(this.rowAt(event.clientX)),
        onkeydown: event => this.key(event),
        onpointermove: event => (event.buttons === 1 ? pick(this.rowAt(event.clientX)) : this.hover(event)),
        onpointerleave: () => {
          this.tip.hidden = true;
        },
      },
      this.svg,
    );
    this.card = el(
      "section.card.time",
      {"aria-label": "Timeline"},
      el("div.bar", el("h2", "Timeline"), (this.note = el("span.sub.small")), player),
      el("div.hold", this.box, this.tip),
    );
    new ResizeObserver(() => this.draw()).observe(this.box);
  }

  // where each row begins and ends, in pixels
  layout(width) {
    const run = this.run,
      n = run.n;
    let work = 0;
    for (let i = 0; i < n; i += 1) work += run.took(i);
    const even = work === 0,
      gap = i => run.since(i) - (run.lane(i) === "person" ? 0 : run.took(i));
    const least = Math.max(2e6, work * 0.02),
      wide = new Uint8Array(n);
    let folds = 0;
    for (let i = 0; i < n; i += 1)
      if (run.lane(i) === "person" || gap(i) > least) {
        wide[i] = 1;
        folds += 1;
      }
    this.fold = folds ? Math.min(84, (width * 0.55) / folds) : 0;
    const scale = (width - folds * this.fold) / (even ? n || 1 : work);
    Object.assign(this, {work, scale: even ? 0 : scale});
    this.begin = new Float64Array(n);
    this.end = new Float64Array(n);
    let x = LEFT;
    for (let i = 0; i < n; i += 1) {
      if (wide[i] && run.lane(i) !== "person") x += this.fold;
      this.begin[i] = x;
      x += (even ? 1 : run.took(i)) * scale + (wide[i] && run.lane(i) === "person" ? this.fold : 0);
      this.end[i] = x;
    }
    this.wide = wide;
    this.binned = n > BARS_MOST;
  }

  draw(fresh) {
    const width = Math.floor(this.box.clientWidth);
    if (!width || (!fresh && width === this.width && this.rows === this.run.n)) return;
    Object.assign(this, {width, rows: this.run.n});
    this.layout(width - LEFT - RIGHT);
    const height = FOOT + 18;
    this.svg.setAttribute("viewBox", `0 0 ${width} ${height}`);
    this.svg.setAttribute("height", height);
    const nodes = LANES.flatMap((name, k) => [
      sv("text.lane", {x: 0, y: TOP + k * LANE + 15}, name),
      sv("line.rule", {x1: LEFT, x2: width, y1: TOP + (k + 1) * LANE - 0.5, y2: TOP + (k + 1) * LANE - 0.5}),
    ]);
    nodes.push(...this.ticks(width), ...(this.binned ? this.bins(width) : this.bars()), ...this.gaps(), ...this.stamps(width));
    this.mark = sv("rect.sel");
    this.cursor = sv("line.cursor", {y1: TOP, y2: FOOT});
    this.svg.replaceChildren(...nodes, this.mark, this.cursor);
    this.note.textContent = `${dur(this.work)} of work to scale, waits folded · UTC`;
    this.box.setAttribute("aria-valuemin", 0);
    this.box.setAttribute("aria-valuemax", Math.max(0, this.run.n - 1));
    if (this.now !== undefined) this.show(this.now);
  }

  // the scale: work since the beginning, at round steps
  ticks(width) {
    const nodes = [],
      {work, scale, run} = this;
    if (!scale) return nodes;
    const least = 64 / scale,
      power = 10 ** Math.floor(Math.log10(least)),
      minutes = [6e7, 12e7, 3e8, 6e8, 18e8, 36e8, 72e8, 144e8, 432e8, 864e8],
      step =
        least > 3e7
          ? (minutes.find(one => one >= least) ?? 864e8 * Math.ceil(least / 864e8))
          : power * [1, 2, 5, 10].find(one => one * power >= least);
    let done = 0,
      next = step;
    for (let i = 0; i < run.n && next < work; i += 1) {
      for (const took = run.took(i); next <= done + took; next += step) {
        const x = this.begin[i] + (next - done) * scale;
        nodes.push(sv("line.tick", {x1: x, x2: x, y1: TOP - 3, y2: FOOT}));
        if (x < width - 24) nodes.push(sv("text.stamp", {x, y: 10, "text-anchor": "middle"}, dur(next)));
      }
      done += run.took(i);
    }
    return [...nodes, sv("text.stamp", {x: LEFT, y: 10}, "0")];
  }

  bars() {
    const nodes = [];
    for (let i = 0; i < this.run.n; i += 1) {
      const lane = this.run.lane(i),
        k = LANES.indexOf(lane);
      if (k < 0) continue;
      const x = this.begin[i],
        wide = this.end[i] - x,
        y = TOP + k * LANE + 2;
      nodes.push(sv("rect.b." + lane, {x: x + 0.5, y, width: Math.max(1.5, wide - 1), height: BAR, rx: 2}));
      if (lane !== "person" && wide > 46 && this.scale)
        nodes.push(sv("text.long." + lane, {x: x + wide / 2, y: y + 13}, dur(this.run.took(i))));
      if (this.run.off(i))
        nodes.push(sv("rect.off", {x: x + 0.5, y: y + BAR + 0.5, width: Math.max(3, wide - 1), height: 2.5, rx: 1}));
    }
    return nodes;
  }

  // of each pixel of a lane the share of work that was done in it, as one path
  bins(width) {
    const share = LANES.map(() => new Float32Array(width + 1)),
      off = LANES.map(() => new Uint8Array(width + 1));
    for (let i = 0; i < this.run.n; i += 1) {
      const k = LANES.indexOf(this.run.lane(i));
      if (k < 0) continue;
      const end = Math.min(width, this.end[i]);
      for (let x = Math.floor(this.begin[i]); x < end; x += 1) share[k][x] += Math.min(end, x + 1) - Math.max(this.begin[i], x);
      if (this.run.off(i)) off[k][Math.floor(this.begin[i])] = 1;
    }
    return LANES.flatMap((lane, k) => {
      let path = "",
        marks = "";
      for (let x = LEFT; x <= width; x += 1) {
        const high = share[k][x] > 0.004 ? Math.max(2, BAR * Math.min(1, share[k][x])) : 0;
        if (high) path += `M${x} ${(TOP + k * LANE + 20 - high).toFixed(1)}h1V${TOP + k * LANE + 20}h-1z`;
        if (off[k][x]) marks += `M${x} ${TOP + k * LANE + 20.5}h1v2.5h-1z`;
      }
      return [sv("path.b." + lane, {d: path}), sv("path.off", {d: marks})];
    });
  }

  // the length of what is folded, in words
  gaps() {
    const nodes = [];
    if (this.fold < 44) return nodes;
    for (let i = 0; i < this.run.n; i += 1) {
      if (!this.wide[i]) continue;
      const person = this.run.lane(i) === "person",
        x = person ? (this.begin[i] + this.end[i]) / 2 : this.begin[i] - this.fold / 2;
      const y = TOP + (person ? 2 : 1) * LANE + 15,
        idle = this.run.since(i) - (person ? 0 : this.run.took(i));
      if (!person)
        nodes.push(sv("rect.idle", {x: x - this.fold / 2 + 2, y: TOP + 2, width: this.fold - 4, height: FOOT - TOP - 6, rx: 4}));
      nodes.push(sv(person ? "text.wait" : "text.idle", {x, y}, dur(idle)));
    }
    return nodes;
  }

  stamps(width) {
    const nodes = [],
      y = FOOT + 13,
      n = this.run.n;
    if (!n) return nodes;
    const fine = this.run.rows[n - 1].at - this.run.rows[0].at < 1e7; // then the seconds alone would say the same at both ends
    const stamp = (x, us, anchor) =>
      nodes.push(sv("text.stamp", {x, y, "text-anchor": anchor}, fine ? iso(us).slice(11, 23) : clock(us)));
    stamp(LEFT, this.run.rows[0].at - this.run.took(0), "start");
    let last = LEFT + 60;
    for (let i = 0; i < n; i += 1) {
      const x = this.run.lane(i) === "person" ? this.end[i] : this.begin[i];
      if (this.wide[i] && x - 36 > last && x + 36 < width - 64) {
        stamp(x, this.run.rows[i].at, "middle");
        last = x + 36;
      }
    }
    if (width - RIGHT > last + 8) stamp(width - RIGHT, this.run.rows[n - 1].at, "end");
    return nodes;
  }

  // the first row that ends at or after a place
  rowAt(clientX) {
    const x = clientX - this.box.getBoundingClientRect().left;
    let low = 0,
      high = this.run.n - 1;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (this.end[middle] >= x) high = middle;
      else low = middle + 1;
    }
    return Math.max(0, low);
  }

  told(i) {
    const run = this.run,
      lane = run.lane(i);
    return `row ${i}, ${run.rows[i].trigger}${lane ? ", " + lane : ""}, ${dur(lane === "person" ? run.since(i) : run.took(i))}`;
  }

  hover(event) {
    if (event.pointerType === "touch" || !this.run.n) return;
    const i = this.rowAt(event.clientX),
      box = this.box.getBoundingClientRect();
    this.tip.textContent = spell(this.told(i));
    this.tip.hidden = false;
    this.tip.style.left = Math.max(60, Math.min(box.width - 90, event.clientX - box.left)) + "px";
  }

  show(i) {
    this.now = i;
    if (!this.width || !(i < this.rows)) return;
    const lane = this.run.lane(i),
      k = LANES.indexOf(lane),
      x = this.begin[i],
      wide = Math.max(3, this.end[i] - x - 1);
    this.mark.setAttribute("class", "sel " + lane);
    for (const [name, value] of Object.entries({
      x: x + 0.5,
      y: TOP + Math.max(0, k) * LANE + 2,
      width: k < 0 ? 0 : wide,
      height: BAR,
      rx: 2,
    }))
      this.mark.setAttribute(name, value);
    this.cursor.setAttribute("x1", x);
    this.cursor.setAttribute("x2", x);
    this.box.setAttribute("aria-valuenow", i);
    this.box.setAttribute("aria-valuetext", spell(this.told(i)));
  }

  // page up and down: the wait, answer or refusal before and after
  key(event) {
    const step = {ArrowDown: 1, ArrowUp: -1, PageDown: 1, PageUp: -1}[event.key];
    if (!step || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    let i = this.now + step;
    if (event.key.startsWith("Page")) while (i > 0 && i < this.run.n - 1 && !this.run.marked(i, [...OFF, ...TURN])) i += step;
    this.pick(Math.max(0, Math.min(this.run.n - 1, i)));
  }
}

// plays the run, row by row or step by step, at a speed
class Player {
  constructor(run, pick) {
    Object.assign(this, {run, pick, timer: 0, now: 0});
    const choice = (name, values, chosen) => {
      const node = el(
        "select",
        {"aria-label": name, onchange: () => this.timer && this.play()},
        Object.entries(values).map(([value, told]) => el("option", {value}, told)),
      );
      node.value = chosen;
      return node;
    };
    this.unit = choice("Play by", {row: "rows", step: "steps"}, "row");
    this.speed = choice("Speed", {0.5: "½×", 1: "1×", 2: "2×", 5: "5×", 20: "20×"}, "1");
    this.toggle = button(".play", () => this.press(), {"aria-label": "Play", title: "Play (space)"}, "▶");
    this.count = el("output");
    this.node = el(
      "div.player",
      button(".play", () => pick(this.beside(-1)), {"aria-label": "Back", title: "Back (left arrow: one row)"}, "‹"),
      this.toggle,
      button(".play", () => pick(this.beside(1)), {"aria-label": "Forward", title: "Forward (right arrow: one row)"}, "›"),
      this.unit,
      this.speed,
      this.count,
    );
  }

  // the row one row or one step on or back: of a step its last row
  beside(way) {
    const {run, now} = this;
    if (!run.n || this.unit.value === "row") return now + way;
    const k = run.stepOf[now],
      here = run.steps[k];
    return way > 0 && now < here.last ? here.last : (run.steps[k + way]?.last ?? (way > 0 ? run.n - 1 : 0));
  }

  show(i) {
    this.now = i;
    this.count.textContent = `row ${num(i)} of ${num(this.run.n - 1)}`;
  }

  press() {
    if (this.timer) this.stop();
    else this.play();
  }

  play() {
    clearInterval(this.timer);
    if (this.now >= this.run.n - 1) this.pick(0);
    this.#label("❚❚", "Pause");
    const next = () => (this.now >= this.run.n - 1 ? this.stop() : this.pick(this.beside(1), true));
    this.timer = setInterval(next, PLAY_MS / Number(this.speed.value));
  }

  stop() {
    clearInterval(this.timer);
    this.timer = 0;
    this.#label("▶", "Play");
  }

  #label(sign, name) {
    this.toggle.textContent = sign;
    this.toggle.setAttribute("aria-label", name);
  }
}
