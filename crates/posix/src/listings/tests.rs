use super::*;

const DIRECTORY: ObjectId = ObjectId(7);

fn ids(numbers: impl IntoIterator<Item = u64>) -> impl Iterator<Item = ObjectId> {
    numbers.into_iter().map(ObjectId)
}

#[test]
fn the_second_file_of_a_listing_that_is_loaded_asks_for_all_of_it_once() {
    let listings = Listings::new();
    listings.note(DIRECTORY, true, ids([30, 10, 20]));
    listings.note(DIRECTORY, false, ids([40]));
    assert_eq!(listings.loading(ObjectId(15)), None, "nobody listed it");
    assert_eq!(listings.loading(ObjectId(20)), None);
    let asked = listings.loading(ObjectId(40));
    assert_eq!(asked, Some(ids([10, 20, 30, 40]).collect()));
    assert_eq!(listings.loading(ObjectId(10)), None);
    assert_eq!(listings.loading(ObjectId(30)), None);
}

#[test]
fn listings_whose_numbers_lie_among_each_other_are_told_apart() {
    let listings = Listings::new();
    let far = (8..100).map(ObjectId).find(|other| {
        listings.note(DIRECTORY, true, ids([10, 30]));
        listings.note(*other, true, ids([20, 40]));
        let shown = listings.places.iter();
        shown.filter(|place| place.may_have(ObjectId(25))).count() == 2
    });
    assert!(far.is_some());
    assert_eq!(listings.loading(ObjectId(20)), None);
    assert_eq!(listings.loading(ObjectId(10)), None);
    assert_eq!(
        listings.loading(ObjectId(40)),
        Some(ids([20, 40]).collect())
    );
    assert_eq!(
        listings.loading(ObjectId(30)),
        Some(ids([10, 30]).collect())
    );
}

#[test]
fn a_listing_is_remembered_up_to_its_limit() {
    tunables::LISTED_MAX.set(4);
    let listings = Listings::new();
    listings.note(DIRECTORY, true, ids(0..3));
    listings.note(DIRECTORY, false, ids(3..9));
    tunables::LISTED_MAX.reset();
    assert_eq!(listings.loading(ObjectId(4)), None);
    assert_eq!(listings.loading(ObjectId(1)), None);
    assert_eq!(
        listings.loading(ObjectId(2)),
        Some(ids(0..4).collect::<Vec<_>>())
    );
}

#[test]
fn a_directory_listed_again_is_noted_anew() {
    let listings = Listings::new();
    listings.note(DIRECTORY, true, ids([1, 2, 3]));
    assert_eq!(listings.loading(ObjectId(1)), None);
    listings.note(DIRECTORY, true, ids([2, 3]));
    assert_eq!(listings.loading(ObjectId(1)), None);
    assert_eq!(listings.loading(ObjectId(2)), None);
    assert_eq!(listings.loading(ObjectId(3)), Some(ids([2, 3]).collect()));
}
