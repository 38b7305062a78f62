//! `crm-mirror status`: contents, freshness, cost and pending work of the mirror.

use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::Serialize;

use super::status_all;
use crate::app::status::{self, MirrorStatus, ObjectStatus};
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
    /// The mirror [default: `database.path` of the configuration].
    #[arg(long, value_name = "FILE")]
    database: Option<PathBuf>,
    /// Show one line for every workspace of this machine: the configurations of /etc/crm-mirror, or of the folder of
    /// `--config`.
    #[arg(long, conflicts_with_all = ["max_age", "database"])]
    all: bool,
    /// Print the result as one JSON document.
    #[arg(long)]
    json: bool,
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
        return status_all::run(folder, args.json);
    }
    let config = global.load_to_read(args.database.as_deref())?;
    let reading = SystemClock.reading();
    let now = reading.wall;
    let status = match status::read(&config, reading) {
        // For a probe, a missing mirror is one that was never copied.
        Err(error @ StoreError::Missing { .. }) if args.max_age.is_some() => {
            if !args.json {
                output::text(&format!("stale: {error}"))?;
                return Ok(Exit::Differences);
            }
            let hint = error.hint().unwrap_or_default();
            return Err(Failure::new(Exit::Differences, error).hint(hint));
        }
        read => read?,
    };
    let freshness = args.max_age.map(|max_age| (max_age, Freshness::of(&status, &config, max_age, now)));
    if let (Some((max_age, freshness)), false) = (freshness, args.json) {
        output::text(&freshness.line(&status, &config, max_age, now))?;
        return Ok(freshness.exit());
    }
    let (daemon, daemon_state) = session::runtime()?.block_on(remote::daemon_state(&config));
    let reply = StatusReply { status, daemon };
    let writer = lock::current_writer(&config.database).flatten();
    if args.json {
        let fresh = freshness.map(|(_, freshness)| freshness == Freshness::Fresh);
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
    Ok(freshness.map_or(Exit::Done, |(_, freshness)| freshness.exit()))
}

/// The lists that must be fresh: those of records, which every run for changes reads.
fn records<'a>(status: &'a MirrorStatus, config: &'a Config) -> impl Iterator<Item = &'a ObjectStatus> {
    status.mirrored(config).filter(|object| object.removed.is_some())
}

/// The result of `--max-age`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Freshness {
    /// Every list of records is fresh enough.
    Fresh,
    /// One is too old, or was never copied.
    Stale,
    /// One is too old, and no request may be sent now.
    Waiting,
}

impl Freshness {
    fn of(status: &MirrorStatus, config: &Config, max_age: Duration, now: Instant) -> Freshness {
        let mut ages = records(status, config).map(|object| object.changes_as_of.map(|at| now.since(at)));
        let mut any = false;
        let fresh = ages.all(|age| {
            any = true;
            age.is_some_and(|age| age <= max_age)
        });
        let last = status.runs.first().and_then(|run| run.outcome.as_deref());
        let waiting =
            status.hold_until.is_some() || status.ru.left == 0 || last == Some(RunOutcome::Suspended.as_str());
        match (fresh && any, waiting) {
            (true, _) => Freshness::Fresh,
            (false, true) => Freshness::Waiting,
            (false, false) => Freshness::Stale,
        }
    }

    const fn exit(self) -> Exit {
        match self {
            Freshness::Fresh => Exit::Done,
            Freshness::Stale => Exit::Differences,
            Freshness::Waiting => Exit::Paused,
        }
    }

    fn line(self, status: &MirrorStatus, config: &Config, max_age: Duration, now: Instant) -> String {
        let age = |object: &ObjectStatus| match object.changes_as_of {
            Some(at) => format!("{} {}", object.object, format::when(at, now)),
            None => format!("{} never copied", object.object),
        };
        let ages: Vec<String> = records(status, config).map(age).collect();
        let ages = if ages.is_empty() { "no list of records is mirrored".into() } else { ages.join(", ") };
        match self {
            Freshness::Fresh => format!("fresh: {ages}"),
            Freshness::Stale => format!("stale: older than {}: {ages}", format::duration(max_age)),
            Freshness::Waiting => format!(
                "stale: older than {}, waiting for a rate limit or the budget: {ages}",
                format::duration(max_age)
            ),
        }
    }
}
