//! A nasty workspace from a seed: the same seed gives the same workspace, byte for byte.
//!
//! It contains the edge cases of real workspaces: imports that share one `updatedAt`, missing timestamps, names in
//! every script, texts of ten thousand characters, decimals beyond a double, dangling owners and companies, archived
//! fields, and values of all nine types.

use std::ops::Range;
use std::time::Duration;

use DataType::{Boolean, Date, DateTime, Decimal, Integer, LongText, MultiSelect, SingleSelect};
use fastrand::Rng;
use serde_json::{Map, Value, json};

use super::definition::{CustomDefinition, NewField};
use super::table::Cell;
use super::words;
use super::world::World;
use crate::model::{DataType, Instant, Object, Resource};

/// Records are created within the last two years.
const HISTORY: u64 = 2 * 365 * 24 * 3600;

/// Makes a workspace whose latest change is not after `base_time`.
pub fn generate(seed: u64, contacts: usize, companies: usize, base_time: Instant) -> World {
    let mut maker = Maker::new(seed, base_time);
    for n in 0..8 + companies.min(4000) / 100 {
        maker.member(n);
    }
    let filled = maker.define();
    let companies: Vec<_> = (0..companies).map(|n| maker.company(n, &filled)).collect();
    for n in 0..contacts {
        maker.contact(n, &companies, &filled);
    }
    maker.finish()
}

/// What both generators make a workspace with.
pub(super) struct Maker {
    pub(super) rng: Rng,
    pub(super) world: World,
    pub(super) base: Instant,
    pub(super) members: Vec<String>,
}

impl Maker {
    pub(super) fn new(seed: u64, base_time: Instant) -> Maker {
        let (world, base) = (World::new(base_time), base_time.whole_second());
        Maker { rng: Rng::with_seed(seed), world, base, members: Vec::new() }
    }

    /// A replica that lags has the records too.
    pub(super) fn finish(mut self) -> World {
        self.world.undo.clear();
        self.world
    }

    pub(super) fn one<T: Copy>(&mut self, of: &[T]) -> T {
        one(&mut self.rng, of)
    }

    pub(super) fn chance(&mut self, percent: u32) -> bool {
        self.rng.u32(..100) < percent
    }

    pub(super) fn ago(&mut self, seconds: Range<u64>) -> Instant {
        self.base.minus(Duration::from_secs(self.rng.u64(seconds)))
    }

    fn maybe<T>(&mut self, percent: u32, make: impl FnOnce(&mut Rng) -> T) -> Option<T> {
        self.chance(percent).then(|| make(&mut self.rng))
    }

    fn member(&mut self, n: usize) {
        let [first, last, _] = self.one(&words::PEOPLE);
        let status = self.one(&["ACTIVE", "ACTIVE", "ACTIVE", "INACTIVE", "SUSPENDED", "PENDING"]);
        let created = self.ago(0..HISTORY).to_wire();
        let member = json!({
            "firstName": first, "lastName": last, "username": format!("member{n}"),
            "email": format!("member{n}@team.example"), "status": status,
            "createdAt": created, "updatedAt": created, "etag": etag(&created),
        });
        self.members.push(self.world.create(Resource::TeamMembers, &member).to_string());
    }

    /// How many percent of the records have a value of each custom field.
    fn define(&mut self) -> Vec<u32> {
        let mut percentages = Vec::new();
        for [object, key, label, data_type, filled, status, options] in words::FIELDS.iter().copied() {
            let Some(mut field) = listed_field([object, key, label, data_type, options]) else { continue };
            let created = self.ago(86_400..40_000_000);
            (field.0.created_at, field.0.updated_at) = (Some(created), Some(created));
            field.0.active = status == "active";
            field.0.archived_at = (!field.0.active).then_some(self.base.minus(Duration::from_secs(86_400)));
            percentages.push(filled.parse().unwrap_or(0));
            self.world.fields().define(field);
        }
        percentages
    }

    /// The times of a record, and when it was updated. Every fourth record is part of an import and shares
    /// its timestamp with many others.
    fn dated(&mut self, n: usize) -> (Value, String) {
        let created = self.ago(0..HISTORY);
        let span = self.base.since(created).as_secs();
        let mut updated = created.plus(Duration::from_millis(self.rng.u64(..span.max(1) * 1000)));
        if n.is_multiple_of(4) {
            let import = (n / 400 % 50) as u64;
            updated = updated.max(self.base.minus(Duration::from_secs(3600 * (1 + import))));
        }
        let updated = updated.to_wire();
        let dates = json!({
            "createdAt": (n % 1499 != 1498).then(|| created.to_wire()),
            "updatedAt": (n % 997 != 996).then_some(&updated),
            "etag": etag(&updated),
        });
        (dates, updated)
    }

    fn owner(&mut self) -> Option<String> {
        if self.chance(80) && !self.members.is_empty() {
            return Some(self.members[self.rng.usize(..self.members.len())].clone());
        }
        self.maybe(5, |_| "tm_left_long_ago".into())
    }

    fn customs(&mut self, object: Object, filled: &[u32]) -> Map<String, Value> {
        let Maker { rng, world, base, .. } = self;
        let mut custom = Map::new();
        for (field, filled) in world.definitions().iter().zip(filled).filter(|(field, _)| field.object == object) {
            if rng.u32(..100) < *filled {
                custom.insert(field.key.clone(), value(field, rng, *base));
            }
        }
        custom
    }

    /// Returns its id and its name.
    fn company(&mut self, n: usize, filled: &[u32]) -> (String, String) {
        let (dates, updated) = self.dated(n);
        let [kind, industry] = self.one(&words::COMPANY_KINDS);
        let name = format!("{} {kind} {n}", self.one(&words::COMPANIES));
        let host: String = name.chars().filter(char::is_ascii_alphanumeric).collect::<String>().to_lowercase();
        let mut digits = None;
        let mut record = json!({
            "name": name, "registeredName": format!("{name} {}", self.one(&words::LEGAL)), "industry": industry,
            "subIndustry": self.maybe(60, |_| kind),
            "employeeCount": self.maybe(90, |rng| (1 << rng.u32(..18)) + rng.i64(0..50)),
            "revenue": match self.rng.u32(..6) {
                0 => Value::Null,
                1 => {
                    digits = Some(format!("{}.10", self.rng.u32(1000..9_000_000)));
                    Value::Null
                }
                2 => format!("{}M", self.rng.u32(1..900)).into(),
                3 => json!({"amount": self.rng.u32(..9_000_000), "currency": "EUR"}),
                _ => self.rng.i64(10_000..5_000_000_000).into(),
            },
            "hqCountry": self.one(&words::CITIES)[0], "yearFounded": self.maybe(85, |rng| rng.i64(1850..2026)),
            "ownerId": self.owner(), "logo": self.maybe(50, |_| format!("https://cdn.example/{host}.png")),
            "enrichmentStatus": self.one(&words::ENRICHMENT),
        });
        if self.chance(70) {
            let sent = self.ago(0..HISTORY / 4).to_wire();
            fill(&mut record, json!({"lastMessageSentAt": sent, "lastInteractionAt": sent}));
        }
        if self.chance(60) {
            record["customerFitScore"] = (f64::from(self.rng.u32(..1000)) / 1000.0).into();
            record["customerFitScoreReason"] = self.one(&words::SENTENCES).into();
        }
        if self.chance(90) {
            let www = if self.chance(50) { "www." } else { "" };
            record["websiteUrl"] = format!("https://{www}{host}.example/").into();
            record["domain"] = format!("{host}.example").into();
        }
        record["notes"] = self.maybe(40, long_text).into();
        record["customFields"] = self.customs(Object::Company, filled).into();
        stamp(&mut record, &updated);
        fill(&mut record, dates);
        let id = self.world.create(Object::Company, &record).to_string();
        if let Some(digits) = digits {
            // Answers show a number with its zero at the end, which no JSON value has.
            self.world.change(Resource::Companies, &id, |world, record| {
                world.set_slot(Resource::Companies, record, "revenue", Some(Cell::Source(digits.into())));
            });
        }
        (id, name)
    }

    fn contact(&mut self, n: usize, companies: &[(String, String)], filled: &[u32]) {
        let (dates, updated) = self.dated(n);
        let [first, last, country] = self.one(&words::PEOPLE);
        // A duplicate in capitals, as workspaces often have.
        let email = match n % 150 {
            149 => format!("CONTACT{}@mail{}.example", n - 1, (n - 1) % 40),
            _ => format!("contact{n}@mail{}.example", n % 40),
        };
        let mut record = json!({
            "name": format!("{first} {last}"), "firstName": first, "lastName": last,
            "email": self.maybe(95, |_| email),
            "mobile": self.maybe(60, |_| format!("+{}", 440_000_000_000 + n as u64 * 37)),
            "position": self.maybe(85, |rng| one(rng, &words::POSITIONS)),
        });
        if self.chance(70) && !companies.is_empty() {
            let (id, name) = &companies[self.rng.usize(..companies.len())];
            fill(&mut record, json!({"company": name, "companyId": id}));
        }
        record["ownerId"] = self.owner().into();
        record["qualification"] = self.maybe(75, Rng::bool).into();
        if self.chance(50) {
            record["intentType"] = self.one(&words::INTENTS).into();
            record["intentLevel"] = self.one(&words::LEVELS).into();
        }
        if self.chance(65) {
            let last = self.ago(0..HISTORY / 2).to_wire();
            fill(&mut record, json!({"lastInteractionAt": last, "lastMessageReceivedAt": last}));
        }
        record["enrichmentStatus"] = self.one(&words::ENRICHMENT).into();
        let [_, region, city] = self.one(&words::CITIES);
        record["location"] = json!({"country": country});
        if self.chance(80) {
            record["location"] = json!({"country": country, "region": region, "city": city});
        }
        fill(&mut record, self.contact_detail());
        record["customFields"] = self.customs(Object::Contact, filled).into();
        stamp(&mut record, &updated);
        fill(&mut record, dates);
        self.world.create(Object::Contact, &record);
    }

    fn contact_detail(&mut self) -> Value {
        let mut record = json!({
            "industry": self.one(&words::COMPANY_KINDS)[1], "language": self.one(&words::LANGUAGES),
            "timezone": self.one(&words::ZONES), "recordSource": self.one(&words::SOURCES),
            "notes": self.maybe(40, long_text),
        });
        if self.chance(20) {
            record["score"] = self.rng.i64(0..101).into();
            record["reasoning"] = self.one(&words::SENTENCES).into();
            record["qualificationConfidence"] = (f64::from(self.rng.u32(..100)) / 100.0).into();
        }
        if self.chance(30) {
            record["sessionSummaryDiscussed"] = self.one(&words::SENTENCES).into();
            record["sessionSummaryRequests"] = json!([self.one(&words::SENTENCES)]);
        }
        let never = self.chance(5);
        record["doNotContact"] = never.into();
        record["doNotContactReason"] = never.then_some("asked not to be contacted").into();
        record["emailMarketingConsentStatus"] = self.one(&words::CONSENT).into();
        record["whatsappMarketingConsentStatus"] = self.one(&words::CONSENT).into();
        let channels: Vec<&str> = words::CHANNELS.iter().copied().filter(|_| self.rng.bool()).collect();
        record["contactable"] = (!channels.is_empty()).into();
        record["contactableChannels"] = channels.into();
        record["emailReachabilityStatus"] = self.one(&words::REACHABILITY).into();
        record
    }
}

pub(super) fn etag(updated: &str) -> String {
    format!("\"{updated}\"")
}

fn one<T: Copy>(rng: &mut Rng, of: &[T]) -> T {
    of[rng.usize(..of.len())]
}

fn fill(record: &mut Value, fields: Value) {
    if let (Some(record), Value::Object(fields)) = (record.as_object_mut(), fields) {
        record.extend(fields);
    }
}

/// The times of values: all of a record were set when it was last updated.
fn stamp(record: &mut Value, updated: &str) {
    for (value, at) in [
        ("notes", "notesAt"),
        ("intentType", "intentInferredAt"),
        ("sessionSummaryDiscussed", "sessionSummaryAt"),
        ("doNotContactReason", "doNotContactAt"),
        ("emailMarketingConsentStatus", "emailMarketingConsentUpdatedAt"),
        ("whatsappMarketingConsentStatus", "consentUpdatedAt"),
        ("contactableChannels", "contactabilityUpdatedAt"),
    ] {
        if !record[value].is_null() {
            record[at] = updated.into();
        }
    }
    if record["enrichmentStatus"] == "completed" {
        record["enrichmentAt"] = updated.into();
    }
}

pub(crate) fn listed_field([object, key, label, data_type, options]: [&str; 5]) -> Option<NewField> {
    let options: Vec<&str> = options.split(", ").filter(|option| !option.is_empty()).collect();
    Some(NewField::new(object.parse().ok()?, key, DataType::from_name(data_type)).label(label).options(&options))
}

fn value(field: &CustomDefinition, rng: &mut Rng, base: Instant) -> Value {
    match field.kind() {
        LongText => long_text(rng).into(),
        Integer => match rng.u32(..500) {
            0 => i64::MAX.into(),
            1 => i64::MIN.into(),
            _ => rng.i64(-20..1000).into(),
        },
        Decimal => match rng.u32(..40) {
            0 => one(rng, &words::DECIMALS).into(),
            _ => format!("{}.{:02}", rng.i64(-5000..900_000), rng.u32(..100)).into(),
        },
        Boolean => rng.bool().into(),
        Date => format!("{}-{:02}-{:02}", rng.u32(1940..2030), rng.u32(1..13), rng.u32(1..29)).into(),
        DateTime => base.plus(Duration::from_secs(rng.u64(..30_000_000))).to_wire().into(),
        SingleSelect => field.options[rng.usize(..field.options.len())].value.as_str().into(),
        MultiSelect => {
            let options = || field.options.iter().map(|option| option.value.as_str());
            let chosen: Vec<&str> = options().filter(|_| rng.bool()).collect();
            if chosen.is_empty() { options().take(1).collect() } else { chosen.into() }
        }
        _ => format!("{} {}", one(rng, &words::COMPANIES), rng.u32(..10_000)).into(),
    }
}

/// A few sentences; one text in two hundred is as long as texts can be.
fn long_text(rng: &mut Rng) -> String {
    let most = if rng.u32(..200) == 0 { 10_000 } else { 40 + rng.usize(..300) };
    let mut text = String::new();
    let mut characters = 0;
    loop {
        let sentence = one(rng, &words::SENTENCES);
        characters += sentence.chars().count() + 1;
        if characters > most && !text.is_empty() {
            return text;
        }
        if !text.is_empty() {
            text.push(' ');
        }
        text.push_str(sentence);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seed_determines_the_workspace() {
        let base: Instant = "2026-03-01T12:00:00Z".parse().unwrap();
        let texts = |seed| {
            let world = generate(seed, 300, 40, base);
            let mut texts = Vec::new();
            for object in Object::ALL {
                for id in world.ids(object.resource()) {
                    texts.push(world.detail_text(object, &id).unwrap());
                }
            }
            texts
        };
        let first = texts(7);
        assert_eq!(first.len(), 340);
        assert_eq!(first, texts(7));
        assert_ne!(first, texts(8));
        for text in &first {
            let json: serde_json::Value = serde_json::from_str(text).unwrap();
            for (field, most) in [("employeeCount", 1 << 18), ("score", 100)] {
                assert!(json[field].as_i64().is_none_or(|n| (0..=most).contains(&n)), "{text}");
            }
        }
    }
}
