//! The tasks: what `create`, `snapshot`, `destroy` and their like do to the tree.

mod bookmark;
mod change_key;
mod create;
mod destroy;
mod emptying;
mod hold;
mod leftovers;
mod limits;
mod promote;
mod receive;
mod redact;
mod remapped;
mod rename;
mod rollback;
mod snapshot;
mod upgrade;

pub use bookmark::{CreateBookmark, DestroyBookmark};
pub use change_key::{AdoptKey, ChangeKey};
pub(crate) use create::fill;
pub use create::{Clone, CreateDataset, CreateEncrypted, Populate};
pub use destroy::{DestroyHead, DestroySnapshots};
pub use hold::{Hold, Release};
pub use leftovers::{CleanedUp, ReleaseTemporary};
pub(crate) use limits::{change_count, start_counting};
pub use promote::Promote;
pub use receive::{BeginReceive, EndReceive, ResumeReceive, SealedStream, StreamRedaction};
pub use redact::{AbortRedaction, BeginRedaction, ExtendRedaction, GrowingList};
pub use rename::{Rename, RenameSnapshot};
pub use rollback::Rollback;
pub use snapshot::Snapshot;
pub(crate) use snapshot::take as take_snapshot;
pub use upgrade::RaiseVersion;

use std::sync::Arc;

use dmu::Tx;
use format::dsl::key;
use format::zap::Value;

use crate::directory::Directory;
use crate::error::{DslError, Result};
use crate::layer::Dsl;
use format::features;

/// What is named twice in one request is meant once.
fn without_repeats<T: Ord + std::clone::Clone>(wanted: &mut Vec<T>) {
    let mut seen = std::collections::BTreeSet::new();
    wanted.retain(|one| seen.insert(one.clone()));
}

/// Splits the path of a new dataset into its parent and its last component.
pub(crate) fn split_path(path: &str) -> Result<(&str, &str)> {
    crate::name::check_path(path).map_err(|problem| DslError::BadName {
        name: path.to_owned(),
        problem,
    })?;
    path.rsplit_once('/').ok_or_else(|| DslError::exists(path))
}

/// Notes that a directory's set of snapshots changed now.
pub(crate) fn note_snapshots_changed(dsl: &Dsl, tx: &Tx, directory: &Arc<Directory>) -> Result<()> {
    const BILLION: u64 = 1_000_000_000;
    if !dsl.services().is_enabled(&features::EXTENSIBLE_DATASET) {
        return Ok(());
    }
    let now = dsl.services().clock().now();
    let zap = dsl.mos.zapify(tx, &directory.object)?;
    let value = Value::words(&[now / BILLION, now % BILLION]);
    Ok(zap.update_value(tx, key::SNAPSHOTS_CHANGED.as_bytes(), &value)?)
}
