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
    url: UrlSource,
}

#[derive(Clone, Debug)]
enum UrlSource {
    Variable(SecretString),
    File(PathBuf),
    /// Already read from the file.
    Held(SecretString, PathBuf),
    Nowhere,
}

impl PublishConfig {
    pub(super) fn new(section: PublishSection, unmirrored: &[String], env: &Environment) -> PublishConfig {
        let url = match (env.get(PUBLISH_URL.variable), section.url_file) {
            (Some(url), _) => UrlSource::Variable(SecretString::from(url)),
            (None, Some(path)) => UrlSource::File(path),
            (None, None) => UrlSource::Nowhere,
        };
        // What is not mirrored any more is withdrawn where it was published.
        let exclude = section.exclude.into_iter().chain(unmirrored.iter().cloned()).collect();
        PublishConfig { schema: section.schema, objects: section.objects, exclude, url }
    }

    pub fn is_on(&self) -> bool {
        !matches!(self.url, UrlSource::Nowhere)
    }

    pub fn url_file(&self) -> Option<&Path> {
        match &self.url {
            UrlSource::File(path) | UrlSource::Held(_, path) => Some(path),
            UrlSource::Variable(_) | UrlSource::Nowhere => None,
        }
    }

    /// Reads the URL now, if that is possible.
    pub(super) fn hold(&mut self) {
        if let (UrlSource::File(path), Ok(url)) = (&self.url, self.url()) {
            self.url = UrlSource::Held(url, path.clone());
        }
    }

    pub fn url(&self) -> Result<SecretString, ConfigError> {
        let text = match &self.url {
            UrlSource::Nowhere => return Err(ConfigError::NoPublishUrl),
            UrlSource::Variable(text) | UrlSource::Held(text, _) => text.clone(),
            UrlSource::File(path) => {
                api_key::read_file(path).map_err(|source| ConfigError::PublishUrlFile { path: path.clone(), source })?
            }
        };
        Ok(SecretString::from(text.expose_secret().trim()))
    }
}
