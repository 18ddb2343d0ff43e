use super::HandOver;

#[test]
fn the_last_user_knows_and_nobody_joins_after_it() {
    let place = HandOver::new();
    assert!(place.join());
    assert!(!place.leave());
    assert!(place.leave());
    assert!(!place.join());
}

#[test]
fn readers_of_its_own_begin_once() {
    let place = HandOver::new();
    assert!(place.begin_own() && place.has_own());
    assert!(!place.begin_own());
    place.end_own();
    assert!(place.begin_own());
}
