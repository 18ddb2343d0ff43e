use super::*;
use crate::zap::Value;

fn rebuild() -> Rebuild {
    Rebuild {
        state: RebuildState::Active,
        offset: 1,
        txg_min: 2,
        txg_max: 3,
        started_s: 4,
        ended_s: 5,
        taken_ms: 6,
        scanned: 7,
        issued: 8,
        rebuilt: 9,
        estimated: 10,
        errors: 11,
    }
}

#[test]
fn words_are_in_the_order_of_the_format() {
    let words = rebuild().to_words();
    assert_eq!(words, [1, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11]);
    assert_eq!(Rebuild::from_words(&words).unwrap(), rebuild());
    // A table has them in this order of bytes on every machine.
    let value = Value::words(&words);
    assert_eq!(value.stored()[8..16], [0, 0, 0, 0, 0, 0, 0, 1]);
    assert_eq!(value.to_words(), words);
}

#[test]
fn every_state_has_its_number() {
    for number in 0..4 {
        assert_eq!(RebuildState::from_number(number).unwrap().number(), number);
    }
}

#[test]
fn what_is_no_state_of_a_rebuild_is_refused() {
    let words = rebuild().to_words();
    assert!(Rebuild::from_words(&words[..11]).is_err());
    assert!(Rebuild::from_words(&[words.as_slice(), &[0]].concat()).is_err());
    assert!(Rebuild::from_words(&[]).is_err());
    let mut forged = words;
    forged[0] = 4;
    assert!(Rebuild::from_words(&forged).is_err());
    let mut forged = words;
    (forged[2], forged[3]) = (9, 8);
    assert!(Rebuild::from_words(&forged).is_err());
}
