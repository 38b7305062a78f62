//! Lists that are read in one go, page by page, as the cursors lead. A page that leads to itself and shows no new rows is the
//! last; a total has to show that nothing follows. Other repeated cursors, and pages without new rows that have a next cursor,
//! are followed a limited number of times.

use std::collections::HashSet;

use super::walk::Anomaly;
use crate::api::decode::ListPage;
use crate::api::{ListQuery, PageSize, ServiceAnswer, decode};
use crate::model::{Cursor, Layout, Object, Purpose, RecordId, Resource};
use crate::store::{MirrorTx, StoreError};
use crate::sync::engine::Engine;
use crate::sync::error::{Asking, SyncError};
use crate::sync::run::Run;

/// How often a list may fail to advance.
const MAX_IDLE_PAGES: u32 = 5;

/// Definitions and members are few, and no range divides their lists: one with more pages has no end.
const MAX_PAGES: u64 = 500;

/// A list that has read so many pages does not begin again with smaller ones.
const MAX_AGAIN: u64 = 15;

#[derive(Clone)]
pub(in crate::sync) struct FetchedPage {
    pub(in crate::sync) answer: ServiceAnswer,
    pub(in crate::sync) page: ListPage,
    /// The version of the layout that it was decoded with.
    pub(in crate::sync) layout: u64,
}

impl FetchedPage {
    /// The answer, and its page by the columns of now: they may have changed since it was decoded.
    pub(in crate::sync) fn current(
        self,
        tx: &MirrorTx<'_>,
        resource: Resource,
    ) -> Result<(ServiceAnswer, ListPage), StoreError> {
        let FetchedPage { answer, page, layout } = self;
        let decode = |layout: &Layout| decode::page(resource, &answer.body, layout).ok();
        let page = tx.with_current_layout(page, layout, decode)?;
        Ok((answer, page))
    }
}

impl Engine {
    pub(in crate::sync) async fn page(
        &self,
        query: &ListQuery,
        purpose: Purpose,
        doing: &'static str,
    ) -> Result<FetchedPage, SyncError> {
        let (resource, layout) = (query.resource, self.store.layout());
        let (answer, page) = self.client.page(query, purpose, &layout).await.asking(doing, resource)?;
        Ok(FetchedPage { answer, page, layout: layout.version })
    }

    /// How many rows a list has, for 1 RU; `None` if the service does not say.
    pub(in crate::sync) async fn total(&self, list: ListQuery, purpose: Purpose) -> Result<Option<u64>, SyncError> {
        match self.page(&list.limit(PageSize::ONE).count_exact(), purpose, "count").await {
            Err(error) if error.allows_another() => Ok(None),
            counted => Ok(counted?.page.total),
        }
    }
}

/// A list as far as it was read.
pub(in crate::sync) struct ShortList<'r> {
    run: &'r Run<'r>,
    pub(in crate::sync) query: ListQuery,
    purpose: Purpose,
    doing: &'static str,
    pub(in crate::sync) place: ListPlace,
    /// Why its pages were made smaller, if none was read since.
    unread: Option<SyncError>,
}

/// Where a list goes on.
#[derive(Default)]
pub(in crate::sync) struct ListPlace {
    /// How many pages were read since it began, which it may do again where its pages are made smaller.
    pub(in crate::sync) pages: u64,
    next: Option<Cursor>,
    followed: HashSet<Cursor>,
    /// The first records of the pages so far: a page that begins like an earlier one has no new rows.
    first: HashSet<RecordId>,
    idle: u32,
    /// Whether it ended with a page that leads to itself: only a total shows that nothing follows.
    pub(in crate::sync) repeats: bool,
    /// What was wrong with the last page, if it did not advance.
    pub(in crate::sync) anomaly: Option<Anomaly>,
}

impl<'r> ShortList<'r> {
    /// Whether more pages follow.
    pub(in crate::sync) const fn goes_on(&self) -> bool {
        self.place.next.is_some()
    }

    pub(in crate::sync) fn new(
        run: &'r Run<'r>,
        query: ListQuery,
        purpose: Purpose,
        doing: &'static str,
    ) -> ShortList<'r> {
        let fits = run.results().page_sizes.get(&query.resource).copied();
        let query = fits.map_or(query.clone(), |size| query.limit(size));
        ShortList { run, query, purpose, doing, place: ListPlace::default(), unread: None }
    }

    /// The next page; `None` behind the last one. If one is too large, a list of records begins again with smaller ones;
    /// definitions and members go on with them, so that all before an item that cannot be read are shown.
    ///
    /// # Errors
    /// [`SyncError::NotAdvancing`] if it seems to have no end.
    pub(in crate::sync) async fn page(&mut self) -> Result<Option<FetchedPage>, SyncError> {
        let resource = self.query.resource;
        loop {
            let ListPlace { pages, next, idle, .. } = &self.place;
            if *pages > 0 && next.is_none() {
                return Ok(None);
            }
            if *idle > MAX_IDLE_PAGES || *pages >= MAX_PAGES && self.purpose == Purpose::Definitions {
                return Err(SyncError::NotAdvancing { resource });
            }
            let query = next.clone().map_or(self.query.clone(), |next| self.query.clone().after(next));
            let error = match self.run.engine.page(&query, self.purpose, self.doing).await {
                Ok(fetched) => {
                    self.place.take(&fetched.page);
                    self.unread = None;
                    return Ok(Some(fetched));
                }
                Err(error) => error,
            };
            if next.is_some()
                && (error.is_refused() || error.may_be_of_a_record() && !error.is_unreadable())
                && let Some(unread) = self.unread.take()
            {
                // The cursor is bound to the size of its page.
                if *pages >= MAX_AGAIN {
                    return Err(unread);
                }
                self.place = ListPlace::default();
                continue;
            }
            // One record that cannot be read is found by fewer ids or a smaller range; definitions and members have neither.
            let is_of_records = Object::ALL.iter().any(|object| object.resource() == resource);
            let shrinks = error.is_too_large() || error.is_unreadable() && !is_of_records;
            let Some(smaller) = self.query.with_smaller_pages().filter(|_| shrinks) else { return Err(error) };
            if error.is_too_large() {
                // What could not be read for another reason is a matter of the moment.
                self.run.results().page_sizes.insert(resource, smaller.limit);
            }
            if is_of_records {
                self.place = ListPlace::default();
            }
            self.query = smaller;
            self.unread = Some(error).filter(|_| !is_of_records);
        }
    }
}

impl ListPlace {
    fn take(&mut self, page: &ListPage) {
        self.pages += 1;
        self.anomaly = None;
        let before = std::mem::replace(&mut self.next, page.next.clone());
        let Some(next) = page.next.clone() else { return };
        let first = page.records.first().map(|record| record.id.clone());
        let is_empty = first.is_none();
        let has_new_rows = first.is_some_and(|first| self.first.insert(first));
        self.repeats = self.next == before && !has_new_rows;
        self.next.take_if(|_| self.repeats);
        self.anomaly = match self.followed.insert(next) {
            false => Some(Anomaly::RepeatedCursor),
            true if has_new_rows => None,
            true => Some(if is_empty { Anomaly::EmptyPage } else { Anomaly::RepeatedPage }),
        };
        self.idle = if self.anomaly.is_some() { self.idle + 1 } else { 0 };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page(next: &str, first: Option<&str>) -> ListPage {
        let first = first.map(|first| format!(r#"{{"id":"{first}"}}"#)).unwrap_or_default();
        let body = format!(r#"{{"data":[{first}],"nextCursor":"{next}"}}"#);
        decode::page(Resource::Contacts, body.as_bytes(), &Layout::default()).unwrap()
    }

    #[test]
    fn long_list_is_given_up_where_it_repeats_itself() {
        let mut list = ListPlace::default();
        for n in 0..1002 {
            let first = (n % 6 == 5).then(|| format!("r{n}"));
            list.take(&page(&format!("c{n}"), first.as_deref()));
            assert!(list.idle <= MAX_IDLE_PAGES, "five pages in a row without rows, every time");
        }
        for n in 1002..1007 {
            list.take(&page(&format!("c{n}"), Some("r5")));
            assert!(list.idle <= MAX_IDLE_PAGES);
        }
        list.take(&page("c1007", Some("r5")));
        assert!(list.idle > MAX_IDLE_PAGES, "the same page with other cursors");
    }

    #[test]
    fn list_that_does_not_advance_is_given_up() {
        let mut list = ListPlace::default();
        for (next, first, anomaly) in [
            ("a", Some("r"), None),
            ("a", Some("r"), Some(Anomaly::RepeatedCursor)),
            ("b", Some("r"), Some(Anomaly::RepeatedPage)),
            ("c0", None, Some(Anomaly::EmptyPage)),
            ("c1", None, Some(Anomaly::EmptyPage)),
            ("c2", None, Some(Anomaly::EmptyPage)),
        ] {
            list.take(&page(next, first));
            assert!(list.idle <= MAX_IDLE_PAGES, "{next}");
            assert_eq!(list.anomaly, anomaly, "{next}");
        }
        list.take(&page("c3", None));
        assert!(list.idle > MAX_IDLE_PAGES);
    }
}
