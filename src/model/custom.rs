//! Custom fields: the tenant's definitions (reference, *Custom field definition*, *Custom values*), and the column of
//! each field's values.

use std::collections::HashSet;
use std::sync::Arc;

use rustc_hash::FxHashMap;
use serde::{Deserialize, Serialize};
use strum::{EnumString, IntoStaticStr, VariantArray};

use super::catalogue::{Object, Op, ops};
use super::column_name::ColumnName;
use super::exclusions::{Exclusions, object_of, plain_name};
use super::ids::{FieldKey, RecordId};

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, EnumString, IntoStaticStr, VariantArray)]
#[strum(serialize_all = "SCREAMING_SNAKE_CASE")]
pub enum DataType {
    ShortText,
    /// Up to 10,000 characters; only details carry it.
    LongText,
    /// A 64-bit integer.
    Integer,
    /// An exact decimal string, up to 20 integer and 10 fractional digits.
    Decimal,
    Boolean,
    /// `YYYY-MM-DD`.
    Date,
    #[strum(serialize = "DATETIME")]
    DateTime,
    SingleSelect,
    MultiSelect,
    /// A type that is not in the reference: its values are kept verbatim in `extra`.
    Unknown,
}

impl DataType {
    /// Those of the reference.
    pub const ALL: [DataType; 9] = match DataType::VARIANTS.first_chunk() {
        Some(known) => *known,
        None => [DataType::Unknown; 9],
    };

    pub fn as_str(self) -> &'static str {
        self.into()
    }

    pub fn from_name(name: &str) -> DataType {
        name.parse().unwrap_or(DataType::Unknown)
    }

    /// The filter operators of the reference's table; a definition's `allowedOperators` may be fewer.
    pub const fn ops(self) -> &'static [Op] {
        match self {
            DataType::ShortText | DataType::SingleSelect => ops::TEXT,
            DataType::LongText => ops::PRESENCE,
            DataType::Integer | DataType::Decimal | DataType::Date | DataType::DateTime => ops::RANGE,
            DataType::Boolean => ops::BOOLEAN,
            DataType::MultiSelect => ops::CHOICES,
            DataType::Unknown => &[],
        }
    }

    pub const fn sql_type(self) -> &'static str {
        match self {
            DataType::Integer | DataType::Boolean => "INTEGER",
            _ => "TEXT",
        }
    }

    pub const fn detail_only(self) -> bool {
        matches!(self, DataType::LongText)
    }

    pub const fn has_num(self) -> bool {
        matches!(self, DataType::Decimal)
    }

    pub const fn is_select(self) -> bool {
        matches!(self, DataType::SingleSelect | DataType::MultiSelect)
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Choice {
    /// The public value key.
    pub value: String,
    pub label: Option<String>,
}

/// The part of a definition that decisions need; the mirror's table has every field.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Definition {
    pub id: RecordId,
    pub key: FieldKey,
    pub label: Option<String>,
    pub data_type: DataType,
    pub object: Object,
    /// ACTIVE: archived definitions are not writable and not filterable, and their values are omitted.
    pub active: bool,
    /// Whether `isNull` filters work: the field is filterable, and `isNull` is among its `allowedOperators`.
    pub null_filter: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CustomField {
    pub definition: RecordId,
    pub key: FieldKey,
    pub data_type: DataType,
    /// The column of its values, in the list table or the detail table by type.
    pub column: ColumnName,
}

/// The active custom fields of one object, in the order of their columns. A value's *slot* is its index here.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CustomFields {
    fields: Vec<CustomField>,
    /// The slots: looked up for every value that is decoded.
    by_key: FxHashMap<FieldKey, usize>,
    /// Active fields without a column, whose values are kept in `extra`.
    pub unplaced: HashSet<FieldKey>,
    pub excluded: HashSet<FieldKey>,
    /// The columns of all fields, those of archived and excluded ones included.
    columns: HashSet<String>,
}

impl CustomFields {
    /// The fields in the given order, and the keys of active fields that have no column.
    pub fn new(fields: Vec<CustomField>, unplaced: HashSet<FieldKey>) -> CustomFields {
        let by_key = fields.iter().enumerate().map(|(slot, field)| (field.key.clone(), slot)).collect();
        CustomFields { fields, by_key, unplaced, ..CustomFields::default() }
    }

    /// With the keys of the excluded fields, and the columns of all that there are.
    pub fn of_all(self, excluded: HashSet<FieldKey>, columns: HashSet<String>) -> CustomFields {
        CustomFields { excluded, columns, ..self }
    }

    pub fn fields(&self) -> &[CustomField] {
        &self.fields
    }

    pub fn by_key(&self, key: &str) -> Option<(usize, &CustomField)> {
        self.by_key.get(key).map(|slot| (*slot, &self.fields[*slot]))
    }
}

/// The custom columns of both objects. A page that was decoded with one layout is never stored with another.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Layout {
    /// Increases with every change of the columns.
    pub version: u64,
    pub contact: Arc<CustomFields>,
    pub company: Arc<CustomFields>,
    pub exclusions: Arc<Exclusions>,
}

impl Layout {
    pub fn of(&self, object: Object) -> &CustomFields {
        object.pick(&self.contact, &self.company)
    }

    pub fn excludes_key(&self, object: Object, key: &str) -> bool {
        let fields = self.of(object);
        fields.excluded.contains(key) || fields.by_key(key).is_none() && self.exclusions.takes_key(object.table(), key)
    }

    pub fn has_details(&self, object: Object) -> bool {
        object.detail_fields().any(|field| !self.exclusions.takes(object.table(), field.column))
            || self.of(object).fields().iter().any(|field| field.data_type.detail_only())
    }

    /// Whether documents of a table are made without this column.
    pub fn hides_column(&self, table: &str, column: &str) -> bool {
        let own = object_of(table).filter(|object| self.of(*object).columns.contains(plain_name(column)));
        match own {
            Some(object) => self.exclusions.takes_own_column(object, column),
            None => self.exclusions.takes(table, column),
        }
    }

    /// A custom field's wire name is `customFields.KEY`.
    pub(super) fn hides_wire(&self, table: &str, wire: &str) -> bool {
        match (wire.strip_prefix("customFields."), object_of(table)) {
            (Some(key), Some(object)) => self.excludes_key(object, key),
            (Some(key), None) => self.exclusions.takes_key(table, key),
            (None, _) => self.exclusions.takes_wire(table, wire),
        }
    }
}
