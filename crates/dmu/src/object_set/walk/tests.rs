use super::*;

#[test]
fn what_is_no_block_of_dnodes_leads_nowhere() {
    let set = base::ObjectSetId(1);
    let noise = [0xA5; 1000];
    for place in [
        Bookmark::root(set),
        Bookmark::new(set, ObjectId(0), 1, 0),
        Bookmark::new(set, ObjectId(9), 0, 0),
        Bookmark::spill(set, ObjectId(9)),
    ] {
        assert_eq!(read_by_walks(&noise, place), Vec::new());
    }
    // Whatever it says, it says it without a panic.
    let _ = read_by_walks(&noise, Bookmark::new(set, ObjectId(0), 0, u64::MAX));
    let _ = read_by_walks(&noise, Bookmark::new(set, ObjectId(9), 2, u64::MAX));
}
