//! How a pool's devices stand, as the rules of requests need to know it.

use base::Guid;
use pool::{Pool, SpareStatus, VdevConfig, VdevRole};
use std::collections::BTreeSet;
use std::path::Path;
use vdev::{Leaf, VdevState};

/// A device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Side {
    pub(crate) guid: Guid,
    pub(crate) disk: usize,
    /// Type of the vdev above.
    pub(crate) above: String,
    /// Whether it stands in for another one.
    pub(crate) stands_in: bool,
    pub(crate) state: VdevState,
    pub(crate) is_writable: bool,
    /// Which txgs it lacks: the first of each run, and how many.
    pub(crate) missing: Vec<(u64, u64)>,
}

/// A top-level vdev.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Whole {
    pub(crate) guid: Guid,
    pub(crate) kind: String,
    pub(crate) role: VdevRole,
    pub(crate) ashift: u32,
    /// It was removed, as a device of data or of logs.
    pub(crate) is_gone: bool,
    pub(crate) is_removing: bool,
    /// Whether a device is directly below, or it is one.
    pub(crate) is_flat: bool,
    pub(crate) sides: Vec<Side>,
}

/// The kind of a top-level vdev, whether it is being removed, and its disks with the kind of vdev above each.
type Shape = (String, bool, Vec<(usize, String)>);

/// A pool.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct View {
    pub(crate) tops: Vec<Whole>,
    pub(crate) spares: Vec<SpareStatus>,
    /// There is a checkpoint, or one is being discarded.
    pub(crate) has_checkpoint: bool,
    pub(crate) is_expanding: bool,
    pub(crate) is_removing: bool,
    pub(crate) is_scanning: bool,
}

/// In place of the number of a disk, of a distributed spare.
pub(crate) const NO_DISK: usize = usize::MAX;

/// The number of a device's disk, with which its path ends.
pub(crate) fn disk_of(path: &str) -> usize {
    if path.starts_with("draid") {
        return NO_DISK;
    }
    let name = path.rsplit('/').next().unwrap();
    let digits = name.trim_start_matches(|c: char| !c.is_ascii_digit());
    let digits = digits.split('.').next().unwrap();
    digits.parse().unwrap()
}

/// The vdev above one.
fn above(root: &VdevConfig, guid: Guid) -> Option<&VdevConfig> {
    let is_it = |child: &VdevConfig| child.guid() == guid;
    if root.children.iter().any(is_it) {
        return Some(root);
    }
    root.children.iter().find_map(|child| above(child, guid))
}

impl View {
    pub(crate) fn of(pool: &Pool) -> Self {
        // A device may go between one reading and another, which would tell of neither moment.
        let mut last = Self::look(pool);
        loop {
            let next = Self::look(pool);
            if next == last {
                return next;
            }
            last = next;
        }
    }

    fn look(pool: &Pool) -> Self {
        let config = pool.config();
        let status = pool.status().unwrap();
        let leaves: Vec<_> = pool
            .vdevs()
            .tops()
            .iter()
            .flat_map(|top| top.leaves().to_vec())
            .collect();
        let whole = |node: &VdevConfig| {
            let mut roles = status.root.children.iter();
            let known = roles.find(|one| one.guid == node.guid());
            let side = |leaf: &&VdevConfig| {
                let known = leaves.iter().find(|one| one.guid() == leaf.guid())?;
                let above = above(&config.root, leaf.guid())?;
                Some(Side {
                    guid: leaf.guid(),
                    disk: disk_of(leaf.path()?),
                    above: above.kind().to_owned(),
                    stands_in: leaf.flag("is_spare"),
                    state: known.condition().state,
                    is_writable: known.is_writable(),
                    missing: known
                        .missing()
                        .iter()
                        .map(|(first, count)| (first.0, count))
                        .collect(),
                })
            };
            Whole {
                guid: node.guid(),
                kind: node.kind().to_owned(),
                role: known.map_or(VdevRole::Data, |one| one.role),
                ashift: if node.is_hole() { 0 } else { node.ashift() },
                is_gone: node.is_hole() || node.is_indirect(),
                is_removing: node.flag("removing"),
                is_flat: node.children.iter().all(VdevConfig::is_leaf),
                sides: if node.is_hole() || node.is_indirect() {
                    Vec::new()
                } else {
                    node.leaves().iter().filter_map(side).collect()
                },
            }
        };
        Self {
            tops: config.root.children.iter().map(whole).collect(),
            spares: pool.spares(),
            has_checkpoint: pool.facts().checkpoint().is_some(),
            is_expanding: pool.is_expanding(),
            is_removing: pool.is_removing(),
            is_scanning: pool.scan().unwrap().is_some_and(|scan| scan.is_running()),
        }
    }

    pub(crate) fn sides(&self) -> impl Iterator<Item = (&Whole, &Side)> {
        let tops = self.tops.iter();
        tops.flat_map(|top| top.sides.iter().map(move |side| (top, side)))
    }

    /// The top-level vdevs that are there.
    pub(crate) fn there(&self) -> impl Iterator<Item = &Whole> {
        self.tops.iter().filter(|top| !top.is_gone)
    }

    pub(crate) fn top_of(&self, leaf: Guid) -> Option<&Whole> {
        let mut sides = self.sides();
        sides
            .find(|(_, side)| side.guid == leaf)
            .map(|(top, _)| top)
    }

    pub(crate) fn side(&self, leaf: Guid) -> Option<&Side> {
        let mut sides = self.sides();
        sides
            .find(|(_, side)| side.guid == leaf)
            .map(|(_, side)| side)
    }

    pub(crate) fn is_part(&self, disk: usize) -> bool {
        self.sides().any(|(_, side)| side.disk == disk)
    }
}

/// Whether a pool has everything without these disks, as far as it knows.
pub(crate) fn can_do_without(pool: &Pool, disks: &BTreeSet<usize>) -> bool {
    let fails = |leaf: &Leaf| disks.contains(&disk_of(&leaf.path()));
    let tops = pool.vdevs().tops();
    tops.iter().all(|top| top.outage(&fails).is_empty())
}

impl Whole {
    /// Whether a disk is one of its.
    pub(crate) fn has(&self, disk: usize) -> bool {
        self.sides.iter().any(|side| side.disk == disk)
    }

    /// Disks that hold the place of this one together with it, until one of them goes.
    pub(crate) fn beside(&self, disk: usize) -> impl Iterator<Item = usize> {
        let sides = self.sides.iter();
        let shares = |side: &&Side| ["replacing", "spare"].contains(&side.above.as_str());
        let above = sides.clone().filter(shares).find(|side| side.disk == disk);
        let same = move |side: &&Side| above.is_some_and(|own| own.above == side.above);
        sides.filter(same).map(|side| side.disk)
    }
}

impl View {
    /// Whether a disk is part of the pool, or one of its spares.
    pub(crate) fn uses(&self, disk: usize, path: &Path) -> bool {
        let mut spares = self.spares.iter();
        self.is_part(disk) || spares.any(|spare| path.ends_with(&spare.path))
    }

    /// Which disks make up the pool, and how.
    pub(crate) fn shape(&self) -> Vec<Shape> {
        let sides = |top: &Whole| {
            let sides = top.sides.iter();
            sides.map(|side| (side.disk, side.above.clone())).collect()
        };
        let tops = self.tops.iter();
        tops.map(|top| (top.kind.clone(), top.is_removing, sides(top)))
            .collect()
    }
}
