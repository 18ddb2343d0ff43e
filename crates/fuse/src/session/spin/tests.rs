use super::*;

const SHORT_NS: u64 = WINDOW_NS / 10;
const LONG_NS: u64 = WINDOW_NS * 10;

/// Requests of one thread, with these gaps between an answer and the next request.
fn after(gaps_ns: &[u64]) -> Pace {
    paced(gaps_ns.iter().map(|gap_ns| (1, *gap_ns)))
}

fn paced(requests: impl IntoIterator<Item = (u32, u64)>) -> Pace {
    let pace = Pace::default();
    let mut now_ns = 1_000_000_000;
    for (thread, gap_ns) in requests {
        now_ns += gap_ns;
        pace.arrived(thread, now_ns);
        now_ns += LONG_NS;
        pace.answered(now_ns);
    }
    pace
}

#[test]
fn requests_one_after_the_other_are_worth_looking_for() {
    assert!(!after(&[]).is_worth_looking());
    assert!(!after(&[LONG_NS; 100]).is_worth_looking());
    assert!(after(&[SHORT_NS; 10]).is_worth_looking());
}

#[test]
fn a_few_long_gaps_end_it() {
    let mut gaps = vec![SHORT_NS; 1000];
    gaps.extend([LONG_NS; 3]);
    assert!(!after(&gaps).is_worth_looking());
}

#[test]
fn a_rare_request_is_waited_for_asleep() {
    let gaps: Vec<_> = (0..100).flat_map(|_| [SHORT_NS, LONG_NS]).collect();
    assert!(!after(&gaps).is_worth_looking());
}

#[test]
fn callers_side_by_side_are_waited_for_asleep() {
    assert!(!paced((0..100).map(|index| (1 + index % 3, SHORT_NS))).is_worth_looking());
}

#[test]
fn what_the_kernel_forgets_in_between_changes_nothing() {
    assert!(paced((0..100).map(|index| (index % 2, SHORT_NS))).is_worth_looking());
}

#[test]
fn there_are_no_more_places_than_cores() {
    let places: Vec<_> = std::iter::from_fn(Place::take).collect();
    assert!(places.len() <= LOOKING_MAX && !places.is_empty());
    drop(places);
    assert!(Place::take().is_some());
}
