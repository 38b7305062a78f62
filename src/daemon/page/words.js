// The current state in one line, and what needs attention. Both only restate what the daemon reported.

import { clock, count, moment, when } from "/text.js";

const sentence = (text) => text.charAt(0).toUpperCase() + text.slice(1);

/** The current state: its severity and one line of text. */
export function currentState(known) {
  const daemon = known.status?.daemon;
  if (known.unreachable !== null) return ["bad", "The daemon does not answer"];
  if (!daemon) return ["waits", "The daemon reports no state"];
  if (daemon.running) {
    const { work, trigger } = daemon.running;
    const first = known.status.objects.find((object) => object.sweep);
    const progress = first ? `: ${workLabel(first.sweep)} of ${first.object}` : "";
    return ["runs", `${sentence(work)} running${trigger === "schedule" ? " (scheduled)" : ""}${progress}`];
  }
  if (daemon.waiting_for) return ["waits", `Waiting: ${daemon.waiting_for}`];
  if (daemon.hold) return ["waits", `No request until ${moment(Date.parse(daemon.hold.until))}`];
  if (daemon.paused_since) return ["waits", "The schedule is paused"];
  if (daemon.trouble) return ["bad", `Runs fail; next attempt ${when(Date.parse(daemon.trouble.next_try))}`];
  const { at: next, interval } = daemon.next.find((kind) => kind.kind === "changes") ?? {};
  if (known.status.objects.every((object) => !object.changes_as_of)) {
    return ["waits", next ? `Nothing is copied yet; the first copy begins ${when(Date.parse(next))}` : "Nothing is copied yet"];
  }
  const every = interval ? `, every ${interval} s` : "";
  const [severity, mirror] = known.status.up_to_date ? ["ok", "Up to date"] : ["waits", "Idle"];
  return [severity, `${mirror}; ${next ? `next run ${when(Date.parse(next))}${every}` : "nothing is scheduled"}`];
}

/** The state of an object's details. */
export function detailsLabel(object) {
  if (!object.changes_as_of && !object.rows) return "not copied yet";
  if (!object.rows) return "no records";
  return object.details_pending ? `${count(object.details_pending)} pending` : "all read";
}

const workLabel = ({ first_copy }) => (first_copy ? "first copy" : "sweep");

/** The progress of a first copy or a sweep. */
export function progressLabel(sweep) {
  const of = sweep.total === null ? " so far" : ` of ${count(sweep.total)}`;
  return `${workLabel(sweep)}: ${count(sweep.rows)}${of}`;
}

/** The open edits by state; empty if there are none. */
export function editStates(edits) {
  const states = ["queued", "held", "sending", "conflict", "rejected"].filter((state) => edits?.[state]);
  return states.map((state) => `${count(edits[state])} ${state === "conflict" ? "in conflict" : state}`).join(", ");
}

/** What needs attention, the most severe first: severity, what, why, and a command that fixes it. */
export function causes(known) {
  const found = [];
  const { status } = known;
  if (known.unreachable !== null) {
    const last = status ? "Below is its last known state. " : "";
    const why = known.unreachable || `${last}The page retries every few seconds.`;
    found.push(["bad", "The daemon does not answer.", why]);
  }
  if (!status) return found;
  const { daemon } = status;
  if (daemon?.trouble) {
    const { since, why, runs, next_try } = daemon.trouble;
    const next = daemon.paused_since ? "" : ` Next attempt at ${moment(Date.parse(next_try))}.`;
    found.push(["bad", `Runs have failed since ${moment(Date.parse(since))}, ${count(runs)} in a row.`, `${sentence(why)}.${next}`]);
  } else if (!daemon && status.trouble) {
    found.push(["bad", `The last ${count(status.trouble.runs)} runs failed.`, status.trouble.error ?? ""]);
  }
  for (const { object, outage, differences } of status.objects) {
    if (outage) {
      const going = `${count(outage.going)} of ${count(outage.of)} ${object} would be removed.`;
      found.push(["bad", going, "That looks like an outage, so nothing was removed. To confirm the removal:", "crm-mirror resync --accept-removals"]);
    }
    if (differences) {
      found.push(["warn", `${count(differences)} differences in ${object}.`, "To repair them:", "crm-mirror verify --repair"]);
    }
  }
  const held = daemon?.hold;
  if (held?.reason === "budget") {
    found.push(["warn", `The budget of this window is spent; runs resume at ${moment(Date.parse(held.until))}.`, "The limit is budget.limit."]);
  }
  const hold = held?.reason === "rate-limit" ? held.until : status.hold_until;
  if (hold && Date.parse(hold) > clock()) {
    found.push(["warn", `The service limits the request rate until ${moment(Date.parse(hold))}.`, "No request is sent before."]);
  }
  if (daemon?.paused_since) {
    const since = moment(Date.parse(daemon.paused_since));
    found.push(["warn", `The schedule has been paused since ${since}.`, "To resume it:", "crm-mirror resume"]);
  }
  const edits = status.edits ?? {};
  for (const [state, kind, what, command] of [
    ["held", "bad", "they wait for a decision: outbox drop --all discards them, outbox release --all sends them. To see them:", "crm-mirror outbox list"],
    ["conflict", "warn", "the service has other values now. To resolve them:", "crm-mirror outbox"],
    ["rejected", "warn", "the service refused them. To see them:", "crm-mirror outbox"],
  ]) {
    if (edits[state]) found.push([kind, `${count(edits[state])} edits ${state}:`, what, command]);
  }
  for (const { object, scope } of status.missing_scopes) {
    found.push(["warn", `The API key may not read ${object}.`, `It lacks the scope ${scope}.`]);
  }
  return found;
}

/** The outcome of a run. A run without an end is the running one if it is the newest and a job runs; else it was killed. */
export function outcome(run, place, running) {
  if (run.outcome) return run.outcome;
  return place === 0 && running ? "running" : "interrupted";
}
