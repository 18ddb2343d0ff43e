use super::*;

fn sample() -> Uberblock {
    let mut uberblock = Uberblock::new(5000, Txg(77), 12, 1_700_000_000, BlockPointer::HOLE);
    uberblock.multihost_config = (9 << 32) | 2;
    uberblock
}

#[test]
fn an_uberblock_round_trips_and_a_foreign_one_reads_the_same() {
    let mut bytes = [0; SIZE];
    sample().write(&mut bytes);
    assert_eq!(Uberblock::read(&bytes).unwrap(), sample());
    crate::host::swap_u64(&mut bytes);
    assert_eq!(Uberblock::read(&bytes).unwrap(), sample());
    bytes[3] ^= 1;
    bytes[7] ^= 1;
    assert!(Uberblock::read(&bytes).is_err());
    assert!(Uberblock::read(&bytes[..215]).is_err());
}

#[test]
fn newer_is_txg_then_time_then_sequence() {
    let base = sample();
    let mut later = base;
    later.multihost_config = (10 << 32) | 2;
    assert_eq!(later.compare_age(&base), Ordering::Greater);
    let mut sooner = base;
    sooner.timestamp += 1;
    sooner.multihost_config = 0;
    assert_eq!(sooner.compare_age(&later), Ordering::Greater);
    let mut next = base;
    next.txg = next.txg.next();
    next.timestamp = 0;
    assert_eq!(next.compare_age(&sooner), Ordering::Greater);
}
