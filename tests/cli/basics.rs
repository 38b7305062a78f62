//! Exit codes, streams, and readers that close early.

use std::process::{Command, Output, Stdio};

fn crm_mirror(line: &str) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_crm-mirror"));
    command.args(line.split_whitespace()).env_clear();
    command
}

fn run(line: &str) -> Output {
    crm_mirror(line).output().unwrap()
}

#[test]
fn help_and_version_succeed_and_a_typo_is_a_usage_error() {
    for line in ["--help", "--version", "help init", "init --help"] {
        let output = run(line);
        assert_eq!(output.status.code(), Some(0), "{line}");
        assert!(!output.stdout.is_empty() && output.stderr.is_empty(), "{line}");
    }
    for line in ["", "syncc", "init --no-such-flag"] {
        let output = run(line);
        assert_eq!(output.status.code(), Some(2), "{line}");
        assert!(output.stdout.is_empty() && !output.stderr.is_empty(), "{line}");
    }
}

#[test]
fn closed_stdout_ends_the_program_silently() {
    for line in ["init --stdout", "completions zsh", "man", "--help"] {
        let mut child = crm_mirror(line).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        drop(child.stdout.take());
        let output = child.wait_with_output().unwrap();
        assert_eq!(output.status.code(), Some(0), "{line}");
        assert!(output.stderr.is_empty(), "{line}: {}", String::from_utf8_lossy(&output.stderr));
    }
}

#[test]
fn full_stdout_is_named() {
    for line in ["init --stdout", "completions zsh", "man"] {
        let full = std::fs::File::options().write(true).open("/dev/full").unwrap();
        let output = crm_mirror(line).stdout(full).output().unwrap();
        let message = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(74), "{line}: {message}");
        assert!(message.starts_with("error: could not write to stdout: "), "{line}: {message}");
    }
}

#[test]
fn configuration_fits_a_terminal() {
    for line in ["init --stdout", "init --stdout --full", "init --stdout --base-url http://127.0.0.1:8080/v1"] {
        let written = crm_mirror(line).output().unwrap();
        for line in String::from_utf8(written.stdout).unwrap().lines() {
            assert!(line.chars().count() <= 80, "{line}");
        }
    }
}

#[test]
fn init_writes_a_file_once() {
    let dir = tempfile::tempdir().unwrap();
    let init = || crm_mirror("init").current_dir(dir.path()).output().unwrap();
    assert_eq!(init().status.code(), Some(0));
    let again = init();
    assert_eq!(again.status.code(), Some(74));
    let message = String::from_utf8(again.stderr).unwrap();
    assert!(message.starts_with("error: could not write ./crm-mirror.toml: "), "{message}");
    assert!(message.ends_with("hint: remove it first, or name another file\n"), "{message}");
}
