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
            let piece = piece_size(remaining, slot);
            assert_eq!(piece % PIECE_UNIT, 0);
            remaining -= piece;
        }
        assert_eq!(remaining, 0);
    }
}
