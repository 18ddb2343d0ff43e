//! Numbers for people: at most five characters and a unit.

const UNITS: [&str; 7] = ["", "K", "M", "G", "T", "P", "E"];

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
    let mut index = 0;
    while index + 1 < UNITS.len() && value >> (10 * (index + 1)) != 0 {
        index += 1;
    }
    let (shift, unit) = (10 * index, UNITS[index]);
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
