use super::*;

#[test]
fn pointers_that_say_too_much_are_added_up_all_the_same() {
    let mut pointer = BlockPointer::default();
    pointer.set_fill(u64::MAX >> 1);
    let kind = ObjectType::DNODE;
    let mut dnode = DnodePhys::new(kind, 512, 17, kind, 0, 1);
    dnode.pointer_count = 3;
    dnode.pointers.fill(pointer);
    assert_eq!(fill_of(&dnode), u64::MAX);
    dnode.pointer_count = 1;
    assert_eq!(fill_of(&dnode), u64::MAX >> 1);
}
