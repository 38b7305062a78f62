//! Fields that can be edited, with what is needed to validate an edit.

use super::catalogue::{FieldProjection, Object};
use super::custom::DataType;

/// The limits of the reference (*Limits*), in characters, items and keys.
pub const SHORT_TEXT: usize = 255;
pub const LONG_TEXT: usize = 10_000;
pub const MULTI_SELECT: usize = 100;
pub const CUSTOM_KEYS: usize = 100;

/// A field that can be edited, with its column in the `_full` view: a standard field that is writable by the catalogue, or an
/// active custom field that is writable by its definition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Editable {
    pub object: Object,
    pub column: Box<str>,
    /// The name in a request's body; a custom field's name inside `customFields`.
    pub wire: Box<str>,
    /// The type of a custom field's values; `None` for a standard field, which holds text.
    pub data_type: Option<DataType>,
    pub clearable: bool,
    pub detail_only: bool,
    /// The values of the options of a select field.
    pub options: Vec<String>,
}

impl Editable {
    pub fn standard(object: Object, column: &str) -> Option<Editable> {
        let field = object.fields().iter().find(|f| f.writable && f.column == column)?;
        let (wire, detail_only) = (field.wire.into(), field.projection == FieldProjection::Detail);
        let (data_type, clearable, options) = (None, true, Vec::new());
        Some(Editable { object, column: column.into(), wire, data_type, clearable, detail_only, options })
    }

    /// What the column accepts, phrased to follow its name.
    pub fn accepts(&self) -> String {
        let what: String = match self.data_type {
            None => self
                .object
                .pick("text without the character U+0000", "text with a character that is not white space")
                .into(),
            Some(DataType::ShortText) => format!("text of at most {SHORT_TEXT} characters"),
            Some(DataType::LongText) => format!("text of at most {LONG_TEXT} characters"),
            Some(DataType::Integer) => "a whole number of 64 bits".into(),
            Some(DataType::Decimal) => "a decimal as text, at most 20 digits before the point and 10 after it".into(),
            Some(DataType::Boolean) => "0 (false) or 1 (true)".into(),
            Some(DataType::Date) => "a real date, YYYY-MM-DD, of the years 0001 to 9999".into(),
            Some(DataType::DateTime) => "a timestamp with a time zone, such as 2026-01-02T03:04:05Z, of the years \
                0001 to 9999 and to the microsecond at most"
                .into(),
            Some(DataType::SingleSelect) => "the value of one of its options, see select_labels".into(),
            Some(DataType::MultiSelect) => {
                format!("a JSON array of at most {MULTI_SELECT} different values of its options, see select_labels")
            }
            Some(DataType::Unknown) => "no value, because its type is unknown".into(),
        };
        format!("takes {what}")
    }
}

/// The field of a column of a `_full` view, or why the column cannot be edited, phrased to follow its name.
pub type Editability = Result<Editable, String>;
