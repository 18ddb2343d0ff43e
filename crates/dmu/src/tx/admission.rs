//! Whether there is space for a transaction: what is asked for, promised or refused. Who knows it is above.

use std::sync::Arc;

use base::Txg;

/// Blocks that a transaction has written when its txg syncs, before copies and sectors are reckoned with.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Footprint {
    /// Bytes of blocks of data.
    pub data_bytes: u64,
    /// How many blocks these are.
    pub data_blocks: u64,
    /// Bytes of dnodes, indirect blocks, ZAPs.
    pub meta_bytes: u64,
    /// How many blocks these are.
    pub meta_blocks: u64,
}

/// What a transaction asks for.
#[derive(Clone, Copy, Debug)]
pub struct Wanted {
    /// Bytes that become dirty in memory, at most.
    pub dirty_bytes: u64,
    /// Blocks that are written.
    pub footprint: Footprint,
    /// More is freed than allocated: it may go further.
    pub net_free: bool,
}

/// Space that was promised to a transaction.
pub struct Promise {
    /// The last txg that the transaction may belong to.
    pub until: Txg,
    /// Bytes on the devices.
    pub bytes: u64,
    /// Who is told what the transaction really needs, when it ends.
    pub account: Arc<dyn Account>,
}

/// Keeps account of promises.
pub trait Account: Send + Sync {
    /// A transaction that was promised `bytes` up to the txg `until` has written this.
    fn settle(&self, until: Txg, bytes: u64, written: &Footprint);
}

/// Decides whether there is space for a transaction: the chain of quotas up to the pool.
pub trait Admission: Send + Sync {
    /// Whether so much may be written now; a promise holds until the transaction's txg has synced.
    ///
    /// # Errors
    /// Why not.
    fn admit(&self, wanted: &Wanted) -> Result<Option<Promise>, Refusal>;

    /// What a shortage is called that did not pass.
    fn lasting(&self) -> Refusal {
        Refusal::NoSpace
    }
}

/// Why space was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// The pool is full.
    #[error("no space left in the pool")]
    NoSpace,
    /// A quota is reached.
    #[error("a quota is reached")]
    Quota,
    /// Frees on their way may help: try again in the next txg.
    #[error("space is being freed")]
    Retry,
    /// There is room, but it is promised to others who will hardly need all of it: try again.
    #[error("the space left is promised to others")]
    Busy,
}
