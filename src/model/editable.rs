//! A field that can be edited, as far as judging an edit of it needs.

use super::catalogue::{Field, FieldProjection, Object};
use super::custom::DataType;
use super::ids::FieldKey;

/// The most characters of a SHORT_TEXT (reference, *Limits*).
pub const SHORT_TEXT: usize = 255;
/// The most characters of a LONG_TEXT.
pub const LONG_TEXT: usize = 10_000;
/// The most items of a MULTI_SELECT.
pub const MULTI_SELECT: usize = 100;
/// The most custom keys of one request.
pub const CUSTOM_KEYS: usize = 100;

/// What a writable custom field takes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CustomTarget {
    /// The key inside `customFields`.
    pub key: FieldKey,
    /// The type of the values.
    pub data_type: DataType,
    /// Whether a value may be missing.
    pub clearable: bool,
    /// The values of the options of a select field.
    pub options: Vec<String>,
}

/// Where an edit goes.
#[derive(Clone, Debug)]
pub enum EditTarget {
    /// A standard field that the catalogue calls writable.
    Standard(&'static Field),
    /// An active custom field that its definition calls writable.
    Custom(CustomTarget),
}

/// A field that can be edited, and the column of the `_full` view that shows it.
#[derive(Clone, Debug)]
pub struct Editable {
    /// Whose field it is.
    pub object: Object,
    /// The column.
    pub column: Box<str>,
    /// Where an edit of it goes.
    pub target: EditTarget,
}

impl Editable {
    /// The writable standard field of that column.
    pub fn standard(object: Object, column: &str) -> Option<Editable> {
        let field = object.fields().iter().find(|f| f.writable && f.column == column)?;
        Some(Editable { object, column: column.into(), target: EditTarget::Standard(field) })
    }

    /// The custom field's key; `None` for a standard field.
    pub fn key(&self) -> Option<&FieldKey> {
        match &self.target {
            EditTarget::Standard(_) => None,
            EditTarget::Custom(custom) => Some(&custom.key),
        }
    }

    /// The name in a request's body; a custom field's name inside `customFields`.
    pub fn wire(&self) -> &str {
        match &self.target {
            EditTarget::Standard(field) => field.wire,
            EditTarget::Custom(custom) => custom.key.as_str(),
        }
    }

    /// Whether only details carry the value.
    pub fn detail_only(&self) -> bool {
        match &self.target {
            EditTarget::Standard(field) => field.projection == FieldProjection::Detail,
            EditTarget::Custom(custom) => custom.data_type.detail_only(),
        }
    }
}

/// How a column of a `_full` view stands to edits.
#[derive(Clone, Debug)]
pub enum Editability {
    /// It can be edited.
    Editable(Editable),
    /// A standard field that no update may hold.
    ReadOnly,
    /// A custom field that its definition calls not writable.
    NotWritable,
    /// Made here: from this column, or by the mirror itself.
    Derived(Option<Box<str>>),
    /// A custom field that is archived: it stands in no view.
    Archived,
}

impl Editability {
    /// Why a column cannot be edited, after its name; `None` if it can.
    pub fn refusal(&self) -> Option<String> {
        Some(match self {
            Editability::Editable(_) => return None,
            Editability::ReadOnly => "is read-only at the service".into(),
            Editability::NotWritable => "is not writable by its definition".into(),
            Editability::Derived(Some(from)) => format!("is derived here: change {from}"),
            Editability::Derived(None) => "is derived here and cannot be changed".into(),
            Editability::Archived => "is archived and cannot be changed".into(),
        })
    }
}
