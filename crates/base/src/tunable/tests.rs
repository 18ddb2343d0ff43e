use super::*;
use crate::random::SeededRng;

#[test]
fn a_value_outside_the_bounds_becomes_the_nearest_within() {
    static OBJECTS_MAX: Tunable = Tunable::new("test.objects_max", 100, 10, 1_000);
    OBJECTS_MAX.set(1);
    assert_eq!(OBJECTS_MAX.get(), 10);
    OBJECTS_MAX.set(u64::MAX);
    assert_eq!(OBJECTS_MAX.count(), 1_000);
    OBJECTS_MAX.reset();
    assert_eq!(OBJECTS_MAX.get(), 100);
}

#[test]
fn draws_give_the_least_the_default_and_sizes_beyond_it() {
    static BATCH_BYTES: Tunable = Tunable::new("test.batch_bytes", 4_096, 1, u64::MAX);
    let random = SeededRng::new(1);
    let drawn: Vec<u64> = (0..1_000)
        .map(|_| {
            BATCH_BYTES.draw(&random);
            BATCH_BYTES.get()
        })
        .collect();
    let count = |holds: &dyn Fn(u64) -> bool| drawn.iter().filter(|&&value| holds(value)).count();
    assert!(count(&|value| value == 4_096) > 200);
    assert!(count(&|value| value < 5) > 200);
    assert!(count(&|value| value > 4_096) > 20);
    assert!(count(&|value| (5..4_096).contains(&value)) > 100);
    let again = SeededRng::new(1);
    BATCH_BYTES.draw(&again);
    assert_eq!(BATCH_BYTES.get(), drawn[0]);
}

#[test]
fn one_seed_means_the_same_whatever_else_is_there() {
    static ONE: Tunable = Tunable::new("test.one", 64, 1, 1 << 30);
    static OTHER: Tunable = Tunable::new("test.other", 64, 1, 1 << 30);
    let mut differ = false;
    for seed in 0..50 {
        draw_all(&[&ONE, &OTHER], seed);
        let (one, other) = (ONE.get(), OTHER.get());
        differ |= one != other;
        ONE.reset();
        draw_all(&[&ONE], seed);
        assert_eq!((ONE.get(), OTHER.get()), (one, other));
    }
    assert!(differ, "each is drawn for itself");
}

#[test]
fn a_text_sets_what_it_names_and_nothing_when_it_is_not_understood() {
    static ROOM: Tunable = Tunable::new("test.room", 64, 1, 1 << 30);
    static AGE_NS: Tunable = Tunable::new("test.age_ns", 5, 1, 1 << 30);
    let all = [&ROOM, &AGE_NS];
    AGE_NS.set(9);
    assert_eq!(set_all(&all, "test.room=7"), Ok(()));
    assert_eq!((ROOM.get(), AGE_NS.get()), (7, 5), "others by default");
    for text in ["test.room=8,test.rom=1", "test.room=", "usual", ""] {
        assert!(set_all(&all, text).is_err(), "{text}");
        assert_eq!(ROOM.get(), 7);
    }
    assert_eq!(set_all(&all, "default"), Ok(()));
    assert_eq!(ROOM.get(), 64);
    assert_eq!(set_all(&all, "12"), Ok(()));
    let drawn = ROOM.get();
    draw_all(&all, 12);
    assert_eq!(ROOM.get(), drawn);
}
