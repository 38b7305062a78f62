//! What follows walks: records that a sweep has missed, and details that were not found, are decided on; and the counts that
//! walks of more than one page owe are made, and what they find is repaired.

use std::time::Duration;

use super::audit::DAY;
use super::compare::Audit;
use crate::model::answer_time::MOMENTS_APART;
use crate::model::{Instant, Object, TimeField};
use crate::store::UnprovenRanges;
use crate::sync::error::SyncError;
use crate::sync::plan::Step;
use crate::sync::run::Run;
use crate::sync::walks::sweep::end_sweep;
use crate::sync::walks::{closing_counts, details};

/// Makes the owed counts, those of changes first.
pub(in crate::sync) async fn carry_out_counts(run: &Run<'_>, object: Object) -> Result<(), SyncError> {
    carry_out_count(run, object, TimeField::UpdatedAt).await?;
    carry_out_count(run, object, TimeField::CreatedAt).await
}

/// Makes the counts that a kind of walk owes, a sweep by `createdAt` or changes by `updatedAt`. What was counted is
/// stored range by range, so that the next budget window continues.
///
/// A range of a sweep that differs is counted once more in the next run, after what it has nominated was decided on: a
/// record that was removed behind a cursor that counts rows hides another one.
pub(in crate::sync) async fn carry_out_count(run: &Run<'_>, object: Object, walk: TimeField) -> Result<(), SyncError> {
    let is_sweep = walk == TimeField::CreatedAt;
    let known = run.read(move |tx| {
        let waits = is_sweep && tx.count_nominated(object)? > 0;
        Ok(tx.unproven(object, walk)?.filter(|_| !waits))
    });
    let Some(mut owed) = known.await? else { return Ok(()) };
    let steady = run.steady_time();
    let waited = owed.waits_until.take();
    let waits = waited.filter(|until| *until > steady && *until <= steady.plus(DAY));
    if waits.is_some() && !run.by_person {
        return Ok(());
    }
    for range in std::mem::take(&mut owed.ranges) {
        owed.ranges.extend(Audit::new(run, object).parts(range).await?);
    }
    let begun = owed.clone();
    for range in owed.ranges.clone() {
        let mut audit = Audit::new(run, object);
        // Among rows dated ahead nothing is committed late.
        let is_past = |to: Instant| run.results().service_time.is_past(to.minus(Duration::from_secs(2)));
        let is_of_now = range.bounds.dates().1.is_some_and(is_past);
        let left_out = run.results().left_out.get(&object).copied();
        let was_left_out = left_out.is_some_and(|high| range.bounds.dates().0 < Some(high));
        let counted = match !is_sweep && is_of_now && was_left_out {
            // A count does not show that a row has changed again within it. What has left it meanwhile is of the next walk.
            true => audit.compare_newest(range, true).await?.1,
            false => None,
        };
        audit.compare_or_list(range, is_sweep, counted).await?;
        // A list that is shorter than announced is believed at a second moment, and an item without an id is not there yet.
        let is_second = waits.is_none() && waited.is_some();
        let is_unread = audit.unlisted > 0 || audit.unusable > 0 && is_second && !is_sweep;
        if is_unread || audit.not_shown > 0 && !is_second {
            let until = if is_unread { steady.plus(DAY) } else { waits.unwrap_or(steady.plus(MOMENTS_APART)) };
            let waiting = UnprovenRanges { waits_until: Some(until), ..owed };
            return run.write(move |tx| tx.claims().set_unproven(object, walk, &waiting)).await;
        }
        let differs = audit.findings.count() > 0 || !audit.unseen.is_empty();
        if !is_sweep || !differs || owed.is_second {
            owed.ranges.retain(|owed| *owed != range);
        }
        // The last ranges stay until everything that the counts found is read: without them, all is proven.
        if !owed.ranges.is_empty() {
            let known = owed.clone();
            run.write(move |tx| tx.claims().set_unproven(object, walk, &known)).await?;
        }
    }
    details::read_omitted(run, object).await?;
    run.results().counted.insert((object, walk), begun);
    owed.is_second = true;
    let noting = run.write(move |tx| match owed.ranges.is_empty() {
        true => closing_counts::were_made(tx, object, walk),
        false => tx.claims().set_unproven(object, walk, &owed),
    });
    noting.await
}

/// Finishes a sweep that was read completely: decides on the records that it missed, and counts what it read. While
/// removals are refused or undecided, it is not finished. A first copy is: it has missed no record, and changes are
/// not read before it is finished.
pub(in crate::sync) async fn finish_sweep(run: &Run<'_>, object: Object) -> Result<(), SyncError> {
    let is_settled = decide_nominations(run, object).await?;
    let (finished, with_details) = (run.now(), run.engine.reads_details(object));
    let ending = run.write(move |tx| {
        let ends = is_settled || !tx.is_copied(object)?;
        if ends {
            end_sweep(tx, object, finished, tx.count_open(object, with_details)?)?;
        }
        Ok(ends)
    });
    if !ending.await? {
        return Ok(());
    }
    let before = run.cost();
    match carry_out_counts(run, object).await {
        // They stay owed, and the sweep has read every record all the same.
        Err(error) if error.concerns_one_resource() => {
            run.fails_alone(Step::Counts(object), error, run.cost().since(before));
        }
        counted => counted?,
    }
    decide_nominations(run, object).await?;
    Ok(())
}

/// Decides on nominations outside of a verification, and reads omitted values. Returns whether no nomination is left.
pub(in crate::sync) async fn decide_nominations(run: &Run<'_>, object: Object) -> Result<bool, SyncError> {
    let settled = Audit::new(run, object).decide_doubts().await?;
    if !run.job.is_push() {
        details::read_omitted(run, object).await?;
    }
    Ok(settled.is_settled())
}

/// Decides on the nominations that were made outside of a sweep: the details of these records were not found.
///
/// If one of them was removed while a walk of this run was under way, the walk may have missed another record at the
/// edge of a page, and the counts were equal because that one was missing and this one was still there. They are owed
/// again.
pub(in crate::sync) async fn decide_not_found(run: &Run<'_>, object: Object) -> Result<(), SyncError> {
    let before = run.results().report.tally.removed;
    let settled = decide_nominations(run, object).await.map(drop);
    let mut counted = {
        let results = run.results();
        if results.report.tally.removed == before {
            return settled;
        }
        results.counted.clone()
    };
    counted.retain(|(of, _), _| *of == object);
    let owing = run.write(move |tx| {
        counted.into_iter().try_for_each(|((object, by), owed)| closing_counts::owe_again(tx, object, by, owed))
    });
    owing.await?;
    settled
}
