//! Sends one batch of changes: records, new entries of the feed, whole small tables and joined names, in one
//! transaction with the cursor.

use std::collections::BTreeMap;

use tokio_postgres::types::Type;

use super::database::{Database, Param};
use super::error::PublishError;
use super::load::{RowFilter, converted};
use super::mirror::PublishedMirror;
use super::row::PgRow;
use super::rows::{RowStatement, record_name};
use super::sql;
use super::state::TargetState;
use super::tables::{Publication, PublishedTable};
use super::value;
use crate::model::Object;
use crate::model::field_value::SqlValue;
use crate::store::StoreError;
use crate::store::feed::FeedSpan;
use crate::store::publishing::source::{ChangedRecord, Moment, PageQuery, SourceRow};

/// The maximum number of records, and of feed entries, in one batch.
const BATCH: u32 = 1_000;

const DELETING: &str = "delete rows";

/// The contents of one batch, read in one snapshot.
struct Batch {
    span: FeedSpan,
    records: Vec<ChangedRecord>,
    /// The rows of those records, by table.
    rows: BTreeMap<&'static str, Vec<SourceRow>>,
    changes: Vec<SourceRow>,
    /// The position in the feed after this batch.
    seq: i64,
    /// Small tables that differ from the published ones: rows and digest.
    small: BTreeMap<&'static str, (Vec<SourceRow>, String)>,
    owners: Option<(Vec<SourceRow>, String)>,
    /// The names of the companies that changed: id, and name if the company still exists.
    company_names: BTreeMap<String, Option<String>>,
    is_last: bool,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct BatchOutcome {
    pub(super) records: u64,
    pub(super) changes: u64,
    pub(super) is_last: bool,
}

/// Sends one batch. `None` if the columns of the mirror have changed since `publication` was read.
async fn send_batch(
    database: &Database,
    mirror: &PublishedMirror,
    publication: &Publication,
    state: &mut TargetState,
) -> Result<Option<BatchOutcome>, PublishError> {
    let (read_for, seen) = (publication.clone(), state.clone());
    let Some(batch) = mirror.moment(move |moment| read(moment, &read_for, &seen)).await? else {
        return Ok(None);
    };
    let mut next = state.clone();
    if let Some((_, seq)) = &mut next.cursor {
        *seq = batch.seq;
    }
    if let Some(last) = batch.records.last() {
        next.details.changed = last.seq;
    }
    for (table, (_, digest)) in &batch.small {
        next.details.digests.insert((*table).into(), digest.clone());
    }
    if let Some((_, digest)) = &batch.owners {
        next.details.digests.insert("owner_names".into(), digest.clone());
    }
    let multi_selects = value::digest(format!("{:?}", publication.multi_selects).as_bytes());
    let multi_changed =
        next.details.digests.insert("multi_selects".into(), multi_selects.clone()) != Some(multi_selects);
    next.details.meanings = super::state::meanings(publication);

    database.begin(&next).await?;
    for table in publication.open_tables() {
        if let Some((rows, _)) = batch.small.get(table.name) {
            replace_small(database, publication, table, rows).await?;
        }
    }
    for object in &publication.objects {
        send_records(database, publication, &batch, *object).await?;
        if multi_changed && publication.table("custom_multi_values").is_some() {
            drop_other_multi_values(database, publication, *object).await?;
        }
    }
    send_company_names(database, publication, &batch.company_names).await?;
    send_changes(database, publication, state, &batch).await?;
    if let Some((owners, _)) = &batch.owners {
        send_owner_names(database, publication, owners).await?;
    }
    database.commit().await?;
    next.generation += 1;
    *state = next;
    Ok(Some(BatchOutcome {
        records: batch.records.len() as u64,
        changes: batch.changes.len() as u64,
        is_last: batch.is_last,
    }))
}

/// Sends batches until nothing is left to send. Returns what was sent.
pub(super) async fn send_all(
    database: &Database,
    mirror: &PublishedMirror,
    publication: &Publication,
    state: &mut TargetState,
) -> Result<BatchOutcome, PublishError> {
    let mut all = BatchOutcome::default();
    while !all.is_last {
        let sent = match send_batch(database, mirror, publication, state).await {
            // A deferred constraint failed the commit.
            Err(error) if error.is_of_rows() && database.retry_checking_at_once().await? => continue,
            sent => sent?.ok_or(PublishError::Unsettled)?,
        };
        all = BatchOutcome {
            records: all.records + sent.records,
            changes: all.changes + sent.changes,
            is_last: sent.is_last,
        };
    }
    Ok(all)
}

/// Whether something waits to be sent that changes rows of other records than those that changed.
pub(super) fn is_waiting(
    moment: &Moment<'_>,
    publication: &Publication,
    state: &TargetState,
) -> Result<bool, StoreError> {
    Ok(moment.others_follow(state.details.changed)?
        || read_owners(moment, state)?.is_some()
        || !read_small(moment, publication, state)?.is_empty())
}

fn read(moment: &Moment<'_>, publication: &Publication, state: &TargetState) -> Result<Option<Batch>, StoreError> {
    if moment.layout()? != publication.layout {
        return Ok(None);
    }
    let span = moment.span()?;
    let records = moment.changed_records(state.details.changed, BATCH)?;
    let mut rows = BTreeMap::new();
    for object in &publication.objects {
        let ids: Vec<&str> =
            records.iter().filter(|record| record.object == *object).map(|record| record.id.as_str()).collect();
        if ids.is_empty() {
            continue;
        }
        for (name, key, of_object) in
            [(object.table(), "id", false), ("custom_multi_values", "record_id", true), ("removed_records", "id", true)]
        {
            if let Some(table) = publication.table(name) {
                let found = moment.of_records(&table.query(), key, of_object.then_some(*object), &ids)?;
                let filter = RowFilter::new(table, publication, state);
                let found = found.into_iter().filter(|row| filter.is_chosen(row));
                rows.entry(table.name).or_insert_with(Vec::new).extend(found);
            }
        }
    }
    let company_names = read_company_names(moment, &records)?;
    let since = state.cursor.as_ref().map_or(0, |(_, seq)| *seq);
    let (changes, seq) = read_changes(moment, publication, state, since, span)?;
    let is_last = (records.len() as u32) < BATCH && seq >= span.newest;
    Ok(Some(Batch {
        span,
        records,
        rows,
        changes,
        seq,
        small: read_small(moment, publication, state)?,
        owners: read_owners(moment, state)?,
        company_names,
        is_last,
    }))
}

fn read_changes(
    moment: &Moment<'_>,
    publication: &Publication,
    state: &TargetState,
    since: i64,
    span: FeedSpan,
) -> Result<(Vec<SourceRow>, i64), StoreError> {
    let Some(table) = publication.table("changes") else { return Ok((Vec::new(), span.newest)) };
    let page = moment.page(&table.query(), Some(&[SqlValue::Int(since)]), BATCH)?;
    let last = page.last().and_then(|row| match row.get(table.place("seq")?) {
        Some(SqlValue::Int(seq)) => Some(*seq),
        _ => None,
    });
    let seq = if (page.len() as u32) < BATCH { span.newest } else { last.unwrap_or(span.newest) };
    let filter = RowFilter::new(table, publication, state);
    Ok((page.into_iter().filter(|row| filter.is_chosen(row)).collect(), seq))
}

fn read_company_names(
    moment: &Moment<'_>,
    records: &[ChangedRecord],
) -> Result<BTreeMap<String, Option<String>>, StoreError> {
    let changed = records.iter().filter(|record| record.object == Object::Company);
    let mut names: BTreeMap<String, Option<String>> = changed.map(|record| (record.id.clone(), None)).collect();
    let query = PageQuery {
        table: Object::Company.table().into(),
        columns: vec!["id".into(), "name".into()],
        key: vec!["id".into()],
    };
    let ids: Vec<&str> = names.keys().map(String::as_str).collect();
    for row in moment.of_records(&query, "id", None, &ids)? {
        let (Some(id), name) = (row[0].as_text(), row[1].as_text()) else { continue };
        names.insert(id.into(), name.filter(|name| !name.contains('\0')).map(String::from));
    }
    Ok(names)
}

type SmallTables = BTreeMap<&'static str, (Vec<SourceRow>, String)>;

fn read_small(moment: &Moment<'_>, publication: &Publication, state: &TargetState) -> Result<SmallTables, StoreError> {
    let mut out = BTreeMap::new();
    for table in publication.open_tables().filter(|table| table.is_small()) {
        let query = table.query();
        let rows = moment.page(&query, None, u32::MAX)?;
        let digest = value::digest(format!("{:?} {rows:?}", query.columns).as_bytes());
        if state.details.digests.get(table.name) != Some(&digest) {
            out.insert(table.name, (rows, digest));
        }
    }
    Ok(out)
}

fn read_owners(moment: &Moment<'_>, state: &TargetState) -> Result<Option<(Vec<SourceRow>, String)>, StoreError> {
    let owners = moment.owner_names()?;
    let digest = value::digest(format!("{owners:?}").as_bytes());
    Ok((state.details.digests.get("owner_names") != Some(&digest)).then_some((owners, digest)))
}

/// The keys of some rows, in their published form.
fn keys(rows: &[PgRow], place: usize) -> Vec<String> {
    rows.iter().filter_map(|row| row.get(place).cloned().flatten()).collect()
}

async fn replace_small(
    database: &Database,
    publication: &Publication,
    table: &PublishedTable,
    rows: &[SourceRow],
) -> Result<(), PublishError> {
    let rows = converted(publication, table, rows);
    let doing = "replace a small table";
    database.forget_refused(table.name).await?;
    let deleted = (table.name, "rows that no longer exist");
    match (table.key, table.place("id")) {
        (["id"], Some(place)) => {
            let others = sql::delete_others(&database.schema, table.name);
            let kept = keys(&rows, place);
            database.write_whole(doing, &others, deleted, vec![(&kept, Type::TEXT_ARRAY)]).await?;
        }
        _ => {
            let all = format!("DELETE FROM {}", sql::qualified(&database.schema, table.name));
            database.write_whole(doing, &all, deleted, Vec::new()).await?;
        }
    }
    database.upsert(table, &rows).await
}

/// Sends the records of an object: existing rows are written, missing ones are deleted.
async fn send_records(
    database: &Database,
    publication: &Publication,
    batch: &Batch,
    object: Object,
) -> Result<(), PublishError> {
    let records: Vec<&ChangedRecord> = batch.records.iter().filter(|record| record.object == object).collect();
    if records.is_empty() {
        return Ok(());
    }
    let ids: Vec<String> = records.iter().map(|record| value::key(&record.id).into_owned()).collect();
    let schema = database.schema.as_str();
    if let Some(table) = publication.table(object.table()) {
        let none = Vec::new();
        let rows = converted(publication, table, batch.rows.get(table.name).unwrap_or(&none));
        let kept = keys(&rows, table.place("id").unwrap_or(0));
        let gone: Vec<&str> = ids.iter().filter(|id| !kept.contains(id)).map(String::as_str).collect();
        database.upsert(table, &rows).await?;
        let delete = RowStatement {
            doing: DELETING,
            statement: sql::delete_records(schema, table.name, "id", false),
            table: table.name,
            names: gone.iter().map(ToString::to_string).collect(),
            arrays: vec![gone.into_iter().map(Some).collect()],
            fixed: Vec::new(),
        };
        database.write(&delete).await?;
    }
    let of_object = |name: &str| {
        let place = publication.table(name)?.place("object_type")?;
        let rows = batch.rows.get(name)?.iter().filter(|row| row[place].as_text() == Some(object.as_str()));
        Some(rows.cloned().collect::<Vec<SourceRow>>())
    };
    for (name, key) in [("custom_multi_values", "record_id"), ("removed_records", "id")] {
        let Some(table) = publication.table(name) else { continue };
        let object_type = object.as_str();
        let delete = RowStatement {
            doing: DELETING,
            statement: sql::delete_records(schema, name, key, true),
            table: name,
            names: ids.iter().map(|id| record_name(object_type, id)).collect(),
            arrays: vec![ids.iter().map(|id| Some(id.as_str())).collect()],
            fixed: vec![(&object_type, Type::TEXT)],
        };
        database.write(&delete).await?;
        let rows = converted(publication, table, &of_object(name).unwrap_or_default());
        database.upsert(table, &rows).await?;
    }
    let erased = records.iter().filter(|record| record.erase > 0 && publication.table("changes").is_some());
    for record in erased {
        let statement = format!(
            "DELETE FROM {} WHERE object_type = $1 AND record_id = $2 AND seq <= $3",
            sql::qualified(schema, "changes")
        );
        let (object_type, id) = (object.as_str(), value::key(&record.id).into_owned());
        let params: Vec<Param<'_>> = vec![(&object_type, Type::TEXT), (&id, Type::TEXT), (&record.erase, Type::INT8)];
        let name = format!("history of {}", record_name(object_type, &id));
        database.write_whole("erase history", &statement, ("changes", &name), params).await?;
    }
    Ok(())
}

/// Deletes values of multi-selects that are archived or no longer published.
async fn drop_other_multi_values(
    database: &Database,
    publication: &Publication,
    object: Object,
) -> Result<(), PublishError> {
    let published = publication.multi_selects.iter().filter(|(of, _)| *of == object);
    let keys: Vec<String> = published.map(|(_, key)| value::key(key).into_owned()).collect();
    let statement = format!(
        "DELETE FROM {} WHERE object_type = $1 AND NOT (field_key = ANY($2::text[]))",
        sql::qualified(&database.schema, "custom_multi_values")
    );
    let object_type = object.as_str();
    let name = format!("values of {object_type} fields that are not published");
    let params: Vec<Param<'_>> = vec![(&object_type, Type::TEXT), (&keys, Type::TEXT_ARRAY)];
    database.write_whole(DELETING, &statement, ("custom_multi_values", &name), params).await
}

async fn send_changes(
    database: &Database,
    publication: &Publication,
    state: &TargetState,
    batch: &Batch,
) -> Result<(), PublishError> {
    let Some(table) = publication.table("changes") else { return Ok(()) };
    database.upsert(table, &converted(publication, table, &batch.changes)).await?;
    let since = state.cursor.as_ref().map_or(0, |(_, seq)| *seq);
    if batch.span.forgotten > 0 && since > 0 {
        let statement = format!("DELETE FROM {} WHERE seq <= $1", sql::qualified(&database.schema, table.name));
        let params: Vec<Param<'_>> = vec![(&batch.span.forgotten, Type::INT8)];
        database.write_whole("delete old changes", &statement, (table.name, "pruned history"), params).await?;
    }
    Ok(())
}

/// Updates the contacts of companies that changed: the feed has no entry for the name of a contact's company.
async fn send_company_names(
    database: &Database,
    publication: &Publication,
    names: &BTreeMap<String, Option<String>>,
) -> Result<(), PublishError> {
    let Some(contacts) = publication.table("contacts").filter(|_| !names.is_empty()) else { return Ok(()) };
    if contacts.place("company_name").is_none() || contacts.place("company_id").is_none() {
        return Ok(());
    }
    let ids: Vec<String> = names.keys().map(|id| value::key(id).into_owned()).collect();
    let names = names.values().map(Option::as_deref).collect();
    set_names(database, contacts, ("company_id", "company_name"), &ids, names).await
}

/// Updates a joined name where it differs.
async fn set_names(
    database: &Database,
    table: &PublishedTable,
    (pointer, column): (&str, &str),
    ids: &[String],
    names: Vec<Option<&str>>,
) -> Result<(), PublishError> {
    let update = RowStatement {
        doing: "update names",
        statement: sql::set_names(&database.schema, table.name, pointer, column),
        table: table.name,
        names: ids.iter().map(|id| format!("{column} of {id}")).collect(),
        arrays: vec![ids.iter().map(|id| Some(id.as_str())).collect(), names],
        fixed: Vec::new(),
    };
    database.write(&update).await
}

/// Updates the records of owners whose names changed or who were removed.
async fn send_owner_names(
    database: &Database,
    publication: &Publication,
    owners: &[SourceRow],
) -> Result<(), PublishError> {
    let ids: Vec<String> =
        owners.iter().map(|row| value::key(row[0].as_text().unwrap_or_default()).into_owned()).collect();
    let names: Vec<Option<&str>> =
        owners.iter().map(|row| row[1].as_text().filter(|name| !name.contains('\0'))).collect();
    for table in publication.open_tables().filter(|table| table.object().is_some()) {
        if table.place("owner_name").is_none() || table.place("owner_id").is_none() {
            continue;
        }
        set_names(database, table, ("owner_id", "owner_name"), &ids, names.clone()).await?;
        let clear = sql::clear_names(&database.schema, table.name, "owner_id", "owner_name");
        let removed = (table.name, "owner_name of removed owners");
        database.write_whole("update names", &clear, removed, vec![(&ids, Type::TEXT_ARRAY)]).await?;
    }
    Ok(())
}
