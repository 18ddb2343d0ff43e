//! Courses: what is under way and what waits, through changes of the datasets.

use super::*;
use crate::scan::phys::{FUNCTION_SCRUB, STATE_SCANNING};

const EVERYTHING: fn(ObjectId) -> bool = |_| true;

fn scan() -> ScanPhys {
    ScanPhys {
        function: FUNCTION_SCRUB,
        state: STATE_SCANNING,
        txg_max: 100,
        ..ScanPhys::default()
    }
}

/// A course that has 7 (from txg 10 to 20) under way, 8 and 9 in the queue.
fn half_way() -> Course {
    let mut course = Course::begin(scan());
    course.finished(0, &[(ObjectId(7), Txg(10))], &scan());
    course.set_until(1, Txg(20));
    course.queue.insert(ObjectId(8), Txg(20));
    course.queue.insert(ObjectId(9), Txg(10));
    let place = Place::of_bookmark(40, 0, 5);
    course.came_to(
        1,
        place,
        &ScanPhys {
            examined: 77,
            ..scan()
        },
    );
    course
}

fn target(course: &Course) -> Target {
    course.leg().unwrap().1.target
}

#[test]
fn what_is_stored_goes_on_where_it_was() {
    let course = half_way();
    let later = ScanPhys {
        examined: 99,
        ..scan()
    };
    let (stored, queue) = course.stored(&later);
    assert_eq!(stored.bookmark, [7, 40, 0, 5]);
    assert_eq!((stored.current_min, stored.current_max), (10, 20));
    // The counts are those of the place.
    assert_eq!(stored.examined, 77);
    let resumed = Course::resume(stored, queue.clone(), &EVERYTHING);
    assert_eq!(resumed.leg().unwrap().1, course.leg().unwrap().1);
    assert_eq!(resumed.stored(&stored), (stored, queue));
}

#[test]
fn places_that_cannot_be_stored_leave_the_last_one() {
    let mut course = half_way();
    let indirect = Place::of_bookmark(41, 3, 0);
    assert_eq!(indirect.bookmark(), None);
    course.came_to(
        1,
        indirect,
        &ScanPhys {
            examined: 88,
            ..scan()
        },
    );
    let (stored, _) = course.stored(&scan());
    assert_eq!((stored.bookmark, stored.examined), ([7, 40, 0, 5], 77));
}

#[test]
fn a_snapshot_takes_the_place_of_its_head() {
    let mut course = half_way();
    let taken = |head, snapshot| Succession::Taken {
        head: ObjectId(head),
        snapshot: ObjectId(snapshot),
    };
    course.follow(taken(7, 70));
    course.follow(taken(8, 80));
    assert_eq!(target(&course), Target::Dataset(ObjectId(70)));
    let (stored, queue) = course.stored(&scan());
    assert_eq!(stored.bookmark, [70, 40, 0, 5]);
    assert_eq!(
        queue,
        BTreeMap::from([(ObjectId(9), Txg(10)), (ObjectId(80), Txg(20))])
    );
}

#[test]
fn a_snapshot_destroyed_half_way_has_its_successor_seen_twice() {
    let mut course = half_way();
    course.follow(Succession::Merged {
        snapshot: ObjectId(7),
        taken: Txg(20),
        next: ObjectId(71),
    });
    let (stored, queue) = course.stored(&scan());
    assert_eq!((stored.bookmark[0], stored.flags), (71, FLAG_AGAIN));
    let mut course = Course::resume(stored, queue, &EVERYTHING);
    // The successors of 71 come when it was seen for its own blocks.
    course.finished(0, &[(ObjectId(72), Txg(30))], &scan());
    assert_eq!(course.queue.get(&ObjectId(71)), Some(&Txg(20)));
    assert_eq!(course.queue.get(&ObjectId(72)), None);
}

#[test]
fn a_snapshot_that_another_took_the_place_of_is_not_lost() {
    let mut course = half_way();
    let (epoch, leg) = course.leg().unwrap();
    assert!(course.is_at(epoch, leg.target));
    course.follow(Succession::Merged {
        snapshot: ObjectId(7),
        taken: Txg(20),
        next: ObjectId(71),
    });
    assert_eq!(course.leg().map(|(now, _)| now), Some(epoch));
    assert!(!course.is_at(epoch, leg.target));
    assert!(course.is_at(epoch, Target::Dataset(ObjectId(71))));
    assert!(!course.is_at(epoch + 1, Target::Dataset(ObjectId(71))));
}

#[test]
fn a_head_that_is_destroyed_is_seen_no_more() {
    let mut course = half_way();
    course.follow(Succession::Gone { head: ObjectId(9) });
    course.follow(Succession::Gone { head: ObjectId(7) });
    assert_eq!(target(&course), Target::Dataset(ObjectId(8)));
    // A walk that was under way meanwhile changes nothing.
    course.came_to(1, Place::of_bookmark(50, 0, 0), &scan());
    course.finished(1, &[(ObjectId(99), Txg(1))], &scan());
    assert_eq!(course.stored(&scan()).0.bookmark, [8, 0, 0, 0]);
    course.follow(Succession::Gone { head: ObjectId(8) });
    assert_eq!(course.leg(), None);
}

#[test]
fn contents_that_are_exchanged_are_followed() {
    let mut course = half_way();
    let exchange = |one, other| Succession::Exchanged {
        one: ObjectId(one),
        other: ObjectId(other),
    };
    course.follow(exchange(7, 90));
    course.follow(exchange(91, 8));
    assert_eq!(target(&course), Target::Dataset(ObjectId(90)));
    assert_eq!(course.queue.get(&ObjectId(91)), Some(&Txg(20)));
    assert_eq!(course.queue.get(&ObjectId(8)), None);
}

#[test]
fn datasets_that_are_gone_are_passed_over_at_import() {
    let (stored, queue) = half_way().stored(&scan());
    let exists = |id: ObjectId| id == ObjectId(9);
    let course = Course::resume(stored, queue, &exists);
    assert_eq!(target(&course), Target::Dataset(ObjectId(9)));
    // Nothing is known of where it was: from the beginning.
    let course = Course::resume(stored, BTreeMap::new(), &|_| false);
    assert_eq!(target(&course), Target::Meta);
}
