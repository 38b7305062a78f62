//! `crm-mirror outbox`: the edits that wait, and what a person decides about them.

use std::io::{self, BufRead, IsTerminal, Write};
use std::path::{Path, PathBuf};

use serde::Serialize;
use serde_json::Value;

use crate::cli::Failure;
use crate::cli::Global;
use crate::cli::ui::output;
use crate::cli::ui::output::TableColumn;
use crate::cli::verbs::edit;
use crate::exit::Exit;
use crate::format;
use crate::model::{EditedFields, Instant};
use crate::outbox::decide::{self, DecideError, Decided, Decision};
use crate::store::outbox_report::{self, EditLine, TrailLine};
use crate::store::{Reader, write_beside};

/// Show the edits that wait, and decide about those that cannot go on.
///
/// An edit is queued until it is sent, and sending until it is known what became of it. Then the service has it
/// (applied), does not take it (rejected), or somebody else changed the same field (conflict), which a person decides.
#[derive(clap::Args, Clone, Debug)]
#[command(
    args_conflicts_with_subcommands = true,
    after_help = "Example:\n  crm-mirror outbox\n  crm-mirror outbox show 7\n  crm-mirror outbox resolve 7 --mine"
)]
pub struct OutboxArgs {
    #[command(subcommand)]
    what: Option<What>,
    #[command(flatten)]
    list: ListArgs,
    #[command(flatten)]
    common: Common,
}

/// What every part takes.
#[derive(clap::Args, Clone, Debug)]
struct Common {
    /// The mirror [default: `database.path` of the configuration].
    #[arg(long, value_name = "FILE", global = true)]
    database: Option<PathBuf>,
    /// Print the result as one JSON document.
    #[arg(long, global = true)]
    json: bool,
}

#[derive(clap::Args, Clone, Debug)]
struct ListArgs {
    /// Also those that are at their end: applied, rejected, dropped.
    #[arg(long)]
    all: bool,
}

#[derive(clap::Subcommand, Clone, Debug)]
enum What {
    /// List the edits that wait.
    #[command(after_help = "Example:\n  crm-mirror outbox list --all --json")]
    List(ListArgs),
    /// Show one edit: what it changes, what the service has, and every step of it.
    #[command(after_help = "Example:\n  crm-mirror outbox show 7")]
    Show {
        /// The edit's number.
        id: i64,
    },
    /// Try an edit again that was rejected, dropped or in conflict.
    #[command(after_help = "Example:\n  crm-mirror outbox retry 7")]
    Retry {
        /// The edit's number.
        id: i64,
    },
    /// Give an edit up.
    #[command(after_help = "Example:\n  crm-mirror outbox drop 7 --yes")]
    Drop {
        /// The edit's number.
        id: i64,
        /// Do not ask.
        #[arg(long)]
        yes: bool,
    },
    /// End a conflict.
    #[command(
        group = clap::ArgGroup::new("whose").required(true),
        after_help = "Example:\n  crm-mirror outbox resolve 7 --mine\n  crm-mirror outbox resolve 7 --theirs --yes"
    )]
    Resolve {
        /// The edit's number.
        id: i64,
        /// The edit replaces what the service has.
        #[arg(long, group = "whose")]
        mine: bool,
        /// What the service has stays, and the edit is dropped.
        #[arg(long, group = "whose")]
        theirs: bool,
        /// Do not ask.
        #[arg(long)]
        yes: bool,
    },
}

#[derive(Serialize)]
struct List<'a> {
    edits: &'a [EditLine],
}

#[derive(Serialize)]
struct Show<'a> {
    #[serde(flatten)]
    edit: &'a EditLine,
    trail: &'a [TrailLine],
}

/// The JSON document of a decision.
#[derive(Serialize)]
struct Outcome<'a> {
    edit: i64,
    state: &'static str,
    /// The edit that takes its place, where it was at its end already.
    anew: Option<i64>,
    fields: &'a EditedFields,
}

/// Carries the verb out.
///
/// # Errors
/// [`Exit::Usage`] for what cannot be decided, [`Exit::Config`] where an edit would be queued while writing back is off.
pub fn run(global: &Global, args: &OutboxArgs) -> Result<Exit, Failure> {
    let config = global.load_with(args.common.database.as_deref())?;
    let (database, json) = (config.database.as_path(), args.common.json);
    let (id, decision, yes) = match &args.what {
        None => return list(database, args.list.all, json),
        Some(What::List(list_args)) => return list(database, list_args.all || args.list.all, json),
        Some(What::Show { id }) => return show(database, *id, json),
        Some(What::Retry { id }) => (*id, Decision::Retry, true),
        Some(What::Drop { id, yes }) => (*id, Decision::Drop, *yes),
        Some(What::Resolve { id, mine, yes, .. }) => (*id, if *mine { Decision::Mine } else { Decision::Theirs }, *yes),
    };
    if !config.write_back && matches!(decision, Decision::Retry | Decision::Mine) {
        return Err(edit::off());
    }
    if !yes && !asked(database, id, decision)? {
        output::note("nothing was changed");
        return Ok(Exit::Done);
    }
    let decided = write_beside(database, |tx| decide::decide(tx, id, decision, Instant::system_now()))?;
    told(decision, &decided, json)
}

fn list(database: &Path, all: bool, json: bool) -> Result<Exit, Failure> {
    let reader = Reader::open(database)?;
    let edits = outbox_report::edits(&reader.begin()?, all)?;
    if json {
        output::json(&List { edits: &edits })?;
        return Ok(Exit::Done);
    }
    let now = Instant::system_now();
    let columns = [
        TableColumn::Right("edit"),
        TableColumn::Left("object"),
        TableColumn::Left("record"),
        TableColumn::Left("name"),
        TableColumn::Left("state"),
        TableColumn::Left("made"),
        TableColumn::Left("changes"),
    ];
    let rows = edits.iter().map(|edit| {
        vec![
            edit.id.to_string(),
            edit.object.to_string(),
            edit.record.clone(),
            edit.name.clone().unwrap_or_default(),
            edit.state.as_str().into(),
            edit.queued_at.parse().map_or_else(|_| edit.queued_at.clone(), |at| format::when(at, now)),
            changes(edit),
        ]
    });
    if edits.is_empty() {
        output::text(if all { "there are no edits" } else { "no edits wait" })?;
    } else {
        output::table(&columns, rows)?;
    }
    let rejected = outbox_report::rejected(&reader.begin()?)?;
    if !all && rejected > 0 {
        let what = format::counted(rejected, "edit was", "edits were");
        output::note(&format!("{what} rejected: `crm-mirror outbox --all` shows them"));
    }
    Ok(Exit::Done)
}

/// The columns that an edit changes, and what they are to hold.
fn changes(edit: &EditLine) -> String {
    let fields = edit.fields.iter();
    let changes: Vec<String> =
        fields.map(|(column, (_, after))| format!("{column} = {}", edit::shown(after))).collect();
    changes.join(", ")
}

fn show(database: &Path, id: i64, json: bool) -> Result<Exit, Failure> {
    let reader = Reader::open(database)?;
    let (edit, trail) = outbox_report::edit(&reader.begin()?, id)?.ok_or(DecideError::NoEdit(id))?;
    if json {
        output::json(&Show { edit: &edit, trail: &trail })?;
        return Ok(Exit::Done);
    }
    output::text(&shown(&edit))?;
    let columns = ["at", "from", "to", "why"].map(TableColumn::Left);
    let rows = trail.into_iter().map(|step| vec![step.at, step.from.unwrap_or_default(), step.to, step.why]);
    output::table(&columns, rows)?;
    Ok(Exit::Done)
}

/// An edit for people, its trail aside.
fn shown(edit: &EditLine) -> String {
    let name = edit.name.as_ref().map(|name| format!(" ({name})")).unwrap_or_default();
    let mut text = format!(
        "edit {} of {} {}{}: {}, made with {}\n",
        edit.id,
        edit.object,
        output::plain(&edit.record),
        output::plain(&name),
        edit.state.as_str(),
        edit.source
    );
    if let Some(carrier) = edit.merged_into {
        text.push_str(&format!("sent together with edit {carrier}\n"));
    }
    for (column, (before, after)) in &edit.fields {
        text.push_str(&format!(
            "  {column}\n    before  {}\n    after   {}\n",
            edit::whole(before),
            edit::whole(after)
        ));
        if let Some(there) = edit.theirs.as_ref().and_then(|theirs| theirs.get(column)) {
            text.push_str(&format!("    theirs  {}\n", edit::whole(there)));
        }
    }
    if let Some(message) = said(edit) {
        text.push_str(&format!("the service said: {}\n", output::plain(&message)));
    }
    text.push('\n');
    text
}

/// What the last answer said, in words.
fn said(edit: &EditLine) -> Option<String> {
    let answer: Value = serde_json::from_str(edit.answer.as_ref()?.get()).ok()?;
    let mut said = answer.get("message")?.as_str()?.to_string();
    let details = answer.get("details").and_then(Value::as_array);
    for detail in details.into_iter().flatten() {
        if let (Some(field), Some(message)) = (detail["field"].as_str(), detail["message"].as_str()) {
            said.push_str(&format!("; {field} {message}"));
        }
    }
    Some(said)
}

/// Asks a person on the terminal before anything is discarded.
fn asked(database: &Path, id: i64, decision: Decision) -> Result<bool, Failure> {
    let reader = Reader::open(database)?;
    let (edit, _) = outbox_report::edit(&reader.begin()?, id)?.ok_or(DecideError::NoEdit(id))?;
    drop(reader);
    if !(io::stdin().is_terminal() && io::stderr().is_terminal()) {
        return Err(Failure::new(Exit::Usage, "this discards values, and there is nobody to ask")
            .hint("`--yes` says that it is meant"));
    }
    let question = match decision {
        Decision::Mine => "Replace what the service has?",
        _ => "Give this edit up?",
    };
    let mut err = io::stderr().lock();
    let _ = write!(err, "{}{question} [y/N] ", shown(&edit));
    let _ = err.flush();
    let mut line = String::new();
    io::stdin().lock().read_line(&mut line)?;
    Ok(matches!(line.trim(), "y" | "Y" | "yes"))
}

fn told(decision: Decision, decided: &Decided, json: bool) -> Result<Exit, Failure> {
    if json {
        output::json(&Outcome {
            edit: decided.edit,
            state: decided.state.as_str(),
            anew: decided.anew,
            fields: &decided.fields,
        })?;
        return Ok(Exit::Done);
    }
    let edit = decided.edit;
    let text = match (decision, decided.anew) {
        (Decision::Retry, Some(anew)) => format!("edit {edit} is queued anew as edit {anew}"),
        (Decision::Retry, None) if decided.state.is_final() => "nothing to do: the record holds this already".into(),
        (Decision::Retry | Decision::Mine, _) => format!("edit {edit} is queued"),
        (Decision::Drop | Decision::Theirs, _) => format!("edit {edit} is dropped"),
    };
    output::text(&text)?;
    output::text(&edit::lines(&decided.fields))?;
    Ok(Exit::Done)
}

impl From<DecideError> for Failure {
    fn from(error: DecideError) -> Failure {
        match error {
            DecideError::Store(error) => error.into(),
            error @ DecideError::NoEdit(_) => {
                Failure::new(Exit::Usage, error).hint("`crm-mirror outbox --all` lists them")
            }
            error => Failure::new(Exit::Usage, error),
        }
    }
}
