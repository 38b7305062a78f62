//! The full-text search document of a record: which texts belong to which column of the search table, and the resulting
//! statements.

use crate::model::{CustomFields, DataType, Object};

/// A column of a search table and its texts: `r.` is the record, `d.` its detail. The columns have the same order as in
/// `schema/`, after `record_id`; the last one contains the custom texts.
type Texts = (&'static str, &'static [&'static str]);

const CONTACT: &[Texts] = &[
    ("name", &["r.name", "r.first_name", "r.last_name"]),
    ("email", &["r.email"]),
    ("company", &["r.company"]),
    ("position", &["r.position"]),
    ("notes", &["d.notes"]),
    ("summaries", &["d.session_summary_discussed", "d.session_summary_requests"]),
    ("custom", &[]),
];

const COMPANY: &[Texts] = &[
    ("name", &["r.name"]),
    ("company", &["r.registered_name", "r.website_url"]),
    ("notes", &["d.notes"]),
    ("custom", &[]),
];

#[derive(Clone, Debug)]
pub struct Document {
    /// The columns of the record and of its detail that are searched.
    searched: [Vec<String>; 2],
    /// The custom texts, each with its table: an index that was built with others is out of date.
    pub custom: Vec<String>,
    /// Adds the document of every record, each under `?1` and its row number.
    pub insert_all: String,
    /// Adds the document `?1` of the record `?2`.
    pub insert: String,
    /// Makes the document `?1` that of the record `?2`.
    pub update: String,
    /// The first document behind `?1` that is not that of its record, by its number and the record's id; `?2` says whether of companies.
    pub next_outdated: String,
}

impl Document {
    pub fn new(object: Object, fields: &CustomFields) -> Document {
        let custom: Vec<String> = fields
            .fields()
            .iter()
            .filter(|f| matches!(f.data_type, DataType::ShortText | DataType::LongText))
            .map(|f| format!("{}.{}", if f.data_type.detail_only() { "d" } else { "r" }, f.column))
            .collect();
        let texts = object.pick(CONTACT, COMPANY);
        let sources = texts.iter().flat_map(|(_, texts)| texts.iter().map(ToString::to_string));
        let sources: Vec<String> = sources.chain(custom.iter().cloned()).collect();
        let of = |alias: &str| sources.iter().filter_map(|text| text.strip_prefix(alias)).map(String::from).collect();
        let columns = texts.iter().map(|(name, texts)| (*name, value(texts, &custom)));
        let (names, values): (Vec<&str>, Vec<String>) = columns.unzip();
        let of_search = names.iter().map(|name| format!("s.{name}")).collect::<Vec<_>>().join(", ");
        let (names, values, search) = (names.join(", "), values.join(", "), object.search_table());
        let records = format!(
            "{} AS r LEFT JOIN {} AS d ON d.{} = r.id",
            object.table(),
            object.detail_table(),
            object.detail_key()
        );
        let insert = format!("INSERT INTO {search} (rowid, record_id, {names}) SELECT");
        Document {
            searched: [of("r."), of("d.")],
            insert_all: format!("{insert} ?1 + r.rowid, r.id, {values} FROM {records} ORDER BY r.rowid"),
            insert: format!("{insert} ?1, r.id, {values} FROM {records} WHERE r.id = ?2"),
            update: format!(
                "UPDATE {search} SET ({names}) = (SELECT {values} FROM {records} WHERE r.id = ?2) WHERE rowid = ?1"
            ),
            next_outdated: format!(
                "SELECT m.docid, m.record_id FROM search_documents AS m
                 CROSS JOIN {search} AS s ON s.rowid = m.docid CROSS JOIN {records}
                 WHERE r.id = m.record_id AND m.docid > ?1 AND +m.is_company = ?2 AND ({of_search}) IS NOT ({values})
                 ORDER BY m.docid LIMIT 1"
            ),
            custom,
        }
    }

    pub fn takes(&self, detail: bool, column: &str) -> bool {
        self.searched[usize::from(detail)].iter().any(|name| name == column)
    }
}

/// The most texts that one call takes: SQLite allows few arguments more.
const MAX_TEXTS: usize = 100;

/// Texts as one, a line each; NULL if there are none.
fn lines(texts: &[impl AsRef<str>]) -> String {
    let some = |texts: &[String]| format!("nullif(concat_ws('\n', {}), '')", texts.join(", "));
    let mut texts: Vec<String> = texts.iter().map(|text| text.as_ref().to_string()).collect();
    while texts.len() > MAX_TEXTS {
        texts = texts.chunks(MAX_TEXTS).map(some).collect();
    }
    if texts.is_empty() { "NULL".into() } else { some(&texts) }
}

/// The value of a column: its texts, but the first alone where it says what all others do, as a full name beside first and
/// last name; or else the custom texts.
fn value(texts: &[&str], custom: &[String]) -> String {
    match texts {
        [] => lines(custom),
        [text] => (*text).into(),
        [first, others @ ..] => {
            format!("CASE WHEN {first} = concat_ws(' ', {}) THEN {first} ELSE {} END", others.join(", "), lines(texts))
        }
    }
}
