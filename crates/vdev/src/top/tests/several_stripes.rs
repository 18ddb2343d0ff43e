//! Blocks in several stripes: of RAID-Z vdevs that got more children, and of dRAID.

use super::stripe::{block, equals, read, set_away, spoil, top_of, write};
use super::*;
use itertools::Itertools;
use layout::{Draid, Moved, RaidZ};

/// A vdev, and where on it blocks are written.
struct Vdev {
    name: &'static str,
    parity: usize,
    devices: Vec<Arc<MemoryDevice>>,
    top: Arc<Top>,
    from: u64,
}

fn vdev(name: &'static str, kind: InteriorKind, width: usize, from: u64) -> Vdev {
    let devices: Vec<_> = (0..width).map(|_| MemoryDevice::new(SIZE)).collect();
    let leaves = devices.iter().zip(1..).map(|(d, i)| Node::Leaf(leaf(i, d)));
    let parity = kind.kind().tolerance(width);
    let node = Node::Interior(Interior {
        guid: Guid(99),
        kind,
        children: leaves.collect(),
    });
    Vdev {
        name,
        parity,
        devices,
        top: top_of(node, width as u64),
        from,
    }
}

/// Blocks of txg 5 are narrower than the vdev.
fn grown(parity: u64, width: usize, later: usize) -> InteriorKind {
    let raidz = RaidZ::new(parity, width).unwrap();
    InteriorKind::RaidZ(raidz.grown(&vec![Txg(9); later], false).unwrap())
}

fn vdevs() -> Vec<Vdev> {
    let draid = |parity, data, children, spares| {
        InteriorKind::Draid(Draid::new(parity, data, children, spares).unwrap())
    };
    let growing = RaidZ::new(2, 6).unwrap().grown(&[], true).unwrap();
    let growing = vdev("growing", InteriorKind::RaidZ(growing), 6, 1 << 20);
    growing.top.set_moved(Moved {
        to: (1 << 20) + (150 << 10),
        in_scratch: false,
    });
    let first = RaidZ::new(1, 4).unwrap().grown(&[], true).unwrap();
    let first = vdev("in scratch", InteriorKind::RaidZ(first), 4, 1 << 20);
    first.top.set_moved(Moved {
        to: (1 << 20) + (150 << 10),
        in_scratch: true,
    });
    vec![
        vdev("grown once", grown(1, 4, 1), 4, (1 << 20) - 8192),
        vdev("grown thrice", grown(2, 7, 3), 7, 8192),
        vdev("grown to six", grown(3, 6, 1), 6, 4096 * 5),
        growing,
        first,
        vdev("draid1", draid(1, 2, 4, 1), 4, 0),
        vdev("draid2", draid(2, 4, 8, 1), 8, 6 << 16),
        // The blocks begin in one group and end in the next.
        vdev("group's end", draid(1, 2, 4, 1), 4, (48 << 20) - (3 << 13)),
    ]
}

/// Blocks one after the other: of one sector, of a part of a row, of whole rows and a bit.
fn blocks(vdev: &Vdev) -> Vec<(u64, Vec<u8>)> {
    let mut offset = vdev.from;
    let mut next = |(index, len): (usize, usize)| {
        let place = offset;
        offset += vdev.top.allocated_size(len as u64, Txg(5));
        (place, block(len, index as u64))
    };
    let lens = [512, 4096, 9000, 65536, 131_072, 70_000];
    lens.into_iter().enumerate().map(&mut next).collect()
}

#[test]
fn blocks_are_read_without_any_children_that_parity_stands_for() {
    for vdev in vdevs() {
        let (top, blocks) = (&vdev.top, blocks(&vdev));
        for (offset, bytes) in &blocks {
            write(top, *offset, bytes).unwrap();
        }
        let width = vdev.devices.len();
        for away in (0..=vdev.parity).flat_map(|count| (0..width).combinations(count)) {
            away.iter().for_each(|leaf| set_away(top, *leaf, true));
            for (offset, bytes) in &blocks {
                let outcome = read(top, *offset, bytes);
                let outcome = outcome.unwrap_or_else(|error| panic!("{}: {error}", vdev.name));
                assert!(outcome.lacking.is_empty() && outcome.failures.is_empty());
            }
            away.iter().for_each(|leaf| set_away(top, *leaf, false));
        }
    }
}

#[test]
fn children_that_lie_about_several_stripes_are_found_out_and_repaired() {
    for vdev in vdevs() {
        let (top, width) = (&vdev.top, vdev.devices.len());
        for (offset, bytes) in &blocks(&vdev) {
            write(top, *offset, bytes).unwrap();
            for liars in (1..=vdev.parity).flat_map(|count| (0..width).combinations(count)) {
                let place = (*offset, bytes.len());
                let pieces = |child: &usize| spoil(top, &vdev.devices, place, *child);
                let spoilt = liars
                    .iter()
                    .map(|child| (Guid(*child as u64 + 1), pieces(child)));
                let spoilt: Vec<_> = spoilt.filter(|(_, pieces)| *pieces > 0).collect();
                let scrub = || {
                    let range = range(*offset, bytes.len());
                    top.scrub(range, true, &mut equals(bytes)).unwrap()
                };
                let outcome = scrub();
                let named = outcome.failures.iter().map(|failure| failure.leaf);
                let expected: Vec<_> = spoilt.iter().map(|(guid, _)| *guid).collect();
                let named: Vec<_> = named.sorted().collect();
                assert_eq!(named, expected, "{}: {liars:?}", vdev.name);
                let pieces = spoilt.iter().map(|(_, pieces)| pieces).sum::<usize>();
                assert_eq!(outcome.repaired.healed, pieces, "{}", vdev.name);
                let again = scrub();
                assert!(again.failures.is_empty() && again.data.is_some());
            }
        }
    }
}

#[test]
fn what_a_child_missed_of_several_stripes_is_given_to_it() {
    for vdev in vdevs() {
        let (top, blocks) = (&vdev.top, blocks(&vdev));
        vdev.devices[1].fail_writes.store(true, Ordering::Relaxed);
        for (offset, bytes) in &blocks {
            write(top, *offset, bytes).unwrap();
        }
        vdev.devices[1].fail_writes.store(false, Ordering::Relaxed);
        let leaf = &top.leaves()[1];
        assert!(leaf.misses(Txg(5)), "{}", vdev.name);
        leaf.set_condition(Condition::HEALTHY);
        leaf.begin_resilver();
        for (offset, bytes) in &blocks {
            let range = range(*offset, bytes.len());
            let outcome = top.scrub(range, true, &mut equals(bytes)).unwrap();
            assert_eq!(outcome.repaired.unrepaired, 0);
        }
        assert!(leaf.end_resilver() && leaf.missing().is_empty());
        assert_eq!(leaf.errors().checksum, 0);
        (2..2 + vdev.parity).for_each(|leaf| set_away(top, leaf, true));
        for (offset, bytes) in &blocks {
            read(top, *offset, bytes).unwrap();
        }
    }
}

#[test]
fn a_block_lies_as_is_right_for_its_own_txg_also_when_it_is_written_again() {
    let vdev = vdev("grown", grown(1, 4, 1), 4, 0);
    let (top, bytes) = (&vdev.top, block(65536, 3));
    for device in &vdev.devices[..2] {
        device.fail_writes.store(true, Ordering::Relaxed);
    }
    // A log block of txg 5 in a group whose newest block is of a txg in which blocks are wider.
    let group = WriteGroup::new(Txg(20));
    let data = (Buffer::from_slice(&bytes), 65536);
    top.write_beginning((0, Txg(5)), data, IoClass::SyncWrite, &group);
    group.wait().unwrap_err();
    for (device, leaf) in vdev.devices.iter().zip(top.leaves()) {
        device.fail_writes.store(false, Ordering::Relaxed);
        leaf.clear().unwrap();
    }
    let tree = crate::VdevTree::new(vec![Some(Arc::clone(top))]);
    group.write_again(&tree);
    group.wait().unwrap();
    set_away(top, 3, true);
    read(top, 0, &bytes).unwrap();
}
