//! The shapes of all record tables under one layout, and their search documents.

use std::sync::Arc;

use super::custom::extras::ObjectExtras;
use super::derived::search_document::Document;
use super::records::shape::Shape;
use crate::model::catalogue::{Object, Resource};
use crate::model::custom::Layout;

/// The shapes of the record tables under one layout.
#[derive(Debug, Clone)]
pub struct Shapes {
    pub layout: Arc<Layout>,
    list: [Arc<Shape>; 2],
    detail: [Arc<Shape>; 2],
    team: Arc<Shape>,
    definitions: Arc<Shape>,
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

    pub fn extras(&self, object: Object) -> &ObjectExtras {
        &self.extras[object as usize]
    }

    pub fn team(&self) -> Arc<Shape> {
        self.team.clone()
    }

    pub fn definitions(&self) -> Arc<Shape> {
        self.definitions.clone()
    }

    pub fn document(&self, object: Object) -> Arc<Document> {
        self.documents[object as usize].clone()
    }
}
