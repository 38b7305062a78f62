//! `crm-mirror push`: sends the waiting edits, and nothing else.

use serde::Serialize;

use crate::cli::ui::cost::EditPrice;
use crate::cli::ui::output;
use crate::cli::verbs::{edit, sync};
use crate::cli::{Failure, Global};
use crate::config::Config;
use crate::exit::Exit;
use crate::format;
use crate::model::{EditState, HELD_COMMANDS};
use crate::store::{Reader, outbox_report};
use crate::sync::Job;

#[derive(clap::Args, Clone, Debug)]
#[command(after_help = "Example:\n  crm-mirror push --dry-run\n  crm-mirror push --json | jq .push")]
pub struct PushArgs {
    /// Only show what would be sent, and what it would cost.
    #[arg(long)]
    dry_run: bool,
    /// Print the result as one JSON document.
    #[arg(long)]
    json: bool,
}

/// The JSON document of `--dry-run`.
#[derive(Serialize)]
struct PlannedPush {
    waiting: u64,
    /// Those of them that may have been applied: they are read back first.
    in_doubt: u64,
    /// Edits that wait for a decision.
    held: u64,
    #[serde(flatten)]
    price: EditPrice,
}

pub fn run(global: &Global, args: &PushArgs) -> Result<Exit, Failure> {
    let config = global.load_or_place(None)?;
    if args.dry_run {
        return planned(&config, args.json);
    }
    // With an invalid configuration the daemon knows.
    if !config.write_back && config.invalid().is_none() {
        return Err(edit::off());
    }
    sync::run_now(&config, &Job::Push, &[], None, args.json)
}

fn planned(config: &Config, json: bool) -> Result<Exit, Failure> {
    let edits = outbox_report::edits(&Reader::open(&config.database)?.begin()?, false)?;
    let count = |is: &dyn Fn(&outbox_report::EditLine) -> bool| edits.iter().filter(|edit| is(edit)).count() as u64;
    let waits = |edit: &outbox_report::EditLine| matches!(edit.state, EditState::Queued | EditState::Sending);
    let waiting = count(&waits);
    let plan = PlannedPush {
        waiting,
        in_doubt: count(&|edit| edit.state == EditState::Sending),
        held: count(&|edit| edit.state == EditState::Held),
        price: EditPrice::of(config, waiting, count(&|edit| waits(edit) && edit.reads_first))?,
    };
    let mut text = format!("{} would be sent\n", format::counted(waiting, "edit", "edits"));
    if plan.in_doubt > 0 {
        let what = format::count(plan.in_doubt);
        text.push_str(&format!("{what} of them may have been applied: the record is read back first\n"));
    }
    output::report(json, &plan, || text + &plan.price.text())?;
    if plan.held > 0 && !json {
        output::note(&format!("{} held: {HELD_COMMANDS}", format::counted(plan.held, "edit is", "edits are")));
    }
    Ok(Exit::Done)
}
