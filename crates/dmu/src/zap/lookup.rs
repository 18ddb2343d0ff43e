//! Looking names up.

use format::zap::normalize::{NormalizationFlags, names_match};
use format::zap::{Key, Value};

use super::header::header;
use super::{Form, Zap, fat};
use crate::error::Result;

/// How names are compared in a lookup.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ZapMatch {
    /// Byte by byte.
    Exact,
    /// As the ZAP normalises names.
    Normalized,
    /// As the ZAP normalises names, but with case.
    NormalizedCase,
}

/// An entry found by a lookup that normalises.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FoundName {
    /// The name as it is stored.
    pub name: Vec<u8>,
    /// The value.
    pub value: u64,
    /// Whether other entries match as well.
    pub conflict: bool,
}

impl Zap {
    /// How many entries there are.
    ///
    /// # Errors
    /// The header cannot be read.
    pub fn len(&self) -> Result<u64> {
        if let Form::Micro(index) = &*self.state().form.read() {
            return Ok(index.len() as u64);
        }
        Ok(header(&self.object)?.0.entry_count)
    }

    /// Whether there is no entry.
    ///
    /// # Errors
    /// The header cannot be read.
    pub fn is_empty(&self) -> Result<bool> {
        Ok(self.len()? == 0)
    }

    /// The normalisation word.
    ///
    /// # Errors
    /// The header cannot be read.
    pub fn normalization(&self) -> Result<u64> {
        if let Form::Micro(index) = &*self.state().form.read() {
            return Ok(index.normalization().0);
        }
        Ok(fat::located(self)?.header.normalization)
    }

    /// The one integer of a name; the first when there are more.
    ///
    /// # Errors
    /// A block cannot be read or is malformed.
    pub fn lookup(&self, name: &[u8]) -> Result<Option<u64>> {
        if let Form::Micro(index) = &*self.state().form.read() {
            return self
                .object
                .with_block(0, |block| index.find(block, name).map(|entry| entry.value));
        }
        fat::lookup(self, &Key::Name(name), |entry| match entry.word_value() {
            Some(word) => Ok(word),
            None => Ok(entry.value()?.to_words().first().copied().unwrap_or(0)),
        })
    }

    /// The value of a name.
    ///
    /// # Errors
    /// A block cannot be read or is malformed.
    pub fn lookup_value(&self, name: &[u8]) -> Result<Option<Value>> {
        self.lookup_key_value(&Key::Name(name))
    }

    /// The value of a key of words.
    ///
    /// # Errors
    /// A block cannot be read or is malformed.
    pub fn lookup_words(&self, key: &[u64]) -> Result<Option<Value>> {
        self.lookup_key_value(&Key::Words(key))
    }

    fn lookup_key_value(&self, key: &Key<'_>) -> Result<Option<Value>> {
        if let Form::Micro(index) = &*self.state().form.read() {
            let Key::Name(name) = key else {
                return Ok(None);
            };
            return self.object.with_block(0, |block| {
                index
                    .find(block, name)
                    .map(|entry| Value::word(entry.value))
            });
        }
        fat::lookup(self, key, |entry| entry.value())
    }

    /// The entry that a name means under some way of comparing.
    ///
    /// # Errors
    /// A block cannot be read or is malformed.
    pub fn lookup_matching(&self, name: &[u8], how: ZapMatch) -> Result<Option<FoundName>> {
        let flags = NormalizationFlags(self.normalization()?);
        let matches = |stored: &[u8]| match how {
            ZapMatch::Exact => stored == name,
            ZapMatch::Normalized => names_match(stored, name, flags),
            ZapMatch::NormalizedCase => names_match(stored, name, flags.without_fold()),
        };
        let mut found: Option<FoundName> = None;
        let mut add = |stored: &[u8], value: u64| match &mut found {
            Some(first) => first.conflict = true,
            None => {
                found = Some(FoundName {
                    name: stored.to_vec(),
                    value,
                    conflict: false,
                })
            }
        };
        if let Form::Micro(index) = &*self.state().form.read() {
            self.object.with_block(0, |block| {
                for entry in index
                    .same_hash(block, name)
                    .filter(|entry| matches(entry.name))
                {
                    add(entry.name, entry.value);
                }
            })?;
            return Ok(found);
        }
        fat::each_of_hash(self, name, |stored, value| {
            if matches(stored) {
                add(stored, value);
            }
        })?;
        Ok(found)
    }

    /// [`Zap::lookup`] with a number as its own name, in hex.
    ///
    /// # Errors
    /// As [`Zap::lookup`].
    pub fn lookup_int(&self, key: u64) -> Result<Option<u64>> {
        self.lookup(format!("{key:x}").as_bytes())
    }
}
