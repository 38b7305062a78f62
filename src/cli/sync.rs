//! `crm-mirror sync` and `crm-mirror resync`: one run now, in the foreground.

use std::sync::Arc;

use clap::builder::{PossibleValuesParser, TypedValueParser};

use super::cost::Cost;
use super::exit::Exit;
use super::failure::Failure;
use super::progress::Progress;
use super::session::{self, Ran, Session, Setup};
use super::signals::Signals;
use super::summary::Summary;
use super::{Global, logging, output};
use crate::config::Config;
use crate::model::{Object, Resource};
use crate::store::RunOutcome;
use crate::sync::Plan;

/// Bring the mirror up to date: changes, then details, within the budget. The first run is a full copy.
#[derive(clap::Args, Clone, Debug)]
#[command(after_help = "Example:\n  crm-mirror sync\n  crm-mirror sync contacts companies --json")]
pub struct SyncArgs {
    #[command(flatten)]
    common: Common,
}

/// Read every record again, and find removed ones: 1 RU per 100 records.
#[derive(clap::Args, Clone, Debug)]
#[command(after_help = "Example:\n  crm-mirror resync contacts\n  crm-mirror resync --accept-removals")]
pub struct ResyncArgs {
    #[command(flatten)]
    common: Common,
    /// Remove whatever the service no longer has, even if it is so much that it looks like an outage.
    #[arg(long)]
    accept_removals: bool,
}

/// What both take.
#[derive(clap::Args, Clone, Debug)]
struct Common {
    /// What to bring up to date [default: everything].
    #[arg(value_name = "OBJECT", value_parser = resources())]
    objects: Vec<Resource>,
    /// Go on although the key sees another workspace than the one that is mirrored here.
    #[arg(long)]
    accept_workspace: bool,
    /// Only say what the run would cost. Counting spends 1 RU an object.
    #[arg(long)]
    dry_run: bool,
    /// Print the result as one JSON document.
    #[arg(long)]
    json: bool,
}

fn resources() -> impl TypedValueParser<Value = Resource> {
    PossibleValuesParser::new(Resource::ALL.map(Resource::word))
        .try_map(|word| Resource::from_word(&word).ok_or("no such object"))
}

/// Carries `sync` out.
///
/// # Errors
/// What ended the run and will not mend itself by waiting.
pub fn run(global: &Global, args: &SyncArgs) -> Result<Exit, Failure> {
    foreground(global, &args.common, Plan::sync())
}

/// Carries `resync` out.
///
/// # Errors
/// What ended the run and will not mend itself by waiting.
pub fn rerun(global: &Global, args: &ResyncArgs) -> Result<Exit, Failure> {
    let plan = Plan {
        accept_removals: args.accept_removals,
        ..Plan::resync()
    };
    foreground(global, &args.common, plan)
}

fn foreground(global: &Global, args: &Common, plan: Plan) -> Result<Exit, Failure> {
    let config = global.load()?;
    let plan = limited(plan, &args.objects, config.sync.objects.as_deref())?;
    if args.dry_run {
        return forecast(&config, &plan, args);
    }
    in_foreground(&config, &plan, args.accept_workspace, args.json)
}

/// Says what a run would cost.
fn forecast(config: &Config, plan: &Plan, args: &Common) -> Result<Exit, Failure> {
    let setup = Setup::from_config(config, args.accept_workspace)?;
    let progress = Progress::of_process();
    logging::start(&config.log, &progress);
    let (forecast, ledger, limits) = session::runtime()?.block_on(async {
        let session = Session::open(setup, Arc::new(progress)).await?;
        let limits = *session.limits();
        let said = session.forecast(plan).await;
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

/// Carries a plan out while a person watches, and says what it did.
///
/// # Errors
/// What ended the run and will not mend itself by waiting.
pub(super) fn in_foreground(config: &Config, plan: &Plan, accept_workspace: bool, json: bool) -> Result<Exit, Failure> {
    let setup = Setup::from_config(config, accept_workspace)?;
    let progress = Progress::of_process();
    logging::start(&config.log, &progress);
    let runtime = session::runtime()?;
    let (ran, limits) = runtime.block_on(async {
        let mut signals = Signals::listen()?;
        let session = Session::open(setup, Arc::new(progress)).await?;
        let ran = session.run(plan, "manual", &mut signals).await;
        let limits = *session.limits();
        if !matches!(&ran, Err(failure) if failure.exit() == Exit::Paused) {
            session.close().await;
        }
        Ok::<_, Failure>((ran?, limits))
    })?;
    // Whoever stopped the program twice waits for nothing.
    runtime.shutdown_background();
    let summary = Summary::new(plan, &ran, &limits);
    if json {
        output::json(&summary)?;
    } else {
        output::text(&summary.text(crate::model::Instant::system_now()))?;
    }
    Ok(ending(&ran, &summary))
}

/// The plan for what was named, else for what the configuration names.
fn limited(plan: Plan, named: &[Resource], configured: Option<&[Resource]>) -> Result<Plan, Failure> {
    if named.is_empty() {
        return Ok(match configured {
            Some(configured) => plan.within(configured),
            None => plan,
        });
    }
    match named.iter().find(|r| configured.is_some_and(|c| !c.contains(r))) {
        None => Ok(plan.of(named)),
        Some(other) => Err(
            Failure::new(Exit::Usage, format!("`{other}` is not among `sync.objects`"))
                .hint("add it there, or name others"),
        ),
    }
}

/// Says on stderr what is still to be done, and by whom.
fn ending(ran: &Ran, summary: &Summary) -> Exit {
    for (resource, scope) in &ran.report.missing_scopes {
        if scope.ends_with(":write") {
            output::note(&format!(
                "warning: edits of {resource} wait: the key lacks `{scope}`\n\
                 hint: give the key this scope in the workspace console"
            ));
            continue;
        }
        output::note(&format!(
            "warning: {resource} were skipped: the key lacks `{scope}`\n\
             hint: give the key this scope, or leave {resource} out of `sync.objects`"
        ));
    }
    for (object, outage) in &ran.report.outages {
        output::note(&format!(
            "error: {} of {} {} would go at once, which looks like an outage: none was removed\n\
             hint: if they are really gone, `crm-mirror resync {} --accept-removals` removes them",
            super::human::count(outage.going),
            super::human::count(outage.of),
            plural(*object),
            object.resource(),
        ));
    }
    match ran.report.outcome {
        RunOutcome::Done => Exit::Done,
        RunOutcome::Refused => Exit::Outage,
        RunOutcome::Paused => {
            output::note(&summary.pause_sentence());
            Exit::Paused
        }
        RunOutcome::Failed => Exit::Internal,
    }
}

const fn plural(object: Object) -> &'static str {
    object.table()
}

#[cfg(test)]
mod tests {
    use super::*;
    use Resource::{Companies, Contacts, TeamMembers};

    #[test]
    fn the_configuration_limits_what_runs() {
        let plan = |named, configured| limited(Plan::sync(), named, configured);
        let all = plan(&[], None).unwrap();
        assert!(all.resources.is_empty());
        let within = plan(&[], Some(&[Contacts, TeamMembers])).unwrap();
        assert_eq!(
            (&within.resources[..], within.by_name),
            (&[Contacts, TeamMembers][..], false)
        );
        let named = plan(&[Contacts], Some(&[Contacts, TeamMembers])).unwrap();
        assert_eq!((&named.resources[..], named.by_name), (&[Contacts][..], true));
        let failure = plan(&[Companies], Some(&[Contacts])).unwrap_err();
        assert_eq!(failure.exit(), Exit::Usage);
        assert!(
            failure.text().contains("`companies` is not among"),
            "{}",
            failure.text()
        );
    }
}
