//! Crashes and faults under a vdev: what a flush covered is there, whatever happens.

use base::random::{Rng, SeededRng};
use base::{Guid, Txg, VdevId};
use device::BlockDevice;
use format::block_pointer::BlockPointer;
use format::nvlist::NvList;
use format::uberblock::Uberblock;
use millpond_vdev::{
    BlockRange, Interior, InteriorKind, IoClass, LabelPair, Leaf, LeafConfig, Node, Top, TopConfig,
    VdevError, Verdict, WriteGroup, read_labels,
};
use sim::{Fault, FaultKind, SimulatedDisk, Timeline, Times};
use std::sync::Arc;
use sys::Buffer;

const SIZE: u64 = 64 << 20;
const BLOCKS: u64 = 64;

fn leaf(disk: &SimulatedDisk, guid: u64) -> Arc<Leaf> {
    let config = LeafConfig {
        guid: Guid(guid),
        path: disk.describe(),
        ashift: 12,
        spare_room: None,
    };
    Leaf::new(config, Some(Arc::new(disk.clone()) as Arc<dyn BlockDevice>))
}

fn top(disks: &[SimulatedDisk]) -> Arc<Top> {
    let children = disks.iter().zip(1..).map(|(d, n)| Node::Leaf(leaf(d, n)));
    let node = Node::Interior(Interior {
        guid: Guid(9),
        kind: InteriorKind::Mirror,
        children: children.collect(),
    });
    let config = TopConfig {
        id: VdevId(0),
        guid: Guid(9),
        ashift: 12,
        asize: SIZE - 4_718_592,
        is_log: false,
    };
    Top::new(config, node)
}

/// A block that says where it belongs and when it was written.
fn block(place: u64, txg: u64) -> Buffer {
    let words = [place, txg].map(u64::to_le_bytes).concat();
    Buffer::from_slice(&words.repeat(256))
}

/// The txg of the block at `place`, if it is whole.
fn txg_of(bytes: &[u8], place: u64) -> Option<u64> {
    let txg = u64::from_le_bytes(bytes[8..16].try_into().ok()?);
    (bytes[..] == block(place, txg)[..]).then_some(txg)
}

fn range(place: u64) -> BlockRange {
    BlockRange {
        offset: place * 4096,
        len: 4096,
        birth: Txg(4),
    }
}

/// Writes rounds of blocks, each flushed; answers per round the moment after its flush, and what
/// each place then held.
fn write_rounds(top: &Top, timeline: &Timeline, seed: u64) -> Vec<(u64, Vec<u64>)> {
    let rng = SeededRng::new(seed);
    let mut newest = vec![0; BLOCKS as usize];
    let mut rounds = vec![(timeline.now(), newest.clone())];
    for txg in 4..12 {
        let group = WriteGroup::new(Txg(txg));
        for _ in 0..rng.below(40) {
            let place = rng.below(BLOCKS);
            top.write(place * 4096, block(place, txg), IoClass::AsyncWrite, &group);
            newest[place as usize] = txg;
        }
        group.wait().unwrap();
        top.flush().unwrap();
        rounds.push((timeline.now(), newest.clone()));
    }
    rounds
}

#[test]
fn what_was_flushed_survives_every_crash() {
    let timeline = Timeline::new();
    let disks = [1, 2].map(|seed| SimulatedDisk::on_timeline(SIZE, seed, &timeline));
    let pair = top(&disks);
    let rounds = write_rounds(&pair, &timeline, 77);
    drop(pair);
    for moment in (0..=timeline.now()).step_by(3) {
        let crashed = disks
            .clone()
            .map(|disk| disk.crash_at_moment(moment, moment));
        let pair = top(&crashed);
        let flushed = rounds.iter().rev().find(|(at, _)| *at <= moment).unwrap();
        for place in 0..BLOCKS {
            let wanted = flushed.1[place as usize];
            // A later round may have torn the place; then its sides may differ, or both be bad.
            let rewritten = rounds.last().unwrap().1[place as usize] > wanted;
            if wanted == 0 || rewritten {
                continue;
            }
            let mut right = |bytes: &[u8]| Verdict::proof(txg_of(bytes, place) == Some(wanted));
            let outcome = pair
                .read(range(place), IoClass::SyncRead, &mut right)
                .unwrap();
            assert!(
                outcome.failures.is_empty(),
                "moment {moment}, place {place}"
            );
        }
    }
}

#[test]
fn a_failed_flush_loses_nothing_once_cleared() {
    for seed in 0..20 {
        let disk = SimulatedDisk::new(SIZE, seed);
        let single = top(std::slice::from_ref(&disk));
        let group = WriteGroup::new(Txg(4));
        for place in 0..BLOCKS {
            single.write(place * 4096, block(place, 4), IoClass::AsyncWrite, &group);
        }
        group.wait().unwrap();
        disk.inject(Fault::everywhere(FaultKind::FlushError, Times::Count(1)));
        assert!(matches!(single.flush(), Err(VdevError::FlushFailed { .. })));
        let refused = WriteGroup::new(Txg(4));
        single.write(0, block(0, 5), IoClass::AsyncWrite, &refused);
        assert!(
            refused.wait().is_err(),
            "suspended: nothing is acknowledged on hope"
        );
        single.leaves()[0].clear().unwrap();
        for failed in refused.take_failed() {
            single.write(failed.offset, failed.data, failed.class, &refused);
        }
        refused.wait().unwrap();
        single.flush().unwrap();
        let crashed = top(&[disk.crash(seed)]);
        for place in 0..BLOCKS {
            let wanted = if place == 0 { 5 } else { 4 };
            let mut right = |bytes: &[u8]| Verdict::proof(txg_of(bytes, place) == Some(wanted));
            crashed
                .read(range(place), IoClass::SyncRead, &mut right)
                .unwrap();
        }
    }
}

#[test]
fn rot_on_one_side_heals_and_on_both_is_named() {
    let disks = [SimulatedDisk::new(SIZE, 1), SimulatedDisk::new(SIZE, 2)];
    let pair = top(&disks);
    write_rounds(&pair, &Timeline::new(), 5);
    let group = WriteGroup::new(Txg(20));
    pair.write(0, block(0, 20), IoClass::AsyncWrite, &group);
    group.wait().unwrap();
    pair.flush().unwrap();
    let start = format::label::DATA_START;
    let mut right = |bytes: &[u8]| Verdict::proof(txg_of(bytes, 0) == Some(20));
    disks[0].rot(start..start + 4096, 3, 1);
    let outcome = pair.scrub(range(0), true, &mut right).unwrap();
    assert_eq!((outcome.failures.len(), outcome.repaired.healed), (1, 1));
    disks[0].rot(start..start + 4096, 3, 2);
    disks[1].rot(start..start + 4096, 3, 3);
    let error = pair
        .read(range(0), IoClass::SyncRead, &mut right)
        .unwrap_err();
    assert!(error.is_checksum(), "{error}");
    assert_eq!(pair.heal(range(0), &block(0, 20)).healed, 2);
    pair.read(range(0), IoClass::SyncRead, &mut right).unwrap();
}

/// The order that a txg keeps: data, flush, labels 0 and 2, flush, uberblock, flush, labels 1 and 3.
#[test]
fn some_label_and_the_newest_durable_uberblock_survive_every_crash() {
    let disk = SimulatedDisk::new(SIZE, 3);
    let leaf = leaf(&disk, 1);
    let config = |txg: u64| {
        let mut list = NvList::new();
        list.set("txg", txg);
        list
    };
    let uberblock = |txg| Uberblock::new(5000, Txg(txg), 1, txg, BlockPointer::HOLE);
    leaf.initialise_labels(&config(4), &uberblock(4)).unwrap();
    leaf.write_uberblock(&uberblock(4)).unwrap();
    leaf.flush().unwrap();
    let mut durable = vec![(disk.log_len(), 4)];
    for txg in 5..10 {
        leaf.write_label_config(LabelPair::Even, &config(txg))
            .unwrap();
        leaf.flush().unwrap();
        leaf.write_uberblock(&uberblock(txg)).unwrap();
        leaf.flush().unwrap();
        durable.push((disk.log_len(), txg));
        leaf.write_label_config(LabelPair::Odd, &config(txg))
            .unwrap();
        leaf.flush().unwrap();
    }
    for index in durable[0].0..=disk.log_len() {
        for seed in 0..4 {
            let labels = read_labels(&disk.crash_at(index, seed));
            let min = durable.iter().rev().find(|(at, _)| *at <= index).unwrap().1;
            let best = labels.best_uberblock(None).unwrap().uberblock.txg;
            assert!(
                best.0 == min || best.0 == min + 1,
                "event {index}, seed {seed}"
            );
            let config = labels.best_config(None).and_then(|c| c.txg).unwrap();
            assert!(config.0 >= min && config.0 <= min + 1);
            assert!(labels.configs.len() >= 2, "a pair is always whole");
        }
    }
}
