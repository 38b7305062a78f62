//! The custom fields of the tenant (reference, *Custom field definition*).

use serde_json::{Map, Value, json};

use crate::model::catalogue::DEFINITION;
use crate::model::{Choice, DataType, Instant, Object, Op};

use super::cell::Cell;
use super::table::{Id, WorldRecord, slot};

/// A custom field of the tenant. It is created with [`NewField`] and changed through the world.
#[derive(Clone, Debug)]
pub struct CustomDefinition {
    pub id: String,
    /// The key inside `customFields`.
    pub key: String,
    pub label: String,
    /// The name of the type on the wire; it need not be in the reference.
    pub data_type: String,
    pub object: Object,
    /// ACTIVE, else ARCHIVED.
    pub active: bool,
    pub created_at: Option<Instant>,
    pub updated_at: Option<Instant>,
    pub archived_at: Option<Instant>,
    pub nullable: bool,
    pub required: bool,
    pub readable: bool,
    pub writable: bool,
    pub filterable: bool,
    /// The `sortable` member of the definition; lists never sort by custom fields.
    pub sortable: bool,
    pub allowed_operators: Vec<String>,
    pub options: Vec<Choice>,
    /// Members that are not in the reference, shown verbatim.
    pub extra: Map<String, Value>,
}

impl CustomDefinition {
    /// The type; [`DataType::Unknown`] for a name that is not in the reference.
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

    /// The definition as its list shows it.
    pub(crate) fn to_json(&self) -> Value {
        let time = |t: Option<Instant>| t.map_or(Value::Null, |t| Value::from(t.to_wire()));
        let options: Vec<Value> =
            self.options.iter().map(|option| json!({"value": option.value, "label": option.label})).collect();
        let mut members = json!({
            "id": self.id, "key": self.key, "label": self.label, "dataType": self.data_type,
            "objectType": self.object.as_str(), "status": if self.active { "ACTIVE" } else { "ARCHIVED" },
            "createdAt": time(self.created_at), "updatedAt": time(self.updated_at), "archivedAt": time(self.archived_at),
            "nullable": self.nullable, "required": self.required, "readable": self.readable,
            "writable": self.writable, "filterable": self.filterable, "sortable": self.sortable,
            "allowedOperators": self.allowed_operators, "options": options,
        });
        for (name, value) in &self.extra {
            members[name] = value.clone();
        }
        members
    }

    /// Parses a definition in the form of its list. `key`, `dataType` and `objectType` are required; other missing
    /// members have the defaults of a new field.
    pub(crate) fn from_json(json: &Value) -> Result<CustomDefinition, String> {
        let Value::Object(members) = json else { return Err("must be an object".to_string()) };
        let text = |name: &str| match members.get(name) {
            Some(Value::String(text)) if !text.is_empty() => Ok(text.as_str()),
            _ => Err(format!("`{name}` must be a text that is not empty")),
        };
        let object = Object::ALL.into_iter().find(|object| text("objectType") == Ok(object.as_str()));
        let object = object.ok_or("`objectType` must be contact or company")?;
        let data_type = text("dataType")?;
        let mut read = NewField::new(object, text("key")?, DataType::from_name(data_type)).of_type(data_type).0;
        for (name, value) in members {
            read.set_member(name, value).map_err(|why| format!("`{name}` {why}"))?;
        }
        Ok(read)
    }

    fn set_member(&mut self, name: &str, value: &Value) -> Result<(), String> {
        let text = || value.as_str().map(String::from).ok_or("must be a string");
        let flag = || value.as_bool().ok_or("must be true or false");
        let time = || match value {
            Value::Null => Ok(None),
            Value::String(text) => text.parse().map(Some).map_err(|_| "must be an ISO timestamp with a timezone"),
            _ => Err("must be a timestamp or null"),
        };
        match name {
            "id" => self.id = text()?,
            "label" => self.label = text()?,
            "key" | "dataType" | "objectType" => {}
            "status" => {
                self.active = match value.as_str() {
                    Some("ACTIVE") => true,
                    Some("ARCHIVED") => false,
                    _ => return Err("must be ACTIVE or ARCHIVED".to_string()),
                };
            }
            "createdAt" => self.created_at = time()?,
            "updatedAt" => self.updated_at = time()?,
            "archivedAt" => self.archived_at = time()?,
            "nullable" => self.nullable = flag()?,
            "required" => self.required = flag()?,
            "readable" => self.readable = flag()?,
            "writable" => self.writable = flag()?,
            "filterable" => self.filterable = flag()?,
            "sortable" => self.sortable = flag()?,
            "allowedOperators" => self.allowed_operators = operators(value)?,
            "options" => self.options = options(value)?,
            _ => {
                self.extra.insert(name.to_string(), value.clone());
            }
        }
        Ok(())
    }

    pub(crate) fn row(&self) -> WorldRecord {
        let mut record = WorldRecord::new(Id::from(self.id.as_str()));
        for (wire, value) in self.to_json().as_object().into_iter().flatten() {
            match slot(DEFINITION, wire).filter(|_| wire != "options") {
                Some(slot) => record.set(slot, Cell::from_json(value, wire.ends_with("At"))),
                None => {
                    record.raw.insert(wire.clone(), Some(value.to_string()));
                }
            }
        }
        record
    }
}

fn operators(value: &Value) -> Result<Vec<String>, String> {
    let names = value.as_array().and_then(|names| names.iter().map(|name| Some(name.as_str()?.to_string())).collect());
    names.ok_or_else(|| "must be a list of operator names".to_string())
}

fn options(value: &Value) -> Result<Vec<Choice>, String> {
    let option = |option: &Value| {
        let label = match &option["label"] {
            Value::Null => None,
            Value::String(label) => Some(label.clone()),
            _ => return None,
        };
        Some(Choice { value: option["value"].as_str()?.to_string(), label })
    };
    match value {
        Value::Null => Some(Vec::new()),
        Value::Array(options) => options.iter().map(option).collect::<Option<_>>(),
        _ => None,
    }
    .ok_or_else(|| "must be a list of {\"value\", \"label\"}".to_string())
}

/// A builder for custom fields with defaults for everything that a test does not set.
#[must_use]
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
            extra: Map::new(),
        })
    }

    pub fn label(mut self, label: &str) -> NewField {
        self.0.label = label.to_string();
        self
    }

    /// Sets the options; an option without `value=label` is its own label.
    pub fn options(mut self, options: &[&str]) -> NewField {
        self.0.options = choices(options);
        self
    }

    /// Sets a type that is not in the reference.
    pub fn of_type(mut self, name: &str) -> NewField {
        self.0.data_type = name.to_string();
        self
    }

    /// Sets the filter operators; without any, the field is not filterable.
    pub fn operators(mut self, operators: &[Op]) -> NewField {
        self.0.allowed_operators = operators.iter().map(|op| op.as_str().to_string()).collect();
        self.0.filterable = !operators.is_empty();
        self
    }

    pub fn read_only(mut self) -> NewField {
        self.0.writable = false;
        self
    }

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

impl From<CustomDefinition> for NewField {
    fn from(definition: CustomDefinition) -> NewField {
        NewField(definition)
    }
}
