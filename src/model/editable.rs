//! Fields that can be edited, with what is needed to validate an edit.

use super::catalogue::{Field, FieldProjection, Object};
use super::custom::DataType;
use super::ids::FieldKey;

/// The limits of the reference (*Limits*), in characters, items and keys.
pub const SHORT_TEXT: usize = 255;
pub const LONG_TEXT: usize = 10_000;
pub const MULTI_SELECT: usize = 100;
pub const CUSTOM_KEYS: usize = 100;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CustomTarget {
    pub key: FieldKey,
    pub data_type: DataType,
    pub clearable: bool,
    /// The values of the options of a select field.
    pub options: Vec<String>,
}

#[derive(Clone, Debug)]
pub enum EditTarget {
    /// A standard field that is writable by the catalogue.
    Standard(&'static Field),
    /// An active custom field that is writable by its definition.
    Custom(CustomTarget),
}

/// A field that can be edited, with its column in the `_full` view.
#[derive(Clone, Debug)]
pub struct Editable {
    pub object: Object,
    pub column: Box<str>,
    pub target: EditTarget,
}

impl Editable {
    pub fn standard(object: Object, column: &str) -> Option<Editable> {
        let field = object.fields().iter().find(|f| f.writable && f.column == column)?;
        Some(Editable { object, column: column.into(), target: EditTarget::Standard(field) })
    }

    fn custom(&self) -> Option<&CustomTarget> {
        match &self.target {
            EditTarget::Standard(_) => None,
            EditTarget::Custom(custom) => Some(custom),
        }
    }

    pub fn key(&self) -> Option<&FieldKey> {
        self.custom().map(|custom| &custom.key)
    }

    /// The name in a request's body; a custom field's name inside `customFields`.
    pub fn wire(&self) -> &str {
        match &self.target {
            EditTarget::Standard(field) => field.wire,
            EditTarget::Custom(custom) => custom.key.as_str(),
        }
    }

    /// The type of a custom field's values; `None` for a standard field, which holds text.
    pub fn data_type(&self) -> Option<DataType> {
        self.custom().map(|custom| custom.data_type)
    }

    pub fn clearable(&self) -> bool {
        self.custom().is_none_or(|custom| custom.clearable)
    }

    pub fn detail_only(&self) -> bool {
        match &self.target {
            EditTarget::Standard(field) => field.projection == FieldProjection::Detail,
            EditTarget::Custom(custom) => custom.data_type.detail_only(),
        }
    }
}

/// Whether a column of a `_full` view can be edited.
#[derive(Clone, Debug)]
pub enum Editability {
    Editable(Editable),
    ReadOnly,
    NotWritable,
    /// Computed by the mirror, from the named column or from others.
    Derived(Option<Box<str>>),
    /// An archived custom field: no view contains it.
    Archived,
    /// A field that is not mirrored: no view contains it.
    Excluded,
}

impl Editability {
    /// Why the column cannot be edited, phrased to follow its name; `None` if it can be edited.
    pub fn refusal(&self) -> Option<String> {
        Some(match self {
            Editability::Editable(_) => return None,
            Editability::ReadOnly => "is read-only at the service".into(),
            Editability::NotWritable => "is not writable by its definition".into(),
            Editability::Derived(Some(from)) => format!("is derived from {from}: change that column instead"),
            Editability::Derived(None) => "is derived and cannot be changed".into(),
            Editability::Archived => "is archived and cannot be changed".into(),
            Editability::Excluded => {
                "is unknown and cannot be changed: `sync.exclude` keeps it out of the mirror".into()
            }
        })
    }
}
