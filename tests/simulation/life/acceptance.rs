//! A person gives the daemon the key of another workspace, and accepts that it replaces the mirrored one.

use crm_mirror::model::{Clock, Object, Ru};
use crm_mirror::sandbox::SCOPES;
use crm_mirror::sync::Job;
use rusqlite::Connection;

use super::Life;
use crate::people;

impl Life<'_> {
    /// The daemon is stopped, a person edits, gives it the other key, and runs `sync` or `resync`, which may be killed; while
    /// rows are still those of the workspace before, people edit them. Then the daemon begins again.
    pub(super) async fn other_workspace(&mut self, which: u32) -> Result<(), String> {
        self.edit_in_sql(Some(which), 2_000_000 + which);
        self.close().await;
        self.keys += 1;
        let key = format!("crm_test_v1_another{:04}", self.keys);
        self.crm.sandbox.set_key(&key, &SCOPES);
        self.mirror.key = Some(key);
        let now = self.crm.clock.now();
        let other = people::other_world(self.script, now, which);
        self.crm.sandbox.with_world(|world| *world = other);
        // A backup of the workspace before is of no use any more.
        let _ = std::fs::remove_file(self.backup_path());
        self.watch.workspace_is_another(now);
        self.manners.workspace_is_another();
        self.conflicts.restored();
        self.unseen.restored();
        self.doubt(now);
        self.is_unaccepted = true;
        if let Some(conn) = self.connection() {
            self.private_edits.workspace_is_another(&conn);
        }
        let kill = (!which.is_multiple_of(3)).then_some(u64::from(which / 3 % 50));
        self.accept(kill, which.is_multiple_of(2)).await?;
        self.edit_in_sql(Some(which / 7), 3_000_000 + which);
        self.edit_in_sql(Some(which / 11), 4_000_000 + which);
        if which.is_multiple_of(5) {
            self.accept(None, false).await?;
        }
        let now = self.clock.now();
        self.daemon.restart(now);
        self.daemon.new_key(now);
        self.daemon.tick(now);
        Ok(())
    }

    /// The person who has not succeeded yet accepts the workspace when nothing disturbs any more.
    pub(super) async fn accept_at_last(&mut self) -> Result<(), String> {
        if !self.is_unaccepted {
            return Ok(());
        }
        self.close().await;
        self.accept(None, true).await?;
        if self.is_unaccepted {
            // What was refused before may have used the window up, and a few units do not suffice to look the records up: the
            // person raises the limit.
            self.crm.wait(self.script.window.as_secs());
            (self.mirror.limits.limit, self.watch.budget) = (Ru::new(1_000_000), None);
            self.accept(None, true).await?;
        }
        if self.is_unaccepted {
            return Err(self.failed("a person could not accept the workspace"));
        }
        self.daemon.restart(self.clock.now());
        Ok(())
    }

    async fn accept(&mut self, kill: Option<u64>, resync: bool) -> Result<(), String> {
        let job = if resync { Job::resync() } else { Job::sync() };
        let job = Job { accept_workspace: true, ..job };
        let before = self.identity();
        // An empty mirror has no other workspace: the daemon may have taken this one up.
        let is_empty = !self.connection().is_some_and(|conn| has_records(&conn));
        if self.is_unaccepted {
            self.watch.rows_are_replaced();
        }
        let began = self.crm.clock.now();
        // It may fail as any run may.
        let result = match self.opened(kill).await {
            Ok(process) => process.engine.run(&job, "manual").await,
            Err(error) => Err(error),
        };
        self.close().await;
        self.say(&format!("  accepting: {:?}", result.as_ref().map(|report| report.outcome)));
        self.is_unaccepted &= self.identity() == before && !is_empty;
        self.judge(began, &result, kill.is_none())?;
        self.look(kill.is_none())
    }

    /// The workspace that the mirror's file names.
    fn identity(&self) -> Option<String> {
        let conn = self.connection()?;
        conn.query_row("SELECT value FROM state WHERE name = 'identity'", [], |row| row.get(0)).ok()
    }
}

/// Whether there are rows of records; a file that was never opened has no table.
pub(super) fn has_records(conn: &Connection) -> bool {
    let has = |object: Object| {
        let sql = format!("SELECT EXISTS (SELECT 1 FROM {})", object.table());
        conn.query_row(&sql, [], |row| row.get(0)).unwrap_or(false)
    };
    Object::ALL.into_iter().any(has)
}
