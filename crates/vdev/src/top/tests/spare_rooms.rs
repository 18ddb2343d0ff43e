//! Distributed spares: what they stand in for lies on the other children.

use super::stripe::{block, equals, read, set_away, top_of, write};
use super::*;
use crate::TxgRanges;
use itertools::Itertools;
use layout::Draid;

const CHILDREN: usize = 7;
/// The guid of spare 0; the next one has the next.
const SPARE: u64 = 70;

struct Vdev {
    top: Arc<Top>,
    devices: Vec<Arc<MemoryDevice>>,
}

fn draid() -> InteriorKind {
    InteriorKind::Draid(Draid::new(2, 3, CHILDREN, 2).unwrap())
}

fn room(number: usize) -> Arc<Leaf> {
    let config = LeafConfig {
        guid: Guid(SPARE + number as u64),
        path: format!("draid2-0-{number}"),
        ashift: 12,
        spare_room: Some(number),
    };
    Leaf::new(config, None)
}

/// The vdev over these leaves, with a spare for each of the children that are named, in the order of the spares.
fn node_of(leaves: &[Arc<Leaf>], spared: &[usize]) -> Node {
    let child = |(index, leaf): (usize, &Arc<Leaf>)| {
        let leaf = Node::Leaf(Arc::clone(leaf));
        match spared.iter().position(|child| *child == index) {
            None => leaf,
            Some(number) => Node::Interior(Interior {
                guid: Guid(90 + index as u64),
                kind: InteriorKind::Spare,
                children: vec![leaf, Node::Leaf(room(number))],
            }),
        }
    };
    Node::Interior(Interior {
        guid: Guid(99),
        kind: draid(),
        children: leaves.iter().enumerate().map(child).collect(),
    })
}

fn leaves(devices: &[Arc<MemoryDevice>]) -> Vec<Arc<Leaf>> {
    devices.iter().zip(1..).map(|(d, i)| leaf(i, d)).collect()
}

fn vdev(spared: &[usize]) -> Vdev {
    let devices: Vec<_> = (0..CHILDREN).map(|_| MemoryDevice::new(SIZE)).collect();
    let node = node_of(&leaves(&devices), spared);
    let top = top_of(node, CHILDREN as u64);
    Vdev { top, devices }
}

/// Sets a device out of use, or in use again.
fn set_device_away(top: &Top, device: usize, is_away: bool) {
    let guid = Guid(device as u64 + 1);
    let place = top.leaves().iter().position(|leaf| leaf.guid() == guid);
    set_away(top, place.unwrap(), is_away);
}

/// Blocks one after the other, at the beginning and where a slice ends.
fn blocks(top: &Top) -> Vec<(u64, Vec<u8>)> {
    let Kind::Draid(draid) = draid().kind() else {
        panic!("not a dRAID");
    };
    let group = (draid.data() + draid.parity()) as u64 * (16 << 20);
    // Each is a slice of its own.
    assert_eq!(draid.groups(), 1);
    let mut seed = 0;
    let mut found = Vec::new();
    for mut offset in [0, group - (5 << 13), 2 * group - (5 << 13)] {
        for len in [512, 4096, 9000, 65536, 131_072, 70_000] {
            seed += 1;
            found.push((offset, block(len, seed)));
            offset += top.allocated_size(len as u64, Txg(5));
        }
    }
    found
}

#[test]
fn spares_hold_what_was_written_while_they_stood_in() {
    // In some slices the room of one lies on the child that the other one stands in for.
    for spared in [vec![0], vec![3, 5], vec![6, 2]] {
        let Vdev { top, devices } = vdev(&spared);
        let gone = |child: &usize| set_device_away(&top, *child, true);
        spared.iter().for_each(gone);
        let blocks = blocks(&top);
        for (offset, bytes) in &blocks {
            write(&top, *offset, bytes).unwrap();
        }
        // Nothing is degraded: parity stands for two more.
        let others = (0..devices.len()).filter(|child| !spared.contains(child));
        for away in (0..=2).flat_map(|count| others.clone().combinations(count)) {
            away.iter()
                .for_each(|child| set_device_away(&top, *child, true));
            for (offset, bytes) in &blocks {
                let outcome = read(&top, *offset, bytes).unwrap();
                assert!(outcome.lacking.is_empty() && outcome.failures.is_empty());
            }
            away.iter()
                .for_each(|child| set_device_away(&top, *child, false));
        }
        assert!(top.leaves().iter().all(|leaf| {
            let is_spared = spared
                .iter()
                .any(|child| leaf.guid() == Guid(*child as u64 + 1));
            leaf.missing().is_empty() != is_spared
        }));
        top.flush().unwrap();
    }
}

#[test]
fn a_spare_that_steps_in_is_given_all_that_it_stands_for() {
    let Vdev { top, devices } = vdev(&[]);
    let blocks = blocks(&top);
    for (offset, bytes) in &blocks {
        write(&top, *offset, bytes).unwrap();
    }
    set_device_away(&top, 4, true);
    let own: Vec<_> = top.leaves().to_vec();
    let spared = top.regrouped(*top.config(), node_of(&own, &[4]));
    let spare = spared.leaves().iter();
    let spare = spare.clone().find(|leaf| leaf.guid() == Guid(SPARE));
    let spare = Arc::clone(spare.unwrap());
    let mut missing = TxgRanges::new();
    missing.add(Txg(4), 10);
    spare.set_missing(missing);
    spare.begin_resilver();
    for (offset, bytes) in &blocks {
        let range = range(*offset, bytes.len());
        let outcome = spared.scrub(range, true, &mut equals(bytes)).unwrap();
        assert_eq!(outcome.data.as_deref(), Some(&bytes[..]));
        assert_eq!(outcome.repaired.unrepaired, 0);
    }
    assert!(!spare.has_left() && spare.end_resilver());
    assert!(spare.missing().is_empty());
    assert!(own.iter().all(|leaf| leaf.errors().checksum == 0));
    let others = (0..devices.len()).filter(|child| *child != 4);
    for away in others.combinations(2) {
        away.iter()
            .for_each(|child| set_device_away(&spared, *child, true));
        for (offset, bytes) in &blocks {
            read(&spared, *offset, bytes).unwrap();
        }
        away.iter()
            .for_each(|child| set_device_away(&spared, *child, false));
    }
}

#[test]
fn what_the_leaf_below_a_spare_missed_is_not_believed() {
    let Vdev { top, devices } = vdev(&[4]);
    set_device_away(&top, 4, true);
    let bytes = block(131_072, 9);
    write(&top, 0, &bytes).unwrap();
    let placement = top.placement(0, bytes.len(), Txg(5));
    let pieces = placement.pieces().iter();
    let piece = pieces.clone().find(|piece| piece.child == 4).unwrap();
    let holders: Vec<_> = top.children.holders(piece).collect();
    let below = holders.iter().find(|holder| holder.is_readable()).unwrap();
    let number = below.leaf.guid().0 as usize - 1;
    let at = place_of(piece) as usize;
    devices[number].bytes.lock().unwrap()[at..at + 4096].fill(0xee);
    let mut missing = TxgRanges::new();
    missing.add(Txg(5), 1);
    below.leaf.set_missing(missing);
    // Without a checksum nothing but what is known to be missing tells that it is older.
    let outcome = top.read(range(0, bytes.len()), IoClass::SyncRead, &mut anything);
    assert_eq!(&outcome.unwrap().data[..], &bytes[..]);
    // A resilver of that leaf gives it what it holds for the spare, too.
    below.leaf.begin_resilver();
    let range = range(0, bytes.len());
    top.scrub(range, true, &mut equals(&bytes)).unwrap();
    assert!(below.leaf.end_resilver() && below.leaf.missing().is_empty());
    assert_eq!(devices[number].bytes.lock().unwrap()[at..at + 512], {
        let parts = parts::parts(&placement, &top.padded(Buffer::from_slice(&bytes)));
        let (_, right) = parts.iter().find(|(piece, _)| piece.child == 4).unwrap();
        right[..512].to_vec()
    });
}

#[test]
fn a_leaf_that_fails_beside_a_spare_loses_one_column_of_each_stripe() {
    let Vdev { top, .. } = vdev(&[4, 1]);
    for child in [4, 1, 0, 2] {
        set_device_away(&top, child, true);
    }
    for (offset, bytes) in &blocks(&top) {
        write(&top, *offset, bytes).unwrap();
        read(&top, *offset, bytes).unwrap();
    }
    top.flush().unwrap();
    set_device_away(&top, 3, true);
    assert!(write(&top, 0, &block(4096, 1)).is_err());
}
