//! The inputs that the fuzz targets found worth keeping: the files of `tests/corpus` have the properties that the targets
//! check. A file that once was a finding keeps its name, the others are named by their content.

use std::path::Path;
use std::sync::{Mutex, PoisonError};

use crate::checks;

/// Some targets share one mirror.
static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

/// Checks every file of a target.
fn every_file(target: &str, check: fn(&[u8])) {
    let _alone = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/corpus").join(target);
    let mut files: Vec<_> = std::fs::read_dir(folder).unwrap().map(|file| file.unwrap().path()).collect();
    files.sort();
    assert!(!files.is_empty(), "{target}");
    for file in files {
        // Shown if the check fails.
        println!("{}", file.display());
        check(&std::fs::read(file).unwrap());
    }
}

#[test]
fn answers_have_their_properties() {
    every_file("answers", checks::answers::check);
}

#[test]
fn texts_have_their_properties() {
    every_file("texts", checks::texts::check);
}

#[test]
fn configurations_have_their_properties() {
    every_file("config", checks::config::check);
}

#[test]
fn requests_on_the_control_socket_have_their_properties() {
    every_file("control", checks::control::check);
}

#[test]
fn values_in_sql_have_their_properties() {
    every_file("sql", checks::sql::check);
}

#[test]
fn entries_of_the_state_have_their_properties() {
    every_file("state", checks::state::check);
}

#[test]
fn rows_of_the_outbox_have_their_properties() {
    every_file("outbox", checks::outbox::check);
}

#[test]
fn runs_have_their_properties() {
    every_file("runs", checks::runs::check);
}
