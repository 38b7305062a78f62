//! `crm-mirror backup`: a verified copy of the mirror in one file, even while it is written.

use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::json;

use crate::cli::{Failure, Global, logging, output};
use crate::exit::Exit;
use crate::format;
use crate::model::Instant;
use crate::store::backup;
use crate::store::remove_database;

#[derive(clap::Args, Clone, Debug)]
#[command(
    after_help = "Example:\n  crm-mirror backup /backup/mirror-$(date +%F).db\n  crm-mirror backup --keep 7 /backup"
)]
pub struct BackupArgs {
    /// The file to write; with --keep the folder, in which each copy has its time as its name.
    #[arg(value_name = "FILE")]
    target: PathBuf,
    /// Replace the file if it exists.
    #[arg(long)]
    force: bool,
    /// Write to a folder, and keep N copies there: the new one and the newest others.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..), conflicts_with = "force")]
    keep: Option<u32>,
}

/// How long ago the unfinished copy of a backup was written that no longer runs.
const GIVEN_UP: Duration = Duration::from_secs(24 * 3600);

/// Removes others than the copy that was made: its name is no later one than theirs if a clock was wrong. What a backup that
/// was killed left of its copy is removed too.
fn remove_old(folder: &Path, stem: &str, made: &Path, keep: u32) -> io::Result<Vec<String>> {
    // What follows the time in the name of a copy.
    let rest_of = |name: &str| {
        let time = name.strip_prefix(stem)?.replace(|c: char| c.is_ascii_digit(), "0");
        time.strip_prefix("-00000000T000000Z.db").map(String::from)
    };
    let is_given_up = |name: &String| {
        let age = || folder.join(name).metadata().ok()?.modified().ok()?.elapsed().ok();
        rest_of(name).is_some_and(|rest| rest.ends_with(".new")) && age().is_some_and(|age| age > GIVEN_UP)
    };
    let is_other = |name: &String| rest_of(name).as_deref() == Some("") && made.file_name() != Some(name.as_ref());
    let names = std::fs::read_dir(folder)?.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
    let (mut removed, names): (Vec<String>, Vec<String>) = names.partition(is_given_up);
    let mut copies: Vec<String> = names.into_iter().filter(is_other).collect();
    copies.sort_unstable();
    copies.truncate((copies.len() + 1).saturating_sub(keep as usize));
    removed.append(&mut copies);
    removed.iter().try_for_each(|name| remove_database(&folder.join(name)))?;
    Ok(removed)
}

pub fn run(global: &Global, args: &BackupArgs) -> Result<Exit, Failure> {
    let config = global.load()?;
    logging::start(&config.log);
    let now = Instant::system_now();
    let stem = config.database.file_stem().unwrap_or_default().to_string_lossy().into_owned();
    let name = format!("{stem}-{}Z.db", now.civil().strftime("%Y%m%dT%H%M%S"));
    let target = if args.keep.is_some() { args.target.join(name) } else { args.target.clone() };
    let report = backup::backup(&config.database, &target, args.force, now)?;
    let removed = args.keep.map_or(Ok(Vec::new()), |keep| remove_old(&args.target, &stem, &target, keep));
    let removed = removed.map_err(|error| {
        let folder = args.target.display();
        Failure::new(
            Exit::Storage,
            format!("the copy is complete, and old ones in {folder} cannot be removed: {error}"),
        )
    })?;
    let file = target.display().to_string();
    let mut text =
        format!("copied {} to {file}, {}; integrity check ok", config.database.display(), format::bytes(report.bytes));
    if report.held_edits > 0 {
        let held = format::counted(report.held_edits, "open edit is", "open edits are");
        text.push_str(&format!("\nin the copy, {held} held"));
    }
    if !removed.is_empty() {
        text.push_str(&format!("\nremoved {}", removed.join(", ")));
    }
    let document = json!({"file": file, "bytes": report.bytes, "held_edits": report.held_edits, "removed": removed});
    Ok(output::report(global.json, &document, || text)?)
}
