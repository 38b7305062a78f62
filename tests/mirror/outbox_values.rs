//! The fields that histories of edits change, of every type: values that are used once, the literals of SQL that write
//! them, and the literals that must be refused.

use crm_mirror::model::{DataType, Instant, Object};
use crm_mirror::outbox::typed_values::Given;
use crm_mirror::sandbox::{NewField, World};
use serde_json::{Value, json};

/// A field that is edited.
#[derive(Debug)]
pub struct EditedField {
    pub column: &'static str,
    pub wire: &'static str,
    /// The type of a custom field.
    custom: Option<DataType>,
}

impl EditedField {
    const fn standard(name: &'static str) -> EditedField {
        EditedField { column: name, wire: name, custom: None }
    }

    const fn custom(column: &'static str, wire: &'static str, data_type: DataType) -> EditedField {
        EditedField { column, wire, custom: Some(data_type) }
    }

    pub fn is_custom(&self) -> bool {
        self.custom.is_some()
    }

    /// Whether each value is used once, so that a value shows its edit.
    pub fn is_unique(&self) -> bool {
        self.custom != Some(DataType::Boolean)
    }
}

const WORD: EditedField = EditedField::custom("cf_word", "word", DataType::ShortText);
const STORY: EditedField = EditedField::custom("cf_story", "story", DataType::LongText);
static CONTACT: [EditedField; 12] = [
    EditedField::standard("position"),
    EditedField::standard("language"),
    EditedField::standard("notes"),
    WORD,
    EditedField::custom("cf_fee", "fee", DataType::Decimal),
    STORY,
    EditedField::custom("cf_count", "count", DataType::Integer),
    EditedField::custom("cf_day", "day", DataType::Date),
    EditedField::custom("cf_moment", "moment", DataType::DateTime),
    EditedField::custom("cf_choice", "choice", DataType::SingleSelect),
    EditedField::custom("cf_tags", "tags", DataType::MultiSelect),
    EditedField::custom("cf_flag", "flag", DataType::Boolean),
];
static COMPANY: [EditedField; 3] = [EditedField::standard("industry"), WORD, STORY];

/// The number of masks of fields.
pub const MASKS: u16 = 1 << CONTACT.len();
/// More values of a select field than a history uses.
const OPTIONS: u32 = 64;
/// The values of others need not differ.
const THEIRS: u32 = 8;

pub fn fields_of(object: Object) -> &'static [EditedField] {
    match object {
        Object::Contact => &CONTACT,
        Object::Company => &COMPANY,
    }
}

/// The fields of a mask; at least one.
pub fn chosen(object: Object, mask: u16) -> impl Iterator<Item = &'static EditedField> {
    let fields = fields_of(object);
    let mask = if mask.trailing_zeros() as usize >= fields.len() { 1 } else { mask };
    fields.iter().enumerate().filter(move |(n, _)| mask >> n & 1 == 1).map(|(_, field)| field)
}

/// Defines the custom fields.
pub fn define(world: &mut World) {
    for object in Object::ALL {
        for field in fields_of(object) {
            let Some(data_type) = field.custom else { continue };
            let options = (0..OPTIONS).map(|n| format!("o{n}")).chain((0..THEIRS).map(|n| format!("t{n}")));
            let options: Vec<String> = options.collect();
            let options: Vec<&str> = options.iter().map(String::as_str).collect();
            let options = if data_type.is_select() { &options[..] } else { &[] };
            world.fields().define(NewField::new(object, field.wire, data_type).options(options));
        }
    }
}

/// A day that no other number has.
fn day(begin: &str, n: u32) -> String {
    let begin: jiff::civil::Date = begin.parse().unwrap();
    begin.checked_add(jiff::Span::new().days(i64::from(n))).unwrap().to_string()
}

/// A value in the form of the service: ours, or another client's.
pub fn value(field: &EditedField, ours: bool, n: u32) -> Value {
    let who = if ours { "ours" } else { "theirs" };
    let option = format!("{}{}", &who[..1], n % if ours { OPTIONS } else { THEIRS });
    let begin = if ours { "2001-01-01" } else { "1951-01-01" };
    match field.custom {
        None | Some(DataType::ShortText | DataType::LongText) => json!(format!("{who} {n}")),
        Some(DataType::Decimal) => json!(format!("{}{n}.5", if ours { "" } else { "-" })),
        Some(DataType::Integer) => json!(if ours { i64::from(n) } else { -i64::from(n) }),
        Some(DataType::Date) => json!(day(begin, n)),
        Some(DataType::DateTime) => json!(format!("{}T12:00:00.000Z", day(begin, n))),
        Some(DataType::SingleSelect) => json!(option),
        Some(DataType::MultiSelect) => json!([option]),
        Some(DataType::Boolean) => json!(n % 2 == u32::from(ours)),
        Some(DataType::Unknown) => Value::Null,
    }
}

/// A value as given on the command line.
pub fn given(value: &Value) -> Given {
    match value {
        Value::String(text) => Given::Text(text.clone()),
        other => Given::Json(other.clone()),
    }
}

/// The `form`-th way to write our value in SQL, and the value that must arrive: `None` if the statement must be refused.
pub fn literal(field: &EditedField, n: u32, form: u8) -> (String, Option<Value>) {
    let value = value(field, true, n);
    let text = value.as_str().map_or_else(|| value.to_string(), String::from);
    let quoted = format!("'{text}'");
    let hex: String = text.bytes().map(|byte| format!("{byte:02x}")).collect();
    let exact = |sql: String| (sql, Some(value.clone()));
    let refused = |sql: String| (sql, None);
    let own = match (field.custom, form) {
        (None | Some(DataType::ShortText | DataType::LongText), 1) => exact(format!("'ours ' || {n}")),
        (None | Some(DataType::ShortText | DataType::LongText | DataType::Decimal), 2) => {
            (n.to_string(), Some(json!(n.to_string())))
        }
        (None | Some(DataType::ShortText | DataType::LongText | DataType::Decimal), 3) => refused(format!("{n}.5")),
        (Some(DataType::Decimal), 4) => refused("'12,50'".into()),
        (Some(DataType::Integer), 0) => exact(n.to_string()),
        (Some(DataType::Integer), 1) => exact(format!("{n}.0")),
        (Some(DataType::Integer), 3) => refused(format!("{n}.5")),
        (Some(DataType::Integer), 4) => refused(format!("'{n} pieces'")),
        (Some(DataType::Date), 1) => exact(format!("date('2001-01-01', '+{n} days')")),
        (Some(DataType::Date), 2) => refused(n.to_string()),
        (Some(DataType::Date), 3) => refused("'2026-02-30'".into()),
        (Some(DataType::DateTime), 1) => exact(format!("'{}'", text.replace("T12:00:00.000Z", "T14:00:00+02:00"))),
        (Some(DataType::DateTime), 2) => refused(format!("{n}.5")),
        (Some(DataType::DateTime), 3) => refused(format!("'{}'", text.trim_end_matches('Z'))),
        (Some(DataType::SingleSelect), 2) => refused(n.to_string()),
        (Some(DataType::SingleSelect), 3) => refused("'none of them'".into()),
        (Some(DataType::MultiSelect), 1) => exact(format!("json_array('o{}')", n % OPTIONS)),
        (Some(DataType::MultiSelect), 2) => refused(format!("'o{}'", n % OPTIONS)),
        (Some(DataType::MultiSelect), 3) => refused("'[\"none of them\"]'".into()),
        (Some(DataType::Boolean), 0) => exact(u8::from(value == json!(true)).to_string()),
        (Some(DataType::Boolean), 1) => exact(text.to_uppercase()),
        (Some(DataType::Boolean), 2) => refused("2".into()),
        (Some(DataType::Boolean), 3 | 4) => refused("0.5".into()),
        (_, 5) => refused(format!("x'{hex}'")),
        _ => exact(quoted),
    };
    match own {
        // `'true'` is a text.
        (sql, Some(_)) if field.custom == Some(DataType::Boolean) && sql.starts_with('\'') => refused(sql),
        other => other,
    }
}

/// The ways to write a value: see [`literal`].
pub const FORMS: u8 = 6;

/// A value from a column, an answer or a body, in one form.
pub fn canonical(wire: &str, value: &Value) -> Value {
    match (wire, value) {
        ("tags", Value::String(text)) => serde_json::from_str(text).unwrap(),
        ("moment", Value::String(text)) => json!(text.parse::<Instant>().unwrap().to_wire()),
        ("flag", Value::Number(number)) => json!(number.as_i64() == Some(1)),
        (_, other) => other.clone(),
    }
}
