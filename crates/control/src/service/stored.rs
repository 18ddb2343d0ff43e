//! What the pool's own object set keeps ([`pool::Facts`]), as it travels.

use admin::{
    CheckpointReport, DedupReport, ExpansionReport, LeafWork, LeafWorkState, RebuildReport,
    RemovalReport, ScanKind, ScanReport, ScanState, VdevReport,
};
use base::Guid;
use format::rebuild::RebuildState;
use pool::{Checkpoint, DedupTables, Expansion, Facts, Progress, RebuildFacts, Removal, TrimState};

/// The dedup tables; nothing while they hold nothing.
pub(super) fn dedup(tables: DedupTables) -> DedupReport {
    if tables.is_empty() {
        return DedupReport::default();
    }
    DedupReport {
        disk_bytes: tables.disk_bytes,
        core_bytes: tables.core_bytes,
        buckets: tables.buckets,
    }
}

pub(super) fn checkpoint(found: Checkpoint) -> CheckpointReport {
    CheckpointReport {
        created: found.created_s,
        consumes: found.consumes,
    }
}

pub(super) fn removal(found: Removal) -> RemovalReport {
    RemovalReport {
        vdev: found.vdev,
        started: found.started_s,
        ended: found.ended_s,
        cancelled: found.cancelled,
        to_copy: found.to_copy,
        copied: found.copied,
        mapping_memory: found.mapping_memory,
    }
}

pub(super) fn expansion(found: Expansion) -> ExpansionReport {
    ExpansionReport {
        vdev: found.name,
        started: found.started_s,
        ended: found.ended_s,
        copied: found.copied,
        to_copy: found.to_copy,
        waits: found.waits,
    }
}

/// The last rebuild of a vdev, as a resilver.
pub(super) fn rebuild(found: RebuildFacts) -> Option<RebuildReport> {
    let rebuild = found.rebuild;
    let state = match rebuild.state {
        RebuildState::None | RebuildState::Other(_) => return None,
        RebuildState::Active => ScanState::Running,
        RebuildState::Cancelled => ScanState::Canceled,
        RebuildState::Complete => ScanState::Finished,
    };
    let scan = ScanReport {
        kind: ScanKind::Resilver,
        state,
        started: rebuild.started_s,
        ended: rebuild.ended_s,
        elapsed: rebuild.taken_ms / 1000,
        errors: rebuild.errors,
        repaired: rebuild.rebuilt,
        to_examine: rebuild.estimated,
        scanned: rebuild.scanned,
        issued: rebuild.scanned,
    };
    Some(RebuildReport {
        vdev: found.name,
        scan,
    })
}

/// Notes what the pool has stored about the leaves below a vdev.
pub(super) fn note_leaves(facts: &Facts<'_>, vdev: &mut VdevReport) {
    for child in &mut vdev.children {
        note_leaves(facts, child);
    }
    if let Some(work) = facts.leaf_work(Guid(vdev.guid)) {
        let size = vdev.device_size;
        vdev.leaf.initialize = work_of(work.initialize, size);
        vdev.leaf.trim = work_of(work.trim, size);
    }
}

/// How work on the free space of a leaf of `size` bytes stands.
fn work_of(progress: Progress, size: u64) -> LeafWork {
    let state = match progress.state {
        TrimState::Active => LeafWorkState::Active,
        TrimState::Suspended => LeafWorkState::Suspended,
        TrimState::Complete => LeafWorkState::Complete,
        TrimState::None | TrimState::Cancelled => LeafWorkState::None,
    };
    let share = u128::from(progress.offset) * 100 / u128::from(size.max(1));
    LeafWork {
        state,
        percent: match state {
            LeafWorkState::Complete => 100,
            LeafWorkState::None | LeafWorkState::Active | LeafWorkState::Suspended => {
                u64::try_from(share.min(100)).unwrap_or(100)
            }
        },
        left: match state {
            LeafWorkState::Active | LeafWorkState::Suspended => {
                size.saturating_sub(progress.offset)
            }
            LeafWorkState::None | LeafWorkState::Complete => 0,
        },
        time: progress.time_s,
    }
}
