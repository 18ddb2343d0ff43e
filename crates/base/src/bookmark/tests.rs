use super::*;

#[test]
fn blocks_are_named_as_the_format_numbers_them() {
    let (set, object) = (ObjectSetId(54), ObjectId(7));
    let text = |bookmark: Bookmark| bookmark.to_string();
    assert_eq!(
        text(Bookmark::new(set, object, 1, 9)),
        "object set 54, object 7, level 1, block 9"
    );
    assert_eq!(
        text(Bookmark::spill(set, object)),
        "object set 54, object 7, level 0, block -2"
    );
    assert_eq!(
        text(Bookmark::root(set)),
        "object set 54, object 0, level -1, block 0"
    );
}
