//! Numbers as OpenZFS prints and reads them: `1.50K`, `12.3M`, `1.69x`, `10G`.
//!
//! Invariant: what [`human`] prints has at most five characters for any value; what [`parse_size`]
//! accepts is exact (no floating point). Used by the property tables and every list.

use thiserror::Error;

#[cfg(test)]
mod tests;

const UNITS: [&str; 7] = ["", "K", "M", "G", "T", "P", "E"];

/// Why a number could not be read.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum NumberError {
    /// The text does not begin with digits.
    #[error("bad numeric value '{0}'")]
    Bad(String),
    /// The suffix is none of B, K, M, G, T, P, E, Z.
    #[error("invalid numeric suffix '{0}'")]
    Suffix(String),
    /// The value does not fit 64 bits.
    #[error("numeric value is too large")]
    TooLarge,
}

/// The short form of a count: the largest unit (1024 steps) in which the value is at least 1, with
/// as many of two decimals as fit five characters.
#[must_use]
pub fn human(value: u64) -> String {
    scaled(value, "")
}

/// The short form of a size: as [`human`], but values below 1024 end in `B`.
#[must_use]
pub fn human_bytes(value: u64) -> String {
    scaled(value, "B")
}

fn scaled(value: u64, unit_less: &str) -> String {
    let index = (value.max(1).ilog2() / 10) as usize;
    let shift = 10 * index as u32;
    let unit = if index == 0 { unit_less } else { UNITS[index] };
    if value.trailing_zeros() >= shift || value == 0 {
        return format!("{}{unit}", value >> shift);
    }
    for decimals in [2, 1] {
        let text = format!("{}{unit}", decimal(value, shift, decimals));
        if text.len() <= 5 {
            return text;
        }
    }
    format!("{}{unit}", decimal(value, shift, 0))
}

/// `value / 2^shift` with so many decimals, rounded half to even as the C library does.
fn decimal(value: u64, shift: u32, decimals: u32) -> String {
    let power = 10u128.pow(decimals);
    let scaled = u128::from(value) * power;
    let mut quotient = scaled >> shift;
    let remainder = scaled - (quotient << shift);
    let half = 1u128 << (shift - 1);
    if remainder > half || (remainder == half && quotient % 2 == 1) {
        quotient += 1;
    }
    if decimals == 0 {
        quotient.to_string()
    } else {
        format!(
            "{}.{:0width$}",
            quotient / power,
            quotient % power,
            width = decimals as usize
        )
    }
}

/// A ratio stored in hundredths, as `1.69x`, or `1.69` when exact values are asked for.
#[must_use]
pub fn ratio(hundredths: u64, exact: bool) -> String {
    let suffix = if exact { "" } else { "x" };
    format!("{}.{:02}{suffix}", hundredths / 100, hundredths % 100)
}

/// Reads `512`, `10M`, `1.5G`, `2TB`, `1KiB` (1024 steps, any case).
pub fn parse_size(text: &str) -> Result<u64, NumberError> {
    let end = text
        .find(|c: char| !c.is_ascii_digit() && c != '.')
        .unwrap_or(text.len());
    let (digits, suffix) = text.split_at(end);
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
    if whole.is_empty() || fraction.contains('.') {
        return Err(NumberError::Bad(text.to_owned()));
    }
    let shift = suffix_shift(suffix)?;
    let whole: u128 = whole.parse().map_err(|_| NumberError::TooLarge)?;
    let whole = whole.checked_mul(1 << shift).ok_or(NumberError::TooLarge)?;
    // Beyond 18 decimals nothing below one byte can change.
    let fraction = &fraction[..fraction.len().min(18)];
    let part = if fraction.is_empty() {
        0
    } else {
        let value: u128 = fraction
            .parse()
            .map_err(|_| NumberError::Bad(text.to_owned()))?;
        (value << shift) / 10u128.pow(fraction.len() as u32)
    };
    u64::try_from(whole + part).map_err(|_| NumberError::TooLarge)
}

fn suffix_shift(suffix: &str) -> Result<u32, NumberError> {
    let bad = || NumberError::Suffix(suffix.to_owned());
    let upper = suffix.to_ascii_uppercase();
    let mut letters = upper.chars();
    let Some(first) = letters.next() else {
        return Ok(0);
    };
    let rest = letters.as_str();
    if first == 'B' {
        return if rest.is_empty() { Ok(0) } else { Err(bad()) };
    }
    let step = "KMGTPEZ".find(first).ok_or_else(bad)?;
    match rest {
        "" | "B" | "IB" => Ok(10 * (step as u32 + 1)),
        _ => Err(bad()),
    }
}
