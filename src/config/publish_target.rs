//! `[publish]`: the database to publish to, and what is published.
//!
//! The URL contains a password. Like the API key it passes through no layer and is read only when it is needed.

use std::path::{Path, PathBuf};

use secrecy::{ExposeSecret, SecretString};

use super::api_key;
use super::error::ConfigError;
use super::sections::PublishSection;
use super::sources::{Environment, PUBLISH_URL};
use crate::model::Resource;

#[derive(Clone, Debug)]
pub struct PublishConfig {
    pub schema: String,
    /// What is published; `None` for everything that is mirrored.
    pub objects: Option<Vec<Resource>>,
    /// Columns that are never published: `column`, or `table.column`.
    pub exclude: Vec<String>,
    url_file: Option<PathBuf>,
    /// The URL, if it is in the environment or was read already.
    url: Option<SecretString>,
}

impl PublishConfig {
    pub(super) fn new(section: PublishSection, unmirrored: &[String], env: &Environment) -> PublishConfig {
        let url = env.get(PUBLISH_URL.variable).map(SecretString::from);
        let url_file = section.url_file.filter(|_| url.is_none());
        // What is not mirrored any more is withdrawn where it was published.
        let exclude = section.exclude.into_iter().chain(unmirrored.iter().cloned()).collect();
        PublishConfig { schema: section.schema, objects: section.objects, exclude, url_file, url }
    }

    pub fn is_on(&self) -> bool {
        self.url.is_some() || self.url_file.is_some()
    }

    pub fn url_file(&self) -> Option<&Path> {
        self.url_file.as_deref()
    }

    /// Reads the URL now, if that is possible.
    pub(super) fn hold(&mut self) {
        self.url = self.url().ok();
    }

    pub fn url(&self) -> Result<SecretString, ConfigError> {
        let text = match (&self.url, &self.url_file) {
            (Some(text), _) => text.clone(),
            (None, Some(path)) => {
                api_key::read_file(path).map_err(|source| ConfigError::PublishUrlFile { path: path.clone(), source })?
            }
            (None, None) => return Err(ConfigError::NoPublishUrl),
        };
        Ok(SecretString::from(text.expose_secret().trim()))
    }
}
