use base::{Txg, VdevId};

use super::*;
use crate::object_type::ObjectType;

#[test]
fn a_header_verifies_only_at_its_own_address() {
    let mut leader = BlockPointer::for_block(ObjectType::PLAIN_FILE, 0, 131_072, 131_072);
    let dva = Dva {
        vdev: VdevId(1),
        offset: 4096,
        asize: 512,
        gang: true,
    };
    leader.set_dvas(&[dva]);
    leader.set_birth(Txg(9), Txg(9));
    let mut header = GangHeader::default();
    header.members[0] = BlockPointer::for_block(ObjectType::NONE, 0, 512, 512);
    header.members[0].set_dvas(&[Dva { gang: false, ..dva }]);
    let block = header.encode(&leader);
    assert_eq!(GangHeader::decode(&block, &leader).unwrap(), header);
    assert_eq!(header.used().count(), 1);
    leader.set_birth(Txg(10), Txg(10));
    assert!(GangHeader::decode(&block, &leader).is_err());
    assert!(GangHeader::decode(&block[..500], &leader).is_err());
}

#[test]
fn pieces_are_whole_sectors_and_add_up() {
    for total in (512..=1 << 20).step_by(512) {
        let mut remaining = total;
        for slot in 0..MEMBER_COUNT {
            let piece = least_piece(remaining, MEMBER_COUNT - slot, PIECE_UNIT);
            assert_eq!(piece % PIECE_UNIT, 0);
            remaining -= piece;
        }
        assert_eq!(remaining, 0);
    }
}

/// The header of an encrypted block that zdb 2.3.9 reads: half of its sum is folded into the other half.
#[test]
fn the_header_of_an_encrypted_block_has_half_a_sum() {
    let dva = Dva {
        vdev: VdevId(0),
        offset: 0x2e_d800,
        asize: 0x4800,
        gang: true,
    };
    let leader = |object_type, encrypted| {
        let mut leader = BlockPointer::for_block(object_type, 0, 16_384, 16_384);
        leader.set_birth(Txg(135), Txg(135));
        if encrypted {
            leader.set_encrypted();
        }
        leader.set_dvas(&[dva]);
        leader
    };
    let mut header = GangHeader::default();
    header.members[0] = BlockPointer::for_block(ObjectType::NONE, 0, 512, 512);
    header.members[0].set_dvas(&[Dva { gang: false, ..dva }]);
    let plain = leader(ObjectType::DNODE, false);
    let whole = header.encode(&plain);
    let words = |block: &[u8]| {
        GangAreas::AT
            .checksum
            .get(block, ByteOrder::NATIVE)
            .checksum
    };
    let [a, b, c, d] = words(&whole);
    for object_type in [ObjectType::DNODE, ObjectType::PLAIN_FILE] {
        let sealed = leader(object_type, true);
        let block = header.encode(&sealed);
        assert_eq!(words(&block), [a ^ c, b ^ d, 0, 0]);
        assert_eq!(GangHeader::decode(&block, &sealed).unwrap(), header);
        assert!(GangHeader::decode(&block, &plain).is_err());
        // As it was written once.
        assert_eq!(GangHeader::decode(&whole, &sealed).unwrap(), header);
        let mut other = block.clone();
        other[3] ^= 1;
        assert!(GangHeader::decode(&other, &sealed).is_err());
    }
    // The code of a root block is inside of it, and nothing is folded.
    let root = leader(ObjectType::OBJECT_SET, true);
    assert_eq!(header.encode(&root), whole);
}

/// Of 2.4: as many pointers as fit before the checksum, which is at the end. A reader that knows how long it may be
/// also finds one of 512 bytes there.
#[test]
fn headers_are_as_long_as_an_allocation() {
    let mut leader = BlockPointer::for_block(ObjectType::PLAIN_FILE, 0, 131_072, 131_072);
    let dva = Dva {
        vdev: VdevId(1),
        offset: 0x31_0000,
        asize: 0x2_2000,
        gang: true,
    };
    leader.set_dvas(&[dva]);
    leader.set_birth(Txg(16), Txg(16));
    for (size, count, magic) in [
        (512, 3, 0x1d8),
        (4096, 31, 0xfd8),
        (12_288, 95, 0x2fd8),
        (16_384, 127, 0x3fd8),
    ] {
        let mut header = GangHeader::of_size(size);
        assert_eq!((header.size(), header.members.len()), (size, count));
        for (slot, member) in header.members.iter_mut().enumerate() {
            *member = BlockPointer::for_block(ObjectType::NONE, 0, 512, 512);
            let offset = slot as u64 * 512;
            member.set_dvas(&[Dva {
                offset,
                asize: 512,
                gang: false,
                ..dva
            }]);
        }
        let block = header.encode(&leader);
        assert_eq!(block.len(), size);
        let found: u64 = get_at(&block, magic, ByteOrder::NATIVE);
        assert_eq!(found, embedded_checksum::MAGIC);
        assert_eq!(GangHeader::decode(&block, &leader).unwrap(), header);
        let mut damaged = block.clone();
        damaged[size - 100] ^= 1;
        assert!(GangHeader::decode(&damaged, &leader).is_err());
        let mut encrypted = leader;
        encrypted.set_encrypted();
        let folded = header.encode(&encrypted);
        assert_ne!(folded, block);
        assert_eq!(GangHeader::decode(&folded, &encrypted).unwrap(), header);
        // A part of it is no header.
        assert!(size == SIZE || GangHeader::decode(&block[..SIZE], &leader).is_err());

        let short = GangHeader::default();
        let mut in_place = short.encode(&leader);
        in_place.resize(size, 0);
        assert_eq!(GangHeader::decode(&in_place, &leader).unwrap(), short);
    }
}
