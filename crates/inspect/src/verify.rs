//! Checking a whole pool: every checksum, and every allocated sector against who refers to it.

mod bulk;
mod items;
mod pending;
mod progress;
mod space_maps;
mod statistics;
mod tables;
mod usage;
mod walk;

use std::sync::Arc;

use base::{ObjectSetId, Txg};

use crate::error::Result;
use crate::raw::{RawPool, datasets};
pub(crate) use bulk::BadCopy;
use bulk::Side;
pub(crate) use items::Item;
pub(crate) use progress::Watcher;
pub(crate) use space_maps::{TopSpace, for_each_entry, log_maps};
pub(crate) use statistics::{Statistics, Totals};
pub(crate) use walk::Overlap;
use walk::{Walk, WalkOptions};

/// What to check.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct VerifyOptions {
    /// Check the checksums of metadata.
    pub(crate) metadata: bool,
    /// Check the checksums of data.
    pub(crate) data: bool,
    /// Compare references with the space maps.
    pub(crate) leaks: bool,
}

/// A range that the space maps and the references see differently.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Segment {
    pub(crate) vdev: u64,
    pub(crate) offset: u64,
    pub(crate) length: u64,
}

/// A block whose table says another number of references than there are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Miscount {
    pub(crate) table: &'static str,
    pub(crate) vdev: u64,
    pub(crate) offset: u64,
    pub(crate) expected: u64,
    pub(crate) seen: u64,
}

/// How full the devices of a class are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ClassUse {
    pub(crate) class: &'static str,
    pub(crate) allocated: u64,
    pub(crate) space: u64,
}

/// What was found.
#[derive(Default)]
pub(crate) struct Report {
    pub(crate) statistics: Statistics,
    pub(crate) bad_copies: Vec<BadCopy>,
    pub(crate) unreadable: Vec<String>,
    pub(crate) overlaps: Vec<Overlap>,
    pub(crate) map_faults: Vec<String>,
    pub(crate) leaked: Vec<Segment>,
    pub(crate) missing: Vec<Segment>,
    pub(crate) miscounts: Vec<Miscount>,
    pub(crate) classes: Vec<ClassUse>,
    pub(crate) allocated: u64,
    pub(crate) referenced: u64,
    pub(crate) bytes_checked: u64,
    /// Bytes of copies that devices missed and that a resilver will bring.
    pub(crate) bytes_missed: u64,
    pub(crate) devices_missing: Vec<String>,
    pub(crate) leaks_checked: bool,
}

impl Report {
    /// Whether space and references agree.
    pub(crate) fn space_matches(&self) -> bool {
        self.leaked.is_empty()
            && self.missing.is_empty()
            && self.overlaps.is_empty()
            && self.map_faults.is_empty()
    }

    /// Whether anything at all is wrong.
    pub(crate) fn is_clean(&self) -> bool {
        self.space_matches()
            && self.bad_copies.is_empty()
            && self.unreadable.is_empty()
            && self.miscounts.is_empty()
    }
}

/// Checks a pool.
pub(crate) fn verify(
    pool: &RawPool,
    options: VerifyOptions,
    watcher: Watcher<'_>,
) -> Result<Report> {
    let mut report = Report {
        leaks_checked: options.leaks,
        ..Report::default()
    };
    let tops = pool
        .tops()
        .iter()
        .map(|config| TopSpace::new(pool, config))
        .collect::<Result<Vec<_>>>()?;
    if options.leaks {
        match space_maps::load(pool, &tops) {
            Ok(faults) => report.map_faults.extend(faults.iter().map(String::from)),
            Err(error) => report.map_faults.push(space_maps::describe(&error)),
        }
    }
    let tables = tables::load(pool)?;
    let sides = sides(pool, &mut report);
    let walk_options = WalkOptions {
        check_metadata: options.metadata,
        check_data: options.data,
        threads: std::thread::available_parallelism().map_or(2, usize::from),
    };
    let walk = Walk::new(&pool.pipeline, &tops, &sides, &tables, walk_options);
    let mut damage = Vec::new();
    let roots = roots(pool, &mut |error| damage.push(error));
    let total = (options.leaks && options.data).then(|| bytes_of_copies(&tops, &sides));
    progress::shown(watcher, walk.bytes_done(), total, || walk.run(roots));
    pending::visit(pool, &walk, &tops, &mut |error| {
        damage.push(error.to_string())
    });
    let findings = walk.into_findings();
    report.statistics = findings.statistics;
    report.bad_copies = findings.bad_copies;
    report.overlaps = findings.overlaps;
    report.bytes_checked = findings.bytes_checked;
    report.bytes_missed = findings.bytes_missed;
    report.unreadable = findings.unreadable;
    // What the walk met itself is not told twice.
    damage.retain(|error| !report.unreadable.contains(error));
    report.unreadable.extend(damage);
    if options.leaks {
        compare(&tops, &tables, &mut report);
    }
    Ok(report)
}

/// The object sets of a pool, each with the txg after which it met its blocks first.
pub(crate) fn roots(pool: &RawPool, damage: &mut dyn FnMut(String)) -> Vec<Item> {
    let mut roots = vec![Item::root(ObjectSetId::MOS, pool.uberblock.root, Txg(0))];
    for dataset in datasets(pool, &mut |error| damage(error.to_string())) {
        let set = ObjectSetId(dataset.id.0);
        let phys = &dataset.phys;
        roots.push(Item::root(
            set,
            phys.block_pointer,
            phys.previous_snapshot_txg,
        ));
    }
    roots
}

/// Bytes that are allocated, on all devices together.
fn bytes_of_copies(tops: &[TopSpace], sides: &[Side]) -> u64 {
    let copies = |id: u64| {
        let mut of_vdev = sides.iter().filter(|side| side.vdev == id).peekable();
        // Elsewhere a block is read once, however many devices it lies on.
        match of_vdev.peek() {
            Some(side) if side.layout.is_copies() => of_vdev.count() as u64,
            Some(_) => 1,
            None => 0,
        }
    };
    let tops = tops.iter();
    tops.map(|top| top.allocated.bytes().saturating_mul(copies(top.id)))
        .fold(0, u64::saturating_add)
}

/// Every device that can be read.
fn sides(pool: &RawPool, report: &mut Report) -> Vec<Side> {
    let mut sides = Vec::new();
    for top in pool.pipeline.vdevs().tops() {
        let children = top.leaves().len();
        for (child, leaf) in top.leaves().iter().enumerate() {
            match leaf.device() {
                Some(device) => sides.push(Side {
                    vdev: top.id().0,
                    layout: top.layout().clone(),
                    child: (child, children),
                    path: leaf.path().to_string(),
                    device: Arc::clone(&device),
                    leaf: Arc::clone(leaf),
                }),
                None => report.devices_missing.push(leaf.path().to_string()),
            }
        }
    }
    sides
}

fn compare(tops: &[TopSpace], tables: &tables::ReferenceTables, report: &mut Report) {
    for top in tops {
        let vdev = top.id;
        let mut leaked = Vec::new();
        top.allocated
            .for_each_missing_from(&top.referenced, &mut |offset, length| {
                leaked.push(Segment {
                    vdev,
                    offset,
                    length,
                });
            });
        let mut missing = Vec::new();
        top.referenced
            .for_each_missing_from(&top.allocated, &mut |offset, length| {
                missing.push(Segment {
                    vdev,
                    offset,
                    length,
                });
            });
        report.leaked.extend(leaked);
        report.missing.extend(missing);
        let allocated = top.allocated.bytes();
        report.allocated += allocated;
        report.referenced += top.referenced.bytes();
        let space = top.metaslab_count() << top.metaslab_shift;
        match report
            .classes
            .iter_mut()
            .find(|class| class.class == top.class)
        {
            Some(class) => {
                class.allocated += allocated;
                class.space += space;
            }
            None => report.classes.push(ClassUse {
                class: top.class,
                allocated,
                space,
            }),
        }
    }
    for (table, references) in [("dedup", &tables.dedup), ("clone", &tables.clones)] {
        for (&(vdev, offset), count) in references {
            let (expected, seen) = (count.expected, count.seen());
            if !count.may_match() {
                report.miscounts.push(Miscount {
                    table,
                    vdev,
                    offset,
                    expected,
                    seen,
                });
            }
        }
    }
    report
        .miscounts
        .sort_by_key(|miscount| (miscount.table, miscount.vdev, miscount.offset));
}
