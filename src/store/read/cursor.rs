//! Cursors of the change feed: the mirror, and the position.
//!
//! A cursor is a text that begins with `<mirror id>:<seq>` and contains a digest of the entry at its position. So a
//! cursor of another mirror, of a recreated mirror, or of a diverged copy is refused, and a follower never continues on
//! a different feed.

use std::fmt;
use std::str::FromStr;

use sha2::{Digest, Sha256};

use crate::store::{ReadTx, Result, StateKey, Statements, feed};

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FeedCursor {
    Start,
    Behind {
        mirror: String,
        seq: i64,
        /// A digest of the entry, if it existed.
        check: Option<String>,
    },
}

impl fmt::Display for FeedCursor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            FeedCursor::Start => f.write_str("0"),
            FeedCursor::Behind { mirror, seq, check: None } => write!(f, "{mirror}:{seq}"),
            FeedCursor::Behind { mirror, seq, check: Some(check) } => write!(f, "{mirror}:{seq}:{check}"),
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a cursor is 0 or MIRROR:SEQ, as `crm-mirror export` prints it")]
pub struct NotACursor;

impl FromStr for FeedCursor {
    type Err = NotACursor;

    fn from_str(text: &str) -> Result<FeedCursor, NotACursor> {
        if text == "0" {
            return Ok(FeedCursor::Start);
        }
        let mut parts = text.splitn(3, ':');
        let mirror = parts.next().filter(|mirror| !mirror.is_empty()).ok_or(NotACursor)?;
        let seq: i64 = parts.next().and_then(|seq| seq.parse().ok()).filter(|seq| *seq >= 0).ok_or(NotACursor)?;
        Ok(FeedCursor::Behind { mirror: mirror.into(), seq, check: parts.next().map(String::from) })
    }
}

impl FeedCursor {
    pub const fn seq(&self) -> i64 {
        match self {
            FeedCursor::Start => 0,
            FeedCursor::Behind { seq, .. } => *seq,
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CursorRefused {
    #[error("the cursor belongs to the mirror {cursor}, but this is {here}")]
    OtherMirror { cursor: String, here: String },
    #[error("change {seq} differs from the cursor's: this mirror is a copy with a different history")]
    Diverged { seq: i64 },
    #[error("the changes {from} to {to} were pruned (`history.retention`)")]
    Forgotten { from: i64, to: i64 },
}

/// The id of the mirror, which cursors begin with; empty if no current version has opened the file for writing.
pub fn mirror_id(tx: &ReadTx<'_>) -> Result<String> {
    Ok(tx.state(&StateKey::MirrorId)?.unwrap_or_default())
}

pub fn behind(tx: &ReadTx<'_>, seq: i64) -> Result<FeedCursor> {
    Ok(FeedCursor::Behind { mirror: mirror_id(tx)?, seq, check: check_of(tx, seq)? })
}

/// A short digest of an entry, the same in every copy of the mirror; `None` if there is no such entry.
fn check_of(tx: &ReadTx<'_>, seq: i64) -> Result<Option<String>> {
    let entry: Option<(String, String, String, String)> =
        tx.find_tuple("SELECT object_type, record_id, kind, seen_at FROM changes WHERE seq = ?1", [seq])?;
    Ok(entry.map(|(object, record, kind, seen_at)| {
        let digest = Sha256::digest(format!("{object}\n{record}\n{kind}\n{seen_at}"));
        digest.iter().take(4).map(|byte| format!("{byte:02x}")).collect()
    }))
}

pub fn verify(tx: &ReadTx<'_>, cursor: &FeedCursor) -> Result<Result<(), CursorRefused>> {
    let span = feed::span(tx)?;
    if let FeedCursor::Behind { mirror, seq, check } = cursor {
        let here = mirror_id(tx)?;
        if *mirror != here {
            return Ok(Err(CursorRefused::OtherMirror { cursor: mirror.clone(), here }));
        }
        let found = check_of(tx, *seq)?;
        let differs = matches!((check, &found), (Some(check), Some(found)) if check != found);
        if *seq > span.newest || differs {
            return Ok(Err(CursorRefused::Diverged { seq: *seq }));
        }
    }
    if cursor.seq() < span.forgotten {
        return Ok(Err(CursorRefused::Forgotten { from: cursor.seq() + 1, to: span.forgotten }));
    }
    Ok(Ok(()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cursor_round_trips_through_text() {
        for text in ["0", "m-1:0", "m-1:17", "m-1:17:9f00"] {
            assert_eq!(text.parse::<FeedCursor>().unwrap().to_string(), text);
        }
        for text in ["", "7", ":7", "m:", "m:-1", "m:x"] {
            assert_eq!(text.parse::<FeedCursor>(), Err(NotACursor), "{text}");
        }
    }
}
