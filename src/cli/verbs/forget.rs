//! `crm-mirror forget`: erases a removed record from the mirror.

use serde_json::json;

use crate::cli::{Failure, Global, logging, objects, output};
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
}

pub fn run(global: &Global, args: &ForgetArgs) -> Result<Exit, Failure> {
    let config = global.load()?;
    logging::start(&config.log);
    let object = args.object;
    let shown = output::plain(&args.id);
    if !args.yes && !output::confirm(&format!("erase all data of {object} {shown}, which cannot be undone?"))? {
        return Ok(Exit::Done);
    }
    let ErasedCounts { record, changes, edits } =
        match write_beside(&config.database, |tx| tx.feed().erase_removed(object, &args.id))? {
            Erasure::Erased(counts) => counts,
            Erasure::StillHere => {
                return Err(Failure::new(Exit::Usage, format!("{object} {shown} is still in the mirror"))
                    .hint("delete it at the service if it is there; then `crm-mirror resync` removes it here"));
            }
            Erasure::Unknown => return Err(Failure::new(Exit::Usage, format!("unknown {object} {shown}"))),
        };
    let entries = format::counted(changes, "history entry", "history entries");
    let text = format!("erased {object} {shown}: {entries}, {}", format::counted(edits, "edit", "edits"));
    let document = json!({"object": object, "id": args.id, "record": record, "changes": changes, "edits": edits});
    Ok(output::report(global.json, &document, || text)?)
}
