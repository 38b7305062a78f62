//! The sources, put over each other: defaults < file < environment < flags.
//!
//! Every layer is checked for unknown keys by itself, so an error names its own file or variable. Values of the
//! environment and of flags stay texts (a guess would turn the file name `0123` into a number), and [`super::values`]
//! reads a number from a text as well.

use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use figment::providers::{Format, Toml};
use figment::value::{Dict, Map, Value};
use figment::{Figment, Metadata, Profile, Provider};

use super::error::ConfigError;
use super::{DEFAULT_TOML, KEYS};

/// The variable that holds the API key. It never enters a layer.
pub(super) const KEY_VARIABLE: &str = "CRM_MIRROR_API__KEY";
/// The variable that holds the URL of the database to publish to, its password included. It never enters a layer.
pub(super) const PUBLISH_VARIABLE: &str = "CRM_MIRROR_PUBLISH__URL";
/// The variables that are secrets: layers guess types and quote what they reject.
const SECRETS: [&str; 2] = [KEY_VARIABLE, PUBLISH_VARIABLE];
const PREFIX: &str = "CRM_MIRROR_";
const DEFAULT_FILE: &str = "/etc/crm-mirror/config.toml";

/// The environment, as an argument. It may hold the API key, so it has no `Debug`.
#[derive(Clone, Default)]
pub struct Environment(BTreeMap<String, String>);

impl Environment {
    /// The environment of this process.
    pub fn of_process() -> Environment {
        let text = |t: std::ffi::OsString| t.to_string_lossy().into_owned();
        std::env::vars_os().map(|(name, value)| (text(name), text(value))).collect()
    }

    /// A variable's value.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(String::as_str)
    }

    /// The names of the variables that are settings, the key's left out.
    pub fn settings(&self) -> impl Iterator<Item = &str> {
        let names = self.0.keys().map(String::as_str);
        names.filter(|name| name.starts_with(PREFIX) && !SECRETS.contains(name))
    }

    /// A directory that systemd made for the unit; the first, should there be several.
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

/// Where the configuration is read from.
#[derive(Clone)]
pub struct Sources {
    /// The file that was named, which must exist.
    pub file: Option<PathBuf>,
    /// The file that is read where none was named, if it exists.
    pub default_file: PathBuf,
    /// The environment.
    pub environment: Environment,
    /// Values of flags: key, such as `log.level`, and text.
    pub flags: Vec<(&'static str, String)>,
}

impl Sources {
    /// The sources of this process.
    pub fn of_process(file: Option<PathBuf>, flags: Vec<(&'static str, String)>) -> Sources {
        Sources { file, default_file: DEFAULT_FILE.into(), environment: Environment::of_process(), flags }
    }
}

#[derive(Clone, Debug)]
enum Place {
    Defaults,
    File(PathBuf),
    Environment,
    Flags,
}

impl Place {
    /// For a person: where this key stands.
    fn of(&self, key: &str) -> String {
        match self {
            Place::Defaults => "in the built-in defaults".into(),
            Place::File(path) => format!("in {}", path.display()),
            Place::Environment => format!("in the variable {}", variable(key)),
            Place::Flags => "on the command line".into(),
        }
    }
}

fn variable(key: &str) -> String {
    format!("{PREFIX}{}", key.replace('.', "__").to_uppercase())
}

struct Layer {
    place: Place,
    values: Dict,
}

impl Provider for &Layer {
    fn metadata(&self) -> Metadata {
        Metadata::named(format!("{:?}", self.place))
    }
    fn data(&self) -> Result<Map<Profile, Dict>, figment::Error> {
        Ok(Map::from([(Profile::Default, self.values.clone())]))
    }
}

/// Every source, checked for unknown keys.
pub(super) struct Layers {
    layers: Vec<Layer>,
    merged: Figment,
}

impl Layers {
    /// Reads every source.
    pub fn read(sources: &Sources) -> Result<Layers, ConfigError> {
        let mut layers = vec![toml(Place::Defaults, DEFAULT_TOML)?];
        layers.extend(file(sources)?);
        layers.push(environment(&sources.environment)?);
        layers.push(texts(Place::Flags, sources.flags.iter().map(|(key, text)| (*key, text.as_str()))));
        for layer in &layers {
            known_keys_only(layer)?;
        }
        let merged = layers.iter().fold(Figment::new(), |merged, layer| merged.merge(layer));
        Ok(Layers { layers, merged })
    }

    /// The value of a key, if any layer has one.
    pub fn get(&self, key: &str) -> Option<Value> {
        self.merged.find_value(key).ok()
    }

    /// The error for a value that cannot be used, told with the place it comes from.
    pub fn wrong(&self, key: &str, reason: impl Into<String>) -> ConfigError {
        let (section, name) = key.split_once('.').unwrap_or((key, ""));
        let has =
            |layer: &&Layer| matches!(layer.values.get(section), Some(Value::Dict(_, keys)) if keys.contains_key(name));
        let place = self.layers.iter().rev().find(has).map_or(&Place::Defaults, |layer| &layer.place);
        ConfigError::Value { key: key.to_string(), place: place.of(key), reason: reason.into() }
    }
}

fn file(sources: &Sources) -> Result<Option<Layer>, ConfigError> {
    let (path, must_exist): (&Path, bool) = match &sources.file {
        Some(path) => (path, true),
        None => (&sources.default_file, false),
    };
    match std::fs::read_to_string(path) {
        Ok(text) => toml(Place::File(path.into()), &text).map(Some),
        Err(e) if e.kind() == ErrorKind::NotFound && !must_exist => Ok(None),
        Err(source) => Err(ConfigError::File { path: path.into(), source }),
    }
}

fn toml(place: Place, text: &str) -> Result<Layer, ConfigError> {
    let data = Toml::string(text).data().map_err(|e| ConfigError::Syntax {
        place: match &place {
            Place::File(path) => path.display().to_string(),
            other => other.of(""),
        },
        reason: without_the_line(&e.to_string()),
    })?;
    let values = data.into_values().next().unwrap_or_default();
    Ok(Layer { place, values })
}

/// A syntax error quotes the line it stumbled over, which may hold a secret: only where and why is kept.
fn without_the_line(error: &str) -> String {
    let kept: Vec<&str> = error.lines().filter(|line| !line.contains('|')).map(str::trim).collect();
    let told = kept.join(", ").replace("TOML parse error ", "");
    told.split(" in TOML").next().unwrap_or_default().trim_end_matches(", ").to_string()
}

fn environment(env: &Environment) -> Result<Layer, ConfigError> {
    let mut values = Vec::new();
    for (name, text) in env.0.iter().filter(|(name, _)| !SECRETS.contains(&name.as_str())) {
        let Some(rest) = name.strip_prefix(PREFIX) else {
            continue;
        };
        match rest.to_lowercase().split_once("__") {
            Some((section, key)) => values.push((format!("{section}.{key}"), text.as_str())),
            None => {
                return Err(ConfigError::Unknown {
                    key: rest.to_lowercase(),
                    place: format!("in the variable {name}"),
                    meant: None,
                });
            }
        }
    }
    let values = values.iter().map(|(key, text)| (key.as_str(), *text));
    Ok(texts(Place::Environment, values))
}

fn texts<'a>(place: Place, texts: impl Iterator<Item = (&'a str, &'a str)>) -> Layer {
    let mut sections: BTreeMap<&str, Dict> = BTreeMap::new();
    for (section, key, text) in texts.filter_map(|(path, text)| path.split_once('.').map(|(s, k)| (s, k, text))) {
        sections.entry(section).or_default().insert(key.to_string(), Value::from(text));
    }
    let values = sections.into_iter().map(|(name, keys)| (name.to_string(), Value::from(keys))).collect();
    Layer { place, values }
}

fn known_keys_only(layer: &Layer) -> Result<(), ConfigError> {
    let unknown = |key: String| ConfigError::Unknown { place: layer.place.of(&key), meant: closest(&key), key };
    for (section, value) in &layer.values {
        let keys = KEYS.iter().find(|(name, _)| name == section).map(|(_, keys)| *keys);
        let (Some(known), Value::Dict(_, found)) = (keys, value) else {
            return Err(unknown(section.clone()));
        };
        for name in found.keys() {
            if section == "api" && name == "key" {
                return Err(ConfigError::KeyInFile { place: layer.place.of("api.key") });
            }
            if section == "publish" && name == "url" {
                return Err(ConfigError::UrlInFile { place: layer.place.of("publish.url") });
            }
            if !known.contains(&name.as_str()) {
                return Err(unknown(format!("{section}.{name}")));
            }
        }
    }
    Ok(())
}

/// Every key, written out once, so that a suggestion can be a `&'static str`.
static PATHS: std::sync::LazyLock<Vec<String>> = std::sync::LazyLock::new(|| {
    let paths =
        |(section, keys): &(&str, &[&str])| keys.iter().map(|key| format!("{section}.{key}")).collect::<Vec<_>>();
    KEYS.iter().flat_map(paths).collect()
});

/// The key that a typo most likely meant: few edits away, or the same name in another section.
fn closest(key: &str) -> Option<&'static str> {
    let name = key.rsplit('.').next().unwrap_or(key);
    let elsewhere = || PATHS.iter().find(|path| path.ends_with(&format!(".{name}")));
    let near = PATHS.iter().map(|path| (edits(key, path), path)).min();
    near.filter(|(edits, _)| *edits <= 3).map(|(_, path)| path).or_else(elsewhere).map(String::as_str)
}

/// The Levenshtein distance of two short texts.
fn edits(a: &str, b: &str) -> usize {
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.bytes().enumerate() {
        let mut diagonal = std::mem::replace(&mut row[0], i + 1);
        for (j, y) in b.bytes().enumerate() {
            let change = diagonal + usize::from(x != y);
            diagonal = row[j + 1];
            row[j + 1] = change.min(diagonal + 1).min(row[j] + 1);
        }
    }
    row[b.len()]
}
