//! Where keys come from, as `keylocation` says it.

/// A place that the material of a key comes from. Matches over it have no fallback arm: who adds one is asked how it is
/// read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyLocation<'a> {
    /// Whoever loads the key: by the standard input.
    Prompt,
    /// The file of this path, where the command runs.
    File(&'a str),
    /// What a web server has at this address.
    Web(&'a str),
}

impl<'a> KeyLocation<'a> {
    /// The one that is stored where none is given.
    pub const DEFAULT: &'static str = "prompt";
    /// All of them, as the property's row says them.
    pub(super) const WORDS: &'static str = "prompt | <file URI> | <https URL> | <http URL>";

    /// The location of this text; none if it is no location.
    #[must_use]
    pub fn parse(text: &'a str) -> Option<Self> {
        match text.split_once("://") {
            None if text == Self::DEFAULT => Some(Self::Prompt),
            Some(("file", path)) => Some(Self::File(path)),
            Some(("http" | "https", _)) => Some(Self::Web(text)),
            Some(_) | None => None,
        }
    }

    /// Whether the key is read from the standard input, which nothing else can be read from then.
    #[must_use]
    pub const fn is_standard_input(self) -> bool {
        match self {
            Self::Prompt => true,
            Self::File(_) | Self::Web(_) => false,
        }
    }

    /// Whether it means the same wherever a command is given, so that a dataset may have it.
    #[must_use]
    pub fn is_lasting(self) -> bool {
        match self {
            Self::Prompt | Self::Web(_) => true,
            Self::File(path) => path.starts_with('/'),
        }
    }
}

#[cfg(test)]
mod tests;
