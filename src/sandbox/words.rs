//! Words of generated records, from `words.txt`. Those of the first lists have many locales, many scripts, and a few texts
//! that break careless code; those of the `plain` lists match each other.

use std::array;
use std::sync::LazyLock;

const FILE: &str = include_str!("words.txt");

pub(crate) type Words<T = &'static str> = LazyLock<Vec<T>>;

pub(crate) static PEOPLE: Words<[&str; 3]> = Words::new(|| rows("people"));
pub(crate) static CITIES: Words<[&str; 3]> = Words::new(|| rows("cities"));
pub(crate) static COMPANIES: Words = Words::new(|| words("companies"));
pub(crate) static COMPANY_KINDS: Words<[&str; 2]> = Words::new(|| rows("company kinds"));
pub(crate) static LEGAL: Words = Words::new(|| words("legal"));
pub(crate) static POSITIONS: Words = Words::new(|| words("positions"));
pub(crate) static SENTENCES: Words = Words::new(|| {
    words("sentences").into_iter().map(|text| &*text.replace("\\n", "\n").replace("\\t", "\t").leak()).collect()
});
pub(crate) static LANGUAGES: Words = Words::new(|| words("languages"));
pub(crate) static ZONES: Words = Words::new(|| words("zones"));
pub(crate) static INTENTS: Words = Words::new(|| words("intents"));
pub(crate) static LEVELS: Words = Words::new(|| words("levels"));
pub(crate) static ENRICHMENT: Words = Words::new(|| words("enrichment"));
pub(crate) static CONSENT: Words = Words::new(|| words("consent"));
pub(crate) static REACHABILITY: Words = Words::new(|| words("reachability"));
pub(crate) static CHANNELS: Words = Words::new(|| words("channels"));
pub(crate) static SOURCES: Words = Words::new(|| words("sources"));
/// Decimals that a double cannot represent, and some that a 28-digit decimal cannot represent.
pub(crate) static DECIMALS: Words = Words::new(|| words("decimals"));

/// Object, key, label and type of a custom field, how many percent of the records have a value, its status, and its
/// options.
pub(crate) static FIELDS: Words<[&str; 7]> = Words::new(|| rows("fields"));

pub(crate) static COUNTRIES: Words<Country> = Words::new(countries);
/// The last word of a name, the industry, and the revenue of one employee.
pub(crate) static INDUSTRIES: Words<[&str; 3]> = Words::new(|| rows("plain industries"));
pub(crate) static STEMS: Words = Words::new(|| words("plain stems"));
pub(crate) static PLAIN_POSITIONS: Words = Words::new(|| words("plain positions"));
/// Object, key, label, type and options of a custom field.
pub(crate) static PLAIN_FIELDS: Words<[&str; 5]> = Words::new(|| rows("plain fields"));
pub(crate) static NOTES: Words = Words::new(|| words("plain notes"));

#[derive(Debug)]
pub(crate) struct Country {
    pub(crate) code: &'static str,
    pub(crate) language: &'static str,
    pub(crate) zone: &'static str,
    pub(crate) dialling: &'static str,
    pub(crate) legal: &'static str,
    pub(crate) cities: Vec<(&'static str, &'static str)>,
    pub(crate) first: Vec<&'static str>,
    pub(crate) last: Vec<&'static str>,
}

fn countries() -> Vec<Country> {
    let of = |[code, language, zone, dialling, legal, cities, first, last]: [&'static str; 8]| Country {
        code,
        language,
        zone,
        dialling,
        legal,
        cities: cities.split(", ").filter_map(|city| city.split_once('/')).collect(),
        first: first.split(", ").collect(),
        last: last.split(", ").collect(),
    };
    rows("plain countries").into_iter().map(of).collect()
}

fn words(list: &str) -> Vec<&'static str> {
    rows(list).into_iter().map(|[word]| word).collect()
}

/// The entries of a list, each with its first fields.
fn rows<const N: usize>(list: &str) -> Vec<[&'static str; N]> {
    let entries = FILE.lines().skip_while(|line| line.strip_prefix('#') != Some(list)).skip(1);
    let entries = entries.take_while(|line| !line.is_empty());
    let fields = |line: &'static str| {
        let mut fields = line.split(" | ");
        array::from_fn(|_| fields.next().unwrap_or_default())
    };
    entries.map(fields).collect()
}
