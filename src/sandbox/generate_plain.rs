//! A plain workspace from a seed, for demonstrations and the tests of applications.
//!
//! Names are common, places and languages match the country, companies have a fitting industry, and amounts are
//! realistic. As everywhere, some records have no owner, some people left or do not want to be contacted, and some
//! companies have a name only. The other generator makes edge cases on purpose.

use std::time::Duration;

use serde_json::{Value, json};

use crate::model::{Instant, Object, Resource};

use super::generate::{Maker, etag, listed_field};
use super::words::{
    COUNTRIES, Country, ENRICHMENT, INDUSTRIES, INTENTS, LEVELS, NOTES, PLAIN_FIELDS, PLAIN_POSITIONS, SOURCES, STEMS,
};
use super::world::World;

const DAY: u64 = 86_400;

struct Employer {
    id: String,
    name: String,
    domain: String,
    industry: &'static str,
    country: usize,
}

pub(crate) fn generate(seed: u64, contacts: usize, companies: usize, base_time: Instant) -> World {
    let mut maker = Maker::new(seed, base_time);
    maker.plain_fields();
    for n in 0..6 {
        maker.plain_member(n);
    }
    let employers: Vec<Employer> = (0..companies).map(|n| maker.plain_company(n)).collect();
    // The address of a person who is entered again.
    let mut twice = String::new();
    for n in 0..contacts {
        maker.plain_contact(n, &employers, &mut twice);
    }
    maker.finish()
}

impl Maker {
    fn plain_dates(&mut self, record: &mut Value) -> Instant {
        let created = self.ago(40 * DAY..730 * DAY);
        let since = self.base.since(created).as_secs();
        let updated = created.plus(Duration::from_secs(self.rng.u64(0..since.max(1))));
        record["createdAt"] = created.to_wire().into();
        record["updatedAt"] = updated.to_wire().into();
        record["etag"] = etag(&updated.to_wire()).into();
        updated
    }

    fn plain_owner(&mut self) -> Option<&str> {
        if self.chance(8) { None } else { Some(&self.members[self.rng.usize(..self.members.len())]) }
    }

    fn plain_fields(&mut self) {
        let at = self.base.minus(Duration::from_secs(800 * DAY));
        for mut field in PLAIN_FIELDS.iter().copied().filter_map(listed_field) {
            (field.0.created_at, field.0.updated_at) = (Some(at), Some(at));
            self.world.fields().define(field);
        }
    }

    fn plain_member(&mut self, n: usize) {
        let country = &COUNTRIES[0];
        let (first, last) = (country.first[n % country.first.len()], self.one(&country.last));
        let mut member = json!({
            "firstName": first, "lastName": last, "username": format!("{}.{}", plain(first), plain(last)),
            "email": format!("{}.{}@crm.example", plain(first), plain(last)), "status": if n == 5 { "INACTIVE" } else { "ACTIVE" },
        });
        self.plain_dates(&mut member);
        self.members.push(self.world.create(Resource::TeamMembers, &member).to_string());
    }

    fn plain_company(&mut self, n: usize) -> Employer {
        let place = self.rng.usize(..COUNTRIES.len());
        let country: &Country = &COUNTRIES[place];
        let [kind, industry, revenue] = self.one(&INDUSTRIES);
        let revenue = revenue.parse().unwrap_or(100_000);
        // The combinations of stems and kinds are limited; after that a number makes names unique.
        let (stem, round) = (STEMS[n % STEMS.len()], n / STEMS.len());
        let name = if round == 0 { format!("{stem} {kind}") } else { format!("{stem} {kind} {}", round + 1) };
        let domain = format!("{}.example", plain(&name));
        let employees = self.rng.i64(8..600);
        let mut record = json!({
            "name": name, "registeredName": format!("{name} {}", country.legal), "industry": industry,
            "employeeCount": employees, "revenue": employees * revenue, "hqCountry": country.code,
            "yearFounded": self.rng.i64(1965..2022), "websiteUrl": format!("https://www.{domain}/"), "domain": domain,
            "logo": format!("https://{domain}/logo.png"), "enrichmentStatus": self.one(&ENRICHMENT),
            "customerFitScore": self.rng.i64(20..100),
            "customFields": {
                "account_code": format!("AC-{:05}", n + 1), "offices": 1 + employees / 120,
                "region": if ["US", "BR"].contains(&country.code) { "amer" } else { "emea" },
                "credit_limit": format!("{}.00", (employees * 50).clamp(1_000, 25_000)),
                "contract_end": self.base.plus(Duration::from_secs(self.rng.u64(30..700) * DAY)).to_wire()[..10],
            },
        });
        record["ownerId"] = self.plain_owner().into();
        let updated = self.plain_dates(&mut record);
        record["enrichmentAt"] = updated.to_wire().into();
        record["lastInteractionAt"] = updated.to_wire().into();
        if self.chance(50) {
            record["notes"] = self.one(&NOTES).into();
            record["notesAt"] = updated.to_wire().into();
        }
        let id = self.world.create(Object::Company, &record).to_string();
        Employer { id, name, domain, industry, country: place }
    }

    fn plain_contact(&mut self, n: usize, employers: &[Employer], twice: &mut String) {
        // The first companies have more people than the last, and some people have none.
        let companies = employers.len();
        let employer = (companies > 0).then(|| self.rng.usize(..companies).min(self.rng.usize(..companies)));
        let is_linked = !self.chance(5);
        let place = match employer {
            Some(employer) => employers[employer].country,
            None => self.rng.usize(..COUNTRIES.len()),
        };
        let country: &Country = &COUNTRIES[place];
        let (first, last) = (self.one(&country.first), self.one(&country.last));
        let (region, city) = self.one(&country.cities);
        let tier = self.one(&["gold", "silver", "bronze"]);
        let value = match tier {
            "gold" => self.rng.u32(20_000..80_000),
            "silver" => self.rng.u32(5_000..20_000),
            _ => self.rng.u32(200..5_000),
        };
        let mut record = json!({
            "name": format!("{first} {last}"), "firstName": first, "lastName": last,
            "email": format!("{}.{}{}@mail.example", plain(first), plain(last), n + 1),
            "mobile": format!("{}{}", country.dialling, 20_000_000 + n * 37 % 70_000_000), "position": self.one(&PLAIN_POSITIONS),
            "qualification": tier != "bronze", "location": {"country": country.code, "region": region, "city": city},
            "language": country.language, "timezone": country.zone, "recordSource": self.one(&SOURCES),
            "enrichmentStatus": self.one(&ENRICHMENT), "doNotContact": false, "contactable": true,
            "contactableChannels": ["email"], "emailMarketingConsentStatus": self.one(&["GRANTED", "GRANTED", "UNKNOWN"]), "emailReachabilityStatus": "REACHABLE",
            "customFields": {
                "tier": tier, "lifetime_value": format!("{value}.{:02}", self.rng.u32(..100)),
                "newsletter": self.rng.bool(), "topics": self.one(&[["pricing", "api"].as_slice(), &["support"], &["api"]]),
                "birthday": format!("19{}-{:02}-{:02}", self.rng.u32(60..100), self.rng.u32(1..13), self.rng.u32(1..29)),
            },
        });
        record["ownerId"] = self.plain_owner().into();
        let updated = self.plain_dates(&mut record);
        record["customFields"]["customer_since"] = record["createdAt"].as_str().map_or("", |at| &at[..10]).into();
        record["enrichmentAt"] = updated.to_wire().into();
        record["lastInteractionAt"] = updated.to_wire().into();
        if let Some(employer) = employer {
            let employer = &employers[employer];
            record["company"] = employer.name.as_str().into();
            record["industry"] = employer.industry.into();
            record["email"] = format!("{}.{}{}@{}", plain(first), plain(last), n + 1, employer.domain).into();
            if is_linked {
                record["companyId"] = employer.id.as_str().into();
            }
        }
        if self.chance(4) {
            record["doNotContact"] = true.into();
            record["doNotContactReason"] = "asked not to be contacted".into();
            record["doNotContactAt"] = updated.to_wire().into();
        }
        if self.chance(30) {
            record["intentType"] = self.one(&INTENTS).into();
            record["intentLevel"] = self.one(&LEVELS).into();
            record["lastMessageReceivedAt"] = updated.to_wire().into();
        }
        // Somebody was entered twice, once in capitals.
        match record["email"].as_str() {
            Some(email) if n % 150 == 148 => *twice = email.to_uppercase(),
            _ if n % 150 == 149 => record["email"] = std::mem::take(twice).into(),
            _ => {}
        }
        if self.chance(40) {
            record["notes"] = self.one(&NOTES).into();
            record["notesAt"] = updated.to_wire().into();
        }
        if self.chance(20) {
            record["customFields"]["background"] = self.one(&NOTES).into();
        }
        self.world.create(Object::Contact, &record);
    }
}

/// A name in the form of an address: lower case, letters and digits.
fn plain(name: &str) -> String {
    let folded = name.to_lowercase().replace(['á', 'ä', 'ã'], "a").replace(['é', 'è'], "e").replace('ç', "c");
    let folded =
        folded.replace(['í', 'î'], "i").replace(['ó', 'ö', 'õ'], "o").replace(['ú', 'ü'], "u").replace('ñ', "n");
    folded.chars().filter(char::is_ascii_alphanumeric).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plain_workspace_is_consistent_and_determined_by_its_seed() {
        let base: Instant = "2026-03-01T12:00:00Z".parse().unwrap();
        let world = generate(5, 200, 30, base);
        let again = generate(5, 200, 30, base);
        for id in world.ids(Resource::Contacts) {
            let contact = world.detail_json(Object::Contact, &id).unwrap();
            assert_eq!(Some(&contact), again.detail_json(Object::Contact, &id).as_ref());
            let country = COUNTRIES.iter().find(|country| contact["location"]["country"] == country.code).unwrap();
            assert!(country.cities.iter().any(|(_, city)| contact["location"]["city"] == *city), "{contact}");
            assert_eq!(contact["timezone"], country.zone);
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
