//! Merges the sources with `figment`, and converts its errors.
//!
//! Values of the environment and of flags stay texts (a guess would turn the file name `0123` into a number);
//! [`super::values`] can read a number from a text. `figment` quotes the value that it rejects, which may be a
//! misplaced secret: only the key, the place and the expectation are kept of its errors.

use std::path::{Path, PathBuf};

use figment::error::Kind;
use figment::providers::{Format, Toml};
use figment::value::{Dict, Map, Value};
use figment::{Figment, Metadata, Profile, Provider, Source};

use super::DEFAULT_TOML;
use super::error::ConfigError;
use super::sections::Sections;
use super::sources::{Environment, PREFIX, SECRETS, Sources};
use crate::format::distance;

/// The name of the environment layer; the variable's name follows from the key.
const ENVIRONMENT: &str = "environment";

pub(super) fn read(sources: &Sources, files: &[(PathBuf, String)]) -> Result<Sections, ConfigError> {
    let files = files.iter().map(|(path, text)| Layer::of_file(path, text));
    let layers = files.chain([Layer::of_environment(&sources.environment)]).collect::<Result<Vec<_>, _>>()?;
    merged(layers, sources)
}

/// The settings that say where the mirror and its daemon are, of those sources that can be read; the defaults of all others.
pub(super) fn read_place(sources: &Sources) -> Result<Sections, ConfigError> {
    let files = sources.files().unwrap_or_default();
    let files = files.iter().map(|(path, text)| Layer::of_file(path, text));
    let layers = files.chain([Layer::of_environment(&sources.environment)]).flatten().map(Layer::place);
    merged(layers.collect(), sources)
}

fn merged(layers: Vec<Layer>, sources: &Sources) -> Result<Sections, ConfigError> {
    let defaults = Layer::of_toml(Metadata::named("in the built-in defaults"), DEFAULT_TOML)?;
    let flags = sources.flags.iter().map(|(key, text)| (key.to_string(), text.as_str()));
    let flags = Layer::of_texts("on the command line", flags);
    let merged = layers.into_iter().fold(Figment::new().merge(defaults), Figment::merge);
    merged.merge(flags).extract().map_err(|error| translated(&error))
}

struct Layer {
    metadata: Metadata,
    values: Dict,
}

impl Provider for Layer {
    fn metadata(&self) -> Metadata {
        self.metadata.clone()
    }

    fn data(&self) -> Result<Map<Profile, Dict>, figment::Error> {
        Ok(Map::from([(Profile::Default, self.values.clone())]))
    }
}

impl Layer {
    /// The source in the metadata makes relative paths relative to the file.
    fn of_file(path: &Path, text: &str) -> Result<Layer, ConfigError> {
        Layer::of_toml(Metadata::from(format!("in {}", path.display()), Source::File(path.into())), text)
    }

    fn place(self) -> Layer {
        let kept = [("database", "path"), ("daemon", "socket")].into_iter().filter_map(|(section, key)| {
            let value = self.values.get(section)?.as_dict()?.get(key)?;
            Some((section.to_string(), Value::from(Dict::from([(key.to_string(), value.clone())]))))
        });
        Layer { values: kept.collect(), metadata: self.metadata }
    }

    fn of_toml(metadata: Metadata, text: &str) -> Result<Layer, ConfigError> {
        let data = Toml::string(text).data().map_err(|error| ConfigError::Syntax {
            place: metadata.name.strip_prefix("in ").unwrap_or(&metadata.name).to_string(),
            reason: without_the_line(&error.to_string()),
        })?;
        Ok(Layer { values: data.into_values().next().unwrap_or_default(), metadata })
    }

    fn of_environment(environment: &Environment) -> Result<Layer, ConfigError> {
        let values = environment.values().map(|(name, text)| {
            let key = name.trim_start_matches(PREFIX).to_lowercase();
            match key.split_once("__") {
                Some((section, key)) => Ok((format!("{section}.{key}"), text)),
                None => Err(ConfigError::Unknown { key, place: format!("in the variable {name}"), meant: None }),
            }
        });
        Ok(Layer::of_texts(ENVIRONMENT, values.collect::<Result<Vec<_>, _>>()?.into_iter()))
    }

    fn of_texts<'a>(name: &'static str, texts: impl Iterator<Item = (String, &'a str)>) -> Layer {
        let mut sections: Map<String, Dict> = Map::new();
        for (path, text) in texts {
            let (section, key) = path.split_once('.').unwrap_or((&path, ""));
            sections.entry(section.into()).or_default().insert(key.into(), Value::from(text));
        }
        let values = sections.into_iter().map(|(name, keys)| (name, Value::from(keys))).collect();
        Layer { metadata: Metadata::named(name), values }
    }
}

/// A syntax error quotes the invalid line, which may contain a secret: only the position and the reason are kept.
fn without_the_line(error: &str) -> String {
    let kept: Vec<&str> = error.lines().filter(|line| !line.contains('|')).map(str::trim).collect();
    let text = kept.join(", ").replace("TOML parse error ", "");
    text.split(" in TOML").next().unwrap_or_default().trim_end_matches(", ").to_string()
}

fn translated(error: &figment::Error) -> ConfigError {
    let key = error.path.join(".");
    let place = match error.metadata.as_ref().map_or("in the built-in defaults", |metadata| &metadata.name) {
        ENVIRONMENT => format!("in the variable {PREFIX}{}", key.replace('.', "__").to_uppercase()),
        name => name.to_string(),
    };
    match &error.kind {
        Kind::UnknownField(..) => match SECRETS.iter().find(|(secret, _)| *secret == key) {
            Some((key, _)) => ConfigError::SecretInFile { key, place },
            None => ConfigError::Unknown { place, meant: closest(&key), key },
        },
        kind => ConfigError::Value { reason: reason(kind, &key), key, place },
    }
}

fn reason(kind: &Kind, key: &str) -> String {
    match kind {
        Kind::Message(reason) => reason.clone(),
        Kind::InvalidType(..) if !key.contains('.') => format!("must be a section: `[{key}]` on a line of its own"),
        Kind::InvalidType(_, expected) | Kind::InvalidValue(_, expected) => format!("must be {expected}"),
        Kind::UnknownVariant(_, known) => {
            let known: Vec<String> = known.iter().map(|name| format!("\"{name}\"")).collect();
            format!("must be {}", known.join(" or "))
        }
        Kind::MissingField(name) => format!("lacks `{name}`"),
        _ => "cannot be used".into(),
    }
}

/// Every key that `config/default.toml` documents, as `section.key`; those without a default are commented out there.
pub(super) fn documented() -> Vec<String> {
    let mut section = "";
    let mut keys = Vec::new();
    for line in DEFAULT_TOML.lines() {
        if let Some(name) = line.strip_prefix('[') {
            section = name.trim_end_matches(']');
        } else if let Some((key, _)) = line.trim_start_matches('#').split_once(" = ")
            && key.bytes().all(|b| b.is_ascii_lowercase() || b == b'_')
        {
            keys.push(format!("{section}.{key}"));
        }
    }
    keys
}

/// The key that was most likely meant: a similar name, or the same name in another section.
fn closest(key: &str) -> Option<String> {
    let name = key.rsplit('.').next().unwrap_or(key);
    let keys = documented();
    let near = keys.iter().map(|known| (distance(key, known), known)).min();
    let near = near.filter(|(edits, _)| *edits <= 3).map(|(_, known)| known);
    near.or_else(|| keys.iter().find(|known| known.ends_with(&format!(".{name}")))).cloned()
}
