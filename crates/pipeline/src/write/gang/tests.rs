use std::sync::atomic::Ordering;

use base::Bookmark;
use format::embedded_checksum::MAGIC;
use vdev::InteriorKind;

use super::*;
use crate::ReadRequest;
use crate::testing::{Rig, TXG, noise, request};

fn header_of(rig: &Rig, block: &BlockPointer) -> GangHeader {
    let request = ReadRequest::new(Bookmark::default());
    rig.pipeline.gang_header(block, &request).expect("a header")
}

/// Frees a block; nothing is left.
fn free(rig: &Rig, block: &BlockPointer) {
    rig.pipeline.free(block, TXG).expect("header is readable");
    let live = rig.allocator.live.lock().unwrap();
    assert!(live.is_empty(), "{live:?}");
}

#[test]
fn long_headers_name_as_many_pieces_as_are_needed() {
    let rig = Rig::of_long_gang_headers();
    rig.allocator.longest.store(8192, Ordering::Relaxed);
    let data = noise(70 << 10, 1);
    let block = rig.write(&request(&data)).expect("in pieces");
    let header = header_of(&rig, &block);
    assert_eq!(header.size(), 4096);
    // Eight of 8 KiB, and what is left.
    let sizes: Vec<u64> = header.used().map(|member| member.psize()).collect();
    assert_eq!(sizes, [&[8192; 8][..], &[6144]].concat());
    assert!(header.used().all(|member| !member.is_gang()));
    let first = block.dva(0).expect("an address");
    assert_eq!(first.asize, 4096 + (72 << 10));
    assert_eq!(&rig.read(&block).expect("just written")[..], &data[..]);
    free(&rig, &block);
}

/// Each has its share of what is left, and lies in pieces itself.
#[test]
fn more_pieces_than_a_long_header_names_lie_behind_headers_of_their_own() {
    let rig = Rig::of_long_gang_headers();
    rig.allocator.longest.store(4096, Ordering::Relaxed);
    let data = noise(512 << 10, 2);
    let block = rig.write(&request(&data)).expect("in pieces");
    let header = header_of(&rig, &block);
    assert!(header.used().count() > 20);
    assert!(header.used().any(BlockPointer::is_gang));
    assert_eq!(&rig.read(&block).expect("just written")[..], &data[..]);
    free(&rig, &block);
}

#[test]
fn a_long_header_is_repaired_from_where_it_is_right() {
    let rig = Rig::of_long_gang_headers();
    rig.allocator.longest.store(8192, Ordering::Relaxed);
    let data = noise(70 << 10, 3);
    let block = rig.write(&request(&data)).expect("in pieces");
    let first = block.dva(0).expect("an address").offset;
    let was = rig.disks[0].at(first, 4096);
    // Behind where the pointers of a short one are.
    rig.disks[0].damage(first + 3000, 8);
    let sum = rig.pipeline.scrub(&block, Bookmark::default());
    assert_eq!(
        (sum.repaired_bytes, sum.unreadable, sum.unrepaired),
        (4096, 0, 0)
    );
    assert_eq!(rig.disks[0].at(first, 4096), was);
    let sum = rig.pipeline.scrub(&block, Bookmark::default());
    assert_eq!((sum.repaired_bytes, sum.unreadable), (0, 0));
    assert_eq!(&rig.read(&block).expect("repaired")[..], &data[..]);
}

/// Those that were written before the feature was active stay as they are.
#[test]
fn short_headers_are_read_and_freed_where_long_ones_are_written() {
    let rig = Rig::of_long_gang_headers();
    rig.pipeline.set_long_gang_headers(false);
    rig.allocator.longest.store(8192, Ordering::Relaxed);
    let data = noise(70 << 10, 4);
    let block = rig.write(&request(&data)).expect("in pieces");
    rig.pipeline.set_long_gang_headers(true);
    let header = header_of(&rig, &block);
    assert_eq!((header.size(), header.members.len()), (512, 3));
    assert_eq!(&rig.read(&block).expect("just written")[..], &data[..]);
    let first = block.dva(0).expect("an address").offset;
    rig.disks[1].damage(first + 100, 8);
    let sum = rig.pipeline.scrub(&block, Bookmark::default());
    assert_eq!((sum.repaired_bytes, sum.unreadable), (4096, 0));
    free(&rig, &block);
}

/// Of a dRAID a short header has one column, and the rest of its row is zeros that nobody needs.
#[test]
fn a_short_header_is_read_where_a_row_is_not_right() {
    let draid = layout::Draid::new(1, 2, 3, 0).expect("there is such a vdev");
    let rig = Rig::of((InteriorKind::Draid(draid), 3, 12), |_| ());
    rig.allocator.longest.store(12_288, Ordering::Relaxed);
    let data = noise(24 << 10, 8);
    let mut write = request(&data);
    write.policy.gang_copies = 1;
    let block = rig.write(&write).expect("in pieces");
    assert_eq!(rig.pipeline.gang_header_size(block.dvas()), 8192);
    assert_eq!(header_of(&rig, &block).size(), 512);
    let is_read = || {
        let request = ReadRequest::new(Bookmark::default()).unpromised();
        rig.pipeline.gang_header(&block, &request).is_ok()
    };
    let place = block.dva(0).expect("an address").offset / 3;
    let (same, zeros): (Vec<_>, Vec<_>) = rig
        .disks
        .iter()
        .partition(|disk| disk.at(place + 472, 8) == MAGIC.to_ne_bytes());
    // With one column of data, parity is that column.
    let ([one, other], [zeros]) = (&same[..], &zeros[..]) else {
        panic!("{} columns with the header", same.len());
    };
    zeros.damage(place, 4096);
    for disk in [one, other] {
        disk.damage(place, 4096);
        assert!(is_read());
        // Right again.
        disk.damage(place, 4096);
    }
    // Damage to all three, which is the same here, would cancel out.
    for disk in [zeros, one, other] {
        disk.damage(place, 4096);
    }
    assert!(!is_read());
}

#[test]
fn a_gang_of_the_pools_own_with_long_headers_is_rewritten_in_its_pieces() {
    let rig = Rig::of_long_gang_headers();
    rig.allocator.longest.store(8192, Ordering::Relaxed);
    let own = |data| {
        let mut request = request(data);
        request.bookmark.object_set = ObjectSetId::MOS;
        request
    };
    let (old, new) = (noise(70 << 10, 5), noise(70 << 10, 6));
    let first = rig.write(&own(&old)).expect("in pieces");
    let again = WriteRequest {
        previous: first,
        pass: 2,
        ..own(&new)
    };
    let second = rig.write(&again).expect("room is not needed");
    assert!(second.same_block(&first));
    rig.pipeline.cache().clear();
    assert_eq!(&rig.read(&second).expect("just written")[..], &new[..]);
    free(&rig, &second);
}

#[test]
fn a_gang_with_long_headers_that_does_not_come_about_gives_everything_back() {
    let rig = Rig::of_long_gang_headers();
    rig.allocator.longest.store(4096, Ordering::Relaxed);
    let data = noise(300 << 10, 7);
    for room in (0..).step_by(4096) {
        rig.allocator.room.store(room, Ordering::Relaxed);
        if rig.write(&request(&data)).is_ok() {
            assert!(room > 300 << 10);
            return;
        }
        let live = rig.allocator.live.lock().unwrap();
        assert!(live.is_empty(), "of {room} bytes: {live:?}");
    }
}
