use super::may_be_rewritten;
use base::Txg;
use format::{BlockPointer, ObjectType};

fn born(txg: u64) -> BlockPointer {
    let mut block = BlockPointer::for_block(ObjectType::DNODE, 0, 16_384, 4096);
    block.set_birth(Txg(txg), Txg(txg));
    block
}

/// Who cannot read a block that may be rewritten tries again: of a forged pointer that would have no end.
#[test]
fn only_txgs_under_way_rewrite_blocks() {
    let held = Txg(100);
    for (birth, expected) in [
        (1, false),
        (100, false),
        (101, true),
        (103, true),
        (104, false),
        (u64::MAX, false),
    ] {
        assert_eq!(may_be_rewritten(&born(birth), held), expected, "{birth}");
    }
    assert!(!may_be_rewritten(&born(7), Txg(u64::MAX)));
}
