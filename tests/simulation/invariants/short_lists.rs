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
    /// When a list was first requested after one that surely lacked nothing, and what that was when the file was saved.
    asked_at: Option<Instant>,
    saved_asked_at: Option<Instant>,
    /// Whether a page of the next complete list may lack something.
    is_cut: bool,
}

impl ShortList {
    pub fn of(resource: Resource) -> ShortList {
        let (asked_at, saved_asked_at) = (None, None);
        ShortList { resource, read: None, here: BTreeSet::new(), asked_at, saved_asked_at, is_cut: false }
    }

    pub fn saved(&mut self) {
        self.saved_asked_at = self.asked_at;
    }

    /// The file was replaced by the saved one.
    pub fn restored(&mut self) {
        self.here.clear();
        (self.asked_at, self.is_cut) = (self.saved_asked_at, true);
    }

    /// The service has other items from now on.
    pub fn replaced(&mut self) {
        self.here.clear();
    }

    /// Looks at the items after a run; the service may hide some until `doubt_until`.
    pub fn after_run(
        &mut self,
        (world, conn): (&World, &Connection),
        log: &[LoggedRequest],
        doubt_until: Instant,
    ) -> Result<(), String> {
        let (resource, now) = (self.resource, world.now);
        let items = match resource {
            Resource::TeamMembers => "SELECT id FROM team_members",
            _ => "SELECT id FROM custom_field_definitions WHERE status = 'ACTIVE'",
        };
        let mut stmt = conn.prepare_cached(items).unwrap();
        let here = stmt.query_map([], |row| row.get(0)).unwrap().map(Result::unwrap).collect();
        let before = std::mem::replace(&mut self.here, here);
        let archived = world.definitions.iter().filter(|known| !known.is_active()).map(|known| known.id.to_string());
        let archived: BTreeSet<String> = archived.collect();
        let there: BTreeSet<String> = world.ids(resource).into_iter().filter(|id| !archived.contains(id)).collect();
        let gone: Vec<&String> = before.difference(&self.here).filter(|id| there.contains(*id)).collect();
        let asked: Vec<Instant> =
            log.iter().filter(|entry| entry.asked.lists(resource)).map(|entry| entry.at).collect();
        self.asked_at = self.asked_at.or(asked.first().copied());
        self.is_cut |= asked.iter().any(|at| *at < doubt_until);
        // One list may lack anything, and so may the others within the hour.
        if let Some(id) = gone.first().filter(|_| self.asked_at.is_none_or(|at| now.since(at) < LISTS_APART)) {
            return Err(format!("{id} of {resource} was removed within an hour of the first list that may lack it"));
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
        let is_read = !asked.is_empty() && (read != self.read || is_of_now);
        self.read = read;
        if is_read && !std::mem::take(&mut self.is_cut) {
            self.asked_at = None;
        }
        Ok(())
    }
}
