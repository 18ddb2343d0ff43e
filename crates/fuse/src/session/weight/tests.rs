use super::*;

const SECOND_NS: u64 = 1_000_000_000;

/// Looks for two seconds, while so much of a CPU is used by threads that answer and by others.
fn looks(state: &mut State, from_s: u64, (answering, other): (f64, f64)) -> Vec<Target> {
    let steps = 20;
    let looks = (0..steps).map(|step| {
        let now_ns = from_s * SECOND_NS + step * LOOK_NS;
        let part = |of: f64| (LOOK_NS as f64 * of) as u64;
        let used = CpuUse {
            all_ns: state.used.all_ns + part(answering + other),
            answering_ns: state.used.answering_ns + part(answering),
        };
        state.look(now_ns, used)
    });
    looks.collect()
}

#[test]
fn who_answers_gets_more_soon_and_who_works_does_not() {
    for answering in [0.01, 0.5, 2.0] {
        let targets = looks(&mut State::default(), 10, (answering, 0.1));
        assert_eq!(targets[0], Target::AsItIs, "after a pause");
        assert!(targets[1..].iter().all(|target| *target == Target::More));
        let targets = looks(&mut State::default(), 10, (answering, 1.0));
        assert!(targets[4..].iter().all(|target| *target == Target::Usual));
    }
}

#[test]
fn a_burst_of_work_changes_nothing_and_long_work_does() {
    let mut state = State::default();
    looks(&mut state, 10, (0.5, 0.0));
    let used = CpuUse {
        all_ns: state.used.all_ns + LOOK_NS,
        ..state.used
    };
    let now_ns = state.looked_ns + LOOK_NS;
    assert_ne!(state.look(now_ns, used), Target::Usual);
    let targets = looks(&mut state, 13, (0.5, 1.0));
    assert_eq!(targets.last(), Some(&Target::Usual));
    let targets = looks(&mut state, 15, (0.5, 0.0));
    assert_eq!(targets.last(), Some(&Target::More));
}

#[test]
fn any_figures_are_taken() {
    let mut state = State::default();
    let used = CpuUse {
        all_ns: u64::MAX,
        answering_ns: 0,
    };
    state.look(u64::MAX, used);
    state.look(0, CpuUse::default());
    state.look(0, used);
}
