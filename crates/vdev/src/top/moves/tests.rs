//! Blocks of a vdev that is getting another child are read, written and repaired at every step of its sectors.

use super::*;
use crate::testing::MemoryDevice;
use crate::top::TopConfig;
use crate::{BlockRange, Interior, InteriorKind, LeafConfig, Node, Verdict};
use layout::RaidZ;
use std::collections::BTreeMap;
use std::sync::atomic::AtomicBool;

const SIZE: usize = 32 << 20;
const TXG: Txg = Txg(5);

struct Vdev {
    devices: Vec<Arc<MemoryDevice>>,
    top: Arc<Top>,
    /// What was written last, by place.
    blocks: BTreeMap<u64, Vec<u8>>,
}

/// One of three children with one row of parity that is getting a fourth.
fn vdev() -> Vdev {
    let devices: Vec<_> = (0..4).map(|_| MemoryDevice::new(SIZE)).collect();
    let leaves = devices.iter().zip(1..).map(|(device, number)| {
        let config = LeafConfig {
            guid: base::Guid(number),
            path: format!("/dev/{number}"),
            ashift: 9,
            spare_room: None,
        };
        Node::Leaf(Leaf::new(config, Some(Arc::clone(device) as _)))
    });
    let raidz = RaidZ::new(1, 4).unwrap().grown(&[], true).unwrap();
    let node = Node::Interior(Interior {
        guid: base::Guid(99),
        kind: InteriorKind::RaidZ(raidz),
        children: leaves.collect(),
    });
    let config = TopConfig {
        id: VdevId(0),
        guid: base::Guid(99),
        ashift: 9,
        asize: 3 * (SIZE as u64 - (5 << 20)),
        is_log: false,
    };
    Vdev {
        devices,
        top: Top::new(config, node),
        blocks: BTreeMap::new(),
    }
}

fn bytes(len: usize, seed: u64) -> Vec<u8> {
    let byte = |at: usize| (at as u64 * 7 + seed * 131 + (at as u64 >> 9)) as u8;
    (0..len).map(byte).collect()
}

impl Vdev {
    fn write(&mut self, offset: u64, seed: u64) {
        let data = bytes(9000, seed);
        let group = WriteGroup::new(TXG);
        let buffer = Buffer::from_slice(&data);
        self.top.write(offset, buffer, IoClass::SyncWrite, &group);
        group.wait().unwrap();
        // Those that it was written over are gone.
        let len = self.top.allocated_size(data.len() as u64, TXG);
        self.blocks.retain(|other, _| other.abs_diff(offset) >= len);
        self.blocks.insert(offset, data);
    }

    /// Blocks at these places and 100 KiB apart, up to `end`.
    fn fill(&mut self, from: u64, end: u64) {
        let mut offset = from;
        while offset < end {
            self.write(offset, offset);
            offset += 100 << 10;
        }
    }

    /// All blocks are right, with all children and without each.
    fn check(&self) {
        for away in [None, Some(0), Some(1), Some(2), Some(3)] {
            let leaf = away.map(|away: usize| &self.top.leaves()[away]);
            let before = leaf.map(|leaf| leaf.condition());
            if let Some(leaf) = leaf {
                let offline =
                    crate::Condition::new(crate::VdevState::Offline, crate::VdevAux::None);
                leaf.set_condition(offline);
            }
            for (offset, data) in &self.blocks {
                let range = BlockRange {
                    offset: *offset,
                    len: data.len(),
                    birth: TXG,
                };
                let mut accept = |found: &[u8]| Verdict::proof(found == &data[..]);
                let outcome = self.top.read(range, IoClass::SyncRead, &mut accept);
                let outcome = outcome.unwrap_or_else(|error| panic!("{away:?}: {error}"));
                assert!(outcome.failures.is_empty(), "{away:?}: {offset}");
            }
            if let (Some(leaf), Some(before)) = (leaf, before) {
                leaf.set_condition(before);
            }
        }
    }

    fn begin(&self, to: u64, in_scratch: bool) -> Move {
        let to = Moved { to, in_scratch };
        Move::begin(&self.top, to, TXG, &Arc::default()).unwrap()
    }

    fn scratch_end(&self) -> u64 {
        Reflow::of(self.top.layout()).unwrap().scratch_end()
    }

    /// A move of everything in its range; blocks are written before it is copied, after that, and when it has ended.
    fn step(&mut self, to: u64, in_scratch: bool) {
        let sectors = self.begin(to, in_scratch);
        let range = sectors.range();
        let places = [range.start, range.start + (50 << 10), range.end - 8192];
        self.write(places[0], 1);
        sectors.copy(range.clone()).unwrap();
        self.write(places[1], 2);
        sectors.settle().unwrap();
        self.check();
        self.write(places[2], 3);
        self.write(places[0], 4);
        self.check();
        sectors.end();
        self.check();
        self.write(places[1], 5);
        self.check();
    }
}

#[test]
fn all_is_there_at_every_step() {
    let mut vdev = vdev();
    let first = vdev.scratch_end();
    vdev.fill(0, 30 << 20);
    vdev.check();
    assert!(vdev.top.can_move());
    vdev.step(first, true);
    vdev.step(first, false);
    let reflow = Reflow::of(vdev.top.layout()).unwrap();
    let mut moved = first;
    while moved < 40 << 20 {
        moved = reflow.limit(moved);
        vdev.step(moved, false);
    }
}

#[test]
fn a_move_that_is_given_up_leaves_all_where_it_was() {
    let mut vdev = vdev();
    let first = vdev.scratch_end();
    vdev.fill(0, 20 << 20);
    let sectors = vdev.begin(first, true);
    sectors.copy(0..first).unwrap();
    sectors.settle().unwrap();
    vdev.write(0, 9);
    drop(sectors);
    vdev.write(100 << 10, 10);
    vdev.check();
    let moved = vdev.top.layout().moved();
    assert_eq!(moved, Some(Moved::default()));
    // From the beginning.
    vdev.step(first, true);
}

#[test]
fn what_cannot_be_read_or_written_does_not_move() {
    let mut vdev = vdev();
    let first = vdev.scratch_end();
    vdev.fill(0, 4 << 20);
    vdev.devices[1].fail_reads.store(true, Ordering::Relaxed);
    vdev.begin(first, true).copy(0..first).unwrap_err();
    vdev.devices[1].fail_reads.store(false, Ordering::Relaxed);
    vdev.top.leaves()[1].clear().unwrap();
    vdev.devices[3].fail_writes.store(true, Ordering::Relaxed);
    let sectors = vdev.begin(first, true);
    sectors.copy(0..first).unwrap();
    sectors.settle().unwrap_err();
    drop(sectors);
    vdev.devices[3].fail_writes.store(false, Ordering::Relaxed);
    for leaf in vdev.top.leaves() {
        leaf.clear().unwrap();
    }
    vdev.check();
    // A leaf that lacks something, or is another one's successor, is none to copy from.
    vdev.top.leaves()[2].note_missing(TXG);
    assert!(!vdev.top.can_move());
}

#[test]
fn repairs_reach_the_new_place_as_well() {
    for settled in [false, true] {
        let mut vdev = vdev();
        let first = vdev.scratch_end();
        vdev.fill(0, 4 << 20);
        // A child lies about a block, and so about what is copied.
        let offset = 100 << 10;
        for byte in vdev.devices[1].bytes.lock().unwrap()[4 << 20..5 << 20].iter_mut() {
            *byte ^= 0x55;
        }
        let sectors = vdev.begin(first, true);
        sectors.copy(0..first).unwrap();
        if settled {
            sectors.settle().unwrap();
        }
        for (offset, data) in &vdev.blocks {
            let range = BlockRange {
                offset: *offset,
                len: data.len(),
                birth: TXG,
            };
            let mut accept = |found: &[u8]| Verdict::proof(found == &data[..]);
            let outcome = vdev.top.scrub(range, true, &mut accept).unwrap();
            assert_eq!(outcome.repaired.unrepaired, 0);
        }
        sectors.settle().unwrap();
        sectors.end();
        vdev.check();
        assert!(vdev.blocks.contains_key(&offset));
    }
}

#[test]
fn what_a_child_had_wrong_is_found_out_when_it_was_copied_to_others() {
    let mut vdev = vdev();
    let first = vdev.scratch_end();
    vdev.fill(0, 20 << 20);
    for byte in vdev.devices[2].bytes.lock().unwrap()[4 << 20..].iter_mut() {
        *byte ^= 0x55;
    }
    let mut moves = vec![(first, true), (first, false)];
    let reflow = Reflow::of(vdev.top.layout()).unwrap();
    moves.push((reflow.limit(first), false));
    for (to, in_scratch) in moves {
        let sectors = vdev.begin(to, in_scratch);
        sectors.copy(sectors.range()).unwrap();
        sectors.settle().unwrap();
        sectors.end();
        for (offset, data) in &vdev.blocks {
            let range = BlockRange {
                offset: *offset,
                len: data.len(),
                birth: TXG,
            };
            let mut accept = |found: &[u8]| Verdict::proof(found == &data[..]);
            let outcome = vdev.top.read(range, IoClass::SyncRead, &mut accept);
            outcome.unwrap();
        }
    }
}

#[test]
fn blocks_are_read_and_written_while_sectors_move() {
    let mut vdev = vdev();
    let first = vdev.scratch_end();
    vdev.fill(0, 30 << 20);
    let stop = AtomicBool::new(false);
    let top = Arc::clone(&vdev.top);
    let (known, blocks): (Vec<_>, Vec<_>) = vdev
        .blocks
        .iter()
        .map(|(offset, data)| (*offset, (*offset, data.clone())))
        .unzip();
    // Every second one is written again and again.
    let written: Vec<u64> = known.iter().step_by(2).copied().collect();
    std::thread::scope(|scope| {
        let writer = scope.spawn(|| {
            let mut last = BTreeMap::new();
            let mut round = 0_u64;
            while !stop.load(Ordering::Relaxed) {
                round += 1;
                for offset in &written {
                    let data = bytes(9000, round);
                    let group = WriteGroup::new(TXG);
                    top.write(
                        *offset,
                        Buffer::from_slice(&data),
                        IoClass::SyncWrite,
                        &group,
                    );
                    group.wait().unwrap();
                    last.insert(*offset, data);
                }
            }
            last
        });
        let reader = scope.spawn(|| {
            while !stop.load(Ordering::Relaxed) {
                for (offset, data) in blocks.iter().skip(1).step_by(2) {
                    let range = BlockRange {
                        offset: *offset,
                        len: data.len(),
                        birth: TXG,
                    };
                    let mut accept = |found: &[u8]| Verdict::proof(found == &data[..]);
                    let outcome = top.read(range, IoClass::SyncRead, &mut accept).unwrap();
                    assert!(outcome.failures.is_empty());
                }
            }
        });
        let reflow = Reflow::of(vdev.top.layout()).unwrap();
        let mut steps = vec![(first, true), (first, false)];
        let mut moved = first;
        while moved < 40 << 20 {
            moved = reflow.limit(moved);
            steps.push((moved, false));
        }
        for (to, in_scratch) in steps {
            let sectors = vdev.begin(to, in_scratch);
            sectors.copy(sectors.range()).unwrap();
            sectors.settle().unwrap();
            sectors.end();
        }
        stop.store(true, Ordering::Relaxed);
        reader.join().unwrap();
        vdev.blocks.extend(writer.join().unwrap());
    });
    vdev.check();
}
