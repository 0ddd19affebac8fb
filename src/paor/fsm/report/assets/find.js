// Words and a filter within one run: what its story says is looked at at once, the texts of its rows a chunk at a time.

const SOUGHT = {
  everything: null,
  trouble: (run, i) => run.off(i) || run.marked(i, ["in_doubt"]) || run.rows[i].dest === "Failed",
  people: (run, i) => run.marked(i, TURN),
  model: (run, i) => run.lane(i) === "model",
  tools: (run, i) => run.lane(i) === "tool",
};

class Finder {
  // told(rows, fresh) is called with the numbers of the rows that fit, null for all
  constructor(run, told) {
    Object.assign(this, {run, told, turn: 0, said: []});
    const change = () => {
      clearTimeout(this.asking);
      this.asking = setTimeout(() => this.look(), 150);
    };
    this.q = el("input", {type: "search", placeholder: "words in this run", "aria-label": "Words in this run", oninput: change});
    this.kind = el("select", {"aria-label": "Which rows", onchange: change});
    this.count = el("p.sub.small", {"aria-live": "polite"});
    this.node = el("form.find", {role: "search", onsubmit: event => event.preventDefault()}, this.q, this.kind, this.count);
    this.options();
  }

  options() {
    const tools = [...new Set(this.run.calls.map(call => call.tool).filter(Boolean))].sort(),
      now = this.kind.value || "everything";
    this.kind.replaceChildren(
      ...Object.keys(SOUGHT).map(name => el("option", {value: name}, name)),
      ...tools.map(name => Object.assign(el("option", cut(name, 60)), {value: "tool:" + name})),
    );
    this.kind.value = now;
  }

  // rows and calls have come, or some were erased: then all of them are looked at again
  renew(erased) {
    this.said.length = erased ? 0 : Math.min(this.said.length, this.run.calls.at(-1)?.seq ?? 0);
    this.options();
    if (this.found) this.look(erased ? 0 : this.done);
    else this.tally();
  }

  tally() {
    this.count.textContent = this.found ? `${num(this.found.length)} of ${plural(this.run.n, "row")}` : plural(this.run.n, "row");
  }

  fits(i) {
    const {value} = this.kind;
    if (!value.startsWith("tool:")) return !SOUGHT[value] || SOUGHT[value](this.run, i);
    return this.run.calls[this.run.callAt(i)]?.tool === value.slice(5);
  }

  // what the story says of a row, in small letters
  words(i) {
    if (this.said[i] === undefined) {
      const {trigger, source, dest, asked, model, tool, came, said, actor, marks} = this.run.rows[i],
        call = this.run.calls[this.run.callAt(i)];
      const parts = [trigger, source, dest, asked, model, tool, came, said, actor, ...marks];
      if (call) parts.push(call.tool, call.result, JSON.stringify(call.arguments));
      this.said[i] = parts.join("\n").toLowerCase();
    }
    return this.said[i];
  }

  // rows from number `from` on; what was found before it stays
  async look(from = 0) {
    const turn = (this.turn += 1),
      words = wordsOf(this.q.value),
      {run} = this;
    if (!words.length && this.kind.value === "everything") {
      this.found = null;
      return this.tell();
    }
    const rows = [...run.rows.keys()].filter(i => i >= from && this.fits(i)),
      holds = (i, more = "") => words.every(word => this.words(i).includes(word) || more.includes(word)),
      before = from ? this.found.filter(i => i < from) : [],
      first = new Set(rows.filter(i => holds(i)));
    this.found = [...before, ...first];
    this.done = words.length ? from : run.n; // up to where the texts were looked at, too
    this.tell();
    const last = Math.ceil(run.n / run.size),
      begin = Math.floor(from / run.size);
    let unread = 0;
    for (let k = begin; words.length && k < last; k += 1) {
      // of a run that grows the last part, and the one that was the last before, are read anew
      const part = await chunk(run.id, k, live && (k === last - 1 || (from > 0 && k === begin))).catch(() => null);
      if (turn !== this.turn) return;
      unread += !part;
      const fits = new Set(rows.filter(i => Math.floor(i / run.size) === k && !first.has(i))),
        more = (part?.rows || []).filter(row => fits.has(row.seq) && holds(row.seq, behindRow(part, row)));
      this.done = Math.min(run.n, (k + 1) * run.size);
      if (more.length) {
        this.found = [...this.found, ...more.map(row => row.seq)].sort((a, b) => a - b);
        this.tell();
      }
      this.tally();
      if (k < last - 1) this.count.append(` · ${Math.floor((this.done / run.n) * 100)} % of the texts`);
      if (unread) this.count.append(` · texts of up to ${num(unread * run.size)} rows cannot be read`);
    }
  }

  tell() {
    this.tally();
    this.told(this.found);
  }
}

// what was said in a row, in small letters: not its prompt, which repeats what was said before
function behindRow(part, row) {
  const names = [row.reply, row.answer, ...row.inner.flat(), ...row.documents.map(([, name]) => name)];
  return [row.thought, ...names.map(name => name && own(part.texts, name)?.text)].filter(Boolean).join("\n").toLowerCase();
}
