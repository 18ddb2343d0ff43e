//! Pools whose file systems are encrypted, as a seed draws.

use crate::random::Random;
use crate::test_pool::POOL;
use crypto::{KeyFormat, KeyMaterial, WrappingKey};
use dsl::{NewEncryption, NewKey};
use pool::Pool;

/// The numbers of the ciphers.
const SUITES: std::ops::RangeInclusive<usize> = 3..=8;

fn key() -> WrappingKey {
    WrappingKey::from_raw(&[7; 32]).expect("memory for a key")
}

/// How the root file system of a new pool is encrypted, and all below it: one in three is.
#[must_use]
pub(crate) fn draw(seed: u64) -> NewEncryption {
    let mut random = Random::new(seed ^ 0xC1FE);
    if !random.one_in(3) {
        return NewEncryption::Inherited;
    }
    drawn(&mut random)
}

/// The same; it is encrypted, with one of the ciphers.
#[must_use]
pub(crate) fn some(seed: u64) -> NewEncryption {
    drawn(&mut Random::new(seed ^ 0xC1FE))
}

fn drawn(random: &mut Random) -> NewEncryption {
    let suite = SUITES.start() + random.below(SUITES.count());
    println!("encryption: suite {suite}");
    let material = KeyMaterial {
        format: KeyFormat::Raw,
        salt: 0,
        iterations: 0,
    };
    let new = NewKey {
        material,
        key: key(),
    };
    NewEncryption::Root(Some(suite as u64), new)
}

/// Loads the key of a pool that was imported, if its root file system is encrypted.
///
/// # Panics
/// If it is another.
pub(crate) fn load(pool: &Pool) {
    let Ok(directory) = pool.dsl().directory(POOL) else {
        return;
    };
    let record = directory.key_record().ok().flatten();
    // A clone of it may have been promoted.
    if let Some(root) = record.as_ref().and_then(|record| record.root()) {
        let loaded = pool.dsl().load_key(root, key());
        loaded.expect("the key is the one that the pool was made with");
    }
}
