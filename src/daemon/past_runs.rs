//! Reads the results of earlier processes when the daemon starts.

use std::path::Path;

use super::runner::PAUSED;
use super::state_machine::PastRuns;
use super::timetable::ScheduleKind;
use crate::budget::{ActiveHours, Ledger};
use crate::model::{Instant, Object, Ru};
use crate::store::{Goal, ReadTx, Reader, StoreError, report};
use crate::sync::budget_meter::LEDGER;

/// Reads the past runs. A kind that has never run is due by its schedule, changes at once.
pub(super) fn read(path: &Path, now: Instant) -> Result<PastRuns, StoreError> {
    let reader = Reader::open(path)?;
    let moment = reader.begin()?;
    let begun = |kind| report::last_begun(&moment, kind);
    let mut swept = begun("resync")?;
    let mut under_way = false;
    for object in Object::ALL {
        swept = swept.max(moment.goals().last_read(Goal::Sweep(object))?.map(|fresh| fresh.finished));
        under_way |= moment.goals().is_set(Goal::Sweeping(object))?;
    }
    let synced = begun("sync")?;
    let changes = synced.filter(|_| !under_way);
    // A mirror that was never audited is due for an audit at the first tick after its copy, even across restarts.
    let audited = begun("verify")?.or(swept);
    // A clock that was set back must not delay anything.
    let at = |kind: ScheduleKind| match kind {
        ScheduleKind::Changes => changes.unwrap_or(Instant::EPOCH),
        ScheduleKind::Audit => audited.unwrap_or(now),
        ScheduleKind::Sweep => swept.unwrap_or(now),
    };
    Ok(PastRuns {
        covered: ScheduleKind::ALL.map(|kind| at(kind).min(now)),
        paused_since: moment.state(&PAUSED)?,
        is_empty: synced.is_none() && swept.is_none(),
        active_hours: active_hours(&moment, now)?,
        polled: polled(&moment)?,
    })
}

/// In which hours of the week something changed lately.
fn active_hours(moment: &ReadTx<'_>, now: Instant) -> Result<ActiveHours, StoreError> {
    let (first, found) = report::runs_with_changes(moment, now.minus(ActiveHours::REMEMBERED))?;
    let mut hours = ActiveHours::known_since(first.unwrap_or(now).min(now));
    found.into_iter().for_each(|at| hours.changed(at));
    Ok(hours)
}

/// What runs for changes have spent in the budget window, as far as the runs themselves show it.
fn polled(moment: &ReadTx<'_>) -> Result<Ru, StoreError> {
    let ledger: Ledger = moment.state(&LEDGER)?.unwrap_or_default();
    let runs = report::scheduled_polls(moment, ledger.since)?;
    Ok(Ru::new(runs.saturating_mul(Object::ALL.len() as u64)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::{LastRead, Store};

    #[tokio::test]
    async fn jobs_missed_while_stopped_are_due_and_a_first_copy_counts_as_a_sweep() {
        let at = |text: &str| -> Instant { text.parse().unwrap() };
        let (copied, synced, now) =
            (at("2026-03-01T00:00:00Z"), at("2026-03-02T00:00:00Z"), at("2026-03-04T00:00:00Z"));
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("mirror.db");
        Store::open(&path).unwrap().close().await;
        let empty = read(&path, now).unwrap();
        assert_eq!(empty.covered, [Instant::EPOCH, now, now], "changes at once, the rest by its schedule");
        assert!(empty.is_empty);

        let store = Store::open(&path).unwrap();
        store
            .write(move |tx| {
                let fresh = LastRead::between(copied, copied);
                tx.claims().reach(Goal::Sweep(Object::Contact), fresh)?;
                tx.begin_run("sync", "manual", synced)
            })
            .await
            .unwrap();
        store.close().await;
        // An audit is due since the copy, whatever the number of restarts.
        let known = read(&path, now).unwrap();
        assert_eq!((known.covered, known.is_empty), ([synced, copied, copied], false));
        let set_back = read(&path, at("2026-02-01T00:00:00Z")).unwrap();
        assert_eq!(set_back.covered, [at("2026-02-01T00:00:00Z"); 3]);
    }
}
