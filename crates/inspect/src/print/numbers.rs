//! Numbers for people: at most five characters and a unit.

/// Powers of two, and their units.
const UNITS: [(u32, &str); 7] = [
    (60, "E"),
    (50, "P"),
    (40, "T"),
    (30, "G"),
    (20, "M"),
    (10, "K"),
    (0, ""),
];

/// How numbers are printed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Numbers {
    /// Exactly, in bytes.
    pub(crate) exact: bool,
}

impl Numbers {
    /// A number for people, or the exact one.
    pub(crate) fn show(self, value: u64) -> String {
        if self.exact {
            value.to_string()
        } else {
            nice(value)
        }
    }
}

/// A number in the largest unit that leaves it above 1, with as many decimals as five characters
/// have room for; whole multiples have none.
pub(crate) fn nice(value: u64) -> String {
    let fits = |(shift, _): &(u32, &str)| value >> shift != 0;
    let (shift, unit) = UNITS.into_iter().find(fits).unwrap_or((0, ""));
    let whole = value >> shift;
    if value == whole << shift {
        return format!("{whole}{unit}");
    }
    let exact = value as f64 / (1_u64 << shift) as f64;
    for decimals in [2, 1] {
        let text = format!("{exact:.decimals$}{unit}");
        if text.len() <= 5 {
            return text;
        }
    }
    format!("{exact:.0}{unit}")
}

#[cfg(test)]
mod tests {
    use super::nice;

    #[test]
    fn as_zdb_prints_them() {
        for (value, text) in [
            (0, "0"),
            (512, "512"),
            (1023, "1023"),
            (1024, "1K"),
            (1536, "1.50K"),
            (196 << 10, "196K"),
            ((14 << 20) + (400 << 10), "14.4M"),
            (16 << 20, "16M"),
            (1_551_892, "1.48M"),
            (u64::MAX, "16.0E"),
        ] {
            assert_eq!(nice(value), text);
        }
    }
}
