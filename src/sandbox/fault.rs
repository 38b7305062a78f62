//! Everything that can go wrong with an answer, by kind.
//!
//! A [`Fault`] changes one answer. Faults of different layers combine: an answer may be late, lack its `Date` and come
//! from a lagging replica at the same time.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::time::Duration;

use serde_json::json;

use super::exchange::Answer;
use super::world::World;
use crate::model::Instant;

#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(unpredictable_function_pointer_comparisons, reason = "only rules without rewrites are compared")]
pub enum Fault {
    /// An error with a wait in seconds in its body, in `Retry-After`, both or neither. The request has no effect.
    Wait {
        status: u16,
        body: Option<u64>,
        header: Option<u64>,
    },
    /// An error status with its envelope. The request has no effect; 404 on a detail is a false "not found".
    Status(u16),
    /// A status with a page of HTML instead of an envelope, as proxies answer. The request has no effect.
    Html(u16),
    /// The request has no effect.
    Redirect {
        status: u16,
        location: String,
    },
    /// The request is applied and charged, and a gateway answers with this status and a page of HTML.
    StatusAfterApply(u16),
    /// The request is applied, and the answer and its cost are those of an error with this status.
    ErrorAfterApply(u16),
    /// The connection closes without an answer. The request has no effect.
    Reset,
    /// The request is applied and charged, and the connection closes without an answer.
    ResetAfterApply,
    /// The body is shorter than `Content-Length`.
    Truncated,
    /// The chunked body ends without its last chunk.
    TruncatedChunked,
    Body(String),
    /// The body that the function makes of the right one and of this text; of an empty one, an error with status 500.
    Rewritten(BodyRewrite, String),
    /// The answer takes this long in real time, at least and at most.
    Slow(Duration, Duration),
    /// The answer takes this long by the sandbox's clock.
    Drag(Duration),
    /// A valid cursor is refused with 400.
    RefusedCursor,
    /// The previous page of this resource is served again, with its cursor.
    RepeatedPage,
    /// `nextCursor` is the cursor of the request; that of a list's only page leads to it again.
    SameCursor,
    /// No rows, and a cursor to the page that has them.
    EmptyPageWithCursor,
    Unordered,
    /// The page has one additional row that does not meet the conditions.
    RowOutsideFilter,
    /// No rows, no cursor and a total of 0, as if the list were empty.
    EmptyList,
    NoTotal,
    /// A cursor behind this many rows is refused with 400; of cursors that count rows.
    PageWindow(usize),
    /// Conditions on times and orders by them compare whole seconds, though more digits are shown.
    CoarseTimes,
    /// Conditions on times are not applied.
    IgnoredTimes,
    /// An update is answered with 200 and the record as it is, and not carried out.
    NotApplied,
    HugeBody(usize),
    /// A body with this many bytes of padding for each row, so that a page of fewer rows is smaller.
    HeavyRows(usize),
    /// The answer is that of a replica that lags by this much, in lists, counts, details and etags, but not in updates.
    Lag(Duration),
    /// The answer shows the state of this instant, like a replica that stopped replicating. Updates are not affected.
    AsOf(Instant),
    /// Some records are missing from lists, counts and details. Updates are not affected.
    Hide(Hidden),
    Date(DateHeader),
}

pub type BodyRewrite = fn(&str, &str) -> String;

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Hidden {
    /// This share of all records, always the same ones.
    Percent(u8),
    Ids(BTreeSet<String>),
}

impl Hidden {
    pub fn ids<I: Into<String>>(ids: impl IntoIterator<Item = I>) -> Hidden {
        Hidden::Ids(ids.into_iter().map(Into::into).collect())
    }

    pub(crate) fn hides(&self, id: &str) -> bool {
        match self {
            Hidden::Percent(share) => {
                let mut hasher = DefaultHasher::new();
                id.hash(&mut hasher);
                hasher.finish() % 100 < u64::from(*share)
            }
            Hidden::Ids(ids) => ids.contains(id),
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DateHeader {
    Missing,
    /// The clock's time plus so many seconds, which may be negative.
    Offset(i64),
    Text(String),
}

impl DateHeader {
    pub(crate) fn at(&self, now: Instant) -> Option<String> {
        match self {
            DateHeader::Missing => None,
            DateHeader::Offset(seconds) => {
                let by = Duration::from_secs(seconds.unsigned_abs());
                let shown = if *seconds < 0 { now.minus(by) } else { now.plus(by) };
                Some(shown.to_http_date())
            }
            DateHeader::Text(text) => Some(text.clone()),
        }
    }
}

const INJECTED: &str = "This failure was injected";
const MAINTENANCE: &str = "<html><body><h1>Scheduled maintenance</h1></body></html>";

/// The faults of one request, by the part of the answer that they change.
#[derive(Clone, Debug, Default)]
pub(crate) struct TakenFaults {
    /// The records that the service sees.
    pub(crate) view: Option<Fault>,
    pub(crate) answer: Option<Fault>,
    pub(crate) delay: Option<Fault>,
    pub(crate) date: Option<Fault>,
}

impl TakenFaults {
    pub(super) fn layer(&mut self, fault: &Fault) -> &mut Option<Fault> {
        match fault {
            Fault::Lag(_) | Fault::AsOf(_) | Fault::Hide(_) => &mut self.view,
            Fault::Slow(..) | Fault::Drag(_) => &mut self.delay,
            Fault::Date(_) => &mut self.date,
            _ => &mut self.answer,
        }
    }

    /// The world as seen by the replica that answers.
    pub(crate) fn seen<'w>(&self, world: &'w World) -> Cow<'w, World> {
        match &self.view {
            Some(Fault::Lag(by)) => Cow::Owned(world.as_of(world.now.minus(*by))),
            Some(Fault::AsOf(at)) => Cow::Owned(world.as_of(*at)),
            Some(Fault::Hide(hidden)) => Cow::Owned(world.without(|id| hidden.hides(id))),
            _ => Cow::Borrowed(world),
        }
    }

    /// The answer of a fault that lets the request have no effect.
    pub(crate) fn refusal(&self) -> Option<Answer> {
        let (status, body, header) = match self.answer.as_ref()? {
            Fault::Wait { status, body, header } => (*status, *body, *header),
            Fault::Status(status) => (*status, None, None),
            Fault::Html(_) | Fault::Redirect { .. } | Fault::Reset => (500, None, None),
            _ => return None,
        };
        Some(Answer::error(status, INJECTED, &json!({"retryAfter": body})).with("retry-after", header))
    }

    /// What arrives of an answer; `None` if the connection closes without one.
    pub(crate) fn deliver(&self, answer: Answer) -> Option<Answer> {
        let (is_success, rows) = (answer.status == 200, answer.rows);
        Some(match self.answer.as_ref() {
            Some(Fault::Reset | Fault::ResetAfterApply) => return None,
            Some(Fault::Html(status) | Fault::StatusAfterApply(status)) => {
                Answer::new(*status, "text/html", MAINTENANCE)
            }
            Some(Fault::Redirect { status, location }) => {
                Answer::new(*status, "text/html", "").with("location", Some(location))
            }
            Some(Fault::ErrorAfterApply(status)) => Answer::refused(*status, INJECTED),
            Some(Fault::HugeBody(bytes)) => padded(answer, *bytes),
            Some(Fault::HeavyRows(bytes)) => padded(answer, bytes.saturating_mul(rows)),
            Some(Fault::Body(body)) if is_success => Answer { body: body.clone(), ..answer },
            Some(Fault::Rewritten(rewrite, with)) if is_success => match rewrite(&answer.body, with) {
                body if body.is_empty() => Answer::refused(500, INJECTED),
                body => Answer { body, ..answer },
            },
            _ => answer,
        })
    }
}

/// The answer with blanks before its last brace.
fn padded(answer: Answer, bytes: usize) -> Answer {
    let (front, back) = answer.body.split_at(answer.body.len().saturating_sub(1));
    Answer { body: [front, &" ".repeat(bytes), back].concat(), ..answer }
}
