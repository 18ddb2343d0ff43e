use super::*;

fn missed(ranges: &[(u64, u64)]) -> Missed {
    let mut missed = Missed::default();
    missed.set(
        ranges
            .iter()
            .map(|(first, count)| (Txg(*first), *count))
            .collect(),
    );
    missed
}

fn ranges(missed: &Missed) -> Vec<(u64, u64)> {
    missed
        .ranges()
        .iter()
        .map(|(first, count)| (first.0, count))
        .collect()
}

#[test]
fn a_resilver_forgets_what_it_saw_and_nothing_else() {
    let mut missed = missed(&[(5, 3), (20, 1)]);
    missed.begin(Pass::Resilver);
    // A block of txg 6 cannot be written; txg 7, which was missed already, is missed again, behind the resilver.
    missed.note_left(Txg(6));
    assert!(!missed.note(Txg(7)));
    assert!(missed.note(Txg(30)));
    assert_eq!(ranges(&missed), [(5, 3), (20, 1), (30, 1)]);
    assert!(missed.end(Pass::Resilver));
    assert_eq!(ranges(&missed), [(6, 2), (30, 1)]);
    // None has begun.
    assert!(!missed.end(Pass::Resilver));
    assert_eq!(ranges(&missed), [(6, 2), (30, 1)]);
}

#[test]
fn what_was_not_seen_stays_missing() {
    let mut missed = missed(&[(5, 3), (20, 5)]);
    missed.note_left_through(Txg(100));
    missed.begin(Pass::Resilver);
    missed.note_left_through(Txg(4));
    missed.note_left_through(Txg(21));
    missed.end(Pass::Resilver);
    assert_eq!(ranges(&missed), [(5, 3), (20, 2)]);
}

#[test]
fn what_a_leaf_gave_wrong_counts_once_it_is_known_that_it_had_not_missed_it() {
    let mut missed = missed(&[]);
    assert!(missed.note_wrong(Txg(3)), "nothing is awaited");
    missed.await_known();
    for birth in [4, 5, 6, 6, 9] {
        assert!(!missed.note_wrong(Txg(birth)));
    }
    missed.set([(Txg(5), 3)].into_iter().collect());
    missed.note(Txg(9));
    assert_eq!(missed.known(), 1, "only that of 4");
    assert_eq!(missed.known(), 0, "once");
    assert!(missed.note_wrong(Txg(6)));
}

#[test]
fn more_than_can_wait_counts_at_once() {
    let mut missed = missed(&[]);
    missed.await_known();
    let at_once = (0..UNDECIDED_MAX + 7).filter(|_| missed.note_wrong(Txg(8)));
    assert_eq!(at_once.count(), 7);
    assert_eq!(missed.known(), UNDECIDED_MAX as u64);
}

#[test]
fn a_resilver_does_not_end_what_a_rebuild_began() {
    let mut missed = missed(&[(5, 3)]);
    missed.begin(Pass::Rebuild);
    missed.begin(Pass::Resilver);
    assert!(missed.is_in(Pass::Rebuild));
    assert!(!missed.end(Pass::Resilver));
    missed.leave(Pass::Resilver);
    assert!(missed.end(Pass::Rebuild));
    assert_eq!(ranges(&missed), []);
}
