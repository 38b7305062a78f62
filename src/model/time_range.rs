//! Ranges of records by a timestamp, which are counted on both sides, and how they are divided. Pure.

use std::iter;

use serde::{Deserialize, Serialize};

use super::instant::Instant;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TimeField {
    /// `createdAt`: finds missing and extra records.
    CreatedAt,
    /// `updatedAt`: finds stale records.
    UpdatedAt,
}

impl TimeField {
    pub const fn pick<T: Copy>(self, created: T, updated: T) -> T {
        match self {
            TimeField::CreatedAt => created,
            TimeField::UpdatedAt => updated,
        }
    }

    /// The column, which is also the text in `audits`.
    pub const fn column(self) -> &'static str {
        self.pick("created_at", "updated_at")
    }

    pub const fn other(self) -> TimeField {
        self.pick(TimeField::UpdatedAt, TimeField::CreatedAt)
    }

    pub const fn wire(self) -> &'static str {
        self.pick("createdAt", "updatedAt")
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TimeBounds {
    /// `from` inclusive, `to` exclusive, open if `None`; edges are whole seconds, because the service may compare at a
    /// different precision than it shows.
    Dated {
        from: Option<Instant>,
        to: Option<Instant>,
    },
    Dateless,
    Whole,
}

impl TimeBounds {
    pub const fn dates(self) -> (Option<Instant>, Option<Instant>) {
        if let TimeBounds::Dated { from, to } = self { (from, to) } else { (None, None) }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TimeRange {
    pub field: TimeField,
    pub bounds: TimeBounds,
    /// The range by the other timestamp, which tells apart records that share the first; `None` for all of it.
    #[serde(default)]
    pub within: Option<TimeBounds>,
}

impl TimeRange {
    pub const WHOLE: TimeRange = TimeRange::of(TimeField::CreatedAt, TimeBounds::Whole);

    pub const fn of(field: TimeField, bounds: TimeBounds) -> TimeRange {
        TimeRange { field, bounds, within: None }
    }

    /// What orders ranges of one timestamp, the oldest first, and records without it last.
    pub const fn order(&self) -> (bool, Option<Instant>) {
        (matches!(self.bounds, TimeBounds::Dateless), self.bounds.dates().0)
    }

    pub const fn dated(field: TimeField, from: Option<Instant>, to: Option<Instant>) -> TimeRange {
        TimeRange::of(field, TimeBounds::Dated { from, to })
    }

    /// Adds it to ranges of the same timestamp, oldest first: to the last of them where they touch, or where there are `most`.
    pub fn join(self, ranges: &mut Vec<TimeRange>, most: usize) {
        let is_full = ranges.len() >= most;
        if let TimeBounds::Dated { from, to } = self.bounds {
            for known in ranges.iter_mut().rev() {
                let TimeBounds::Dated { from: first, to: end } = &mut known.bounds else { continue };
                if is_full || from.is_none() || end.is_none() || from <= *end {
                    *first = (*first).min(from);
                    *end = end.zip(to).map(|(one, other)| one.max(other));
                    return;
                }
                break;
            }
        }
        if !ranges.contains(&self) {
            ranges.push(self);
        }
    }

    /// The ranges between these edges, open at both ends, and the one of records without the timestamp.
    pub fn between(field: TimeField, edges: &[Instant]) -> Vec<TimeRange> {
        let edges = || edges.iter().copied().map(Some);
        let bounds = iter::once(None).chain(edges()).zip(edges().chain([None]));
        let dated = bounds.map(|(from, to)| TimeRange::dated(field, from, to));
        dated.chain([TimeRange::of(field, TimeBounds::Dateless)]).collect()
    }

    /// Both halves of a dated range cut at an instant inside it; `None` where that cuts nothing off.
    pub fn cut(&self, at: Instant) -> Option<(TimeRange, TimeRange)> {
        let TimeBounds::Dated { from, to } = self.within.unwrap_or(self.bounds) else {
            return None;
        };
        let inside = from.is_none_or(|from| at > from) && to.is_none_or(|to| at < to);
        let part = |from, to| match self.within {
            Some(_) => TimeRange { within: Some(TimeBounds::Dated { from, to }), ..*self },
            None => TimeRange::dated(self.field, from, to),
        };
        inside.then(|| (part(from, Some(at)), part(Some(at), to)))
    }

    /// The same range, with `createdAt` as its first timestamp where it has bounds of both.
    #[must_use]
    pub fn by_creation(self) -> TimeRange {
        match (self.field, self.within) {
            (TimeField::UpdatedAt, Some(within)) => {
                TimeRange { field: TimeField::CreatedAt, bounds: within, within: Some(self.bounds) }
            }
            _ => self,
        }
    }

    /// The parts of records that share this timestamp, by the other one: those without it, and those that have it. `None`
    /// where the range is cut by the other one already.
    pub fn by_other(&self) -> Option<(TimeRange, TimeRange)> {
        let part = |within| TimeRange { within: Some(within), ..*self };
        let dated = TimeBounds::Dated { from: None, to: None };
        self.within.is_none().then(|| (part(TimeBounds::Dateless), part(dated)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(second: i64) -> Instant {
        Instant::from_secs(second).unwrap()
    }

    #[test]
    fn ranges_between_edges_are_complete_and_disjoint() {
        let ranges = TimeRange::between(TimeField::CreatedAt, &[at(10), at(20)]);
        let bounds: Vec<_> = ranges.iter().map(|range| range.bounds).collect();
        assert_eq!(
            bounds,
            [
                TimeBounds::Dated { from: None, to: Some(at(10)) },
                TimeBounds::Dated { from: Some(at(10)), to: Some(at(20)) },
                TimeBounds::Dated { from: Some(at(20)), to: None },
                TimeBounds::Dateless,
            ]
        );
    }

    #[test]
    fn cut_outside_the_range_has_no_effect() {
        let range = TimeRange::dated(TimeField::CreatedAt, Some(at(10)), Some(at(20)));
        assert_eq!(range.cut(at(10)), None);
        assert_eq!(range.cut(at(20)), None);
        let (low, high) = range.cut(at(15)).unwrap();
        assert_eq!(
            (low.bounds, high.bounds),
            (
                TimeBounds::Dated { from: Some(at(10)), to: Some(at(15)) },
                TimeBounds::Dated { from: Some(at(15)), to: Some(at(20)) },
            )
        );
    }
}
