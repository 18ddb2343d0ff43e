//! The log's part in the sync of a txg, and its end.

use std::sync::atomic::Ordering;

use base::Txg;
use base::clock::monotonic_ns;
use dmu::Tx;
use format::BlockPointer;
use format::intent_log::LogHeader;

use crate::chain::Stage;
use crate::log::Log;
use crate::walk::owned_blocks;

/// What a sync does for a log.
#[derive(Debug, Default)]
pub struct LogSync {
    /// Blocks that are not needed any more; to be freed in the txg.
    pub free: Vec<BlockPointer>,
}

impl Log {
    /// Called once for each txg that is being synced, before its objects are written: waits for the batches that
    /// allocated in it, frees the blocks whose records `txg` makes needless, and puts the header into the object set.
    pub fn sync(&self, txg: Txg) -> LogSync {
        let start_ns = monotonic_ns();
        self.in_flight.wait(txg);
        let waited_ns = monotonic_ns().saturating_sub(start_ns);
        self.meters.wait_sync_ns.record(waited_ns);
        let gone = self.chain.lock().stage == Stage::Retired;
        let mut free = self.early.settle(txg, gone);
        let mut chain = self.chain.lock();
        if chain.stage == Stage::Retired {
            free.extend(chain.release(txg, false));
            return LogSync { free };
        }
        let idle = !self.commit_queue.lock().has_pending();
        free.extend(chain.release(txg, idle));
        self.meters.freed.add(free.len() as u64);
        let old = self.objects.intent_log_header();
        let mut header = old.clone();
        match chain.stage {
            Stage::Owed => {
                if let Some(sequence) = self.progress.of(txg) {
                    header.replay_sequence = header.replay_sequence.max(sequence);
                }
            }
            Stage::Starting(begun) if begun > txg => {}
            Stage::None | Stage::Starting(_) | Stage::Live | Stage::Broken | Stage::Retired => {
                let log = chain.links.front().map(|link| link.pointer);
                header = LogHeader {
                    log: log.unwrap_or(BlockPointer::HOLE),
                    ..LogHeader::EMPTY
                };
            }
        }
        drop(chain);
        if header != old {
            self.objects
                .set_intent_log_header(&Tx::syncing(txg), header);
        }
        LogSync { free }
    }

    /// `txg` is on disk: what was recorded in it is not needed any more.
    pub fn synced(&self, txg: Txg) {
        self.synced.fetch_max(txg.0, Ordering::AcqRel);
        self.lists.synced(txg);
        let mut chain = self.chain.lock();
        if matches!(chain.stage, Stage::Starting(begun) if begun <= txg) {
            chain.stage = Stage::Live;
        }
    }

    /// Has the chain end with the txgs to come: at export. Commits wait for txgs from now on.
    pub fn wind_up(&self) {
        self.chain.lock().winds_up = true;
    }

    /// Chains begin again after [`Log::wind_up`].
    pub fn go_on(&self) {
        self.chain.lock().winds_up = false;
    }

    /// The object set is replaced or destroyed in `txg`, which is being synced: the blocks that
    /// are to be freed now. Others, of later txgs, come with later calls of [`Log::sync`].
    pub fn retire(&self, txg: Txg) -> Vec<BlockPointer> {
        let mut chain = self.chain.lock();
        let mut free = chain.discarded.take().unwrap_or_default();
        if free.is_empty() && chain.stage == Stage::Owed {
            let header = self.objects.intent_log_header();
            free = owned_blocks(&self.pipeline, self.objects.id(), &header);
        }
        chain.stage = Stage::Retired;
        free.extend(chain.abandon(txg));
        free.extend(chain.release(txg, false));
        free
    }

    /// Whether it was retired and has nothing more to free.
    #[must_use]
    pub fn is_spent(&self) -> bool {
        let chain = self.chain.lock();
        chain.stage == Stage::Retired && chain.orphans.is_empty() && self.early.is_empty()
    }
}
