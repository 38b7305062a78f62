//! The origin of a service's world, for resets: a generator or a fixture, its clock, and the file that its changes are
//! written to.
//!
//! A fixture is one JSON object with lists of records in the form of details. Identifiers, timestamps and etags are kept
//! byte for byte, and numbers keep their digits. Unknown fields are shown verbatim. The admin interface parses records in
//! the same way.

use std::collections::{BTreeMap, BTreeSet};
use std::future::Future;
use std::path::PathBuf;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use serde_json::Value;
use serde_json::value::RawValue;

use super::definition::{CustomDefinition, NewField};
use super::faults::FaultLine;
use super::generate::generate;
use super::generate_plain;
use super::state::StateFile;
use super::table::Cell;
use super::world::World;
use crate::model::{Clock, Instant, Resource};

#[derive(Clone, Debug)]
pub enum WorldOrigin {
    Generated {
        contacts: usize,
        companies: usize,
        /// Data full of edge cases instead of realistic data.
        nasty: bool,
    },
    Fixture(String),
}

#[derive(Clone, Debug)]
pub struct Development {
    /// The origin of the world, unless the state file contains one.
    pub origin: WorldOrigin,
    /// Determines the generated data, the key, the faults that have a share, and the changes.
    pub seed: u64,
    /// The fixed time of the clock; without it, the clock follows the system's.
    pub now: Option<Instant>,
    pub state: Option<PathBuf>,
    pub faults: FaultLine,
}

pub(crate) struct Origin {
    pub(crate) development: Development,
    pub(crate) base: Instant,
    pub(crate) clock: SandboxClock,
    pub(crate) file: Option<StateFile>,
}

impl Origin {
    pub(crate) fn new(development: Development) -> Origin {
        let clock = SandboxClock { fixed: development.now, advanced: Arc::default() };
        let base = clock.now();
        Origin { development, base, clock, file: None }
    }

    pub(crate) fn world(&self) -> Result<World, FixtureError> {
        match &self.development.origin {
            WorldOrigin::Generated { contacts, companies, nasty } => {
                let generate = if *nasty { generate } else { generate_plain::generate };
                Ok(generate(self.development.seed, *contacts, *companies, self.base))
            }
            WorldOrigin::Fixture(text) => World::from_fixture(text, self.base),
        }
    }
}

/// The system's clock or a fixed time, plus the advance. Clones share the advance.
#[derive(Clone, Debug)]
pub(crate) struct SandboxClock {
    fixed: Option<Instant>,
    advanced: Arc<Mutex<Duration>>,
}

impl SandboxClock {
    pub(crate) fn advanced(&self) -> Duration {
        *self.advanced.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn set_advanced(&self, by: Duration) {
        *self.advanced.lock().unwrap_or_else(PoisonError::into_inner) = by;
    }
}

impl Clock for SandboxClock {
    fn now(&self) -> Instant {
        self.fixed.unwrap_or_else(Instant::system_now).plus(self.advanced())
    }

    fn sleep_until(&self, when: Instant) -> Pin<Box<dyn Future<Output = ()> + Send + '_>> {
        Box::pin(tokio::time::sleep(when.since(self.now())))
    }
}

/// The members of a fixture, in the order of parsing: definitions come before the values of their fields.
const MEMBERS: [(&str, Resource); 4] = [
    ("customFieldDefinitions", Resource::CustomFields),
    ("teamMembers", Resource::TeamMembers),
    ("companies", Resource::Companies),
    ("contacts", Resource::Contacts),
];

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{at}: {why}")]
pub struct FixtureError {
    /// The member and the record's index in it.
    pub at: String,
    pub why: String,
}

impl World {
    /// Records without timestamps get `now`.
    pub fn from_fixture(text: &str, now: Instant) -> Result<World, FixtureError> {
        let error = |at: &str, why: String| FixtureError { at: at.to_string(), why };
        let document: BTreeMap<String, Box<RawValue>> =
            serde_json::from_str(text).map_err(|e| error("the file", e.to_string()))?;
        if let Some(unknown) = document.keys().find(|name| MEMBERS.iter().all(|(known, _)| known != name)) {
            let known: Vec<&str> = MEMBERS.iter().map(|(name, _)| *name).collect();
            return Err(error(unknown, format!("is not a member of a fixture; known members: {}", known.join(", "))));
        }
        let mut world = World::new(now);
        for (member, resource) in MEMBERS {
            let Some(list) = document.get(member) else { continue };
            let list: Vec<Box<RawValue>> =
                serde_json::from_str(list.get()).map_err(|e| error(member, format!("must be a list: {e}")))?;
            let mut seen = BTreeSet::new();
            for (place, record) in list.iter().enumerate() {
                let at = format!("{member}[{place}]");
                let id = load(&mut world, resource, record.get()).map_err(|why| error(&at, why))?;
                if !seen.insert(id.clone()) {
                    return Err(error(&at, format!("duplicate id `{id}`")));
                }
            }
        }
        Ok(world)
    }
}

/// Adds one record in the form of a detail, or of a list item.
fn load(world: &mut World, resource: Resource, source: &str) -> Result<String, String> {
    let record: Value = serde_json::from_str(source).map_err(|e| e.to_string())?;
    let Value::Object(members) = &record else {
        return Err("must be an object".to_string());
    };
    if !matches!(members.get("id"), None | Some(Value::String(_))) {
        return Err("`id` must be a string".to_string());
    }
    if resource == Resource::CustomFields {
        return Ok(world.fields().define(NewField(CustomDefinition::from_json(&record)?)).as_str().to_string());
    }
    let id = world.create(resource, &record);
    keep_digits(world, resource, id.as_str(), source);
    Ok(id.as_str().to_string())
}

/// Numbers keep the digits of the source: Rust would not write `1.10` or 2^70 back unchanged.
fn keep_digits(world: &mut World, resource: Resource, id: &str, source: &str) {
    let Ok(members) = serde_json::from_str::<BTreeMap<String, &RawValue>>(source) else { return };
    let number = |raw: &str| raw.starts_with(|c: char| c == '-' || c.is_ascii_digit());
    for (wire, raw) in members.into_iter().filter(|(_, raw)| number(raw.get()) && raw.get().parse::<i64>().is_err()) {
        let cell = Cell::Source(raw.get().into());
        world.change(resource, id, |world, record| world.set_slot(resource, record, &wire, Some(cell)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::Object;

    fn noon() -> Instant {
        "2026-03-01T12:00:00Z".parse().unwrap()
    }

    #[test]
    fn records_are_returned_as_written_in_the_file() {
        let text = r#"{
            "customFieldDefinitions": [{"id": "f1", "key": "tier", "label": "Tier", "dataType": "SINGLE_SELECT",
                "objectType": "contact", "status": "ACTIVE", "options": [{"value": "gold", "label": "Gold"}]}],
            "contacts": [{"id": "c1", "name": "Ada", "etag": "\"v-7\"", "updatedAt": null, "pet": {"legs": 4},
                "customFields": {"tier": "gold", "odd": [1]}, "location": {"city": "Paris"}}],
            "companies": [{"id": "k1", "revenue": 1.10, "customerFitScore": 0.70}],
            "teamMembers": [{"id": "m1", "status": "ACTIVE"}]}"#;
        let world = World::from_fixture(text, noon()).unwrap();
        let contact = world.detail_json(Object::Contact, "c1").unwrap();
        assert_eq!(contact["etag"], "\"v-7\"");
        assert_eq!(contact["createdAt"], "2026-03-01T12:00:00.000Z");
        assert!(contact["updatedAt"].is_null());
        assert_eq!(contact["pet"]["legs"], 4);
        assert_eq!(contact["customFields"], serde_json::json!({"tier": "gold", "odd": [1]}));
        assert_eq!(contact["location"]["city"], "Paris");
        let company = world.detail_text(Object::Company, "k1").unwrap();
        assert!(company.contains("\"revenue\":1.10,") && company.contains("\"customerFitScore\":0.70"), "{company}");
        assert_eq!(world.ids(Resource::TeamMembers), ["m1"]);
    }

    #[test]
    fn error_names_the_record() {
        for (text, at) in [
            ("[]", "the file"),
            (r#"{"people": []}"#, "people"),
            (r#"{"contacts": {}}"#, "contacts"),
            (r#"{"contacts": [{"id": "a"}, 7]}"#, "contacts[1]"),
            (r#"{"contacts": [{"id": "a"}, {"id": "a"}]}"#, "contacts[1]"),
            (r#"{"companies": [{"id": 7}]}"#, "companies[0]"),
            (r#"{"customFieldDefinitions": [{"key": "a"}]}"#, "customFieldDefinitions[0]"),
        ] {
            assert_eq!(World::from_fixture(text, noon()).unwrap_err().at, at, "{text}");
        }
    }
}
