use super::{Births, may_be_rewritten};
use base::{Txg, VdevId};
use format::block_pointer::Dva;
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

/// A block that `zfs rewrite -P` wrote after a snapshot is not that of the snapshot, however old its contents are.
#[test]
fn what_was_written_anew_is_not_older_than_that() {
    let births = Births {
        tree_after: Txg(28),
        after: Txg(0),
        until: Txg(100),
    };
    let mut block = born(25);
    let place = Dva {
        vdev: VdevId(0),
        offset: 1 << 20,
        asize: 4096,
        gang: false,
    };
    block.set_dva(0, Some(place));
    assert!(births.is_old(&block));
    block.set_rewritten_birth(Txg(25), Txg(29));
    assert!(!births.is_old(&block) && births.count(&block));
    // One more pointer to it, of a copy that was made then.
    block.set_birth(Txg(28), Txg(25));
    assert!(births.is_old(&block));
}
