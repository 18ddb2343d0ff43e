//! Snapshots of pools before version 27: there a snapshot has no intent log. Who clones it there, or rolls back to it,
//! would take the log of the head for its own.

use std::sync::Arc;

use dsl::Dataset;
use format::intent_log::LogHeader;
use format::version;
use intent::Log;

use crate::error::{PoolError, Result};
use crate::pool::Pool;

/// Txgs in which a chain ends, and a few more.
const TXGS_TO_EMPTY: usize = 6;

/// Logs that begin no chain before this is dropped.
#[derive(Default)]
pub struct RestingLogs {
    logs: Vec<Arc<Log>>,
}

impl Drop for RestingLogs {
    fn drop(&mut self) {
        self.logs.iter().for_each(|log| log.go_on());
    }
}

impl Pool {
    /// Ends the intent logs of heads that are to be snapshotted, where the pool's version asks for it; commits wait for
    /// their txg until the answer is dropped.
    ///
    /// # Errors
    /// A log waits for its replay, or the pool is not written.
    pub fn rest_logs(&self, heads: &[Arc<Dataset>]) -> Result<RestingLogs> {
        let mut resting = RestingLogs::default();
        if self.version() >= version::FAST_SNAPSHOTS {
            return Ok(resting);
        }
        let writer = self.writer()?;
        let has_log = |head: &Arc<Dataset>| -> Result<bool> {
            let root = head.root()?;
            Ok(root.is_some_and(|root| root.log_header != LogHeader::EMPTY))
        };
        for head in heads {
            let Some(log) = self.intent_log(head)? else {
                continue;
            };
            if log.is_owed() {
                return Err(PoolError::Busy);
            }
            log.wind_up();
            resting.logs.push(log);
        }
        for _ in 0..TXGS_TO_EMPTY {
            let mut all_empty = true;
            for head in heads {
                all_empty &= !has_log(head)?;
            }
            if all_empty {
                return Ok(resting);
            }
            writer.engine.wait_synced(None)?;
        }
        Err(PoolError::Busy)
    }
}
