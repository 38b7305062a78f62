//! `crm-mirror sync` and `crm-mirror resync`: one run, in the foreground or through the daemon.

use std::sync::Arc;

use clap::builder::{PossibleValuesParser, TypedValueParser};
use serde_json::{Value, json};
use tokio::runtime::Runtime;

use crate::app::MirrorSettings;
use crate::app::Summary;
use crate::cli::Failure;
use crate::cli::remote::{self, Watched};
use crate::cli::session::{self, ScratchFolder, Session};
use crate::cli::signals::StopSignals;
use crate::cli::ui::cost::Cost;
use crate::cli::ui::output;
use crate::cli::ui::progress::ProgressView;
use crate::cli::{Global, logging};
use crate::config::Config;
use crate::daemon::client::DaemonClient;
use crate::exit::Exit;
use crate::model::{Resource, Ru};
use crate::store::RunOutcome;
use crate::sync::{Acceptance, Job};

/// Bring the mirror up to date: changes, then details, within the budget. The first run is a full copy.
#[derive(clap::Args, Clone, Debug)]
#[command(after_help = "Example:\n  crm-mirror sync\n  crm-mirror sync contacts companies --json")]
pub struct SyncArgs {
    #[command(flatten)]
    common: RunArgs,
}

/// Read every record again, and find removed ones; costs 1 RU per 100 records.
#[derive(clap::Args, Clone, Debug)]
#[command(after_help = "Example:\n  crm-mirror resync contacts\n  crm-mirror resync --accept-removals")]
pub struct ResyncArgs {
    #[command(flatten)]
    common: RunArgs,
    /// Remove what the service no longer has, even if there are so many that it looks like an outage.
    #[arg(long)]
    accept_removals: bool,
    /// Stop with 75 after this many RU; the next sync or resync goes on with the rest.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    max_ru: Option<u64>,
    /// Stop the resync that is running or was interrupted, and discard its progress.
    #[arg(long, conflicts_with_all = ["objects", "accept_removals", "dry_run", "accept_workspace", "max_ru"])]
    stop: bool,
}

/// Options of both verbs.
#[derive(clap::Args, Clone, Debug)]
struct RunArgs {
    /// The objects to update [default: everything].
    #[arg(value_name = "OBJECT", value_parser = resources())]
    objects: Vec<Resource>,
    /// Mirror the workspace of the key instead of the one before: its records replace the others, and edits that wait are
    /// held.
    #[arg(long)]
    accept_workspace: bool,
    /// Show the estimated cost only. Counting costs 1 RU per object.
    #[arg(long)]
    dry_run: bool,
    /// Print the result as one JSON document.
    #[arg(long)]
    json: bool,
}

fn resources() -> impl TypedValueParser<Value = Resource> {
    PossibleValuesParser::new(Resource::ALL.map(Resource::as_str))
        .try_map(|word| word.parse::<Resource>().map_err(|_| "no such object"))
}

/// Runs `sync`.
pub fn run(global: &Global, args: &SyncArgs) -> Result<Exit, Failure> {
    foreground(global, &args.common, Job::sync(), false, None)
}

/// Runs `resync`.
pub fn rerun(global: &Global, args: &ResyncArgs) -> Result<Exit, Failure> {
    if args.stop {
        return stop(global);
    }
    foreground(global, &args.common, Job::resync(), args.accept_removals, args.max_ru.map(Ru::new))
}

fn foreground(global: &Global, args: &RunArgs, job: Job, removals: bool, max_ru: Option<Ru>) -> Result<Exit, Failure> {
    let config = global.load_or_place(None)?;
    let accept = Acceptance { removals, workspace: args.accept_workspace };
    let job = within(job.of(&args.objects).accepting(accept), config.sync.objects.as_deref())?;
    if args.dry_run {
        return forecast(&config, &job, args);
    }
    run_now(&config, &job, &args.objects, max_ru, args.json)
}

/// Shows the estimated cost of a run.
fn forecast(config: &Config, job: &Job, args: &RunArgs) -> Result<Exit, Failure> {
    let progress = ProgressView::of_process();
    logging::start(&config.log, &progress);
    let runtime = session::runtime()?;
    if runtime.block_on(remote::daemon(config))?.is_some() {
        return Err(needs_it_alone());
    }
    let mut setup = MirrorSettings::from_config(config)?;
    // If there is no mirror yet, none is created: an empty one in a temporary directory is used instead.
    let scratch = if config.database.exists() { None } else { Some(ScratchFolder::make()?) };
    if let Some(scratch) = &scratch {
        setup.database = scratch.path().join("mirror.db");
    }
    let (forecast, ledger, limits) = runtime.block_on(async {
        let session = Session::open_for_forecast(setup, Arc::new(progress)).await?;
        let limits = session.limits();
        let forecast = session.forecast(job).await;
        session.close().await;
        forecast.map(|(forecast, ledger)| (forecast, ledger, limits))
    })?;
    let cost = Cost::new(&forecast, &ledger, &limits);
    if args.json {
        output::json(&cost)?
    } else {
        output::text(&cost.text())?
    }
    Ok(Exit::Done)
}

fn needs_it_alone() -> Failure {
    Failure::new(Exit::Storage, "this option needs exclusive access to the mirror, which the daemon has")
        .hint("stop the daemon first, or omit the option")
}

/// Runs a job while the user watches, through the daemon if one owns the mirror, and prints the result. `objects` are
/// those that the user named; `max_ru` limits what a run without the daemon spends.
pub(super) fn run_now(
    config: &Config,
    job: &Job,
    objects: &[Resource],
    max_ru: Option<Ru>,
    json: bool,
) -> Result<Exit, Failure> {
    let progress = ProgressView::of_process();
    logging::start(&config.log, &progress);
    let runtime = session::runtime()?;
    if let Some((client, status)) = runtime.block_on(remote::daemon(config))? {
        // The daemon would go on with the rest of a limited run at once.
        if job.accept().workspace || max_ru.is_some() {
            return Err(needs_it_alone());
        }
        if *job == Job::Push && status.running.is_some_and(|running| running.work == "verify") {
            output::note(BEHIND_VERIFICATION);
        }
        return through_daemon(&runtime, &client, objects, job, json, &progress);
    }
    let setup = MirrorSettings::from_config(config)?;
    let ran = runtime.block_on(async {
        let mut signals = StopSignals::listen()?;
        let session = Session::open(setup, Arc::new(progress)).await?;
        if let Some(units) = max_ru {
            session.limit_run(units);
        }
        let ran = session.run(job, "manual", &mut signals).await;
        if !matches!(&ran, Err(failure) if failure.exit() == Exit::Paused) {
            session.close().await;
        }
        ran
    })?;
    // A second signal ends the program without waiting.
    runtime.shutdown_background();
    report(json, &ran.summary)
}

fn through_daemon(
    runtime: &Runtime,
    client: &DaemonClient,
    objects: &[Resource],
    job: &Job,
    as_json: bool,
    progress: &ProgressView,
) -> Result<Exit, Failure> {
    let path = format!("/{}", job.kind());
    let body = json!({"objects": objects, "accept_removals": job.accept().removals});
    let how_to_stop = if matches!(job, Job::Resync { .. }) {
        "`crm-mirror resync --stop` stops it"
    } else {
        "`crm-mirror status` shows it"
    };
    match runtime.block_on(remote::job(client, &path, &body, progress, how_to_stop))? {
        Watched::Finished(finished) => report(as_json, &finished.summary),
        Watched::Left => Ok(Exit::Paused),
    }
}

/// What a person who pushes during a verification must know at once.
const BEHIND_VERIFICATION: &str = "the daemon runs a verification, which sends due edits between its requests; the result of \
     this push is reported after it, and `crm-mirror outbox` shows the edits meanwhile";

const NOT_RUNNING: &str = "no resync is running";

/// Ends the sweeps in progress, through the daemon or directly.
fn stop(global: &Global) -> Result<Exit, Failure> {
    let config = global.load_or_place(None)?;
    logging::start(&config.log, &ProgressView::nothing());
    let runtime = session::runtime()?;
    if let Some((client, _)) = runtime.block_on(remote::daemon(&config))? {
        let answer = runtime.block_on(client.post::<Value>("/resync/stop", &json!({})))?;
        output::note(match answer["stopped"].as_bool() {
            Some(false) => NOT_RUNNING,
            _ => "the daemon stops the resync after the page in progress; no record was removed",
        });
        return Ok(Exit::Done);
    }
    if !config.database.exists() {
        output::note(NOT_RUNNING);
        return Ok(Exit::Done);
    }
    let setup = MirrorSettings::from_config(&config)?;
    let forgotten = runtime.block_on(async {
        let session = Session::open(setup, Arc::new(ProgressView::nothing())).await?;
        let forgotten = session.forget_sweeps().await;
        session.close().await;
        forgotten
    })?;
    output::note(if forgotten == 0 {
        NOT_RUNNING
    } else {
        "the progress of the resync is discarded; no record was removed"
    });
    Ok(Exit::Done)
}

/// Prints the result of a run, and returns its exit code.
fn report(json: bool, summary: &Summary) -> Result<Exit, Failure> {
    if json {
        output::json(summary)?;
    } else {
        output::text(&summary.text(crate::model::Instant::system_now()))?;
    }
    Ok(ending(summary))
}

/// The job, limited to the configured objects.
fn within(job: Job, configured: Option<&[Resource]>) -> Result<Job, Failure> {
    job.within(configured).map_err(|other| {
        Failure::new(Exit::Usage, format!("`{other}` is not among `sync.objects`"))
            .hint("add it there, or choose other objects")
    })
}

/// Prints on stderr what is still to be done.
fn ending(summary: &Summary) -> Exit {
    for missing in &summary.missing_scopes {
        let (object, scope) = (&missing.object, &missing.scope);
        if scope.ends_with(":write") {
            output::note(&format!(
                "warning: edits of {object} are waiting: the key lacks `{scope}`\n\
                 hint: give the key this scope in the workspace console"
            ));
            continue;
        }
        let or_else = if object == Resource::CustomFields.as_str() {
            // Definitions are read with every object, even if they are not configured.
            "; until then there are no columns of custom fields".into()
        } else {
            format!(", or remove {object} from `sync.objects`")
        };
        output::note(&format!(
            "warning: {object} were skipped: the key lacks `{scope}`\n\
             hint: give the key this scope{or_else}"
        ));
    }
    for outage in &summary.outages {
        let object = &outage.object;
        output::note(&format!(
            "error: {} of {} {object} would be removed at once, which looks like an outage: none was removed\n\
             hint: if they are really gone, `crm-mirror resync {object} --accept-removals` removes them",
            crate::format::count(outage.going),
            crate::format::count(outage.of),
        ));
    }
    if summary.outcome == RunOutcome::Suspended {
        output::note(&summary.pause_sentence());
    }
    let push = &summary.push;
    if summary.kind == "push" && push.needs_attention() {
        output::note(
            "warning: some edits need a decision: `crm-mirror outbox` shows those that are held or in conflict, `crm-mirror outbox --all` \
             those that were rejected",
        );
        if summary.outcome == RunOutcome::Done {
            return Exit::Differences;
        }
    }
    Exit::of_outcome(summary.outcome)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn object_that_is_not_configured_is_a_usage_error() {
        let failure = within(Job::sync().of(&[Resource::Companies]), Some(&[Resource::Contacts])).unwrap_err();
        assert_eq!(failure.exit(), Exit::Usage);
        assert!(failure.text().contains("`companies` is not among"), "{}", failure.text());
    }
}
