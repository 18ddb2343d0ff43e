//! Keys of datasets: what is stored of them, and what users give.

use crypto::{KeyFormat, KeyMaterial, StoredKeys, WrappedKeys, WrappingKey};

use crate::target::{Target, targets};

pub(super) const TARGETS: &[Target] = targets! {
    wrapped_keys: |bytes| {
        let Some(stored) = stored(bytes) else { return };
        let key = WrappingKey::from_raw(&[7; 32]).expect("32 bytes");
        // Nobody can forge the code that proves them.
        assert!(stored.unwrap(&key).is_err());
        assert!(stored.rewrap(&key, &key).is_err());
    };
    key_material: |bytes| {
        let [format, rest @ ..] = bytes else { return };
        let Ok(format) = KeyFormat::from_number(u64::from(*format)) else { return };
        // Too few iterations: what a passphrase may be is looked at, and none is hashed.
        let material = KeyMaterial { format, salt: 1, iterations: 1 };
        if let Ok(key) = WrappingKey::from_material(rest, material) {
            let digits = key.to_hex();
            let hex = KeyMaterial { format: KeyFormat::Hex, ..material };
            let again = WrappingKey::from_material(digits.as_bytes(), hex).expect("our own digits");
            assert!(key.is(&again));
        }
    };
};

fn stored(bytes: &[u8]) -> Option<StoredKeys> {
    let (&[suite, version], rest) = bytes.split_first_chunk()?;
    let (guid, rest) = rest.split_first_chunk()?;
    let (iv, rest) = rest.split_first_chunk()?;
    let (mac, rest) = rest.split_first_chunk()?;
    let (master, rest) = rest.split_first_chunk()?;
    Some(StoredKeys {
        suite: u64::from(suite),
        guid: u64::from_le_bytes(*guid),
        version: u64::from(version),
        wrapped: WrappedKeys {
            iv: *iv,
            mac: *mac,
            master: *master,
            hmac: *rest.first_chunk()?,
        },
    })
}
