//! The custom fields of the pretend tenant (reference, *Custom field definition*).

use serde_json::{Value, json};

use crate::model::catalogue::DEFINITION;
use crate::model::{Choice, DataType, Instant, Object, Op};

use super::cell::Cell;
use super::table::{Id, Record, slot};

/// A custom field as the pretend tenant defined it. Made with [`NewField`], changed through the world.
#[derive(Clone, Debug)]
pub struct CustomDefinition {
    /// The definition's identifier.
    pub id: String,
    /// The key inside `customFields`.
    pub key: String,
    /// The display text.
    pub label: String,
    /// The type's name on the wire; a name that the reference lacks is possible.
    pub data_type: String,
    /// Whose field it is.
    pub object: Object,
    /// ACTIVE, else ARCHIVED.
    pub active: bool,
    /// When it was created.
    pub created_at: Option<Instant>,
    /// When it last changed.
    pub updated_at: Option<Instant>,
    /// When it was archived.
    pub archived_at: Option<Instant>,
    /// Whether a value may be missing.
    pub nullable: bool,
    /// Whether a value is required.
    pub required: bool,
    /// Whether records carry the values.
    pub readable: bool,
    /// Whether a PATCH may set values.
    pub writable: bool,
    /// Whether lists can be filtered by the field.
    pub filterable: bool,
    /// What the definition says of sorting; lists never sort by custom fields.
    pub sortable: bool,
    /// The operators a filter may use.
    pub allowed_operators: Vec<String>,
    /// The options of a select field.
    pub options: Vec<Choice>,
}

impl CustomDefinition {
    /// The type; [`DataType::Unknown`] for a name that the reference lacks.
    pub fn kind(&self) -> DataType {
        DataType::from_name(&self.data_type)
    }

    /// Whether a filter may use `op` (reference, *Custom values*, rule 3).
    pub(crate) fn filters_by(&self, op: Op) -> bool {
        self.active
            && self.filterable
            && self.kind().ops().allows(op)
            && self.allowed_operators.iter().any(|name| name == op.as_str())
    }

    /// The row that lists are made of.
    pub(crate) fn row(&self) -> Record {
        let mut record = Record::new(Id::from(self.id.as_str()));
        let time = |t: Option<Instant>| t.map_or(Value::Null, |t| Value::from(t.to_wire()));
        let values = json!({
            "id": self.id, "key": self.key, "label": self.label, "dataType": self.data_type,
            "objectType": self.object.as_str(), "status": if self.active { "ACTIVE" } else { "ARCHIVED" },
            "createdAt": time(self.created_at), "updatedAt": time(self.updated_at), "archivedAt": time(self.archived_at),
            "nullable": self.nullable, "required": self.required, "readable": self.readable,
            "writable": self.writable, "filterable": self.filterable, "sortable": self.sortable,
            "allowedOperators": self.allowed_operators,
        });
        for (wire, value) in values.as_object().into_iter().flatten() {
            if let Some(slot) = slot(DEFINITION, wire) {
                record.set(slot, Cell::from_json(value, wire.ends_with("At")));
            }
        }
        let options: Vec<Value> =
            self.options.iter().map(|option| json!({"value": option.value, "label": option.label})).collect();
        let options = Value::from(options).to_string();
        record.raw = [("options".to_string(), Some(options))].into();
        record
    }
}

/// A custom field to be defined: says only what the test or the demo is about.
#[derive(Clone, Debug)]
pub struct NewField(pub(crate) CustomDefinition);

impl NewField {
    /// An active field of a type, writable and filterable by all of the type's operators.
    pub fn new(object: Object, key: &str, data_type: DataType) -> NewField {
        NewField(CustomDefinition {
            id: String::new(),
            key: key.to_string(),
            label: key.to_string(),
            data_type: data_type.as_str().to_string(),
            object,
            active: true,
            created_at: None,
            updated_at: None,
            archived_at: None,
            nullable: true,
            required: false,
            readable: true,
            writable: true,
            filterable: true,
            sortable: false,
            allowed_operators: data_type.ops().iter().map(|op| op.as_str().to_string()).collect(),
            options: Vec::new(),
        })
    }

    /// With this display text.
    #[must_use]
    pub fn label(mut self, label: &str) -> NewField {
        self.0.label = label.to_string();
        self
    }

    /// With these options, each also its own label unless given as `value=label`.
    #[must_use]
    pub fn options(mut self, options: &[&str]) -> NewField {
        self.0.options = choices(options);
        self
    }

    /// With a type that the reference does not name.
    #[must_use]
    pub fn of_type(mut self, name: &str) -> NewField {
        self.0.data_type = name.to_string();
        self
    }

    /// With only these operators; none makes it not filterable.
    #[must_use]
    pub fn operators(mut self, operators: &[Op]) -> NewField {
        self.0.allowed_operators = operators.iter().map(|op| op.as_str().to_string()).collect();
        self.0.filterable = !operators.is_empty();
        self
    }

    /// Not writable by PATCH.
    #[must_use]
    pub fn read_only(mut self) -> NewField {
        self.0.writable = false;
        self
    }

    /// With this identifier.
    #[must_use]
    pub fn id(mut self, id: &str) -> NewField {
        self.0.id = id.to_string();
        self
    }
}

/// Options from `value` or `value=label`.
pub(crate) fn choices(options: &[&str]) -> Vec<Choice> {
    options
        .iter()
        .map(|option| {
            let (value, label) = option.split_once('=').unwrap_or((option, option));
            Choice { value: value.to_string(), label: Some(label.to_string()) }
        })
        .collect()
}
