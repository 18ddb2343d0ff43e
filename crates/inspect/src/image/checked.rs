//! What a check found, as plain values.

use crate::print::{describe_bad_copy, describe_miscount};
use crate::verify::Report;

/// A copy of a block that is not what it should be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DamagedCopy {
    /// The file or disk.
    pub device: String,
    /// Where on it, in bytes.
    pub offset: u64,
    /// Which block, and what is wrong, in one line.
    pub problem: String,
    /// Whether another copy is good.
    pub repairable: bool,
}

/// How space maps and references disagree.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SpaceFaultKind {
    /// Allocated, and nothing refers to it.
    Leaked,
    /// Referred to, and free in the space maps.
    Missing,
    /// Two blocks claim it, or it lies where no block can be.
    Misplaced,
}

/// A range of a vdev of which space maps and references say different things.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SpaceFault {
    /// How they disagree.
    pub kind: SpaceFaultKind,
    /// The top-level vdev.
    pub vdev: u64,
    /// Where, in bytes.
    pub offset: u64,
    /// How long, in bytes.
    pub length: u64,
}

/// What a check found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Checked {
    /// Nothing is wrong.
    pub is_clean: bool,
    /// Blocks that were visited, those about to be freed among them.
    pub blocks: u64,
    /// Bytes of copies whose checksum was compared.
    pub bytes_checked: u64,
    /// Bytes that the space maps have as allocated, where that was looked at.
    pub allocated: u64,
    /// Bytes that blocks refer to, where that was looked at.
    pub referenced: u64,
    /// Copies that are not what they should be.
    pub damaged_copies: Vec<DamagedCopy>,
    /// Blocks of which no copy could be read, so that nothing below was seen; one line each.
    pub unreadable: Vec<String>,
    /// Ranges of which space maps and references say different things.
    pub space_faults: Vec<SpaceFault>,
    /// Whatever else is wrong, one line each.
    pub others: Vec<String>,
    /// Devices that are not there.
    pub devices_missing: Vec<String>,
}

impl Checked {
    pub(crate) fn new(report: &Report) -> Self {
        let total = report.statistics.total();
        let copies = report.bad_copies.iter().map(|copy| DamagedCopy {
            device: copy.device.clone(),
            offset: copy.offset.saturating_add(vdev::DATA_START),
            problem: describe_bad_copy(copy),
            repairable: copy.repairable,
        });
        let mut space_faults = Vec::new();
        for (kind, segments) in [
            (SpaceFaultKind::Leaked, &report.leaked),
            (SpaceFaultKind::Missing, &report.missing),
        ] {
            space_faults.extend(segments.iter().map(|segment| SpaceFault {
                kind,
                vdev: segment.vdev,
                offset: segment.offset,
                length: segment.length,
            }));
        }
        space_faults.extend(report.overlaps.iter().map(|overlap| SpaceFault {
            kind: SpaceFaultKind::Misplaced,
            vdev: overlap.vdev,
            offset: overlap.offset,
            length: overlap.length,
        }));
        let mut others = report.map_faults.clone();
        others.extend(report.miscounts.iter().map(describe_miscount));
        Self {
            is_clean: report.is_clean(),
            blocks: total.blocks,
            bytes_checked: report.bytes_checked,
            allocated: report.allocated,
            referenced: report.referenced,
            damaged_copies: copies.collect(),
            unreadable: report.unreadable.clone(),
            space_faults,
            others,
            devices_missing: report.devices_missing.clone(),
        }
    }
}
