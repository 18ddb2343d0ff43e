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
    let value = rebuild().to_value();
    assert_eq!(value.to_words(), [1, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11]);
    // A table has them in this order of bytes on every machine.
    assert_eq!(value.stored()[8..16], [0, 0, 0, 0, 0, 0, 0, 1]);
    assert_eq!(Rebuild::from_value(&value).unwrap(), rebuild());
}

#[test]
fn every_state_has_its_number() {
    for number in 0..6 {
        assert_eq!(RebuildState::from_number(number).number(), number);
    }
    assert_eq!(RebuildState::from_number(4), RebuildState::Other(4));
}

#[test]
fn what_is_no_state_of_a_rebuild_is_refused() {
    let words = rebuild().to_value().to_words();
    let refused = |words: &[u64]| Rebuild::from_value(&Value::words(words)).is_err();
    assert!(!refused(&words));
    assert!(refused(&words[..11]));
    assert!(refused(&[words.as_slice(), &[0]].concat()));
    assert!(refused(&[]));
    let bytes = Value::from_stored(1, rebuild().to_value().stored().to_vec()).unwrap();
    assert!(Rebuild::from_value(&bytes).is_err());
    let mut forged = words.clone();
    forged[0] = 4;
    assert!(refused(&forged));
    let mut forged = words;
    (forged[2], forged[3]) = (9, 8);
    assert!(refused(&forged));
}
