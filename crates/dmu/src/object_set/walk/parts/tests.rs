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
    assert!(!walks.note(3, 20, 1024));
    assert!(!walks.note(other, 20, 1024));
    assert!(!walks.note(3, 20, 1024));
    assert!(walks.note(3, 12, 1024));
}
