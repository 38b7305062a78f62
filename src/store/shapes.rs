//! The shapes of all record tables under one layout, and the documents that search holds of their rows.

use std::sync::Arc;

use super::derived::document::Document;
use super::records::shape::Shape;
use crate::model::catalogue::{Object, Resource};
use crate::model::custom::Layout;

/// The shapes of the record tables under one layout.
#[derive(Debug, Clone)]
pub struct Shapes {
    /// The layout that these follow from.
    pub layout: Arc<Layout>,
    list: [Arc<Shape>; 2],
    detail: [Arc<Shape>; 2],
    team: Arc<Shape>,
    definitions: Arc<Shape>,
    documents: [Arc<Document>; 2],
}

impl Shapes {
    /// The shapes that follow from a layout.
    pub fn new(layout: Arc<Layout>) -> Shapes {
        Shapes {
            list: Object::ALL.map(|object| Arc::new(Shape::list(object, layout.of(object)))),
            detail: Object::ALL.map(|object| Arc::new(Shape::detail(object, layout.of(object)))),
            team: Arc::new(Shape::plain(Resource::TeamMembers)),
            definitions: Arc::new(Shape::plain(Resource::CustomFields)),
            documents: Object::ALL.map(|object| Arc::new(Document::new(object, layout.of(object)))),
            layout,
        }
    }

    /// The table of an object's list items.
    pub fn list(&self, object: Object) -> Arc<Shape> {
        self.list[object as usize].clone()
    }

    /// The table of an object's details.
    pub fn detail(&self, object: Object) -> Arc<Shape> {
        self.detail[object as usize].clone()
    }

    /// The table of team members.
    pub fn team(&self) -> Arc<Shape> {
        self.team.clone()
    }

    /// The table of definitions.
    pub fn definitions(&self) -> Arc<Shape> {
        self.definitions.clone()
    }

    /// What full-text search holds of an object's records.
    pub fn document(&self, object: Object) -> Arc<Document> {
        self.documents[object as usize].clone()
    }
}
