//! Channel programs, on a pool that changes nothing.

use program::{Action, Entry, Host, Limits, Listing, Mode, Refusal, Script, Value};

use crate::target::{Target, targets};

pub(super) const TARGETS: &[Target] = targets! {
    program: |bytes| {
        let script = Script {
            text: bytes,
            arguments: &["one".to_owned(), "two".to_owned()],
            read_only: bytes.len() % 2 == 1,
        };
        let limits = Limits {
            instructions: 5_000,
            memory_bytes: 256 << 10,
            cpu_ns: Box::new(|| 0),
            interrupted: Box::new(|| false),
        };
        let _ = program::run(&script, limits, &Unchanging);
    };
};

/// A pool of some datasets that refuses half of what is asked.
struct Unchanging;

fn text(text: String) -> Value {
    Value::Text(text)
}

impl Host for Unchanging {
    fn exists(&self, name: &str) -> Result<bool, String> {
        match name.len() % 3 {
            0 => Err("it is in another pool".to_owned()),
            other => Ok(other == 1),
        }
    }

    fn property(
        &self,
        name: &str,
        property: &str,
    ) -> Result<Option<(Value, Option<String>)>, String> {
        match property.len() % 4 {
            0 => Err("there is no such property".to_owned()),
            1 => Ok(None),
            2 => Ok(Some((Value::Number(-1), None))),
            _ => Ok(Some((text(property.to_owned()), Some(name.to_owned())))),
        }
    }

    fn list(&self, what: Listing, name: &str) -> Result<Vec<Entry>, String> {
        let one = |number: u8| vec![text(format!("{name}@{number}")), Value::Number(7)];
        match what {
            Listing::Clones => Err("it is no snapshot".to_owned()),
            Listing::Children
            | Listing::Snapshots
            | Listing::Bookmarks
            | Listing::Holds
            | Listing::UserProperties
            | Listing::SystemProperties => Ok((0..3).map(one).collect()),
        }
    }

    fn act(&self, action: &Action, mode: Mode) -> Result<(), Refusal> {
        match mode {
            Mode::Do => Ok(()),
            Mode::Check => Err(Refusal {
                errno: program::errno::EBUSY,
                details: vec![format!("{action:?}")],
            }),
        }
    }

    fn note(&self, _text: &str) {}
}
