use base::{Txg, VdevId};
use format::dedup::DedupBlock;
use format::{BlockPointer, Dva, ObjectType};

use super::References;

fn pointer(offsets: &[u64]) -> BlockPointer {
    let mut pointer = BlockPointer::for_block(ObjectType::PLAIN_FILE, 0, 8192, 4096);
    pointer.set_birth(Txg(9), Txg(9));
    for (index, offset) in offsets.iter().enumerate() {
        let dva = Dva {
            vdev: VdevId(0),
            offset: *offset,
            asize: 4096,
            gang: false,
        };
        pointer.set_dva(index, Some(dva));
    }
    pointer
}

/// OpenZFS adds copies to an entry of the newer kind when it is written with more; pointers made before lead to the
/// first alone, and the space of all is the entry's.
#[test]
fn a_block_has_the_copies_that_its_entry_has() {
    let mut references = References::new(2);
    let (one, two) = (pointer(&[0x4000]), pointer(&[0x4000, 0x9000]));
    assert_eq!(references.whole(&one), one);
    references.entry = Some(DedupBlock::of(&two));
    assert_eq!(references.whole(&one), two);
    assert_eq!(references.whole(&two), two);
    references.entry = Some(DedupBlock::of(&one));
    assert_eq!(references.whole(&two), two);
}
