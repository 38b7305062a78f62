//! The shapes of all record tables under one layout, and their search documents.

use std::sync::Arc;

use crate::model::{DataType, Layout, Object, Resource};
use crate::store::derived::search_document::Document;
use crate::store::records::shape::{Shape, Source};

/// The shapes of the record tables under one layout.
#[derive(Debug, Clone)]
pub struct Shapes {
    pub layout: Arc<Layout>,
    list: [Arc<Shape>; 2],
    detail: [Arc<Shape>; 2],
    pub team: Arc<Shape>,
    pub definitions: Arc<Shape>,
    documents: [Arc<Document>; 2],
    extras: Arc<[ObjectExtras; 2]>,
}

impl Shapes {
    /// The shapes that result from a layout and the additional columns of the views.
    pub fn new(layout: Arc<Layout>, extras: [ObjectExtras; 2]) -> Shapes {
        Shapes {
            list: Object::ALL.map(|object| Arc::new(Shape::list(object, &layout))),
            detail: Object::ALL.map(|object| Arc::new(Shape::detail(object, &layout))),
            team: Arc::new(Shape::plain(Resource::TeamMembers)),
            definitions: Arc::new(Shape::plain(Resource::CustomFields)),
            documents: Object::ALL.map(|object| Arc::new(Document::new(object, layout.of(object)))),
            extras: Arc::new(extras),
            layout,
        }
    }

    pub fn list(&self, object: Object) -> Arc<Shape> {
        self.list[object as usize].clone()
    }

    pub fn detail(&self, object: Object) -> Arc<Shape> {
        self.detail[object as usize].clone()
    }

    /// What the column of an object is made of, and whether only details have it; `None` for any other name.
    pub fn source(&self, object: Object, column: &str) -> Option<(Source, bool)> {
        let of = |shape: &Shape| shape.place(column).map(|place| shape.columns[place].source);
        let (list, detail) = (&self.list[object as usize], &self.detail[object as usize]);
        of(list).map(|source| (source, false)).or_else(|| Some((of(detail)?, true)))
    }

    pub fn extras(&self, object: Object) -> &ObjectExtras {
        &self.extras[object as usize]
    }

    pub fn document(&self, object: Object) -> Arc<Document> {
        self.documents[object as usize].clone()
    }
}

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

/// The columns of an object's `_full` view in addition to those of active fields, as configured in `[database]`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ObjectExtras {
    pub archived: Vec<ArchivedColumn>,
    pub labels: Vec<LabelColumn>,
}
