//! Which spellings of a name are one name: folding to upper case and Unicode normalisation, by the
//! tables of Unicode 5.0 whatever newer tables say, for another fold gives another hash.
//!
//! Newer tables are made to answer as 5.0 did: Unicode's stability policy fixes normal forms and
//! case pairs of assigned characters for ever, so only characters that 5.0 did not know differ,
//! and those pass through unchanged, as they do there. Bytes that are no UTF-8 pass through too.

mod unicode_5;

use std::borrow::Cow;

use unicode_normalization::UnicodeNormalization;

/// The normalisation word of a ZAP and of a file system's master node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Hash)]
pub struct NormalizationFlags(pub u64);

/// A normal form of Unicode.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    Decomposed,
    Composed,
    CompatibilityDecomposed,
    CompatibilityComposed,
}

impl NormalizationFlags {
    /// Exact bytes.
    pub const NONE: Self = Self(0);
    /// Fold to upper case.
    pub const FOLD_UPPER: u64 = 0x2;
    /// Normal form D.
    pub const FORM_D: u64 = 0x10;
    /// Normal form C.
    pub const FORM_C: u64 = 0x50;
    /// Normal form KD.
    pub const FORM_KD: u64 = 0x20;
    /// Normal form KC.
    pub const FORM_KC: u64 = 0x60;
    const FORMS: u64 = 0x70;

    /// Whether names differ exactly when their bytes do.
    #[must_use]
    pub const fn is_exact(self) -> bool {
        self.0 == 0
    }

    /// Whether names are folded to upper case.
    #[must_use]
    pub const fn folds(self) -> bool {
        self.0 & Self::FOLD_UPPER != 0
    }

    /// The same without folding: to compare case-sensitively in a ZAP that folds.
    #[must_use]
    pub const fn without_fold(self) -> Self {
        Self(self.0 & !Self::FOLD_UPPER)
    }

    const fn form(self) -> Option<Form> {
        match self.0 & Self::FORMS {
            Self::FORM_D => Some(Form::Decomposed),
            Self::FORM_C => Some(Form::Composed),
            Self::FORM_KD => Some(Form::CompatibilityDecomposed),
            Self::FORM_KC => Some(Form::CompatibilityComposed),
            _ => None,
        }
    }
}

/// The one spelling that stands for all spellings of a name.
#[must_use]
pub fn normalize(name: &[u8], flags: NormalizationFlags) -> Cow<'_, [u8]> {
    if flags.is_exact() {
        return Cow::Borrowed(name);
    }
    if name.is_ascii() {
        return if flags.folds() && name.iter().any(u8::is_ascii_lowercase) {
            Cow::Owned(name.to_ascii_uppercase())
        } else {
            Cow::Borrowed(name)
        };
    }
    let mut out = Vec::with_capacity(name.len() + 16);
    for chunk in name.utf8_chunks() {
        normalize_text(chunk.valid(), flags, &mut out);
        out.extend_from_slice(chunk.invalid());
    }
    Cow::Owned(out)
}

/// Whether two names are one under `flags`.
#[must_use]
pub fn names_match(one: &[u8], other: &[u8], flags: NormalizationFlags) -> bool {
    one == other || (!flags.is_exact() && normalize(one, flags) == normalize(other, flags))
}

/// Appends the normalised text; runs of characters that Unicode 5.0 knows are normalised each by
/// itself, those between them pass through.
fn normalize_text(text: &str, flags: NormalizationFlags, out: &mut Vec<u8>) {
    let mut run = String::with_capacity(text.len());
    for character in text.chars() {
        if !unicode_5::is_assigned(character) {
            flush_run(&mut run, flags, out);
            out.extend_from_slice(character.encode_utf8(&mut [0; 4]).as_bytes());
        } else if flags.folds() {
            run.push(unicode_5::to_upper(character));
        } else {
            run.push(character);
        }
    }
    flush_run(&mut run, flags, out);
}

fn flush_run(run: &mut String, flags: NormalizationFlags, out: &mut Vec<u8>) {
    let mut put = |character: char| {
        out.extend_from_slice(character.encode_utf8(&mut [0; 4]).as_bytes());
    };
    match flags.form() {
        None => run.chars().for_each(&mut put),
        Some(Form::Decomposed) => run.nfd().for_each(&mut put),
        Some(Form::Composed) => run.nfc().for_each(&mut put),
        Some(Form::CompatibilityDecomposed) => run.nfkd().for_each(&mut put),
        Some(Form::CompatibilityComposed) => run.nfkc().for_each(&mut put),
    }
    run.clear();
}

#[cfg(test)]
mod tests;
