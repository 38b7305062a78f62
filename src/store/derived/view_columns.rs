//! The columns of the `_full` views: those of the record, those of its detail, and derived ones.

use crate::model::catalogue::Object;
use crate::store::custom::extras::ObjectExtras;
use crate::store::records::shape::{Column, Shape};
use crate::store::table_shapes::Shapes;

/// A column of a `_full` view and its source.
pub(in crate::store) struct ViewColumn {
    pub name: String,
    pub from: From,
}

/// The source of a column of a `_full` view.
pub(in crate::store) enum From {
    List(String),
    Detail(String),
    /// A value that a column of the record refers to: an expression, its description, and the join that it needs.
    Name {
        expression: &'static str,
        about: &'static str,
        join: &'static str,
    },
    /// The labels of this select column of the record.
    Labels {
        of: String,
        expression: String,
    },
}

impl From {
    pub(in crate::store) fn sql(&self) -> String {
        match self {
            From::List(column) => format!("r.{column}"),
            From::Detail(column) => format!("d.{column}"),
            From::Name { expression, .. } => (*expression).into(),
            From::Labels { expression, .. } => expression.clone(),
        }
    }
}

/// The name of a team member `o`.
pub(in crate::store) const OWNER_NAME: &str =
    "nullif(trim(coalesce(o.first_name, '') || ' ' || coalesce(o.last_name, '')), '')";

/// A name column next to the column that references the record: reference, name column, expression, description, join.
pub(in crate::store) type Pointer = (&'static str, &'static str, &'static str, &'static str, &'static str);

pub(in crate::store) const POINTERS: [Pointer; 2] = [
    (
        "owner_id",
        "owner_name",
        OWNER_NAME,
        "first and last name of the owner, if that team member is mirrored",
        "LEFT JOIN team_members AS o ON o.id = r.owner_id",
    ),
    (
        "company_id",
        "company_name",
        "c.name",
        "name of the company, if that company is mirrored",
        "LEFT JOIN companies AS c ON c.id = r.company_id",
    ),
];

/// The columns of an object's `_full` view, in order, but for `details_current`.
pub(in crate::store) fn columns(shapes: &Shapes, object: Object) -> Vec<ViewColumn> {
    of_shapes(&shapes.list(object), &shapes.detail(object), shapes.extras(object))
}

fn of_shapes(list: &Shape, detail: &Shape, extras: &ObjectExtras) -> Vec<ViewColumn> {
    let of_list = |column: &str| ViewColumn { name: column.into(), from: From::List(column.into()) };
    let of_detail = |column: &str, name: &str| ViewColumn { name: name.into(), from: From::Detail(column.into()) };
    let standard = |c: &&Column| !c.name.starts_with("cf_") && c.name != "extra";
    let custom = |c: &&Column| c.name.starts_with("cf_");
    let mut columns = vec![of_list("id")];
    for column in list.columns.iter().filter(standard) {
        columns.push(of_list(&column.name));
        let pointer = POINTERS.iter().find(|(from, ..)| *from == column.name);
        columns.extend(pointer.map(|(_, name, expression, about, join)| ViewColumn {
            name: (*name).into(),
            from: From::Name { expression, about, join },
        }));
    }
    let details = detail.columns.iter().filter(standard).filter(|c| c.name != "etag");
    columns.extend(details.map(|c| of_detail(&c.name, &c.name)));
    for column in list.columns.iter().filter(custom) {
        columns.push(of_list(&column.name));
        columns.extend(extras.labels.iter().filter(|labels| labels.of == column.name).map(|labels| ViewColumn {
            name: labels.name.clone(),
            from: From::Labels { of: labels.of.clone(), expression: labels.expression(&column.name) },
        }));
    }
    columns.extend(detail.columns.iter().filter(custom).map(|c| of_detail(&c.name, &c.name)));
    for archived in &extras.archived {
        let from = if archived.is_detail { From::Detail } else { From::List };
        columns.push(ViewColumn { name: archived.name.clone(), from: from(archived.source.clone()) });
        columns.extend(extras.labels.iter().filter(|labels| labels.of == archived.name).map(|labels| ViewColumn {
            name: labels.name.clone(),
            from: From::Labels { of: labels.of.clone(), expression: labels.expression(&archived.source) },
        }));
    }
    columns.push(of_list("extra"));
    columns.push(of_detail("extra", "detail_extra"));
    columns.push(of_list("synced_at"));
    columns.push(of_detail("fetched_at", "fetched_at"));
    columns
}
