//! Records of PAX headers: `LENGTH KEY=VALUE`, each with a newline. Values may have any bytes.

use std::io;

use posix::Timestamp;

/// The records for an entry, in their order; later ones stand before earlier ones.
#[derive(Debug, Clone, Default)]
pub(super) struct Records(Vec<(Vec<u8>, Vec<u8>)>);

fn malformed() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, "a PAX record is malformed")
}

impl Records {
    /// Adds those of a header.
    pub(super) fn add(&mut self, mut bytes: &[u8]) -> io::Result<()> {
        // What follows the last one is padding.
        while bytes.first().is_some_and(|byte| *byte != 0) {
            let digits = bytes
                .iter()
                .position(|byte| *byte == b' ')
                .ok_or_else(malformed)?;
            let length = number(&bytes[..digits]).ok_or_else(malformed)?;
            let length = usize::try_from(length).map_err(|_| malformed())?;
            let record = bytes.get(digits + 1..length).ok_or_else(malformed)?;
            let (newline, record) = record.split_last().ok_or_else(malformed)?;
            let equals = record
                .iter()
                .position(|byte| *byte == b'=')
                .ok_or_else(malformed)?;
            if *newline != b'\n' {
                return Err(malformed());
            }
            self.0
                .push((record[..equals].to_vec(), record[equals + 1..].to_vec()));
            bytes = &bytes[length..];
        }
        Ok(())
    }

    /// Those of an entry after those of the whole archive.
    pub(super) fn over(self, global: &Self) -> Self {
        let mut all = global.clone();
        all.0.extend(self.0);
        all
    }

    pub(super) fn all(&self) -> impl Iterator<Item = (&[u8], &[u8])> {
        self.0.iter().map(|(key, value)| (&key[..], &value[..]))
    }

    /// The last value of a key; an empty one takes back what was said.
    pub(super) fn get(&self, key: &str) -> Option<&[u8]> {
        let found = self.0.iter().rfind(|(name, _)| name == key.as_bytes());
        found
            .map(|(_, value)| &value[..])
            .filter(|value| !value.is_empty())
    }

    /// A number.
    pub(super) fn number(&self, key: &str) -> io::Result<Option<u64>> {
        let Some(value) = self.get(key) else {
            return Ok(None);
        };
        number(value).map(Some).ok_or_else(malformed)
    }

    /// A time, with a fraction.
    pub(super) fn time(&self, key: &str) -> io::Result<Option<Timestamp>> {
        let Some(value) = self.get(key) else {
            return Ok(None);
        };
        time(value).map(Some).ok_or_else(malformed)
    }
}

/// A decimal number.
pub(super) fn number(bytes: &[u8]) -> Option<u64> {
    let plain = bytes.iter().all(u8::is_ascii_digit);
    std::str::from_utf8(bytes)
        .ok()
        .filter(|_| plain)?
        .parse()
        .ok()
}

fn time(bytes: &[u8]) -> Option<Timestamp> {
    let text = std::str::from_utf8(bytes).ok()?;
    let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
    let seconds: i64 = whole.parse().ok()?;
    let nanoseconds = match fraction {
        "" => 0,
        digits => {
            let kept: String = digits.chars().chain("000000000".chars()).take(9).collect();
            u32::try_from(number(kept.as_bytes())?).ok()?
        }
    };
    // The fraction of a time before 1970 counts backwards.
    let before = whole.starts_with('-') && nanoseconds > 0;
    Some(Timestamp {
        seconds: if before {
            seconds.checked_sub(1)?
        } else {
            seconds
        },
        nanoseconds: if before {
            1_000_000_000 - nanoseconds
        } else {
            nanoseconds
        },
    })
}
