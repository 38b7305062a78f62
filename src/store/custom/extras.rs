//! Columns of the `_full` views in addition to those of active fields: kept archived fields, and the labels of select
//! fields, as configured in `[database]`.

use crate::model::catalogue::Object;
use crate::model::custom::DataType;

/// A column of an archived field, under its name in the view.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ArchivedColumn {
    pub name: String,
    pub source: String,
    pub is_detail: bool,
    /// The type of the values; the companion of a decimal has none.
    pub data_type: Option<DataType>,
    pub key: String,
    pub label: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LabelColumn {
    pub name: String,
    pub of: String,
    pub(in crate::store) object: Object,
    pub(in crate::store) is_multi: bool,
}

impl LabelColumn {
    /// The labels of the values in a column of the record `r`: a text, or a JSON array for a multi-select. A value
    /// without a label is shown itself.
    pub fn expression(&self, source: &str) -> String {
        let definition = format!(
            "(SELECT f.id FROM custom_field_definitions AS f WHERE f.object_type = '{}' AND f.column_name = '{}')",
            self.object, self.of
        );
        let label = |value: &str| {
            format!(
                "coalesce((SELECT x.label FROM custom_field_options AS x WHERE x.definition_id = {definition} \
                 AND x.value = {value} ORDER BY x.position LIMIT 1), {value})"
            )
        };
        if !self.is_multi {
            return label(&format!("r.{source}"));
        }
        format!(
            "CASE WHEN r.{source} IS NOT NULL THEN (SELECT json_group_array(v.label) FROM (SELECT {} AS label \
             FROM json_each(r.{source}) AS e ORDER BY e.key) AS v) END",
            label("e.value")
        )
    }
}

/// The additional columns of an object's view.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ObjectExtras {
    pub archived: Vec<ArchivedColumn>,
    pub labels: Vec<LabelColumn>,
}
