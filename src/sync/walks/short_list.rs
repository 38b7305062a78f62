//! Lists that are read in one go, page by page, as the cursors lead. Repeated cursors, and pages without new rows that have
//! a next cursor, are followed a limited number of times.

use std::collections::HashSet;

use super::walk::Anomaly;
use crate::api::decode::ListPage;
use crate::api::{ListAnswer, ListQuery, decode};
use crate::model::{Cursor, Layout, Purpose, RecordId, Resource};
use crate::store::{MirrorTx, StoreError};
use crate::sync::engine::Engine;
use crate::sync::error::{Asking, SyncError};

/// How often a list may fail to advance.
const MAX_IDLE_PAGES: u32 = 5;

#[derive(Clone)]
pub(in crate::sync) struct FetchedPage {
    pub(in crate::sync) answer: ListAnswer,
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
    ) -> Result<(ListAnswer, ListPage), StoreError> {
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
        let (resource, layout) = (query.resource(), self.store.layout());
        let (answer, page) = self.client.page(query, purpose, &layout).await.asking(doing, resource)?;
        Ok(FetchedPage { answer, page, layout: layout.version })
    }
}

/// A list as far as it was read.
pub(in crate::sync) struct ShortList {
    query: ListQuery,
    next: Option<Cursor>,
    followed: HashSet<Cursor>,
    /// The first records of the pages so far: a page that begins like an earlier one has no new rows.
    first: HashSet<RecordId>,
    idle: u32,
    /// What was wrong with the last page, if it did not advance.
    pub(in crate::sync) anomaly: Option<Anomaly>,
}

impl ShortList {
    pub(in crate::sync) fn new(query: ListQuery) -> ShortList {
        let (followed, first) = (HashSet::new(), HashSet::new());
        ShortList { query, next: None, followed, first, idle: 0, anomaly: None }
    }

    /// This list from a later page on.
    #[must_use]
    pub(in crate::sync) fn going_on(self, next: Option<Cursor>) -> ShortList {
        ShortList { next, ..self }
    }

    pub(in crate::sync) fn query(&self) -> ListQuery {
        self.next.clone().map_or(self.query.clone(), |next| self.query.clone().after(next))
    }

    pub(in crate::sync) const fn is_new(&self) -> bool {
        self.next.is_none()
    }

    /// Takes in a page. Returns whether another one follows.
    ///
    /// # Errors
    /// [`SyncError::NotAdvancing`] if it seems to have no end.
    pub(in crate::sync) fn take(&mut self, page: &ListPage) -> Result<bool, SyncError> {
        self.anomaly = None;
        let Some(next) = &page.next else { return Ok(false) };
        let first = page.records.first().map(|record| &record.id);
        let has_new_rows = first.is_some_and(|first| self.first.insert(first.clone()));
        self.anomaly = if !self.followed.insert(next.clone()) {
            Some(Anomaly::RepeatedCursor)
        } else if has_new_rows {
            None
        } else {
            Some(if first.is_some() { Anomaly::RepeatedPage } else { Anomaly::EmptyPage })
        };
        self.idle = if self.anomaly.is_some() { self.idle + 1 } else { 0 };
        self.next = Some(next.clone());
        if self.idle > MAX_IDLE_PAGES {
            return Err(SyncError::NotAdvancing { resource: self.query.resource() });
        }
        Ok(true)
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
        let mut list = ShortList::new(ListQuery::new(Resource::Contacts));
        for n in 0..1002 {
            let first = (n % 6 == 5).then(|| format!("r{n}"));
            let follows = list.take(&page(&format!("c{n}"), first.as_deref()));
            assert!(follows.is_ok(), "five pages in a row without rows, every time");
        }
        for n in 1002..1007 {
            assert!(list.take(&page(&format!("c{n}"), Some("r5"))).is_ok());
        }
        assert!(list.take(&page("c1007", Some("r5"))).is_err(), "the same page with other cursors");
    }

    #[test]
    fn list_that_does_not_advance_is_given_up() {
        let mut list = ShortList::new(ListQuery::new(Resource::Contacts));
        for (next, first, anomaly) in [
            ("a", Some("r"), None),
            ("a", Some("r"), Some(Anomaly::RepeatedCursor)),
            ("b", Some("r"), Some(Anomaly::RepeatedPage)),
            ("c0", None, Some(Anomaly::EmptyPage)),
            ("c1", None, Some(Anomaly::EmptyPage)),
            ("c2", None, Some(Anomaly::EmptyPage)),
        ] {
            assert!(list.take(&page(next, first)).is_ok(), "{next}");
            assert_eq!(list.anomaly, anomaly, "{next}");
        }
        assert!(list.take(&page("c3", None)).is_err());
    }
}
