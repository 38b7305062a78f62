//! What was read of the short lists when the budget, a hold or a stop ended a run: the next one goes on there, so that a
//! budget window may pay for fewer requests than the lists have pages.
//!
//! The last page of an unfinished list is read again, besides what it showed before: if a row before it has gone
//! meanwhile, a cursor that counts rows would pass over the first row of the next page.

use serde::{Deserialize, Serialize};

use super::short_list::ListProgress;
use crate::api::decode::{self, ListPage, NotUnderstood};
use crate::model::{Cursor, Instant, Layout, Object, Resource, Ru};
use crate::store::LastRead;

/// The most pages that are stored: a list of more has no end.
const MAX_PAGES: usize = 1_000;

/// One list, as far as it was read.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct ListUnderWay {
    /// Our clock when the first page was requested.
    pub(super) asked_at: Instant,
    /// The cursor and the answer of each page.
    pages: Vec<(Option<Cursor>, String)>,
    pub(super) next: Option<Cursor>,
    pub(super) finished: bool,
}

impl ListUnderWay {
    pub(super) const fn new(asked_at: Instant) -> ListUnderWay {
        ListUnderWay { asked_at, pages: Vec::new(), next: None, finished: false }
    }

    /// Takes in the answer to the request of the next page.
    pub(super) fn take(&mut self, body: &[u8], next: Option<Cursor>) {
        self.finished = next.is_none();
        let cursor = std::mem::replace(&mut self.next, next);
        self.pages.push((cursor, String::from_utf8_lossy(body).into_owned()));
    }

    /// The list in the next run: an unfinished one reads its last page again.
    fn resumed(mut self) -> ListUnderWay {
        if !self.finished
            && let Some((cursor, _)) = self.pages.last()
        {
            self.next.clone_from(cursor);
        }
        self
    }

    /// The pages so far, and what they show of the list's progress.
    pub(super) fn decoded(
        &self,
        resource: Resource,
        layout: &Layout,
    ) -> Result<(Vec<ListPage>, ListProgress), NotUnderstood> {
        let mut progress = ListProgress::default();
        let followers = self.pages.iter().skip(1).map(|(cursor, _)| cursor).chain([&self.next]);
        let pages = self.pages.iter().zip(followers).map(|((cursor, body), follower)| {
            let page = decode::page(resource, body.as_bytes(), layout)?;
            // A page that was read again, or is going to be, takes its step once.
            if let Some(next) = page.next.as_ref().filter(|_| cursor != follower) {
                progress.take(next, page.records.first().map(|record| &record.id));
            }
            Ok(page)
        });
        Ok((pages.collect::<Result<_, NotUnderstood>>()?, progress))
    }
}

/// The short lists of one resource, as far as they were read.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(in crate::sync) struct ListsUnderWay {
    resource: Resource,
    key: String,
    /// Our clock when the first list was requested.
    pub(super) began: Instant,
    /// The ledger's steady clock at that time.
    pub(super) steady: Instant,
    pub(super) applied: Vec<Object>,
    /// The pages of the lists that were applied.
    applied_pages: u64,
    /// The lists that were not applied yet, in the order in which they are read.
    pub(super) lists: Vec<ListUnderWay>,
}

impl ListsUnderWay {
    pub(super) fn new(resource: Resource, key: &str, began: Instant, steady: Instant) -> ListsUnderWay {
        let (applied, lists) = (Vec::new(), Vec::new());
        ListsUnderWay { resource, key: key.to_string(), began, steady, applied, applied_pages: 0, lists }
    }

    /// These lists, or what an earlier run has read of them with the same key. What the steady clock puts into the
    /// future was read before that clock was lost.
    pub(super) fn or_resumed(self, before: Option<ListsUnderWay>) -> ListsUnderWay {
        match before {
            Some(before) if before.are_of(self.resource, &self.key) && before.steady <= self.steady => {
                let lists = before.lists.into_iter().map(ListUnderWay::resumed).collect();
                ListsUnderWay { lists, ..before }
            }
            _ => self,
        }
    }

    /// What the next run goes on with; `None` of lists without end. Pages that it would read again are left out.
    pub(super) fn kept_for_next_run(mut self) -> Option<ListsUnderWay> {
        if self.stored_pages() > MAX_PAGES {
            return None;
        }
        if self.applied.is_empty() && !self.lists.iter().any(|list| list.finished || list.pages.len() > 1) {
            self.lists.clear();
        }
        Some(self)
    }

    /// Whether the lists of a resource were begun with a key and are not read to their end.
    pub(in crate::sync) fn are_of(&self, resource: Resource, key: &str) -> bool {
        self.resource == resource && self.key == key
    }

    fn stored_pages(&self) -> usize {
        self.lists.iter().map(|list| list.pages.len()).sum()
    }

    /// The pages that were read so far, in all runs.
    fn pages(&self) -> u64 {
        self.applied_pages.saturating_add(self.stored_pages() as u64)
    }

    /// When they were read and what that cost.
    pub(super) fn fresh(&self, finished: Instant) -> LastRead {
        let cost = Some(Ru::new(self.pages()));
        LastRead { began: self.began, finished, steady: Some(self.steady), cost }
    }

    /// Notes that the definitions of an object were applied.
    pub(super) fn were_applied(&mut self, object: Object) {
        self.applied_pages = self.pages();
        self.applied.push(object);
        self.lists.clear();
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn list(pages: &[Option<&str>]) -> ListUnderWay {
        let mut list = ListUnderWay::new(Instant::EPOCH);
        for next in pages {
            list.take(b"{}", next.map(Cursor::new));
        }
        list
    }

    #[test]
    fn an_unfinished_list_reads_its_last_page_again() {
        for (pages, next) in [
            (&[Some("b"), Some("c"), Some("d")][..], Some("c")),
            (&[Some("b")], None),
            (&[], None),
            (&[Some("b"), None], None),
            (&[None], None),
        ] {
            let resumed = list(pages).resumed();
            assert_eq!((resumed.next, resumed.pages.len()), (next.map(Cursor::new), pages.len()), "{pages:?}");
        }
    }

    #[test]
    fn lists_of_another_key_resource_or_clock_begin_again() {
        let at = |minutes: u64| Instant::EPOCH.plus(Duration::from_secs(60 * minutes));
        let before = |resource, key, steady| {
            let mut before = ListsUnderWay::new(resource, key, at(1), at(steady));
            before.lists.push(list(&[None]));
            before
        };
        for (before, lists) in [
            (before(Resource::CustomFields, "key", 9), 1),
            (before(Resource::CustomFields, "key", 10), 1),
            (before(Resource::CustomFields, "key", 11), 0),
            (before(Resource::CustomFields, "other", 9), 0),
            (before(Resource::TeamMembers, "key", 9), 0),
        ] {
            let now = ListsUnderWay::new(Resource::CustomFields, "key", at(20), at(10));
            let resumed = now.clone().or_resumed(Some(before.clone()));
            assert_eq!((resumed.lists.len(), now.or_resumed(None).lists.len()), (lists, 0), "{before:?}");
            assert_eq!(resumed.began, at(if lists == 1 { 1 } else { 20 }));
        }
    }

    #[test]
    fn what_would_be_read_again_is_not_stored() {
        for (lists, applied, stored) in [
            (vec![], vec![], Some(0)),
            (vec![list(&[Some("b")])], vec![], Some(0)),
            (vec![list(&[Some("b"), Some("c")])], vec![], Some(2)),
            (vec![list(&[None])], vec![], Some(1)),
            (vec![], vec![Object::Contact], Some(0)),
            (vec![list(&[Some("b")])], vec![Object::Contact], Some(1)),
            (vec![list(&[Some("b"); MAX_PAGES])], vec![], Some(MAX_PAGES)),
            (vec![list(&[Some("b"); MAX_PAGES]), list(&[None])], vec![], None),
        ] {
            let mut all = ListsUnderWay::new(Resource::CustomFields, "key", Instant::EPOCH, Instant::EPOCH);
            (all.lists, all.applied) = (lists, applied);
            let pages = |lists: ListsUnderWay| lists.stored_pages();
            assert_eq!(all.clone().kept_for_next_run().map(pages), stored, "{} lists", all.lists.len());
        }
    }
}
