//! The secrets: finds each one, and reads it when it is needed. They pass through no layer.

use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::process::Command;

use secrecy::{ExposeSecret, SecretString};

use super::error::ConfigError;
use super::sources::{API_KEY, Environment};
use super::unit::{ServiceUnit, UnitCredential};
use crate::regular_file;

const CREDENTIAL: &str = "api-key";
/// A longer file cannot be one of a secret.
const MAX_FILE: u64 = 64 * 1024;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum SecretPlace {
    Variable,
    /// The file that a setting names, or the credential that systemd passes to the unit.
    File(PathBuf),
    /// In the credential that the unit of this name loads, since it reads this configuration file.
    Unit(String, UnitCredential),
    #[default]
    Nowhere,
}

impl SecretPlace {
    pub fn path(&self) -> Option<&Path> {
        match self {
            SecretPlace::File(path) => Some(path),
            SecretPlace::Unit(_, credential) => Some(&credential.path),
            SecretPlace::Variable | SecretPlace::Nowhere => None,
        }
    }
}

#[derive(Clone, Debug, Default)]
pub struct Secret {
    pub place: SecretPlace,
    text: Option<SecretString>,
}

impl Secret {
    /// The variable of the environment, else the named file.
    pub(super) fn find(env: &Environment, variable: &str, file: Option<PathBuf>) -> Secret {
        let text = env.get(variable).map(SecretString::from);
        let in_file = file.map_or(SecretPlace::Nowhere, SecretPlace::File);
        Secret { place: if text.is_some() { SecretPlace::Variable } else { in_file }, text }
    }

    /// The API key: else the systemd credential, else the credential of the unit that reads this configuration file.
    pub(super) fn find_key(env: &Environment, key_file: Option<PathBuf>, unit: Option<&ServiceUnit>) -> Secret {
        let credential = env.directory("CREDENTIALS_DIRECTORY").map(|folder| folder.join(CREDENTIAL));
        let mut key = Secret::find(env, API_KEY, key_file.or(credential.filter(|path| path.exists())));
        if let (SecretPlace::Nowhere, Some(unit)) = (&key.place, unit)
            && let Some(credential) = &unit.credential
        {
            key.place = SecretPlace::Unit(unit.name.clone(), credential.clone());
        }
        key
    }

    /// Reads it now if it can: later the process may not be allowed to. An error is reported when the secret is needed.
    pub(super) fn hold(&mut self, as_unit: bool) {
        if !as_unit || matches!(self.place, SecretPlace::Unit(..)) {
            self.text = self.read(ConfigError::NoKey).ok();
        }
    }

    /// The text without white space around it, such as a final newline. `missing` is the error if it is nowhere.
    pub(super) fn read(&self, missing: ConfigError) -> Result<SecretString, ConfigError> {
        let trimmed = |text: &SecretString| SecretString::from(text.expose_secret().trim());
        if let Some(text) = &self.text {
            return Ok(trimmed(text));
        }
        let path = self.place.path().ok_or(missing)?;
        let text = match &self.place {
            SecretPlace::Unit(_, credential) if credential.is_encrypted => decrypt(path),
            _ => read_file(path),
        };
        text.map(|text| trimmed(&text)).map_err(|source| ConfigError::SecretFile { path: path.to_path_buf(), source })
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

fn read_file(path: &Path) -> io::Result<SecretString> {
    let mut text = String::new();
    regular_file::open(path)?.take(MAX_FILE).read_to_string(&mut text)?;
    Ok(SecretString::from(text))
}
