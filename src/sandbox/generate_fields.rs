//! The custom fields of a generated workspace, and values for them.

use std::time::Duration;

use fastrand::Rng;

use crate::model::{DataType, Instant, Object};

use super::cell::Cell;
use super::definition::NewField;
use super::words;
use super::world::World;

use DataType::{Boolean, Date, DateTime, Decimal, Integer, LongText, MultiSelect, ShortText, SingleSelect};

pub(crate) struct FieldShape {
    pub(crate) object: Object,
    pub(crate) place: u32,
    /// The percentage of records that have a value.
    pub(crate) filled: u32,
    data_type: DataType,
    options: Vec<Box<str>>,
}

/// Key, label, type, options, how many percent have a value, and whether the field is archived.
type FieldLine = (&'static str, &'static str, DataType, &'static [&'static str], u32, bool);

const TIERS: &[&str] = &["gold=Gold", "silver=Silver", "bronze=Bronze"];
const TOPICS: &[&str] = &["pricing=Pricing", "api=API", "support=Support", "größe=Größe", "日本=日本"];
const REGIONS: &[&str] = &["emea=EMEA", "apac=APAC", "amer=Americas"];

const CONTACT: &[FieldLine] = &[
    ("nickname", "Nickname", ShortText, &[], 40, false),
    ("customer-ref", "Customer reference", ShortText, &[], 70, false),
    ("background", "Background", LongText, &[], 15, false),
    ("children", "Children", Integer, &[], 30, false),
    ("lifetime_value", "Lifetime value", Decimal, &[], 60, false),
    ("newsletter", "Newsletter", Boolean, &[], 80, false),
    ("birthday", "Birthday", Date, &[], 35, false),
    ("next call", "Next call", DateTime, &[], 25, false),
    ("tier", "Tier", SingleSelect, TIERS, 75, false),
    ("topics", "Topics", MultiSelect, TOPICS, 45, false),
    ("Überweisung", "Überweisung", Decimal, &[], 10, false),
    ("Tier", "Tier (old spelling)", ShortText, &[], 5, false),
    ("fax", "Fax", ShortText, &[], 20, true),
];

const COMPANY: &[FieldLine] = &[
    ("account_code", "Account code", ShortText, &[], 90, false),
    ("strategy", "Strategy", LongText, &[], 20, false),
    ("offices", "Offices", Integer, &[], 50, false),
    ("credit_limit", "Credit limit", Decimal, &[], 55, false),
    ("public", "Listed", Boolean, &[], 60, false),
    ("contract_end", "End of contract", Date, &[], 40, false),
    ("last_audit", "Last audit", DateTime, &[], 30, false),
    ("region", "Region", SingleSelect, REGIONS, 80, false),
    ("markets", "Markets", MultiSelect, REGIONS, 50, false),
    ("telex", "Telex", ShortText, &[], 10, true),
];

/// Defines the fields, spread over the months before `base`.
pub(crate) fn define(world: &mut World, base: Instant, rng: &mut Rng) -> Vec<FieldShape> {
    let mut shapes = Vec::new();
    for (object, lines) in [(Object::Contact, CONTACT), (Object::Company, COMPANY)] {
        for (key, label, data_type, options, filled, archived) in lines {
            let created = base.minus(Duration::from_secs(rng.u64(86_400..40_000_000)));
            let mut field = NewField::new(object, key, *data_type).label(label).options(options);
            field.0.created_at = Some(created);
            field.0.updated_at = Some(created);
            field.0.active = !archived;
            field.0.archived_at = archived.then_some(base.minus(Duration::from_secs(86_400)));
            shapes.push(FieldShape {
                object,
                place: world.definitions().len() as u32,
                filled: *filled,
                data_type: *data_type,
                options: field.0.options.iter().map(|option| option.value.as_str().into()).collect(),
            });
            world.fields().define(field);
        }
    }
    shapes
}

impl FieldShape {
    pub(crate) fn value(&self, rng: &mut Rng, base: Instant) -> Cell {
        match self.data_type {
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
            SingleSelect => Cell::Text(self.options[rng.usize(..self.options.len())].to_string().into()),
            MultiSelect => {
                let mut chosen: Vec<Box<str>> = self.options.iter().filter(|_| rng.bool()).cloned().collect();
                if chosen.is_empty() {
                    chosen.extend(self.options.first().cloned());
                }
                Cell::List(chosen.into())
            }
            _ => Cell::Text(
                format!("{} {}", words::COMPANIES[rng.usize(..words::COMPANIES.len())], rng.u32(..10_000)).into(),
            ),
        }
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
