use super::*;
use crate::testing::{Rig, TXG, noise, request};
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
