//! Where the API key is, and reading it when it is needed.

use std::fs::File;
use std::io::{self, Read};
use std::path::PathBuf;

use secrecy::{ExposeSecret, SecretString};

use super::error::ConfigError;
use super::sources::{API_KEY, Environment};
use crate::api::ApiKey;

/// The name of the systemd credential.
const CREDENTIAL: &str = "api-key";
/// No key is longer: a file beyond this is some other file.
const LONGEST_FILE: u64 = 64 * 1024;

/// Where the key is, for a person.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum KeyPlace {
    /// In this variable, which wins over the file that is named too, if there is one.
    Variable {
        /// The variable.
        name: &'static str,
        /// The file that is not read.
        instead_of: Option<PathBuf>,
    },
    /// In this file.
    File(PathBuf),
    /// In the credential that systemd made for the unit: who may read it is systemd's to say.
    Credential(PathBuf),
    /// Nowhere.
    Nowhere,
}

/// Where the key is.
#[derive(Clone, Debug)]
pub(super) enum KeySource {
    /// In the environment; it wins over every file.
    Variable(SecretString, Option<PathBuf>),
    /// In a file of its own.
    File(PathBuf),
    /// In a file of systemd's.
    Credential(PathBuf),
    /// Nowhere.
    Nowhere,
}

impl KeySource {
    /// The environment, else the file named, else the systemd credential if there is one.
    pub fn find(env: &Environment, key_file: Option<PathBuf>) -> KeySource {
        if let Some(key) = env.get(API_KEY.variable) {
            return KeySource::Variable(SecretString::from(key), key_file);
        }
        let credential = || {
            let path = env.directory("CREDENTIALS_DIRECTORY")?.join(CREDENTIAL);
            path.exists().then_some(KeySource::Credential(path))
        };
        key_file.map(KeySource::File).or_else(credential).unwrap_or(KeySource::Nowhere)
    }

    /// Where it is, without the key.
    pub fn place(&self) -> KeyPlace {
        match self {
            KeySource::Variable(_, file) => KeyPlace::Variable { name: API_KEY.variable, instead_of: file.clone() },
            KeySource::File(path) => KeyPlace::File(path.clone()),
            KeySource::Credential(path) => KeyPlace::Credential(path.clone()),
            KeySource::Nowhere => KeyPlace::Nowhere,
        }
    }

    /// Reads the key. White space around it, such as the newline of an editor, is not part of it.
    pub fn read(&self) -> Result<ApiKey, ConfigError> {
        let (text, place) = match self {
            KeySource::Nowhere => return Err(ConfigError::NoKey),
            KeySource::Variable(key, _) => (key.clone(), API_KEY.variable.to_string()),
            KeySource::File(path) | KeySource::Credential(path) => {
                let text = read_file(path).map_err(|source| ConfigError::KeyFile { path: path.clone(), source })?;
                (text, path.display().to_string())
            }
        };
        ApiKey::new(text.expose_secret().trim()).map_err(|source| ConfigError::BadKey { place, source })
    }
}

pub(super) fn read_file(path: &PathBuf) -> io::Result<SecretString> {
    let mut text = String::new();
    File::open(path)?.take(LONGEST_FILE).read_to_string(&mut text)?;
    Ok(SecretString::from(text))
}
