//! Finds the API key, and reads it when it is needed.

use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::process::Command;

use secrecy::{ExposeSecret, SecretString};

use super::error::ConfigError;
use super::sources::{API_KEY, Environment};
use super::unit::{self, UnitCredential};
use crate::api::ApiKey;
use crate::regular_file;

const CREDENTIAL: &str = "api-key";
/// A longer file cannot be a key file.
const MAX_FILE: u64 = 64 * 1024;

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum KeyPlace {
    Variable {
        instead_of: Option<PathBuf>,
    },
    File(PathBuf),
    /// In the credential that systemd passes to the unit; systemd controls who can read it.
    Credential(PathBuf),
    /// In the credential that the unit of this name loads, since it reads this configuration file.
    Unit(String, UnitCredential),
    Nowhere,
}

impl KeyPlace {
    pub const VARIABLE: &str = API_KEY;

    pub fn path(&self) -> Option<&Path> {
        match self {
            KeyPlace::File(path) | KeyPlace::Credential(path) => Some(path),
            KeyPlace::Unit(_, credential) => Some(&credential.path),
            KeyPlace::Variable { .. } | KeyPlace::Nowhere => None,
        }
    }
}

#[derive(Clone, Debug)]
pub(super) struct KeySource {
    pub place: KeyPlace,
    text: Option<SecretString>,
}

impl KeySource {
    /// The environment, else the named file, else the systemd credential if there is one, else the credential of the
    /// unit that reads this configuration file.
    pub(super) fn find(env: &Environment, key_file: Option<PathBuf>, configuration: &Path) -> KeySource {
        let text = env.get(API_KEY).map(SecretString::from);
        let credential = || {
            let path = env.directory("CREDENTIALS_DIRECTORY")?.join(CREDENTIAL);
            path.exists().then_some(KeyPlace::Credential(path))
        };
        let of_unit = || {
            let unit = unit::of_file(configuration)?;
            Some(KeyPlace::Unit(unit.name, unit.credential?))
        };
        let place = match (&text, key_file) {
            (Some(_), file) => KeyPlace::Variable { instead_of: file },
            (None, Some(file)) => KeyPlace::File(file),
            (None, None) => credential().or_else(of_unit).unwrap_or(KeyPlace::Nowhere),
        };
        KeySource { place, text }
    }

    /// Reads the key now, if that is possible: later the process may not be allowed to.
    pub(super) fn hold(&mut self) {
        self.text = self.text().ok();
    }

    fn text(&self) -> Result<SecretString, ConfigError> {
        if let Some(text) = &self.text {
            return Ok(text.clone());
        }
        let path = self.place.path().ok_or(ConfigError::NoKey)?;
        let text = match &self.place {
            KeyPlace::Unit(_, credential) if credential.is_encrypted => decrypt(path),
            _ => read_file(path),
        };
        text.map_err(|source| ConfigError::KeyFile { path: path.to_path_buf(), source })
    }

    /// Reads the key and removes white space around it, such as a final newline.
    pub(super) fn read(&self) -> Result<ApiKey, ConfigError> {
        ApiKey::new(self.text()?.expose_secret().trim()).map_err(|source| {
            let path = self.place.path().map(|path| path.display().to_string());
            ConfigError::BadKey { place: path.unwrap_or_else(|| API_KEY.into()), source }
        })
    }
}

/// Only root on this machine can decrypt it, as systemd does for the unit.
fn decrypt(path: &Path) -> io::Result<SecretString> {
    let name = format!("--name={CREDENTIAL}");
    let output = Command::new("systemd-creds").args(["decrypt", &name]).arg(path).arg("-").output()?;
    if !output.status.success() {
        return Err(io::Error::other(String::from_utf8_lossy(&output.stderr).trim().to_string()));
    }
    String::from_utf8(output.stdout).map(SecretString::from).map_err(|_| io::Error::other("it is not text"))
}

pub(super) fn read_file(path: &Path) -> io::Result<SecretString> {
    let mut text = String::new();
    regular_file::open(path)?.take(MAX_FILE).read_to_string(&mut text)?;
    Ok(SecretString::from(text))
}
