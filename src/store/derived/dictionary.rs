//! `mirror_columns`: the data dictionary, built from the catalogue, the definitions and the schema.

use rusqlite::{Connection, params};

use crate::model::{CustomFields, FieldProjection, Object, Resource};
use crate::store::custom::rows::{DefinitionRow, definition_in, rows};
use crate::store::records::shape::DEFINITIONS;
use crate::store::statements::Statements as _;
use crate::store::table_shapes::From;
use crate::store::{ColumnLine, DerivedTx, Result, Shape, Source, guide};

fn own(name: &str, data_type: &str, about: &str) -> ColumnLine {
    let (name, data_type, source, about) = (name.into(), data_type.into(), "mirror".into(), Some(about.into()));
    ColumnLine { name, data_type, source, about, ..ColumnLine::default() }
}

const SYNCED: &str = "when the answer that this row was last written from was asked for";
const FETCHED: &str = "when the detail was asked for";
const EXTRA: &str = "what the columns cannot hold, verbatim JSON by wire name";

fn shaped(shape: &Shape, resource: Resource, custom: &CustomFields, definitions: &[DefinitionRow]) -> Vec<ColumnLine> {
    let id = own(shape.key, "id", "record identifier");
    let mut lines = vec![ColumnLine { wire_name: Some("id".into()), source: "list".into(), ..id }];
    for column in &shape.columns {
        let line = match column.source {
            Source::Field(index) => {
                let field = &resource.fields()[index];
                let own_etag = column.name == "etag" && shape.stamp == "fetched_at";
                let is_detail = field.projection == FieldProjection::Detail || own_etag;
                let about = if own_etag { "the record's etag when this detail was read" } else { field.about };
                ColumnLine {
                    wire_name: Some(field.wire.into()),
                    source: if is_detail { "detail" } else { "list" }.into(),
                    ..own(&column.name, field.kind.into_str(), about)
                }
            }
            Source::Slot(slot) => {
                let field = &custom.fields()[slot];
                ColumnLine {
                    wire_name: Some(format!("customFields.{}", field.key)),
                    label: definition_in(definitions, &field.definition).and_then(|of| of.label.clone()),
                    source: "custom".into(),
                    about: None,
                    ..own(&column.name, field.data_type.as_str(), "")
                }
            }
            Source::Extra => own("extra", "json", EXTRA),
        };
        lines.push(match column.name.strip_suffix("_num").filter(|_| column.is_num) {
            Some(of) => {
                let about = Some(format!("the nearest double of {of}, for sorting and sums"));
                ColumnLine { data_type: "number".into(), about, ..line }
            }
            None => line,
        });
    }
    let about = if shape.stamp == "fetched_at" { FETCHED } else { SYNCED };
    lines.push(own(shape.stamp, "timestamp", about));
    lines
}

/// The line of a column that a view keeps of an archived field, or of its companion.
fn of_archived(name: &str, definitions: &[DefinitionRow]) -> Option<ColumnLine> {
    let about = "archived: the last values before that";
    definitions.iter().find_map(|row| {
        let (of, column) = (&row.definition, row.column.as_ref()?);
        let is_num = of.data_type.has_num() && column.num() == name;
        let data_type = if is_num { "number" } else { of.data_type.as_str() };
        (is_num || column.as_str() == name).then(|| ColumnLine {
            wire_name: Some(format!("customFields.{}", of.key)),
            label: of.label.clone(),
            source: "custom".into(),
            ..own(name, data_type, about)
        })
    })
}

/// The lines of a table or view that only the schema describes: the comment of a column's line is its meaning.
fn plain(conn: &Connection, table: &str) -> Result<Vec<ColumnLine>> {
    let sql: String =
        conn.value("SELECT sql FROM sqlite_schema WHERE type IN ('table', 'view') AND name = ?1", [table])?;
    let columns: Vec<(String, String)> = conn.tuples("SELECT name, type FROM pragma_table_info(?1)", [table])?;
    let about = |column: &str| {
        sql.lines()
            .map(str::trim)
            .find(|line| line.trim_start_matches('"').starts_with(column))
            .and_then(|line| line.split_once("-- "))
            .map(|(_, about)| about.to_string())
    };
    Ok(columns
        .into_iter()
        .map(|(name, kind)| ColumnLine {
            about: about(&name),
            // The columns of a search table have no type: they are texts.
            ..own(&name, if kind.is_empty() { "text".into() } else { kind.to_lowercase() }.as_str(), "")
        })
        .collect())
}

impl DerivedTx<'_> {
    pub(in crate::store) fn rebuild_dictionary(&self) -> Result<()> {
        self.run("DELETE FROM mirror_columns", [])?;
        for object in Object::ALL {
            let definitions = rows(&self.tx.conn, object)?;
            let shapes = self.tx.shapes();
            let custom = shapes.layout.of(object);
            let (list, detail) = (shapes.list(object), shapes.detail(object));
            let of_list = shaped(&list, object.resource(), custom, &definitions);
            let of_detail = shaped(&detail, object.resource(), custom, &definitions);
            let mut full: Vec<ColumnLine> = shapes
                .view(object)
                .into_iter()
                .filter_map(|shown| {
                    let (from, column) = match &shown.from {
                        From::List(column) => (&of_list, column),
                        From::Detail(column) => (&of_detail, column),
                        From::Name(pointer) => return Some(own(&shown.name, "text", pointer.about)),
                    };
                    match from.iter().find(|entry| entry.name == *column) {
                        Some(entry) => Some(ColumnLine { name: shown.name, ..entry.clone() }),
                        None => of_archived(&shown.name, &definitions),
                    }
                })
                .collect();
            let current = "1 while the detail's columns are as new as the record's, else 0";
            full.push(own("details_current", "boolean", current));
            self.enter(list.table, &of_list)?;
            self.enter(detail.table, &of_detail)?;
            self.enter(object.full_view(), &full)?;
        }
        let none = CustomFields::default();
        self.enter("team_members", &shaped(&self.tx.shapes().team, Resource::TeamMembers, &none, &[]))?;
        let mut definitions = shaped(&self.tx.shapes().definitions, Resource::CustomFields, &none, &[]);
        let about = "the column that holds the values; NULL where they are kept in extra";
        definitions.insert(definitions.len() - 2, own("column_name", "text", about));
        self.enter(DEFINITIONS, &definitions)?;
        for (table, _) in guide::PLAIN {
            self.enter(table, &plain(&self.tx.conn, table)?)?;
        }
        Ok(())
    }

    fn enter(&self, table: &str, lines: &[ColumnLine]) -> Result<()> {
        let sql = "INSERT INTO mirror_columns VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)";
        for (position, line) in lines.iter().enumerate() {
            let ColumnLine { name, wire_name, label, data_type, source, about, .. } = line;
            let values = params![table, name, position as i64, wire_name, label, data_type, source, about];
            self.run(sql, values)?;
        }
        Ok(())
    }
}
