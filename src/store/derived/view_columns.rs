//! The columns of the `_full` views: those of the record, of its detail, and the names of what it points at.

use crate::store::records::shape::Shape;

/// A column of a `_full` view and where it comes from.
pub(in crate::store) struct ViewColumn {
    pub name: String,
    pub from: From,
}

/// Where a column of a `_full` view comes from.
pub(in crate::store) enum From {
    /// This column of the record.
    List(String),
    /// This column of its detail.
    Detail(String),
    /// What a column of the record points at: an expression, and what it is.
    Name(&'static str, &'static str),
}

impl From {
    pub(in crate::store) fn sql(&self) -> String {
        match self {
            From::List(column) => format!("r.{column}"),
            From::Detail(column) => format!("d.{column}"),
            From::Name(expression, _) => (*expression).into(),
        }
    }
}

/// What a team member `o` is called.
pub(in crate::store) const OWNER_NAME: &str =
    "nullif(trim(coalesce(o.first_name, '') || ' ' || coalesce(o.last_name, '')), '')";

/// A name that stands beside the column that points at it: the column, the name's column, expression, what it is, join.
pub(in crate::store) type Pointer = (&'static str, &'static str, &'static str, &'static str, &'static str);

pub(in crate::store) const POINTERS: [Pointer; 2] = [
    (
        "owner_id",
        "owner_name",
        OWNER_NAME,
        "first and last name of the owner, where that team member is here",
        "LEFT JOIN team_members AS o ON o.id = r.owner_id",
    ),
    (
        "company_id",
        "company_name",
        "c.name",
        "name of the company, where that company is here",
        "LEFT JOIN companies AS c ON c.id = r.company_id",
    ),
];

/// The columns of an object's `_full` view, in order, but for `details_current`.
pub(in crate::store) fn columns(list: &Shape, detail: &Shape) -> Vec<ViewColumn> {
    let of_list = |column: &str| ViewColumn { name: column.into(), from: From::List(column.into()) };
    let of_detail = |column: &str, name: &str| ViewColumn { name: name.into(), from: From::Detail(column.into()) };
    let standard = |c: &&crate::store::records::shape::Column| !c.name.starts_with("cf_") && c.name != "extra";
    let custom = |c: &&crate::store::records::shape::Column| c.name.starts_with("cf_");
    let mut columns = vec![of_list("id")];
    for column in list.columns.iter().filter(standard) {
        columns.push(of_list(&column.name));
        let pointer = POINTERS.iter().find(|(from, ..)| *from == column.name);
        columns.extend(pointer.map(|(_, name, expression, about, _)| ViewColumn {
            name: (*name).into(),
            from: From::Name(expression, about),
        }));
    }
    let details = detail.columns.iter().filter(standard).filter(|c| c.name != "etag");
    columns.extend(details.map(|c| of_detail(&c.name, &c.name)));
    columns.extend(list.columns.iter().filter(custom).map(|c| of_list(&c.name)));
    columns.extend(detail.columns.iter().filter(custom).map(|c| of_detail(&c.name, &c.name)));
    columns.push(of_list("extra"));
    columns.push(of_detail("extra", "detail_extra"));
    columns.push(of_list("synced_at"));
    columns.push(of_detail("fetched_at", "fetched_at"));
    columns
}
