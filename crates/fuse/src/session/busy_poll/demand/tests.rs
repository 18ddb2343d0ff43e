use super::*;

const MILLISECOND_NS: u64 = 1_000_000;
const CPUS: u64 = 2;

/// Asks each tenth of a millisecond for a while: how many looks were taken, and in what part of the time the CPUs were
/// said to be wanted.
fn asked_for(demand: &Demand, from_ms: u64, to_ms: u64, others: u64) -> (u32, f64) {
    let (mut looks, mut wanted) = (0, 0);
    let times = from_ms * 10..to_ms * 10;
    let asked = times.end - times.start;
    for time in times {
        let is_high = demand.is_high(time * MILLISECOND_NS / 10, CPUS, || {
            looks += 1;
            Some(others)
        });
        wanted += u32::from(is_high);
    }
    (looks, f64::from(wanted) / asked as f64)
}

#[test]
fn more_others_than_cpus_are_seen_at_once_and_looked_at_seldom() {
    for others in [3, 8, 32] {
        let (looks, wanted) = asked_for(&Demand::new(), 0, 2_000, others);
        assert!(wanted == 1.0 && looks < 20, "{others}: {looks}, {wanted}");
    }
}

#[test]
fn a_cpu_that_is_free_is_polled_on() {
    for others in [0, 1, 2] {
        let (looks, wanted) = asked_for(&Demand::new(), 0, 1_000, others);
        assert!(wanted == 0.0 && looks <= 1_000, "{others}: {looks}");
    }
}

#[test]
fn polling_goes_on_soon_after_the_others_are_gone() {
    let demand = Demand::new();
    asked_for(&demand, 0, 5_000, 8);
    let (_, wanted) = asked_for(&demand, 5_000, 5_600, 0);
    assert!(wanted < 0.5, "{wanted}");
    // One who computed for a moment is forgotten faster.
    let demand = Demand::new();
    asked_for(&demand, 0, 1, 8);
    let (_, wanted) = asked_for(&demand, 1, 100, 0);
    assert!(wanted < 0.05, "{wanted}");
}

#[test]
fn where_it_is_not_told_polling_is_tried() {
    assert!(!Demand::new().is_high(1, CPUS, || None));
}
