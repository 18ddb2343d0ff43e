//! Where the pool stores how its last scan stands.

use dmu::{Tx, Zap};
use format::config::directory;
pub use format::scan::ScanPhys;
pub(crate) use format::scan::{
    FLAG_AGAIN, FLAG_PAUSED, FUNCTION_RESILVER, FUNCTION_SCRUB, STATE_CANCELED, STATE_FINISHED,
    STATE_SCANNING,
};

/// Reads the entry; `None` when there never was a scan, or the entry is of a form that nothing
/// writes any more.
pub(crate) fn load(directory: &Zap) -> dmu::Result<Option<ScanPhys>> {
    let value = directory.lookup_value(directory::SCAN.as_bytes())?;
    Ok(value.as_ref().and_then(ScanPhys::from_value))
}

/// Writes the entry; in syncing context.
pub(crate) fn store(scan: &ScanPhys, directory: &Zap, tx: &Tx) -> dmu::Result<()> {
    directory.update_value(tx, directory::SCAN.as_bytes(), &scan.to_value())
}
