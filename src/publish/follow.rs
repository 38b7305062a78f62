//! Sends changes: batches of records, new entries of the feed and joined names, each in one transaction with the cursor; then
//! loads what is owed, such as small tables that differ.

use std::collections::BTreeMap;

use tokio_postgres::types::Type;

use super::database::Param;
use super::sides::{self, ChangedRows, Sides, Unsent};
use super::state::{PRUNED, TargetState};
use super::tables::{Publication, PublishedTable};
use super::{PublishError, sql, value};
use crate::model::Object;
use crate::store::{Moment, SourceRow, StoreError, feed};

/// The contents of one batch, read in one snapshot.
struct Batch {
    changes: Unsent,
    /// The position in the feed after this batch.
    seq: i64,
    /// The entries of the feed up to this one were pruned.
    forgotten: i64,
    /// The names of the companies among the records, by id; `None` for one that has none or does not exist.
    companies: BTreeMap<String, Option<String>>,
    /// The tables that show something else than they were loaded with.
    owed: Vec<String>,
}

impl Sides<'_> {
    /// Returns the number of records that were sent, and of entries of the feed.
    pub(super) async fn send_all(&mut self) -> Result<(u64, u64), PublishError> {
        let (mut records, mut entries, mut is_last) = (0, 0, false);
        while !is_last {
            match self.send_batch().await {
                Ok(sent) => {
                    records += sent.changes.records.len() as u64;
                    entries += sent.changes.entries.len() as u64;
                    is_last = sent.changes.is_end;
                }
                Err(error) => self.go_on_without(error).await?,
            }
        }
        self.load_owed().await?;
        Ok((records, entries))
    }

    async fn send_batch(&mut self) -> Result<Batch, PublishError> {
        let batch = self.read(read).await?;
        let publication = &self.publication;
        let mut next = self.state.clone();
        if let Some((_, seq)) = &mut next.cursor {
            *seq = batch.seq;
        }
        if let Some(last) = batch.changes.records.last() {
            next.changed = last.seq;
        }
        next.owed.extend(batch.owed.iter().cloned());
        if publication.table("changes").is_some() {
            next.digests.insert(PRUNED.into(), batch.forgotten.to_string());
        }
        self.database.begin(&mut next).await?;
        let begun = next.clone();
        self.send_records(&mut next, &batch).await?;
        self.send_company_names(&mut next, &batch).await?;
        self.send_changes(&mut next, &batch).await?;
        if next != begun {
            self.database.advance(&mut next).await?;
        }
        self.database.run("COMMIT").await?;
        self.state = next;
        Ok(batch)
    }

    /// Sends the records: existing rows are written, missing ones are deleted.
    async fn send_records(&self, next: &mut TargetState, batch: &Batch) -> Result<(), PublishError> {
        let database = self.database;
        for ChangedRows { table, key, object, gone, rows } in batch.changes.changes.values() {
            let Some(of) = self.publication.table(table) else { continue };
            let columns: Vec<&str> = object.iter().map(|_| "object_type").chain([*key]).collect();
            let of_record = |id: &String| object.iter().map(ToString::to_string).chain([value::key(id)]).collect();
            let gone: Vec<Vec<String>> = gone.iter().map(of_record).collect();
            if let Some(listed) = next.refused.get_mut(*table).filter(|_| *table == "changes") {
                let is_gone = |of: &str| gone.iter().any(|record| record.join(" ") == of);
                listed.retain(|name, _| !name.split_once(' ').is_some_and(|(_, of)| is_gone(of)));
            }
            database.delete_keys(next, of, &columns, &gone).await?;
            database.upsert(next, of, table, &self.converted(of, rows)).await?;
        }
        Ok(())
    }

    async fn send_changes(&self, next: &mut TargetState, batch: &Batch) -> Result<(), PublishError> {
        let (database, Some(table)) = (self.database, self.publication.table("changes")) else { return Ok(()) };
        database.upsert(next, table, table.name, &self.converted(table, &batch.changes.entries)).await?;
        if batch.forgotten == self.state.pruned() {
            return Ok(());
        }
        let statement = format!("DELETE FROM {} WHERE seq <= $1", sql::only(&database.schema, table.name));
        let params: [Param<'_>; 1] = [(&batch.forgotten, Type::INT8)];
        if let Some(listed) = next.refused.get_mut(table.name) {
            let seq = |name: &str| name.split(' ').next().and_then(|seq| seq.parse::<i64>().ok());
            listed.retain(|name, _| seq(name).is_none_or(|seq| seq > batch.forgotten));
        }
        database.write_any(next, table.name, &statement, &params).await
    }

    /// Updates the names of companies where they differ: the feed has no entry for the name of another record.
    async fn send_company_names(&self, next: &mut TargetState, batch: &Batch) -> Result<(), PublishError> {
        let ids: Vec<String> = batch.companies.keys().map(|id| value::key(id)).collect();
        let names: Vec<Option<&str>> = batch.companies.values().map(Option::as_deref).collect();
        let params: [Param<'_>; 2] = [(&ids, Type::TEXT_ARRAY), (&names, Type::TEXT_ARRAY)];
        let is_shown =
            |of: &&PublishedTable| ["company_id", "company_name"].iter().all(|name| of.place(name).is_some());
        for table in self.publication.open_tables().filter(is_shown).filter(|_| !ids.is_empty()) {
            let statement = sql::set_company_names(&self.database.schema, table.name);
            self.database.write_any(next, table.name, &statement, &params).await?;
        }
        Ok(())
    }
}

fn read(moment: &Moment<'_>, publication: &Publication, state: &TargetState) -> Result<Batch, PublishError> {
    let span = feed::span(moment.tx)?;
    let changes = Unsent::read(moment, publication, state)?;
    let seq = changes.last.filter(|_| !changes.is_end).unwrap_or(span.newest);
    let ids = changes.records.iter().filter(|record| record.object == Object::Company).map(|record| record.id.as_str());
    let ids: Vec<&str> = ids.collect();
    let found = moment.company_names(&ids)?;
    // As far as PostgreSQL can store them.
    let name = |row: &SourceRow| row[1].as_text().filter(|name| !name.contains('\0')).map(String::from);
    let named = found.iter().filter_map(|row| Some((row[0].as_text()?.to_string(), name(row))));
    // Those that are gone have no name.
    let companies = ids.iter().map(|id| (id.to_string(), None)).chain(named).collect();
    let owed = differing(moment, publication, state)?;
    Ok(Batch { changes, seq, forgotten: span.forgotten, companies, owed })
}

/// The tables that show something else than they were loaded with.
pub(super) fn differing(
    moment: &Moment<'_>,
    publication: &Publication,
    state: &TargetState,
) -> Result<Vec<String>, StoreError> {
    let mut differing = Vec::new();
    for table in publication.open_tables().filter(|table| state.is_loaded(table)) {
        let digest = sides::digest(moment, publication, table)?;
        if digest.is_some() && state.digests.get(table.name) != digest.as_ref() {
            differing.push(table.name.into());
        }
    }
    Ok(differing)
}
