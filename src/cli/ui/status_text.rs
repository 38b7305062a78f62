//! `status` as text: the mirror, the daemon, the objects, what needs attention, and the last runs.

use std::fmt::Write as _;
use std::time::Duration;

use crate::app::MissingScope;
use crate::app::status::{MirrorStatus, ObjectStatus, RunProgress, RunningRun};
use crate::cli::{DaemonState, output};
use crate::daemon::state_machine::HoldReason;
use crate::daemon::{DaemonStatus, StatusReply};
use crate::format::{self, count, plain};
use crate::model::{Instant, Ru};
use crate::store::outbox_report::EditCounts;
use crate::store::{PublishLag, RecordedRun, wal};

/// What the file and the daemon do not show.
#[derive(Clone, Copy, Debug)]
pub struct StatusContext<'a> {
    pub daemon: DaemonState,
    pub unit: Option<&'a str>,
    pub writer: Option<u32>,
    /// Why the configured budget is not known: a reader may have no configuration, or one that is invalid.
    pub unknown_budget: Option<&'a str>,
    pub now: Instant,
}

pub fn text(reply: &StatusReply, context: StatusContext<'_>) -> String {
    let (status, now) = (&reply.status, context.now);
    let mut text = head(status, context);
    text.push_str(&daemon(reply, context));
    text.push('\n');
    text.push_str(&objects(&status.objects, now));
    let waiting = attention(status, now);
    if !waiting.is_empty() {
        let _ = write!(text, "\n{waiting}");
    }
    if !status.runs.is_empty() {
        let _ = write!(text, "\n{}", runs(&status.runs, status.running.as_ref().map(|running| running.run), now));
    }
    text
}

fn head(status: &MirrorStatus, context: StatusContext<'_>) -> String {
    let now = context.now;
    let mut text = format!("mirror   {} ({}", status.database, format::bytes(status.bytes));
    if status.wal_bytes > 0 {
        let _ = write!(text, ", WAL {}", format::bytes(status.wal_bytes));
    }
    let _ = writeln!(text, ")");
    let _ = writeln!(text, "service  {}", status.base_url.as_deref().map_or("not contacted yet".into(), plain));
    let ru = &status.ru;
    let window = moment(ru.refills_at, now);
    let _ = match context.unknown_budget {
        None => writeln!(text, "RU       {} of {} left until {window}", count(ru.left), count(ru.limit)),
        Some(why) => writeln!(text, "RU       {} used in this window; {why}", count(ru.used)),
    };
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
    if let Some(since) = status.history_since.as_deref().and_then(|since| since.parse().ok()) {
        let _ = writeln!(text, "history  every change since {}", format::moment(since));
    }
    if let Some(lag) = &status.publish {
        published(&mut text, lag, now);
    }
    text
}

fn published(text: &mut String, lag: &PublishLag, now: Instant) {
    let behind = match lag.entries {
        _ if lag.published_at.is_none() => "no whole copy is known".to_string(),
        0 if lag.last_error.is_none() => "up to date".into(),
        0 => "no change is waiting".into(),
        entries => format!("{} behind", format::counted(entries, "change", "changes")),
    };
    let error = lag.last_error.as_deref().map(|error| format!("; {}", plain(error))).unwrap_or_default();
    let _ = writeln!(text, "publish  {behind}{error}");
    let _ = match lag.proof.compared_at {
        None => writeln!(text, "         not compared with the mirror since it was loaded"),
        Some(at) if lag.proof.equal_at == Some(at) => {
            writeln!(text, "         every value was equal when compared {}", moment(at, now))
        }
        Some(at) if lag.proof.differences == 0 => {
            writeln!(text, "         not every table could be compared {}", moment(at, now))
        }
        Some(at) => {
            let found = format::counted(lag.proof.differences, "difference", "differences");
            let _ = writeln!(text, "         {found} when compared {}:", moment(at, now));
            for difference in lag.proof.differing.iter().take(5) {
                let _ = writeln!(text, "         {}", plain(&difference.to_string()));
            }
            writeln!(text, "         crm-mirror publish --verify --repair repairs them")
        }
    };
    for left in &lag.left_behind {
        let _ = writeln!(text, "         left behind: {}", plain(left));
    }
    if lag.refused > 0 {
        let _ = writeln!(text, "         the database refuses {}:", format::counted(lag.refused, "row", "rows"));
    }
    for row in &lag.refused_rows {
        let _ = writeln!(text, "         {} {}: {}", row.table, plain(&row.name), plain(&row.reason));
    }
}

fn daemon(reply: &StatusReply, context: StatusContext<'_>) -> String {
    let StatusContext { daemon: daemon_state, unit, writer, now, .. } = context;
    let mut text = String::new();
    match &reply.daemon {
        None => {
            let _ = writeln!(text, "daemon   {}", no_daemon(daemon_state, unit));
            if let Some(wait) = wait_of_next_run(&reply.status, now) {
                let _ = writeln!(text, "next     {wait}");
            }
            if let Some(run) = &reply.status.running {
                let process = run.pid.or(writer).map_or("another process".into(), |pid| format!("process {pid}"));
                let started = run.since.parse().map_or_else(|_| run.since.clone(), |at| format::when(at, now));
                let _ = writeln!(text, "running  {process}: {}, started {started}", run.kind);
                text.push_str(&progress(run));
            }
            if let Some(since) = reply.status.paused_since {
                let _ = writeln!(text, "paused   {}", paused(since));
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
            text.push_str(&reply.status.running.as_ref().map(progress).unwrap_or_default());
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

/// Why no daemon answers, and what starts one: the mirror's unit, if it has one.
fn no_daemon(state: DaemonState, unit: Option<&str>) -> String {
    let command = |verb: &str| unit.map(|unit| format!("`systemctl {verb} {unit}`"));
    match state {
        DaemonState::Unresponsive => {
            let log = command("status").unwrap_or_else(|| "its log".into());
            format!("does not answer; {log} may show why")
        }
        DaemonState::Inaccessible => "this user may not access it: ask as root, or as the user that it runs as".into(),
        DaemonState::Killed => {
            let start = command("restart").unwrap_or_else(|| "`crm-mirror daemon`".into());
            format!("was killed: no process listens on its socket; {start} starts it")
        }
        _ => {
            let start = command("start").unwrap_or_else(|| "`crm-mirror daemon`".into());
            format!("not running; {start} starts it")
        }
    }
}

fn progress(run: &RunningRun) -> String {
    let line = |RunProgress { object, progress }: &RunProgress| {
        let so_far = match progress.total {
            Some(total) => format!("{} of {}", count(progress.rows), count(total)),
            None => format!("{} so far", count(progress.rows)),
        };
        let left = progress.seconds_left.map(|seconds| Duration::from_secs(seconds.max(1)));
        let left = left.map(|left| format!(", about {} left", format::duration(left))).unwrap_or_default();
        format!("         {object}: {}, {so_far}{left}\n", progress.work)
    };
    run.progress.iter().map(line).collect()
}

fn paused(since: Instant) -> String {
    format!("since {}; `crm-mirror resume` resumes the schedule", format::moment(since))
}

fn wait_of_next_run(status: &MirrorStatus, now: Instant) -> Option<String> {
    if let Some(until) = status.hold_until {
        let until = moment(until, now);
        return Some(format!("nothing before {until}: rate limit; `crm-mirror resume --now` ends the wait"));
    }
    let is_spent = status.ru.left == 0;
    is_spent
        .then(|| format!("nothing before {}: the budget of this window is spent", moment(status.ru.refills_at, now)))
}

fn next(reply: &StatusReply, daemon: &DaemonStatus, now: Instant) -> String {
    if let Some(reason) = &daemon.waiting_for {
        return format!("waiting: {}", plain(reason));
    }
    if let Some(since) = daemon.paused_since {
        return format!("paused {}", paused(since));
    }
    if let Some(wait) = wait_of_next_run(&reply.status, now).filter(|_| reply.status.hold_until.is_some()) {
        return wait;
    }
    if let Some(hold) = daemon.hold.as_ref().filter(|hold| hold.reason == HoldReason::Budget) {
        return format!("nothing before {}: the budget of this window is spent", moment(hold.until, now));
    }
    if let Some(trouble) = daemon.trouble.as_ref().filter(|trouble| !trouble.partial) {
        return format!(
            "next attempt {} after {}",
            moment(trouble.next_try, now),
            format::counted(trouble.runs.into(), "failed run", "failed runs")
        );
    }
    let kinds = daemon.next.iter().filter_map(|next| Some(format!("{} {}", next.kind, format::when(next.at?, now))));
    let kinds: Vec<String> = kinds.collect();
    let kinds = if kinds.is_empty() { "nothing".into() } else { kinds.join(", ") };
    let auto = daemon.next.iter().find_map(|next| Some((next.interval?, next.reason.as_deref()?)));
    let every = auto.map(|(interval, reason)| {
        let interval = format::duration(std::time::Duration::from_secs(interval));
        format!("; changes every {interval}: {reason}")
    });
    format!("{kinds} (schedule in {}){}", daemon.time_zone, every.unwrap_or_default())
}

fn moment(at: Instant, now: Instant) -> String {
    format!("{} ({})", format::moment(at), format::when(at, now))
}

fn objects(objects: &[ObjectStatus], now: Instant) -> String {
    let titles = ["object", "rows", "removed", "pending", "changes as of", "complete as of"];
    let number = |number: Option<u64>| number.map(count).unwrap_or_default();
    let ago = |at: Option<Instant>| at.map_or("never".into(), |at| format::when(at, now));
    let rows = objects.iter().map(|object| {
        vec![
            object.object.to_string(),
            count(object.rows),
            number(object.removed),
            number(object.details_pending),
            ago(object.changes_as_of),
            match object.complete_by {
                Some("count") => format!("{}, by count", ago(object.complete_as_of)),
                _ => ago(object.complete_as_of),
            },
        ]
    });
    output::render(&titles, &[1, 2, 3], rows, false)
}

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
        let _ = write!(text, "; the oldest was created {}", format::when(oldest, now));
    }
    text.push('\n');
    if edits.held > 0 {
        text.push_str("held: waiting for a decision; `crm-mirror outbox list` shows them,\n      `crm-mirror outbox drop --all` discards them, `crm-mirror outbox release --all` sends them\n");
    }
    if edits.conflict > 0 {
        text.push_str("conflict: the service has other values now; `crm-mirror outbox show ID` shows both sides\n");
    }
    if edits.rejected > 0 {
        text.push_str(
            "rejected: these edits were refused; `crm-mirror outbox show ID` says why, `outbox drop ID` gives one up\n",
        );
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
            let _ = writeln!(text, "differs: {found} in {resource}; `crm-mirror resync {resource}` repairs them");
        }
        if let Some(outage) = object.outage {
            let _ = writeln!(
                text,
                "refused: {} of {} {resource} would be removed at once, which looks like an outage; if that is correct, run \
                 `crm-mirror resync {resource} --accept-removals`",
                count(outage.going),
                count(outage.of),
            );
        } else if let Some(undecided) = object.undecided {
            let items = format::counted(undecided.items, "item", "items");
            // Short lists have no id filter: two lists an hour apart decide.
            let untimed = if object.removed.is_some() { "by the next run" } else { "by a list an hour later" };
            let next = undecided.next_lookup.map_or(untimed.into(), |at| format::when(at, now));
            let _ = writeln!(
                text,
                "undecided: {items} of {resource} may have been removed or changed, which no answer has proven yet; looked up again {next}"
            );
        }
    }
    text.push_str(&edits(&status.edits, now));
    for MissingScope { object: resource, scope } in &status.missing_scopes {
        let what = match scope.strip_suffix(":write") {
            Some(written) => format!("edits of {} are waiting", plain(written)),
            None => format!("{} are not mirrored", plain(resource)),
        };
        let _ = writeln!(text, "missing: the key lacks `{}`; {what}", plain(scope));
    }
    for anomaly in &status.oddities {
        let _ = writeln!(
            text,
            "anomaly: {} ({}, {}, last {})",
            plain(&anomaly.what),
            plain(&anomaly.resource),
            format::counted(anomaly.times, "time", "times"),
            anomaly.last_seen_at.parse().map_or_else(|_| anomaly.last_seen_at.clone(), |at| format::when(at, now)),
        );
    }
    for broken in &status.broken_objects {
        let _ = writeln!(text, "broken: the {} {}: {}", broken.kind, plain(&broken.name), plain(&broken.why));
    }
    if wal::is_large(status.bytes, status.wal_bytes) {
        let _ = writeln!(
            text,
            "large: the WAL, {}, cannot be checkpointed while a program has a long read transaction; end that program \
             (`fuser -v {}-shm` lists them), and the next run empties it",
            format::bytes(status.wal_bytes),
            status.database,
        );
    }
    text
}

fn runs(runs: &[RecordedRun], running: Option<i64>, now: Instant) -> String {
    let titles = ["run", "kind", "started", "outcome", "new", "changed", "removed", "details", "RU"];
    let rows = runs.iter().map(|run| {
        let outcome = if running == Some(run.id) { "running" } else { "unfinished" };
        vec![
            run.id.to_string(),
            run.kind.clone(),
            run.started_at.parse().map_or_else(|_| run.started_at.clone(), |at| format::when(at, now)),
            run.outcome.clone().unwrap_or_else(|| outcome.into()),
            count(run.inserted),
            count(run.updated),
            count(run.removed),
            count(run.details),
            count(run.ru),
        ]
    });
    let mut text = output::render(&titles, &[0, 4, 5, 6, 7, 8], rows, false);
    if let Some((run, error)) = runs.iter().find_map(|run| Some((run, run.error.as_deref()?))) {
        let _ = writeln!(text, "\nrun {}: {}", run.id, plain(error));
    }
    text
}
