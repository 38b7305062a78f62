//! Carries out walks: fetches pages, decodes them, and stores each with its checkpoint, while the next one is already
//! on its way.
//!
//! The decisions are [`super::walk`]'s. Here one thing is added: a page is stored (on the writer's thread) while the
//! next is fetched and decoded.

use crate::api::decode::{self, ListPage};
use crate::api::{ErrorClass, ListAnswer};
use crate::model::{Layout, Object, Purpose, Resource};
use crate::store::{MirrorTx, Phase, StateKey, StoreError, Tally};

use super::nominate;
use super::owed::OwedCounts;
use super::walk::{Facts, Frontier, Next, Oddity, Range, Walk};
use crate::sync::error::{Asking, SyncError};
use crate::sync::events::RunEvent;
use crate::sync::run::Run;
use crate::sync::state::{Changes, Sweep};
use crate::sync::tally::{self, Noted, instant};

/// What a walk is for, which says where its checkpoint is stored.
#[derive(Clone, Debug)]
pub(in crate::sync) enum WalkPurpose {
    /// The changes of an object.
    Changes(Object),
    /// One slice of a sweep, by its state entry.
    Slice(Object, StateKey),
}

/// How a walk ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::sync) enum WalkEnd {
    /// Read to its end.
    Finished,
    /// Enough for this run; the next one goes on.
    Later,
}

/// A page that has arrived.
struct Arrived {
    answer: ListAnswer,
    page: ListPage,
    layout: u64,
}

/// Pages in a row that brought nothing new and are read again after a kill at worst. Their checkpoints are not worth a
/// write each: a page of the file for every page of the list would be most of what an unchanged resync writes.
const MOST_UNSAVED: u32 = 8;

/// Stored pages whose checkpoint is not.
#[derive(Default)]
struct Unsaved {
    pages: u32,
    /// The walk after the last of them.
    walk: Option<Walk>,
}

/// A page as it is to be stored.
struct Landing<'a> {
    arrived: Arrived,
    /// The walk's frontier before the page.
    before: Frontier,
    /// The walk after it.
    walk: &'a Walk,
    ends: bool,
    odd: Vec<Oddity>,
    /// Whether the checkpoint is to be written whatever the page brought.
    save: bool,
}

/// What storing a page did.
struct StoredPage {
    saved: bool,
    noted: Noted,
}

impl WalkPurpose {
    fn object(&self) -> Object {
        match self {
            WalkPurpose::Changes(object) | WalkPurpose::Slice(object, _) => *object,
        }
    }

    fn purpose(&self) -> Purpose {
        match self {
            WalkPurpose::Changes(_) => Purpose::Changes,
            WalkPurpose::Slice(..) => Purpose::Sweep,
        }
    }

    fn doing(&self) -> &'static str {
        match self {
            WalkPurpose::Changes(_) => "list the changes of",
            WalkPurpose::Slice(..) => "list",
        }
    }

    /// Stores the checkpoint of a walk that goes on.
    fn checkpoint(&self, tx: &MirrorTx<'_>, walk: &Walk) -> Result<(), StoreError> {
        match self {
            WalkPurpose::Changes(object) => {
                let mut changes = Changes::load(tx, *object)?;
                changes.walk = Some(walk.clone());
                changes.store(tx, *object)
            }
            WalkPurpose::Slice(object, entry) => {
                if let (Some(served_at), Some(sweep)) = (walk.served_at, Sweep::load(tx, *object)?)
                    && sweep.served_at.is_none_or(|known| served_at < known)
                {
                    Sweep { served_at: Some(served_at), ..sweep }.store(tx, *object)?;
                }
                tx.set_state(entry, walk)
            }
        }
    }

    /// Stores that a walk is finished.
    fn finish(&self, tx: &MirrorTx<'_>, walk: &Walk) -> Result<(), StoreError> {
        match self {
            WalkPurpose::Changes(object) => {
                let known = Changes::load(tx, *object)?;
                if walk.pages > 1 {
                    OwedCounts::of_changes(tx, *object, walk.origin, walk.high, walk.pages)?;
                }
                Changes { watermark: known.watermark.max(walk.high), served_at: walk.served_at, walk: None }
                    .store(tx, *object)
            }
            WalkPurpose::Slice(object, entry) => {
                self.checkpoint(tx, walk)?;
                if let Some(mut sweep) = Sweep::load(tx, *object)? {
                    sweep.high = sweep.high.max(walk.high);
                    sweep.rows += walk.rows;
                    sweep.pages += walk.pages;
                    sweep.store(tx, *object)?;
                }
                tx.clear_state(entry)
            }
        }
    }
}

impl Run<'_> {
    /// Walks a range to its end, or as far as this run goes. Where the walk falls apart into several ranges, each gets
    /// its turn.
    pub(in crate::sync) async fn walk(&self, job: WalkPurpose, walk: Walk) -> Result<WalkEnd, SyncError> {
        let mut turns = vec![(job, walk)];
        let mut end = WalkEnd::Finished;
        while let Some((job, walk)) = turns.pop() {
            match self.walk_one(&job, walk, &mut turns).await? {
                WalkEnd::Finished => {}
                WalkEnd::Later => end = WalkEnd::Later,
            }
        }
        Ok(end)
    }

    async fn walk_one(
        &self,
        job: &WalkPurpose,
        mut walk: Walk,
        turns: &mut Vec<(WalkPurpose, Walk)>,
    ) -> Result<WalkEnd, SyncError> {
        let mut unsaved = Unsaved::default();
        let walked = self.walk_pages(job, &mut walk, turns, &mut unsaved).await;
        if let (Err(_), Some(stored)) = (&walked, unsaved.walk) {
            // A walk that is stopped in an orderly way goes on exactly where it was.
            let job = job.clone();
            self.engine.store.write(move |tx| job.checkpoint(tx, &stored)).await?;
        }
        walked
    }

    async fn walk_pages(
        &self,
        job: &WalkPurpose,
        walk: &mut Walk,
        turns: &mut Vec<(WalkPurpose, Walk)>,
        unsaved: &mut Unsaved,
    ) -> Result<WalkEnd, SyncError> {
        let resource = job.object().resource();
        let mut ahead: Option<Result<Arrived, SyncError>> = None;
        loop {
            let arrived = match ahead.take() {
                Some(arrived) => arrived,
                None => self.fetch(job, walk).await,
            };
            let arrived = match arrived {
                Ok(arrived) => arrived,
                Err(error) if error.class() == Some(ErrorClass::BadRequest) && walk.cursor.is_some() => {
                    *walk = self.restart(job, walk, turns, Some(Oddity::RefusedCursor)).await?;
                    *unsaved = Unsaved::default();
                    continue;
                }
                Err(error) => match walk.with_smaller_pages().filter(|_| error.is_too_large()) {
                    Some(smaller) => {
                        let restarts = smaller.cursor.is_some();
                        *walk = if restarts { self.restart(job, &smaller, turns, None).await? } else { smaller };
                        *unsaved = Unsaved::default();
                        continue;
                    }
                    None => return Err(error),
                },
            };
            if let Some(total) = arrived.page.total {
                self.engine.observer.on(RunEvent::Total { resource, total });
            }
            let facts = facts(resource, &walk.range, &arrived);
            let before = walk.frontier;
            let (next, odd) = walk.take(&facts);
            let goes_on = next == Next::Page;
            let save = !goes_on || unsaved.pages >= MOST_UNSAVED;
            let landing = Landing { arrived, before, walk, ends: next == Next::End, odd, save };
            let storing = self.store_page(job, landing);
            let stored = if goes_on {
                let (stored, fetched) = tokio::join!(storing, self.fetch(job, walk));
                ahead = Some(fetched);
                stored?
            } else {
                storing.await?
            };
            *unsaved = if stored.saved {
                Unsaved::default()
            } else {
                Unsaved { pages: unsaved.pages + 1, walk: Some(walk.clone()) }
            };
            let rows = match job {
                WalkPurpose::Changes(_) => walk.rows,
                WalkPurpose::Slice(..) => self.swept(facts.keys.len() as u64),
            };
            if let WalkPurpose::Slice(object, _) = job {
                self.results().older[*object as usize].extend(stored.noted.older.iter().cloned());
            }
            self.tell(resource, rows, &stored.noted);
            if stored.noted.unknown_keys {
                self.refresh_definitions_for_unknown_keys().await?;
            }
            match next {
                Next::Page => {}
                Next::End => return Ok(WalkEnd::Finished),
                Next::Later => return Ok(WalkEnd::Later),
                Next::Stuck => return Err(SyncError::NotAdvancing { resource }),
                Next::Restart(_) => *walk = self.restart(job, walk, turns, None).await?,
            }
        }
    }

    async fn fetch(&self, job: &WalkPurpose, walk: &Walk) -> Result<Arrived, SyncError> {
        let resource = job.object().resource();
        let query = walk.query(resource).asking(job.doing(), resource)?;
        // On every page or on none: a cursor is bound to the conditions that it came with.
        let query =
            if walk.range == Range::All && self.engine.observer.wants_totals() { query.count_exact() } else { query };
        let layout = self.engine.store.layout();
        let (answer, page) =
            self.engine.client.page(&query, job.purpose(), &layout).await.asking(job.doing(), resource)?;
        let page = page.asking(job.doing(), resource)?;
        Ok(Arrived { answer, page, layout: layout.version })
    }

    /// Stores the restart of a walk and gives the range to go on with; further ranges get their turn later.
    async fn restart(
        &self,
        job: &WalkPurpose,
        walk: &Walk,
        turns: &mut Vec<(WalkPurpose, Walk)>,
        odd: Option<Oddity>,
    ) -> Result<Walk, SyncError> {
        let resource = job.object().resource();
        let Next::Restart(walks) = walk.restart() else {
            return Err(SyncError::NotAdvancing { resource });
        };
        let mut walks = walks.into_iter();
        let Some(first) = walks.next() else {
            return Err(SyncError::NotAdvancing { resource });
        };
        let mut later = Vec::new();
        for (n, walk) in walks.enumerate() {
            if let WalkPurpose::Slice(object, entry) = job {
                later.push((WalkPurpose::Slice(*object, entry.part(&n.to_string())), walk));
            }
        }
        turns.extend(later.iter().cloned());
        let (job, checkpoint, now) = (job.clone(), first.clone(), self.engine.clock.now());
        self.engine
            .store
            .write(move |tx| {
                job.checkpoint(tx, &checkpoint)?;
                for (job, walk) in &later {
                    job.checkpoint(tx, walk)?;
                }
                odd.map_or(Ok(()), |odd| tx.note_oddity(odd.as_str(), resource, odd.sentence(), now))
            })
            .await?;
        self.count(&Tally { warnings: u64::from(odd.is_some()), ..Tally::default() });
        Ok(first)
    }

    /// Stores a page, its checkpoint and what was odd about it.
    async fn store_page(&self, job: &WalkPurpose, landing: Landing<'_>) -> Result<StoredPage, SyncError> {
        let object = job.object();
        let Landing { mut arrived, before, walk, ends, odd, save } = landing;
        loop {
            let (job_, walk_, meter, odd_) = (job.clone(), walk.clone(), self.engine.meter.clone(), odd.clone());
            let (page, asked_at, now, version) =
                (arrived.page, arrived.answer.asked_at, self.engine.clock.now(), arrived.layout);
            let stored = self.engine.store.write(move |tx| {
                tx.expect_layout(version)?;
                let phase = tx.phase(object)?;
                let mut noted = tally::apply_page(tx, object, &page, asked_at, phase, now)?;
                for odd in &odd_ {
                    tx.note_oddity(odd.as_str(), object.resource(), odd.sentence(), now)?;
                }
                if matches!(job_, WalkPurpose::Slice(..)) && phase == Phase::Kept {
                    nominate::note_missing(tx, object, &walk_, before, &page.records, ends)?;
                }
                let saved = save || tx.has_written();
                if ends {
                    job_.finish(tx, &walk_)?;
                } else if saved {
                    job_.checkpoint(tx, &walk_)?;
                }
                if saved {
                    meter.enter(tx)?;
                }
                noted.oddities += odd_.len() as u64;
                // The page goes back to the thread that made it: freed here, it would have both threads wait for the
                // allocator's lock.
                Ok((StoredPage { saved, noted }, page))
            });
            match stored.await.map(|(stored, _page)| stored) {
                Err(StoreError::StaleLayout) => {
                    let layout = self.engine.store.layout();
                    let page = decoded(object.resource(), &arrived.answer, &layout, job.doing())?;
                    arrived = Arrived { answer: arrived.answer, page, layout: layout.version };
                }
                other => return Ok(other?),
            }
        }
    }
}

fn decoded(
    resource: Resource,
    answer: &ListAnswer,
    layout: &Layout,
    doing: &'static str,
) -> Result<ListPage, SyncError> {
    decode::page(resource, &answer.body, layout).asking(doing, resource)
}

fn facts(resource: Resource, range: &Range, arrived: &Arrived) -> Facts {
    let by = if matches!(range, Range::Changes { .. }) { "updatedAt" } else { "createdAt" };
    let keys = arrived.page.records.iter().map(|record| instant(resource, record, by)).collect();
    let high = arrived.page.records.iter().filter_map(|record| instant(resource, record, "updatedAt")).max();
    Facts { keys, high, next: arrived.page.next.clone(), date: arrived.answer.date }
}

impl Run<'_> {
    /// Adds what a page did to the run's tally, and tells whoever listens.
    fn tell(&self, resource: Resource, rows: u64, noted: &Noted) {
        self.count(&Tally { warnings: noted.tally.warnings + noted.oddities, ..noted.tally });
        self.engine.observer.on(RunEvent::Stored { resource, rows, ru: self.spent() });
    }
}
