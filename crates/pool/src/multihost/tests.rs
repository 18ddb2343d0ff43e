//! How long an import waits for the host that had a pool, and what uberblocks say of it.

use base::random::SeededRng;
use base::{Guid, Txg};
use format::BlockPointer;

use super::activity::{claim_after, wait};
use super::*;

fn uberblock(delay_ns: u64, word: u64) -> Uberblock {
    let mut uberblock = Uberblock::new(5000, Txg(7), Guid(1).0, 100, BlockPointer::HOLE);
    uberblock.multihost_delay_ns = delay_ns;
    uberblock.multihost_config = word;
    uberblock
}

fn word(interval: Option<u64>, fails: Option<u64>) -> u64 {
    let at = MultihostConfig::AT;
    let mut word = 0;
    if let Some(interval) = interval {
        word = at.interval.set(at.interval_valid.set(word, 1), interval);
    }
    if let Some(fails) = fails {
        word = at
            .fail_intervals
            .set(at.fail_intervals_valid.set(word, 1), fails);
    }
    word
}

#[test]
fn an_import_waits_for_longer_than_a_host_may_be_silent() {
    let rng = SeededRng::new(1);
    for (delay_ms, interval, fails, wanted_ms) in [
        (1000, Some(1000), Some(10), 20_000),
        (5000, Some(100), Some(10), 2_000),
        // Of one that never gives a pool up.
        (5000, Some(1000), Some(0), 120_000),
        // Of one that says nothing of how often it writes.
        (500, None, None, 30_000),
        (1, Some(1), Some(2), 1_000),
    ] {
        let newest = uberblock(delay_ms * 1_000_000, word(interval, fails));
        for _ in 0..50 {
            let ms = wait(&newest, &rng).unwrap().as_millis() as u64;
            let wanted = wanted_ms..wanted_ms + wanted_ms / 4;
            assert!(wanted.contains(&ms), "{ms} of {wanted_ms}");
        }
    }
}

#[test]
fn a_wait_of_years_is_refused() {
    let rng = SeededRng::new(1);
    for newest in [
        uberblock(1, word(Some(0xff_ffff), Some(0xffff))),
        uberblock(u64::MAX, u64::MAX),
        uberblock(u64::MAX, 0),
    ] {
        wait(&newest, &rng).unwrap_err();
    }
}

#[test]
fn a_claim_is_newer_than_what_it_follows_or_refused() {
    let rng = SeededRng::new(1);
    let mut newest = uberblock(1, 0);
    for (timestamp, sequence) in [(100, 0), (100, SEQUENCE_MAX), (u64::MAX, 7)] {
        newest.timestamp = timestamp;
        mark(&mut newest, 1, sequence);
        for _ in 0..50 {
            let claim = claim_after(&newest, &rng).unwrap();
            assert!(claim.compare_age(&newest).is_gt());
        }
    }
    mark(&mut newest, 1, SEQUENCE_MAX);
    claim_after(&newest, &rng).unwrap_err();
}

#[test]
fn writes_of_one_second_are_counted() {
    let mut first = uberblock(0, 0);
    mark(&mut first, 0, 3);
    assert!(first.multihost_active());
    assert_eq!(first.multihost_sequence(), 3);
    let mut second = first;
    mark(&mut second, 0, 4);
    assert!(second.compare_age(&first).is_gt());
}
