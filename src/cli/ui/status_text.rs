//! `status` as text: the mirror, the daemon, the objects, what needs attention, and the last runs.

use std::fmt::Write as _;

use crate::app::status::{MirrorStatus, ObjectStatus};
use crate::cli::remote::DaemonState;
use crate::cli::ui::output::{self, TableColumn, plain};
use crate::daemon::{DaemonStatus, StatusReply};
use crate::format::{self, count};
use crate::model::{Instant, Ru};
use crate::store::outbox_report::EditCounts;
use crate::store::report::RecordedRun;
use crate::store::wal;

/// The whole text. `writer` is the process that writes the mirror now.
pub fn text(reply: &StatusReply, daemon_state: DaemonState, writer: Option<u32>, now: Instant) -> String {
    let status = &reply.status;
    let mut text = head(status, now);
    text.push_str(&daemon(reply, daemon_state, writer, now));
    text.push('\n');
    text.push_str(&objects(&status.objects, now));
    let waiting = attention(status, now);
    if !waiting.is_empty() {
        let _ = write!(text, "\n{waiting}");
    }
    if !status.runs.is_empty() {
        let _ = write!(text, "\n{}", runs(&status.runs, now));
    }
    text
}

fn head(status: &MirrorStatus, now: Instant) -> String {
    let mut text = format!("mirror   {} ({}", status.database, format::bytes(status.bytes));
    if status.wal_bytes > 0 {
        let _ = write!(text, ", WAL {}", format::bytes(status.wal_bytes));
    }
    let _ = writeln!(text, ")");
    let _ = writeln!(text, "service  {}", status.base_url.as_deref().map_or("not asked yet".into(), plain));
    let ru = &status.ru;
    let _ = writeln!(
        text,
        "RU       {} of {} left, {} used; the window ends {}, at {}",
        count(ru.left),
        count(ru.limit),
        count(ru.used),
        format::when(ru.refills_at, now),
        format::moment(ru.refills_at),
    );
    let _ = writeln!(text, "         a run for changes costs about {}", format::ru(Ru::new(ru.per_run)));
    let _ = match ru.windows_for_details {
        Some(0) => Ok(()),
        Some(1) => writeln!(text, "         the budget of this window is enough for the pending details"),
        Some(windows) => writeln!(text, "         the pending details take about {} windows", count(windows)),
        None => writeln!(text, "         the budget is zero: no detail is read"),
    };
    if let Some(until) = status.hold_until {
        let _ = writeln!(text, "hold     rate limit: no request before {}", moment(until, now));
    }
    if let Some(lag) = &status.publish {
        let behind = match lag.entries {
            0 => "up to date".to_string(),
            entries => format!("{} behind", format::counted(entries, "change", "changes")),
        };
        let error = lag.last_error.as_deref().map(|error| format!("; {}", plain(error))).unwrap_or_default();
        let _ = writeln!(text, "publish  {behind}{error}");
    }
    text
}

/// What the daemon does, when it runs next or why it does not, and since when runs fail.
fn daemon(reply: &StatusReply, daemon_state: DaemonState, writer: Option<u32>, now: Instant) -> String {
    let mut text = String::new();
    match &reply.daemon {
        None => {
            let none = match daemon_state {
                DaemonState::Unresponsive => "does not answer; `systemctl status crm-mirror` may show why",
                DaemonState::Killed => "was killed: its socket is there and nobody listens; start it again",
                _ => "not running; nothing is scheduled without it",
            };
            let _ = writeln!(text, "daemon   {none}");
            if let (Some(pid), Some(run)) = (writer, under_way(&reply.status)) {
                let started =
                    run.started_at.parse().map_or_else(|_| run.started_at.clone(), |at| format::when(at, now));
                let _ = writeln!(text, "running  process {pid}: {}, started {started}", run.kind);
            }
        }
        Some(daemon) => {
            let doing = match &daemon.running {
                Some(job) => {
                    let since = job.since.map(|since| format::when(since, now)).unwrap_or_default();
                    format!("running {}, started {since}", job.work)
                }
                None => "idle".into(),
            };
            let _ = writeln!(text, "daemon   process {}, since {}: {doing}", daemon.pid, format::moment(daemon.since));
            let _ = writeln!(text, "next     {}", next(reply, daemon, now));
        }
    }
    if let Some(trouble) = &reply.status.trouble {
        let since = trouble.since.parse().map_or_else(|_| trouble.since.clone(), |at| moment(at, now));
        let _ = writeln!(
            text,
            "failing  since {since}, {} in a row: {}",
            format::counted(u64::from(trouble.runs), "run", "runs"),
            plain(trouble.error.as_deref().unwrap_or("unknown"))
        );
    }
    text
}

/// The run that has not ended, if it is the last one.
fn under_way(status: &MirrorStatus) -> Option<&RecordedRun> {
    status.runs.first().filter(|run| run.outcome.is_none())
}

/// What runs next, or why nothing does.
fn next(reply: &StatusReply, daemon: &DaemonStatus, now: Instant) -> String {
    if let Some(reason) = &daemon.waiting_for {
        return format!("waiting: {}", plain(reason));
    }
    if let Some(since) = daemon.paused_since {
        return format!("paused since {}; `crm-mirror resume` resumes the schedule", format::moment(since));
    }
    if let Some(until) = reply.status.hold_until {
        return format!("nothing before {}: rate limit; `crm-mirror hold clear` ends the wait", moment(until, now));
    }
    if let Some(hold) = daemon.hold.as_ref().filter(|hold| hold.reason == "budget") {
        return format!("nothing before {}: the budget of this window is spent", moment(hold.until, now));
    }
    if let Some(trouble) = &daemon.trouble {
        return format!(
            "next try {} after {}",
            moment(trouble.next_try, now),
            format::counted(trouble.runs.into(), "failed run", "failed runs")
        );
    }
    let kinds = daemon.next.iter().filter_map(|next| Some(format!("{} {}", next.kind, format::when(next.at?, now))));
    let kinds: Vec<String> = kinds.collect();
    let kinds = if kinds.is_empty() { "nothing".into() } else { kinds.join(", ") };
    format!("{kinds} (schedule in {})", daemon.time_zone)
}

fn moment(at: Instant, now: Instant) -> String {
    format!("{} ({})", format::moment(at), format::when(at, now))
}

fn objects(objects: &[ObjectStatus], now: Instant) -> String {
    let columns = [
        TableColumn::Left("object"),
        TableColumn::Right("rows"),
        TableColumn::Right("removed"),
        TableColumn::Right("details current"),
        TableColumn::Right("pending"),
        TableColumn::Right("custom fields"),
        TableColumn::Left("changes as of"),
        TableColumn::Left("complete as of"),
    ];
    let number = |number: Option<u64>| number.map(count).unwrap_or_default();
    let ago = |at: Option<Instant>| at.map_or("never".into(), |at| format::when(at, now));
    let rows = objects.iter().map(|object| {
        vec![
            object.object.to_string(),
            count(object.rows),
            number(object.removed),
            number(object.details_current),
            number(object.details_pending),
            number(object.custom_fields),
            ago(object.changes_as_of),
            match object.complete_by {
                Some("count") => format!("{}, by count", ago(object.complete_as_of)),
                _ => ago(object.complete_as_of),
            },
        ]
    });
    output::render(&columns, rows, false)
}

/// What is under way, and what waits for somebody.
/// The edits that are not at their end, and those that were refused; empty where there are none.
fn edits(edits: &EditCounts, now: Instant) -> String {
    let mut text = String::new();
    let open = [
        (edits.queued, "queued"),
        (edits.held, "held"),
        (edits.sending, "being sent"),
        (edits.conflict, "in conflict"),
        (edits.rejected, "rejected"),
    ];
    let counts: Vec<String> =
        open.iter().filter(|(n, _)| *n > 0).map(|(n, state)| format!("{} {state}", count(*n))).collect();
    if counts.is_empty() {
        return text;
    }
    let _ = write!(text, "edits: {}", counts.join(", "));
    if let Some(oldest) = edits.oldest {
        let _ = write!(text, "; the oldest was made {}", format::when(oldest, now));
    }
    text.push('\n');
    if edits.held > 0 {
        text.push_str("held: too many edits were made within an hour; crm-mirror outbox release --all sends them, drop --all gives them up\n");
    }
    if edits.conflict > 0 {
        text.push_str("conflict: somebody else changed the same fields; crm-mirror outbox shows both sides\n");
    }
    if edits.rejected > 0 {
        text.push_str("rejected: the service does not take these edits; crm-mirror outbox --all says why\n");
    }
    text
}

fn attention(status: &MirrorStatus, now: Instant) -> String {
    let mut text = String::new();
    for object in &status.objects {
        let resource = object.object;
        if let Some(sweep) = object.sweep {
            let work = if sweep.first_copy { "first copy" } else { "sweep" };
            let so_far = if sweep.first_copy {
                format::counted(object.rows, "row", "rows")
            } else {
                format::counted(sweep.rows, "row", "rows")
            };
            let began = format::when(sweep.began, now);
            let _ = writeln!(text, "in progress: {work} of {resource}, started {began}, {so_far} so far");
        }
        if object.differences > 0 {
            let found = format::counted(object.differences, "difference", "differences");
            let _ = writeln!(
                text,
                "differs: {found} to the service in {resource}; crm-mirror resync {resource} repairs them"
            );
        }
        if let Some(outage) = object.outage {
            let _ = writeln!(
                text,
                "refused: {} of {} {resource} would be removed at once, which looks like an outage; if they are really gone: \
                 crm-mirror resync {resource} --accept-removals",
                count(outage.going),
                count(outage.of),
            );
        }
    }
    text.push_str(&edits(&status.edits, now));
    for (resource, scope) in &status.missing_scopes.0 {
        let what = match scope.strip_suffix(":write") {
            Some(written) => format!("edits of {} wait", plain(written)),
            None => format!("{} are not mirrored", plain(resource)),
        };
        let _ = writeln!(text, "missing: the key lacks `{}`; {what}", plain(scope));
    }
    for odd in &status.oddities {
        let _ = writeln!(
            text,
            "anomaly: {} ({}, {}, last {})",
            plain(&odd.what),
            plain(&odd.resource),
            format::counted(odd.times, "time", "times"),
            odd.last_seen_at.parse().map_or_else(|_| odd.last_seen_at.clone(), |at| format::when(at, now)),
        );
    }
    if wal::is_large(status.bytes, status.wal_bytes) {
        let _ = writeln!(
            text,
            "large: the WAL, {}, cannot be emptied while a program holds an old read transaction; end that program \
             (`fuser -v {}-shm` lists them), and the next run empties it",
            format::bytes(status.wal_bytes),
            status.database,
        );
    }
    text
}

fn runs(runs: &[RecordedRun], now: Instant) -> String {
    let columns = [
        TableColumn::Right("run"),
        TableColumn::Left("kind"),
        TableColumn::Left("trigger"),
        TableColumn::Left("started"),
        TableColumn::Left("outcome"),
        TableColumn::Right("rows"),
        TableColumn::Right("new"),
        TableColumn::Right("changed"),
        TableColumn::Right("removed"),
        TableColumn::Right("details"),
        TableColumn::Right("RU"),
    ];
    let rows = runs.iter().map(|run| {
        vec![
            run.id.to_string(),
            run.kind.clone(),
            run.trigger.clone(),
            run.started_at.parse().map_or_else(|_| run.started_at.clone(), |at| format::when(at, now)),
            run.outcome.clone().unwrap_or_else(|| "unfinished".into()),
            count(run.rows),
            count(run.inserted),
            count(run.updated),
            count(run.removed),
            count(run.details),
            count(run.ru),
        ]
    });
    let mut text = output::render(&columns, rows, false);
    if let Some((run, error)) = runs.iter().find_map(|run| Some((run, run.error.as_deref()?))) {
        let _ = writeln!(text, "\nrun {}: {}", run.id, plain(error));
    }
    text
}
