// A list of any length: only what can be seen is in the page. Heights are estimated, then measured.

const BEYOND = 300;

class List {
  // make(i) returns the element of item i; pick(i) is called when it is chosen. `fixed` items all have the height `size`; those of a `feed` have
  // controls of their own.
  constructor({label, size, fixed = false, feed = false, make, pick, id}) {
    Object.assign(this, {size, fixed, feed, make, pick, id, n: 0, on: [-1, -1], shown: new Map(), heights: [], tops: [0]});
    this.window = el("div.window", {role: "presentation"});
    this.space = el("div.space", {role: "presentation"}, this.window);
    this.box = el(
      "div.scroll.list",
      {
        tabindex: "0",
        role: feed ? "feed" : "listbox",
        "aria-label": label,
        onscroll: () => this.later(),
        onkeydown: event => this.key(event),
      },
      this.space,
    );
    this.box.addEventListener("click", event => {
      const item = event.target.closest("[data-i]");
      if (item && !event.target.closest("button,a,summary")) this.pick(Number(item.dataset.i));
    });
    // what was selected stays in sight while the items above it become what they are, until somebody scrolls
    this.pin = -1;
    for (const name of ["wheel", "touchmove", "pointerdown"])
      this.box.addEventListener(name, () => (this.pin = -1), {passive: true});
    new ResizeObserver(() => this.later()).observe(this.box);
  }

  // how many items there are; from item `fresh` on, what was made of them before is not valid any more
  set(n, fresh = this.n) {
    this.heights.length = Math.min(this.heights.length, fresh);
    for (const [i, node] of this.shown)
      if (i >= fresh) {
        node.remove();
        this.shown.delete(i);
      }
    for (const node of this.shown.values()) node.setAttribute("aria-setsize", n);
    this.n = n;
    this.measure();
    this.later();
  }

  measure() {
    if (this.fixed) {
      this.high(this.n * this.size);
      return;
    }
    this.tops = new Float64Array(this.n + 1);
    for (let i = 0; i < this.n; i += 1) this.tops[i + 1] = this.tops[i] + (this.heights[i] || this.size);
    this.high(this.tops[this.n]);
  }

  high(height) {
    this.space.style.height = height + "px";
    this.box.style.setProperty("--need", height + "px");
  }

  top(i) {
    return this.fixed ? i * this.size : this.tops[i];
  }

  // the item at a height, by halves
  find(y) {
    if (this.fixed) return Math.max(0, Math.min(this.n - 1, Math.floor(y / this.size)));
    let low = 0,
      high = this.n - 1;
    while (low < high) {
      const middle = (low + high + 1) >> 1;
      if (this.tops[middle] <= y) low = middle;
      else high = middle - 1;
    }
    return Math.max(0, low);
  }

  later() {
    if (!this.asked)
      this.asked = requestAnimationFrame(() => {
        this.asked = 0;
        this.draw();
      });
  }

  draw() {
    if (!this.box.clientHeight && !this.all) return;
    const beyond = this.all ? 1e9 : BEYOND,
      y = this.box.scrollTop,
      first = this.find(y - beyond),
      last = this.n ? this.find(y + this.box.clientHeight + beyond) : -1;
    for (const [i, node] of this.shown)
      if (i < first || i > last) {
        node.remove();
        this.shown.delete(i);
      }
    let after = null;
    for (let i = last; i >= first; i -= 1) {
      let node = this.shown.get(i);
      if (!node) {
        node = this.make(i);
        node.dataset.i = i;
        node.id = `${this.id}-${i}`;
        node.setAttribute("role", this.feed ? "article" : "option");
        node.setAttribute("aria-setsize", this.n);
        node.setAttribute("aria-posinset", i + 1);
        const head = this.feed && node.querySelector(".line");
        if (head) {
          head.id = `${node.id}-head`;
          node.tabIndex = 0;
          node.setAttribute("aria-labelledby", head.id);
        }
        this.shown.set(i, node);
        this.window.insertBefore(node, after);
        this.mark(i, node);
      }
      after = node;
    }
    this.window.style.transform = `translateY(${this.top(first)}px)`;
    if (!this.fixed) this.remeasure(first, last, y);
  }

  // take the true heights over; what is being read stays where it is
  remeasure(first, last, y) {
    const held = this.find(y),
      place = this.tops[held];
    let changed = false;
    for (let i = first; i <= last; i += 1) {
      const height = this.shown.get(i).offsetHeight;
      if (height && height !== this.heights[i]) {
        this.heights[i] = height;
        changed = true;
      }
    }
    if (!changed) return;
    this.measure();
    this.window.style.transform = `translateY(${this.top(first)}px)`;
    if (this.pin >= 0) return this.reveal(this.pin);
    if (this.tops[held] !== place) this.box.scrollTop = y + this.tops[held] - place;
    this.later();
  }

  mark(i, node) {
    const on = i >= this.on[0] && i <= this.on[1];
    node.classList.toggle("on", on);
    node.setAttribute(this.feed ? "aria-current" : "aria-selected", String(on));
  }

  // mark items first to last and bring the first into sight
  select(first, last = first, quiet) {
    this.on = [first, last];
    for (const [i, node] of this.shown) this.mark(i, node);
    if (first < 0 || !this.box.clientHeight) return this.box.removeAttribute("aria-activedescendant");
    this.pin = quiet || this.fixed ? -1 : first;
    if (!quiet) this.reveal(first);
    if (!this.feed) this.box.setAttribute("aria-activedescendant", `${this.id}-${first}`);
  }

  reveal(i) {
    for (let round = 0; round < 2; round += 1) {
      // the second time with heights that are measured
      const top = this.top(i),
        end = this.top(i + 1) + 12,
        // on a phone the list may go on below the screen
        height = Math.min(this.box.clientHeight, Math.max(120, innerHeight - this.box.getBoundingClientRect().top));
      if (top < this.box.scrollTop) this.box.scrollTop = Math.max(0, top - 8);
      else if (end > this.box.scrollTop + height) this.box.scrollTop = Math.min(top, end - height);
      this.draw();
    }
  }

  key(event) {
    const step = {ArrowDown: 1, ArrowUp: -1, PageDown: 10, PageUp: -10}[event.key];
    if (!step || !this.n || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    const now = this.on[0] < 0 ? (step > 0 ? -1 : this.n) : step > 0 ? this.on[1] : this.on[0];
    this.pick(Math.max(0, Math.min(this.n - 1, now + step)));
  }
}
