//! The limit on new edits: an `UPDATE` without its `WHERE` must not reach the service.

use std::time::Duration;

use crate::model::Instant;
use crate::store::{MirrorTx, StoreError};

/// The time within which edits that were sent still count as new.
pub const WINDOW: Duration = Duration::from_secs(3600);

/// Whether new edits are held: those never sent, and those first sent within the last hour, exceed the limit.
pub const fn holds(new_edits: u64, max_edits: u64) -> bool {
    new_edits > max_edits
}

/// Holds all edits that were never sent and not released, if there are too many new ones. Returns how many it held. The
/// hour has elapsed by the steady clock.
pub fn apply(tx: &MirrorTx<'_>, max_edits: u64, steady: Instant, now: Instant) -> Result<u64, StoreError> {
    if !holds(tx.edits().new_edits(steady.minus(WINDOW), max_edits)?, max_edits) {
        return Ok(0);
    }
    let why = format!("more than {max_edits} new edits within an hour: a person drops or releases it");
    tx.edits().hold_new_edits(None, &why, now)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limit_itself_is_allowed() {
        for (new_edits, max_edits, held) in [(0, 0, false), (1, 0, true), (100, 100, false), (101, 100, true)] {
            assert_eq!(holds(new_edits, max_edits), held, "{new_edits} of {max_edits}");
        }
    }
}
