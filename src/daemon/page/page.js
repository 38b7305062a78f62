// The page: asks the daemon how it stands, listens to what happens, and shows both. It never asks for anything to be done.

import { lasted, outcome, spent, strip, windows } from "/plots.js";
import { ago, byId, bytes, clock, count, h, moment, s, say, setClock, tick, took, zone } from "/text.js";
import { causes, standing } from "/words.js";

/** How often everything is asked for anew: at rest, and while something runs. */
const AT_REST = 60_000;
const RUNNING = 10_000;
/** Changes that are shown before somebody wants more. */
const FEW = 12;
/** Warnings that are kept. */
const WARNINGS = 3;

const known = {
  status: null,
  history: null,
  /** The piece of work under way, and what the run has spent. */
  work: null,
  runRu: null,
  /** Why the daemon is not heard; null where it is. */
  silent: null,
  stopping: false,
  warnings: [],
  all: false,
};

/* What is asked, and when. */

let asking = null;
let again = false;
let soon = null;
let later = null;
let stream = null;
let reconnect = null;

async function get(path) {
  const response = await fetch(path, { cache: "no-store", signal: AbortSignal.timeout(20_000) });
  const body = await response.json();
  if (!response.ok) throw new Error(body.error);
  return body;
}

/** Asks for everything; whoever asks meanwhile is served by one more time after this one. */
async function refresh() {
  clearTimeout(later);
  if (asking) {
    again = true;
    return;
  }
  asking = Promise.all([get("/status"), get("/history")]);
  try {
    [known.status, known.history] = await asking;
    known.silent = null;
    known.stopping = false;
    setClock(known.history.now);
    // What the stream has told since may be newer than this.
    if (!known.status.daemon?.running) known.work = null;
    else if (!known.work) known.work = known.history.under_way;
  } catch (error) {
    known.silent = error.name === "TypeError" || error.name === "TimeoutError" ? "" : error.message;
  }
  asking = null;
  show();
  if (again) {
    again = false;
    refreshSoon();
  }
  if (!document.hidden) {
    later = setTimeout(refresh, known.silent !== null || known.status?.daemon?.running ? RUNNING : AT_REST);
  }
}

function refreshSoon() {
  clearTimeout(soon);
  soon = setTimeout(refresh, 150);
}

function listen() {
  clearTimeout(reconnect);
  stream?.close();
  stream = new EventSource("/events");
  stream.onopen = () => refresh();
  stream.onmessage = (message) => heard(JSON.parse(message.data));
  stream.onerror = () => {
    refreshSoon();
    // A browser that was refused does not try again by itself.
    if (stream.readyState === EventSource.CLOSED) reconnect = setTimeout(listen, 5000);
  };
}

function rest() {
  clearTimeout(later);
  clearTimeout(soon);
  clearTimeout(reconnect);
  stream?.close();
  stream = null;
}

/** Takes a line of the stream. What it does not know is left alone: the stream grows. */
function heard(told) {
  switch (told.event) {
    case "begins":
      known.work = { resource: told.resource, work: told.work, rows: 0, total: told.total };
      break;
    case "total":
      if (known.work) known.work.total = told.total;
      break;
    case "stored":
      if (known.work) known.work.rows = told.rows;
      known.runRu = told.ru;
      break;
    case "ends":
      known.work = null;
      break;
    case "warning":
      known.warnings = [{ text: told.text, at: clock() }, ...known.warnings].slice(0, WARNINGS);
      break;
    case "stopping":
      known.stopping = true;
      break;
    case "started":
    case "finished":
    case "preempted":
      known.work = null;
      known.runRu = null;
      refreshSoon();
      break;
    case "queued":
    case "holding":
    case "paused":
    case "resumed":
    case "reloaded":
    case "missed":
      refreshSoon();
      break;
  }
  showNow();
}

/* What is shown. */

function showNow() {
  const [tone, text] = standing(known);
  const now = byId("now");
  if (now.className !== tone) now.className = tone;
  say(now, text);
  notices();
}

let noticed = "";

function notices() {
  const found = causes(known);
  // What is unchanged is not read out again.
  const now = JSON.stringify(found);
  if (now === noticed) return;
  noticed = now;
  byId("notices").replaceChildren(
    ...found.map(([tone, what, why, command]) =>
      h("p", { class: `notice ${tone}` }, h("strong", {}, what), h("span", {}, ` ${why} `, command ? h("code", {}, command) : null)),
    ),
  );
}

/** A bar of what is done. */
function meter(done, all, says) {
  const part = all > 0 ? (100 * done) / all : 100;
  return s(
    "svg",
    { class: "meter", viewBox: "0 0 100 6", preserveAspectRatio: "none", role: "img", "aria-label": says },
    s("rect", { class: "all", width: 100, height: 6, rx: 1 }),
    s("rect", { class: "done", width: part, height: 6, rx: 1 }),
  );
}

function details(object) {
  if (object.details_pending === null) return h("td", { class: "wide empty" });
  const done = object.details_current;
  const says = object.details_pending ? `${count(object.details_pending)} pending` : "all read";
  return h("td", { class: "wide", "data-name": "Details" }, h("span", { class: "small" }, says), meter(done, object.rows, `Details: ${says}`));
}

function freshness() {
  byId("fresh").tBodies[0].replaceChildren(
    ...known.status.objects.map((object) => {
      const by = object.complete_by && object.removed !== null ? ` by ${object.complete_by === "count" ? "count" : "every record"}` : "";
      const sweep = object.sweep;
      const notes = [
        sweep && `${sweep.first_copy ? "first copy" : "sweep"} under way: ${count(sweep.rows)} rows`,
        object.removed ? `${count(object.removed)} removed` : null,
        object.custom_fields ? `${count(object.custom_fields)} custom fields` : null,
      ].filter(Boolean);
      return h(
        "tr",
        {},
        h("th", { scope: "row" }, object.object, notes.length ? h("div", { class: "small" }, notes.join("; ")) : null),
        h("td", { class: "number" }, count(object.rows)),
        h("td", { "data-name": "Changes up to" }, ago(object.changes_as_of)),
        h("td", { "data-name": "Complete as of" }, ago(object.complete_as_of), h("span", { class: "small" }, by)),
        details(object),
      );
    }),
  );
}

function budget() {
  const { used, left, limit, refills_at, per_run, windows_for_details } = known.status.ru;
  const { window } = known.history;
  const until = Date.parse(refills_at);
  const more = windows_for_details > 1 ? ` The pending details take ${count(windows_for_details)} windows.` : "";
  byId("ru").replaceChildren(
    h("strong", {}, count(left)),
    ` of ${count(limit)} RU left; the window ends `,
    ago(refills_at),
    `. A run for changes costs about ${count(per_run)} RU.${more}`,
  );
  spent({ window, used, limit });
  windows({ windows: known.history.windows, used, limit, until });
}

function runs() {
  const list = known.history.runs;
  const running = Boolean(known.status.daemon?.running);
  strip({ runs: list, running });
  const tally = new Map();
  list.forEach((run, place) => {
    const word = outcome(run, place, running);
    tally.set(word, (tally.get(word) ?? 0) + 1);
  });
  byId("legend").replaceChildren(
    ...[...tally].flatMap(([word, times], place) => [
      place ? ", " : "",
      h("span", { class: `tone-${word.replace(" ", "-")}` }, `${times} ${word}`),
    ]),
  );
  byId("runs").tBodies[0].replaceChildren(
    ...list.map((run, place) => {
      const word = outcome(run, place, running);
      const ms = lasted(run, word);
      const number = (value) => h("td", { class: "number" }, count(value));
      return h(
        "tr",
        {},
        h("th", { scope: "row", class: "number" }, String(run.id)),
        h("td", {}, `${run.kind}, ${run.trigger}`),
        h("td", {}, ago(run.started_at)),
        h("td", { class: "number" }, ms === null ? "" : took(ms)),
        h("td", { class: "says" }, h("span", { class: `tone-${word.replace(" ", "-")}` }, word), run.error ? `: ${run.error}` : ""),
        number(run.rows),
        number(run.inserted),
        number(run.updated),
        number(run.removed),
        number(run.details),
        number(run.ru),
      );
    }),
  );
}

const KINDS = { insert: "new", update: "changed", remove: "gone" };
/** Columns that change with every update, and those that repeat another. */
const bookkeeping = (name, all) =>
  name === "etag" || name === "updated_at" || (name.endsWith("_num") && all.includes(name.slice(0, -4)));

function changes() {
  const all = known.history.changes;
  const shown = known.all ? all : all.slice(0, FEW);
  byId("no-changes").hidden = all.length > 0;
  byId("changes").hidden = all.length === 0;
  byId("more-changes").hidden = shown.length === all.length;
  say(byId("more-changes"), `Show the last ${all.length}`);
  byId("changes").tBodies[0].replaceChildren(
    ...shown.map((change) => {
      const told = change.columns.filter((name) => !bookkeeping(name, change.columns));
      const few = told.slice(0, 8).join(", ");
      const rest = told.length > 8 ? ` and ${told.length - 8} more` : "";
      return h(
        "tr",
        {},
        h("td", {}, ago(change.seen_at)),
        h("td", {}, `${change.object} `, h("code", {}, change.id)),
        h("td", {}, KINDS[change.kind] ?? change.kind),
        h("td", { class: "wide" }, told.length ? h("code", {}, few) : "", rest),
      );
    }),
  );
}

function show() {
  showNow();
  const { status, history } = known;
  byId("main").hidden = false;
  for (const section of document.querySelectorAll("main > section:not(#odd)")) section.hidden = !status;
  if (!status) return;
  say(byId("where"), [status.database, status.base_url && `of ${status.base_url}`].filter(Boolean).join(" "));
  freshness();
  budget();
  runs();
  changes();
  byId("odd").hidden = status.oddities.length === 0;
  byId("oddities").replaceChildren(
    ...status.oddities.map((odd) =>
      h("li", {}, `${odd.resource}: ${odd.what} (${count(odd.times)} times, last `, ago(odd.last_seen_at), ")"),
    ),
  );
  const { daemon } = status;
  const about = [
    daemon && `crm-mirror ${daemon.version}, process ${daemon.pid}, since ${moment(Date.parse(daemon.since))}`,
    `file ${bytes(status.bytes)}${status.wal_bytes ? ` and a WAL of ${bytes(status.wal_bytes)}` : ""}`,
    daemon && `the schedule's zone is ${daemon.time_zone}, times here are ${zone()}`,
  ];
  say(byId("about"), about.filter(Boolean).join("; "));
  document.body.dataset.read = history.now;
}

/* And it begins. */

byId("more-changes").addEventListener("click", () => {
  known.all = true;
  changes();
});

document.addEventListener("visibilitychange", () => {
  // A page that nobody sees asks nothing.
  if (document.hidden) rest();
  else listen();
});

setInterval(() => {
  if (document.hidden || !known.status) return;
  tick();
  showNow();
}, 1000);

if (!document.hidden) listen();
