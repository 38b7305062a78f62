//! A sweep in progress, computed from what its parts have stored.

use std::time::Duration;

use super::walk::{MAX_STRETCHES, Seen, Walk};
use crate::model::{Instant, Object, TimeRange};
use crate::store::{Checkpoint, KnownChanges, ReadOf, ReadTx, StoreError, uncovered};

#[derive(Clone, Debug, PartialEq)]
pub struct Sweep {
    /// Our clock at its start.
    pub began: Instant,
    /// Records that it passed over because they could not be read.
    pub left_out: u64,
    /// What it reads, part by part. What none of them covers was not read.
    pub parts: Vec<Checkpoint<Walk>>,
}

impl Sweep {
    /// How long a removal may be accepted on what a sweep has read.
    const RECENT: Duration = Duration::from_secs(86_400);

    pub fn is_recent(&self, now: Instant) -> bool {
        self.began <= now && now.since(self.began) <= Sweep::RECENT
    }

    /// The sweep of an object; `None` if none is in progress.
    pub fn load(tx: &ReadTx<'_>, object: Object) -> Result<Option<Sweep>, StoreError> {
        let Some((began, left_out)) = tx.goals().sweeping(object)? else { return Ok(None) };
        Ok(Some(Sweep { began, left_out, parts: tx.reads(ReadOf::Sweep(object))? }))
    }

    /// Whether it has read every record.
    pub fn is_read(&self) -> bool {
        self.parts.iter().all(|part| part.done) && uncovered(&self.parts).is_empty()
    }

    pub fn rows(&self) -> u64 {
        self.seen().map(|seen| seen.rows).sum()
    }

    /// How far the changes are known once everything is read: the first changes walk begins where the copy began.
    pub fn known_changes(&self) -> KnownChanges {
        KnownChanges {
            watermark: self.seen().filter_map(|seen| seen.high).max(),
            served_at: self.seen().filter_map(|seen| seen.served_at).min(),
        }
    }

    /// What was read by cursor: a count has to show that no record is missing there.
    pub(in crate::sync) fn paged(&self) -> Vec<TimeRange> {
        let mut ranges: Vec<&TimeRange> = self.seen().flat_map(|seen| &seen.paged).collect();
        ranges.sort_by_key(|range| range.order());
        let mut joined = Vec::new();
        ranges.into_iter().for_each(|range| range.join(&mut joined, MAX_STRETCHES));
        joined
    }

    fn seen(&self) -> impl Iterator<Item = &Seen> {
        self.parts.iter().map(|part| &part.position.seen)
    }
}
