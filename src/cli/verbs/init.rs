//! `crm-mirror init`: writes the commented configuration file.

use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use crate::api::BaseUrl;
use crate::cli::Failure;
use crate::cli::ui::output;
use crate::config::DEFAULT_TOML;
use crate::exit::Exit;

/// Not world-readable: the file may contain the path of the key and the workspace's address.
const MODE: u32 = 0o640;

/// Write a commented configuration file.
#[derive(clap::Args, Clone, Debug)]
#[command(after_help = "Example:\n  crm-mirror init --base-url https://api.example.com/v1\n  \
                        crm-mirror init --stdout | less")]
pub struct InitArgs {
    /// The file to write.
    #[arg(default_value = "./crm-mirror.toml", value_name = "FILE")]
    path: PathBuf,
    /// The address of the service, ending in /v1.
    #[arg(long, value_name = "URL")]
    base_url: Option<BaseUrl>,
    /// Replace the file if it exists.
    #[arg(long)]
    force: bool,
    /// Print it instead of writing it.
    #[arg(long, conflicts_with = "force")]
    stdout: bool,
}

/// Runs the verb.
///
/// # Errors
/// Returns an error if the file exists, or cannot be written.
pub fn run(args: &InitArgs) -> Result<Exit, Failure> {
    let text = text(args.base_url.as_ref());
    if args.stdout {
        output::text(&text)?;
        return Ok(Exit::Done);
    }
    write(&args.path, &text, args.force).map_err(|e| failed(&args.path, e))?;
    let path = args.path.display();
    output::text(&format!(
        "wrote {path}\nnext: put the API key in a file and set `api.key_file` to it, \
         then run `crm-mirror check --config {path}`"
    ))?;
    Ok(Exit::Done)
}

fn text(base_url: Option<&BaseUrl>) -> String {
    match base_url {
        None => DEFAULT_TOML.to_string(),
        Some(url) => DEFAULT_TOML
            .lines()
            .map(|line| {
                if line.starts_with("#base_url = ") {
                    // A URL is ASCII without quotes or backslashes, so it needs no escaping in TOML.
                    format!("base_url = \"{url}\"\n")
                } else {
                    format!("{line}\n")
                }
            })
            .collect(),
    }
}

fn write(path: &Path, text: &str, force: bool) -> io::Result<()> {
    if !force {
        return fill(path, text);
    }
    // Written to a temporary file first: a full disk must not destroy the old file.
    let mut beside = path.as_os_str().to_owned();
    beside.push(format!(".{}.new", std::process::id()));
    let beside = PathBuf::from(beside);
    let written = fill(&beside, text).and_then(|()| fs::rename(&beside, path));
    if written.is_err() {
        let _ = fs::remove_file(&beside);
    }
    written
}

fn fill(path: &Path, text: &str) -> io::Result<()> {
    let mut file = OpenOptions::new().write(true).create_new(true).mode(MODE).open(path)?;
    file.write_all(text.as_bytes())?;
    file.sync_all()
}

#[derive(Debug, thiserror::Error)]
#[error("could not write {path}")]
struct NotWritten {
    path: String,
    source: io::Error,
}

fn failed(path: &Path, source: io::Error) -> Failure {
    let exists = source.kind() == io::ErrorKind::AlreadyExists;
    let path = path.display().to_string();
    let failure = Failure::new(Exit::Storage, NotWritten { path, source });
    if exists { failure.hint("`--force` replaces it") } else { failure }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{Config, Environment, Sources};
    use std::os::unix::fs::PermissionsExt;

    fn args(path: PathBuf, force: bool) -> InitArgs {
        InitArgs { path, base_url: Some("https://api.example.com/v1/".parse().unwrap()), force, stdout: false }
    }

    #[test]
    fn written_file_is_a_configuration_with_the_address() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("c.toml");
        run(&args(path.clone(), false)).unwrap();
        let mode = fs::metadata(&path).unwrap().permissions().mode();
        assert_eq!(mode & 0o137, 0, "{mode:o}");
        let config = Config::load(&Sources {
            file: Some(path),
            default_file: dir.path().join("none"),
            environment: Environment::default(),
            flags: Vec::new(),
        });
        assert_eq!(config.unwrap().base_url().unwrap().as_str(), "https://api.example.com/v1");
    }

    #[test]
    fn existing_file_is_kept_without_force() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("c.toml");
        fs::write(&path, "mine").unwrap();
        let failure = run(&args(path.clone(), false)).unwrap_err();
        assert_eq!(failure.exit(), Exit::Storage);
        assert!(failure.text().contains("hint: `--force` replaces it"), "{}", failure.text());
        assert_eq!(fs::read_to_string(&path).unwrap(), "mine");
        run(&args(path.clone(), true)).unwrap();
        assert!(fs::read_to_string(&path).unwrap().contains("\nbase_url = \"https://api.example.com/v1\"\n"));
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
    }
}
