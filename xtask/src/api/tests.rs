use super::*;

fn listed(source: &str) -> BTreeSet<String> {
    let names = listing::exported("pub use library::{\n    Open, Closed, Kind, Sealed,\n};\n");
    listing::lines(&names, &[source.to_owned()])
}

const SOURCE: &str = r"
//! A file.

/// Open.
#[derive(Debug, Clone)]
pub struct Open {
    /// A part.
    pub part: u32,
}

#[non_exhaustive]
pub struct Closed {
    pub part: Option<u32>,
}

pub struct Sealed {
    part: u32,
}

pub(super) struct Hidden {
    pub part: u32,
}

#[derive(Debug)]
pub enum Kind {
    /// One.
    One(u32),
    #[doc(hidden)]
    Two {
        inner: u32,
    },
}

impl Open {
    /// Does it.
    pub fn long(
        &self,
        one: &str,
    ) -> Result<(), Error> {
        pub_not_this();
    }

    fn private(&self) {}

    pub const fn short(&self) -> u32 {
        self.part
    }
}

impl<'a> Iterator for Sealed<'a> {
    type Item = u32;
}

impl From<Kind> for io::Error {}

impl Hidden {
    pub fn unseen(&self) {}
}
";

#[test]
fn what_programs_can_name_is_listed() {
    let expected = [
        "Open: const fn short(&self) -> u32",
        "Open: fn long(&self, one: &str) -> Result<(), Error>",
        "enum Kind",
        "field Closed::part: Option<u32>",
        "field Open::part: u32",
        "impl Clone for Open",
        "impl Debug for Kind",
        "impl Debug for Open",
        "impl From<Kind> for io::Error",
        "impl Iterator for Sealed<'a>",
        "struct Closed (non_exhaustive)",
        "struct Open",
        "struct Sealed (non_exhaustive)",
        "variant Kind::One(u32)",
        "variant Kind::Two { inner: u32, }",
    ];
    let found = listed(SOURCE);
    assert_eq!(
        found.iter().collect::<Vec<_>>(),
        expected.iter().collect::<Vec<_>>()
    );
}

#[test]
fn a_name_without_a_declaration_is_seen() {
    let found = listed("");
    assert!(found.contains("unknown Open"));
}

#[test]
fn what_breaks_programs_is_told_from_what_adds() {
    let before = listed(SOURCE);
    let breaks = |source: &str| {
        let changes = compare(&before, &listed(source));
        assert!(!changes.is_empty());
        changes.iter().any(|change| change.breaks)
    };
    assert!(compare(&before, &before).is_empty());
    assert!(breaks(&SOURCE.replace("one: &str", "one: u64")));
    assert!(breaks(
        &SOURCE.replace("    One(u32),", "    One(u32),\n    Three,")
    ));
    assert!(breaks(&SOURCE.replacen(
        "    pub part",
        "    pub new: u8,\n    pub part",
        1
    )));
    assert!(breaks(
        &SOURCE.replace("#[derive(Debug, Clone)]", "#[derive(Debug)]")
    ));
    let field = "    pub new: u8,\n    pub part: Option";
    assert!(!breaks(&SOURCE.replace("    pub part: Option", field)));
    assert!(!breaks(&SOURCE.replace("fn private", "pub fn private")));
}
