//! What the mirror says of earlier processes to a daemon that begins.

use std::path::Path;

use super::runner::PAUSED;
use super::state::PastRuns;
use super::timetable::ScheduleKind;
use crate::model::{Instant, Object};
use crate::store::{Reader, StoreError, report};
use crate::sync::state::{Fresh, Sweep};

/// Reads it. A kind that has never run is due by its schedule, changes at once.
///
/// # Errors
/// If the mirror cannot be read.
pub fn read(path: &Path, now: Instant) -> Result<PastRuns, StoreError> {
    let reader = Reader::open(path)?;
    let moment = reader.begin()?;
    let begun = |kind| report::last_begun(&moment, kind);
    let mut swept = begun("resync")?;
    let mut under_way = false;
    for object in Object::ALL {
        let fresh: Option<Fresh> = moment.state(&Fresh::sweep(object))?;
        swept = swept.max(fresh.map(|fresh| fresh.finished));
        let sweep: Option<Sweep> = moment.state(&Sweep::entry(object))?;
        under_way |= sweep.is_some();
    }
    let synced = begun("sync")?;
    let changes = synced.filter(|_| !under_way);
    // A mirror that was never audited owes one for every tick since it was whole, however often the daemon begins.
    let audited = begun("verify")?.or(swept);
    // A clock that was set back must not keep anything from being due.
    let at = |kind: ScheduleKind| match kind {
        ScheduleKind::Changes => changes.unwrap_or(Instant::EPOCH),
        ScheduleKind::Audit => audited.unwrap_or(now),
        ScheduleKind::Sweep => swept.unwrap_or(now),
    };
    Ok(PastRuns {
        covered: ScheduleKind::ALL.map(|kind| at(kind).min(now)),
        paused_since: moment.state(&PAUSED)?,
        is_empty: synced.is_none() && swept.is_none(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::Store;

    #[tokio::test]
    async fn what_came_due_while_nothing_ran_is_due_and_a_first_copy_is_a_sweep() {
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
                let fresh = Fresh { began: copied, finished: copied };
                tx.set_state(&Fresh::sweep(Object::Contact), &fresh)?;
                tx.begin_run("sync", "manual", synced)
            })
            .await
            .unwrap();
        store.close().await;
        // An audit is owed since the copy, however often the daemon has begun since.
        let known = read(&path, now).unwrap();
        assert_eq!((known.covered, known.is_empty), ([synced, copied, copied], false));
        let set_back = read(&path, at("2026-02-01T00:00:00Z")).unwrap();
        assert_eq!(set_back.covered, [at("2026-02-01T00:00:00Z"); 3]);
    }
}
