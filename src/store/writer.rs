//! The one thread that writes the mirror. Other threads send it closures and wait for the results.
//!
//! One writer guarantees that a page is one transaction, and keeps SQLite's blocking calls off the runtime's threads
//! while pages are fetched and decoded. The queue is bounded, and therefore memory too.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use rusqlite::{Connection, TransactionBehavior};
use tokio::sync::{mpsc, oneshot, watch};

use crate::error_chain::error_chain;
use crate::model::{Instant, Layout, Object, RequestRegister};
use crate::store::tx::RowOrder;
use crate::store::user_objects::objects::drop_indexes_in_the_way;
use crate::store::{
    BuiltFrom, FileId, Lock, MirrorTx, ReadTx, Result, Shapes, StoreError, ViewOptions, beside, lock, open, shapes_of,
    wal,
};

/// `None` ends the writer.
type WriterJob = Option<Box<dyn FnOnce(&mut Writer) + Send>>;

const QUEUE: usize = 4;

/// The mirror's file, open for writing. Cheap to clone; the writer ends with the last clone.
#[derive(Clone, Debug)]
pub struct Store {
    queue: mpsc::Sender<WriterJob>,
    layout: watch::Receiver<Arc<Layout>>,
    pub path: Arc<PathBuf>,
    file: Option<FileId>,
    pub lock: Arc<Lock>,
    pub requests: RequestRegister,
    is_replaced: Arc<AtomicBool>,
    thread: Arc<Mutex<Option<JoinHandle<()>>>>,
}

struct Writer {
    conn: Connection,
    shapes: Shapes,
    layout: watch::Sender<Arc<Layout>>,
    wal: wal::Keeper,
    rows: RowOrder,
    before_commit: Option<CommitHook>,
    /// The version of the data at the last look at what other programs did; only their commits change it.
    looked_at: Option<i64>,
    killed: bool,
    lock: Arc<Lock>,
    /// Other contents were written over those of the file: it has to be opened again.
    is_replaced: Arc<AtomicBool>,
}

/// Called before each commit; if it returns false, the writer ends as by a kill: nothing is committed or cleaned up.
pub type CommitHook = Box<dyn FnMut() -> bool + Send>;

#[derive(Default)]
pub struct StoreOptions {
    /// New settings of views and indexes; `None` leaves them unchanged.
    pub views: Option<ViewOptions>,
    /// What decides on every commit after the opening.
    pub before_commit: Option<CommitHook>,
    /// How long the writer waits for the lock of another process, if not as long as by default.
    pub lock_wait: Option<Duration>,
}

impl Store {
    /// Opens the mirror for writing, and creates it if it does not exist.
    pub fn open(path: &Path) -> Result<Store> {
        Store::open_with(path, StoreOptions::default())
    }

    pub fn open_with(path: &Path, options: StoreOptions) -> Result<Store> {
        // A link may lead to another file later: only what lies beside this one has its name.
        let (configured, path) = (path, &beside(path, ""));
        let (conn, lock) = open::writer(path)?;
        let lock = Arc::new(lock);
        let shapes = shapes_of(&conn)?;
        let (now, layout) = watch::channel(shapes.layout.clone());
        let (requests, is_replaced) = (RequestRegister::default(), Arc::<AtomicBool>::default());
        let mut writer = Writer {
            conn,
            shapes,
            layout: now,
            wal: wal::Keeper::of(path),
            rows: RowOrder::new(requests.clone()),
            before_commit: None,
            looked_at: None,
            killed: false,
            lock: lock.clone(),
            is_replaced: is_replaced.clone(),
        };
        let taken = writer.durably(|writer| {
            writer.tx(|tx| {
                let taken = tx.take_over(&lock, path, Instant::system_now())?;
                options.views.as_ref().map_or(Ok(()), |views| tx.derived().configure_views(views))?;
                tx.derived().catch_up()?;
                tx.derived().refresh_view_files()?;
                Object::ALL.into_iter().try_for_each(|object| tx.records().count_once(object))?;
                Ok(taken)
            })
        })?;
        lock.store_writer(taken)?;
        writer.finish_erasure();
        writer.before_commit = options.before_commit;
        if let Some(wait) = options.lock_wait {
            writer.conn.busy_timeout(wait)?;
        }
        let (place, file, held) = (path.clone(), FileId::of(path), lock.clone());
        let (queue, mut work) = mpsc::channel::<WriterJob>(QUEUE);
        let thread = std::thread::Builder::new()
            .name("mirror-writer".into())
            .spawn(move || {
                while let Some(Some(work)) = work.blocking_recv() {
                    work(&mut writer);
                    if writer.is_replaced.load(Relaxed) {
                        break;
                    }
                }
                if !writer.killed
                    && let Err(error) = wal::empty(&writer.conn)
                {
                    tracing::warn!("The mirror could not be closed cleanly: {}", error_chain(&error));
                }
                let killed = writer.killed;
                drop(writer);
                // Only now, since the numbers of closed files are used again. While it is in the way, nobody gets the lock.
                if let Err(error) = held.end(&place, killed) {
                    tracing::error!(%error, "The WAL of a file that was replaced is in the way: {error}");
                }
            })
            .map_err(StoreError::using(path))?;
        let (path, thread) = (Arc::new(configured.to_path_buf()), Arc::new(Mutex::new(Some(thread))));
        Ok(Store { queue, layout, path, file, lock, requests, is_replaced, thread })
    }

    /// Executes `work` in one transaction: it is committed if `work` succeeds, and rolled back if it fails.
    pub async fn write<T: Send + 'static>(
        &self,
        work: impl FnOnce(&MirrorTx<'_>) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        self.carry_out(|writer| writer.tx(work)).await
    }

    /// Like [`Store::write`], but durable once it returns: for data that cannot be read again from the service.
    pub async fn write_durably<T: Send + 'static>(
        &self,
        work: impl FnOnce(&MirrorTx<'_>) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        self.carry_out(|writer| writer.durably(|writer| writer.tx(work))).await
    }

    /// Like [`Store::write_durably`], at the beginning of a run: renews the nonce that the file's contents are known by.
    pub async fn begin<T: Send + 'static>(
        &self,
        work: impl FnOnce(&MirrorTx<'_>) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        self.carry_out(|writer| {
            let current = writer.lock.writer().unwrap_or_default();
            let renew = |tx: &MirrorTx<'_>| Ok((tx.renew_nonce(&current)?, work(tx)?));
            let (next, out) = writer.durably(|writer| writer.tx(renew))?;
            writer.lock.store_writer(next)?;
            Ok(out)
        })
        .await
    }

    /// Reads one snapshot, after all earlier writes, without a lock that blocks writers.
    pub async fn read<T: Send + 'static>(
        &self,
        work: impl FnOnce(&ReadTx<'_>) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        self.carry_out(|writer| writer.read(work)).await
    }

    async fn carry_out<T: Send + 'static>(
        &self,
        work: impl FnOnce(&mut Writer) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        let (answer, answered) = oneshot::channel();
        let work: WriterJob = Some(Box::new(move |writer| {
            // The caller may have stopped waiting; the work is done anyway.
            let _ = answer.send(work(writer));
            if !writer.killed {
                writer.wal.after_commit(&writer.conn);
            }
        }));
        // If the writer has ended, nobody answers.
        let _ = self.queue.send(work).await;
        match answered.await {
            Ok(done) => done,
            Err(_) if self.is_replaced.load(Relaxed) => Err(StoreError::Replaced { path: self.path.to_path_buf() }),
            Err(_) => Err(StoreError::Closed),
        }
    }

    /// Ends a run: empties the WAL, as far as readers allow, and releases memory. Returns whether the WAL is empty.
    pub async fn settle(&self) -> Result<bool> {
        let settle = |writer: &mut Writer| {
            writer.finish_erasure();
            let emptied = if writer.killed { Ok(false) } else { wal::empty(&writer.conn) };
            // What makes the next statements fast: between runs, nobody waits for them. The parsed schema is the largest
            // part, and is read again in 3 ms. If it fails, the memory is used for longer.
            writer.conn.flush_prepared_statement_cache();
            let _ = writer.conn.execute_batch("PRAGMA shrink_memory; PRAGMA writable_schema = RESET");
            emptied
        };
        self.carry_out(settle).await
    }

    /// The custom columns after the last finished transaction.
    pub fn layout(&self) -> Arc<Layout> {
        self.layout.borrow().clone()
    }

    /// Closes the file for all clones, and then lets another one take its place: from here on they get
    /// [`StoreError::Closed`], or what ended it before, and the lock may be another process's.
    pub async fn close(&self) {
        // It may have ended before.
        let _ = self.queue.send(None).await;
        let handle = self.thread.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(handle) = handle {
            // Joining blocks; a panic of the writer has been reported on its own thread.
            let _ = tokio::task::spawn_blocking(move || handle.join()).await;
        }
    }

    /// Whether what is written is in the mirror: this file is open, and at its path.
    pub fn is_at_path(&self) -> Result<()> {
        let path = || self.path.to_path_buf();
        match FileId::of(&self.path) {
            None => Err(StoreError::Missing { path: path() }),
            found if found == self.file && !self.queue.is_closed() => Ok(()),
            Some(_) => Err(StoreError::Replaced { path: path() }),
        }
    }
}

impl Writer {
    /// Rewrites the file if its unused parts may hold values of fields that were excluded since it was last rewritten. That
    /// writes as much into the WAL, so it waits for readers that would keep it there.
    fn finish_erasure(&mut self) {
        let mut rewrite = || -> Result<bool> {
            let built = BuiltFrom::read(&self.conn)?;
            let is_erased = built.options.exclude.iter().all(|column| built.erased.contains(column));
            if self.killed || is_erased {
                return Ok(true);
            }
            if !wal::empty(&self.conn)? {
                return Ok(false);
            }
            self.conn.execute_batch("VACUUM")?;
            if !wal::empty(&self.conn)? {
                return Ok(false);
            }
            self.tx(|tx| tx.derived().now_built_from(|built| built.erased.clone_from(&built.options.exclude)))?;
            Ok(true)
        };
        match rewrite() {
            Ok(true) => {}
            Ok(false) => tracing::warn!(
                "Values of excluded fields may still be in the file, because a process is reading the mirror; the next run tries again"
            ),
            Err(error) => {
                tracing::warn!("Could not rewrite the file without excluded values: {}", error_chain(&error))
            }
        }
    }

    /// `synchronous` cannot be set inside a transaction.
    fn durably<T>(&mut self, work: impl FnOnce(&mut Writer) -> Result<T>) -> Result<T> {
        let set = |writer: &Writer, how| writer.conn.pragma_update(None, "synchronous", how);
        set(self, "full")?;
        let done = work(self);
        set(self, "normal")?;
        done
    }

    fn read<T>(&mut self, work: impl FnOnce(&ReadTx<'_>) -> Result<T>) -> Result<T> {
        if self.killed {
            return Err(StoreError::Interrupted);
        }
        let tx = self.conn.transaction_with_behavior(TransactionBehavior::Deferred)?;
        work(&ReadTx { conn: tx })
    }

    fn tx<T>(&mut self, work: impl FnOnce(&MirrorTx<'_>) -> Result<T>) -> Result<T> {
        let done = self.attempt(work);
        self.is_replaced.fetch_or(matches!(done, Err(StoreError::Replaced { .. })), Relaxed);
        if let Err(error) = &done
            && error.code() == Some(rusqlite::ffi::SQLITE_CORRUPT_INDEX)
        {
            match self.conn.execute_batch("REINDEX") {
                Ok(()) => {
                    tracing::warn!("An index was damaged; all were built again, and the next run repeats what failed")
                }
                Err(error) => tracing::warn!(%error, "A damaged index could not be built again: {error}"),
            }
        }
        done
    }

    fn attempt<T>(&mut self, work: impl FnOnce(&MirrorTx<'_>) -> Result<T>) -> Result<T> {
        if self.killed {
            return Err(StoreError::Interrupted);
        }
        let tx = self.conn.transaction_with_behavior(TransactionBehavior::Immediate)?;
        let mut tx = MirrorTx::new(tx, self.shapes.clone(), &self.rows);
        let version: i64 = tx.conn.pragma_query_value(None, "data_version", |row| row.get(0))?;
        if self.looked_at != Some(version) {
            if self.looked_at.is_some() {
                tx.expect_last(&self.lock.writer().unwrap_or_default())?;
            }
            // First of all: after an error of a damaged index, SQLite refuses to write for the rest of a transaction.
            drop_indexes_in_the_way(&tx.conn)?;
            tx.derived().mend_searches()?;
            tx.derived().mend_objects()?;
        }
        let out = work(&mut tx)?;
        if self.before_commit.as_mut().is_some_and(|may_commit| !may_commit()) {
            self.killed = true;
            return Err(StoreError::Interrupted);
        }
        let (shapes, written) = tx.commit()?;
        self.layout.send_replace(shapes.layout.clone());
        self.shapes = shapes;
        self.rows.note(written);
        self.looked_at = Some(version);
        Ok(out)
    }
}

/// Executes `work` in one durable transaction on the outbox, beside the writer: a person who edits must not wait for a run to
/// end, only for a page to be stored. Records, checkpoints and the ledger are written only by the writer.
pub fn write_beside<T, E: From<StoreError>>(
    path: &Path,
    work: impl FnOnce(&MirrorTx<'_>) -> Result<T, E>,
) -> Result<T, E> {
    let mut conn = open::editor(path)?;
    let tx = conn.transaction_with_behavior(TransactionBehavior::Immediate).map_err(StoreError::from)?;
    let shapes = shapes_of(&tx)?;
    // No answer is written here, so the order of requests does not matter.
    let rows = RowOrder::new(RequestRegister::default());
    let mut tx = MirrorTx::new(tx, shapes, &rows);
    let out = work(&mut tx)?;
    tx.commit()?;
    // What is at rest is in the file itself, which may be moved without its WAL. If a reader prevents that, nothing is lost.
    let _ = lock::current_writer(path).is_none().then(|| wal::empty(&conn));
    Ok(out)
}
