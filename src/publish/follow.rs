//! Sends one batch of changes: records, new entries of the feed, whole small tables and joined names, in one
//! transaction with the cursor.

use std::collections::{BTreeMap, BTreeSet};

use tokio_postgres::types::Type;

use super::database::{Param, RowStatement, record_name};
use super::row::PgRow;
use super::sides::{self, Sides, Unsent};
use super::state::TargetState;
use super::tables::{Publication, PublishedTable};
use super::{PublishError, sql, value};
use crate::model::Object;
use crate::store::{ChangedRecord, FeedSpan, Moment, PageQuery, SourceRow, StoreError, feed};

const DELETING: &str = "delete rows";

/// The contents of one batch, read in one snapshot.
struct Batch {
    span: FeedSpan,
    /// What changed, and the small tables that differ from the published ones.
    changes: Unsent,
    /// The position in the feed after this batch.
    seq: i64,
    /// The names of all owners, with their digest, if one changed.
    owners: Option<(JoinedNames, String)>,
    companies: JoinedNames,
    is_last: bool,
}

/// The names of records that others point to, by id; `None` for one that has none or does not exist.
type JoinedNames = BTreeMap<String, Option<String>>;

impl Sides<'_> {
    /// Returns the number of records that were sent, and of entries of the feed.
    pub(super) async fn send_all(&mut self) -> Result<(u64, u64), PublishError> {
        let (mut records, mut entries, mut is_last) = (0, 0, false);
        while !is_last {
            let sent = match self.send_batch().await {
                Ok(sent) => sent,
                // A deferred constraint or trigger failed the commit.
                Err(error)
                    if error.is_refusal()
                        && error.table().is_none()
                        && self.database.retry_checking_at_once().await? =>
                {
                    continue;
                }
                Err(error) => {
                    self.go_on_without(error).await?;
                    continue;
                }
            };
            records += sent.changes.records.len() as u64;
            entries += sent.changes.entries.len() as u64;
            is_last = sent.is_last;
        }
        Ok((records, entries))
    }

    async fn send_batch(&mut self) -> Result<Batch, PublishError> {
        let (publication, seen) = (self.publication.clone(), self.state.clone());
        let batch = self.mirror.moment(move |moment| read(moment, &publication, &seen)).await?;
        let publication = &self.publication;
        let mut next = self.state.clone();
        if let Some((_, seq)) = &mut next.cursor {
            *seq = batch.seq;
        }
        if let Some(last) = batch.changes.records.last() {
            next.details.changed = last.seq;
        }
        for (table, (_, digest)) in &batch.changes.small {
            next.details.digests.insert((*table).into(), digest.clone());
        }
        if let Some((_, digest)) = &batch.owners {
            next.details.digests.insert("owner_names".into(), digest.clone());
        }
        let multi_selects = value::digest(format!("{:?}", publication.multi_selects).as_bytes());
        let multi_changed =
            next.details.digests.insert("multi_selects".into(), multi_selects.clone()) != Some(multi_selects);
        next.details.meanings = super::state::meanings(publication);

        let owed: Vec<&str> =
            publication.names_of_others().filter(|name| self.state.details.owed.contains(*name)).collect();
        next.details.owed.retain(|name| !owed.contains(&name.as_str()));

        self.database.begin(&next).await?;
        for table in owed {
            self.empty(table).await?;
        }
        for table in publication.open_tables() {
            if let Some((rows, _)) = batch.changes.small.get(table.name) {
                self.replace_small(table, rows).await?;
            }
        }
        for object in &self.state.details.loaded {
            self.send_records(&batch, *object).await?;
            if multi_changed && publication.table("custom_multi_values").is_some() {
                self.drop_other_multi_values(*object).await?;
            }
        }
        self.send_names(("company_id", "company_name"), &batch.companies, false).await?;
        self.send_changes(&batch).await?;
        self.forget_refused_changes().await?;
        if let Some((owners, _)) = &batch.owners {
            self.send_names(("owner_id", "owner_name"), owners, true).await?;
        }
        self.database.commit().await?;
        next.generation += 1;
        self.state = next;
        Ok(batch)
    }

    async fn replace_small(&self, table: &PublishedTable, rows: &[SourceRow]) -> Result<(), PublishError> {
        let (database, rows) = (self.database, self.converted(table, rows));
        let doing = "replace a small table";
        database.forget_refused(table.name).await?;
        let (name, deleted) = (sql::qualified(&database.schema, table.name), (table.name, "rows that no longer exist"));
        let (mut statement, mut params) = (format!("DELETE FROM {name}"), Vec::<Param<'_>>::new());
        let kept = table.place("id").filter(|_| table.key == ["id"]).map(|place| keys(&rows, place));
        if let Some(kept) = &kept {
            statement.push_str(" WHERE NOT (id = ANY($1::text[]))");
            params.push((kept, Type::TEXT_ARRAY));
        }
        database.write_whole(doing, &statement, deleted, params).await?;
        database.upsert(table, table.name, &rows).await
    }

    /// Sends the records of an object: existing rows are written, missing ones are deleted.
    async fn send_records(&self, batch: &Batch, object: Object) -> Result<(), PublishError> {
        let (database, publication) = (self.database, &self.publication);
        let records: Vec<&ChangedRecord> =
            batch.changes.records.iter().filter(|record| record.object == object).collect();
        if records.is_empty() {
            return Ok(());
        }
        let ids: Vec<String> = records.iter().map(|record| value::key(&record.id).into_owned()).collect();
        let schema = database.schema.as_str();
        let object_type = object.as_str();
        for (name, key, of_object) in sides::tables_of_record(object) {
            let Some(table) = publication.table(name) else { continue };
            let rows = self.converted(table, batch.changes.rows_of(table, object));
            let (mut gone, mut fixed) = (ids.clone(), Vec::<Param<'_>>::new());
            if of_object {
                // A record can have several rows, of which none may stay.
                fixed.push((&object_type, Type::TEXT));
            } else {
                let kept = keys(&rows, table.place(key).unwrap_or(0));
                gone.retain(|id| !kept.contains(id));
            }
            let name_of = |id: &String| if of_object { record_name(object_type, id) } else { id.clone() };
            let names = gone.iter().map(name_of).collect();
            let arrays = vec![gone.iter().map(|id| Some(id.as_str())).collect()];
            let statement = sql::delete_records(schema, name, key, of_object);
            let delete = RowStatement::new(DELETING, statement, name, names, arrays);
            database.write(&RowStatement { fixed, ..delete }).await?;
            database.upsert(table, name, &rows).await?;
        }
        let erased = records.iter().filter(|record| record.erase > 0 && publication.table("changes").is_some());
        for record in erased {
            let statement = format!(
                "DELETE FROM {} WHERE object_type = $1 AND record_id = $2 AND seq <= $3",
                sql::qualified(schema, "changes")
            );
            let id = value::key(&record.id).into_owned();
            let params: Vec<Param<'_>> =
                vec![(&object_type, Type::TEXT), (&id, Type::TEXT), (&record.erase, Type::INT8)];
            let name = format!("history of {}", record_name(object_type, &id));
            database.write_whole("erase history", &statement, ("changes", &name), params).await?;
        }
        let Some(table) = publication.table("changes") else { return Ok(()) };
        database.upsert(table, table.name, &self.converted(table, batch.changes.rows_of(table, object))).await
    }

    /// Deletes values of multi-selects that are archived or no longer published.
    async fn drop_other_multi_values(&self, object: Object) -> Result<(), PublishError> {
        let published = self.publication.multi_selects.iter().filter(|(of, _)| *of == object);
        let keys: Vec<String> = published.map(|(_, key)| value::key(key).into_owned()).collect();
        let statement = format!(
            "DELETE FROM {} WHERE object_type = $1 AND NOT (field_key = ANY($2::text[]))",
            sql::qualified(&self.database.schema, "custom_multi_values")
        );
        let object_type = object.as_str();
        let name = format!("values of {object_type} fields that are not published");
        let params: Vec<Param<'_>> = vec![(&object_type, Type::TEXT), (&keys, Type::TEXT_ARRAY)];
        self.database.write_whole(DELETING, &statement, ("custom_multi_values", &name), params).await
    }

    async fn send_changes(&self, batch: &Batch) -> Result<(), PublishError> {
        let Some(table) = self.publication.table("changes") else { return Ok(()) };
        self.database.upsert(table, table.name, &self.converted(table, &batch.changes.entries)).await?;
        if batch.span.forgotten > 0 && self.state.seq() > 0 {
            let statement =
                format!("DELETE FROM {} WHERE seq <= $1", sql::qualified(&self.database.schema, table.name));
            let params: Vec<Param<'_>> = vec![(&batch.span.forgotten, Type::INT8)];
            self.database.write_whole("delete old changes", &statement, (table.name, "pruned history"), params).await?;
        }
        Ok(())
    }

    /// Removes the entries from the list of refused rows that are no part of the history any more.
    async fn forget_refused_changes(&self) -> Result<(), PublishError> {
        let name = "changes";
        let listed = self.database.refused_numbers(name).await?;
        if listed.is_empty() {
            return Ok(());
        }
        let gone = self.mirror.moment(move |moment| {
            let query = PageQuery { table: name.into(), columns: vec!["seq".into()], key: vec!["seq".into()] };
            let numbers: Vec<&str> = listed.iter().map(String::as_str).collect();
            let kept = moment.of_records(&query, "seq", None, &numbers)?;
            let kept: BTreeSet<String> = kept.iter().map(|row| value::source(&row[0])).collect();
            Ok::<_, StoreError>(listed.into_iter().filter(|listed| !kept.contains(listed)).collect::<Vec<String>>())
        });
        self.database.forget_refused_rows(name, &gone.await?).await
    }

    /// Updates a joined name where it differs, in the tables that have it: the feed has no entry for the name of another
    /// record. Where the names are all that there are, others are cleared.
    async fn send_names(
        &self,
        (pointer, column): (&str, &str),
        names: &JoinedNames,
        are_all: bool,
    ) -> Result<(), PublishError> {
        let (database, doing) = (self.database, "update names");
        let ids: Vec<String> = names.keys().map(|id| value::key(id).into_owned()).collect();
        for table in self.publication.open_tables().filter(|table| table.object().is_some()) {
            if table.place(column).is_none() || table.place(pointer).is_none() {
                continue;
            }
            let updated = ids.iter().map(|id| format!("{column} of {id}")).collect();
            let arrays =
                vec![ids.iter().map(|id| Some(id.as_str())).collect(), names.values().map(Option::as_deref).collect()];
            let statement = sql::set_names(&database.schema, table.name, pointer, column);
            database.write(&RowStatement::new(doing, statement, table.name, updated, arrays)).await?;
            if are_all {
                let clear = sql::clear_names(&database.schema, table.name, pointer, column);
                let removed = (table.name, "owner_name of removed owners");
                database.write_whole(doing, &clear, removed, vec![(&ids, Type::TEXT_ARRAY)]).await?;
            }
        }
        Ok(())
    }
}

/// Whether something waits to be sent that changes rows of other records than those that changed.
pub(super) fn is_waiting(
    moment: &Moment<'_>,
    publication: &Publication,
    state: &TargetState,
) -> Result<bool, StoreError> {
    Ok(moment.others_follow(state.details.changed)?
        || read_owners(moment, state)?.is_some()
        || sides::small(moment, publication)?.iter().any(|(name, small)| differs(state, name, small)))
}

fn read(moment: &Moment<'_>, publication: &Publication, state: &TargetState) -> Result<Batch, PublishError> {
    let span = feed::span(moment.tx)?;
    let mut changes = Unsent::read(moment, publication, state, (state.details.changed, state.seq()))?;
    changes.small.retain(|name, small| differs(state, name, small));
    let seq = changes.last.filter(|_| !changes.is_end).unwrap_or(span.newest);
    Ok(Batch {
        span,
        seq,
        owners: read_owners(moment, state)?,
        companies: read_company_names(moment, &changes.records)?,
        is_last: changes.is_end,
        changes,
    })
}

fn differs(state: &TargetState, name: &str, (_, digest): &(Vec<SourceRow>, String)) -> bool {
    state.details.digests.get(name) != Some(digest)
}

fn read_company_names(moment: &Moment<'_>, records: &[ChangedRecord]) -> Result<JoinedNames, StoreError> {
    let changed = records.iter().filter(|record| record.object == Object::Company);
    let mut names: JoinedNames = changed.map(|record| (record.id.clone(), None)).collect();
    let query = PageQuery {
        table: Object::Company.table().into(),
        columns: vec!["id".into(), "name".into()],
        key: vec!["id".into()],
    };
    let ids: Vec<&str> = names.keys().map(String::as_str).collect();
    let found = moment.of_records(&query, "id", None, &ids)?;
    names.extend(names_of(&found));
    Ok(names)
}

fn read_owners(moment: &Moment<'_>, state: &TargetState) -> Result<Option<(JoinedNames, String)>, StoreError> {
    let owners = moment.owner_names()?;
    let digest = value::digest(format!("{owners:?}").as_bytes());
    let has_changed = state.details.digests.get("owner_names") != Some(&digest);
    Ok(has_changed.then(|| (names_of(&owners).collect(), digest)))
}

/// The names in rows of an id and a name, as far as PostgreSQL can store them.
fn names_of(rows: &[SourceRow]) -> impl Iterator<Item = (String, Option<String>)> {
    let name = |row: &SourceRow| row[1].as_text().filter(|name| !name.contains('\0')).map(String::from);
    rows.iter().filter_map(move |row| Some((row[0].as_text()?.to_string(), name(row))))
}

fn keys(rows: &[PgRow], place: usize) -> Vec<String> {
    rows.iter().filter_map(|row| row.get(place).cloned().flatten()).collect()
}
