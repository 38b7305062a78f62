//! Merges the sources with `figment`, and converts its errors.
//!
//! Values of the environment and of flags stay texts (a guess would turn the file name `0123` into a number);
//! [`super::values`] can read a number from a text. `figment` quotes the value that it rejects, which may be a
//! misplaced secret: only the key, the place and the expectation are kept of its errors.

use figment::error::Kind;
use figment::providers::{Format, Toml};
use figment::value::{Dict, Map, Value};
use figment::{Figment, Metadata, Profile, Provider, Source};
use serde::de::DeserializeOwned;

use super::DEFAULT_TOML;
use super::error::ConfigError;
use super::sources::{Environment, PREFIX, SECRETS, Sources};

/// The name of the environment layer; the variable's name follows from the key.
const ENVIRONMENT: &str = "environment";

pub(super) fn read<T: DeserializeOwned>(sources: &Sources) -> Result<T, ConfigError> {
    let mut merged = Figment::new().merge(Layer::of_toml(Metadata::named("in the built-in defaults"), DEFAULT_TOML)?);
    if let Some((path, text)) = sources.read()? {
        // The source in the metadata makes relative paths relative to the file.
        let metadata = Metadata::from(format!("in {}", path.display()), Source::File(path.into()));
        merged = merged.merge(Layer::of_toml(metadata, &text)?);
    }
    let flags = sources.flags.iter().map(|(key, text)| (key.to_string(), text.as_str()));
    let merged = merged.merge(Layer::of_environment(&sources.environment)?);
    merged.merge(Layer::of_texts("on the command line", flags)).extract().map_err(|error| translated(&error))
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
                None => Err(ConfigError::Unknown { key, place: format!("in the variable {name}") }),
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
            None => ConfigError::Unknown { key, place },
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
