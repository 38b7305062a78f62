//! `crm-mirror status`: contents, freshness, cost and pending work of the mirror; or a line for every workspace.
//!
//! The workspaces are the configuration files of `/etc/crm-mirror`, each with its unit. One that cannot be read is a line too:
//! nothing is left out silently.

use std::path::Path;
use std::time::Duration;

use futures_util::future::join_all;
use serde::Serialize;
use serde_json::{Value, json};

use crate::app::status::{self, MirrorStatus, ObjectStatus};
use crate::cli::ui::status_text::{self, StatusDocument};
use crate::cli::{Failure, Global, identity, output, session};
use crate::config::unit::FOLDER;
use crate::config::{Config, Sources, files_in};
use crate::daemon::{DaemonStatus, StatusReply};
use crate::error_chain::error_chain;
use crate::exit::Exit;
use crate::format;
use crate::model::{Clock, ClockReading, Instant, Resource, SystemClock};
use crate::store::StoreError;

#[derive(clap::Args, Clone, Debug)]
#[command(after_help = "Example:\n  crm-mirror status\n  crm-mirror status --json | jq .ru.left\n  \
                        crm-mirror status --max-age 15m || echo stale")]
pub struct StatusArgs {
    /// Print one line, and exit with 1 if contacts or companies are older than this or were never copied, with 75 if a
    /// rate limit or the budget is the reason: 90s, 15m, 2h.
    #[arg(long, value_name = "DURATION", value_parser = crate::config::duration)]
    max_age: Option<Duration>,
    /// Show one line for every workspace of this machine: the configurations of /etc/crm-mirror, or of the folder of
    /// `--config`.
    #[arg(long, conflicts_with_all = ["max_age", "database"])]
    all: bool,
}

pub fn run(global: &Global, args: &StatusArgs) -> Result<Exit, Failure> {
    if args.all {
        if global.database.is_some() {
            return Err(Failure::new(Exit::Usage, "`--all` takes no `--database`"));
        }
        let folder = global.config.as_deref().and_then(Path::parent).unwrap_or(Path::new(FOLDER));
        let folder = if folder.as_os_str().is_empty() { Path::new(".") } else { folder };
        return every_workspace(folder, global.json);
    }
    let config = global.load()?;
    let reading = SystemClock.reading();
    let now = reading.wall;
    let status = match status::read(&config, reading) {
        // For a probe, a missing mirror is one that was never copied.
        Err(error @ StoreError::Missing { .. }) if args.max_age.is_some() => {
            if !global.json {
                output::text(&format!("stale: {error}"))?;
                return Ok(Exit::Differences);
            }
            return Err(Failure::hinted(Exit::Differences, error.hint(), error));
        }
        read => read?,
    };
    let freshness = args.max_age.map(|max_age| freshness(&status, &config, max_age, now));
    if let (Some((exit, line)), false) = (&freshness, global.json) {
        output::text(line)?;
        return Ok(*exit);
    }
    let (daemon, daemon_state) = session::runtime()?.block_on(session::daemon_state(&config));
    let reply = StatusReply { status, daemon };
    let fresh = freshness.as_ref().map(|(exit, _)| *exit == Exit::Done);
    let document = StatusDocument { reply: &reply, daemon_state, fresh };
    let text = || output::complete(&status_text::text(&document, &config, now));
    output::report(global.json, &document, text)?;
    Ok(freshness.map_or(Exit::Done, |(exit, _)| exit))
}

/// Whether every list of records is at most so old, as an exit code and a line: with 75 one is older, and no request may be
/// sent now.
fn freshness(status: &MirrorStatus, config: &Config, max_age: Duration, now: Instant) -> (Exit, String) {
    // Those that every run for changes reads.
    let records: Vec<&ObjectStatus> = status.mirrored(config).filter(|object| object.removed.is_some()).collect();
    let is_fresh = |object: &&ObjectStatus| object.changes_as_of.is_some_and(|at| now.since(at) <= max_age);
    // Not how the last run ended: a stop and a pause suspend runs too, and the next may be far away.
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
    let work = read.into_iter().map(async |(read, file)| workspace(&file, read, reading.wall).await);
    let (documents, rows): (Vec<Value>, Vec<Vec<String>>) = runtime.block_on(join_all(work)).into_iter().unzip();
    let titles = ["workspace", "daemon", "contacts as of", "RU left", "state"];
    Ok(output::report(json, &documents, || output::table(&titles, &[3], rows))?)
}

/// A workspace as a document and as a row; `read` may say why it cannot be read.
async fn workspace(file: &Path, read: Result<(Config, MirrorStatus), String>, now: Instant) -> (Value, Vec<String>) {
    let name = file.file_stem().unwrap_or_default().to_string_lossy();
    let (config, status) = match read {
        Ok(read) => read,
        Err(error) => {
            let document = json!({"workspace": name, "config": file, "error": error});
            return (document, vec![name.into(), String::new(), String::new(), String::new(), error]);
        }
    };
    let (daemon, daemon_state) = session::daemon_state(&config).await;
    let readiness = status.readiness(&config, now, daemon.as_ref().and_then(DaemonStatus::poll_interval));
    let contacts = status.objects.iter().find(|known| known.object == Resource::Contacts);
    let read_at = contacts.and_then(|contacts| contacts.changes_as_of);
    let mut state = vec![word(&readiness)];
    state.extend(status.hold_until.map(|_| "rate limit".into()));
    state.extend(status.paused_since.map(|_| "paused".into()));
    state.extend(status_text::attention(&status, now).into_iter().map(|(label, _)| label.to_string()));
    state.dedup();
    let row = vec![
        name.to_string(),
        word(&daemon_state),
        read_at.map_or("never".into(), |at| format::when(at, now)),
        format::count(status.ru.left),
        state.join(", "),
    ];
    let document = json!({
        "workspace": name, "config": file, "readiness": readiness, "daemon_state": daemon_state, "status": status,
    });
    (document, row)
}

fn read_workspace(file: &Path, reading: ClockReading) -> Result<(Config, MirrorStatus), String> {
    // The variables of this shell are about one workspace.
    let sources = Sources { file: Some(file.into()), ..Sources::default() };
    let config = Config::load(&sources).map_err(|error| error_chain(&error))?;
    // Each workspace may belong to another user.
    let status = identity::acting_as_owner(&config.database, || Ok(status::read(&config, reading)));
    let status = status.map_err(|failure| failure.text().trim_end().to_string())?;
    Ok((config, status.map_err(|error| error_chain(&error))?))
}

fn word(state: &impl Serialize) -> String {
    json!(state).as_str().unwrap_or_default().replace('-', " ")
}
