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

const REFUSED = 1,
  INVALID = 2,
  WAITS = 4,
  ANSWERED = 8,
  IN_DOUBT = 16,
  FAULT = 32,
  ERASED = 64,
  AMENDED = 128,
  PARENT = 256;
const OFF = REFUSED | INVALID | FAULT;
const NAMED = {trigger: "trigger", source: "phase", dest: "phase", kind: "kind", tool: "tool", model: "model"};

// one run: its facts and, for each row, a few numbers in columns; what a single row says is in its chunk
class Run {
  constructor(data) {
    this.at = [];
    this.bad = -1; // the first row that the chain does not hold for
    this.take(data);
  }

  take(data) {
    Object.assign(this, {data, line: data.line, id: data.line.id, size: data.chunk || 256, columns: data.rows, n: data.rows.n});
    let at = 0;
    this.at = data.rows.at.map(delta => (at += delta));
  }

  name(column, i) {
    return this.columns.tables[NAMED[column]][this.columns[column][i]] ?? "";
  }

  flags(i) {
    return this.columns.flags[i];
  }
  took(i) {
    return this.columns.took[i];
  }
  // µs since the row before, for the first one since the run was created
  since(i) {
    return Math.max(0, this.at[i] - (i ? this.at[i - 1] : this.line.created_at));
  }
  off(i) {
    return (this.flags(i) & OFF) !== 0;
  }
  edge(i) {
    return `${this.name("source", i)}|${this.name("trigger", i)}|${this.name("dest", i)}`;
  }

  lane(i) {
    if (this.flags(i) & ANSWERED) return "person";
    if (this.name("kind", i) === "tool") return "tool";
    return this.columns.model[i] >= 0 ? "model" : "";
  }

  // the number of the last call that begins at or before row i, and whether the row is of it
  callAt(i) {
    const calls = this.data.calls;
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

  // a new row from the server
  append(entry) {
    if (entry.seq !== this.n) return false;
    const rows = this.columns;
    for (const column of Object.keys(rows)) {
      if (!Array.isArray(rows[column]) || column === "at") continue;
      let value = entry[column];
      if (column in NAMED) {
        const table = rows.tables[NAMED[column]];
        value = value == null ? -1 : table.includes(value) ? table.indexOf(value) : table.push(value) - 1;
      }
      rows[column].push(value);
    }
    this.at.push(entry.at);
    this.n = rows.n = this.n + 1;
    return true;
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
