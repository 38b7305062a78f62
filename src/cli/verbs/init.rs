//! `crm-mirror init`: writes the configuration file.

use std::fs::OpenOptions;
use std::io::{self, Write};
use std::os::unix::fs::{OpenOptionsExt, fchown};
use std::path::{Path, PathBuf};

use serde_json::json;

use crate::api::BaseUrl;
use crate::cli::identity::{self, Owner};
use crate::cli::{Failure, output};
use crate::config::{DEFAULT_TOML, ServiceUnit, Sources, unit};
use crate::exit::Exit;
use crate::format::shell_word;

/// Not world-readable: the file may contain the path of the key and the workspace's address.
const MODE: u32 = 0o640;

/// Where `init` expects the key, beside the configuration.
const KEY_FILE: &str = "api-key";

#[derive(clap::Args, Clone, Debug)]
#[command(after_help = "Example:\n  crm-mirror init --base-url https://api.example.com/v1\n  \
                        crm-mirror init --full --stdout | less")]
pub struct InitArgs {
    /// The file to write.
    #[arg(default_value = "./crm-mirror.toml", value_name = "FILE")]
    path: PathBuf,
    /// The address of the service, ending in /v1.
    #[arg(long, value_name = "URL")]
    base_url: Option<BaseUrl>,
    /// The file that holds the API key [default: api-key, beside FILE].
    #[arg(long, value_name = "FILE")]
    key_file: Option<PathBuf>,
    /// Write every setting with its meaning and default.
    #[arg(long)]
    full: bool,
    /// Print it instead of writing it.
    #[arg(long)]
    stdout: bool,
}

pub fn run(args: &InitArgs) -> Result<Exit, Failure> {
    let unit = unit::of_file(&args.path);
    let key = key_file(args, unit.as_ref());
    let text = text(args, key.as_deref(), unit.as_ref());
    if args.stdout {
        return Ok(output::text(&text)?);
    }
    identity::take(&args.path)?;
    write(&args.path, &text, unit.as_ref()).map_err(|source| {
        let exists = source.kind() == io::ErrorKind::AlreadyExists;
        let message = format!("could not write {}: {source}", args.path.display());
        Failure::hinted(Exit::Storage, exists.then_some("remove it first, or name another file"), message)
    })?;
    Ok(output::text(&next_steps(args, key.as_deref(), unit.as_ref()))?)
}

/// The key's file as the configuration names it: relative to the configuration. `None` where the unit loads the key.
fn key_file(args: &InitArgs, unit: Option<&ServiceUnit>) -> Option<PathBuf> {
    let Some(named) = &args.key_file else {
        return unit.is_none().then(|| KEY_FILE.into());
    };
    let folder = args.path.parent().unwrap_or(Path::new(""));
    let here = matches!(folder.as_os_str().as_encoded_bytes(), b"" | b".");
    if here { Some(named.clone()) } else { std::path::absolute(named).ok() }
}

/// The default file with what is known already; without `--full`, of it the settings that most people change.
fn text(args: &InitArgs, key: Option<&Path>, unit: Option<&ServiceUnit>) -> String {
    const MEANT: [&str; 4] = ["[api]", "# The file that holds the API key", "[database]", "[budget]"];
    const HEAD: &str = "# `crm-mirror init --full --stdout` prints every setting with its meaning and\n# default.";
    // The mirror of a unit follows its StateDirectory.
    let has_path = unit.is_none() && !args.full;
    let known = [
        ("base_url = ", args.base_url.as_ref().map(|url| url.as_str().to_string())),
        ("key_file = ", key.map(|key| key.to_string_lossy().into_owned())),
        ("path = ", has_path.then(|| "mirror.db".to_string())),
    ];
    let parts = DEFAULT_TOML.split("\n\n").filter(|part| MEANT.iter().any(|begins| part.starts_with(begins)));
    let short: Vec<&str> = std::iter::once(HEAD).chain(parts).collect();
    let whole = if args.full { DEFAULT_TOML.into() } else { short.join("\n\n") };
    let line = |line: &str| {
        let set = known.iter().find(|(key, value)| line.starts_with(&format!("#{key}")) && value.is_some());
        // A TOML string: what JSON escapes, TOML escapes alike.
        let set = set.and_then(|(key, value)| Some(format!("{key}{}", json!(value.as_ref()?))));
        set.unwrap_or_else(|| line.to_string()) + "\n"
    };
    whole.lines().map(line).collect()
}

fn next_steps(args: &InitArgs, key: Option<&Path>, unit: Option<&ServiceUnit>) -> String {
    let path = args.path.display();
    let of_unit = || unit.and_then(|unit| Some(unit.credential.as_ref()?.path.clone()));
    let place = key.map(|key| args.path.with_file_name(key)).or_else(of_unit);
    let key = match place {
        Some(place) if place.exists() => String::new(),
        Some(place) => format!("put the API key into {}, then ", place.display()),
        None => "put the API key into the unit's credential, then ".into(),
    };
    let url = if args.base_url.is_none() { "set `api.base_url` in it, then " } else { "" };
    let found = Sources::of_process(None, Vec::new()).main_file().canonicalize().ok();
    let is_found = found.is_some() && found == args.path.canonicalize().ok();
    let option = if is_found { String::new() } else { format!("-c {} ", shell_word(&path.to_string())) };
    format!("wrote {path}\nnext: {url}{key}run `crm-mirror {option}check`")
}

/// A file for a unit gets the unit's group, which must read it.
fn write(path: &Path, text: &str, unit: Option<&ServiceUnit>) -> io::Result<()> {
    let mut file = OpenOptions::new().write(true).create_new(true).mode(MODE).open(path)?;
    fchown(&file, None, unit.and_then(|unit| Owner::named(&unit.user)).map(|owner| owner.group))?;
    file.write_all(text.as_bytes())?;
    file.sync_all()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{Config, Environment, SecretPlace, Sources};
    use std::fs;
    use std::os::unix::fs::PermissionsExt;

    fn args(path: PathBuf) -> InitArgs {
        let base_url = Some("https://api.example.com/v1/".parse().unwrap());
        InitArgs { path, base_url, key_file: None, full: false, stdout: false }
    }

    #[test]
    fn written_file_is_a_configuration_with_address_key_and_mirror() {
        for full in [false, true] {
            let dir = tempfile::tempdir().unwrap();
            let path = dir.path().join("c.toml");
            run(&InitArgs { full, ..args(path.clone()) }).unwrap();
            let mode = fs::metadata(&path).unwrap().permissions().mode();
            assert_eq!(mode & 0o137, 0, "{mode:o}");
            let lines = fs::read_to_string(&path).unwrap().lines().count();
            assert_eq!(full, lines > 30, "{lines}");
            let config = Config::load(&Sources {
                file: Some(path),
                default_file: dir.path().join("none"),
                environment: Environment::default(),
                flags: Vec::new(),
            });
            let config = config.unwrap();
            assert_eq!(config.api.base_url.as_ref().unwrap().as_str(), "https://api.example.com/v1");
            assert_eq!(config.database, dir.path().join("mirror.db"));
            assert_eq!(config.key.place, SecretPlace::File(dir.path().join("api-key")));
        }
    }

    #[test]
    fn key_file_is_named_as_the_configuration_finds_it() {
        let key = |path: &str, named: &str| {
            key_file(&InitArgs { key_file: Some(named.into()), ..args(path.into()) }, None).unwrap()
        };
        assert_eq!(key("./crm-mirror.toml", "k"), Path::new("k"));
        assert_eq!(key("sub/c.toml", "k"), std::env::current_dir().unwrap().join("k"));
        assert_eq!(key("sub/c.toml", "/etc/k"), Path::new("/etc/k"));
    }

    #[test]
    fn existing_file_is_kept() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("c.toml");
        fs::write(&path, "mine").unwrap();
        let failure = run(&args(path.clone())).unwrap_err();
        assert_eq!(failure.exit(), Exit::Storage);
        assert!(failure.text().contains("hint: remove it first"), "{}", failure.text());
        assert_eq!(fs::read_to_string(&path).unwrap(), "mine");
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
    }
}
