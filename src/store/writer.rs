//! The one thread that writes the mirror. Whoever wants to write sends it a piece of work and waits for the answer.
//!
//! One writer makes "a page is one transaction" true by construction, and keeps SQLite's blocking calls off the
//! runtime's threads while pages are fetched and decoded beside it. The queue is bounded, so memory is too.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError, RwLock};

use rusqlite::{Connection, TransactionBehavior};
use tokio::sync::{mpsc, oneshot};

use crate::model::custom::Layout;
use crate::store::custom::columns;
use crate::store::error::{Doing, StoreError};
use crate::store::file::lock::Lock;
use crate::store::file::open;
use crate::store::file::wal;
use crate::store::reader::ReadTx;
use crate::store::shapes::Shapes;
use crate::store::tx::MirrorTx;

type WriterJob = Box<dyn FnOnce(&mut Writer) + Send>;

/// Pieces of work that may wait for the writer.
const QUEUE: usize = 4;

/// The mirror's file, open for writing. Cheap to clone; the writer ends when the last clone is gone.
#[derive(Clone, Debug)]
pub struct Store {
    queue: mpsc::Sender<WriterJob>,
    layout: Arc<RwLock<Arc<Layout>>>,
    path: Arc<PathBuf>,
    lock: Arc<Lock>,
    thread: Arc<Mutex<Option<std::thread::JoinHandle<()>>>>,
}

/// The connection and what belongs to it; only ever touched by the writer's thread.
struct Writer {
    conn: Connection,
    shapes: Shapes,
    wal: wal::Keeper,
    before_commit: Option<CommitHook>,
    killed: bool,
}

/// Called before each commit; where it says no, the writer ends there as a kill would end it: nothing is committed and
/// nothing is tidied up.
pub type CommitHook = Box<dyn FnMut() -> bool + Send>;

/// How a mirror is opened for writing.
#[derive(Default)]
pub struct StoreOptions {
    /// At most so many custom fields of each object have an index from now on; `None` leaves it as it was.
    pub indexed: Option<u32>,
    /// What decides on every commit after the opening.
    pub before_commit: Option<CommitHook>,
}

impl Store {
    /// Opens the mirror for writing, makes it if there is none.
    ///
    /// # Errors
    /// As `open::writer`.
    pub fn open(path: &Path) -> Result<Store, StoreError> {
        Store::open_with(path, StoreOptions::default())
    }

    /// As [`Store::open`], in another way.
    ///
    /// # Errors
    /// As `open::writer`.
    pub fn open_with(path: &Path, options: StoreOptions) -> Result<Store, StoreError> {
        let (conn, lock, _) = open::writer(path)?;
        let shapes = Shapes::new(Arc::new(columns::layout(&conn)?));
        let layout = Arc::new(RwLock::new(shapes.layout.clone()));
        let wal = wal::Keeper::of(path);
        let mut writer = Writer { conn, shapes, wal, before_commit: None, killed: false };
        writer.tx(|tx| {
            tx.name_mirror()?;
            tx.catch_up()?;
            tx.count_once()?;
            options.indexed.map_or(Ok(()), |most| tx.index_at_most(most))
        })?;
        *layout.write().unwrap_or_else(PoisonError::into_inner) = writer.shapes.layout.clone();
        writer.before_commit = options.before_commit;
        let lock = Arc::new(lock);
        let held = lock.clone();
        let (queue, mut work) = mpsc::channel::<WriterJob>(QUEUE);
        let thread = std::thread::Builder::new()
            .name("mirror-writer".into())
            .spawn(move || {
                while let Some(work) = work.blocking_recv() {
                    work(&mut writer);
                }
                if !writer.killed
                    && let Err(error) = open::before_close(&writer.conn)
                {
                    tracing::warn!(%error, "The mirror could not be closed tidily: {error}");
                }
                drop(writer);
                held.release();
            })
            .map_err(|source| StoreError::Io { path: path.to_path_buf(), source })?;
        let thread = Arc::new(Mutex::new(Some(thread)));
        Ok(Store { queue, layout, path: Arc::new(path.to_path_buf()), lock, thread })
    }

    /// Carries out `work` in one transaction: committed if it succeeds, as if it never was if it fails.
    ///
    /// # Errors
    /// What `work` gives, or a failed commit; [`StoreError::Closed`] if the writer has ended.
    pub async fn write<T, F>(&self, work: F) -> Result<T, StoreError>
    where
        T: Send + 'static,
        F: FnOnce(&mut MirrorTx<'_>) -> Result<T, StoreError> + Send + 'static,
    {
        self.carry_out(|writer| writer.tx(work)).await
    }

    /// As [`Store::write`], and beyond a power cut once it returns: for what cannot be read again from the service.
    ///
    /// # Errors
    /// As [`Store::write`].
    pub async fn write_durably<T, F>(&self, work: F) -> Result<T, StoreError>
    where
        T: Send + 'static,
        F: FnOnce(&mut MirrorTx<'_>) -> Result<T, StoreError> + Send + 'static,
    {
        self.carry_out(|writer| writer.durably(|writer| writer.tx(work))).await
    }

    /// Reads at one moment, after everything that was written before, without a lock that keeps others from writing.
    ///
    /// # Errors
    /// What `work` gives; [`StoreError::Closed`] if the writer has ended.
    pub async fn read<T, F>(&self, work: F) -> Result<T, StoreError>
    where
        T: Send + 'static,
        F: FnOnce(&ReadTx<'_>) -> Result<T, StoreError> + Send + 'static,
    {
        self.carry_out(|writer| writer.read(work)).await
    }

    /// Decodes an answer with the custom columns as they are and writes it in one transaction; decodes it again where
    /// another transaction has changed them meanwhile.
    ///
    /// # Errors
    /// What `decode` and `apply` give, and as [`Store::write`].
    pub async fn write_decoded<D, T, E, F, G>(&self, decode: F, apply: G) -> Result<T, E>
    where
        D: Send + 'static,
        T: Send + 'static,
        E: From<StoreError>,
        F: Fn(&Layout) -> Result<D, E>,
        G: FnOnce(&mut MirrorTx<'_>, D) -> Result<T, StoreError> + Clone + Send + 'static,
    {
        loop {
            let layout = self.layout();
            let decoded = decode(&layout)?;
            let apply = apply.clone();
            let written = self
                .write(move |tx| {
                    tx.expect_layout(layout.version)?;
                    apply(tx, decoded)
                })
                .await;
            match written {
                Err(StoreError::StaleLayout) => {}
                other => return Ok(other?),
            }
        }
    }

    async fn carry_out<T, F>(&self, work: F) -> Result<T, StoreError>
    where
        T: Send + 'static,
        F: FnOnce(&mut Writer) -> Result<T, StoreError> + Send + 'static,
    {
        let (answer, answered) = oneshot::channel();
        let layout = self.layout.clone();
        let work: WriterJob = Box::new(move |writer| {
            let result = work(writer);
            let now = &writer.shapes.layout;
            if layout.read().unwrap_or_else(PoisonError::into_inner).version != now.version {
                *layout.write().unwrap_or_else(PoisonError::into_inner) = now.clone();
            }
            // Whoever asked may have given up waiting; the work is done all the same.
            let _ = answer.send(result);
            if !writer.killed {
                writer.wal.after_commit(&writer.conn);
            }
        });
        self.queue.send(work).await.map_err(|_| StoreError::Closed)?;
        answered.await.map_err(|_| StoreError::Closed)?
    }

    /// Ends a run: leaves the WAL empty, as far as those who read allow. Says whether they did.
    ///
    /// # Errors
    /// If SQLite refuses; the mirror is whole all the same.
    pub async fn settle(&self) -> Result<bool, StoreError> {
        let (answer, answered) = oneshot::channel();
        let work: WriterJob = Box::new(move |writer| {
            let emptied = if writer.killed { Ok(false) } else { wal::empty(&writer.conn) };
            let _ = answer.send(emptied);
        });
        self.queue.send(work).await.map_err(|_| StoreError::Closed)?;
        answered.await.map_err(|_| StoreError::Closed)?
    }

    /// The custom columns as the last finished transaction left them.
    pub fn layout(&self) -> Arc<Layout> {
        self.layout.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The lock beside the file, and its note.
    pub fn lock(&self) -> &Lock {
        &self.lock
    }

    /// The file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Ends the writer and waits until the file is closed. Other clones can write no more.
    pub async fn close(self) {
        let Store { queue, thread, .. } = self;
        let handle = thread.lock().unwrap_or_else(PoisonError::into_inner).take();
        drop(queue);
        if let Some(handle) = handle {
            // Joining blocks; a panic of the writer has been reported on its own thread.
            let _ = tokio::task::spawn_blocking(move || handle.join()).await;
        }
    }
}

impl Writer {
    /// Does the work with every commit on the disk before it counts. It cannot be set inside a transaction.
    fn durably<T>(&mut self, work: impl FnOnce(&mut Writer) -> Result<T, StoreError>) -> Result<T, StoreError> {
        let set =
            |writer: &Writer, how| writer.conn.pragma_update(None, "synchronous", how).doing("make a commit durable");
        set(self, "full")?;
        let done = work(self);
        set(self, "normal")?;
        done
    }

    /// Reads at one moment; what cannot be parsed of the program's state is dropped afterwards.
    fn read<T>(&mut self, work: impl FnOnce(&ReadTx<'_>) -> Result<T, StoreError>) -> Result<T, StoreError> {
        if self.killed {
            return Err(StoreError::Interrupted);
        }
        let tx = self.conn.transaction_with_behavior(TransactionBehavior::Deferred).doing("begin to read")?;
        let tx = ReadTx::new(tx);
        let out = work(&tx)?;
        let unreadable = tx.unreadable.take();
        drop(tx);
        if !unreadable.is_empty() {
            self.tx(|tx| {
                tx.unreadable.replace(unreadable);
                Ok(())
            })?;
        }
        Ok(out)
    }

    fn tx<T>(&mut self, work: impl FnOnce(&mut MirrorTx<'_>) -> Result<T, StoreError>) -> Result<T, StoreError> {
        if self.killed {
            return Err(StoreError::Interrupted);
        }
        let tx = self.conn.transaction_with_behavior(TransactionBehavior::Immediate).doing("begin a transaction")?;
        let mut tx = MirrorTx::new(tx, self.shapes.clone());
        let out = work(&mut tx)?;
        if self.before_commit.as_mut().is_some_and(|may_commit| !may_commit()) {
            self.killed = true;
            return Err(StoreError::Interrupted);
        }
        self.shapes = tx.commit()?;
        Ok(out)
    }
}
