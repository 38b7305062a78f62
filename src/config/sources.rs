//! The sources of the configuration: the file, the environment, the flags.

use std::collections::BTreeMap;
use std::io::{self, ErrorKind, Read as _};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use super::error::ConfigError;
use crate::regular_file;

pub(super) const PREFIX: &str = "CRM_MIRROR_";
const DEFAULT_FILE: &str = "/etc/crm-mirror/config.toml";
/// The file of the current directory, which precedes the default file. `crm-mirror init` writes it.
pub const LOCAL_FILE: &str = "crm-mirror.toml";

pub(super) const API_KEY: &str = "CRM_MIRROR_API__KEY";
pub(super) const PUBLISH_URL: &str = "CRM_MIRROR_PUBLISH__URL";

/// The secret settings: each key, which is not allowed in files, and its variable. They enter no layer.
pub(super) const SECRETS: [(&str, &str); 2] = [("api.key", API_KEY), ("publish.url", PUBLISH_URL)];

/// The environment, as an argument. It may contain secrets, so it does not implement `Debug`.
#[derive(Clone, Default)]
pub struct Environment(BTreeMap<String, String>);

impl Environment {
    pub fn of_process() -> Environment {
        let text = |t: std::ffi::OsString| t.to_string_lossy().into_owned();
        std::env::vars_os().map(|(name, value)| (text(name), text(value))).collect()
    }

    pub fn get(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(String::as_str)
    }

    /// The variables that are settings, without secrets.
    pub fn values(&self) -> impl Iterator<Item = (&str, &str)> {
        let is_secret = |name: &str| SECRETS.iter().any(|(_, variable)| *variable == name);
        let variables = self.0.iter().map(|(name, value)| (name.as_str(), value.as_str()));
        variables.filter(move |(name, _)| name.starts_with(PREFIX) && !is_secret(name))
    }

    pub(super) fn directory(&self, name: &str) -> Option<PathBuf> {
        let first = self.get(name)?.split(':').next()?;
        (!first.is_empty()).then(|| PathBuf::from(first))
    }
}

impl<N: Into<String>, V: Into<String>> FromIterator<(N, V)> for Environment {
    fn from_iter<I: IntoIterator<Item = (N, V)>>(variables: I) -> Environment {
        Environment(variables.into_iter().map(|(n, v)| (n.into(), v.into())).collect())
    }
}

#[derive(Clone, Default)]
pub struct Sources {
    pub file: Option<PathBuf>,
    /// The file that is read if none was named and it exists.
    pub default_file: PathBuf,
    pub environment: Environment,
    /// Values of flags: key, such as `log.level`, and text.
    pub flags: Vec<(&'static str, String)>,
}

impl Sources {
    pub fn of_process(file: Option<PathBuf>, flags: Vec<(&'static str, String)>) -> Sources {
        // Also a broken link: another file in its place would be another mirror.
        let is_here = Path::new(LOCAL_FILE).symlink_metadata().is_ok();
        let default_file = if is_here { LOCAL_FILE } else { DEFAULT_FILE }.into();
        Sources { file, default_file, environment: Environment::of_process(), flags }
    }

    pub fn is_local(&self) -> bool {
        self.file.is_none() && self.default_file == Path::new(LOCAL_FILE)
    }

    pub fn main_file(&self) -> &Path {
        self.file.as_ref().unwrap_or(&self.default_file)
    }

    /// The file with its text; `None` if none was named and there is none.
    pub fn read(&self) -> Result<Option<(&Path, String)>, ConfigError> {
        let file = self.main_file();
        let text = if self.is_local() {
            read_found(file)
        } else {
            std::fs::read_to_string(file).map_err(|source| ConfigError::File { path: file.into(), source })
        };
        match text {
            Err(ConfigError::File { source, .. }) if source.kind() == ErrorKind::NotFound && self.file.is_none() => {
                Ok(None)
            }
            text => text.map(|text| Some((file, text))),
        }
    }
}

/// Reads a file that was found and not named, which could be a trap in a directory of another user: it decides which commands
/// and addresses are used. A link of another user is one, too, wherever it leads.
fn read_found(path: &Path) -> Result<String, ConfigError> {
    let failed = |source| ConfigError::File { path: path.into(), source };
    let mut file = regular_file::open(path).map_err(failed)?;
    let own = rustix::process::getuid().as_raw();
    for found in [path.symlink_metadata(), file.metadata()] {
        let owner = found.map_err(failed)?.uid();
        if owner != own && owner != 0 {
            return Err(ConfigError::ForeignFile { path: path.into() });
        }
    }
    let mut text = String::new();
    file.read_to_string(&mut text).map_err(failed)?;
    Ok(text)
}

/// The configuration files of a directory, by name.
pub fn files_in(directory: &Path) -> io::Result<Vec<PathBuf>> {
    let paths = std::fs::read_dir(directory)?.map(|entry| Ok(entry?.path()));
    let mut paths: Vec<PathBuf> = paths.collect::<io::Result<_>>()?;
    let is_hidden = |path: &Path| path.file_name().is_some_and(|name| name.as_encoded_bytes().starts_with(b"."));
    paths.retain(|path| path.extension().is_some_and(|extension| extension == "toml") && !is_hidden(path));
    paths.sort();
    Ok(paths)
}
