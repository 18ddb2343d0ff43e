//! ZAPs by brute force: every leaf that is there, whatever the pointer table says.

use format::zap::{self, BlockKind, HashKind, Leaf, Micro, NormalizationFlags, Value};

use super::RawObject;
use crate::error::{InspectError, Result};

/// A key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ZapKey {
    /// A name.
    Name(Vec<u8>),
    /// Words (dedup tables and their like).
    Words(Vec<u64>),
}

impl ZapKey {
    /// The name as text, for people.
    pub(crate) fn text(&self) -> String {
        match self {
            Self::Name(name) => String::from_utf8_lossy(name).into_owned(),
            Self::Words(words) => {
                let words: Vec<String> = words.iter().map(|word| format!("{word:x}")).collect();
                words.join(" ")
            }
        }
    }
}

/// An entry.
#[derive(Clone, Debug)]
pub(crate) struct ZapEntry {
    pub(crate) key: ZapKey,
    pub(crate) value: Value,
    /// Where a listing comes by: entries are in the order of hash and differentiator.
    pub(crate) hash: u64,
    pub(crate) differentiator: u32,
}

impl RawObject {
    /// Visits every entry; damage goes to `damage`, and the rest goes on.
    pub(crate) fn zap_entries_past(
        &self,
        damage: &mut dyn FnMut(InspectError),
        visit: &mut dyn FnMut(ZapEntry),
    ) {
        let mut word_keys = false;
        self.for_each_block(
            damage,
            &mut |_, block, damage| match zap::block_kind(&block) {
                BlockKind::Micro => match Micro::new(&block) {
                    Ok(micro) => {
                        let header = micro.header();
                        let flags = NormalizationFlags(header.normalization);
                        for entry in micro.entries() {
                            let normalized = zap::normalize(entry.name, flags);
                            visit(ZapEntry {
                                key: ZapKey::Name(entry.name.to_vec()),
                                value: Value::word(entry.value),
                                hash: zap::hash_name(HashKind::PLAIN, header.salt, &normalized),
                                differentiator: entry.differentiator,
                            });
                        }
                    }
                    Err(source) => damage(self.format_error(source)),
                },
                BlockKind::Header => match zap::FatHeader::read(&block) {
                    Ok(header) => word_keys = header.flags & zap::FatHeader::FLAG_WORD_KEYS != 0,
                    Err(source) => damage(self.format_error(source)),
                },
                BlockKind::Leaf => match Leaf::new(&block) {
                    Ok(leaf) => {
                        for entry in leaf.entries() {
                            let key = if word_keys {
                                entry.words().map(ZapKey::Words)
                            } else {
                                entry.name().map(ZapKey::Name)
                            };
                            match key.and_then(|key| {
                                let (hash, differentiator) = (entry.hash(), entry.differentiator());
                                Ok(ZapEntry {
                                    key,
                                    value: entry.value()?,
                                    hash,
                                    differentiator,
                                })
                            }) {
                                Ok(entry) => visit(entry),
                                Err(source) => damage(self.format_error(source)),
                            }
                        }
                    }
                    Err(source) => damage(self.format_error(source)),
                },
                BlockKind::Other => {}
            },
        );
    }

    /// Visits every entry, or fails on the first damage.
    pub(crate) fn zap_entries(&self, visit: &mut dyn FnMut(ZapEntry)) -> Result<()> {
        let mut first = None;
        self.zap_entries_past(&mut |error| first = first.take().or(Some(error)), visit);
        first.map_or(Ok(()), Err)
    }

    /// The value of a name. Damage elsewhere in the table does not matter when it is found.
    pub(crate) fn zap_lookup(&self, name: &[u8]) -> Result<Option<Value>> {
        let mut found = None;
        let result = self.zap_entries(&mut |entry| {
            if matches!(&entry.key, ZapKey::Name(key) if key == name) {
                found = Some(entry.value);
            }
        });
        if found.is_none() {
            result?;
        }
        Ok(found)
    }
}
