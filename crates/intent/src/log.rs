//! The log of one head.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};

use base::lock::{LockClass, Mutex, rank};
use base::random::Rng;
use base::{ObjectId, Txg, VdevId};
use dmu::{ObjectSet, Tx};
use format::intent_log::LogHeader;
use pipeline::Pipeline;
use txg::Engine;

use crate::chain::{Chain, Stage};
use crate::commit_queue::CommitQueue;
use crate::entry::{Contents, Data, Entry, LogBias, Scope, SyncPolicy};
use crate::flusher::Flusher;
use crate::in_flight::InFlight;
use crate::layout::RECORD_MAX;
use crate::lists::Lists;
use crate::meters::{LogStatistics, Meters};
use crate::replay::Progress;
use crate::waiter::Waiter;
use crate::walk::owned_blocks;
use crate::write_out::{DataWriter, EarlyBlocks};

static COMMIT_QUEUE: LockClass = LockClass::new("intent.commit_queue", rank::INTENT + 25);
static CHAIN: LockClass = LockClass::new("intent.chain", rank::INTENT + 20);

/// What a log is made of.
pub struct OpenLog {
    /// The head's object set, open for writing.
    pub objects: Arc<ObjectSet>,
    /// The pool's transaction engine.
    pub engine: Arc<Engine>,
    /// The pool's blocks.
    pub pipeline: Arc<Pipeline>,
    /// The pool's flushes.
    pub flusher: Arc<Flusher>,
    /// Chance: for the identities of chains.
    pub rng: Arc<dyn Rng>,
    /// Called when a chain begins, before the txg that stores its first pointer ends.
    pub begins: Box<dyn Fn() + Send + Sync>,
    /// Called with each vdev that did not take a log block, or could not flush it.
    pub failed: Box<dyn Fn(VdevId) + Send + Sync>,
    /// Whether there are devices for logs that take blocks: they take large writes as well, unless the property
    /// `logbias` says throughput.
    pub has_devices: Box<dyn Fn() -> bool + Send + Sync>,
    /// How data blocks are written before their txg; without it all data go into the log.
    pub data_writer: Option<Box<dyn DataWriter>>,
    /// Whether records of extended attributes among the system attributes are allowed (feature
    /// `zilsaxattr`).
    pub logs_xattrs: bool,
}

/// The log of one head. Shared by all threads.
pub struct Log {
    pub(crate) objects: Arc<ObjectSet>,
    pub(crate) engine: Arc<Engine>,
    pub(crate) pipeline: Arc<Pipeline>,
    pub(crate) flusher: Arc<Flusher>,
    pub(crate) rng: Arc<dyn Rng>,
    pub(crate) begins: Box<dyn Fn() + Send + Sync>,
    pub(crate) failed: Box<dyn Fn(VdevId) + Send + Sync>,
    pub(crate) has_devices: Box<dyn Fn() -> bool + Send + Sync>,
    logs_xattrs: bool,
    pub(crate) data_writer: Option<Box<dyn DataWriter>>,
    pub(crate) early: EarlyBlocks,
    pub(crate) contents: Mutex<Option<Arc<dyn Contents>>>,
    sync_policy: AtomicU8,
    log_bias: AtomicU8,
    pub(crate) lists: Lists,
    /// The newest txg with changes that no record describes.
    pub(crate) unlogged: AtomicU64,
    /// The newest txg on disk.
    pub(crate) synced: AtomicU64,
    pub(crate) commit_queue: Mutex<CommitQueue<Arc<Waiter>>>,
    pub(crate) chain: Mutex<Chain>,
    pub(crate) in_flight: Arc<InFlight>,
    pub(crate) replaying: AtomicBool,
    pub(crate) progress: Progress,
    pub(crate) replay_failure: Mutex<Option<(u64, String)>>,
    pub(crate) meters: Arc<Meters>,
}

static FAILURE: LockClass = LockClass::new("intent.replay_failure", rank::INTENT + 45);
static CONTENTS: LockClass = LockClass::new("intent.contents", rank::INTENT + 44);

impl Log {
    /// The log that the object set's header shows.
    #[must_use]
    pub fn open(options: OpenLog) -> Arc<Self> {
        let header = options.objects.intent_log_header();
        let chain = Chain::open(&header);
        let log = Self {
            synced: AtomicU64::new(options.engine.synced_txg().0),
            objects: options.objects,
            engine: options.engine,
            pipeline: options.pipeline,
            flusher: options.flusher,
            rng: options.rng,
            begins: options.begins,
            failed: options.failed,
            has_devices: options.has_devices,
            logs_xattrs: options.logs_xattrs,
            data_writer: options.data_writer,
            early: EarlyBlocks::new(),
            contents: Mutex::new(&CONTENTS, None),
            sync_policy: AtomicU8::new(SyncPolicy::Standard as u8),
            log_bias: AtomicU8::new(LogBias::Latency as u8),
            lists: Lists::new(),
            unlogged: AtomicU64::new(0),
            commit_queue: Mutex::new(&COMMIT_QUEUE, CommitQueue::new()),
            chain: Mutex::new(&CHAIN, chain),
            in_flight: InFlight::new(),
            replaying: AtomicBool::new(false),
            progress: Progress::new(),
            replay_failure: Mutex::new(&FAILURE, None),
            meters: Meters::listed(),
        };
        if header.claim_txg != Txg(0) && header.flags & LogHeader::FLAG_REPLAY_NEEDED == 0 {
            // Claimed, but it held nothing: the next txg does away with it.
            let blocks = owned_blocks(&log.pipeline, log.objects.id(), &header);
            log.chain.lock().discard(blocks);
        }
        Arc::new(log)
    }

    /// The object set that it belongs to.
    #[must_use]
    pub fn objects(&self) -> &Arc<ObjectSet> {
        &self.objects
    }

    /// Says where the data of later-read writes are found; without it, in the object set.
    pub fn set_contents(&self, contents: Arc<dyn Contents>) {
        *self.contents.lock() = Some(contents);
    }

    /// Sets the properties `sync` and `logbias`; they hold for what is recorded from now on.
    pub fn set_policy(&self, sync: SyncPolicy, bias: LogBias) {
        self.sync_policy.store(sync as u8, Ordering::Release);
        self.log_bias.store(bias as u8, Ordering::Release);
    }

    /// The property `sync`.
    #[must_use]
    pub fn sync_policy(&self) -> SyncPolicy {
        const ALWAYS: u8 = SyncPolicy::Always as u8;
        const DISABLED: u8 = SyncPolicy::Disabled as u8;
        match self.sync_policy.load(Ordering::Acquire) {
            ALWAYS => SyncPolicy::Always,
            DISABLED => SyncPolicy::Disabled,
            _ => SyncPolicy::Standard,
        }
    }

    /// The property `logbias`.
    #[must_use]
    pub fn log_bias(&self) -> LogBias {
        if self.log_bias.load(Ordering::Acquire) == LogBias::Throughput as u8 {
            LogBias::Throughput
        } else {
            LogBias::Latency
        }
    }

    /// Whether records are wanted at all: not while the property `sync` says disabled, nor during
    /// replay. [`Log::append_nothing`] is to be called even then.
    #[must_use]
    pub fn records(&self) -> bool {
        self.sync_policy() != SyncPolicy::Disabled && !self.is_replaying()
    }

    /// Whether records are being replayed.
    #[must_use]
    pub fn is_replaying(&self) -> bool {
        self.replaying.load(Ordering::Acquire)
    }

    /// Whether records of extended attributes among the system attributes are allowed.
    #[must_use]
    pub const fn logs_xattrs(&self) -> bool {
        self.logs_xattrs
    }

    /// Records what `tx` just did: each commit carries all of `entries` or none. Called inside the
    /// transaction, under whatever excludes operations that depend on this one; never waits for a device.
    ///
    /// While the log is being replayed nothing is recorded: that the record under way was applied
    /// is noted for the transaction's txg instead.
    pub fn append(&self, tx: &Tx, scope: Scope, entries: Vec<Entry>) {
        if self.records() && entries.iter().all(is_sound) {
            self.lists.append(tx.txg(), scope, entries);
        } else {
            self.append_nothing(tx);
        }
    }

    /// Notes that `tx` did something that no record describes: commits wait for its txg.
    pub fn append_nothing(&self, tx: &Tx) {
        if self.is_replaying() {
            self.progress.note(tx.txg());
        } else {
            self.unlogged.fetch_max(tx.txg().0, Ordering::AcqRel);
        }
    }

    /// Forgets what was recorded of an object whose last name went: nobody can miss it.
    pub fn discard(&self, object: ObjectId) {
        self.lists.discard(object);
    }

    /// What it did so far.
    #[must_use]
    pub fn statistics(&self) -> LogStatistics {
        self.meters.statistics()
    }

    /// Whether records of an earlier import wait to be replayed.
    #[must_use]
    pub fn is_owed(&self) -> bool {
        self.chain.lock().stage == Stage::Owed
            && self.objects.intent_log_header().flags & LogHeader::FLAG_REPLAY_NEEDED != 0
    }

    /// Whether nothing is under way, so that it can be dropped when nobody uses it: what it has on disk is one
    /// block that was never written, or none, and who opens the log again and commits means nothing that only
    /// this one knows.
    #[must_use]
    pub fn is_idle(&self) -> bool {
        let chain = self.chain.lock();
        let settled = matches!(chain.stage, Stage::None | Stage::Live | Stage::Owed);
        settled
            && chain.links.len() <= 1
            && chain.links.front().is_none_or(|link| !link.durable)
            && chain.orphans.is_empty()
            && chain.discarded.is_none()
            && self.early.is_empty()
            && !self.commit_queue.lock().is_busy()
            && self.lists.are_empty()
            && !self.is_unlogged()
    }

    /// The record at which the last replay ended, and why, if it did not end well.
    #[must_use]
    pub fn replay_failure(&self) -> Option<(u64, String)> {
        self.replay_failure.lock().clone()
    }

    /// The newest txg that is on disk, as far as this log was told.
    pub(crate) fn synced_txg(&self) -> Txg {
        Txg(self.synced.load(Ordering::Acquire))
    }
}

/// Whether an entry can be put into a block at all.
fn is_sound(entry: &Entry) -> bool {
    match entry {
        Entry::Record(bytes) => {
            (32..=RECORD_MAX).contains(&(bytes.len() as u64)) && bytes.len().is_multiple_of(8)
        }
        Entry::Write(write) => {
            let copied = match &write.data {
                Data::Copied(bytes) => bytes.len() as u64 == write.length,
                Data::Later => true,
            };
            write.length > 0 && copied && write.offset.checked_add(write.length).is_some()
        }
    }
}

impl std::fmt::Debug for Log {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Log({})", self.objects.id())
    }
}
