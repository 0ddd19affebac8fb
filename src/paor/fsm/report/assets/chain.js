// The chain of hashes, computed again from what is in this file, in the background and a chunk at a time.

const hex = bytes => Array.from(new Uint8Array(bytes), byte => byte.toString(16).padStart(2, "0")).join("");
const unhex = text => Uint8Array.from(text.match(/../g) || [], pair => parseInt(pair, 16));
const utf8 = new TextEncoder();

// SHA-256 of the hash before and a text after it
async function linked(before, text) {
  const head = unhex(before),
    body = utf8.encode(text),
    whole = new Uint8Array(head.length + body.length);
  whole.set(head);
  whole.set(body, head.length);
  return hex(await crypto.subtle.digest("SHA-256", whole));
}

class Chain {
  // told(chain) is called whenever it knows more
  constructor(run, told) {
    Object.assign(this, {run, told, checked: 0, hash: "", bad: -1, why: "", state: "checking", busy: false});
  }

  // go on from the last row that was checked; also called when rows have come
  async check() {
    if (this.busy || this.bad >= 0) return;
    if (!globalThis.crypto?.subtle) return this.#end("unable");
    this.busy = true;
    try {
      while (this.checked < this.run.n && this.bad < 0) {
        await this.#chunk(Math.floor(this.checked / this.run.size));
        this.told(this);
        await new Promise(done => setTimeout(done));
      }
      const {head} = this.run.data.chain,
        ended = !live || ["done", "failed"].includes(this.run.data.line.status);
      if (this.bad < 0 && this.checked === this.run.n && !this.rooted) {
        this.rooted = !live;
        if (!live) await this.#roots(part => part.first >= this.run.n);
      }
      if (this.bad < 0 && head && this.checked === this.run.n && ended && this.hash !== head)
        this.#broken(this.run.n - 1, "the last hash is not the head of the chain");
      this.#end(this.bad < 0 ? "holds" : "broken");
    } catch (error) {
      this.why = error.message;
      if (!live) this.#broken(this.checked, `it cannot be read: ${error.message}`);
      this.#end(live ? "unable" : "broken");
    } finally {
      this.busy = false;
    }
  }

  #end(state) {
    this.state = state;
    this.told(this);
  }

  #broken(seq, why) {
    if (this.bad < 0) Object.assign(this, {bad: seq, why});
  }

  async #chunk(k) {
    const found = await chunk(this.run.id, k, live && this.checked > 0);
    const rows = found.rows.filter(row => row.seq >= this.checked && row.seq < this.run.n);
    if (!rows.length) throw new Error("it is missing");
    const hashes = await Promise.all(rows.map(row => linked(row.prev, row.canonical)));
    for (const [j, row] of rows.entries()) {
      await this.#roots(part => part.first === row.seq);
      if (row.seq !== this.checked) this.#broken(this.checked, "it is missing");
      else if (row.prev !== this.hash) this.#broken(row.seq, "it does not follow from the row before");
      else if (hashes[j] !== row.hash) this.#broken(row.seq, "its content is not what was hashed");
      else if (!this.#same(row)) this.#broken(row.seq, "what this page lists is not what was hashed");
      if (this.bad >= 0) return;
      this.hash = row.hash;
      this.checked = row.seq + 1;
    }
  }

  // a part of the run begins, that of a fork after rows of the run that it was forked from
  async #roots(here) {
    for (const part of this.run.data.chain.parts.filter(here)) this.hash = await linked(this.hash, part.root);
  }

  // whether the list shows what the hashed columns say
  #same(row) {
    const told = JSON.parse(row.canonical),
      listed = this.run.rows[row.seq];
    return ["trigger", "source", "dest"].every(name => told[name] === listed[name]) && Number(told.at) === listed.at;
  }
}
