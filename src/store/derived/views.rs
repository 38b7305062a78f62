//! `contacts_full` and `companies_full`: record and detail side by side, active custom fields included, and what the
//! owner and the company are called.
//!
//! The views are dropped and made again inside the transaction that changes the columns, so no reader ever meets a
//! missing view or one that names a column that is gone. Every join is outer and by a unique key, so that SQLite runs
//! only those whose columns a question names.

use crate::model::catalogue::Object;
use crate::store::error::{Doing, StoreError};
use crate::store::outbox::takes;
use crate::store::records::shape::Shape;
use crate::store::tx::MirrorTx;

/// A column of a `_full` view and where it comes from.
pub(in crate::store) struct Shown {
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
    fn sql(&self) -> String {
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
type Pointer = (&'static str, &'static str, &'static str, &'static str, &'static str);

const POINTERS: [Pointer; 2] = [
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

/// A text column as an expression without an affinity. An index on the same expression serves filters on it.
pub(in crate::store) fn as_written(column: &str) -> String {
    format!("coalesce({column}, NULL)")
}

/// The columns of an object's `_full` view, in order, but for `details_current`.
pub(in crate::store) fn columns(list: &Shape, detail: &Shape) -> Vec<Shown> {
    let of_list = |column: &str| Shown { name: column.into(), from: From::List(column.into()) };
    let of_detail = |column: &str, name: &str| Shown { name: name.into(), from: From::Detail(column.into()) };
    let standard = |c: &&crate::store::records::shape::Column| !c.name.starts_with("cf_") && c.name != "extra";
    let custom = |c: &&crate::store::records::shape::Column| c.name.starts_with("cf_");
    let mut columns = vec![of_list("id")];
    for column in list.columns.iter().filter(standard) {
        columns.push(of_list(&column.name));
        let pointer = POINTERS.iter().find(|(from, ..)| *from == column.name);
        columns.extend(pointer.map(|(_, name, expression, about, _)| Shown {
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

impl MirrorTx<'_> {
    pub(in crate::store) fn drop_views(&self) -> Result<(), StoreError> {
        for object in Object::ALL {
            self.conn
                .execute_batch(&format!("DROP VIEW IF EXISTS {}", object.full_view()))
                .doing("remake the views")?;
        }
        Ok(())
    }

    pub(in crate::store) fn remake_views(&self) -> Result<(), StoreError> {
        self.drop_views()?;
        for object in Object::ALL {
            let (list, detail) = (self.shapes.list(object), self.shapes.detail(object));
            // A trigger must see a value as it was written: an expression has no affinity that would turn it into text first.
            // DuckDB, which parses the views of the files that it reads, knows `coalesce` of a text, but no `+`.
            let editable = self.editable(object)?;
            let shown: Vec<String> = columns(&list, &detail)
                .iter()
                .map(|column| match editable.get(&column.name) {
                    Some(field) if takes::could_be_rounded(field) => {
                        format!("{} AS {}", as_written(&column.from.sql()), column.name)
                    }
                    _ => format!("{} AS {}", column.from.sql(), column.name),
                })
                .collect();
            let joins: Vec<&str> =
                POINTERS.iter().filter(|(from, ..)| list.place(from).is_some()).map(|(.., join)| *join).collect();
            // `d.etag IS r.etag` says the same, but only to SQLite: DuckDB parses the views of the files that it reads.
            let sql = format!(
                "CREATE VIEW {view} AS SELECT {shown}, (d.{key} IS NOT NULL AND \
                 coalesce(d.etag = r.etag, d.etag IS NULL AND r.etag IS NULL)) AS details_current \
                 FROM {table} AS r LEFT JOIN {details} AS d ON d.{key} = r.id {joins}",
                joins = joins.join(" "),
                view = object.full_view(),
                shown = shown.join(", "),
                table = list.table,
                details = detail.table,
                key = detail.key,
            );
            self.conn.execute_batch(&sql).doing("remake the views")?;
        }
        self.make_edit_triggers()?;
        self.make_table_guards()
    }
}
