//! Which of two versions of a record is kept, that of the row or that of an answer, and how they differ.
//!
//! The etag says whether it is another version, the `updatedAt` which is the later one. An earlier `updatedAt` may be
//! that of a lagging replica or a cache, of an app server whose clock is behind, or of a service that was restored:
//! that is a doubt ([`doubts`](super::doubts)).

use std::cmp::Ordering;
use std::time::Duration;

use rusqlite::types::ValueRef;
use serde::{Deserialize, Serialize};

use crate::model::{AnswerTime, DataType, Instant, Object, RequestStamp, ServiceTime, SqlValue};
use crate::store::{Column, RecordsTx, Result, Shape, StateKey, Statements as _};

/// The shortest time between two timestamps.
const JUST_LATER: Duration = Duration::from_micros(1);

/// The length of a canonical timestamp up to its whole seconds, its milliseconds and its microseconds.
const PRECISIONS: [usize; 3] = [19, 23, 26];

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(in crate::store) struct Version<'a> {
    pub(in crate::store) etag: Option<&'a str>,
    pub(in crate::store) updated_at: Option<&'a str>,
}

impl<'a> Version<'a> {
    fn of_columns(shape: &Shape, text: impl Fn(usize) -> Option<&'a str>) -> Version<'a> {
        let of = |name: &str| shape.place(name).and_then(&text);
        Version { etag: of("etag"), updated_at: of("updated_at") }
    }

    pub(in crate::store) fn of_answer(shape: &Shape, incoming: &[Option<ValueRef<'a>>]) -> Version<'a> {
        Version::of_columns(shape, |place| incoming[place].and_then(|value| value.as_str().ok()))
    }

    /// How the version of a detail fits that of its row, which a list has shown.
    ///
    /// An earlier one may come from a lagging replica, also if the row is dated in the future; or the service has dated
    /// the record back, which is a doubt. So is another version if only one of the two is dated: nothing says which is
    /// later. Lists may show etags of their own: weak ones, or of what they contain. The version is the same one then
    /// if the `updatedAt` is equal and shows fractions of a second, or others do: nobody changes a record twice in one.
    pub(in crate::store) fn fit(&self, row: &Version<'_>, others_do: bool) -> VersionFit {
        let is_earlier = self.order(row) == Some(Ordering::Less);
        let times = self.updated_at.zip(row.updated_at);
        let is_one_moment = times.is_some_and(|(new, old)| new == old && (others_do || has_fraction(new)));
        let is_one_dated = self.updated_at.is_some() != row.updated_at.is_some();
        let is_weakly_equal =
            self.etag.map(strong) == row.etag.map(strong) && times.is_none_or(|(new, old)| are_same_time(new, old));
        match row.etag {
            Some(_) if self.etag == row.etag && is_earlier => VersionFit::Earlier,
            Some(_) if self.etag == row.etag => VersionFit::Other,
            Some(of_lists) if is_one_moment || is_weakly_equal => VersionFit::OtherEtag(of_lists.to_string()),
            _ if is_earlier || is_one_dated && self.etag.zip(row.etag).is_some() => VersionFit::Doubtful,
            _ => VersionFit::Other,
        }
    }

    /// Whether the etags say that it is another version.
    pub(in crate::store) fn is_other(&self, other: &Version<'_>) -> bool {
        self.etag.zip(other.etag).is_some_and(|(new, old)| new != old)
    }

    /// Whether this version is later than another one; `None` if that cannot be compared. Two answers with the same
    /// etag, or without one, may show times in different precisions, which are compared at the coarser one.
    pub(in crate::store) fn order(&self, other: &Version<'_>) -> Option<Ordering> {
        let (new, old) = (self.updated_at?, other.updated_at?);
        Some(if !self.is_other(other) && are_same_time(new, old) { Ordering::Equal } else { new.cmp(old) })
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::store) enum VersionFit {
    /// It has the row's etag and an earlier time, which is not that of the list then.
    Earlier,
    /// It is the row's version, which lists show with this other etag.
    OtherEtag(String),
    /// It is earlier, or only one of the two is dated: a list decides.
    Doubtful,
    /// It is the row's version or a later one, or neither is dated: the later request is right.
    Other,
}

/// An etag without the mark of a weak one (RFC 9110, 8.8.3).
fn strong(etag: &str) -> &str {
    etag.strip_prefix("W/").unwrap_or(etag)
}

/// Whether two canonical timestamps are equal at the coarser of their precisions.
pub(in crate::store) fn are_same_time(a: &str, b: &str) -> bool {
    let length = precision(a).min(precision(b));
    a.len() == b.len() && a.get(..length) == b.get(..length)
}

/// The length of a canonical timestamp up to its last digit that says anything.
fn precision(text: &str) -> usize {
    let digits = text.strip_suffix('Z').unwrap_or(text).trim_end_matches('0').trim_end_matches('.').len();
    PRECISIONS.into_iter().find(|length| digits <= *length).unwrap_or(digits)
}

fn has_fraction(text: &str) -> bool {
    precision(text) > PRECISIONS[0]
}

/// Whether an answer shows the row's timestamp in a coarser precision, within one version: the row keeps its own.
pub(in crate::store) fn is_coarser(new: &str, old: &str, of: DataType) -> bool {
    of == DataType::DateTime && precision(new) < precision(old) && are_same_time(new, old)
}

impl RecordsTx<'_> {
    /// Whether the service stamps changes with fractions of a second: its last ones show that, though each may have none by
    /// chance.
    pub(in crate::store) fn has_fractions(&self, object: Object) -> Result<bool> {
        let sql = format!("SELECT updated_at FROM {} ORDER BY updated_at DESC LIMIT 8", object.table());
        let last: Vec<Option<String>> = self.column(&sql, [])?;
        Ok(last.iter().flatten().any(|text| has_fraction(text)))
    }

    /// Whether an answer may replace a row with other values.
    pub(in crate::store) fn is_accepted(
        &self,
        (object, id): (Object, &str),
        shape: &Shape,
        incoming: &[Option<ValueRef<'_>>],
        old: &[SqlValue],
        (asked, overtaken, follows): (&RequestStamp, bool, bool),
    ) -> Result<bool> {
        let row = Version::of_columns(shape, |place| old[place].as_text());
        let new = Version::of_answer(shape, incoming);
        let order = new.order(&row);
        if follows {
            if order != Some(Ordering::Greater) {
                self.tx.knowledge().was_replaced(object, id, row.etag)?;
            }
            return Ok(true);
        }
        // What the row has was replaced by nothing that is known.
        let may_be_replaced = order != Some(Ordering::Less) && new.etag != row.etag;
        let is_replaced = may_be_replaced && self.tx.knowledge().is_replaced(object, id, new.etag)?;
        Ok(match order {
            Some(Ordering::Greater) if !is_replaced => true,
            _ if overtaken => false,
            // With equal or missing versions the later request is right.
            Some(Ordering::Equal) | None if !is_replaced => true,
            _ => {
                let time = |name| old[shape.place(name)?].as_text()?.parse::<Instant>().ok();
                let here = ["updated_at", "created_at"].map(time);
                // That it shows a replaced version does not make an answer as new as what has replaced it.
                let replaced = new.updated_at.filter(|_| is_replaced).and_then(|at| at.parse::<Instant>().ok());
                let newest = here.into_iter().flatten().chain(replaced.map(|at| at.plus(JUST_LATER))).max();
                self.dated_in_the_future(here[0], asked)?
                    || self.tx.knowledge().decide_older(object, id, new, newest)?
            }
        })
    }

    /// Whether a row is dated in the future when the answer was requested, according to what the service showed of its
    /// time and to the time since. Such a row blocks no change that is dated before it.
    fn dated_in_the_future(&self, version: Option<Instant>, asked: &RequestStamp) -> Result<bool> {
        let Some(version) = version else { return Ok(false) };
        let mut time = self.tx.state::<ServiceTime>(&StateKey::ServiceTime)?.unwrap_or_default();
        // The stored time is of the last answer that a walk took in, which may be days ago.
        time.observe(asked.at, None);
        Ok(time.is_plausible(version) == Some(false))
    }
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct FieldDifference {
    pub column: String,
    pub here: serde_json::Value,
    pub there: serde_json::Value,
}

impl Column {
    pub(in crate::store) fn difference(&self, here: &SqlValue, there: Option<ValueRef<'_>>) -> FieldDifference {
        let there = there.map_or(SqlValue::Null, SqlValue::from);
        FieldDifference { column: self.name.clone(), here: here.into(), there: (&there).into() }
    }
}

#[derive(Clone, Debug, PartialEq)]
pub enum Compared {
    Missing,
    Same,
    /// The same, but for null in place of a group of which the row has a value.
    Omitted,
    Differs(Vec<FieldDifference>),
}

impl Compared {
    /// Whether the record was shown in an earlier version than the row has, by an answer that does not decide about it.
    pub fn shows_older(&self, answer: AnswerTime) -> bool {
        let Compared::Differs(fields) = self else { return false };
        let version = fields.iter().find(|field| field.column == "updated_at");
        let times = version.and_then(|version| version.there.as_str().zip(version.here.as_str()));
        times.is_some_and(|(there, here)| there < here && !answer.is_as_new_as(here.parse().ok()))
    }
}

#[cfg(test)]
mod tests {
    use Ordering::{Equal, Greater, Less};

    use super::*;

    fn at(text: &str) -> String {
        text.parse::<Instant>().unwrap().to_string()
    }

    #[test]
    fn versions_are_compared_at_the_coarser_precision_unless_the_etag_differs() {
        for (new, old, order) in [
            (("a", "12:00:05Z"), ("a", "12:00:05.123Z"), Equal),
            (("a", "12:00:05.123Z"), ("a", "12:00:05Z"), Equal),
            (("a", "12:00:05.123Z"), ("a", "12:00:05.123456Z"), Equal),
            (("a", "12:00:05.122Z"), ("a", "12:00:05.123456Z"), Less),
            (("a", "12:00:04Z"), ("a", "12:00:05.123Z"), Less),
            (("a", "12:00:06Z"), ("a", "12:00:05.123Z"), Greater),
            (("b", "12:00:05Z"), ("a", "12:00:05.123Z"), Less),
            (("b", "12:00:05.123Z"), ("a", "12:00:05Z"), Greater),
            (("b", "12:00:05Z"), ("a", "12:00:05Z"), Equal),
            (("", "12:00:05Z"), ("a", "12:00:05.123Z"), Equal),
        ] {
            let texts = [new, old].map(|(etag, time)| (etag, at(&format!("2026-01-02T{time}"))));
            let [new, old] = [0, 1].map(|n: usize| Version {
                etag: Some(texts[n].0).filter(|etag| !etag.is_empty()),
                updated_at: Some(&texts[n].1),
            });
            assert_eq!(new.order(&old), Some(order), "{new:?} {old:?}");
        }
        assert_eq!(Version::default().order(&Version { etag: None, updated_at: Some("x") }), None);
    }

    #[test]
    fn a_whole_minute_is_as_precise_as_a_whole_second() {
        assert_eq!(
            ["12:00:00Z", "12:10:00.1Z", "12:00:00.00001Z"].map(|time| precision(&at(&format!("2026-01-10T{time}")))),
            PRECISIONS
        );
    }
}
