//! The groups in which every tree shows vdevs.

use admin::{VdevClass, VdevReport};

/// A line of a tree: depth below the pool, and the vdev.
pub(crate) struct Line<'a> {
    pub(crate) depth: usize,
    pub(crate) vdev: &'a VdevReport,
}

/// The vdevs of one class with all below them, in order; removed and never used places are not shown.
pub(crate) fn lines(vdevs: &[VdevReport], class: VdevClass) -> Vec<Line<'_>> {
    let mut out = Vec::new();
    for vdev in vdevs
        .iter()
        .filter(|vdev| vdev.class == class && vdev.is_there())
    {
        push(vdev, 1, &mut out);
    }
    out
}

fn push<'a>(vdev: &'a VdevReport, depth: usize, out: &mut Vec<Line<'a>>) {
    out.push(Line { depth, vdev });
    for child in &vdev.children {
        push(child, depth + 1, out);
    }
}

/// The groups after the main tree, as `status` heads them.
pub(super) const GROUPS: [(VdevClass, &str); 5] = [
    (VdevClass::Dedup, "dedup\t"),
    (VdevClass::Special, "special\t"),
    (VdevClass::Log, "logs\t"),
    (VdevClass::Cache, "cache"),
    (VdevClass::Spare, "spares"),
];
