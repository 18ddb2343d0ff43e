use super::*;
use crate::testing::{Rig, TXG, noise, request};
use crate::{WritePolicy, WriteRequest};
use base::VdevId;
use std::sync::atomic::Ordering;
use vdev::WriteGroup;

/// A gang whose header has these members, in place of the pieces that were written.
fn gang_of(rig: &Rig, members: impl Fn(&BlockPointer) -> Vec<BlockPointer>) -> BlockPointer {
    rig.allocator.longest.store(4096, Ordering::Relaxed);
    let leader = rig.write(&request(&noise(8192, 1))).expect("in pieces");
    let mut header = GangHeader::default();
    for (slot, member) in header.members.iter_mut().zip(members(&leader)) {
        *slot = member;
    }
    let sealed = Buffer::from_slice(&header.encode(&leader));
    let group = WriteGroup::new(TXG);
    let top = rig.pipeline.vdevs().top(VdevId(0)).expect("there");
    for dva in leader.dvas() {
        top.write(dva.offset, sealed.clone(), IoClass::AsyncWrite, &group);
    }
    group.wait().expect("memory");
    leader
}

#[test]
fn gangs_that_can_be_read_are_scrubbed_to_the_bottom() {
    let rig = Rig::new();
    let data = noise(8192, 2);
    let mut block = rig.write(&request(&data)).expect("room");
    for _ in 0..12 {
        block = gang_of(&rig, |_| vec![block]);
    }
    assert_eq!(&rig.read(&block).expect("twelve headers")[..], &data[..]);
    let sum = rig.pipeline.scrub(&block, Bookmark::default());
    assert_eq!(sum.unreadable, 0);
}

#[test]
fn a_scrub_of_a_gang_that_contains_itself_ends_soon() {
    let rig = Rig::new();
    let block = gang_of(&rig, |leader| vec![*leader; 3]);
    let sum = rig.pipeline.scrub(&block, Bookmark::default());
    assert!(sum.unreadable > 0);
    // 64 headers of 512 bytes in two copies, and not three to the power of the depth.
    assert!(sum.examined_bytes <= 64 * 1024, "{sum:?}");
}

#[test]
fn a_copy_that_is_healed_from_another_one_leaves_nothing_behind() {
    for (by_copies, is_lost) in [(false, false), (true, false), (false, true), (true, true)] {
        let rig = Rig::new();
        let policy = WritePolicy {
            copies: 2,
            ..WritePolicy::METADATA
        };
        let data = noise(8192, 3);
        let block = rig.write(&WriteRequest {
            policy,
            ..request(&data)
        });
        let block = block.expect("room");
        // One device lacks the block, the other one has the first copy wrong, or both.
        for dva in block.dvas().take(if is_lost { 2 } else { 1 }) {
            rig.disks
                .iter()
                .for_each(|disk| disk.damage(dva.offset, 512));
        }
        let top = rig.pipeline.vdevs().top(VdevId(0)).expect("there");
        let behind = &top.leaves()[0];
        behind.set_missing([(TXG, 1)].into_iter().collect());
        behind.begin_resilver();
        rig.pipeline.set_heal(true);
        let place = Bookmark::default();
        let mut sum = Scrubbed::default();
        if by_copies {
            (0..2).for_each(|index| sum += rig.pipeline.scrub_copy(&block, place, index));
        } else {
            sum += rig.pipeline.scrub(&block, place);
        }
        behind.end_resilver();
        assert_eq!((sum.unreadable, sum.unrepaired), (u64::from(is_lost), 0));
        assert_eq!(behind.misses(TXG), is_lost, "{by_copies}");
    }
}
