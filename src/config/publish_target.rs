//! `[publish]`: where the mirror is published to, and what of it.
//!
//! The URL holds a password. Like the API key it passes through no layer and is read only when it is needed.

use std::path::PathBuf;

use secrecy::{ExposeSecret, SecretString};

use super::api_key;
use super::error::ConfigError;
use super::layers::{Environment, Layers, PUBLISH_VARIABLE};
use crate::model::Resource;

/// `[publish]`.
#[derive(Clone, Debug)]
pub struct PublishConfig {
    /// The schema that the tables are in.
    pub schema: String,
    /// What is published; `None` for everything that is mirrored.
    pub objects: Option<Vec<Resource>>,
    /// Columns that never leave: `column`, or `table.column`.
    pub exclude: Vec<String>,
    url: UrlSource,
}

/// Where the URL is.
#[derive(Clone, Debug)]
enum UrlSource {
    Variable(SecretString),
    File(PathBuf),
    Nowhere,
}

impl PublishConfig {
    pub(super) fn read(layers: &Layers, env: &Environment) -> Result<PublishConfig, ConfigError> {
        let key = "publish.exclude";
        let exclude: Vec<String> =
            layers.words(key).unwrap_or_default().into_iter().filter(|w| !w.is_empty()).collect();
        if let Some(wrong) = exclude.iter().find(|name| !is_column(name)) {
            let reason =
                format!("must be a list of columns, such as [\"contacts.notes\", \"email\"]; `{wrong}` is none");
            return Err(layers.wrong(key, reason));
        }
        let key = "publish.schema";
        let schema = layers.required(key)?;
        if !is_name(&schema) || schema.len() > 63 || schema.starts_with("pg_") {
            return Err(layers.wrong(key, "must be a name of lower-case letters, digits and _, such as \"crm\""));
        }
        let url = match (env.get(PUBLISH_VARIABLE), layers.path("publish.url_file")?) {
            (Some(url), _) => UrlSource::Variable(SecretString::from(url)),
            (None, Some(path)) => UrlSource::File(path),
            (None, None) => UrlSource::Nowhere,
        };
        Ok(PublishConfig { schema, objects: layers.objects("publish.objects")?, exclude, url })
    }

    /// Whether the mirror is published.
    pub fn is_on(&self) -> bool {
        !matches!(self.url, UrlSource::Nowhere)
    }

    /// Reads the URL.
    ///
    /// # Errors
    /// [`ConfigError::NoPublishUrl`] if there is none; [`ConfigError::PublishUrlFile`] if its file cannot be read.
    pub fn url(&self) -> Result<SecretString, ConfigError> {
        let text = match &self.url {
            UrlSource::Nowhere => return Err(ConfigError::NoPublishUrl),
            UrlSource::Variable(text) => text.clone(),
            UrlSource::File(path) => {
                api_key::read_file(path).map_err(|source| ConfigError::PublishUrlFile { path: path.clone(), source })?
            }
        };
        Ok(SecretString::from(text.expose_secret().trim()))
    }
}

fn is_name(text: &str) -> bool {
    text.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_')
        && text.starts_with(|c: char| c.is_ascii_lowercase() || c == '_')
}

fn is_column(text: &str) -> bool {
    match text.split_once('.') {
        Some((table, column)) => is_name(table) && is_name(column),
        None => is_name(text),
    }
}
