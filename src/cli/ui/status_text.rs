//! `status` as text: the mirror, the daemon, the objects, what needs attention, and the last runs.

use serde::Serialize;

use crate::app::status::{MirrorStatus, ObjectStatus};
use crate::cli::verbs::publish::left_out;
use crate::cli::{DaemonState, output};
use crate::config::Config;
use crate::daemon::{DaemonStatus, StatusReply};
use crate::format::{self, count, counted, plain, when};
use crate::model::{HELD_COMMANDS, Instant, Ru};
use crate::store::outbox_report::EditCounts;
use crate::store::{PublishLag, RecordedRun, wal};

#[derive(Serialize)]
pub struct StatusDocument<'a> {
    #[serde(flatten)]
    pub reply: &'a StatusReply,
    pub daemon_state: DaemonState,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fresh: Option<bool>,
}

/// A label, and what is said about it; a line that continues the one above has none.
type Line = (&'static str, String);

pub fn text(document: &StatusDocument<'_>, config: &Config, now: Instant) -> String {
    let status = &document.reply.status;
    let head = [head(status, config, now), daemon(document, config, now)].concat();
    let mut text: String = head.into_iter().map(|(label, said)| format!("{label:<8} {said}\n")).collect();
    text += &format!("\n{}", objects(&status.objects, now));
    let attention: String = attention(status, now).iter().map(|(label, said)| format!("{label}: {said}\n")).collect();
    if !attention.is_empty() {
        text += &format!("\n{attention}");
    }
    if !status.runs.is_empty() {
        text += &format!("\n{}", runs(&status.runs, status.running.as_ref().map(|running| running.run), now));
    }
    text
}

fn head(status: &MirrorStatus, config: &Config, now: Instant) -> Vec<Line> {
    let ru = &status.ru;
    let wal = match status.wal_bytes {
        0 => String::new(),
        bytes => format!(", WAL {}", format::bytes(bytes)),
    };
    // A reader may have no configuration.
    let left = match &config.api.base_url {
        Some(_) => format!("{} of {} left until {}", count(ru.left), count(ru.limit), moment(ru.refills_at, now)),
        None => format!("{} used in this window; no configuration says how many may be", count(ru.used)),
    };
    let mut lines = vec![
        ("mirror", format!("{} ({}{wal})", status.database, format::bytes(status.bytes))),
        ("service", status.base_url.as_deref().map_or("not contacted yet".into(), plain)),
        ("RU", left),
        ("", format!("a run for changes costs about {}", format::ru(Ru::new(ru.per_run)))),
    ];
    lines.extend(status.hold_until.map(|until| {
        let until = moment(until, now);
        ("hold", format!("rate limit: no request before {until}; `crm-mirror resume --now` ends the wait"))
    }));
    let since = status.history_since.as_deref().and_then(|since| since.parse().ok());
    lines.extend(since.map(|since| ("history", format!("every change since {}", format::moment(since)))));
    lines.extend(status.publish.iter().flat_map(|lag| published(lag, now)));
    lines
}

fn published(PublishLag { entries, progress: known, .. }: &PublishLag, now: Instant) -> Vec<Line> {
    let behind = match *entries {
        _ if known.published_at.is_none() => "no whole copy is known".to_string(),
        0 if known.last_error.is_none() && known.refused == 0 && known.proof.differences == 0 => "up to date".into(),
        0 => "no change is waiting".into(),
        entries => format!("{} behind", counted(entries, "change", "changes")),
    };
    let error = known.last_error.as_deref().map(|error| format!("; {}", plain(error))).unwrap_or_default();
    let proof = &known.proof;
    let compared = match proof.compared_at.map(|at| moment(at, now)) {
        None => "not compared with the mirror since it was loaded".into(),
        Some(at) if proof.equal_at == proof.compared_at => format!("every value was equal when compared {at}"),
        Some(at) if proof.differences == 0 => format!("not every table could be compared {at}"),
        Some(at) => {
            let found = counted(proof.differences, "difference", "differences");
            format!("{found} when compared {at}; `crm-mirror publish --verify --repair` repairs them:")
        }
    };
    let mut lines = vec![("publish", format!("{behind}{error}")), ("", compared)];
    lines.extend(proof.differing.iter().take(5).map(|difference| ("", plain(&difference.to_string()))));
    let left_out = left_out(&known.left_behind, known.refused, &known.refused_rows);
    lines.extend(left_out.into_iter().map(|line| ("", line)));
    lines
}

fn daemon(document: &StatusDocument<'_>, config: &Config, now: Instant) -> Vec<Line> {
    let status = &document.reply.status;
    let mut lines = Vec::new();
    let run = status.running.as_ref().zip(status.runs.first());
    match &document.reply.daemon {
        None => {
            lines.push(("daemon", no_daemon(document.daemon_state, config.unit.as_deref())));
            lines.extend(run.map(|(running, run)| {
                let process = running.pid.map_or("another process".into(), |pid| format!("process {pid}"));
                ("running", format!("{process}: {}, started {}", run.kind, age(&run.started_at, now)))
            }));
            lines.extend(status.paused_since.map(|since| {
                ("paused", format!("since {}; `crm-mirror resume` resumes the schedule", format::moment(since)))
            }));
        }
        Some(daemon) => {
            let doing = match &daemon.running {
                Some(job) => {
                    format!("running {}, started {}", job.work, job.since.map(|at| when(at, now)).unwrap_or_default())
                }
                None => "idle".into(),
            };
            let since = format::moment(daemon.since);
            lines.push(("daemon", format!("process {}, since {since}: {doing}", daemon.pid)));
            lines.push(("next", next(daemon, now)));
            let failed = "what is on disk is not active, and the old configuration is; `crm-mirror check` says why";
            lines.extend(daemon.reload_failed.then(|| ("config", failed.into())));
            // As much as a line of 80 columns has room for.
            lines.extend(daemon.trouble.iter().map(|trouble| ("trouble", output::cut(&plain(&trouble.reason), 70))));
        }
    }
    lines
}

/// Why no daemon answers, and what starts one: the mirror's unit, if it has one.
fn no_daemon(state: DaemonState, unit: Option<&str>) -> String {
    match state {
        DaemonState::Unresponsive => format!("does not answer; {} may show why", systemctl("status", unit, "its log")),
        DaemonState::Inaccessible => "this user may not access it: ask as root, or as the user that it runs as".into(),
        _ => format!("not running; {} starts it", starter(unit)),
    }
}

fn systemctl(verb: &str, unit: Option<&str>, otherwise: &str) -> String {
    unit.map_or(otherwise.into(), |unit| format!("`systemctl {verb} {unit}`"))
}

pub fn starter(unit: Option<&str>) -> String {
    systemctl("start", unit, "`crm-mirror daemon`")
}

fn next(daemon: &DaemonStatus, now: Instant) -> String {
    if let Some(condition) = daemon.condition() {
        return plain(&condition).replace("; ", ";\n         ");
    }
    let kinds = daemon.next.iter().filter_map(|next| Some(format!("{} {}", next.kind, when(next.at?, now))));
    let kinds: Vec<String> = kinds.collect();
    let kinds = if kinds.is_empty() { "nothing".into() } else { kinds.join(", ") };
    let every = daemon.poll_interval().map(|interval| format!("; changes every {}", format::duration(interval)));
    format!("{kinds} (schedule in {}){}", daemon.time_zone, every.unwrap_or_default())
}

fn moment(at: Instant, now: Instant) -> String {
    format!("{} ({})", format::moment(at), when(at, now))
}

/// The age of a stored time; one that cannot be read is shown as it is.
fn age(stored: &str, now: Instant) -> String {
    stored.parse().map_or_else(|_| stored.into(), |at| when(at, now))
}

fn objects(objects: &[ObjectStatus], now: Instant) -> String {
    let titles = ["object", "rows", "removed", "pending", "changes as of", "complete as of"];
    let number = |number: Option<u64>| number.map(count).unwrap_or_default();
    let ago = |at: Option<Instant>| at.map_or("never".into(), |at| when(at, now));
    let rows = objects.iter().map(|object| {
        let by_count = if object.complete_by == Some("count") { ", by count" } else { "" };
        vec![
            object.object.to_string(),
            count(object.rows),
            number(object.removed),
            number(object.details_pending),
            ago(object.changes_as_of),
            ago(object.complete_as_of) + by_count,
        ]
    });
    output::table(&titles, &[1, 2, 3], rows)
}

fn edits(edits: &EditCounts, now: Instant) -> Vec<Line> {
    let states = [
        (edits.queued, "queued"),
        (edits.held, "held"),
        (edits.sending, "being sent"),
        (edits.conflict, "in conflict"),
        (edits.rejected, "rejected"),
    ];
    let open = states.iter().filter(|(number, _)| *number > 0);
    let open: Vec<String> = open.map(|(number, state)| format!("{} {state}", count(*number))).collect();
    let oldest = edits.oldest.map(|oldest| format!("; the oldest was created {}", when(oldest, now)));
    let mut lines = Vec::new();
    if !open.is_empty() {
        lines.push(("edits", open.join(", ") + &oldest.unwrap_or_default()));
    }
    if edits.held > 0 {
        lines.push(("held", format!("waiting for a decision; {HELD_COMMANDS}")));
    }
    if edits.conflict + edits.rejected > 0 {
        lines.push(("decide", "`crm-mirror outbox show ID` says why, and what both sides have".into()));
    }
    lines
}

fn object_attention(object: &ObjectStatus, now: Instant) -> Vec<Line> {
    let resource = object.object;
    let sweep = object.sweep.map(|sweep| {
        let work = if sweep.first_copy { "first copy" } else { "sweep" };
        let of = sweep.total.map(|total| format!(" of {}", count(total))).unwrap_or_default();
        let (began, rows) = (when(sweep.began, now), count(sweep.rows));
        ("in progress", format!("{work} of {resource}, started {began}, {rows}{of} rows so far"))
    });
    let differs = (object.differences > 0).then(|| {
        let found = counted(object.differences, "difference", "differences");
        ("differs", format!("{found} in {resource}; `crm-mirror resync {resource}` repairs what differs"))
    });
    let doubt = match (object.outage, object.undecided) {
        (Some(outage), _) => Some((
            "refused",
            format!(
                "{} of {} {resource} would be removed at once, which looks like an outage; if that is correct, run \
                 `crm-mirror resync {resource} --accept-removals`",
                count(outage.going),
                count(outage.of),
            ),
        )),
        (None, Some(undecided)) => {
            let items = counted(undecided.items, "item", "items");
            // Short lists have no id filter: two lists an hour apart decide.
            let untimed = if object.removed.is_some() { "by the next run" } else { "by a list an hour later" };
            let next = undecided.next_lookup.map_or(untimed.into(), |at| when(at, now));
            Some((
                "undecided",
                format!(
                    "{items} of {resource} may have been removed or changed, or lack values of a field that are still to \
                     be read; looked up again {next}"
                ),
            ))
        }
        (None, None) => None,
    };
    [sweep, differs, doubt].into_iter().flatten().collect()
}

pub fn attention(status: &MirrorStatus, now: Instant) -> Vec<Line> {
    let failing = status.trouble.iter().map(|trouble| {
        let (since, error) = (age(&trouble.since, now), plain(trouble.error.as_deref().unwrap_or("unknown")));
        let runs = match trouble.runs {
            1 => format!("the last run, {since}"),
            runs => format!("{runs} runs in a row, the first {since}"),
        };
        ("failing", format!("{runs}: {error}"))
    });
    let mut lines: Vec<Line> = failing.collect();
    lines.extend(status.objects.iter().flat_map(|object| object_attention(object, now)));
    lines.extend(edits(&status.edits, now));
    lines.extend(status.missing_scopes.iter().map(|missing| {
        let what = match missing.scope.strip_suffix(":write") {
            Some(written) => format!("edits of {} are waiting", plain(written)),
            None => format!("{} are not mirrored", plain(&missing.object)),
        };
        ("missing", format!("the key lacks `{}`; {what}", plain(&missing.scope)))
    }));
    lines.extend(status.oddities.iter().map(|anomaly| {
        let (what, resource) = (plain(&anomaly.what), plain(&anomaly.resource));
        let (times, last) = (counted(anomaly.times, "time", "times"), age(&anomaly.last_seen_at, now));
        ("anomaly", format!("{what} ({resource}, {times}, last {last})"))
    }));
    lines.extend(
        status
            .broken_objects
            .iter()
            .map(|broken| ("broken", format!("the {} {}: {}", broken.kind, plain(&broken.name), plain(&broken.why)))),
    );
    if wal::is_large(status.bytes, status.wal_bytes) {
        let (bytes, database) = (format::bytes(status.wal_bytes), &status.database);
        let why = "cannot be checkpointed while a program has a long read transaction; end that program";
        lines.push(("large", format!("the WAL, {bytes}, {why} (`fuser -v {database}-shm` lists them)")));
    }
    lines
}

fn runs(runs: &[RecordedRun], running: Option<i64>, now: Instant) -> String {
    let titles = ["run", "kind", "started", "outcome", "new", "changed", "removed", "details", "RU"];
    let rows = runs.iter().map(|run| {
        let outcome = if running == Some(run.id) { "running" } else { "unfinished" };
        let mut row = vec![run.id.to_string(), run.kind.clone(), age(&run.started_at, now)];
        row.push(run.outcome.clone().unwrap_or_else(|| outcome.into()));
        let numbers = [run.inserted, run.updated, run.removed, run.details, run.ru];
        // What it has done is stored at its end.
        row.extend(numbers.map(|number| number.filter(|_| run.outcome.is_some()).map_or("?".into(), count)));
        row
    });
    let table = output::table(&titles, &[0, 4, 5, 6, 7, 8], rows);
    let failed = runs.iter().find_map(|run| Some(format!("\nrun {}: {}\n", run.id, plain(run.error.as_deref()?))));
    table + &failed.unwrap_or_default()
}
