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

mod promises;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use dmu::{Account, Admission, Promise, Refusal, Wanted};
use txg::Engine;

use crate::dataset::Dataset;
use crate::error::Result;
use crate::layer::Dsl;
use crate::services::SpaceClass;
use crate::tunables;
pub(crate) use promises::PoolAccount;
use promises::{HeadAccount, room_of};

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
        Arc::new(HeadAdmission {
            head: Arc::clone(self),
            engine: self.dsl().engine.clone(),
            account: HeadAccount::new(&self.dsl().account),
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
        self.account.balance()
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
        account.stored(copies, dsl.services().charge_overhead());
        if account.pool().room() == 0 {
            // No txg has synced yet, or the pool was full then.
            let available = dsl.available_bytes(SpaceClass::Normal)?;
            account.pool().set_room(available);
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
        let room = account.pool().room().max(room_of(available));
        // Counted first, so that many at once do not each find the same room.
        account.change(until, bytes.cast_signed());
        let promised = account.promised();
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
        // The next txgs tell what was really used, and make available what was freed.
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

    fn lasting(&self) -> Refusal {
        self.refusal().unwrap_or(Refusal::NoSpace)
    }
}
