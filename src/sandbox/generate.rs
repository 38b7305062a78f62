//! A nasty workspace from a seed: the same seed gives the same workspace, byte for byte.
//!
//! It contains the edge cases of real workspaces: imports that share one `updatedAt`, missing timestamps, names in
//! every script, texts of ten thousand characters, decimals beyond a double, dangling owners and companies, archived
//! fields, and values of all nine types.

use std::borrow::Cow;
use std::collections::HashMap;
use std::time::Duration;

use DataType::{Boolean, Date, DateTime, Decimal, Integer, LongText, MultiSelect, SingleSelect};
use fastrand::Rng;

use super::definition::{CustomDefinition, NewField};
use super::table::{Cell, Id, WorldRecord, custom_slot};
use super::words;
use super::world::World;
use crate::model::{Choice, DataType, Field, Instant, Object, Resource};

/// Records are created within the last two years.
const HISTORY: u64 = 2 * 365 * 24 * 3600;

/// Makes a workspace whose latest change is not after `base_time`.
pub fn generate(seed: u64, contacts: usize, companies: usize, base_time: Instant) -> World {
    let mut maker = Maker {
        rng: Rng::with_seed(seed),
        world: World::new(base_time),
        base: base_time.whole_second(),
        members: Vec::new(),
        companies: Vec::new(),
        filled: Vec::new(),
        slots: HashMap::new(),
    };
    maker.team(8 + companies.min(4000) / 100);
    maker.filled = define(&mut maker.world, maker.base, &mut maker.rng);
    maker.slots = slots(Object::Company.fields());
    for n in 0..companies {
        maker.company(n);
    }
    maker.slots = slots(Object::Contact.fields());
    for n in 0..contacts {
        maker.contact(n);
    }
    maker.world
}

fn slots(fields: &'static [Field]) -> HashMap<&'static str, usize> {
    fields.iter().enumerate().map(|(slot, field)| (field.wire, slot)).collect()
}

/// A number that answers show with the fewest digits.
fn real(number: f64) -> Cell {
    Cell::Source(serde_json::Value::from(number).to_string().into())
}

struct Maker {
    rng: Rng,
    world: World,
    base: Instant,
    members: Vec<Id>,
    companies: Vec<(Id, String)>,
    /// The percentage of records that have a value, of each custom field.
    filled: Vec<u32>,
    slots: HashMap<&'static str, usize>,
}

impl Maker {
    fn one<T: Copy>(&mut self, of: &[T]) -> T {
        of[self.rng.usize(..of.len())]
    }

    fn chance(&mut self, percent: u32) -> bool {
        self.rng.u32(..100) < percent
    }

    fn ago(&mut self, most: u64) -> Instant {
        self.base.minus(Duration::from_secs(self.rng.u64(..most.max(1))))
    }

    fn put(&self, record: &mut WorldRecord, wire: &'static str, cell: impl Into<Option<Cell>>) {
        if let Some(slot) = self.slots.get(wire) {
            record.set(*slot, cell.into());
        }
    }

    fn maybe(
        &mut self,
        record: &mut WorldRecord,
        percent: u32,
        wire: &'static str,
        make: impl FnOnce(&mut Rng) -> Cell,
    ) {
        if self.chance(percent) {
            let cell = make(&mut self.rng);
            self.put(record, wire, cell);
        }
    }

    fn text(&self, record: &mut WorldRecord, wire: &'static str, text: impl Into<Cow<'static, str>>) {
        self.put(record, wire, Cell::Text(text.into()));
    }

    fn word(&mut self, record: &mut WorldRecord, wire: &'static str, of: &[&'static str]) -> &'static str {
        let word = self.one(of);
        self.text(record, wire, word);
        word
    }

    fn team(&mut self, members: usize) {
        self.slots = slots(Resource::TeamMembers.fields());
        for n in 0..members {
            let [first, last, _] = self.one(&words::PEOPLE);
            let id: Id = self.world.new_id(Resource::TeamMembers).into();
            let mut member = WorldRecord::new(id.clone());
            self.text(&mut member, "id", id.to_string());
            self.text(&mut member, "firstName", first);
            self.text(&mut member, "lastName", last);
            self.text(&mut member, "username", format!("member{n}"));
            self.text(&mut member, "email", format!("member{n}@team.example"));
            let status = &["ACTIVE", "ACTIVE", "ACTIVE", "INACTIVE", "SUSPENDED", "PENDING"];
            self.word(&mut member, "status", status);
            let created = self.ago(HISTORY);
            self.put(&mut member, "createdAt", Cell::Time(created));
            self.put(&mut member, "updatedAt", Cell::Time(created));
            self.put(&mut member, "etag", Cell::Etag(created));
            self.world.table_mut(Resource::TeamMembers).put(member);
            self.members.push(id);
        }
    }

    /// Every fourth record is part of an import and shares its timestamp with many others.
    fn dates(&mut self, record: &mut WorldRecord, n: usize) -> Instant {
        let created = self.ago(HISTORY);
        let span = self.base.since(created).as_secs();
        let mut updated = created.plus(Duration::from_millis(self.rng.u64(..span.max(1) * 1000)));
        if n.is_multiple_of(4) {
            let import = (n / 400 % 50) as u64;
            updated = updated.max(self.base.minus(Duration::from_secs(3600 * (1 + import))));
        }
        let id = record.id.clone();
        self.text(record, "id", id.to_string());
        if n % 1499 != 1498 {
            self.put(record, "createdAt", Cell::Time(created));
        }
        if n % 997 != 996 {
            self.put(record, "updatedAt", Cell::Time(updated));
        }
        self.put(record, "etag", Cell::Etag(updated));
        updated
    }

    fn owner(&mut self, record: &mut WorldRecord) {
        if self.chance(80) && !self.members.is_empty() {
            let owner = self.members[self.rng.usize(..self.members.len())].clone();
            self.text(record, "ownerId", owner.to_string());
        } else if self.chance(5) {
            self.text(record, "ownerId", "tm_left_long_ago");
        }
    }

    fn customs(&mut self, record: &mut WorldRecord, object: Object) {
        let Maker { rng, world, base, filled, .. } = self;
        for (place, field) in world.definitions().iter().enumerate().filter(|(_, field)| field.object == object) {
            if rng.u32(..100) < filled[place] {
                record.set(custom_slot(place), Some(value(field, rng, *base)));
            }
        }
    }

    fn company(&mut self, n: usize) {
        let id: Id = self.world.new_id(Resource::Companies).into();
        let mut record = WorldRecord::new(id.clone());
        let updated = self.dates(&mut record, n);
        let [kind, industry] = self.one(&words::COMPANY_KINDS);
        let name = format!("{} {kind} {n}", self.one(&words::COMPANIES));
        let host: String = name.chars().filter(char::is_ascii_alphanumeric).collect::<String>().to_lowercase();
        self.text(&mut record, "name", name.clone());
        let legal = self.one(&words::LEGAL);
        self.text(&mut record, "registeredName", format!("{name} {legal}"));
        self.text(&mut record, "industry", industry);
        self.maybe(&mut record, 60, "subIndustry", |_| Cell::Text(kind.into()));
        self.maybe(&mut record, 90, "employeeCount", |rng| Cell::Int((1 << rng.u32(..18)) + rng.i64(0..50)));
        let revenue = match self.rng.u32(..6) {
            0 => None,
            1 => Some(Cell::Source(format!("{}.10", self.rng.u32(1000..9_000_000)).into())),
            2 => Some(Cell::Text(format!("{}M", self.rng.u32(1..900)).into())),
            3 => {
                Some(Cell::Source(format!("{{\"amount\":{},\"currency\":\"EUR\"}}", self.rng.u32(..9_000_000)).into()))
            }
            _ => Some(Cell::Int(self.rng.i64(10_000..5_000_000_000))),
        };
        self.put(&mut record, "revenue", revenue);
        let [country, _, _] = self.one(&words::CITIES);
        self.text(&mut record, "hqCountry", country);
        self.maybe(&mut record, 85, "yearFounded", |rng| Cell::Int(rng.i64(1850..2026)));
        self.owner(&mut record);
        self.maybe(&mut record, 50, "logo", |_| Cell::Text(format!("https://cdn.example/{host}.png").into()));
        self.enrichment(&mut record, updated);
        if self.chance(70) {
            let sent = self.ago(HISTORY / 4);
            self.put(&mut record, "lastMessageSentAt", Cell::Time(sent));
            self.put(&mut record, "lastInteractionAt", Cell::Time(sent));
        }
        if self.chance(60) {
            let score = f64::from(self.rng.u32(..1000)) / 1000.0;
            self.put(&mut record, "customerFitScore", real(score));
            self.word(&mut record, "customerFitScoreReason", &words::SENTENCES);
        }
        if self.chance(90) {
            let www = if self.chance(50) { "www." } else { "" };
            self.text(&mut record, "websiteUrl", format!("https://{www}{host}.example/"));
            self.text(&mut record, "domain", format!("{host}.example"));
        }
        self.notes(&mut record, updated);
        self.customs(&mut record, Object::Company);
        self.companies.push((id, name));
        self.world.table_mut(Resource::Companies).put(record);
    }

    fn enrichment(&mut self, record: &mut WorldRecord, updated: Instant) {
        if self.word(record, "enrichmentStatus", &words::ENRICHMENT) == "completed" {
            self.put(record, "enrichmentAt", Cell::Time(updated));
        }
    }

    fn notes(&mut self, record: &mut WorldRecord, updated: Instant) {
        if self.chance(40) {
            let notes = long_text(&mut self.rng);
            self.text(record, "notes", notes);
            self.put(record, "notesAt", Cell::Time(updated));
        }
    }

    fn contact(&mut self, n: usize) {
        let mut record = WorldRecord::new(self.world.new_id(Resource::Contacts).into());
        let updated = self.dates(&mut record, n);
        let [first, last, country] = self.one(&words::PEOPLE);
        self.text(&mut record, "name", format!("{first} {last}"));
        self.text(&mut record, "firstName", first);
        self.text(&mut record, "lastName", last);
        if self.chance(95) {
            // A duplicate in capitals, as workspaces often have.
            let email = match n % 150 {
                149 => format!("CONTACT{}@mail{}.example", n - 1, (n - 1) % 40),
                _ => format!("contact{n}@mail{}.example", n % 40),
            };
            self.text(&mut record, "email", email);
        }
        let mobile = format!("+{}", 440_000_000_000 + n as u64 * 37);
        self.maybe(&mut record, 60, "mobile", |_| Cell::Text(mobile.into()));
        if self.chance(85) {
            self.word(&mut record, "position", &words::POSITIONS);
        }
        if self.chance(70) && !self.companies.is_empty() {
            let (id, name) = self.companies[self.rng.usize(..self.companies.len())].clone();
            self.text(&mut record, "company", name);
            self.text(&mut record, "companyId", id.to_string());
        }
        self.owner(&mut record);
        self.maybe(&mut record, 75, "qualification", |rng| Cell::Bool(rng.bool()));
        if self.chance(50) {
            self.word(&mut record, "intentType", &words::INTENTS);
            self.word(&mut record, "intentLevel", &words::LEVELS);
            self.put(&mut record, "intentInferredAt", Cell::Time(updated));
        }
        if self.chance(65) {
            let last = self.ago(HISTORY / 2);
            self.put(&mut record, "lastInteractionAt", Cell::Time(last));
            self.put(&mut record, "lastMessageReceivedAt", Cell::Time(last));
        }
        self.enrichment(&mut record, updated);
        let [_, region, city] = self.one(&words::CITIES);
        self.text(&mut record, "location.country", country);
        if self.chance(80) {
            self.text(&mut record, "location.region", region);
            self.text(&mut record, "location.city", city);
        }
        self.contact_detail(&mut record, updated);
        self.customs(&mut record, Object::Contact);
        self.world.table_mut(Resource::Contacts).put(record);
    }

    fn contact_detail(&mut self, record: &mut WorldRecord, updated: Instant) {
        let [_, industry] = self.one(&words::COMPANY_KINDS);
        self.text(record, "industry", industry);
        self.word(record, "language", &words::LANGUAGES);
        self.word(record, "timezone", &words::ZONES);
        self.word(record, "recordSource", &words::SOURCES);
        self.notes(record, updated);
        if self.chance(20) {
            let score = self.rng.i64(0..101);
            self.put(record, "score", Cell::Int(score));
            self.word(record, "reasoning", &words::SENTENCES);
            let confidence = f64::from(self.rng.u32(..100)) / 100.0;
            self.put(record, "qualificationConfidence", real(confidence));
        }
        if self.chance(30) {
            self.word(record, "sessionSummaryDiscussed", &words::SENTENCES);
            let requests = self.one(&words::SENTENCES);
            self.put(record, "sessionSummaryRequests", Cell::List([requests.into()].into()));
            self.put(record, "sessionSummaryAt", Cell::Time(updated));
        }
        let never = self.chance(5);
        self.put(record, "doNotContact", Cell::Bool(never));
        if never {
            self.put(record, "doNotContactAt", Cell::Time(updated));
            self.text(record, "doNotContactReason", "asked not to be contacted");
        }
        self.word(record, "emailMarketingConsentStatus", &words::CONSENT);
        self.put(record, "emailMarketingConsentUpdatedAt", Cell::Time(updated));
        self.word(record, "whatsappMarketingConsentStatus", &words::CONSENT);
        self.put(record, "consentUpdatedAt", Cell::Time(updated));
        let channels: Vec<Box<str>> =
            words::CHANNELS.iter().filter(|_| self.rng.bool()).map(|channel| Box::from(*channel)).collect();
        self.put(record, "contactable", Cell::Bool(!channels.is_empty()));
        self.put(record, "contactableChannels", Cell::List(channels.into()));
        self.word(record, "emailReachabilityStatus", &words::REACHABILITY);
        self.put(record, "contactabilityUpdatedAt", Cell::Time(updated));
    }
}

pub(crate) fn listed_field([object, key, label, data_type, options]: [&str; 5]) -> Option<NewField> {
    let options: Vec<&str> = options.split(", ").filter(|option| !option.is_empty()).collect();
    Some(NewField::new(object.parse().ok()?, key, DataType::from_name(data_type)).label(label).options(&options))
}

fn define(world: &mut World, base: Instant, rng: &mut Rng) -> Vec<u32> {
    let mut percentages = Vec::new();
    for [object, key, label, data_type, filled, status, options] in words::FIELDS.iter().copied() {
        let Some(mut field) = listed_field([object, key, label, data_type, options]) else { continue };
        let created = base.minus(Duration::from_secs(rng.u64(86_400..40_000_000)));
        field.0.created_at = Some(created);
        field.0.updated_at = Some(created);
        field.0.active = status == "active";
        field.0.archived_at = (!field.0.active).then_some(base.minus(Duration::from_secs(86_400)));
        percentages.push(filled.parse().unwrap_or(0));
        world.fields().define(field);
    }
    percentages
}

fn value(field: &CustomDefinition, rng: &mut Rng, base: Instant) -> Cell {
    let boxed = |option: &Choice| Box::from(option.value.as_str());
    match field.kind() {
        LongText => Cell::Text(long_text(rng).into()),
        Integer => match rng.u32(..500) {
            0 => Cell::Int(i64::MAX),
            1 => Cell::Int(i64::MIN),
            _ => Cell::Int(rng.i64(-20..1000)),
        },
        Decimal => match rng.u32(..40) {
            0 => Cell::Text(words::DECIMALS[rng.usize(..words::DECIMALS.len())].into()),
            _ => Cell::Text(format!("{}.{:02}", rng.i64(-5000..900_000), rng.u32(..100)).into()),
        },
        Boolean => Cell::Bool(rng.bool()),
        Date => Cell::Text(format!("{}-{:02}-{:02}", rng.u32(1940..2030), rng.u32(1..13), rng.u32(1..29)).into()),
        DateTime => Cell::Time(base.plus(Duration::from_secs(rng.u64(..30_000_000)))),
        SingleSelect => Cell::Text(field.options[rng.usize(..field.options.len())].value.clone().into()),
        MultiSelect => {
            let mut chosen: Vec<Box<str>> = field.options.iter().filter(|_| rng.bool()).map(boxed).collect();
            if chosen.is_empty() {
                chosen.extend(field.options.first().map(boxed));
            }
            Cell::List(chosen.into())
        }
        _ => Cell::Text(
            format!("{} {}", words::COMPANIES[rng.usize(..words::COMPANIES.len())], rng.u32(..10_000)).into(),
        ),
    }
}

/// A few sentences; one text in two hundred is as long as texts can be.
pub(crate) fn long_text(rng: &mut Rng) -> String {
    let most = if rng.u32(..200) == 0 { 10_000 } else { 40 + rng.usize(..300) };
    let mut text = String::new();
    let mut characters = 0;
    loop {
        let sentence = words::SENTENCES[rng.usize(..words::SENTENCES.len())];
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
