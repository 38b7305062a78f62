// What goes on, in one line, and what a person should know or do. Both say what the daemon said; nothing is decided here.

import { clock, count, moment, when } from "/text.js";

const sentence = (text) => text.charAt(0).toUpperCase() + text.slice(1);

/** One line: how grave it is, and what goes on. */
export function standing(known) {
  const daemon = known.status?.daemon;
  if (known.silent !== null) return ["bad", "The daemon does not answer"];
  if (known.stopping) return ["waits", "The daemon is ending"];
  if (!daemon) return ["waits", "The daemon says nothing of itself"];
  if (daemon.running) {
    const { work, trigger } = daemon.running;
    const parts = [`${sentence(work)} under way${trigger === "schedule" ? " by the schedule" : ""}`];
    if (known.work) {
      const { resource, work: piece, rows, total } = known.work;
      parts.push(`${piece} of ${resource}${rows || total ? `, ${count(rows)}${total ? ` of ${count(total)}` : ""} rows` : ""}`);
    }
    if (known.runRu) parts.push(`${count(known.runRu)} RU`);
    return ["runs", parts.join(": ").replace(/: (\S+ RU)$/, ", $1")];
  }
  if (daemon.waiting_for) return ["waits", `Waiting: ${daemon.waiting_for}`];
  if (daemon.hold) return ["waits", `No request until ${moment(Date.parse(daemon.hold.until))}`];
  if (daemon.trouble) return ["bad", `Runs fail; next try ${when(Date.parse(daemon.trouble.next_try))}`];
  if (daemon.paused_since) return ["waits", "The schedule rests"];
  const next = daemon.next.find((kind) => kind.kind === "changes")?.at;
  return ["ok", next ? `Up to date; next run ${when(Date.parse(next))}` : "Up to date; waiting to be asked"];
}

/** What a person should know or do, the gravest first: how grave, what, why, and a command that helps. */
export function causes(known) {
  const found = [];
  const { status } = known;
  if (known.silent !== null) {
    const last = status ? "What is below is what it said last. " : "";
    const why = known.silent || `${last}It is tried again every few seconds.`;
    found.push(["bad", "The daemon does not answer.", why]);
  }
  if (!status) return found;
  const { daemon } = status;
  if (daemon?.trouble) {
    const { since, why, runs, next_try } = daemon.trouble;
    const next = `Next try at ${moment(Date.parse(next_try))}.`;
    found.push(["bad", `Runs have failed since ${moment(Date.parse(since))}, ${count(runs)} in a row.`, `${sentence(why)}. ${next}`]);
  } else if (!daemon && status.trouble) {
    found.push(["bad", `The last ${count(status.trouble.runs)} runs failed.`, status.trouble.error ?? ""]);
  }
  for (const { object, outage, differences } of status.objects) {
    if (outage) {
      const going = `${count(outage.going)} of ${count(outage.of)} ${object} would be removed.`;
      found.push(["bad", going, "That looks like an outage, so nothing was. If it is right:", "crm-mirror resync --accept-removals"]);
    }
    if (differences) {
      found.push(["warn", `${count(differences)} differences in ${object}.`, "What mends them:", "crm-mirror verify --repair"]);
    }
  }
  const held = daemon?.hold;
  if (held?.reason === "budget") {
    found.push(["warn", `The budget of this window is spent; going on at ${moment(Date.parse(held.until))}.`, "The limit is budget.limit."]);
  }
  const hold = held?.reason === "rate-limit" ? held.until : status.hold_until;
  if (hold && Date.parse(hold) > clock()) {
    found.push(["warn", `The service asked for quiet until ${moment(Date.parse(hold))}.`, "Nothing is asked before."]);
  }
  if (daemon?.paused_since) {
    const since = moment(Date.parse(daemon.paused_since));
    found.push(["warn", `The schedule rests since ${since}.`, "What lets it go on:", "crm-mirror resume"]);
  }
  const edits = status.edits ?? {};
  for (const [state, kind, what, command] of [
    ["held", "bad", "too many were made within an hour. To send them:", "crm-mirror outbox release --all"],
    ["conflict", "warn", "somebody else changed the same fields. To decide:", "crm-mirror outbox"],
    ["rejected", "warn", "the service does not take them. To see why:", "crm-mirror outbox --all"],
  ]) {
    if (edits[state]) found.push([kind, `${count(edits[state])} edits ${state}:`, what, command]);
  }
  for (const [object, scope] of Object.entries(status.missing_scopes)) {
    found.push(["warn", `The key may not read ${object}.`, `It lacks the scope ${scope}.`]);
  }
  for (const { text, at } of known.warnings) found.push(["info", `${moment(at)}:`, text]);
  return found;
}
