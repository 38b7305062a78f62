//! `crm-mirror forget`: erases a removed record from the mirror.

use std::path::Path;

use serde::Serialize;

use crate::cli::{Failure, Global, MirrorArgs, logging, objects, output};
use crate::exit::Exit;
use crate::format;
use crate::model::Object;
use crate::store::{ErasedCounts, Erasure, write_beside};

#[derive(clap::Args, Clone, Debug)]
#[command(after_help = "Example:\n  crm-mirror forget contact ct_01h8x --yes")]
pub struct ForgetArgs {
    /// The kind of record.
    #[arg(value_name = "OBJECT", value_parser = objects())]
    object: Object,
    /// The id.
    #[arg(value_name = "ID")]
    id: String,
    /// Do not ask for confirmation.
    #[arg(long)]
    yes: bool,
    #[command(flatten)]
    common: MirrorArgs,
}

#[derive(Serialize)]
struct ForgetDocument<'a> {
    object: Object,
    id: &'a str,
    #[serde(flatten)]
    erased: ErasedCounts,
}

pub fn run(global: &Global, args: &ForgetArgs) -> Result<Exit, Failure> {
    let config = global.load(args.common.database.as_deref())?;
    logging::start(&config.log);
    let object = args.object;
    let shown = output::plain(&args.id);
    if !args.yes && !output::confirm("this cannot be undone", &format!("erase all data of {object} {shown}?"))? {
        return Ok(Exit::Done);
    }
    let erased = erase(&config.database, object, &args.id)?;
    let changes = format::counted(erased.changes, "history entry", "history entries");
    let text = format!("erased {object} {shown}: {changes}, {}", format::counted(erased.edits, "edit", "edits"));
    Ok(output::report(args.common.json, &ForgetDocument { object, id: &args.id, erased }, || text)?)
}

fn erase(database: &Path, object: Object, id: &str) -> Result<ErasedCounts, Failure> {
    let shown = output::plain(id);
    match write_beside(database, |tx| tx.feed().erase_removed(object, id))? {
        Erasure::Erased(counts) => Ok(counts),
        Erasure::StillHere => Err(Failure::new(Exit::Usage, format!("{object} {shown} is still in the mirror"))
            .hint("delete it at the service if it is there; then `crm-mirror resync` removes it here")),
        Erasure::Unknown => Err(Failure::new(Exit::Usage, format!("unknown {object} {shown}"))),
    }
}
