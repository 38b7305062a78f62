//! The changes walk: what was updated since the last one.
//!
//! # Where it begins
//! At `L = min(W, S - overlap)`: `W` is the highest `updatedAt` that a finished walk applied, `S` the service's clock
//! when that walk began. The overlap reads again what may have been committed late. Once the service has been quiet for
//! longer than the overlap, `L` is `W`, and an idle walk costs 1 RU and reads no row, however many share the newest
//! timestamp. A row dated in the future cannot drag `L` past the present.

use std::time::Duration;

use super::pages::{WalkEnd, WalkPurpose};
use super::walk::{Range, Walk};
use crate::model::{Instant, Object};
use crate::sync::error::SyncError;
use crate::sync::run::Run;
use crate::sync::state::{Changes, Fresh};

/// Where the next changes walk begins; `None` where nothing is known, and everything is a change.
pub fn lower_bound(known: &Changes, overlap: Duration) -> Option<Instant> {
    match (known.watermark, known.served_at) {
        (Some(watermark), Some(served_at)) => Some(watermark.min(served_at.minus(overlap))),
        (Some(watermark), None) => Some(watermark.minus(overlap)),
        (None, served_at) => served_at.map(|served_at| served_at.minus(overlap)),
    }
}

impl Run<'_> {
    /// Brings an object's rows up to date with what changed since the last walk.
    pub(in crate::sync) async fn walk_changes(&self, object: Object) -> Result<(), SyncError> {
        let began = self.engine.clock.now();
        let known = self.engine.store.read(move |tx| Changes::load(tx, object)).await?;
        let key = self.engine.client.key_fingerprint();
        let walk = match known.walk.clone() {
            Some(walk) => walk.under_key(key).into_iter().next(),
            None => None,
        };
        let walk = walk.unwrap_or_else(|| {
            let after = lower_bound(&known, self.engine.settings.overlap);
            Walk::new(Range::Changes { after, inclusive: false }, key)
        });
        self.begins(object.resource(), "changes", None);
        let end = self.walk(WalkPurpose::Changes(object), walk).await?;
        self.ends(object.resource());
        if end == WalkEnd::Finished {
            let fresh = Fresh { began, finished: self.engine.clock.now() };
            self.engine.store.write(move |tx| tx.set_state(&Fresh::changes(object), &fresh)).await?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_walk_begins_at_the_watermark_or_the_overlap_before_the_services_clock() {
        let at = |second: i64| Instant::from_secs(1_700_000_000 + second).unwrap();
        let overlap = Duration::from_secs(60);
        for (name, watermark, served_at, expected) in [
            ("nothing known", None, None, None),
            ("settled", Some(at(0)), Some(at(1000)), Some(at(0))),
            ("just changed", Some(at(990)), Some(at(1000)), Some(at(940))),
            ("a row dated in the future", Some(at(9999)), Some(at(1000)), Some(at(940))),
            ("a service without a clock", Some(at(990)), None, Some(at(930))),
            ("an empty workspace", None, Some(at(1000)), Some(at(940))),
        ] {
            let known = Changes { watermark, served_at, walk: None };
            assert_eq!(lower_bound(&known, overlap), expected, "{name}");
        }
    }
}
