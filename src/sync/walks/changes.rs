//! The changes walk: records that were updated since the last one.
//!
//! # Where it begins
//! At `L = min(W, S - overlap)`: `W` is the highest `updatedAt` that a finished walk applied, rows dated in the future
//! left out, and `S` a lower bound of the service's time when that walk began ([`ServiceTime`](crate::model::ServiceTime)). The overlap
//! reads again what may have been committed late. Once the service has been quiet for longer than the overlap, `L` is `W`,
//! and an idle walk costs 1 RU and reads no row, however many share the newest timestamp.
//!
//! # What it claims
//! That all changes until the begin of the run that began it are here, once the counts that it owes are made
//! (`closing_counts`).
//!
//! # What is not read twice
//! Soon after a bulk change, all of it lies between `L` and `W`. Later, the walk would read those of the second of `W` again:
//! bounds are sent in milliseconds, and the service may compare at another precision than it shows. So it begins with the
//! next second (`gt` its last millisecond before), once that lies further back than the overlap; earlier, where it would read
//! more than a page. What lies between `L` and its begin is counted then, for 1 RU, once the walk is applied: what has changed
//! again meanwhile has left both sides by then, and what was committed late is one more.
//!
//! # Rows dated ahead
//! As an app server in the wrong zone stamps them. They move no bound, so every walk comes to them, after all other changes.
//! Those that are new are read, however many; those that are here already, if more than a page, are counted after the walk,
//! for 1 RU, until their time has come. A walk that is left to the next run because of constant changes suspends its run.

use std::time::Duration;

use super::closing_counts;
use super::pages::WalkPurpose;
use super::range::SECOND;
use super::walk::Walk;
use crate::api::PageSize;
use crate::model::{Instant, Object, TimeBounds, TimeField, TimeRange};
use crate::store::{Checkpoint, KnownChanges, LastRead, ReadOf};
use crate::sync::error::SyncError;
use crate::sync::run::Run;
use crate::sync::walks::{pages, service_clock};

/// Where the next changes walk begins; `None` where nothing is known, and everything is a change. `now` is the service's
/// time now, at least.
pub fn lower_bound(known: &KnownChanges, now: Option<Instant>, overlap: Duration) -> Option<Instant> {
    let settled = known.served_at.map(|served_at| served_at.minus(overlap));
    match (known.watermark, settled) {
        (Some(watermark), Some(settled)) => Some(watermark.min(settled)),
        // The service does not tell the time.
        (Some(watermark), None) => Some(now.map_or(watermark, |now| watermark.min(now)).minus(overlap)),
        (None, settled) => settled,
    }
}

/// Updates an object's rows with the changes since the last walk.
pub(in crate::sync) async fn walk_changes(run: &Run<'_>, object: Object) -> Result<(), SyncError> {
    run.write(move |tx| match tx.reads::<Walk>(ReadOf::Changes(object))?.is_empty() {
        true => tx.claims().begin_changes(object),
        false => Ok(()),
    })
    .await?;
    let (read, unread) = next_walk(run, object).await?;
    if let Some((low, high)) = unread {
        run.results().left_out.insert(object, high);
        run.write(move |tx| closing_counts::owe_changes(tx, object, (Some(low), Some(high)), None)).await?;
    }
    let as_of = read.as_of;
    run.begins(object.resource(), "changes", None);
    let walked = pages::walk(run, WalkPurpose::Changes(object), read, false).await;
    if let Err(left @ SyncError::ConstantChanges { .. }) = walked {
        run.ends(object.resource());
        run.results().left.get_or_insert(left);
        return Ok(());
    }
    walked?;
    run.ends(object.resource());
    if let Some(began) = as_of {
        let fresh = LastRead::between(began, run.now());
        run.write(move |tx| closing_counts::claim_changes(tx, object, fresh)).await?;
    }
    Ok(())
}

/// What is left out, and counted once the walk is applied.
type Unread = Option<(Instant, Instant)>;

/// The walk that reads what has changed: the one under way, or the next.
pub(in crate::sync) async fn next_walk(run: &Run<'_>, object: Object) -> Result<(Checkpoint<Walk>, Unread), SyncError> {
    let reading = run.read(move |tx| Ok((tx.known_changes(object)?, tx.reads::<Walk>(ReadOf::Changes(object))?.pop())));
    let known = match reading.await? {
        (_, Some(read)) => return Ok((Checkpoint { position: read.position.clone().resumed(run.id), ..read }, None)),
        (known, None) => known,
    };
    let as_of = Some(run.now());
    let served_at = service_clock::boundary(run, object).await?;
    let (mut position, unread) = match lower_bound(&known, served_at, run.engine.settings.overlap) {
        Some(low) => behind_unsettled(run, object, low, &known, served_at).await?,
        None => (Walk::of_changes(None), None),
    };
    position.seen.served_at = served_at;
    Ok((Checkpoint { part: String::new(), bounds: TimeBounds::Whole, done: false, as_of, position }, unread))
}

/// The walk: after `low`, but behind what that would read again if nothing is committed there any more, or if it is more
/// than a page. `now` is the service's time now, at least.
async fn behind_unsettled(
    run: &Run<'_>,
    object: Object,
    low: Instant,
    known: &KnownChanges,
    now: Option<Instant>,
) -> Result<(Walk, Unread), SyncError> {
    let after = Walk::of_changes(Some(low));
    let (Some(watermark), Some(served_at)) = (known.watermark, known.served_at) else { return Ok((after, None)) };
    // What has changed again since leaves what is left out only if that is not dated later than now.
    let is_past = now.is_some_and(|now| watermark <= now);
    let high = if is_past { watermark } else { watermark.min(served_at) };
    let next = watermark.whole_second().plus(SECOND);
    if next <= served_at.minus(run.engine.settings.overlap) {
        return Ok((Walk::of_changes(Some(next.minus(Duration::from_millis(1)))), None));
    }
    let again = TimeRange::dated(TimeField::UpdatedAt, Some(low.whole_second()), Some(next));
    if run.read(move |tx| tx.count_range(object, again)).await? <= u64::from(PageSize::MAX.get()) {
        return Ok((after, None));
    }
    let mut walk = after;
    let behind = if next <= served_at {
        walk.range = walk.range.starting_at(next);
        next
    } else {
        // What was read in the same second may have changed again in the same millisecond, or in the same second where the
        // service shows no other times.
        let behind =
            if high > served_at || high == high.whole_second() { high.minus(Duration::from_millis(1)) } else { high };
        walk = Walk::of_changes(Some(behind));
        behind
    };
    Ok((walk, (behind > served_at.minus(run.engine.settings.overlap)).then_some((low, high))))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn walk_starts_at_the_watermark_or_at_the_overlap_before_the_services_clock() {
        let at = |second: i64| Instant::from_secs(1_700_000_000 + second).unwrap();
        let overlap = Duration::from_secs(60);
        for (name, watermark, served_at, expected) in [
            ("nothing known", None, None, None),
            ("settled", Some(at(0)), Some(at(1000)), Some(at(0))),
            ("just changed", Some(at(990)), Some(at(1000)), Some(at(940))),
            ("a row dated in the future", Some(at(9999)), Some(at(1000)), Some(at(940))),
            ("a service without a clock", Some(at(990)), None, Some(at(930))),
            ("a service without a clock, a row dated in the future", Some(at(9999)), None, Some(at(940))),
            ("an empty workspace", None, Some(at(1000)), Some(at(940))),
        ] {
            let known = KnownChanges { watermark, served_at };
            assert_eq!(lower_bound(&known, Some(at(1000)), overlap), expected, "{name}");
        }
    }
}
