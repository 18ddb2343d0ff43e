//! What is promised to transactions: of the pool, and of each of its heads.

use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, Weak};

use base::Txg;
use base::lock::{LockClass, Mutex, rank};
use dmu::{Account, Footprint};

use crate::tunables;

static ACCOUNTS: LockClass = LockClass::new("dsl.space_accounts", rank::LAST + 7);

/// Promises that hold, by the last txg that they hold for.
#[derive(Default)]
struct Promises {
    by_txg: [AtomicI64; Txg::SLOTS],
}

impl Promises {
    fn balance(&self) -> i64 {
        let all = self.by_txg.iter();
        all.map(|slot| slot.load(Ordering::Relaxed)).sum()
    }

    fn sum(&self) -> u64 {
        self.balance().max(0).cast_unsigned()
    }

    fn change(&self, until: Txg, by: i64) {
        self.by_txg[until.slot()].fetch_add(by, Ordering::Relaxed);
    }

    fn synced(&self, txg: Txg) {
        self.by_txg[txg.slot()].store(0, Ordering::Relaxed);
    }
}

/// The promises of a pool.
pub(crate) struct PoolAccount {
    promises: Promises,
    /// Bytes that may be promised in all, as of the last synced txg.
    room: AtomicU64,
    heads: Mutex<Vec<Weak<HeadAccount>>>,
}

/// What of the available bytes may be promised.
pub(super) fn room_of(available: u64) -> u64 {
    available / 100 * tunables::ROOM_PERCENT.get()
}

impl PoolAccount {
    pub(crate) fn new() -> Arc<Self> {
        Arc::new(Self {
            promises: Promises::default(),
            room: AtomicU64::new(0),
            heads: Mutex::new(&ACCOUNTS, Vec::new()),
        })
    }

    /// `txg` has synced, and left so much.
    pub(crate) fn synced(&self, txg: Txg, available: u64) {
        self.set_room(available);
        self.promises.synced(txg);
        self.heads.lock().retain(|head| match head.upgrade() {
            Some(head) => {
                head.promises.synced(txg);
                true
            }
            None => false,
        });
    }

    /// Bytes that may be promised in all.
    pub(super) fn room(&self) -> u64 {
        self.room.load(Ordering::Relaxed)
    }

    /// So much is available now: what may be promised, until a txg has synced.
    pub(super) fn set_room(&self, available: u64) {
        self.room.store(room_of(available), Ordering::Relaxed);
    }

    /// Bytes that are promised in all; never for long less than none.
    pub(super) fn balance(&self) -> i64 {
        self.promises.balance()
    }
}

/// The promises of a head, and how its blocks are stored.
pub(super) struct HeadAccount {
    pool: Arc<PoolAccount>,
    promises: Promises,
    copies: AtomicU64,
    charge_overhead: AtomicU64,
}

impl HeadAccount {
    /// A head of that pool.
    pub(super) fn new(pool: &Arc<PoolAccount>) -> Arc<Self> {
        let account = Arc::new(Self {
            pool: Arc::clone(pool),
            promises: Promises::default(),
            copies: AtomicU64::new(1),
            charge_overhead: AtomicU64::new(0),
        });
        pool.heads.lock().push(Arc::downgrade(&account));
        account
    }

    /// The pool's promises.
    pub(super) fn pool(&self) -> &PoolAccount {
        &self.pool
    }

    /// Its blocks have so many copies, each of which is charged with so much more than its stored bytes, at most.
    pub(super) fn stored(&self, copies: u64, charge_overhead: u64) {
        self.copies.store(copies, Ordering::Relaxed);
        let overhead = &self.charge_overhead;
        overhead.store(charge_overhead, Ordering::Relaxed);
    }

    /// Bytes that are promised: of the pool, and of this head.
    pub(super) fn promised(&self) -> (u64, u64) {
        (self.pool.promises.sum(), self.promises.sum())
    }

    /// Bytes that blocks take on the devices at most.
    pub(super) fn on_devices(&self, blocks: &Footprint) -> u64 {
        let copies = self.copies.load(Ordering::Relaxed).clamp(1, 3);
        let overhead = self.charge_overhead.load(Ordering::Relaxed);
        let whole = |bytes: u64, count: u64| bytes.saturating_add(count.saturating_mul(overhead));
        let data = whole(blocks.data_bytes, blocks.data_blocks);
        // Blocks that must be cut have headers beside.
        let gangs = blocks.data_bytes / 8;
        let meta = whole(blocks.meta_bytes, blocks.meta_blocks);
        data.saturating_add(gangs)
            .saturating_mul(copies)
            .saturating_add(meta.saturating_mul((copies + 1).min(3)))
    }

    /// Promises so much more until that txg has synced.
    pub(super) fn change(&self, until: Txg, by: i64) {
        self.pool.promises.change(until, by);
        self.promises.change(until, by);
    }
}

impl Account for HeadAccount {
    fn settle(&self, until: Txg, bytes: u64, written: &Footprint) {
        let needed = self.on_devices(written);
        self.change(
            until,
            needed.cast_signed().saturating_sub(bytes.cast_signed()),
        );
    }
}
