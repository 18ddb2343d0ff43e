use super::*;

const SECOND_NS: u64 = 1_000_000_000;
const CPUS: u64 = 4;

/// Looks for two seconds, while so much of a CPU is used by threads that answer and by others, and so many threads of
/// other programs could run.
fn looks(
    state: &mut State,
    from_s: u64,
    (answering, other): (f64, f64),
    others: &[u64],
) -> Vec<Target> {
    let steps = 20;
    let looks = (0..steps).zip(others.iter().cycle()).map(|(step, others)| {
        let part = |of: f64| (LOOK_NS as f64 * of) as u64;
        let used = CpuUse {
            all_ns: state.used.all_ns + part(answering + other),
            answering_ns: state.used.answering_ns + part(answering),
        };
        state.look(&Seen {
            at_ns: from_s * SECOND_NS + step * LOOK_NS,
            used,
            others: Some(*others),
            cpus: CPUS,
        })
    });
    looks.collect()
}

#[test]
fn who_answers_gets_more_soon_and_who_works_does_not() {
    for answering in [0.01, 0.5, 2.0] {
        let targets = looks(&mut State::default(), 10, (answering, 0.1), &[8]);
        assert_eq!(targets[0], Target::AsItIs, "after a pause");
        // One look shows a moment, a few are enough where many compute.
        assert!(targets[4..].iter().all(|target| *target == Target::More));
        let targets = looks(&mut State::default(), 10, (answering, 1.0), &[8]);
        assert!(targets[4..].iter().all(|target| *target == Target::Usual));
    }
}

#[test]
fn a_burst_of_work_changes_nothing_and_long_work_does() {
    let mut state = State::default();
    looks(&mut state, 10, (0.5, 0.0), &[8]);
    let seen = Seen {
        at_ns: state.looked_ns + LOOK_NS,
        used: CpuUse {
            all_ns: state.used.all_ns + LOOK_NS,
            ..state.used
        },
        others: Some(8),
        cpus: CPUS,
    };
    assert_ne!(state.look(&seen), Target::Usual);
    let targets = looks(&mut state, 13, (0.5, 1.0), &[8]);
    assert_eq!(targets.last(), Some(&Target::Usual));
    let targets = looks(&mut state, 15, (0.5, 0.0), &[8]);
    assert_eq!(targets.last(), Some(&Target::More));
}

#[test]
fn nobody_gets_more_while_cpus_are_free() {
    for others in [&[0][..], &[2, 1, 3], &[2]] {
        let targets = looks(&mut State::default(), 10, (0.5, 0.0), others);
        assert!(!targets.contains(&Target::More), "{others:?}");
    }
    let mut state = State::default();
    let targets = looks(&mut state, 10, (0.5, 0.0), &[6, 7, 5]);
    assert_eq!(targets.last(), Some(&Target::More));
    // One who rests for a moment changes nothing; all do.
    let targets = looks(&mut state, 12, (0.5, 0.0), &[6, 6, 6, 4]);
    assert!(!targets[8..].contains(&Target::Usual));
    // Fewer than CPUs, for longer: it is taken back.
    let targets = looks(&mut state, 14, (0.5, 0.0), &[3]);
    assert_eq!(targets.last(), Some(&Target::Usual));
    let targets = looks(&mut state, 16, (0.5, 0.0), &[6]);
    assert_eq!(targets.last(), Some(&Target::More));
    let targets = looks(&mut state, 18, (0.5, 0.0), &[1]);
    assert_eq!(targets.last(), Some(&Target::Usual));
}

/// A request that comes after a pause comes from a program that was started just now, by others.
#[test]
fn a_crowd_at_the_beginning_is_none() {
    let crowd = [12, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2];
    let targets = looks(&mut State::default(), 10, (0.5, 0.0), &crowd);
    assert!(!targets.contains(&Target::More), "{targets:?}");
}

#[test]
fn any_figures_are_taken() {
    let mut state = State::default();
    let none = Seen {
        at_ns: 0,
        used: CpuUse::default(),
        others: None,
        cpus: 0,
    };
    for seen in [
        Seen {
            at_ns: u64::MAX,
            used: CpuUse {
                all_ns: u64::MAX,
                answering_ns: 0,
            },
            others: Some(u64::MAX),
            cpus: 1,
        },
        none,
        Seen {
            used: CpuUse {
                all_ns: u64::MAX,
                answering_ns: 0,
            },
            ..none
        },
        none,
    ] {
        state.look(&seen);
    }
}
