use super::*;

fn passphrase(iterations: u64) -> KeyMaterial {
    KeyMaterial {
        format: KeyFormat::Passphrase,
        salt: u64::from_le_bytes(*b"saltsalt"),
        iterations,
    }
}

fn refused(given: &[u8], material: KeyMaterial) -> KeyError {
    WrappingKey::from_material(given, material).unwrap_err()
}

fn of(format: KeyFormat) -> KeyMaterial {
    KeyMaterial {
        format,
        salt: 0,
        iterations: 0,
    }
}

#[test]
fn digits_are_the_bytes_and_come_back() {
    let digits = "00ff102030405060708090a0b0c0d0e0f00112233445566778899aabbccddeef";
    let line = format!("{digits}\n");
    let key = WrappingKey::from_material(line.as_bytes(), of(KeyFormat::Hex)).unwrap();
    assert_eq!(key.bytes()[..3], [0, 0xff, 0x10]);
    assert_eq!(*key.to_hex(), digits);
    assert!(key.is(&key.copy().unwrap()));
    let raw = WrappingKey::from_raw(key.bytes()).unwrap();
    assert!(key.is(&raw));
}

#[test]
fn what_cannot_be_a_key_is_refused_by_what_is_wrong() {
    let hex = of(KeyFormat::Hex);
    assert_eq!(refused(&[b'0'; 63], hex), KeyError::HexShort);
    assert_eq!(refused(&[b'0'; 65], hex), KeyError::HexLong);
    assert_eq!(refused(&[b'g'; 64], hex), KeyError::HexDigit);
    let raw = of(KeyFormat::Raw);
    assert_eq!(refused(&[1; 31], raw), KeyError::RawShort);
    assert_eq!(refused(&[1; 33], raw), KeyError::RawLong);
    let enough = passphrase(PBKDF2_ITERATIONS_MIN);
    assert_eq!(refused(b"short 7\n", enough), KeyError::PassphraseShort);
    assert_eq!(refused(&[b'x'; 513], enough), KeyError::PassphraseLong);
    assert_eq!(
        refused(b"long enough", passphrase(99_999)),
        KeyError::Iterations(99_999)
    );
    assert_eq!(
        refused(b"long enough", passphrase(u64::MAX)),
        KeyError::Iterations(u64::MAX)
    );
}

#[test]
fn formats_are_three() {
    assert_eq!(KeyFormat::from_number(0), Err(KeyError::Format(0)));
    assert_eq!(KeyFormat::from_number(4), Err(KeyError::Format(4)));
    assert_eq!(KeyFormat::from_number(3), Ok(KeyFormat::Passphrase));
}

#[test]
fn every_format_comes_back_from_its_number() {
    for format in KeyFormat::ALL {
        assert_eq!(KeyFormat::from_number(format.number()), Ok(format));
    }
}

#[test]
fn a_line_end_belongs_to_binary_material_alone() {
    for format in KeyFormat::ALL {
        let line = match format {
            KeyFormat::Raw => [b"k".repeat(KEY_SIZE - 1), b"\n".to_vec()].concat(),
            KeyFormat::Hex => [b"0".repeat(HEX_DIGITS), b"\n".to_vec()].concat(),
            KeyFormat::Passphrase => b"long enough\n".to_vec(),
        };
        let material = KeyMaterial {
            format,
            salt: 0,
            iterations: PBKDF2_ITERATIONS_MIN,
        };
        let whole = WrappingKey::from_material(&line, material).unwrap();
        let without = WrappingKey::from_material(without_line_end(&line), material);
        let is_same = without.is_ok_and(|without| without.is(&whole));
        assert_eq!(is_same, !format.is_binary(), "{format:?}");
    }
}

#[test]
fn no_material_is_longer_than_its_format_says() {
    for format in KeyFormat::ALL {
        let given = |size| vec![b'a'; size];
        let material = KeyMaterial {
            format,
            salt: 0,
            iterations: PBKDF2_ITERATIONS_MIN,
        };
        let most = format.size_max();
        assert!(WrappingKey::from_material(&given(most), material).is_ok());
        assert!(WrappingKey::from_material(&given(most + 1), material).is_err());
    }
}

#[test]
fn salt_and_iterations_are_of_derived_keys_alone() {
    for format in KeyFormat::ALL {
        let given = match format {
            KeyFormat::Raw => b"k".repeat(KEY_SIZE),
            KeyFormat::Hex => b"0".repeat(HEX_DIGITS),
            KeyFormat::Passphrase => b"long enough".to_vec(),
        };
        let with_salt = |salt| {
            let iterations = PBKDF2_ITERATIONS_MIN;
            let material = KeyMaterial {
                format,
                salt,
                iterations,
            };
            WrappingKey::from_material(&given, material).unwrap()
        };
        let differs = !with_salt(1).is(&with_salt(2));
        assert_eq!(differs, format.is_derived(), "{format:?}");
    }
}

#[test]
fn nothing_shows_a_key() {
    let key = WrappingKey::from_raw(&[0x5a; 32]).unwrap();
    assert_eq!(format!("{key:?}"), "WrappingKey");
}
