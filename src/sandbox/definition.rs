//! The custom fields of the tenant (reference, *Custom field definition*).

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::model::{Choice, DataType, Object, Op};

/// A custom field in the form of its list. It is changed through the world.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CustomDefinition {
    pub id: String,
    pub key: String,
    pub label: String,
    /// The name of the type on the wire; it need not be in the reference.
    pub data_type: String,
    #[serde(rename = "objectType")]
    pub object: Object,
    /// ACTIVE or ARCHIVED.
    pub status: String,
    pub created_at: Option<String>,
    pub updated_at: Option<String>,
    pub archived_at: Option<String>,
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
    #[serde(flatten)]
    pub extra: Map<String, Value>,
}

/// A field that is not defined yet; without an id, it gets one.
pub type NewField = CustomDefinition;

impl CustomDefinition {
    /// The type; [`DataType::Unknown`] for a name that is not in the reference.
    pub fn kind(&self) -> DataType {
        DataType::from_name(&self.data_type)
    }

    pub fn is_active(&self) -> bool {
        self.status == "ACTIVE"
    }

    pub(crate) fn to_json(&self) -> Value {
        serde_json::to_value(self).unwrap_or_default()
    }

    /// Parses a definition in the form of its list. `key`, `dataType` and `objectType` are required; other missing
    /// members have the defaults of a new field.
    pub(crate) fn from_json(json: &Value) -> Result<CustomDefinition, String> {
        let members = json.as_object().ok_or("must be an object")?;
        let text = |name: &str| match members.get(name) {
            Some(Value::String(text)) if !text.is_empty() => Ok(text.as_str()),
            _ => Err(format!("`{name}` must be a text that is not empty")),
        };
        let object = text("objectType")?.parse().map_err(|_| "`objectType` must be contact or company")?;
        let data_type = text("dataType")?;
        let mut whole =
            CustomDefinition::new(object, text("key")?, DataType::from_name(data_type)).of_type(data_type).to_json();
        for (name, value) in members.iter().filter(|(name, value)| !(value.is_null() && *name == "options")) {
            whole[name] = value.clone();
            serde_json::from_value::<CustomDefinition>(whole.clone()).map_err(|error| format!("`{name}`: {error}"))?;
        }
        serde_json::from_value(whole).map_err(|error| error.to_string())
    }

    /// An active field of a type, writable and filterable by all of the type's operators.
    pub fn new(object: Object, key: &str, data_type: DataType) -> CustomDefinition {
        CustomDefinition {
            id: String::new(),
            key: key.to_string(),
            label: key.to_string(),
            data_type: data_type.as_str().to_string(),
            object,
            status: "ACTIVE".to_string(),
            created_at: None,
            updated_at: None,
            archived_at: None,
            nullable: true,
            required: false,
            readable: true,
            writable: true,
            filterable: true,
            sortable: false,
            allowed_operators: data_type.ops().iter().map(|op| op.into_str().to_string()).collect(),
            options: Vec::new(),
            extra: Map::new(),
        }
    }

    /// Sets the options; an option without `value=label` is its own label.
    pub fn options(self, options: &[&str]) -> CustomDefinition {
        let parts = options.iter().map(|option| option.split_once('=').unwrap_or((option, option)));
        let choice = |(value, label): (&str, &str)| Choice { value: value.into(), label: Some(label.into()) };
        CustomDefinition { options: parts.map(choice).collect(), ..self }
    }

    pub fn of_type(self, name: &str) -> CustomDefinition {
        CustomDefinition { data_type: name.to_string(), ..self }
    }

    /// Sets the filter operators; without any, the field is not filterable.
    pub fn operators(self, operators: &[Op]) -> CustomDefinition {
        let allowed_operators = operators.iter().map(|op| op.into_str().to_string()).collect();
        CustomDefinition { allowed_operators, filterable: !operators.is_empty(), ..self }
    }

    pub fn id(self, id: &str) -> CustomDefinition {
        CustomDefinition { id: id.to_string(), ..self }
    }
}
