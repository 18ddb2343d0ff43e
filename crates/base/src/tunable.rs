//! Limits, counts and thresholds of the engine as values that can be changed: an operator may tune them, and random
//! tests draw them, tiny as often as usual, so that what happens beyond a limit happens in a small test too.
//!
//! Each crate declares its own as statics and lists them in its `TUNABLES`. A tunable holds for the whole process.
//! Any value within its bounds must be safe at any moment; who needs one value for the length of an operation
//! reads it once.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::random::{Rng, SeededRng};

#[cfg(test)]
mod tests;

/// One limit, count or threshold.
pub struct Tunable {
    name: &'static str,
    default: u64,
    min: u64,
    max: u64,
    value: AtomicU64,
}

impl Tunable {
    /// A tunable named `crate.limit_unit`, with its default and the bounds within which every value is safe.
    ///
    /// # Panics
    /// At compile time, when the default is not within the bounds.
    #[must_use]
    pub const fn new(name: &'static str, default: u64, min: u64, max: u64) -> Self {
        assert!(min <= default && default <= max);
        Self {
            name,
            default,
            min,
            max,
            value: AtomicU64::new(default),
        }
    }

    /// Its name.
    #[must_use]
    pub const fn name(&self) -> &'static str {
        self.name
    }

    /// Its value when nobody changed it.
    #[must_use]
    pub const fn default(&self) -> u64 {
        self.default
    }

    /// Its value now.
    #[must_use]
    pub fn get(&self) -> u64 {
        self.value.load(Ordering::Relaxed)
    }

    /// Its value now, for counts of things in memory.
    #[must_use]
    pub fn count(&self) -> usize {
        usize::try_from(self.get()).unwrap_or(usize::MAX)
    }

    /// Changes it; a value outside its bounds becomes the nearest one within.
    pub fn set(&self, value: u64) {
        let value = value.clamp(self.min, self.max);
        self.value.store(value, Ordering::Relaxed);
    }

    /// Back to the default.
    pub fn reset(&self) {
        self.set(self.default);
    }

    /// Draws a value: the default, one near the least, or any size up to eight times the default, as often as each
    /// other.
    pub fn draw(&self, random: &dyn Rng) {
        const NEAR: u64 = 4;
        const BEYOND: u64 = 8;
        let value = match random.below(3) {
            0 => self.default,
            1 => self.min.saturating_add(random.below(NEAR)),
            _ => {
                // Each size of number as often as each other.
                let top = self.max.min(self.default.saturating_mul(BEYOND)).max(1);
                let bits = random.below(u64::from(u64::BITS - top.leading_zeros()) + 1);
                let mask = u64::MAX.checked_shr(u32::try_from(64 - bits).unwrap_or(64));
                random.next_u64() & mask.unwrap_or(0)
            }
        };
        self.set(value);
    }
}

/// Draws all from a seed: each from the seed and its name, so that one seed means the same while others come and go.
pub fn draw_all(tunables: &[&Tunable], seed: u64) {
    const PRIME: u64 = 0x0000_0100_0000_01b3;
    for tunable in tunables {
        let mix = |sum: u64, byte: u8| (sum ^ u64::from(byte)).wrapping_mul(PRIME);
        let own = tunable.name.bytes().fold(seed, mix);
        tunable.draw(&SeededRng::new(own));
    }
}

/// Sets all as a text says: `default`; a seed, from which they are drawn; or `name=value,name=value`, the others
/// being as they are by default.
///
/// # Errors
/// What of the text is not understood; nothing was changed then.
pub fn set_all(tunables: &[&Tunable], text: &str) -> Result<(), String> {
    if let Ok(seed) = text.parse() {
        draw_all(tunables, seed);
        return Ok(());
    }
    let mut values = Vec::new();
    for part in text.split(',').filter(|_| text != "default") {
        let known = part.split_once('=').and_then(|(name, value)| {
            let tunable = tunables.iter().find(|tunable| tunable.name == name)?;
            Some((tunable, value.parse::<u64>().ok()?))
        });
        values.push(known.ok_or_else(|| part.to_owned())?);
    }
    for tunable in tunables {
        tunable.reset();
    }
    for (tunable, value) in values {
        tunable.set(value);
    }
    Ok(())
}

impl fmt::Debug for Tunable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}={}", self.name, self.get())
    }
}
