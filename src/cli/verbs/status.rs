//! `crm-mirror status`: contents, freshness, cost and pending work of the mirror; or one line for every workspace of this
//! machine.
//!
//! The workspaces are the configuration files of `/etc/crm-mirror`, each with its unit. One that cannot be read is a line too:
//! nothing is left out silently.

use std::path::{Path, PathBuf};
use std::time::Duration;

use futures_util::future::join_all;
use serde::Serialize;

use crate::app::status::{self, MirrorStatus, ObjectStatus, Readiness};
use crate::cli::ui::status_text::{self, StatusContext};
use crate::cli::{DaemonState, Failure, Global, MirrorArgs, identity, output, session};
use crate::config::unit::FOLDER;
use crate::config::{Config, Sources, files_in};
use crate::daemon::{DaemonStatus, StatusReply};
use crate::error_chain::error_chain;
use crate::exit::Exit;
use crate::format;
use crate::model::{Clock, ClockReading, Instant, Resource, SystemClock};
use crate::store::{StoreError, lock};

#[derive(clap::Args, Clone, Debug)]
#[command(after_help = "Example:\n  crm-mirror status\n  crm-mirror status --json | jq .ru.left\n  \
                        crm-mirror status --max-age 15m || echo stale")]
pub struct StatusArgs {
    /// Print one line, and exit with 1 if contacts or companies are older than this or were never copied, with 75 if a
    /// rate limit or the budget is the reason: 90s, 15m, 2h.
    #[arg(long, value_name = "DURATION", value_parser = crate::config::duration)]
    max_age: Option<Duration>,
    #[command(flatten)]
    common: MirrorArgs,
    /// Show one line for every workspace of this machine: the configurations of /etc/crm-mirror, or of the folder of
    /// `--config`.
    #[arg(long, conflicts_with_all = ["max_age", "database"])]
    all: bool,
}

#[derive(Serialize)]
struct StatusDocument<'a> {
    #[serde(flatten)]
    reply: &'a StatusReply,
    daemon_state: DaemonState,
    writer: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    fresh: Option<bool>,
}

pub fn run(global: &Global, args: &StatusArgs) -> Result<Exit, Failure> {
    if args.all {
        let folder = global.config.as_deref().and_then(Path::parent).unwrap_or(Path::new(FOLDER));
        let folder = if folder.as_os_str().is_empty() { Path::new(".") } else { folder };
        return every_workspace(folder, args.common.json);
    }
    let config = global.load(args.common.database.as_deref())?;
    let reading = SystemClock.reading();
    let now = reading.wall;
    let status = match status::read(&config, reading) {
        // For a probe, a missing mirror is one that was never copied.
        Err(error @ StoreError::Missing { .. }) if args.max_age.is_some() => {
            if !args.common.json {
                output::text(&format!("stale: {error}"))?;
                return Ok(Exit::Differences);
            }
            return Err(Failure::hinted(Exit::Differences, error.hint(), error));
        }
        read => read?,
    };
    let freshness = args.max_age.map(|max_age| freshness(&status, &config, max_age, now));
    if let (Some((exit, line)), false) = (&freshness, args.common.json) {
        output::text(line)?;
        return Ok(*exit);
    }
    let (daemon, daemon_state) = session::runtime()?.block_on(session::daemon_state(&config));
    let reply = StatusReply { status, daemon };
    let writer = lock::current_writer(&config.database).flatten();
    let fresh = freshness.as_ref().map(|(exit, _)| *exit == Exit::Done);
    let unknown_budget = config.base_url().is_none().then_some("no configuration says how many may be");
    let context = StatusContext { daemon: daemon_state, unit: config.unit.as_deref(), writer, unknown_budget, now };
    let document = StatusDocument { reply: &reply, daemon_state, writer, fresh };
    output::report(args.common.json, &document, || output::complete(&status_text::text(&reply, context)))?;
    Ok(freshness.map_or(Exit::Done, |(exit, _)| exit))
}

/// Whether every list of records is at most so old, as an exit code and a line: with 75 one is older, and no request may be
/// sent now.
fn freshness(status: &MirrorStatus, config: &Config, max_age: Duration, now: Instant) -> (Exit, String) {
    // Those that every run for changes reads.
    let records: Vec<&ObjectStatus> = status.mirrored(config).filter(|object| object.removed.is_some()).collect();
    let is_fresh = |object: &&ObjectStatus| object.changes_as_of.is_some_and(|at| now.since(at) <= max_age);
    // Not how the last run ended: a stop, a pause and `--max-ru` suspend runs too, and the next may be far away.
    let waiting = status.hold_until.is_some() || status.ru.left == 0;
    let age = |object: &&ObjectStatus| match object.changes_as_of {
        Some(at) => format!("{} {}", object.object, format::when(at, now)),
        None => format!("{} never copied", object.object),
    };
    let ages: Vec<String> = records.iter().map(age).collect();
    let ages = if ages.is_empty() { "no list of records is mirrored".into() } else { ages.join(", ") };
    let stale = format!("stale: not all newer than {}", format::duration(max_age));
    match (!records.is_empty() && records.iter().all(is_fresh), waiting) {
        (true, _) => (Exit::Done, format!("fresh: {ages}")),
        (false, true) => (Exit::Paused, format!("{stale}, waiting for a rate limit or the budget: {ages}")),
        (false, false) => (Exit::Differences, format!("{stale}: {ages}")),
    }
}

#[derive(Serialize)]
struct WorkspaceLine {
    workspace: String,
    config: PathBuf,
    #[serde(flatten)]
    state: WorkspaceState,
}

#[derive(Serialize)]
#[serde(untagged)]
enum WorkspaceState {
    Read { readiness: Readiness, daemon_state: DaemonState, status: Box<MirrorStatus> },
    Unreadable { error: String },
}

fn every_workspace(folder: &Path, json: bool) -> Result<Exit, Failure> {
    let files = files_in(folder).map_err(|error| {
        Failure::new(Exit::Config, format!("could not read {}: {error}", folder.display()))
            .hint("`crm-mirror -c FILE status --all` shows the workspaces in the folder of FILE")
    })?;
    let reading = SystemClock.reading();
    let runtime = session::runtime()?;
    let files = files.into_iter().filter(|path| path.is_file());
    let read: Vec<_> = files.map(|file| (read_workspace(&file, reading), file)).collect();
    // Side by side: each daemon that hangs takes its time.
    let lines: Vec<WorkspaceLine> = runtime.block_on(join_all(read.into_iter().map(async |(read, file)| {
        let workspace = file.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        let state = match read {
            Err(error) => WorkspaceState::Unreadable { error },
            Ok((config, status)) => {
                let (daemon, daemon_state) = session::daemon_state(&config).await;
                let poll = daemon.as_ref().and_then(DaemonStatus::poll_interval);
                let readiness = status.readiness(&config, reading.wall, poll);
                WorkspaceState::Read { readiness, daemon_state, status: Box::new(status) }
            }
        };
        WorkspaceLine { workspace, config: file, state }
    })));
    Ok(output::report(json, &lines, || workspaces_text(&lines, reading.wall))?)
}

/// The configuration and the mirror of a workspace; an error says why they cannot be read.
fn read_workspace(file: &Path, reading: ClockReading) -> Result<(Config, MirrorStatus), String> {
    // The variables of this shell are about one workspace.
    let sources = Sources { file: Some(file.into()), ..Sources::default() };
    let config = Config::load(&sources).map_err(|error| error_chain(&error))?;
    // Each workspace may belong to another user.
    let status = identity::acting_as_owner(&config.database, || Ok(status::read(&config, reading)));
    let status = status.map_err(|failure| failure.text().trim_end().to_string())?;
    Ok((config, status.map_err(|error| error_chain(&error))?))
}

fn workspaces_text(lines: &[WorkspaceLine], now: Instant) -> String {
    let titles = ["workspace", "daemon", "contacts as of", "RU left", "state"];
    let rows = lines.iter().map(|line| match &line.state {
        WorkspaceState::Unreadable { error } => {
            vec![line.workspace.clone(), String::new(), String::new(), String::new(), error.clone()]
        }
        WorkspaceState::Read { readiness, daemon_state, status } => {
            let contacts = status.objects.iter().find(|object| object.object == Resource::Contacts);
            let read = contacts.and_then(|object| object.changes_as_of);
            vec![
                line.workspace.clone(),
                word(daemon_state),
                read.map_or("never".into(), |at| format::when(at, now)),
                format::count(status.ru.left),
                needs(status).unwrap_or_else(|| word(readiness)),
            ]
        }
    });
    output::render(&titles, &[3], rows, false)
}

fn word(state: &impl Serialize) -> String {
    let value = serde_json::to_value(state).unwrap_or_default();
    value.as_str().unwrap_or_default().replace('-', " ")
}

fn needs(status: &MirrorStatus) -> Option<String> {
    let edits = status.edits.held + status.edits.conflict;
    let refused = status.objects.iter().any(|object| object.outage.is_some());
    let failed = status.trouble.as_ref().map(|trouble| format::counted(trouble.runs.into(), "run", "runs"));
    let needs = [
        refused.then(|| "removals refused".into()),
        failed.map(|runs| format!("{runs} failed")),
        status.hold_until.map(|_| "rate limit".into()),
        (status.ru.left == 0).then(|| "budget spent".into()),
        status.paused_since.map(|_| "paused".into()),
        (edits > 0).then(|| format!("{edits} edits wait")),
    ];
    needs.into_iter().flatten().next()
}
