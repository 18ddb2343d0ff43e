//! The state machine of the groups: who is open, quiesced, syncing, synced. Pure: no locks, no I/O.
//!
//! ```text
//!   open T --(bytes | age | request | memory), nothing quiesced--> quiescing T, open T+1
//!   quiescing T --last hold dropped--> quiesced T
//!   quiesced T --nothing syncing--> syncing T
//!   syncing T --target returned--> synced T
//! ```

use base::Txg;

use crate::error::TxgError;

/// Where the groups are, apart from the open one, which `Holds` knows.
#[derive(Debug)]
pub(crate) struct State {
    /// Every txg up to this one shall close without waiting for bytes or age.
    pub(crate) requested: Txg,
    /// Closed and without holders, waiting for the sync thread.
    pub(crate) quiesced: Option<Txg>,
    /// Being written.
    pub(crate) syncing: Option<Txg>,
    /// The last txg that is on disk.
    pub(crate) synced: Txg,
    /// Set once, when no further group shall be synced.
    pub(crate) ended: Option<TxgError>,
}

impl State {
    pub(crate) fn new(first: Txg) -> Self {
        Self {
            requested: Txg(0),
            quiesced: None,
            syncing: None,
            synced: first.previous(),
            ended: None,
        }
    }

    /// Asks for `txg` to close; whether that is news.
    pub(crate) fn request(&mut self, txg: Txg) -> bool {
        let news = txg > self.requested;
        self.requested = self.requested.max(txg);
        news
    }

    /// Whether the open txg shall and may close now.
    pub(crate) fn may_close(&self, open: Txg, aged: bool) -> bool {
        self.quiesced.is_none() && (aged || self.requested >= open)
    }

    /// Hands the quiesced txg to the sync thread.
    pub(crate) fn begin_sync(&mut self) -> Option<Txg> {
        if self.syncing.is_some() {
            return None;
        }
        self.syncing = self.quiesced.take();
        self.syncing
    }

    /// The syncing txg is on disk.
    pub(crate) fn end_sync(&mut self) {
        if let Some(txg) = self.syncing.take() {
            self.synced = txg;
        }
    }
}
