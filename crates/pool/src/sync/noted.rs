//! What other layers noted since the last txg: blocks that cannot be read, and records of the history.

use crate::error::Result;
use crate::mos::error_log::ErrorLog;
use crate::mos::history::History;
use crate::sync::tasks::{FirstPass, SyncTask};

impl SyncTask for ErrorLog {
    fn sync(&self, pass: &FirstPass<'_>) -> Result<()> {
        Ok(pass.services.store_errors(pass.tx)?)
    }
}

impl SyncTask for History {
    fn sync(&self, pass: &FirstPass<'_>) -> Result<()> {
        Ok(Self::sync(self, pass.tx)?)
    }
}
