//! The shapes of all record tables and views under one layout, and their search documents.

use std::sync::Arc;

use crate::model::{Layout, Object, Resource};
use crate::store::{Column, Document, Shape, Source};

#[derive(Debug, Clone)]
pub struct Shapes {
    pub layout: Arc<Layout>,
    list: [Arc<Shape>; 2],
    detail: [Arc<Shape>; 2],
    pub team: Arc<Shape>,
    pub definitions: Arc<Shape>,
    documents: [Arc<Document>; 2],
    /// The columns of the views for archived fields.
    archived: Arc<[Vec<ViewColumn>; 2]>,
}

impl Shapes {
    pub fn new(layout: Arc<Layout>, archived: [Vec<ViewColumn>; 2]) -> Shapes {
        Shapes {
            list: Object::ALL.map(|object| Arc::new(Shape::list(object, &layout))),
            detail: Object::ALL.map(|object| Arc::new(Shape::detail(object, &layout))),
            team: Arc::new(Shape::plain(Resource::TeamMembers)),
            definitions: Arc::new(Shape::plain(Resource::CustomFields)),
            documents: Object::ALL.map(|object| Arc::new(Document::new(object, layout.of(object)))),
            archived: Arc::new(archived),
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
        let is_it = |known: &&Column| known.name == column && !known.is_num;
        let of = |shape: &Shape| shape.columns.iter().find(is_it).map(|known| known.source);
        let (list, detail) = (&self.list[object as usize], &self.detail[object as usize]);
        of(list).map(|source| (source, false)).or_else(|| Some((of(detail)?, true)))
    }

    /// The columns of an object's `_full` view, in order, but for `details_current`.
    pub fn view(&self, object: Object) -> Vec<ViewColumn> {
        let (list, detail) = (&self.list[object as usize], &self.detail[object as usize]);
        let of_list = |column: &str| ViewColumn { name: column.into(), from: From::List(column.into()) };
        let of_detail = |column: &str, name: &str| ViewColumn { name: name.into(), from: From::Detail(column.into()) };
        let standard = |c: &&Column| !c.name.starts_with("cf_") && c.name != "extra";
        let custom = |c: &&Column| c.name.starts_with("cf_");
        let mut columns = vec![of_list("id")];
        for column in list.columns.iter().filter(standard) {
            columns.push(of_list(&column.name));
            let pointer = POINTERS.iter().find(|pointer| pointer.from == column.name);
            columns.extend(pointer.map(|of| ViewColumn { name: of.name.into(), from: From::Name(of) }));
        }
        let details = detail.columns.iter().filter(standard).filter(|c| c.name != "etag");
        columns.extend(details.map(|c| of_detail(&c.name, &c.name)));
        columns.extend(list.columns.iter().filter(custom).map(|c| of_list(&c.name)));
        columns.extend(detail.columns.iter().filter(custom).map(|c| of_detail(&c.name, &c.name)));
        columns.extend(self.archived[object as usize].iter().cloned());
        columns.push(of_list("extra"));
        columns.push(of_detail("extra", "detail_extra"));
        columns.push(of_list("synced_at"));
        columns.push(of_detail("fetched_at", "fetched_at"));
        columns
    }

    pub fn document(&self, object: Object) -> Arc<Document> {
        self.documents[object as usize].clone()
    }
}

#[derive(Clone, Debug)]
pub struct ViewColumn {
    pub name: String,
    pub from: From,
}

#[derive(Clone, Debug)]
pub enum From {
    List(String),
    Detail(String),
    Name(&'static Pointer),
}

impl From {
    pub fn sql(&self) -> String {
        match self {
            From::List(column) => format!("r.{column}"),
            From::Detail(column) => format!("d.{column}"),
            From::Name(pointer) => pointer.expression.into(),
        }
    }
}

/// The name of a team member `o`.
pub const OWNER_NAME: &str = "nullif(trim(coalesce(o.first_name, '') || ' ' || coalesce(o.last_name, '')), '')";

/// A name column next to the column that references the record.
#[derive(Debug)]
pub struct Pointer {
    /// The column with the reference.
    pub from: &'static str,
    pub name: &'static str,
    /// The name, of the row of a table that has this key.
    pub expression: &'static str,
    pub key: &'static str,
    pub about: &'static str,
}

pub static POINTERS: [Pointer; 2] = [
    Pointer {
        from: "owner_id",
        name: "owner_name",
        expression: OWNER_NAME,
        key: "team_members AS o ON o.id",
        about: "first and last name of the owner, if that team member is mirrored",
    },
    Pointer {
        from: "company_id",
        name: "company_name",
        expression: "c.name",
        key: "companies AS c ON c.id",
        about: "name of the company, if that company is mirrored",
    },
];
