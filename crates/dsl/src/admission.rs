//! Whether there is space for a transaction: what quotas, reservations and the pool leave, less
//! what is on its way to the disk already. The only place that decides it.
//!
//! What dirty blocks will take on the devices is promised before they are made dirty: their
//! sectors, their copies, the blocks above them. The promises of all datasets are summed up, by the
//! txg until which they hold; none is made beyond what the pool had left when a txg last synced, so
//! that a sync does not run out of space. What is kept back of a pool is for what is not promised:
//! the pool's own object set, logs, headers of gangs. When a transaction ends, its promise becomes
//! what it has really made dirty.
//!
//! A shortage that ends when dirty data is on disk asks the caller to try again; only one that stays is a refusal.

use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, Weak};

use base::Txg;
use base::lock::{LockClass, Mutex, rank};
use dmu::{Account, Admission, Footprint, Promise, Refusal, Wanted};
use txg::Engine;

use crate::dataset::Dataset;
use crate::error::Result;
use crate::layer::Dsl;
use crate::services::SpaceClass;
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
fn room_of(available: u64) -> u64 {
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
        self.room.store(room_of(available), Ordering::Relaxed);
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
    pub(crate) fn room(&self) -> u64 {
        self.room.load(Ordering::Relaxed)
    }
}

/// The promises of a head, and how its blocks are stored.
struct HeadAccount {
    pool: Arc<PoolAccount>,
    promises: Promises,
    copies: AtomicU64,
    sector_bytes: AtomicU64,
}

impl HeadAccount {
    /// Bytes that blocks take on the devices at most.
    fn on_devices(&self, blocks: &Footprint) -> u64 {
        const SECTOR_MIN: u64 = 512;
        let copies = self.copies.load(Ordering::Relaxed).clamp(1, 3);
        let sector = self.sector_bytes.load(Ordering::Relaxed).max(SECTOR_MIN);
        let whole = |bytes: u64, count: u64| {
            // What a block of `SECTOR_MIN` bytes times any number lacks to whole sectors, at most.
            bytes.saturating_add(count.saturating_mul(sector - SECTOR_MIN))
        };
        let data = whole(blocks.data_bytes, blocks.data_blocks);
        // Blocks that must be cut have headers beside.
        let gangs = blocks.data_bytes / 8;
        let meta = whole(blocks.meta_bytes, blocks.meta_blocks);
        data.saturating_add(gangs)
            .saturating_mul(copies)
            .saturating_add(meta.saturating_mul((copies + 1).min(3)))
    }

    fn change(&self, until: Txg, by: i64) {
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

/// Admits transactions that change a head.
pub struct HeadAdmission {
    head: Arc<Dataset>,
    /// None when the pool is read only.
    engine: Option<Arc<Engine>>,
    account: Arc<HeadAccount>,
    /// The txg that `available` is of, plus one; 0 = none yet. Read without a lock; figures of neighbouring txgs may
    /// mix, which an estimate bears.
    stamp: AtomicU64,
    available: AtomicU64,
}

impl Dataset {
    /// What admits transactions that change this head.
    #[must_use]
    pub fn admission(self: &Arc<Self>) -> Arc<HeadAdmission> {
        let pool = &self.dsl().account;
        let account = Arc::new(HeadAccount {
            pool: Arc::clone(pool),
            promises: Promises::default(),
            copies: AtomicU64::new(1),
            sector_bytes: AtomicU64::new(0),
        });
        pool.heads.lock().push(Arc::downgrade(&account));
        Arc::new(HeadAdmission {
            head: Arc::clone(self),
            engine: self.dsl().engine.clone(),
            account,
            stamp: AtomicU64::new(0),
            available: AtomicU64::new(0),
        })
    }
}

impl Dsl {
    /// Bytes that may be promised to datasets in all, as of the last synced txg: what logs must leave.
    #[must_use]
    pub fn promised_room(&self) -> u64 {
        self.account.room()
    }

    /// Bytes that are promised now, in all; never for long less than none.
    #[must_use]
    pub fn promised_bytes(&self) -> i64 {
        self.account.promises.balance()
    }

    /// Bytes that datasets without reservations may still use.
    ///
    /// # Errors
    /// The root directory cannot be read.
    pub fn available_bytes(&self, class: SpaceClass) -> Result<u64> {
        let used = self.root_directory()?.phys()?.used_bytes;
        Ok(self.services().usable_bytes(class).saturating_sub(used))
    }
}

impl HeadAdmission {
    /// The head.
    #[must_use]
    pub fn head(&self) -> &Arc<Dataset> {
        &self.head
    }

    fn refresh(&self, engine: &Engine) -> Result<()> {
        let synced = engine.synced_txg().0;
        if self.stamp.load(Ordering::Acquire) == synced + 1 {
            return Ok(());
        }
        let dsl = self.head.dsl();
        let copies = self.head.directory().storage_policy()?.copies.clamp(1, 3);
        let available = self.head.available(SpaceClass::Normal)?;
        self.available.store(available, Ordering::Relaxed);
        let account = &self.account;
        account.copies.store(copies, Ordering::Relaxed);
        let sector = dsl.services().sector_bytes();
        account.sector_bytes.store(sector, Ordering::Relaxed);
        if account.pool.room() == 0 {
            // No txg has synced yet, or the pool was full then.
            let pool = dsl.available_bytes(SpaceClass::Normal)?;
            let room = room_of(pool);
            account.pool.room.store(room, Ordering::Relaxed);
        }
        self.stamp.store(synced + 1, Ordering::Release);
        Ok(())
    }

    /// Promises so much, or tells why not.
    fn decide(
        &self,
        engine: &Engine,
        wanted: &Wanted,
    ) -> Result<std::result::Result<Promise, Refusal>> {
        self.refresh(engine)?;
        let account = &self.account;
        let bytes = account.on_devices(&wanted.footprint);
        // It may be held by the txg that opens next.
        let until = engine.open_txg().next();
        let available = self.available.load(Ordering::Relaxed);
        // A reservation of this head is not in what the pool has for all.
        let room = account.pool.room().max(room_of(available));
        // Counted first, so that many at once do not each find the same room.
        account.change(until, bytes.cast_signed());
        let promised = (account.pool.promises.sum(), account.promises.sum());
        let promise = || Promise {
            until,
            bytes,
            account: Arc::clone(&self.account) as Arc<dyn Account>,
        };
        let fits = if wanted.net_free {
            // Quotas keep nobody from making room, and what is kept back is there for it.
            let dsl = self.head.dsl();
            engine_is_short(engine, room);
            promised.0 <= dsl.available_bytes(SpaceClass::ExtraReserved)?
        } else {
            promised.0 <= room && promised.1 <= available
        };
        if fits {
            return Ok(Ok(promise()));
        }
        account.change(until, -bytes.cast_signed());
        if bytes <= room && bytes <= available {
            return Ok(Err(Refusal::Busy));
        }
        // The next txgs tell what was really used, and give back what was freed.
        let dsl = self.head.dsl();
        if promised.0 > bytes || dsl.services().awaited_bytes() > 0 || dsl.has_background_frees()? {
            return Ok(Err(Refusal::Retry));
        }
        Ok(Err(self.refusal()?))
    }

    fn refusal(&self) -> Result<Refusal> {
        let limited = self.head.ref_quota()? != 0 || self.head.directory().phys()?.quota != 0;
        Ok(if limited {
            Refusal::Quota
        } else {
            Refusal::NoSpace
        })
    }
}

/// Where little is left, what is freed is wanted soon.
fn engine_is_short(engine: &Engine, room: u64) {
    if room < tunables::ROOM_SHORT_BYTES.get() {
        engine.kick();
    }
}

impl Admission for HeadAdmission {
    fn admit(&self, wanted: &Wanted) -> std::result::Result<Option<Promise>, Refusal> {
        let Some(engine) = &self.engine else {
            return Err(Refusal::NoSpace);
        };
        // A dataset whose space cannot be told takes no more.
        let decided = self.decide(engine, wanted).unwrap_or(Err(Refusal::NoSpace));
        decided.map(Some)
    }
}
