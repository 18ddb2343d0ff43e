use super::*;

#[test]
fn a_part_is_swept_for_its_share_of_misses_and_each_time_for_twice_as_many() {
    let walks = Walks::new();
    let blocks = 1024;
    assert!(!walks.note(3, 31, blocks));
    assert!(walks.note(3, 1, blocks));
    assert!(!walks.note(3, 63, blocks));
    assert!(walks.note(3, 1, blocks));
    assert!(!walks.note(3, 127, blocks));
    assert!(walks.note(3, 1, blocks));
}

#[test]
fn a_small_array_is_swept_soon_but_not_for_one_block() {
    let walks = Walks::new();
    assert!(!walks.note(0, 3, 10));
    assert!(walks.note(0, 1, 10));
}

#[test]
fn parts_that_take_each_others_place_begin_anew() {
    let walks = Walks::new();
    let other = 3 + PARTS as u64;
    assert!(walks.note(3, 32, 1024));
    assert!(!walks.note(other, 31, 1024));
    assert!(walks.note(3, 32, 1024), "the second sweep would cost twice");
}

#[test]
fn what_is_missed_in_several_parts_pays_for_one_after_the_other() {
    let walks = Walks::new();
    assert!(!walks.note(0, 12, 1024));
    assert!(!walks.note(1, 12, 1024));
    assert!(walks.note(2, 12, 1024));
    assert!(!walks.note(0, 12, 1024));
    assert!(!walks.note(1, 12, 1024));
    assert!(walks.note(1, 4, 1024));
    // Not for a part where next to nothing was missed.
    assert!(!walks.note(3, 3, 64));
    assert!(walks.note(3, 1, 64));
}
