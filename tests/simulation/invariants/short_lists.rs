//! Team members and definitions: those that the service has leave the mirror only if two lists at least an hour apart lacked
//! them, and few of them at once.

use std::collections::BTreeSet;
use std::time::Duration;

use crm_mirror::model::{Instant, Resource};
use crm_mirror::sandbox::{LoggedRequest, World};
use rusqlite::Connection;

use super::{GUARD, SMALL};

/// The time between two lists that are evidence.
const LISTS_APART: Duration = Duration::from_secs(3_600);

/// What was seen of a list that is always read whole.
pub struct ShortList {
    resource: Resource,
    /// What the mirror says of the last complete list.
    read: Option<String>,
    here: BTreeSet<String>,
    /// When a list was taken in that surely lacked nothing, and what that was when the file was saved.
    whole_at: Instant,
    saved_whole_at: Instant,
}

impl ShortList {
    pub fn of(resource: Resource) -> ShortList {
        let (whole_at, saved_whole_at) = (Instant::EPOCH, Instant::EPOCH);
        ShortList { resource, read: None, here: BTreeSet::new(), whole_at, saved_whole_at }
    }

    pub fn saved(&mut self) {
        self.saved_whole_at = self.whole_at;
    }

    /// The file was replaced by the saved one.
    pub fn restored(&mut self) {
        self.here.clear();
        self.whole_at = self.saved_whole_at;
    }

    /// The service has other items from now on.
    pub fn replaced(&mut self) {
        self.here.clear();
    }

    /// Looks at the items after a run; `is_sure` if the service hides none.
    pub fn after_run(
        &mut self,
        (world, conn): (&World, &Connection),
        log: &[LoggedRequest],
        is_sure: bool,
    ) -> Result<(), String> {
        let (resource, now) = (self.resource, world.now());
        let items = match resource {
            Resource::TeamMembers => "SELECT id FROM team_members",
            _ => "SELECT id FROM custom_field_definitions WHERE status = 'ACTIVE'",
        };
        let mut stmt = conn.prepare_cached(items).unwrap();
        let here = stmt.query_map([], |row| row.get(0)).unwrap().map(Result::unwrap).collect();
        let before = std::mem::replace(&mut self.here, here);
        let archived = world.definitions().iter().filter(|known| !known.active).map(|known| known.id.to_string());
        let archived: BTreeSet<String> = archived.collect();
        let there: BTreeSet<String> = world.ids(resource).into_iter().filter(|id| !archived.contains(id)).collect();
        let gone: Vec<&String> = before.difference(&self.here).filter(|id| there.contains(*id)).collect();
        if let Some(id) = gone.first().filter(|_| now.since(self.whole_at) < LISTS_APART) {
            return Err(format!("{id} of {resource} was removed within an hour of a list that had it"));
        }
        // Definitions are guarded by object, and few.
        let is_guarded = resource == Resource::TeamMembers && before.len() >= SMALL;
        if is_guarded && gone.len() as f64 > GUARD * before.len() as f64 {
            return Err(format!(
                "{} of {} {resource} were removed, and the service has them",
                gone.len(),
                before.len()
            ));
        }
        // A list that the budget has cut short says nothing. Two lists of the same instant leave the same entry.
        let sql = "SELECT since || ' ' || finished FROM goals WHERE object = ?1 AND kind = 'list'";
        let read: Option<String> = conn.query_row(sql, [resource.as_str()], |row| row.get(0)).ok();
        let is_of_now = read.as_ref().is_some_and(|read| read.contains(&now.to_string()[..19]));
        let is_read = read != self.read || is_of_now && log.iter().any(|entry| entry.asked.lists(resource));
        self.read = read;
        if is_read && is_sure {
            self.whole_at = now;
        }
        Ok(())
    }
}
