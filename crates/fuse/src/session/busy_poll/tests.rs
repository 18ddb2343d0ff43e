use super::*;

const SHORT_NS: u64 = WINDOW_NS / 10;
const LONG_NS: u64 = WINDOW_NS * 10;

/// Requests of one thread, with these gaps between an answer and the next request.
fn after(gaps_ns: &[u64]) -> ArrivalRate {
    paced(gaps_ns.iter().map(|gap_ns| (1, *gap_ns)))
}

fn paced(requests: impl IntoIterator<Item = (u32, u64)>) -> ArrivalRate {
    let arrivals = ArrivalRate::default();
    let mut now_ns = 1_000_000_000;
    for (thread, gap_ns) in requests {
        now_ns += gap_ns;
        arrivals.arrived(thread, now_ns);
        now_ns += LONG_NS;
        arrivals.answered(now_ns);
    }
    arrivals
}

#[test]
fn requests_one_after_the_other_are_worth_looking_for() {
    assert!(!after(&[]).is_worth_polling());
    assert!(!after(&[LONG_NS; 100]).is_worth_polling());
    assert!(after(&[SHORT_NS; 10]).is_worth_polling());
}

#[test]
fn a_few_long_gaps_end_it() {
    let mut gaps = vec![SHORT_NS; 1000];
    gaps.extend([LONG_NS; 3]);
    assert!(!after(&gaps).is_worth_polling());
}

#[test]
fn a_rare_request_is_waited_for_asleep() {
    let gaps: Vec<_> = (0..100).flat_map(|_| [SHORT_NS, LONG_NS]).collect();
    assert!(!after(&gaps).is_worth_polling());
}

#[test]
fn callers_side_by_side_are_waited_for_asleep() {
    assert!(!paced((0..100).map(|index| (1 + index % 3, SHORT_NS))).is_worth_polling());
}

#[test]
fn what_the_kernel_forgets_in_between_changes_nothing() {
    assert!(paced((0..100).map(|index| (index % 2, SHORT_NS))).is_worth_polling());
}

#[test]
fn there_are_no_more_places_than_cores() {
    let places: Vec<_> = std::iter::from_fn(Place::take).collect();
    assert!(places.len() <= POLLING_MAX && !places.is_empty());
    drop(places);
    assert!(Place::take().is_some());
}

const MILLISECOND_NS: u64 = 1_000_000;
const SECOND_NS: u64 = 1000 * MILLISECOND_NS;

/// A second of callers that ask one after the other, beside programs that compute: of the polls, how many end with a
/// request rather than with a slice of theirs; what part of the time was lost, and how many polls there were.
fn second_of_polls(account: &Account, slice_ns: u64, caught_of_thousand: u64) -> (f64, u64) {
    const CAUGHT_NS: u64 = 30_000;
    const ASLEEP_NS: u64 = 60_000;
    let (mut now_ns, mut lost_ns, mut polls) = (SECOND_NS, 0, 0);
    while now_ns < 2 * SECOND_NS {
        if !account.allows(now_ns) {
            now_ns += ASLEEP_NS;
            continue;
        }
        polls += 1;
        if polls * caught_of_thousand % 1000 < caught_of_thousand {
            account.saved();
            now_ns += CAUGHT_NS;
        } else {
            now_ns += slice_ns;
            lost_ns += slice_ns;
            account.lost(slice_ns, now_ns);
        }
    }
    (lost_ns as f64 / SECOND_NS as f64, polls)
}

#[test]
fn where_others_compute_looking_ends() {
    for slice_ms in [1, 3, 12] {
        // Half of the polls cost a slice, or nearly all of them.
        for caught_of_thousand in [500, 100, 0] {
            let account = Account::new();
            let slice_ns = slice_ms * MILLISECOND_NS;
            let (lost, polls) = second_of_polls(&account, slice_ns, caught_of_thousand);
            assert!(lost < 0.035, "{slice_ms} ms, {caught_of_thousand}: {lost}");
            assert!(polls < 100, "{slice_ms} ms, {caught_of_thousand}: {polls}");
        }
    }
}

#[test]
fn it_is_tried_again_later_and_later_and_goes_on_when_they_are_gone() {
    let account = Account::new();
    let mut now_ns = SECOND_NS;
    let mut closed_ns = Vec::new();
    for _ in 0..20 {
        account.lost(MILLISECOND_NS, now_ns);
        assert!(!account.allows(now_ns));
        // The other reader that polled was away as well; that is the same try.
        account.lost(MILLISECOND_NS, now_ns);
        let until_ns = account.closed_until_ns.load(Ordering::Relaxed);
        closed_ns.push(until_ns - now_ns);
        now_ns = until_ns;
        assert!(account.allows(now_ns));
    }
    assert!(
        closed_ns.is_sorted() && closed_ns[5] > 8 * closed_ns[0],
        "{closed_ns:?}"
    );
    assert!(closed_ns[19] <= CLOSED_NS_MAX);
    while account.saved_ns.load(Ordering::Relaxed) < POLLS_SAVED_NS_MAX.default() {
        account.saved();
    }
    account.lost(POLLS_SAVED_NS_MAX.default() + MILLISECOND_NS, now_ns);
    let again_ns = MILLISECOND_NS * POLLS_LOSS_PARTS.default();
    assert!(account.allows(now_ns + again_ns), "as at the first time");
    let (lost, polls) = second_of_polls(&Account::new(), MILLISECOND_NS, 1000);
    assert!(lost == 0.0 && polls > 30_000);
}

#[test]
fn a_slice_now_and_then_ends_nothing_that_pays() {
    // Our own txg's threads: one poll in a thousand.
    let account = Account::new();
    for _ in 0..1000 {
        account.saved();
    }
    let (lost, polls) = second_of_polls(&account, 4 * MILLISECOND_NS, 999);
    assert!(polls > 25_000, "{polls} polls, {lost} lost");
}

#[test]
fn any_account_is_kept_without_overflow() {
    let account = Account::new();
    account.saved();
    assert!(account.lost(u64::MAX, u64::MAX));
    assert!(!account.allows(u64::MAX - 1));
}
