use proptest::prelude::*;

use super::*;

fn plain() -> [u8; 96] {
    std::array::from_fn(|index| u8::try_from(index).unwrap())
}

fn key(byte: u8) -> WrappingKey {
    WrappingKey::from_raw(&[byte; 32]).unwrap()
}

#[test]
fn every_suite_and_version_unwraps_with_its_key_only() {
    for suite in 3..=8 {
        for version in 0..=VERSION {
            let stored = StoredKeys::wrap(suite, version, &key(1), &plain());
            assert!(stored.unwrap(&key(1)).is_ok(), "{suite}, {version}");
            assert_eq!(stored.unwrap(&key(2)).unwrap_err(), KeyError::WrongKey);
        }
    }
}

#[test]
fn what_nobody_wrote_is_said() {
    let mut stored = StoredKeys::wrap(8, 1, &key(1), &plain());
    stored.version = 2;
    assert_eq!(stored.unwrap(&key(1)).unwrap_err(), KeyError::Version(2));
    for suite in [0, 1, 2, 9, u64::MAX] {
        stored.suite = suite;
        assert_eq!(stored.unwrap(&key(1)).unwrap_err(), KeyError::Suite(suite));
    }
}

proptest! {
    /// A record of which any bit that counts was changed does not unwrap.
    #[test]
    fn a_changed_record_does_not_unwrap(suite in 3_u64..=8, bit in 0_usize..(12 + 16 + 32 + 64) * 8) {
        let mut stored = StoredKeys::wrap(suite, 1, &key(1), &plain());
        let size = Suite::from_number(suite).unwrap().key_size;
        let wrapped = &mut stored.wrapped;
        let mut bytes: Vec<&mut u8> = wrapped
            .iv
            .iter_mut()
            .chain(&mut wrapped.mac)
            .chain(&mut wrapped.hmac)
            .chain(&mut wrapped.master[..size])
            .collect();
        let place = bit / 8 % bytes.len();
        *bytes[place] ^= 1 << (bit % 8);
        prop_assert_eq!(stored.unwrap(&key(1)).unwrap_err(), KeyError::WrongKey);
    }

    /// Nor does it with another identity, cipher or version: they are authenticated.
    #[test]
    fn what_stands_beside_the_keys_is_authenticated(guid: u64) {
        prop_assume!(guid != 77);
        let mut stored = StoredKeys::wrap(8, 1, &key(1), &plain());
        stored.guid = guid;
        prop_assert_eq!(stored.unwrap(&key(1)).unwrap_err(), KeyError::WrongKey);
    }
}

#[test]
fn new_keys_are_wrapped_and_wrapped_again() {
    let (first, second) = (key(1), key(2));
    for suite in 3..=8 {
        let record = StoredKeys::create(suite, &first).unwrap();
        let keys = record.unwrap(&first).unwrap();
        let mut data = vec![0x33; 512];
        let seal = keys
            .seal(format::ObjectType::PLAIN_FILE, &mut data)
            .unwrap();
        let again = record.rewrap(&first, &second).unwrap();
        assert_eq!((again.guid, again.suite), (record.guid, suite));
        assert_ne!(again.wrapped, record.wrapped);
        assert_eq!(again.unwrap(&first).unwrap_err(), KeyError::WrongKey);
        assert_eq!(
            record.rewrap(&second, &first).unwrap_err(),
            KeyError::WrongKey
        );
        let mark = seal.mark.unwrap();
        let cipher = again.unwrap(&second).unwrap().block_key(mark.salt).unwrap();
        cipher
            .open(&mark.iv, &seal.mac.unwrap(), &[], &mut data)
            .unwrap();
        assert_eq!(data, [0x33; 512]);
        assert_ne!(
            StoredKeys::create(suite, &first).unwrap().wrapped,
            record.wrapped
        );
    }
}
