// The parts of the data: packed in this file, or asked of the server that serves it; chunks of rows a few at a time.

const live = document.documentElement.dataset.live || "";
const CHUNKS_KEPT = 6;
const arrived =
  document.readyState === "loading" ? new Promise(done => addEventListener("DOMContentLoaded", done)) : Promise.resolve();
const packed = new Map(),
  kept = new Map();
let looked = 0;

// base64 -> gzip -> JSON; the text itself stays where the file has it
async function unpack(text) {
  const bytes = Uint8Array.fromBase64 ? Uint8Array.fromBase64(text) : Uint8Array.from(atob(text), sign => sign.charCodeAt(0));
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
  return JSON.parse(await new Response(stream).text());
}

function packedPart(name) {
  const all = document.scripts;
  for (; looked < all.length; looked += 1) if (all[looked].dataset.part) packed.set(all[looked].dataset.part, all[looked]);
  return packed.get(name);
}

async function load(name) {
  if (live) {
    const answer = await fetch(live + "data/" + name.split("/").map(encodeURIComponent).join("/"), {cache: "no-store"});
    if (!answer.ok) throw new Error(`${answer.status} for ${name}`);
    return answer.json();
  }
  if (!packedPart(name)) {
    await arrived;
    looked = 0;
  }
  const found = packedPart(name);
  if (!found) throw new Error(`this file has no ${name}`);
  return unpack(found.textContent.trim());
}

// a chunk of rows as a promise, the ones used last kept
function chunk(id, k, fresh) {
  const name = `rows/${id}/${k}`;
  let found = fresh ? undefined : kept.get(name);
  kept.delete(name);
  if (!found) {
    found = load(name);
    found.catch(() => kept.get(name) === found && kept.delete(name));
  }
  kept.set(name, found);
  for (const old of kept.keys()) {
    if (kept.size <= CHUNKS_KEPT) break;
    kept.delete(old);
  }
  return found;
}

// the story of the run that this file opens with, plain for other programs; that of any other run is in its part
const plainStory = () => JSON.parse(document.getElementById("story").textContent);
const OFF = ["refused", "invalid", "fault"];
const TURN = ["waits", "answered", "in_doubt"];

// one run: its story, as `paor show --json` prints it, and what the page needs beside it; what is behind a single row is in its chunk
class Run {
  constructor(data) {
    this.bad = -1; // the first row that the chain does not hold for
    this.clear();
    this.take(data);
  }

  clear() {
    Object.assign(this, {rows: [], steps: [], stepOf: [], checkpoints: null});
  }

  // the run as it is now, with the rows of its story from any number on that is there or the next
  take(data) {
    const story = data.story ?? plainStory();
    Object.assign(this, {data, story, calls: story.calls, line: data.line, id: data.line.id, size: data.chunk || 256});
    for (const row of story.rows) this.append(row);
    this.shared = data.chain.parts.at(-1)?.first ?? 0;
    this.amended = new Set(data.amendments.map(one => one.seq));
  }

  get n() {
    return this.rows.length;
  }
  took(i) {
    return this.rows[i].time_us;
  }
  // µs since the row before, for the first one since the run was created
  since(i) {
    return Math.max(0, this.rows[i].at - (i ? this.rows[i - 1].at : this.line.created_at));
  }
  marked(i, marks) {
    return this.rows[i].marks.some(mark => marks.includes(mark));
  }
  off(i) {
    return this.marked(i, OFF);
  }
  edge(i) {
    const {source, trigger, dest} = this.rows[i];
    return `${source}|${trigger}|${dest}`;
  }

  lane(i) {
    const {marks, asked, model} = this.rows[i];
    return marks.includes("answered") ? "person" : asked === "tool" ? "tool" : model ? "model" : "";
  }

  // the number of the last call that begins at or before row i, and whether the row is of it
  callAt(i) {
    const {calls} = this;
    let low = 0,
      high = calls.length - 1;
    while (low < high) {
      const middle = (low + high + 1) >> 1;
      if (calls[middle].seq <= i) low = middle;
      else high = middle - 1;
    }
    return calls[low] && calls[low].seq <= i && i <= calls[low].last ? low : -1;
  }

  // the whole of row i: what was recorded, and the texts of its chunk
  async row(i) {
    const k = Math.floor(i / this.size);
    let found = await chunk(this.id, k);
    if (!found.rows[i - found.first] && live) found = await chunk(this.id, k, true);
    const row = found.rows[i - found.first];
    if (!row) throw new Error(`row ${i} is not in its part`);
    return {row, texts: found.texts};
  }

  // a row of the story, unless it is there
  append(row) {
    if (row.seq !== this.n) return false;
    if (this.steps.at(-1)?.step !== row.step) this.steps.push({step: row.step, first: row.seq});
    this.steps.at(-1).last = row.seq;
    this.stepOf.push(this.steps.length - 1);
    return this.rows.push(row) > 0;
  }

  // how often each edge was taken up to row i, from the checkpoint before it
  counts(i) {
    this.checkpoints ||= [new Map()];
    while (this.checkpoints.length * 512 <= i) {
      const k = this.checkpoints.length;
      this.checkpoints.push(this.#counted(new Map(this.checkpoints[k - 1]), (k - 1) * 512, k * 512));
    }
    const k = Math.floor(i / 512);
    return this.#counted(new Map(this.checkpoints[k]), k * 512, i + 1);
  }

  #counted(counts, from, to) {
    for (let j = from; j < to; j += 1) {
      const edge = this.edge(j);
      counts.set(edge, (counts.get(edge) || 0) + 1);
    }
    return counts;
  }
}
