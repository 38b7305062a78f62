//! Proves that the database holds what the mirror holds: every value is compared, and what differs is named.
//!
//! Both sides are read in the order of their keys. The mirror's rows are compared by the database with its own, and the
//! database's keys are looked up in the mirror. What looks different is in doubt first, because both sides move: it is
//! decided in a snapshot of the mirror in which nothing that concerns it waits to be sent.

use std::collections::BTreeSet;

use serde::Serialize;
use tokio_postgres::types::{ToSql, Type};

use super::database::{Param, RowStatement};
use super::row::{Converter, PgRow};
use super::sides::{RowFilter, Sides};
use super::state::TargetState;
use super::tables::{PgType, Publication, PublishedTable};
use super::{PublishError, follow, sql, value};
use crate::model::{Object, SqlValue};
use crate::store::publishing::source::PAGE;
use crate::store::{CopyDifference, CopyDifferenceKind, Moment, PageQuery, SourceRow, StoreError, feed};

/// The maximum number of differences that a report names.
const NAMED: usize = 10_000;

/// How often changes are sent before a decision, if others arrive meanwhile.
const TRIES: u32 = 10;

/// When the mirror was last written and when a detail was last read: not a part of the record.
const STAMPS: [&str; 2] = ["synced_at", "fetched_at"];

const COMPARING: &str = "compare rows";

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Comparison {
    pub rows: u64,
    /// Values that differ, and whole rows that only one side has.
    pub differences: u64,
    pub repaired: u64,
    pub differing: Vec<CopyDifference>,
}

impl Comparison {
    pub fn left(&self) -> u64 {
        self.differences - self.repaired
    }

    fn note(&mut self, difference: CopyDifference) {
        self.differences += 1;
        if self.differing.len() < NAMED {
            self.differing.push(difference);
        }
    }
}

pub(super) async fn compare(sides: &mut Sides<'_>, repairs: bool) -> Result<Comparison, PublishError> {
    let mut found = Comparison::default();
    let publication = sides.publication.clone();
    // The names of companies are sent once the first copy of the companies is finished.
    let has_names = sides.mirror.moment(|moment| moment.tx.is_copied(Object::Company)).await?;
    for table in publication.open_tables() {
        if !sides.state.is_loaded(table) {
            continue;
        }
        let is_compared = |column: &str| !STAMPS.contains(&column) && (has_names || column != "company_name");
        let compared = (0..table.columns.len()).filter(|n| is_compared(&table.columns[*n].source)).collect();
        let mut comparison = TableComparison { sides, table, compared, found: &mut found, repairs };
        comparison.compare_mirror().await?;
        comparison.compare_database().await?;
    }
    Ok(found)
}

struct TableComparison<'a, 's> {
    sides: &'a mut Sides<'s>,
    table: &'a PublishedTable,
    compared: Vec<usize>,
    found: &'a mut Comparison,
    repairs: bool,
}

/// What the mirror has of rows in doubt, when nothing that concerns them waits to be sent.
struct Settled {
    rows: Vec<SourceRow>,
    /// Which of the keys of the database are not in the mirror.
    extra: Vec<Vec<String>>,
}

impl TableComparison<'_, '_> {
    async fn compare_mirror(&mut self) -> Result<(), PublishError> {
        let mut after: Option<Vec<SqlValue>> = None;
        loop {
            let Sides { mirror, publication, state, .. } = &*self.sides;
            let page = mirror.page(&self.table.query(), publication.layout, after.take()).await?;
            let filter = RowFilter::new(self.table, publication, state);
            let kept: Vec<&SourceRow> = page.iter().filter(|row| filter.keeps(row)).collect();
            self.found.rows += kept.len() as u64;
            after = filter.next(self.table, &page);
            let differing = self.differing(&kept).await?;
            self.decide(differing.iter().map(|of| self.table.key_of(kept[of.row])).collect(), Vec::new()).await?;
            if after.is_none() {
                return Ok(());
            }
        }
    }

    async fn compare_database(&mut self) -> Result<(), PublishError> {
        let mut after: Option<Vec<String>> = None;
        loop {
            let statement = sql::page_of_keys(&self.sides.database.schema, self.table, after.is_some(), PAGE);
            let from: Vec<Param<'_>> = after.iter().flatten().map(|text| (text as _, Type::TEXT)).collect();
            let page = self.sides.database.query("read rows", &statement, &from).await?;
            let keys: Vec<Vec<String>> = page.iter().map(texts).collect();
            after = keys.last().filter(|_| keys.len() == PAGE).cloned();
            let (publication, table, seen) =
                (self.sides.publication.clone(), self.table.clone(), self.sides.state.clone());
            let extra =
                self.sides.mirror.moment(move |moment| not_here(moment, &publication, &table, &seen, keys)).await?;
            self.decide(Vec::new(), extra).await?;
            if after.is_none() {
                return Ok(());
            }
        }
    }

    /// Decides about the rows in doubt of one page, by the keys of those of the mirror, and of those that only the database
    /// seems to have: what still differs although nothing waits to be sent is a difference.
    async fn decide(&mut self, here: Vec<Vec<SqlValue>>, there: Vec<Vec<String>>) -> Result<(), PublishError> {
        if here.is_empty() && there.is_empty() {
            return Ok(());
        }
        let Settled { rows, extra } = self.settled(here, there).await?;
        let rows: Vec<&SourceRow> = rows.iter().collect();
        let differing = self.differing(&rows).await?;
        let extra = self.present(&extra).await?;
        let number = count(&differing, &extra);
        for row in &differing {
            row.note(self.table, &texts(&self.converted(rows[row.row])).join(" "), self.found);
        }
        for key in &extra {
            let (table, key) = (self.table.name.to_string(), key.join(" "));
            self.found.note(CopyDifference { table, key, column: None, kind: CopyDifferenceKind::Extra });
        }
        if self.repairs && number > 0 {
            let rows: Vec<&SourceRow> = differing.iter().map(|differing| rows[differing.row]).collect();
            self.repair(&rows, &extra).await?;
            let left = count(&self.differing(&rows).await?, &self.present(&extra).await?);
            self.found.repaired += number.saturating_sub(left);
        }
        Ok(())
    }

    async fn settled(&mut self, here: Vec<Vec<SqlValue>>, there: Vec<Vec<String>>) -> Result<Settled, PublishError> {
        for _ in 0..TRIES {
            let (publication, table, seen) =
                (self.sides.publication.clone(), self.table.clone(), self.sides.state.clone());
            let (here, there) = (here.clone(), there.clone());
            let settled = self
                .sides
                .mirror
                .moment(move |moment| {
                    if moment.layout()? != publication.layout || follow::is_waiting(moment, &publication, &seen)? {
                        return Ok(None);
                    }
                    let rows = moment.by_keys(&table.query(), &here)?;
                    let filter = RowFilter::new(&table, &publication, &seen);
                    let rows: Vec<SourceRow> = rows.into_iter().filter(|row| filter.keeps(row)).collect();
                    let extra = not_here(moment, &publication, &table, &seen, there)?;
                    without_changed(moment, &table, &seen, rows, extra).map(Some)
                })
                .await?;
            match settled {
                Some(settled) => return Ok(settled),
                None => _ = self.sides.send_all().await?,
            }
        }
        Err(PublishError::Unsettled)
    }

    async fn repair(&mut self, rows: &[&SourceRow], extra: &[Vec<String>]) -> Result<(), PublishError> {
        loop {
            match self.try_repair(rows, extra).await {
                // A deferred constraint failed the commit.
                Err(error) if error.is_of_rows() && self.sides.database.retry_checking_at_once().await? => {}
                Err(error) => return self.sides.go_on_without(error).await,
                Ok(()) => return Ok(()),
            }
        }
    }

    async fn try_repair(&mut self, rows: &[&SourceRow], extra: &[Vec<String>]) -> Result<(), PublishError> {
        self.sides.database.begin(&self.sides.state).await?;
        let rows: Vec<PgRow> = rows.iter().map(|row| self.converter().convert(row)).collect();
        self.sides.database.upsert(self.table, self.table.name, &rows).await?;
        let names = extra.iter().map(|key| format!("deletion of {}", key.join(" "))).collect();
        let array = |place: usize| extra.iter().map(|key| Some(key[place].as_str())).collect();
        let arrays = (0..self.table.key.len()).map(array).collect();
        let statement = sql::delete_keys(&self.sides.database.schema, self.table);
        self.sides.database.write(&RowStatement::new("delete rows", statement, self.table.name, names, arrays)).await?;
        self.sides.database.commit().await?;
        self.sides.state.generation += 1;
        Ok(())
    }

    /// A row that the database cannot convert differs: it cannot be there.
    async fn differing(&self, rows: &[&SourceRow]) -> Result<Vec<DifferingRow>, PublishError> {
        let converter = self.converter();
        let rows: Vec<PgRow> = rows.iter().map(|row| converter.convert(row)).collect();
        let statement = sql::compare(&self.sides.database.schema, self.table, &self.compared);
        let mut out = Vec::new();
        let mut waiting = vec![(0, rows.len())];
        while let Some((from, to)) = waiting.pop().filter(|(from, to)| from < to) {
            let arrays: Vec<Vec<Option<&str>>> =
                self.compared.iter().map(|n| rows[from..to].iter().map(|row| row[*n].as_deref()).collect()).collect();
            match self.sides.database.query(COMPARING, &statement, &as_params(&arrays)).await {
                Ok(found) => out.extend(found.iter().filter_map(|row| DifferingRow::read(from, row))),
                Err(error) if error.is_of_rows() && to - from == 1 => {
                    out.push(DifferingRow { row: from, columns: Some(Vec::new()) });
                }
                Err(error) if error.is_of_rows() => {
                    let middle = from + (to - from) / 2;
                    waiting.extend([(middle, to), (from, middle)]);
                }
                Err(error) => return Err(error),
            }
        }
        out.sort_by_key(|differing| differing.row);
        Ok(out)
    }

    async fn present(&self, keys: &[Vec<String>]) -> Result<Vec<Vec<String>>, PublishError> {
        let statement = sql::present_keys(&self.sides.database.schema, self.table);
        let arrays: Vec<Vec<&str>> =
            (0..self.table.key.len()).map(|place| keys.iter().map(|key| key[place].as_str()).collect()).collect();
        let present = self.sides.database.query(COMPARING, &statement, &as_params(&arrays)).await?;
        Ok(present.iter().map(texts).collect())
    }

    fn converter(&self) -> Converter<'_> {
        self.sides.converter(self.table)
    }

    fn converted(&self, row: &SourceRow) -> PgRow {
        self.table.key_of(&self.converter().convert(row))
    }
}

struct DifferingRow {
    row: usize,
    /// The places of the columns that differ, none if the row cannot be converted; `None` if the row is missing.
    columns: Option<Vec<usize>>,
}

impl DifferingRow {
    fn read(from: usize, row: &PgRow) -> Option<DifferingRow> {
        let place: usize = row.first()?.as_deref()?.parse().ok()?;
        let columns = row.get(1)?.as_deref();
        let columns = columns.map(|text| text.split(',').filter_map(|place| place.parse().ok()).collect());
        Some(DifferingRow { row: from + place, columns })
    }

    fn note(&self, table: &PublishedTable, key: &str, found: &mut Comparison) {
        let (table_name, key) = (table.name.to_string(), key.to_string());
        let one = |kind, column| CopyDifference { table: table_name.clone(), key: key.clone(), column, kind };
        match &self.columns {
            None => found.note(one(CopyDifferenceKind::Missing, None)),
            Some(columns) if columns.is_empty() => found.note(one(CopyDifferenceKind::Value, None)),
            Some(columns) => {
                for place in columns {
                    found.note(one(CopyDifferenceKind::Value, table.columns.get(*place).map(|c| c.name.clone())));
                }
            }
        }
    }
}

fn count(differing: &[DifferingRow], extra: &[Vec<String>]) -> u64 {
    let values = differing.iter().map(|row| row.columns.as_ref().map_or(1, |columns| columns.len().max(1)));
    (values.sum::<usize>() + extra.len()) as u64
}

fn as_params<A: ToSql + Sync>(arrays: &[A]) -> Vec<Param<'_>> {
    arrays.iter().map(|array| (array as &(dyn ToSql + Sync), Type::TEXT_ARRAY)).collect()
}

fn texts(row: &PgRow) -> Vec<String> {
    row.iter().flatten().cloned().collect()
}

/// Which of these keys of the database no row of the mirror has.
fn not_here(
    moment: &Moment<'_>,
    publication: &Publication,
    table: &PublishedTable,
    state: &TargetState,
    keys: Vec<Vec<String>>,
) -> Result<Vec<Vec<String>>, StoreError> {
    let narrow = narrow(table);
    let query = PageQuery { table: table.name.into(), ..narrow.query() };
    let is_number: Vec<bool> = narrow
        .key
        .iter()
        .map(|key| narrow.place(key).is_some_and(|place| narrow.columns[place].pg_type == PgType::Bigint))
        .collect();
    let as_value = |(text, is_number): (&String, &bool)| match text.parse() {
        Ok(number) if *is_number => SqlValue::Int(number),
        _ => SqlValue::from(text.as_str()),
    };
    let asked: Vec<Vec<SqlValue>> = keys.iter().map(|key| key.iter().zip(&is_number).map(as_value).collect()).collect();
    let mut rows = moment.by_keys(&query, &asked)?;
    // Keys that were published in another form.
    if keys.iter().flatten().any(|text| text.contains("\\u0000") || value::is_cut(text)) {
        rows.extend(moment.odd_keys(&query, value::MAX_KEY)?);
    }
    let filter = RowFilter::new(&narrow, publication, state);
    let converter = Converter::of(publication, &narrow);
    let key_places: Vec<usize> = narrow.key.iter().filter_map(|key| narrow.place(key)).collect();
    let here: BTreeSet<Vec<String>> = rows
        .iter()
        .filter(|row| filter.keeps(row))
        .map(|row| {
            let row = converter.convert(row);
            key_places.iter().filter_map(|place| row[*place].clone()).collect()
        })
        .collect();
    Ok(keys.into_iter().filter(|key| !here.contains(key)).collect())
}

/// The table with no columns but those that decide whether a row is published.
fn narrow(table: &PublishedTable) -> PublishedTable {
    let mut narrow = table.clone();
    narrow.columns.retain(|column| column.is_key || ["object_type", "seq"].contains(&column.source.as_str()));
    narrow
}

/// Leaves out the rows of records that changed since the database's position, and old history: the next publish sends
/// or deletes them.
fn without_changed(
    moment: &Moment<'_>,
    table: &PublishedTable,
    state: &TargetState,
    mut rows: Vec<SourceRow>,
    mut extra: Vec<Vec<String>>,
) -> Result<Settled, StoreError> {
    if table.name == "changes" {
        let forgotten = feed::span(moment.tx)?.forgotten;
        extra.retain(|key| key[0].parse::<i64>().is_ok_and(|seq| seq > forgotten));
    }
    let in_key = table.key.iter().position(|key| ["id", "record_id"].contains(key)).filter(|_| !table.is_small());
    if let Some((in_key, in_row)) = in_key.and_then(|place| Some((place, table.place(table.key[place])?))) {
        let ids = rows.iter().filter_map(|row| row[in_row].as_text());
        let ids: Vec<&str> = ids.chain(extra.iter().map(|key| key[in_key].as_str())).collect();
        let changed = moment.changed_of(&ids, state.details.changed)?;
        rows.retain(|row| row[in_row].as_text().is_none_or(|id| !changed.contains(id)));
        extra.retain(|key| !changed.contains(&key[in_key]));
    }
    Ok(Settled { rows, extra })
}
