use super::*;

/// Files that come and go while there is room for all leave no numbers behind.
#[test]
fn the_ring_is_as_long_as_there_are_files() {
    let mut ring = Ring::default();
    for round in 0..100_000u64 {
        let present = [1, 2, 3, round + 10];
        ring.enter(round + 10, present.into_iter());
        assert!(ring.numbers.len() <= 100);
        assert!(ring.numbers.contains(&(round + 10)));
    }
    ring.enter(
        7,
        (0..200)
            .map(|number| number + 1)
            .collect::<Vec<_>>()
            .into_iter(),
    );
    ring.hand = 1000;
    assert!(ring.next().is_some());
    ring.numbers.clear();
    assert_eq!(ring.next(), None);
}
