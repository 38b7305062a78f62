// The status page: fetches the daemon's state every few seconds, and renders it. It never requests a change.

import { ago, byId, bytes, clock, count, h, moment, s, setClock, setText, tick, took, zone } from "/text.js";
import { causes, currentState, detailsLabel, editStates, outcome, progressLabel } from "/words.js";

/** How often everything is fetched again: while idle, and while a job runs. */
const IDLE = 5_000;
const RUNNING = 2_000;

const known = {
  status: null,
  /** Why the daemon cannot be reached; null if it can. */
  unreachable: null,
};

/* Fetching. */

let fetching = false;
let later = null;

async function get(path) {
  const response = await fetch(path, { cache: "no-store", signal: AbortSignal.timeout(20_000) });
  const body = await response.json();
  if (!response.ok) throw new Error(body.error);
  // Not that of the reading, which is old where the file does not answer.
  setClock(response.headers.get("date"));
  return body;
}

/** Fetches everything, now and every few seconds while the page is visible. */
async function refresh() {
  clearTimeout(later);
  if (fetching) return;
  fetching = true;
  try {
    known.status = await get("/status");
    known.unreachable = null;
  } catch (error) {
    known.unreachable = error.name === "TypeError" || error.name === "TimeoutError" ? "" : error.message;
  }
  fetching = false;
  show();
  if (!document.hidden) later = setTimeout(refresh, known.status?.daemon?.running ? RUNNING : IDLE);
}

/* Rendering. */

function showNow() {
  const [tone, text] = currentState(known);
  const now = byId("now");
  if (now.className !== tone) now.className = tone;
  setText(now, text);
  notices();
}

let shownNotices = "";

function notices() {
  const found = causes(known);
  // Screen readers announce replaced elements: unchanged notices stay in place.
  const now = JSON.stringify(found);
  if (now === shownNotices) return;
  shownNotices = now;
  byId("notices").replaceChildren(
    ...found.map(([tone, what, why, command]) =>
      h("p", { class: `notice ${tone}` }, h("strong", {}, what), h("span", {}, ` ${why} `, command ? h("code", {}, command) : null)),
    ),
  );
}

/** A progress bar; none if there is nothing to do. */
function meter(done, all, label) {
  if (!(all > 0)) return null;
  const part = Math.min(100, (100 * done) / all);
  return s(
    "svg",
    { class: "meter", viewBox: "0 0 100 6", preserveAspectRatio: "none", role: "img", "aria-label": label },
    s("rect", { class: "all", width: 100, height: 6, rx: 1 }),
    s("rect", { class: "done", width: part, height: 6, rx: 1 }),
  );
}

function details(object) {
  if (object.details_pending === null) return h("td", { class: "wide empty" });
  const done = object.details_current;
  const label = detailsLabel(object);
  return h("td", { class: "wide", "data-name": "Details" }, h("span", { class: "small" }, label), meter(done, object.rows, `Details: ${label}`));
}

/** The progress of the current run's long work on an object, or null. */
function progressOf({ sweep }) {
  if (!sweep) return null;
  const label = progressLabel(sweep);
  return h("div", { class: "small" }, label, meter(sweep.rows, sweep.total, label));
}

function freshness() {
  byId("fresh").tBodies[0].replaceChildren(
    ...known.status.objects.map((object) => {
      const by = object.complete_by && object.removed !== null ? ` by ${object.complete_by === "count" ? "count" : "sweep"}` : "";
      const sweep = object.sweep;
      const notes = [
        sweep && !known.status.running && `${sweep.first_copy ? "first copy" : "sweep"} not finished`,
        object.removed ? `${count(object.removed)} removed` : null,
        object.custom_fields ? `${count(object.custom_fields)} custom fields` : null,
      ].filter(Boolean);
      return h(
        "tr",
        {},
        h("th", { scope: "row" }, object.object, notes.length ? h("div", { class: "small" }, notes.join("; ")) : null, progressOf(object)),
        h("td", { class: "number" }, count(object.rows)),
        h("td", { "data-name": "Changes up to" }, ago(object.changes_as_of)),
        h("td", { "data-name": "Complete as of" }, ago(object.complete_as_of), h("span", { class: "small" }, by)),
        details(object),
      );
    }),
  );
}

function budget() {
  const { left, limit, refills_at, per_run } = known.status.ru;
  byId("ru").replaceChildren(
    h("strong", {}, count(left)),
    ` of ${count(limit)} RU left; the window ends `,
    ago(refills_at),
    `. A run for changes costs about ${count(per_run)} RU.`,
  );
}

function edits() {
  const text = editStates(known.status.edits);
  byId("edits").hidden = !text;
  if (!text) return;
  const { oldest } = known.status.edits;
  byId("edit-states").replaceChildren(text, ...(oldest ? ["; the oldest was created ", ago(oldest)] : []));
}

function publishing() {
  const lag = known.status.publish;
  byId("publish").hidden = !lag;
  if (!lag) return;
  const behind = lag.last_error || lag.entries ? `${count(lag.entries)} changes behind` : "Up to date";
  const state = lag.published_at ? behind : "Never published as a whole";
  byId("publish-state").replaceChildren(
    h("strong", {}, state),
    "; last published ",
    ago(lag.published_at),
    lag.last_error ? `; ${count(lag.failures)} failed attempts since: ${lag.last_error}` : "",
  );
}

/** How long a run took, or has taken so far. */
function lasted(run, word) {
  const end = run.finished_at ? Date.parse(run.finished_at) : word === "running" ? clock() : null;
  return end === null ? null : Math.max(end - Date.parse(run.started_at), 0);
}

function runs() {
  const list = known.status.runs;
  const running = Boolean(known.status.daemon?.running);
  byId("no-runs").hidden = list.length > 0;
  byId("all-runs").hidden = list.length === 0;
  byId("runs").tBodies[0].replaceChildren(
    ...list.map((run, place) => {
      const word = outcome(run, place, running);
      const ms = lasted(run, word);
      const number = (value) => h("td", { class: "number" }, value === null || !run.outcome ? "?" : count(value));
      return h(
        "tr",
        {},
        h("th", { scope: "row", class: "number" }, String(run.id)),
        h("td", {}, `${run.kind}, ${run.trigger}`),
        h("td", {}, ago(run.started_at)),
        h("td", { class: "number" }, ms === null ? "" : took(ms)),
        h("td", { class: "outcome" }, h("span", { class: `tone-${word.replace(" ", "-")}` }, word), run.error ? `: ${run.error}` : ""),
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

function show() {
  showNow();
  const { status } = known;
  byId("main").hidden = false;
  for (const section of document.querySelectorAll("main > section:not(#anomalies, #edits, #publish)")) section.hidden = !status;
  if (!status) return;
  setText(byId("where"), [status.database, status.base_url && `of ${status.base_url}`].filter(Boolean).join(" "));
  freshness();
  budget();
  runs();
  edits();
  publishing();
  byId("anomalies").hidden = status.oddities.length === 0;
  byId("anomaly-list").replaceChildren(
    ...status.oddities.map((anomaly) =>
      h("li", {}, `${anomaly.resource}: ${anomaly.what} (${count(anomaly.times)} times, last `, ago(anomaly.last_seen_at), ")"),
    ),
  );
  const { daemon } = status;
  const about = [
    daemon && `crm-mirror ${daemon.version}, process ${daemon.pid}, running since ${moment(Date.parse(daemon.since))}`,
    `file ${bytes(status.bytes)}${status.wal_bytes ? ` and a WAL of ${bytes(status.wal_bytes)}` : ""}`,
    daemon && `the schedule's time zone is ${daemon.time_zone}, times on this page are in ${zone()}`,
  ];
  setText(byId("about"), about.filter(Boolean).join("; "));
  document.body.dataset.read = status.read_at;
}

/* Start. */

document.addEventListener("visibilitychange", () => {
  // A hidden page sends no requests.
  if (document.hidden) clearTimeout(later);
  else refresh();
});

setInterval(() => {
  if (document.hidden || !known.status) return;
  tick();
  showNow();
}, 1000);

if (!document.hidden) refresh();
