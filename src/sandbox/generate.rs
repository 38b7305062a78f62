//! Workspaces from a seed: the same seed gives the same workspace, byte for byte.
//!
//! `workspaces.txt` says what the records of both styles consist of, and how its templates are written. The plain one
//! is realistic, for demonstrations and the tests of applications. The nasty one contains the edge cases of real
//! workspaces: imports that share one `updatedAt`, missing timestamps, names in every script, texts of ten thousand
//! characters, decimals beyond a double, dangling owners, archived fields, and values of all nine types.

use std::collections::BTreeMap;
use std::time::Duration;

use fastrand::Rng;
use serde_json::Value;

use super::definition::CustomDefinition;
use super::world::World;
use crate::model::editable::LONG_TEXT;
use crate::model::{Instant, Resource};

const FILE: &str = include_str!("workspaces.txt");
const DAY: u64 = 86_400;

/// Records are created within the last two years.
const HISTORY: u64 = 2 * 365 * DAY;

/// Makes a nasty workspace whose latest change is not after `base_time`.
pub fn generate(seed: u64, contacts: usize, companies: usize, base_time: Instant) -> World {
    Maker::new(seed, base_time, "nasty").workspace(contacts, companies)
}

pub(crate) fn generate_plain(seed: u64, contacts: usize, companies: usize, base_time: Instant) -> World {
    Maker::new(seed, base_time, "plain").workspace(contacts, companies)
}

struct Maker {
    rng: Rng,
    world: World,
    base: Instant,
    style: &'static str,
    /// The entries of each list, and of the records that others refer to.
    lists: BTreeMap<&'static str, Vec<String>>,
    /// The place of the entry of each list that the record has.
    chosen: BTreeMap<String, usize>,
    /// What the templates set, in the form that it has in JSON.
    names: BTreeMap<String, String>,
}

impl Maker {
    fn new(seed: u64, base_time: Instant, style: &'static str) -> Maker {
        let section = |text: &'static str| {
            let (name, entries) = text.split_once('\n')?;
            let entries = entries.lines().map(|line| line.replace("\\n", "\n").replace("\\t", "\t"));
            Some((name, entries.collect()))
        };
        Maker {
            rng: Rng::with_seed(seed),
            world: World::new(base_time),
            base: base_time.whole_second(),
            style,
            lists: FILE.split("\n\n").filter_map(|text| section(text.strip_prefix('#')?)).collect(),
            chosen: BTreeMap::new(),
            names: BTreeMap::new(),
        }
    }

    fn workspace(mut self, contacts: usize, companies: usize) -> World {
        self.define();
        for n in 0..6 + companies.min(4000) / 100 {
            self.record(Resource::TeamMembers, "member", n);
        }
        (0..companies).for_each(|n| self.record(Resource::Companies, "company", n));
        (0..contacts).for_each(|n| self.record(Resource::Contacts, "contact", n));
        // A replica that lags has the records too.
        self.world.undo.clear();
        self.world
    }

    fn entries(&self, list: &str) -> Vec<String> {
        self.lists.get(list).cloned().unwrap_or_default()
    }

    fn define(&mut self) {
        let defined = self.entries(&format!("{} fields", self.style)).into_iter();
        let defined = defined.filter_map(|line| CustomDefinition::from_json(&serde_json::from_str(&line).ok()?).ok());
        for (n, mut field) in (0..).zip(defined) {
            // In this order: the first of two similar keys gets the column with their name.
            let created = self.base.minus(Duration::from_secs(HISTORY + 90 * DAY)).plus(Duration::from_secs(n * DAY));
            (field.created_at, field.updated_at) = (Some(created.to_wire()), Some(created.to_wire()));
            field.archived_at = (!field.is_active()).then(|| self.base.minus(Duration::from_secs(DAY)).to_wire());
            self.world.fields().define(field);
        }
    }

    /// When a record was created and updated. Every fourth nasty record shares its timestamp with others of an import.
    fn dates(&mut self, n: usize) -> (Instant, Instant) {
        let is_nasty = self.style == "nasty";
        let ago = self.rng.u64(if is_nasty { 0 } else { 40 * DAY }..HISTORY);
        let created = self.base.minus(Duration::from_secs(ago));
        let span = self.base.since(created).as_secs();
        let updated = created.plus(Duration::from_millis(self.rng.u64(..span.max(1) * 1000)));
        if !is_nasty || !n.is_multiple_of(4) {
            return (created, updated);
        }
        let import = (n / 400 % 50) as u64;
        (created, updated.max(self.base.minus(Duration::from_secs(3600 * (1 + import)))))
    }

    fn record(&mut self, resource: Resource, kind: &'static str, n: usize) {
        self.chosen.clear();
        let (created, updated) = self.dates(n);
        for (name, value) in [("n", n.to_string()), ("created", created.to_wire()), ("updated", updated.to_wire())] {
            self.names.insert(name.to_string(), value);
        }
        let mut members = Vec::new();
        for line in self.entries(&format!("{} {kind}", self.style)) {
            let (share, template) = line.split_once(' ').unwrap_or_default();
            let applies = match share.strip_prefix('@').and_then(|every| every.parse::<usize>().ok()) {
                Some(every) => n % every == every - 1,
                None => self.rng.u32(..100) < share.parse().unwrap_or(0),
            };
            let Some(text) = applies.then(|| self.filled(template)).flatten() else { continue };
            match text.strip_prefix('$').and_then(|setting| setting.split_once('=')) {
                Some((name, value)) => drop(self.names.insert(name.to_string(), value.to_string())),
                None => members.push(text),
            }
        }
        let id = self.world.create_from(resource, &format!("{{{}}}", members.join(", ")));
        let columns = self.names.remove("row").map(|row| format!(" | {row}")).unwrap_or_default();
        if resource != Resource::Contacts {
            self.lists.entry(kind).or_default().push(format!("{id}{columns}"));
        }
    }

    /// A template with its parts in `<…>` replaced; `None` if one of them has no value.
    fn filled(&mut self, template: &str) -> Option<String> {
        let mut parts = template.split(['<', '>']);
        let mut text = parts.next()?.to_string();
        while let Some(part) = parts.next() {
            text.push_str(&self.value(part)?);
            text.push_str(parts.next().unwrap_or_default());
        }
        Some(text)
    }

    /// The value of a part, in the form that it has inside a JSON string.
    fn value(&mut self, part: &str) -> Option<String> {
        if let Some(value) = self.names.get(part) {
            return Some(value.clone());
        }
        match part.split_once(' ').unwrap_or((part, "")) {
            ("long", list) => {
                let text: String = self.entries(list).join(" ").chars().cycle().take(LONG_TEXT).collect();
                Some(escaped(&text))
            }
            ("some", list) => self.some(list),
            ("any", of) => {
                let of = self.value(of)?;
                let choices: Vec<&str> = of.split(", ").collect();
                Some(choices[self.rng.usize(..choices.len())].to_string())
            }
            ("time", range) => self.time(range),
            ("day", of) => self.value(of)?.split('T').next().map(String::from),
            ("head", of) => self.value(of)?.split('/').next().map(String::from),
            ("tail", of) => self.value(of)?.split('/').nth(1).map(String::from),
            ("upper", of) => Some(self.value(of)?.to_uppercase()),
            ("ascii", of) => Some(ascii(&self.value(of)?)),
            _ if part.contains("..") || part.trim_start_matches('-').contains(OPERATORS) => {
                Some(self.number(part)?.to_string())
            }
            _ => self.column(part),
        }
    }

    fn column(&mut self, part: &str) -> Option<String> {
        let (list, column) = part.split_once('.').unwrap_or((part, "1"));
        let entries = self.lists.get(list).filter(|entries| !entries.is_empty())?;
        let place = match self.chosen.get(list) {
            Some(place) => *place,
            // The first companies have more people than the last, and some have none.
            None if list == "company" => self.rng.usize(..entries.len()).min(self.rng.usize(..entries.len())),
            None => self.rng.usize(..entries.len()),
        };
        self.chosen.insert(list.to_string(), place);
        let entry = &entries[place];
        let text = if column == "all" { entry } else { entry.split(" | ").nth(column.parse::<usize>().ok()? - 1)? };
        Some(escaped(text)).filter(|text| !text.is_empty())
    }

    fn number(&mut self, part: &str) -> Option<i64> {
        if let Some((low, high)) = part.split_once("..") {
            let (low, high) = (self.number(low)?, self.number(high)?);
            return Some(self.rng.i64(low..high));
        }
        let Some(at) = part.rfind(OPERATORS).filter(|at| *at > 0) else {
            return part.parse().ok().or_else(|| self.value(part)?.parse().ok());
        };
        let (left, right) = (self.number(&part[..at])?, self.number(&part[at + 1..])?);
        match &part[at..=at] {
            "+" => left.checked_add(right),
            "-" => left.checked_sub(right),
            "*" => left.checked_mul(right),
            "/" => left.checked_div(right),
            _ => left.checked_rem(right),
        }
    }

    fn time(&mut self, range: &str) -> Option<String> {
        let seconds = self.number(range)?;
        let by = Duration::from_secs(seconds.unsigned_abs());
        Some(if seconds < 0 { self.base.minus(by) } else { self.base.plus(by) }.to_wire())
    }

    fn some(&mut self, list: &str) -> Option<String> {
        let mut entries = self.entries(list);
        let first = entries.first().cloned();
        entries.retain(|_| self.rng.bool());
        entries.extend(first.filter(|_| entries.is_empty()));
        Some(Value::from(entries).to_string())
    }
}

const OPERATORS: [char; 5] = ['+', '-', '*', '/', '%'];

fn escaped(text: &str) -> String {
    let json = Value::from(text).to_string();
    json[1..json.len() - 1].to_string()
}

/// A name in the form of an address: lower case, letters and digits.
fn ascii(name: &str) -> String {
    let accents = || "áäãéèíîóöõúüñç".chars().zip("aaaeeiiooouunc".chars());
    let folded = |c| accents().find(|(accented, _)| *accented == c).map_or(c, |(_, plain)| plain);
    name.to_lowercase().chars().map(folded).filter(char::is_ascii_alphanumeric).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::Object;

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

    #[test]
    fn every_member_of_a_template_is_a_field() {
        for style in ["nasty", "plain"] {
            let mut maker = Maker::new(1, "2026-03-01T12:00:00Z".parse().unwrap(), style);
            maker.define();
            for (resource, kind) in
                [(Resource::TeamMembers, "member"), (Resource::Companies, "company"), (Resource::Contacts, "contact")]
            {
                for n in (0..150).chain([399, 499, 996, 1498]) {
                    maker.record(resource, kind, n);
                }
                assert_eq!(maker.world.count(resource), 154);
                let unknown = maker.world.table(resource).iter().find(|record| !record.raw.is_empty());
                assert!(unknown.is_none(), "{unknown:?}");
            }
        }
    }

    #[test]
    fn plain_workspace_is_consistent_and_determined_by_its_seed() {
        let base: Instant = "2026-03-01T12:00:00Z".parse().unwrap();
        let world = generate_plain(5, 200, 30, base);
        let again = generate_plain(5, 200, 30, base);
        let countries = Maker::new(5, base, "plain").entries("countries");
        for id in world.ids(Resource::Contacts) {
            let contact = world.detail_json(Object::Contact, &id).unwrap();
            assert_eq!(Some(&contact), again.detail_json(Object::Contact, &id).as_ref());
            let of_code = |country: &&String| country.split(" | ").next() == contact["location"]["country"].as_str();
            let country: Vec<&str> = countries.iter().find(of_code).unwrap().split(" | ").collect();
            let place = format!("{}/{}", contact["location"]["region"], contact["location"]["city"]).replace('"', "");
            assert!(country[6].split(", ").any(|known| known == place), "{contact}");
            assert_eq!(contact["timezone"], country[2]);
            if let Some(employer) = contact["companyId"].as_str() {
                let employer = world.detail_json(Object::Company, employer).unwrap();
                assert_eq!(employer["name"], contact["company"]);
                assert_eq!(employer["hqCountry"], contact["location"]["country"]);
            }
            let value: f64 = contact["customFields"]["lifetime_value"].as_str().unwrap().parse().unwrap();
            assert!((200.0..80_001.0).contains(&value), "{contact}");
            assert!(contact["etag"].as_str().unwrap().contains(contact["updatedAt"].as_str().unwrap()));
        }
        for id in world.ids(Resource::Companies) {
            let company = world.detail_json(Object::Company, &id).unwrap();
            let each = company["revenue"].as_i64().unwrap() / company["employeeCount"].as_i64().unwrap();
            assert!((50_000..=300_000).contains(&each), "{company}");
        }
    }
}
