//! What a bookmark says of the blocks of a tree.

use super::{FreedTo, PROJECT, ROOT_LEVEL, SPILL_BLOCK, TreePlace, USER};

const NO_SET: u64 = u64::MAX;

fn place(object: u64, level: u8, block: u64) -> TreePlace {
    TreePlace {
        object,
        level,
        block,
        entries_shift: 7,
    }
}

#[test]
fn what_comes_before_a_bookmark_was_freed_and_what_leads_to_it_was_not() {
    let bookmark = [NO_SET, 70, 0, 300];
    let expected = [
        (place(70, 0, 300), FreedTo::Children),
        (place(70, 0, 299), FreedTo::All),
        (place(70, 0, 301), FreedTo::Nothing),
        // Blocks 256 to 383, those before, and those behind.
        (place(70, 1, 2), FreedTo::Nothing),
        (place(70, 1, 1), FreedTo::All),
        (place(70, 1, 3), FreedTo::Nothing),
        (place(70, 2, 0), FreedTo::Nothing),
        (place(70, 0, SPILL_BLOCK), FreedTo::Nothing),
        (place(69, 0, SPILL_BLOCK), FreedTo::All),
        (place(69, 3, 0), FreedTo::All),
        (place(71, 0, 0), FreedTo::Nothing),
        // Dnodes 64 to 95, those before, and all of them.
        (place(0, 0, 2), FreedTo::Nothing),
        (place(0, 0, 1), FreedTo::All),
        (place(0, 1, 0), FreedTo::Nothing),
        (place(PROJECT, 0, 0), FreedTo::Nothing),
        (place(USER, 0, 0), FreedTo::Nothing),
    ];
    for (place, freed) in expected {
        assert_eq!(place.freed_to(&bookmark), freed, "{place:?}");
    }
}

#[test]
fn dnodes_go_after_their_objects_and_before_those_that_account() {
    let bookmark = [NO_SET, 0, 0, 2];
    for object in [64, 70, 95] {
        assert_eq!(place(object, 0, 5).freed_to(&bookmark), FreedTo::All);
        assert_eq!(place(object, 2, 0).freed_to(&bookmark), FreedTo::All);
    }
    assert_eq!(place(0, 0, 2).freed_to(&bookmark), FreedTo::Children);
    assert_eq!(place(96, 0, 0).freed_to(&bookmark), FreedTo::Nothing);
    assert_eq!(place(PROJECT, 0, 0).freed_to(&bookmark), FreedTo::Nothing);
    let accounting = [NO_SET, USER, 0, 1];
    assert_eq!(place(0, 2, 0).freed_to(&accounting), FreedTo::All);
    assert_eq!(place(PROJECT, 1, 0).freed_to(&accounting), FreedTo::All);
}

#[test]
fn the_first_and_the_last_bookmark_and_numbers_at_their_limits() {
    assert_eq!(place(0, 0, 0).freed_to(&[0; 4]), FreedTo::Nothing);
    let root = [NO_SET, 0, ROOT_LEVEL, 0];
    assert_eq!(place(USER, 0, 9).freed_to(&root), FreedTo::All);
    for number in [0, 1, u64::MAX - 1, u64::MAX] {
        for level in [0, 6, u8::MAX] {
            let _ = place(number, level, number).freed_to(&[number; 4]);
            let _ = place(number, level, number).child(number);
        }
    }
}
