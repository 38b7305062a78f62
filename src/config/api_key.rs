//! Finds the API key, and reads it when it is needed.

use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::process::Command;

use secrecy::{ExposeSecret, SecretString};

use super::error::ConfigError;
use super::sources::{API_KEY, Environment};
use super::unit::{self, ServiceUnit, UnitCredential};
use crate::api::ApiKey;
use crate::regular_file;

/// The name of the systemd credential.
const CREDENTIAL: &str = "api-key";
/// A longer file cannot be a key file.
const MAX_FILE: u64 = 64 * 1024;

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum KeyPlace {
    /// In this variable, which overrides the named file, if there is one.
    Variable {
        name: &'static str,
        instead_of: Option<PathBuf>,
    },
    File(PathBuf),
    /// In the credential that systemd passes to the unit; systemd controls who can read it.
    Credential(PathBuf),
    /// In the credential that this unit loads.
    Unit(ServiceUnit),
    Nowhere,
}

#[derive(Clone, Debug)]
pub(super) enum KeySource {
    /// In the environment, which overrides every file.
    Variable(SecretString, Option<PathBuf>),
    File(PathBuf),
    /// In a file of systemd.
    Credential(PathBuf),
    /// The key's location according to the unit that reads this configuration file, if there is such a unit. Looked up
    /// on demand.
    Unit(PathBuf),
    /// Already read, from this place.
    Held(ApiKey, KeyPlace),
}

impl KeySource {
    /// The environment, else the named file, else the systemd credential if there is one, else the credential of the
    /// unit that reads this configuration file.
    pub(super) fn find(env: &Environment, key_file: Option<PathBuf>, configuration: PathBuf) -> KeySource {
        if let Some(key) = env.get(API_KEY.variable) {
            return KeySource::Variable(SecretString::from(key), key_file);
        }
        let credential = || {
            let path = env.directory("CREDENTIALS_DIRECTORY")?.join(CREDENTIAL);
            path.exists().then_some(KeySource::Credential(path))
        };
        key_file.map(KeySource::File).or_else(credential).unwrap_or(KeySource::Unit(configuration))
    }

    pub(super) fn place(&self) -> KeyPlace {
        match self {
            KeySource::Variable(_, file) => KeyPlace::Variable { name: API_KEY.variable, instead_of: file.clone() },
            KeySource::File(path) => KeyPlace::File(path.clone()),
            KeySource::Credential(path) => KeyPlace::Credential(path.clone()),
            KeySource::Unit(file) => unit_with_key(file).map_or(KeyPlace::Nowhere, |(unit, _)| KeyPlace::Unit(unit)),
            KeySource::Held(_, place) => place.clone(),
        }
    }

    /// Reads the key now, if that is possible: later the process may not be allowed to.
    pub(super) fn hold(&mut self) {
        if let Ok(key) = self.read() {
            *self = KeySource::Held(key, self.place());
        }
    }

    /// Reads the key and removes white space around it, such as a final newline.
    pub(super) fn read(&self) -> Result<ApiKey, ConfigError> {
        let (text, place) = match self {
            KeySource::Held(key, _) => return Ok(key.clone()),
            KeySource::Unit(file) => {
                let (_, credential) = unit_with_key(file).ok_or(ConfigError::NoKey)?;
                let path = credential.path().to_path_buf();
                let text = match &credential {
                    UnitCredential::Plain(path) => read_file(path),
                    UnitCredential::Encrypted(path) => decrypt(path),
                };
                (
                    text.map_err(|source| ConfigError::KeyFile { path: path.clone(), source })?,
                    path.display().to_string(),
                )
            }
            KeySource::Variable(key, _) => (key.clone(), API_KEY.variable.to_string()),
            KeySource::File(path) | KeySource::Credential(path) => {
                let text = read_file(path).map_err(|source| ConfigError::KeyFile { path: path.clone(), source })?;
                (text, path.display().to_string())
            }
        };
        ApiKey::new(text.expose_secret().trim()).map_err(|source| ConfigError::BadKey { place, source })
    }
}

fn unit_with_key(configuration: &Path) -> Option<(ServiceUnit, UnitCredential)> {
    let unit = unit::of_file(configuration)?;
    let credential = unit.credential.clone()?;
    Some((unit, credential))
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
