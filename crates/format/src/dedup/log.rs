//! Logs of dedup tables: changes of entries that are not in their ZAPs yet.
//!
//! A table has two logs. Changes are appended to one; the other is brought into the ZAPs in the order of its keys.

use base::ByteOrder;

use super::{DedupClass, DedupKey, FLAT_BYTES, KEY_BYTES, get_at};
use crate::bits::bits;
use crate::record::{put_at, record};

/// Bytes of the word that begins a record.
const HEAD_BYTES: usize = 8;
/// Bytes of a record of an entry of the newer kind.
pub const RECORD_BYTES: usize = HEAD_BYTES + KEY_BYTES + FLAT_BYTES;
/// The kind of the records that are entries.
const ENTRY: u64 = 1;
/// The number of the one kind of store that there is: ZAPs, …
const STORE_ZAP: u8 = 0;
/// … and what a record has in its place of an entry that no store has, …
const STORE_NONE: u8 = 1;
/// … and in place of the class.
const CLASS_NONE: u8 = 3;

bits! {
    /// The first word of a log's header.
    #[doc(alias = "dlh_info")]
    pub struct DedupLogHead [64] {
        /// The version: 1.
        version: 8 = 0,
        /// It is being brought into the ZAPs.
        flushing: 1 = 8,
        /// The checkpoint is valid.
        checkpoint: 1 = 9,
    }
}

record! {
    /// The bonus of a log.
    #[doc(alias = "ddt_log_header_t")]
    pub struct DedupLogPhys [64] {
        /// See [`DedupLogHead`].
        #[doc(alias = "dlh_info")]
        head: u64 = 0,
        /// Bytes in use.
        #[doc(alias = "dlh_length")]
        length: u64 = 8,
        /// The first txg that appended to it.
        #[doc(alias = "dlh_first_txg")]
        first_txg: u64 = 16,
        /// The last key that was brought into the ZAPs.
        #[doc(alias = "dlh_checkpoint")]
        checkpoint: [u64; 5] = 24,
    }
}

bits! {
    /// The word that begins a record.
    #[doc(alias = "dlr_info")]
    pub struct DedupRecordHead [64] {
        /// What it is: 0 nothing, 1 an entry.
        kind: 8 = 0,
        /// Bytes of the record.
        length: 16 = 8,
        /// The kind of store that has the entry, of which there is one.
        store: 8 = 48,
        /// The class that has it.
        class: 8 = 56,
    }
}

/// A record of a log: the state of an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogRecord<'a> {
    /// Which kind of store has the entry, if one has it.
    pub store: u8,
    /// Which class has it there.
    pub class: u8,
    /// The key.
    pub key: DedupKey,
    /// The value's bytes.
    pub value: &'a [u8],
}

impl<'a> LogRecord<'a> {
    /// The record of an entry; `home`: the class whose ZAP has an older state of it.
    #[must_use]
    pub fn new(key: DedupKey, home: Option<DedupClass>, value: &'a [u8]) -> Self {
        let (store, class) = match home {
            Some(DedupClass::Ditto) => (STORE_ZAP, 0),
            Some(DedupClass::Duplicate) => (STORE_ZAP, 1),
            Some(DedupClass::Unique) => (STORE_ZAP, 2),
            None => (STORE_NONE, CLASS_NONE),
        };
        Self {
            store,
            class,
            key,
            value,
        }
    }

    /// The class whose ZAP has an older state of the entry, if one has.
    #[must_use]
    pub fn home(&self) -> Option<DedupClass> {
        let class = DedupClass::ALL.get(usize::from(self.class)).copied();
        class.filter(|_| self.store == STORE_ZAP)
    }

    /// Writes the record, in the order of this machine; what has no room is left out.
    pub fn encode(&self, bytes: &mut [u8]) {
        let order = ByteOrder::NATIVE;
        let length = HEAD_BYTES + KEY_BYTES + self.value.len();
        let at = DedupRecordHead::AT;
        let mut head = at.kind.set(0, ENTRY);
        head = at.length.set(head, length as u64);
        head = at.store.set(head, self.store.into());
        head = at.class.set(head, self.class.into());
        put_at(bytes, 0, &head, order);
        put_at(bytes, HEAD_BYTES, &self.key, order);
        if let Some(room) = bytes.get_mut(HEAD_BYTES + KEY_BYTES..length) {
            room.copy_from_slice(self.value);
        }
    }
}

/// The records of a block of a log. They end with the block, or with what is none.
pub fn log_records(block: &[u8]) -> impl Iterator<Item = LogRecord<'_>> {
    let order = ByteOrder::NATIVE;
    let mut rest = block;
    std::iter::from_fn(move || {
        let head: u64 = get_at(rest, 0, order);
        let at = DedupRecordHead::AT;
        let length = usize::from(at.length.get_u16(head));
        let (record, after) = rest.split_at_checked(length)?;
        let value = record.get(HEAD_BYTES + KEY_BYTES..)?;
        if at.kind.get(head) != ENTRY {
            return None;
        }
        rest = after;
        Some(LogRecord {
            store: at.store.get_u8(head),
            class: at.class.get_u8(head),
            key: get_at(record, HEAD_BYTES, order),
            value,
        })
    })
}
