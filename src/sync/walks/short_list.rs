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
    progress: ListProgress,
}

impl ShortList {
    pub(in crate::sync) fn new(query: ListQuery) -> ShortList {
        ShortList { query, next: None, progress: ListProgress::default() }
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
        let Some(next) = &page.next else { return Ok(false) };
        self.progress.take(next, page.records.first().map(|record| &record.id));
        if self.progress.is_stuck() {
            return Err(SyncError::NotAdvancing { resource: self.query.resource() });
        }
        self.next = Some(next.clone());
        Ok(true)
    }
}

#[derive(Debug, Default)]
pub(in crate::sync) struct ListProgress {
    followed: HashSet<Cursor>,
    /// The first records of the pages so far: a page that begins like an earlier one has no new rows.
    first: HashSet<RecordId>,
    idle: u32,
}

impl ListProgress {
    /// Processes the next cursor of a page that begins with this record. Returns an anomaly, if there is one.
    pub(in crate::sync) fn take(&mut self, next: &Cursor, first: Option<&RecordId>) -> Option<Anomaly> {
        let has_new_rows = first.is_some_and(|first| self.first.insert(first.clone()));
        let anomaly = if !self.followed.insert(next.clone()) {
            Some(Anomaly::RepeatedCursor)
        } else if has_new_rows {
            None
        } else {
            Some(if first.is_some() { Anomaly::RepeatedPage } else { Anomaly::EmptyPage })
        };
        self.idle = if anomaly.is_some() { self.idle + 1 } else { 0 };
        anomaly
    }

    pub(in crate::sync) fn is_stuck(&self) -> bool {
        self.idle > MAX_IDLE_PAGES
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_list_is_given_up_where_it_repeats_itself() {
        let mut progress = ListProgress::default();
        let page = |progress: &mut ListProgress, n: u32, first: Option<u32>| {
            let first = first.map(|first| RecordId::new(format!("r{first}")));
            progress.take(&Cursor::from(format!("c{n}").as_str()), first.as_ref());
        };
        for n in 0..1002 {
            page(&mut progress, n, (n % 6 == 5).then_some(n));
            assert!(!progress.is_stuck(), "five pages in a row without rows, every time");
        }
        for n in 1002..1008 {
            assert!(!progress.is_stuck());
            page(&mut progress, n, Some(5));
        }
        assert!(progress.is_stuck(), "the same page with other cursors");
    }

    #[test]
    fn list_that_does_not_advance_is_given_up() {
        let mut progress = ListProgress::default();
        let row = RecordId::new("r");
        assert_eq!(progress.take(&Cursor::from("a"), Some(&row)), None);
        assert_eq!(progress.take(&Cursor::from("a"), Some(&row)), Some(Anomaly::RepeatedCursor));
        assert_eq!(progress.take(&Cursor::from("b"), Some(&row)), Some(Anomaly::RepeatedPage));
        for n in 0..4 {
            assert!(!progress.is_stuck());
            let anomaly = progress.take(&Cursor::from(format!("c{n}").as_str()), None);
            assert_eq!(anomaly, Some(Anomaly::EmptyPage));
        }
        assert!(progress.is_stuck());
    }
}
