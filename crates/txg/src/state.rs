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

/// Why a txg closes. There is no other reason.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CloseReason {
    /// It holds enough dirty bytes, or no more may become dirty.
    Bytes,
    /// It has been open for long enough.
    Age,
    /// Somebody waits for it, or asked for it.
    Request,
    /// The machine is short of memory.
    Memory,
}

impl CloseReason {
    pub(crate) const ALL: [Self; 4] = [Self::Bytes, Self::Age, Self::Request, Self::Memory];

    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Bytes => "bytes",
            Self::Age => "age",
            Self::Request => "request",
            Self::Memory => "memory",
        }
    }
}

/// Where the groups are, apart from the open one, which `Holds` knows.
#[derive(Debug)]
pub(crate) struct State {
    /// Every txg up to this one shall close without waiting for its age.
    pub(crate) requested: Txg,
    /// Why the last of them shall.
    reason: CloseReason,
    /// Closed and without holders, waiting for the sync thread.
    pub(crate) quiesced: Option<Txg>,
    /// Being written.
    pub(crate) syncing: Option<Txg>,
    /// The last txg that is on disk.
    pub(crate) synced: Txg,
    /// Which device is waited for, while one is.
    pub(crate) suspended: Option<String>,
    /// How many threads that sync wait for it.
    pub(crate) stuck: usize,
    /// How often it was told to go on.
    pub(crate) resumptions: u64,
    /// Set once, when no further group shall be synced.
    pub(crate) ended: Option<TxgError>,
}

impl State {
    pub(crate) fn new(first: Txg) -> Self {
        Self {
            requested: Txg(0),
            reason: CloseReason::Request,
            quiesced: None,
            syncing: None,
            synced: first.previous(),
            suspended: None,
            stuck: 0,
            resumptions: 0,
            ended: None,
        }
    }

    /// Asks for `txg` to close; whether that is news.
    pub(crate) fn request(&mut self, txg: Txg, reason: CloseReason) -> bool {
        let news = txg > self.requested;
        if news {
            self.requested = txg;
            self.reason = reason;
        }
        news
    }

    /// Why the open txg shall close now, if it shall and may.
    pub(crate) fn may_close(&self, open: Txg, aged: bool) -> Option<CloseReason> {
        if self.quiesced.is_some() {
            return None;
        }
        if self.requested >= open {
            return Some(self.reason);
        }
        aged.then_some(CloseReason::Age)
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

    /// Whether groups are synced at all: nobody shall wait for one otherwise.
    pub(crate) fn check_progress(&self) -> Result<(), TxgError> {
        if let Some(why) = &self.ended {
            return Err(why.clone());
        }
        self.suspended.as_ref().map_or(Ok(()), |reason| {
            let reason = reason.clone();
            Err(TxgError::Suspended { reason })
        })
    }
}
