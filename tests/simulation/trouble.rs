//! How the service misbehaves: drawn from a seed, and as rules of the sandbox.

use std::time::Duration;

use crm_mirror::model::{Instant, Resource};
use crm_mirror::sandbox::{DateHeader, Fault, Hidden, Rule, World};
use fastrand::Rng;

use crate::people::{object, pick};
use crate::script::one;
use crate::support::bodies;

const MINUTE: Duration = Duration::from_secs(60);

/// The status of [`Trouble::RetryAfter`].
pub const STATUS_WITH_RETRY: u16 = 507;

/// Bytes of a heavy row.
pub const HEAVY: usize = 30_000;

/// How the service misbehaves: for a share of the requests in percent, or for all.
#[derive(Clone, Debug)]
pub enum Trouble {
    FalseNotFound(u32),
    /// A page of HTML with this status.
    Html(u16, u32),
    /// An error envelope with this status.
    Status(u16, u32),
    RateLimit(u64, u32),
    /// An error with `Retry-After`; no other trouble has its status.
    RetryAfter(u64, u32),
    /// Rows with so much text that a full page is larger than what is read.
    HeavyRows(u32),
    /// The request is carried out, and a gateway answers.
    Gateway(u16, u32),
    /// The same with an error envelope.
    ErrorAfter(u16, u32),
    Reset(u32),
    /// The request is carried out, and the connection is reset.
    Lost(u32),
    Truncated(u32),
    TruncatedChunked(u32),
    Redirect(u16),
    RefusedCursors(u32),
    SameCursors(u32),
    /// Pages without rows, and a cursor to the page that has them.
    EmptyPages(u32),
    /// This share of the requests is answered as so many minutes ago.
    Lag(u32, u32),
    /// A replica that stopped following when it began.
    Stopped(u32),
    EmptyLists,
    /// This share of the records is missing from all answers.
    Hidden(u8),
    /// The same from this share of the pages.
    PartialPages(u8, u32),
    NoDate,
    WrongDate(i64),
    /// A `Date` header that is none.
    JunkDate,
    Unordered(u32),
    RepeatedPages(u32),
    /// A row that does not meet the conditions.
    ForeignRows(u32),
    /// 200, with one of a few bodies that are no answer.
    OddBody(usize, u32),
    /// Every answer takes so many seconds.
    Slow(u32, u32),
    BadRecord(u32, u16),
    /// Counts are refused with this status, or come without a total where it is 200; the rest is served.
    NoCounts(u16, u32),
    /// Requests with a cursor are refused with this status.
    CursorStatus(u16, u32),
    /// This share of the team members or of the definitions is missing from their lists.
    CutLists(u8, u32),
    /// Lists, or else details, show their times in whole seconds.
    WholeSeconds(bool),
    /// Lists compare times in whole seconds, and show more digits.
    CoarseTimes(u32),
    /// Lists have something else than an object in the place of `location` and `customFields`.
    Groups(usize, u32),
    /// No answer with this record is JSON.
    BadNumber(u32),
    /// Cursors behind so many rows are refused.
    PageWindow(usize),
    /// 2xx for updates, which says nothing of what became of them.
    OddUpdates(u32, u32),
}

const GROUPS: [&str; 3] = ["null", "[]", "\"\""];

/// An answer at two moments this many minutes apart decides what a single one does not. A picture that stays older than that
/// cannot be told from the service's own after a restore from its backup.
const TWO_LOOKS: u32 = 15;

const ODD_BODIES: [&str; 7] = [
    "null",
    "{}",
    "[]",
    "",
    r#"{"data":null,"nextCursor":null}"#,
    r#"{"data":{"id":null}}"#,
    r#"{"error":"NOT_FOUND","message":"no","code":404}"#,
];

impl Trouble {
    pub fn drawn(rng: &mut Rng) -> Trouble {
        let share = one(rng, &[5, 20, 50, 100]);
        let errors = &[400, 401, 403, 404, 408, 410, 413, 414, 425, 431, 500, 501, 502, 503, 503, 504, 505, 520];
        match rng.u32(..39) {
            0 => Trouble::FalseNotFound(share),
            1 => Trouble::Html(one(rng, &[401, 403, 404, 410, 502, 503]), share),
            2 => Trouble::Status(one(rng, errors), share),
            3 => Trouble::RateLimit(one(rng, &[1, 30, 600, 7_200]), share),
            4 => match rng.bool() {
                true => Trouble::Gateway(one(rng, &[408, 502, 504]), share),
                false => Trouble::ErrorAfter(one(rng, &[408, 500, 504]), share),
            },
            5 => Trouble::Reset(share),
            6 => Trouble::Lost(share),
            7 => Trouble::Truncated(share),
            8 | 9 => Trouble::TruncatedChunked(share),
            10 => Trouble::Redirect(one(rng, &[301, 302, 302, 303, 307, 308])),
            11 => Trouble::RefusedCursors(share),
            12 => Trouble::SameCursors(share),
            13 => Trouble::EmptyPages(share),
            14 => Trouble::Lag(rng.u32(1..TWO_LOOKS), share),
            15 => Trouble::Lag(rng.u32(1..240), share),
            16 => Trouble::Stopped(share),
            17 => Trouble::EmptyLists,
            18 => Trouble::Hidden(one(rng, &[5, 30, 50, 90])),
            19 => Trouble::PartialPages(one(rng, &[5, 30, 90]), share),
            20 => Trouble::NoDate,
            21 => Trouble::WrongDate(one(rng, &[-86_400, -600, 600, 86_400])),
            22 => Trouble::JunkDate,
            23 => Trouble::Unordered(share),
            24 => Trouble::RepeatedPages(share.min(20)),
            25 => Trouble::ForeignRows(share),
            26 => match rng.bool() {
                true => Trouble::OddBody(rng.usize(..ODD_BODIES.len()), share),
                false => Trouble::Slow(one(rng, &[1, 20, 300]), share),
            },
            27 => Trouble::RetryAfter(one(rng, &[1, 30, 600, 7_200]), share),
            28 => Trouble::HeavyRows(share),
            29 => Trouble::NoCounts(one(rng, &[200, 400, 501, 503, 504]), share),
            30 => Trouble::CursorStatus(one(rng, &[404, 410, 422]), share),
            31 => Trouble::CutLists(one(rng, &[30, 80]), share),
            32 => Trouble::WholeSeconds(rng.bool()),
            33 => Trouble::Groups(rng.usize(..GROUPS.len()), share),
            34 => Trouble::BadNumber(rng.u32(..1000)),
            35 => Trouble::PageWindow(rng.usize(3..30)),
            37 => Trouble::CoarseTimes(share),
            36 => Trouble::OddUpdates(rng.u32(..4), share),
            _ => Trouble::BadRecord(rng.u32(..1000), one(rng, &[400, 403, 410, 503, 500, 520])),
        }
    }

    /// Whether nobody can tell the picture that it gives from the truth: a record that is hidden everywhere from one
    /// that is gone.
    pub fn deceives(&self) -> bool {
        use Trouble::{CutLists, EmptyLists, Groups, Hidden, Lag, PartialPages, RepeatedPages, Stopped};
        matches!(
            self,
            Hidden(_)
                | Lag(..)
                | RepeatedPages(_)
                | Stopped(_)
                | PartialPages(..)
                | EmptyLists
                | CutLists(..)
                | Groups(..)
        )
    }

    /// Whether rows may go, or go back, because of it: a picture that is only old for less time than lies between two looks
    /// does neither.
    pub fn deceives_about_rows(&self, minutes: u32) -> bool {
        match self {
            Trouble::Lag(by, _) => *by >= TWO_LOOKS,
            Trouble::Stopped(_) => minutes >= TWO_LOOKS,
            other => other.deceives(),
        }
    }

    /// The rule of the sandbox; none where there is no record to pick.
    pub fn rule(&self, world: &World, now: Instant, minutes: u32) -> Option<Rule> {
        let (fault, share) = match self {
            Trouble::FalseNotFound(share) => (Fault::Status(404), *share),
            Trouble::Html(status, share) => (Fault::Html(*status), *share),
            Trouble::Status(status, share) => (Fault::Status(*status), *share),
            Trouble::RateLimit(seconds, share) => {
                (Fault::Wait { status: 429, body: Some(*seconds), header: Some(*seconds) }, *share)
            }
            Trouble::RetryAfter(seconds, share) => {
                let header = Some(*seconds);
                (Fault::Wait { status: STATUS_WITH_RETRY, body: None, header }, *share)
            }
            Trouble::HeavyRows(share) => (Fault::HeavyRows(HEAVY), *share),
            Trouble::Gateway(status, share) => (Fault::StatusAfterApply(*status), *share),
            Trouble::ErrorAfter(status, share) => (Fault::ErrorAfterApply(*status), *share),
            Trouble::Reset(share) => (Fault::Reset, *share),
            Trouble::Lost(share) => (Fault::ResetAfterApply, *share),
            Trouble::Truncated(share) => (Fault::Truncated, *share),
            Trouble::TruncatedChunked(share) => (Fault::TruncatedChunked, *share),
            Trouble::Redirect(status) => (Fault::Redirect { status: *status, location: "/maintenance".into() }, 100),
            Trouble::RefusedCursors(share) => (Fault::RefusedCursor, *share),
            Trouble::SameCursors(share) => (Fault::SameCursor, *share),
            Trouble::EmptyPages(share) => (Fault::EmptyPageWithCursor, *share),
            Trouble::Lag(by, share) => (Fault::Lag(*by * MINUTE), *share),
            Trouble::Stopped(share) => (Fault::AsOf(now), *share),
            Trouble::EmptyLists => (Fault::EmptyList, 100),
            Trouble::Hidden(share) => (Fault::Hide(Hidden::Percent(*share)), 100),
            Trouble::PartialPages(hidden, share) => (Fault::Hide(Hidden::Percent(*hidden)), *share),
            Trouble::NoDate => (Fault::Date(DateHeader::Missing), 100),
            Trouble::WrongDate(by) => (Fault::Date(DateHeader::Offset(*by)), 100),
            Trouble::JunkDate => (Fault::Date(DateHeader::Text("yesterday".into())), 100),
            Trouble::Unordered(share) => (Fault::Unordered, *share),
            Trouble::RepeatedPages(share) => (Fault::RepeatedPage, *share),
            Trouble::ForeignRows(share) => (Fault::RowOutsideFilter, *share),
            Trouble::OddBody(which, share) => (Fault::Body(ODD_BODIES[*which].into()), *share),
            Trouble::Slow(seconds, share) => (Fault::Drag(Duration::from_secs(u64::from(*seconds))), *share),
            Trouble::BadRecord(_, status) => (Fault::Status(*status), 100),
            Trouble::NoCounts(200, share) => (Fault::NoTotal, *share),
            Trouble::NoCounts(status, share) | Trouble::CursorStatus(status, share) => (Fault::Status(*status), *share),
            Trouble::CutLists(hidden, share) => (Fault::Hide(Hidden::Percent(*hidden)), *share),
            Trouble::WholeSeconds(_) => (bodies::whole_seconds(), 100),
            Trouble::CoarseTimes(share) => (Fault::CoarseTimes, *share),
            Trouble::Groups(which, share) => (bodies::groups(GROUPS[*which]), *share),
            Trouble::BadNumber(which) => (bodies::bad_number(&pick(world, object(*which), *which)?), 100),
            Trouble::PageWindow(rows) => (Fault::PageWindow(*rows), 100),
            Trouble::OddUpdates(0, share) => (Fault::StatusAfterApply(202), *share),
            Trouble::OddUpdates(1, share) => (Fault::Html(202), *share),
            Trouble::OddUpdates(2, share) => (Fault::Body("{}".into()), *share),
            Trouble::OddUpdates(_, share) => (Fault::NotApplied, *share),
        };
        let rule = Rule::new(fault).percent(f64::from(share)).lasting(now, minutes * MINUTE);
        Some(match self {
            Trouble::FalseNotFound(_) => rule.method("GET").records(),
            Trouble::RefusedCursors(_) | Trouble::CursorStatus(..) | Trouble::PageWindow(_) => {
                rule.with_param("cursor")
            }
            Trouble::NoCounts(..) => rule.with_param("count"),
            Trouble::CutLists(..) if minutes.is_multiple_of(2) => rule.on(Resource::TeamMembers),
            Trouble::CutLists(..) => rule.on(Resource::CustomFields),
            Trouble::WholeSeconds(false) => rule.records().method("GET"),
            Trouble::WholeSeconds(true) | Trouble::Groups(..) => rule.lists(),
            Trouble::OddUpdates(..) => rule.method("PATCH"),
            // The cursor of the first page would be none.
            Trouble::SameCursors(_) => rule.with_param("cursor"),
            Trouble::PartialPages(..) => rule.lists(),
            // Only one list, or everything would be empty at once.
            Trouble::EmptyLists if minutes.is_multiple_of(2) => rule.on(Resource::Contacts),
            Trouble::BadRecord(which, _) => rule.method("GET").record(&pick(world, object(*which), *which)?),
            _ => rule,
        })
    }
}
