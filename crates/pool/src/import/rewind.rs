//! Opening a damaged pool at an earlier txg: which states are tried, and what must be readable of one.
//!
//! What was freed in the last two txgs that wrote an uberblock was not overwritten, so that the states of these are
//! whole whatever happened since; older ones may have lost blocks, and are read through before they count.

use std::collections::BTreeSet;

use base::invariant::Findings;
use base::{ObjectId, ObjectSetId, Txg};
use dsl::records;
use format::Uberblock;
use format::block_pointer::BlockPointer;
use pipeline::ReadRequest;
use vdev::{IoClass, VdevTree};

use crate::checkpoint;
use crate::error::{PoolError, Result};
use crate::import::discover::FoundPool;
use crate::import::load::{LoadOptions, Loaded, load};
use crate::import::options::{ImportOptions, Rewind};
use crate::pool::Rewound;
use crate::scan::walk::{Births, Found, Place, Walk};
use crate::sync::uberblock::Commit;
use crate::vdevs::devices::Devices;

/// How many txgs back a pool can be taken safely: their freed space was not reused.
const REWIND_TXGS: u64 = 2;
/// Before this txg a new pool is not whole.
const FIRST_TXG: Txg = Txg(4);
/// Blocks that are looked at at a time.
const BLOCKS_MAX: usize = 1024;

/// Loads the newest state, or an earlier one where that is allowed and needed.
pub(crate) fn load_with_rewind(
    found: &FoundPool,
    devices: &mut Devices,
    options: &ImportOptions,
) -> Result<(Loaded, Option<Rewound>)> {
    let mut load_options = LoadOptions {
        purpose: options.purpose(),
        txg_max: None,
        state: None,
        cache_bytes: options.cache_bytes,
        without_logs: options.without_logs,
    };
    if options.to_checkpoint {
        return Ok((
            load_checkpoint(found, devices, load_options, options.clock.now_s())?,
            None,
        ));
    }
    if options.rewind == Rewind::Never {
        return Ok((load(found.guid, devices, &load_options)?, None));
    }
    let mut first = None;
    for txg in candidates(found, options.rewind) {
        load_options.txg_max = Some(txg);
        let attempt = load(found.guid, devices, &load_options);
        let attempt = attempt.and_then(|loaded| verify(&loaded, options.rewind).map(|()| loaded));
        match attempt {
            Ok(loaded) => {
                let rewound = lost(found, &loaded);
                return Ok((loaded, rewound));
            }
            Err(error) if !may_rewind(&error) => return Err(error),
            Err(error) => first = first.or(Some(error)),
        }
    }
    Err(first.unwrap_or_else(|| PoolError::NoUberblock {
        reason: "no label holds one that may be used".to_owned(),
    }))
}

/// Loads the checkpointed state, as that of a txg that comes after all others: once its uberblock is written, it is the
/// newest. See `crate::checkpoint`.
fn load_checkpoint(
    found: &FoundPool,
    devices: &mut Devices,
    mut options: LoadOptions,
    now_s: u64,
) -> Result<Loaded> {
    let now = load(found.guid, devices, &options)?;
    let kept = checkpoint::stored(&now.directory)?.ok_or(PoolError::NoCheckpoint)?;
    if kept.reflow_info != now.uberblock.reflow_info {
        let reason = "a RAID-Z has been expanded since the checkpoint was taken".to_owned();
        return Err(PoolError::Invalid { reason });
    }
    let newest = found.newest_uberblock().map_or(Txg(0), |newest| newest.txg);
    options.state = Some(Uberblock {
        txg: newest.max(now.uberblock.txg).next(),
        timestamp: now_s,
        checkpoint_txg: kept.checkpoint_txg.max(kept.txg),
        ..kept
    });
    drop(now);
    load(found.guid, devices, &options)
}

/// Makes the state that was loaded of a checkpoint the newest of the pool: nothing of what came later leads anywhere
/// from then on. It is one write, in several places; each of them is the whole state.
pub(crate) fn write_checkpoint(vdevs: &VdevTree, uberblock: &Uberblock) -> Result<()> {
    let commit = Commit {
        vdevs,
        labels: None,
        uberblock,
        rotor: 0,
        findings: &Findings::default(),
    };
    commit.run()
}

/// The txgs to try, the newest first.
fn candidates(found: &FoundPool, rewind: Rewind) -> Vec<Txg> {
    let newest = found.newest_uberblock().map_or(Txg(0), |newest| newest.txg);
    let (oldest, last) = match rewind {
        Rewind::Never | Rewind::Safe => (Txg(newest.0.saturating_sub(REWIND_TXGS)), newest),
        Rewind::Extreme => (FIRST_TXG, newest),
        Rewind::To(txg) => (FIRST_TXG.min(txg), txg),
    };
    let labels = found.devices.iter().map(|device| &device.labels);
    let all: BTreeSet<Txg> = labels
        .flat_map(|labels| &labels.uberblocks)
        .map(|candidate| candidate.uberblock.txg)
        .collect();
    let mut txgs: Vec<Txg> = all.range(oldest..=last).rev().copied().collect();
    // In a txg without changes no uberblock is written: the one before is the state of it as well.
    if rewind == Rewind::Safe
        && txgs.last().is_some_and(|txg| *txg > oldest)
        && let Some(before) = all.range(..oldest).next_back()
    {
        txgs.push(*before);
    }
    txgs
}

/// Reads all metadata that the last txgs wrote; when there is no limit to how far back it may go,
/// all that there is.
fn verify(loaded: &Loaded, rewind: Rewind) -> Result<()> {
    let txg = loaded.uberblock.txg;
    let after = match rewind {
        Rewind::Extreme | Rewind::To(_) => Txg(0),
        Rewind::Never | Rewind::Safe => Txg(txg.0.saturating_sub(REWIND_TXGS + 1)),
    };
    verify_tree(loaded, ObjectSetId::MOS, &loaded.uberblock.root, after)?;
    let mut id = ObjectId(0);
    while let Some(next) = loaded.objects.mos.next_object(id)? {
        let object = loaded.objects.mos.object(next)?;
        let root = records::dataset_root(&object).map_err(PoolError::corrupt("dataset"))?;
        if let Some(root) = root {
            verify_tree(loaded, ObjectSetId(next.0), &root, after)?;
        }
        id = next;
    }
    Ok(())
}

fn verify_tree(loaded: &Loaded, set: ObjectSetId, root: &BlockPointer, after: Txg) -> Result<()> {
    let mut place = Place::default();
    loop {
        let mut walk = Walk {
            pipeline: &loaded.objects.foundation.pipeline,
            set,
            births: Births {
                tree_after: after,
                after,
                until: Txg(u64::MAX),
            },
            place,
            found: Vec::new(),
            found_max: BLOCKS_MAX,
            unreadable: 0,
            unseen_through: Txg(0),
            met_rewriting: false,
            settled: Txg(u64::MAX),
            ahead: None,
            wants_more: false,
        };
        let done = walk.run(root);
        let is_metadata =
            |found: &&Found| found.bookmark.level != 0 || found.block.object_type().is_metadata();
        let unreadable = walk.found.iter().filter(is_metadata).any(|found| {
            let request = ReadRequest::new(found.bookmark).in_class(IoClass::Scan);
            loaded
                .objects
                .foundation
                .pipeline
                .read(&found.block, &request)
                .is_err()
        });
        if walk.unreadable > 0 || unreadable {
            let txg = loaded.uberblock.txg;
            return Err(PoolError::Damaged(format!(
                "metadata of object set {set} cannot be read as of txg {txg}"
            )));
        }
        if done {
            return Ok(());
        }
        place = walk.place;
    }
}

fn may_rewind(error: &PoolError) -> bool {
    matches!(
        error,
        PoolError::NoUberblock { .. }
            | PoolError::Object(_)
            | PoolError::Corrupt { .. }
            | PoolError::Damaged(_)
            | PoolError::Dataset(_)
    )
}

fn lost(found: &FoundPool, loaded: &Loaded) -> Option<Rewound> {
    let newest = found.newest_uberblock()?;
    (newest.txg > loaded.uberblock.txg).then(|| Rewound {
        txg: loaded.uberblock.txg,
        timestamp: loaded.uberblock.timestamp,
        seconds_lost: newest.timestamp.saturating_sub(loaded.uberblock.timestamp),
    })
}
