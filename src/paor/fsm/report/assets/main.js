// What is shown: views by the address, the selected row, keys, and what a live server adds.

const state = {index: null, view: null, runs: null, inbox: null, streams: new Map()};
const opened = new Map();
const encode = text => encodeURIComponent(String(text).toWellFormed());
const rowHash = (run, i) => (run.id === state.index.open ? "#row-" + i : `#run/${encode(run.id)}/row-${i}`);
const app = document.getElementById("app");

// the address without a step back for each row; browsers limit how often it may change. A link that was followed meanwhile stays
let remembering = 0;
function remember(hash) {
  const before = location.hash;
  clearTimeout(remembering);
  remembering = setTimeout(() => location.hash === before && before !== hash && history.replaceState(null, "", hash), 120);
}

const machineOf = async data => (typeof data.machine === "string" ? load(data.machine) : data.machine);

// `anew`: as it is now, where the page is live; the run that is shown reads on by itself
async function openRun(id, anew = false) {
  if (live && anew && state.view?.run.id !== id) opened.delete(id);
  if (!opened.has(id))
    opened.set(
      id,
      load("run/" + id).then(async data => new Run({...data, machine: await machineOf(data)})),
    );
  try {
    return await opened.get(id);
  } catch (error) {
    opened.delete(id);
    throw error;
  }
}

// -- one run -----------------------------------------------------------------------------------------------------------

const TABS = {said: "Transcript", machine: "Machine", limits: "Limits", rows: "Rows", row: "Row"};

const panel = (name, node) => el("section.card.panel.scroll.of-" + name, {tabindex: "0", "aria-label": TABS[name]}, node);

class RunView {
  constructor(run) {
    Object.assign(this, {run, now: -1});
    const pick = (i, playing) => this.show(i, playing);
    this.finder = new Finder(run, (found, fresh) => this.list(found, fresh));
    this.player = new Player(run, pick);
    Object.assign(this, {
      head: new Head(run),
      rows: new RowList(run, pick, this.finder.node),
      said: new Transcript(run, pick),
      machine: new MachineCard(run),
      lanes: new Lanes(run, pick, this.player.node),
      row: new RowPane(run),
      limits: el("div"),
    });
    this.limits.append(limitsCard(run));
    this.alarm = el("div.alarm", {role: "alert", hidden: true});
    this.fresh = button(".fresh", () => this.show(this.run.n - 1), {hidden: true});
    this.verdict = el("div.verdict-box", this.head.node, (this.asks = el("p.asks-line", {hidden: true})));
    this.extra = this.actions();
    this.tabs = Object.entries(TABS).map(([name, told]) =>
      button(".tab-" + name, () => this.open(name), {"aria-pressed": "false"}, told),
    );
    this.box = el(
      "main.run",
      {tabindex: "-1"},
      this.rows.card,
      this.lanes.card,
      el("div.seg.tabs", {role: "group", "aria-label": "What is shown"}, this.tabs),
      el("section.card.pane.panel.of-said", {"aria-label": "Transcript"}, this.said.box),
      panel("machine", this.machine.card),
      panel("limits", this.limits),
      this.row.card,
      this.fresh,
    );
    this.open("said");
    this.chain = new Chain(run, chain => this.checked(chain));
    const defects = run.data.verify?.count;
    if (defects) {
      this.alarm.hidden = false;
      this.alarm.append(
        el("b", `Checking found ${plural(defects, "defect")}.`),
        " What they name is not what was written. Do not rely on it.",
      );
    }
    this.waits();
    this.finder.look();
    this.hear();
    if (!run.n) this.row.fill([el("p.blk.sub", "There is no row yet.")]);
  }

  // what was said in the other rounds of its conversation
  hear() {
    const {data, line} = this.run;
    if (line.conversation)
      load(data.talk ?? "talk/" + line.id).then(
        found => this.said.hear(found.messages, found.error),
        () => 0,
      );
  }

  // one of the tabs; on a wide screen the rows and the selected one are beside it, whatever is chosen
  open(name) {
    this.box.dataset.tab = name;
    this.tabs.forEach(tab => tab.setAttribute("aria-pressed", String(tab.matches(".tab-" + name))));
    if (this.now >= 0) this.paint();
  }

  // the rows that are listed, null for all; from row `fresh` on they are made anew
  list(found, fresh = 0) {
    this.rows.set(found, fresh);
    this.said.set(found, fresh);
  }

  // `quiet`: the transcript stays where it is
  show(i, playing, quiet) {
    if (!this.run.n) return;
    i = Math.max(0, Math.min(this.run.n - 1, i));
    if (!playing) this.player.stop();
    this.now = i;
    this.quiet = quiet;
    if (i === this.run.n - 1) this.fresh.hidden = true;
    if (!this.asked) this.asked = requestAnimationFrame(() => this.paint());
    if (!quiet && nav.now === "run") remember(rowHash(this.run, i));
  }

  // all panes at once, however many steps came since the last frame
  paint() {
    this.asked = 0;
    this.player.show(this.now);
    this.machine.show(this.now);
    this.lanes.show(this.now);
    this.rows.show(this.now);
    this.said.show(this.now, this.quiet);
    this.row.show(this.now, i => this.rowActions(i));
  }

  checked(chain) {
    this.head.told(chain);
    if (chain.state !== "broken" || this.run.bad >= 0) return;
    document.body.classList.add("broken");
    this.alarm.hidden = false;
    this.alarm.replaceChildren(
      ...[
        el("b", `The chain is broken at row ${num(chain.bad)}.`),
        ` ${chain.why[0].toUpperCase()}${chain.why.slice(1)}. Do not rely on this row, nor on any later one. `,
        link(rowHash(this.run, chain.bad), `row ${chain.bad}`),
      ].flatMap(item => (typeof item === "string" ? visible(item) : [item])),
    );
    this.run.bad = chain.bad;
    this.row.card.classList.toggle("doubted", this.now >= chain.bad);
    this.finder.tell();
  }

  waits() {
    const wait = state.index.waits.find(item => item.run === this.run.id);
    this.asks.hidden = !wait && !this.trouble;
    if (!wait && this.trouble)
      this.asks.replaceChildren(el("span.chip.bad", "cannot go on"), el("span", " " + cut(this.trouble, 400)));
    else
      this.asks.replaceChildren(
        ...(wait
          ? [
              el("span.chip.warn", own(KINDS, wait.kind) || wait.kind),
              el("span", " " + cut(titleOf(wait), 200) + " "),
              link("#inbox", "answer"),
            ]
          : []),
      );
  }

  // an answer stands, and the run could not go on with it: until a row comes
  stopped(text) {
    this.trouble = text;
    this.waits();
  }

  actions() {
    if (!live || state.index.actions === false) return null;
    const told = el("span.sub", {role: "status"}),
      ask = button(
        ".btn.small.no",
        async () => {
          if (!ask.dataset.sure) {
            ask.dataset.sure = "1";
            ask.textContent = "Really cancel?";
            return;
          }
          ask.disabled = true;
          await send("cancel/" + encode(this.run.id), "{}").then(
            () => {
              told.textContent = "Cancelling is asked for.";
            },
            error => {
              told.textContent = spell(error.message);
              ask.disabled = false;
            },
          );
        },
        "Cancel the run",
      );
    this.cancel = el("span.actions", told, ask);
    this.cancel.hidden = ["done", "failed"].includes(this.run.line.status);
    return this.cancel;
  }

  rowActions(i) {
    if (!live || state.index.actions === false) return null;
    const told = el("span.sub", {role: "status"}),
      ask = button(
        ".more",
        () => {
          if (!ask.dataset.sure) {
            ask.dataset.sure = "1";
            ask.textContent = `Really start a new run from row ${i}?`;
            return;
          }
          ask.disabled = true;
          send("fork/" + encode(this.run.id), `{"seq":${i}}`).then(
            answer =>
              told.replaceChildren(
                ...add(el("i"), [
                  answer.run ? link("#run/" + encode(answer.run), "the fork") : "forked",
                  answer.repeats?.length > 0 && ` has not begun: it would call again ${answer.repeats.join(", ")}`,
                  answer.next && `, goes on with ${answer.next}`,
                ]).childNodes,
              ),
            error => {
              told.textContent = spell(error.message);
              ask.disabled = false;
            },
          );
        },
        "fork from this row",
      );
    return el("div.line", ask, told);
  }

  // a row has come: nothing that is being read moves
  entered(told) {
    const end = this.now === this.run.n - 1,
      before = this.run.n;
    if (!this.run.append(told.row)) return;
    Object.assign(this.run.line, told.line);
    if (told.row.trigger !== "provide") this.trouble = "";
    this.said.say("", true);
    this.grown();
    this.lanes.draw();
    this.came(1, end || !before);
    this.soon ||= setTimeout(() => this.refresh(), this.pause || 400);
  }

  // rows have come: those that fit are listed, what was made of the others stays
  grown() {
    if (this.finder.found) return this.finder.renew();
    this.finder.tally();
    this.list(null, this.run.steps.at(-1).first);
  }

  came(count, follow) {
    this.since = (this.fresh.hidden ? 0 : this.since) + count;
    if (follow) this.show(this.run.n - 1);
    else {
      this.fresh.hidden = false;
      this.fresh.textContent = plural(this.since, "new row");
      this.player.show(this.now);
    }
  }

  // calls, limits and cost of a run that has gone on
  async refresh() {
    const begin = performance.now();
    this.soon = 0;
    const read = first => load(`run/${this.run.id}/${first}`).catch(() => null),
      known = this.run.story.erasures.length;
    let data = await read(this.run.n);
    const erased = data && data.story.erasures.length !== known;
    if (erased) data = await read(0); // what was erased is in no row any more
    if (!data) return;
    if (data.story.run.head_seq >= this.run.n - 1) {
      const before = this.run.n,
        calls = this.run.calls.length,
        end = this.now === before - 1;
      if (erased) this.run.clear();
      this.run.take(data);
      const more = this.run.n - before;
      if (more) this.said.say("", true);
      this.finder.renew(erased);
      if (!this.finder.found) this.list(null, erased ? 0 : Math.min(before, this.run.calls[calls - 1]?.seq ?? 0));
      if (more) this.came(more, end);
    }
    this.head.fill();
    this.limits.replaceChildren(limitsCard(this.run));
    if (this.cancel) this.cancel.hidden = ["done", "failed"].includes(this.run.line.status);
    this.chain.check();
    this.pause = Math.max(400, 20 * (performance.now() - begin)); // a long run is asked for less often
  }

  follow() {
    if (!live || this.source) return;
    this.source = stream("events/" + encode(this.run.id), this.run.n - 1, {
      row: told => this.entered(told),
      said: told => this.said.say(told.text, told.anew),
      end: () => this.refresh(),
      problem: told => this.stopped(told.error),
    });
  }

  leave() {
    this.player.stop();
    this.source?.close();
    this.source = null;
  }
}

// -- live ----------------------------------------------------------------------------------------------------------------

// only while the page is seen: a browser has six connections to one server, and a page that nobody sees needs none
function stream(path, last, handlers) {
  const say = text => {
    state.streams.set(path, text);
    status();
  };
  let source = null,
    over = false;
  const pause = () => {
    source?.close();
    source = null;
  };
  const open = () => {
    if (document.hidden || over) return pause();
    if (source) return;
    source = new EventSource(`${live}${path}?after=${encode(last)}`);
    say("connecting");
    source.onopen = () => say("live");
    source.addEventListener("behind", event => say(JSON.parse(event.data).behind ? "behind" : "live"));
    source.onerror = () => say(source?.readyState === 2 ? "disconnected" : "reconnecting");
    for (const [name, handle] of Object.entries(handlers))
      source.addEventListener(name, event => {
        last = event.lastEventId || last;
        if (name === "end") {
          over = true;
          pause();
          say("ended");
        }
        handle(name === "end" ? null : JSON.parse(event.data));
      });
  };
  document.addEventListener("visibilitychange", open);
  open();
  return {
    path,
    close: () => {
      over = true;
      pause();
      document.removeEventListener("visibilitychange", open);
      state.streams.delete(path);
      status();
    },
  };
}

// of the run that is shown, elsewhere of the list
function status() {
  const told = state.streams.get(nav.now === "run" && state.view?.source?.path) || state.streams.get("events") || "connecting";
  nav.status.textContent = told;
  nav.status.className = "status " + told;
}

function changed({runs, waits}) {
  const index = state.index,
    known = new Map(index.runs.map((line, k) => [line.id, k]));
  for (const line of runs || [])
    if (known.has(line.id)) index.runs[known.get(line.id)] = line;
    else index.runs.unshift(line);
  if (waits) index.waits = waits;
  state.runs?.update(runs || []);
  state.inbox?.update();
  state.view?.waits();
  const talk = state.view?.run.line.conversation;
  if (talk && runs?.some(line => line.conversation === talk && line.id !== state.view.run.id)) state.view.hear();
  nav.fill();
  if (nav.now === "compare" && runs?.some(line => state.pair?.includes(line.id))) {
    clearTimeout(state.again);
    state.again = setTimeout(route, 500);
  }
}

// -- pages -----------------------------------------------------------------------------------------------------------------

const nav = {
  pages: el("nav", {"aria-label": "Pages"}),
  version: el("span.sub"),
  extra: el("span"),
  id: el("span.id.mono"),
  status: el("span.status", {role: "status", hidden: !live}),
  now: "",
  fill() {
    const {index, view} = state,
      run = view?.run.id ?? index.open,
      items = [];
    if (index.runs.length > 1 || live) items.push(["runs", "#runs", "Runs"]);
    if (run) items.push(["run", view ? rowHash(view.run, Math.max(0, view.now)) : "#run/" + encode(run), "Run"]);
    if (live && (run || this.now === "compare") && index.runs.length > 1)
      items.push(["compare", this.now === "compare" ? location.hash : "#runs?with=" + encode(run), "Compare"]);
    else if (!live && packedPart("diff")) items.push(["compare", "#compare", "Compare"]);
    if (index.waits.length || live) items.push(["inbox", "#inbox", "Inbox"]);
    this.version.textContent = index.version;
    this.pages.replaceChildren(
      ...items.map(([name, to, text]) =>
        el(
          "a",
          {href: to, "aria-current": name === this.now && "page"},
          text,
          name === "inbox" && index.waits.length > 0 && el("span.n", num(index.waits.length)),
        ),
      ),
    );
    this.id.replaceChildren(...(this.now === "run" && view ? visible(view.run.id) : []));
  },
};

const header = el(
  "header",
  el("div.top", el("span.brand", "paor ", nav.version), nav.pages, nav.status, nav.id, nav.extra),
  el("div.slot"),
);

function place(name, box, verdict, title) {
  nav.now = name;
  box.id = "main";
  const main = app.querySelector("main"),
    same = main === box;
  if (main && !same) main.replaceWith(box);
  else if (!main) app.append(box);
  if (main && !same && document.activeElement === document.body) box.focus({preventScroll: true});
  header.lastChild.replaceChildren(...(verdict ? [verdict] : []));
  document.body.className = name + (name === "run" && state.view?.run.bad >= 0 ? " broken" : "");
  document.title = spell(cut(title, 120)) + " · paor";
  for (const alarm of app.querySelectorAll(":scope > .alarm")) alarm.remove();
  if (name === "run") header.after(state.view.alarm);
  nav.extra.replaceChildren(...(name === "run" && state.view.extra ? [state.view.extra] : []));
  nav.fill();
  if (live) status();
  return same;
}

async function openView(id) {
  if (state.view?.run.id === id) return state.view;
  const run = await openRun(id);
  state.view?.leave();
  state.view = new RunView(run);
  return state.view;
}

let turn = 0;
async function route() {
  const mine = ++turn,
    hash = location.hash,
    {index} = state;
  const found = /^#(?:run\/([^/]+)\/?)?(?:row-(\d+))?$/.exec(hash);
  try {
    if (hash.startsWith("#runs") || ((!hash || hash === "#") && !index.open)) {
      state.runs ||= new RunsView(index);
      place("runs", state.runs.box, null, index.title || "Runs");
      state.runs.open(hash.split("?")[1] || "");
    } else if (/^#inbox(\?|$)/.test(hash)) {
      (state.inbox ||= new InboxView()).open(hash.split("?")[1] || "");
      place("inbox", state.inbox.box, null, "Inbox");
    } else if (hash === "#compare" || ((!hash || hash === "#") && index.compared)) {
      state.compare ||= await compareView();
      if (mine === turn) place("compare", state.compare, null, "Compare");
    } else if (hash.startsWith("#compare/")) {
      state.pair = hash.split("/").slice(1).map(decodeURIComponent);
      const box = await compareView(...state.pair);
      if (mine === turn) place("compare", box, null, "Compare");
    } else {
      const id = found?.[1] ? decodeURIComponent(found[1]) : state.index.open;
      if (!id) {
        location.hash = "#runs";
        return;
      }
      const view = await openView(id);
      if (mine !== turn) return;
      place("run", view.box, view.verdict, view.run.line.objective ?? view.run.id);
      const row = found?.[2] !== undefined ? Number(found[2]) : view.now >= 0 ? view.now : view.run.n - 1;
      // an ended run is read from its beginning, one that goes on from its end
      if (row !== view.now || found?.[2] === undefined)
        view.show(row, false, found?.[2] === undefined && ["done", "failed"].includes(view.run.line.status));
      view.follow();
      view.chain.check();
    }
    if (state.view && nav.now !== "run") state.view.player.stop();
  } catch (error) {
    place(
      "lost",
      el(
        "main.page",
        {tabindex: "-1"},
        el("h1", "Not to be shown"),
        el("p", error.message),
        index.runs.length > 1 && el("p", link("#runs", "all runs")),
      ),
      null,
      "Not found",
    );
  }
}

// left, right, Home, End and space belong to the run wherever the focus is, but not while somebody writes
function keys(event) {
  const view = nav.now === "run" && state.view,
    {target, key} = event;
  if (event.altKey || event.ctrlKey || event.metaKey || event.defaultPrevented) return;
  if (target.matches("input:not([type=range]),textarea,select")) return;
  if (key === "/" && state.runs && nav.now === "runs") {
    event.preventDefault();
    state.runs.q.focus();
  }
  if (!view) return;
  const step = {ArrowRight: view.now + 1, ArrowLeft: view.now - 1, Home: 0, End: view.run.n - 1}[key];
  if (step !== undefined) {
    event.preventDefault();
    view.show(step);
  } else if (key === " " && !target.matches("button,summary,a")) {
    event.preventDefault();
    view.player.press();
  }
}

// on paper every call and row is there, not only those in sight, of lists of at most 3,000
function printed(on) {
  const view = state.view;
  for (const list of [view?.said.list, view?.rows.list, state.runs?.list])
    if (list) {
      list.all = on && list.n <= 3000;
      list.draw();
    }
}

async function start() {
  header.prepend(
    el(
      "a.skip",
      {
        href: "#main",
        onclick: event => {
          event.preventDefault();
          (app.querySelector("#detail") || app.querySelector("main")).focus();
        },
      },
      "Skip to the content",
    ),
  );
  app.append(header);
  try {
    state.index = await load("index");
  } catch (error) {
    app.append(el("main.page", el("h1", "This page cannot be read"), el("p", error.message)));
    return;
  }
  if (live) stream("events", state.index.at || "", {runs: changed});
  addEventListener("hashchange", route);
  addEventListener("keydown", keys);
  addEventListener("beforeprint", () => printed(true));
  addEventListener("afterprint", () => printed(false));
  await route();
}

start();
