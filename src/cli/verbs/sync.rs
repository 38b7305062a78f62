//! `crm-mirror sync` and `crm-mirror resync`: one run now, in the foreground.

use std::os::unix::fs::DirBuilderExt;
use std::path::PathBuf;
use std::sync::Arc;

use clap::builder::{PossibleValuesParser, TypedValueParser};
use serde_json::{Value, json};
use tokio::runtime::Runtime;

use crate::app::MirrorSettings;
use crate::cli::Failure;
use crate::cli::remote::{self, Watched};
use crate::cli::session::{self, Session};
use crate::cli::signals::StopSignals;
use crate::cli::ui::cost::Cost;
use crate::cli::ui::output;
use crate::cli::ui::progress::ProgressView;
use crate::cli::{Global, logging};
use crate::config::Config;
use crate::daemon::client::DaemonClient;
use crate::exit::Exit;
use crate::model::Resource;
use crate::store::RunOutcome;
use crate::sync::{Acceptance, Job, Summary};

/// Bring the mirror up to date: changes, then details, within the budget. The first run is a full copy.
#[derive(clap::Args, Clone, Debug)]
#[command(after_help = "Example:\n  crm-mirror sync\n  crm-mirror sync contacts companies --json")]
pub struct SyncArgs {
    #[command(flatten)]
    common: RunArgs,
}

/// Read every record again, and find removed ones: 1 RU per 100 records.
#[derive(clap::Args, Clone, Debug)]
#[command(after_help = "Example:\n  crm-mirror resync contacts\n  crm-mirror resync --accept-removals")]
pub struct ResyncArgs {
    #[command(flatten)]
    common: RunArgs,
    /// Remove what the service no longer has, even if there is so much of it that it looks like an outage.
    #[arg(long)]
    accept_removals: bool,
    /// Stop the resync that is running or was interrupted, and discard its progress.
    #[arg(long, conflicts_with_all = ["objects", "accept_removals", "dry_run", "accept_workspace"])]
    stop: bool,
}

/// What both take.
#[derive(clap::Args, Clone, Debug)]
struct RunArgs {
    /// What to bring up to date [default: everything].
    #[arg(value_name = "OBJECT", value_parser = resources())]
    objects: Vec<Resource>,
    /// Continue although the key belongs to a different workspace than the mirror.
    #[arg(long)]
    accept_workspace: bool,
    /// Only show what the run would cost. Counting spends 1 RU per object.
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

/// Carries `sync` out.
///
/// # Errors
/// What ended the run and waiting does not fix.
pub fn run(global: &Global, args: &SyncArgs) -> Result<Exit, Failure> {
    foreground(global, &args.common, Job::sync(), false)
}

/// Carries `resync` out.
///
/// # Errors
/// What ended the run and waiting does not fix.
pub fn rerun(global: &Global, args: &ResyncArgs) -> Result<Exit, Failure> {
    if args.stop {
        return stop(global);
    }
    foreground(global, &args.common, Job::resync(), args.accept_removals)
}

fn foreground(global: &Global, args: &RunArgs, job: Job, removals: bool) -> Result<Exit, Failure> {
    let config = global.load()?;
    let accept = Acceptance { removals, workspace: args.accept_workspace };
    let job = within(job.of(&args.objects).accepting(accept), config.sync.objects.as_deref())?;
    if args.dry_run {
        return forecast(&config, &job, args);
    }
    run_now(&config, &job, &args.objects, args.json)
}

/// Says what a run would cost.
fn forecast(config: &Config, job: &Job, args: &RunArgs) -> Result<Exit, Failure> {
    let progress = ProgressView::of_process();
    logging::start(&config.log, &progress);
    let runtime = session::runtime()?;
    if runtime.block_on(remote::daemon(config))?.is_some() {
        return Err(needs_it_alone());
    }
    let mut setup = MirrorSettings::from_config(config)?;
    // Where there is no mirror yet, none is made: an empty one in a temporary folder stands in for it.
    let scratch = if config.database.exists() { None } else { Some(ScratchFolder::make()?) };
    if let Some(scratch) = &scratch {
        setup.database = scratch.0.join("mirror.db");
    }
    let (forecast, ledger, limits) = runtime.block_on(async {
        let session = Session::open(setup, Arc::new(progress)).await?;
        let limits = session.limits();
        let said = session.forecast(job).await;
        session.close().await;
        said.map(|(forecast, ledger)| (forecast, ledger, limits))
    })?;
    let cost = Cost::new(&forecast, &ledger, &limits);
    if args.json {
        output::json(&cost)?
    } else {
        output::text(&cost.text())?
    }
    Ok(Exit::Done)
}

/// A folder for a moment, which only this user can read.
struct ScratchFolder(PathBuf);

impl ScratchFolder {
    fn make() -> std::io::Result<ScratchFolder> {
        let folder = std::env::temp_dir().join(format!("crm-mirror-{:016x}", fastrand::u64(..)));
        std::fs::DirBuilder::new().mode(0o700).create(&folder)?;
        Ok(ScratchFolder(folder))
    }
}

impl Drop for ScratchFolder {
    fn drop(&mut self) {
        // What cannot be removed from a temporary folder harms nobody.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn needs_it_alone() -> Failure {
    Failure::new(Exit::Storage, "the daemon keeps this mirror, and this option needs it alone")
        .hint("stop the daemon first, or leave the option out")
}

/// Carries a job out while a person watches, through the daemon where one keeps the mirror, and says what it did.
/// `objects` are those that the person named.
///
/// # Errors
/// What ended the run and waiting does not fix.
pub(super) fn run_now(config: &Config, job: &Job, objects: &[Resource], json: bool) -> Result<Exit, Failure> {
    let progress = ProgressView::of_process();
    logging::start(&config.log, &progress);
    let runtime = session::runtime()?;
    if let Some((client, _)) = runtime.block_on(remote::daemon(config))? {
        if job.accept().workspace {
            return Err(needs_it_alone());
        }
        return through_daemon(&runtime, &client, objects, job, json, &progress);
    }
    let setup = MirrorSettings::from_config(config)?;
    let ran = runtime.block_on(async {
        let mut signals = StopSignals::listen()?;
        let session = Session::open(setup, Arc::new(progress)).await?;
        let ran = session.run(job, "manual", &mut signals).await;
        if !matches!(&ran, Err(failure) if failure.exit() == Exit::Paused) {
            session.close().await;
        }
        ran
    })?;
    // Whoever stopped the program twice waits for nothing.
    runtime.shutdown_background();
    told(json, &ran.summary)
}

/// Lets the daemon do it.
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
        Watched::Finished(finished) => told(as_json, &finished.summary),
        Watched::Left => Ok(Exit::Paused),
    }
}

/// Ends the sweeps under way, through the daemon or alone.
fn stop(global: &Global) -> Result<Exit, Failure> {
    let config = global.load()?;
    logging::start(&config.log, &ProgressView::nothing());
    let runtime = session::runtime()?;
    if let Some((client, _)) = runtime.block_on(remote::daemon(&config))? {
        runtime.block_on(client.post::<Value>("/resync/stop", &json!({})))?;
        output::note("the daemon stops the resync after the page in progress; no record was removed");
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
        "no resync is running"
    } else {
        "the progress of the resync is discarded; no record was removed"
    });
    Ok(Exit::Done)
}

/// Says what a run did, and gives the code for it.
fn told(json: bool, summary: &Summary) -> Result<Exit, Failure> {
    if json {
        output::json(summary)?;
    } else {
        output::text(&summary.text(crate::model::Instant::system_now()))?;
    }
    Ok(ending(summary))
}

/// The job within what the configuration names.
fn within(job: Job, configured: Option<&[Resource]>) -> Result<Job, Failure> {
    job.within(configured).map_err(|other| {
        Failure::new(Exit::Usage, format!("`{other}` is not among `sync.objects`")).hint("add it there, or name others")
    })
}

/// Says on stderr what is still to be done, and by whom.
fn ending(summary: &Summary) -> Exit {
    for missing in &summary.missing_scopes {
        let (object, scope) = (&missing.object, &missing.scope);
        if scope.ends_with(":write") {
            output::note(&format!(
                "warning: edits of {object} wait: the key lacks `{scope}`\n\
                 hint: give the key this scope in the workspace console"
            ));
            continue;
        }
        let or_else = if object == Resource::CustomFields.as_str() {
            // Read with every object, whether named or not.
            "; until then there are no columns of custom fields".into()
        } else {
            format!(", or leave {object} out of `sync.objects`")
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
            "warning: edits wait for you: `crm-mirror outbox` shows those that are held or in conflict, `crm-mirror outbox --all` \
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
    fn naming_what_the_configuration_leaves_out_is_a_usage_error() {
        let failure = within(Job::sync().of(&[Resource::Companies]), Some(&[Resource::Contacts])).unwrap_err();
        assert_eq!(failure.exit(), Exit::Usage);
        assert!(failure.text().contains("`companies` is not among"), "{}", failure.text());
    }
}
