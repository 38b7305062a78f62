//! `crm-mirror status --all`: one line for every workspace of this machine.
//!
//! The workspaces are the configuration files of `/etc/crm-mirror`, each with its unit. One that cannot be read is a line too:
//! nothing is left out silently.

use std::path::{Path, PathBuf};

use futures_util::future::join_all;
use serde::Serialize;

use crate::app::status::{self, MirrorStatus, Readiness};
use crate::cli::remote::{self, DaemonState};
use crate::cli::ui::output;
use crate::cli::{Failure, identity, session};
use crate::config::{Config, Sources};
use crate::error_chain::error_chain;
use crate::exit::Exit;
use crate::format;
use crate::model::{Clock, ClockReading, Instant, Resource, SystemClock};

/// A workspace, and its state or why it cannot be read.
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

/// Prints every workspace whose configuration is in the folder.
pub(super) fn run(folder: &Path, json: bool) -> Result<Exit, Failure> {
    let files = files(folder).map_err(|error| {
        Failure::new(Exit::Config, format!("could not read {}: {error}", folder.display()))
            .hint("`crm-mirror -c FILE status --all` shows the workspaces in the folder of FILE")
    })?;
    let reading = SystemClock.reading();
    let runtime = session::runtime()?;
    let read: Vec<_> = files.into_iter().map(|file| (read(&file, reading), file)).collect();
    // Side by side: each daemon that hangs takes its time.
    let lines: Vec<WorkspaceLine> = runtime.block_on(join_all(read.into_iter().map(async |(read, file)| {
        let workspace = file.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        let state = match read {
            Err(error) => WorkspaceState::Unreadable { error },
            Ok((config, status)) => {
                let (_, daemon_state) = remote::daemon_state(&config).await;
                let readiness = status.readiness(&config, reading.wall);
                WorkspaceState::Read { readiness, daemon_state, status: Box::new(status) }
            }
        };
        WorkspaceLine { workspace, config: file, state }
    })));
    Ok(output::report(json, &lines, || text(&lines, reading.wall))?)
}

fn files(folder: &Path) -> std::io::Result<Vec<PathBuf>> {
    let entries = std::fs::read_dir(folder)?.map(|entry| Ok(entry?.path()));
    let mut files: Vec<PathBuf> = entries.collect::<std::io::Result<_>>()?;
    files.retain(|path| path.extension().is_some_and(|extension| extension == "toml") && path.is_file());
    files.sort();
    Ok(files)
}

/// The configuration and the mirror of a workspace; an error says why they cannot be read.
fn read(file: &Path, reading: ClockReading) -> Result<(Config, MirrorStatus), String> {
    // The variables of this shell are about one workspace.
    let sources = Sources { file: Some(file.into()), ..Sources::default() };
    let config = Config::load(&sources).map_err(|error| error_chain(&error))?;
    // Each workspace may belong to another user.
    let status = identity::acting_as_owner(&config.database, || Ok(status::read(&config, reading)));
    let status = status.map_err(|failure| failure.text().trim_end().to_string())?;
    Ok((config, status.map_err(|error| error_chain(&error))?))
}

fn text(lines: &[WorkspaceLine], now: Instant) -> String {
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

/// What needs a person first.
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
