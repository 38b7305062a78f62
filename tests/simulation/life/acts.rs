//! What people do with the mirror's file while the daemon runs, or while they stopped it.

use std::path::PathBuf;

use crm_mirror::model::{Clock, Instant};
use crm_mirror::store::{Store, StoreError, backup};
use crm_mirror::sync::Job;
use rusqlite::Connection;

use super::{Life, MINUTE};
use crate::daemon::first;
use crate::people;

/// How often a person decides on what waits in the end: a record may have so many edits of one field.
const MAX_DECISIONS: usize = 60;

impl Life<'_> {
    /// A person releases what is held and resolves what is in conflict, which later edits of the record wait for.
    pub(super) async fn settle_edits(&mut self) -> Result<(), String> {
        for _ in 0..MAX_DECISIONS {
            let decided = people::decide(&self.mirror.path, None, &self.clock, &mut self.edits);
            if decided.map_err(|error| self.failed(&format!("no edit could be decided: {error}")))? == 0 {
                return Ok(());
            }
            self.daemon.edited(self.clock.now());
            self.work().await?;
            self.until(self.crm.clock.now().plus(60 * MINUTE)).await?;
        }
        Err(self.failed("edits still wait for a person who decided on each again and again"))
    }

    /// When the watch of the outbox looks next, as far as that is worth it. An edit that was due, and was not sent, is due
    /// again a minute later.
    pub(super) fn edits_due_at(&mut self, now: Instant) -> Option<Instant> {
        let wall = self.clock.now();
        if self.daemon.is_quiet(wall) || !self.mirror.path.exists() {
            return None;
        }
        let due = self.edit_watch.outlook(wall).ok()?.0?;
        Some(if due > wall { self.clock.true_time(due) } else { now.plus(MINUTE) })
    }

    /// The watch of the outbox looks, as it does every second.
    pub(super) fn look_for_edits(&mut self) {
        let wall = self.clock.now();
        if self.mirror.path.exists() && self.edit_watch.is_due(wall).unwrap_or(false) {
            self.daemon.edited(wall);
        }
    }

    pub(super) fn decide(&mut self, which: u32) {
        // Where there is no mirror yet, or it is locked, the verb fails.
        let _ = people::decide(&self.mirror.path, Some(which), &self.clock, &mut self.edits);
        self.daemon.edited(self.clock.now());
    }

    pub(super) fn undo(&mut self, which: u32) {
        let _ = people::undo(&self.mirror.path, which, &self.clock, &mut self.edits);
        if let Some(conn) = self.connection() {
            self.note_edits(&conn);
        }
    }

    pub(super) fn back_up(&mut self) {
        // Where there is no mirror yet, there is nothing to copy.
        if backup::backup(&self.mirror.path, &self.backup_path(), true, self.clock.now()).is_ok() {
            self.saved_edits = self.edits.clone();
            self.is_copied_file = false;
            self.watch.saved(self.crm.clock.now());
        }
    }

    /// The daemon is stopped, a person copies the file as it is, and the daemon begins again.
    pub(super) async fn copy_file(&mut self) {
        if self.mirror.path.exists() && self.reader.is_none() {
            self.close().await;
            // What a killed process left in the WAL is part of the file.
            let emptied = self.connection().map(|conn| conn.execute_batch("PRAGMA wal_checkpoint(TRUNCATE)"));
            if matches!(emptied, Some(Ok(()))) {
                std::fs::copy(&self.mirror.path, self.backup_path()).unwrap();
                self.saved_edits = self.edits.clone();
                self.is_copied_file = true;
                self.watch.saved(self.crm.clock.now());
            }
            self.daemon.restart(self.clock.now());
        }
    }

    pub(super) fn edit_back(&mut self, which: u32, seconds: u32) {
        let edited = self.crm.sandbox.with_world(|world| people::edit_back(world, which, seconds));
        if let Some((id, at)) = edited {
            self.watch.dated_back(id, at);
        }
    }

    /// A person's connection to the mirror's file.
    pub(super) fn connection(&self) -> Option<Connection> {
        if self.mirror.path.exists() { Connection::open(&self.mirror.path).ok() } else { None }
    }

    pub(super) fn edit_in_sql(&mut self, which: Option<u32>, number: u32) {
        let Some(conn) = self.connection() else { return };
        if people::edit_in_sql(&conn, which, number, &mut self.edits) {
            self.note_edits(&conn);
        }
    }

    pub(super) fn empty_in_sql(&mut self, which: u32) {
        let Some(conn) = self.connection() else { return };
        people::empty_in_sql(&conn, which, &mut self.edits);
        self.note_edits(&conn);
    }

    /// A person made edits.
    fn note_edits(&mut self, conn: &Connection) {
        let deceives = self.crm.clock.now() < self.doubt_until;
        self.conflicts.queued(conn, &self.crm.sandbox, deceives);
        self.private_edits.queued(conn, &self.crm.sandbox.world(), self.is_unaccepted);
        self.unseen.queued(conn, &self.crm.sandbox.world());
        self.daemon.edited(self.clock.now());
    }

    pub(super) fn write_junk(&mut self, which: u32) {
        let Some(conn) = self.connection() else { return };
        people::write_junk(&conn, which);
        self.note_edits(&conn);
    }

    pub(super) fn take_back(&mut self, which: u32) {
        let Some(conn) = self.connection() else { return };
        people::take_back(&conn, which, &mut self.edits);
        self.note_edits(&conn);
    }

    pub(super) fn spoil_edit(&mut self, which: u32) {
        let Some(conn) = self.connection() else { return };
        people::spoil_edit(&conn, which, &mut self.edits);
        self.note_edits(&conn);
    }

    pub(super) fn backup_path(&self) -> PathBuf {
        self.mirror.dir.path().join("backup.db")
    }

    /// The daemon is stopped, the backup takes the place of the mirror, and the daemon begins again.
    pub(super) async fn restore(&mut self) {
        let backup = self.backup_path();
        if !backup.exists() {
            return;
        }
        self.close().await;
        self.reader = None;
        for suffix in ["-wal", "-shm"] {
            let mut path = self.mirror.path.clone().into_os_string();
            path.push(suffix);
            let _ = std::fs::remove_file(path);
        }
        std::fs::copy(&backup, &self.mirror.path).unwrap();
        self.during_run.lock().unwrap().restored();
        self.watch.restored(self.crm.clock.now());
        self.conflicts.restored();
        self.private_edits.restored();
        self.unseen.restored();
        if let Some(conn) = self.connection().filter(|_| !self.is_copied_file) {
            // Those that wait in a copy may have been sent by the original.
            self.private_edits.workspace_is_another(&conn);
        }
        self.manners.hold_is_lost();
        self.edits.return_to(self.saved_edits.clone(), &self.mirror.read());
        let now = self.clock.now();
        self.daemon.restart(now);
        if self.script.frozen {
            // The backup may be of the frozen file, which is a copy of another workspace.
            self.daemon.ask(first(self.script), now);
        }
        self.daemon.tick(now);
    }

    pub(super) fn make_view(&self, n: u32) {
        let Some(conn) = self.connection() else { return };
        let column = ["cf_motto", "name", "cf_new_0", "owner_name"][n as usize % 4];
        let sql = format!("CREATE VIEW IF NOT EXISTS people_{} AS SELECT id, {column} FROM contacts_full", n % 4);
        // Refused where there is no such column yet.
        let _ = conn.execute_batch(&sql);
    }

    /// While the daemon runs, nobody else can write; then it is stopped, a person runs `sync`, and it begins again.
    pub(super) async fn other_process(&mut self) -> Result<(), String> {
        let link = self.mirror.dir.path().join("link.db");
        // A second time the link is there.
        let _ = std::os::unix::fs::symlink(&self.mirror.path, &link);
        for path in [&self.mirror.path, &link] {
            if self.open.is_some() && !matches!(Store::open(path), Err(StoreError::Locked { .. })) {
                return Err(self.failed("a second process could write the mirror"));
            }
        }
        self.close().await;
        let began = self.crm.clock.now();
        // It may fail as any run may.
        let result = match self.opened(None).await {
            Ok(process) => process.engine.run(&Job::sync(), "manual").await,
            Err(error) => Err(error),
        };
        self.close().await;
        self.judge(began, &result, true)?;
        self.look(true)?;
        let now = self.clock.now();
        self.daemon.restart(now);
        self.daemon.tick(now);
        Ok(())
    }
}
