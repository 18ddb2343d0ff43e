use super::*;

#[test]
fn a_higher_level_is_an_array_of_words() {
    let mut block = [1, 2, 3, 4, 5, 6, 7, 8, 9];
    super::block(ObjectType::PLAIN_FILE, 0, &mut block);
    assert_eq!(block, [1, 2, 3, 4, 5, 6, 7, 8, 9]);
    super::block(ObjectType::PLAIN_FILE, 1, &mut block);
    assert_eq!(block, [8, 7, 6, 5, 4, 3, 2, 1, 9]);
}
