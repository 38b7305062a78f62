//! A fixture: one JSON object with lists of records in the form of details. Identifiers, timestamps and etags are kept
//! byte for byte, and numbers keep their digits. Unknown fields are shown verbatim.

use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;

use super::world::World;
use crate::model::{Instant, Resource};

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase", deny_unknown_fields)]
struct Fixture {
    custom_field_definitions: Vec<Box<RawValue>>,
    team_members: Vec<Box<RawValue>>,
    companies: Vec<Box<RawValue>>,
    contacts: Vec<Box<RawValue>>,
}

impl World {
    /// Records without timestamps get `now`. An error says where it is.
    pub(crate) fn from_fixture(text: &str, now: Instant) -> Result<World, String> {
        // An array would be read as the fields in their order.
        if text.trim_start().starts_with('[') {
            return Err("the file: must be one JSON object".into());
        }
        let fixture: Fixture = serde_json::from_str(text).map_err(|error| format!("the file: {error}"))?;
        let mut world = World::new(now);
        // Definitions come before the values of their fields.
        for (member, resource, records) in [
            ("customFieldDefinitions", Resource::CustomFields, fixture.custom_field_definitions),
            ("teamMembers", Resource::TeamMembers, fixture.team_members),
            ("companies", Resource::Companies, fixture.companies),
            ("contacts", Resource::Contacts, fixture.contacts),
        ] {
            for (place, record) in records.iter().enumerate() {
                let loaded = load(&mut world, resource, record.get());
                loaded.map_err(|why| format!("{member}[{place}]: {why}"))?;
            }
        }
        Ok(world)
    }
}

fn load(world: &mut World, resource: Resource, source: &str) -> Result<(), String> {
    let record: Value = serde_json::from_str(source).map_err(|e| e.to_string())?;
    match record.as_object().ok_or("must be an object")?.get("id") {
        Some(Value::String(id)) if world.table(resource).get(id).is_some() => Err(format!("duplicate id `{id}`"))?,
        None | Some(Value::String(_)) => {}
        Some(_) => Err("`id` must be a string")?,
    }
    match resource {
        Resource::CustomFields => world.fields().define_json(&record)?,
        _ => world.create_from(resource, source),
    };
    Ok(())
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
            (r#"{"people": []}"#, "the file: unknown field `people`"),
            (r#"{"contacts": {}}"#, "the file"),
            (r#"{"contacts": [{"id": "a"}, 7]}"#, "contacts[1]"),
            (r#"{"contacts": [{"id": "a"}, {"id": "a"}]}"#, "contacts[1]"),
            (r#"{"companies": [{"id": 7}]}"#, "companies[0]"),
            (r#"{"customFieldDefinitions": [{"key": "a"}]}"#, "customFieldDefinitions[0]"),
        ] {
            let error = World::from_fixture(text, noon()).unwrap_err();
            assert!(error.starts_with(at), "{text}: {error}");
        }
    }
}
