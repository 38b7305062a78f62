//! `crm-mirror status`: contents, freshness, cost and pending work of the mirror.

use std::path::Path;
use std::time::Duration;

use serde::Serialize;

use super::status_all;
use crate::app::status::{self, MirrorStatus, ObjectStatus};
use crate::cli::args::MirrorArgs;
use crate::cli::remote::{self, DaemonState};
use crate::cli::ui::status_text::{self, StatusContext};
use crate::cli::ui::{commands, output};
use crate::cli::{Failure, Global, session};
use crate::config::Config;
use crate::config::unit::FOLDER;
use crate::daemon::StatusReply;
use crate::error_chain::error_chain;
use crate::exit::Exit;
use crate::format;
use crate::model::{Clock, Instant, SystemClock};
use crate::store::{RunOutcome, StoreError, lock};

/// Show what the mirror contains, how fresh it is, what it cost and what is pending.
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
    /// The process that writes the mirror now.
    writer: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    fresh: Option<bool>,
}

pub fn run(global: &Global, args: &StatusArgs) -> Result<Exit, Failure> {
    if args.all {
        let folder = global.config.as_deref().and_then(Path::parent).unwrap_or(Path::new(FOLDER));
        return status_all::run(folder, args.common.json);
    }
    let config = global.load_to_read(args.common.database.as_deref())?;
    let reading = SystemClock.reading();
    let now = reading.wall;
    let status = match status::read(&config, reading) {
        // For a probe, a missing mirror is one that was never copied.
        Err(error @ StoreError::Missing { .. }) if args.max_age.is_some() => {
            if !args.common.json {
                output::text(&format!("stale: {error}"))?;
                return Ok(Exit::Differences);
            }
            let hint = error.hint().unwrap_or_default();
            return Err(Failure::new(Exit::Differences, error).hint(hint));
        }
        read => read?,
    };
    let freshness = args.max_age.map(|max_age| freshness(&status, &config, max_age, now));
    if let (Some((exit, line)), false) = (&freshness, args.common.json) {
        output::text(line)?;
        return Ok(*exit);
    }
    let (daemon, daemon_state) = session::runtime()?.block_on(remote::daemon_state(&config));
    let reply = StatusReply { status, daemon };
    let writer = lock::current_writer(&config.database).flatten();
    if args.common.json {
        let fresh = freshness.as_ref().map(|(exit, _)| *exit == Exit::Done);
        output::json(&StatusDocument { reply: &reply, daemon_state, writer, fresh })?;
    } else {
        let unit = config.unit.as_deref();
        let none = config.base_url().is_none().then(|| "no configuration says how many may be".into());
        let invalid =
            config.invalid().map(|why| format!("the configuration cannot be read:\n         {}", error_chain(&why)));
        let unknown_budget = invalid.or(none);
        let unknown_budget = unknown_budget.as_deref();
        let context = StatusContext { daemon: daemon_state, unit, writer, unknown_budget, now };
        output::prose(&commands::complete(&status_text::text(&reply, context)))?;
    }
    Ok(freshness.map_or(Exit::Done, |(exit, _)| exit))
}

/// Whether every list of records is at most so old, as an exit code and a line: with 75 one is older, and no request may be
/// sent now.
fn freshness(status: &MirrorStatus, config: &Config, max_age: Duration, now: Instant) -> (Exit, String) {
    // Those that every run for changes reads.
    let records: Vec<&ObjectStatus> = status.mirrored(config).filter(|object| object.removed.is_some()).collect();
    let is_fresh = |object: &&ObjectStatus| object.changes_as_of.is_some_and(|at| now.since(at) <= max_age);
    let last = status.runs.first().and_then(|run| run.outcome.as_deref());
    let waiting = status.hold_until.is_some() || status.ru.left == 0 || last == Some(RunOutcome::Suspended.as_str());
    let age = |object: &&ObjectStatus| match object.changes_as_of {
        Some(at) => format!("{} {}", object.object, format::when(at, now)),
        None => format!("{} never copied", object.object),
    };
    let ages: Vec<String> = records.iter().map(age).collect();
    let ages = if ages.is_empty() { "no list of records is mirrored".into() } else { ages.join(", ") };
    let stale = format!("stale: older than {}", format::duration(max_age));
    match (!records.is_empty() && records.iter().all(is_fresh), waiting) {
        (true, _) => (Exit::Done, format!("fresh: {ages}")),
        (false, true) => (Exit::Paused, format!("{stale}, waiting for a rate limit or the budget: {ages}")),
        (false, false) => (Exit::Differences, format!("{stale}: {ages}")),
    }
}
