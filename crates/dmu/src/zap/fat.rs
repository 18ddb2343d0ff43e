//! The fat form: a header with a pointer table, and leaves. Changes happen under the writer's lock.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use format::FormatError;
use format::zap::fat::{embedded_entry, external_entry, set_embedded_entry};
use format::zap::leaf::Entry;
use format::zap::normalize::NormalizationFlags;
use format::zap::{
    FatHeader, HashKind, Key, Leaf, LeafMut, Value, hash_name, hash_words, normalize,
};
use sys::{Buffer, BufferMut};

use super::header::{header, malformed, place};
use super::state::Located;
use super::{Zap, grow};
use crate::error::{DmuError, Result};
use crate::meters::METERS;
use crate::object::Object;
use crate::tx::Tx;

/// The parameters of a new fat ZAP.
pub(super) struct NewFat {
    pub(super) salt: u64,
    pub(super) normalization: u64,
    pub(super) flags: u64,
}

/// A key, and where it goes when that is not to be computed.
pub(super) struct FatKey<'a> {
    pub(super) key: Key<'a>,
    /// Hash and differentiator.
    pub(super) given: Option<(u64, u32)>,
}

impl<'a> FatKey<'a> {
    pub(super) const fn new(key: Key<'a>) -> Self {
        Self { key, given: None }
    }
}

/// The header, from memory while no leaf was split and no table moved since it was read.
pub(super) fn located(zap: &Zap) -> Result<Arc<Located>> {
    let state = zap.state();
    let version = state.version.load(Ordering::Acquire);
    if let Some(known) = &*state.located.read()
        && known.version == version
    {
        return Ok(Arc::clone(known));
    }
    let (header, first) = header(&zap.object)?;
    let fresh = Arc::new(Located {
        version,
        header,
        first,
    });
    *state.located.write() = Some(Arc::clone(&fresh));
    Ok(fresh)
}

/// Makes the object an empty fat ZAP of its block size.
pub(super) fn format(object: &Arc<Object>, tx: &Tx, new: &NewFat) -> Result<()> {
    let size = object.block_size() as usize;
    let shift = size.trailing_zeros();
    let mut first = BufferMut::zeroed(size);
    let header = FatHeader::new(shift, new.salt, new.normalization, new.flags);
    header.write(&mut first);
    for index in 0..1u64 << header.table_shift {
        set_embedded_entry(&mut first, index, 1);
    }
    let mut leaf = BufferMut::zeroed(size);
    LeafMut::create(&mut leaf, 0, 0, new.normalization != 0)
        .map_err(|error| malformed(object, 1, &error))?;
    object.write_block(tx, 0, first.freeze())?;
    object.write_block(tx, 1, leaf.freeze())
}

pub(super) fn hash_of(header: &FatHeader, key: &Key<'_>) -> u64 {
    let kind = HashKind::from_flags(header.flags);
    match key {
        Key::Name(name) => {
            let flags = NormalizationFlags(header.normalization);
            hash_name(kind, header.salt, &normalize(name, flags))
        }
        Key::Words(words) => hash_words(kind, header.salt, words),
    }
}

/// The block of the pointer table that has the entry of `hash`; none when the table is in the header. Blocks have
/// `size` bytes.
pub(super) fn table_block(header: &FatHeader, size: usize, hash: u64) -> Option<u64> {
    let per_block = (size / 8) as u64;
    let block = header.table_index(hash) / per_block;
    (!header.is_embedded()).then(|| header.table_block.saturating_add(block))
}

/// The block of the leaf that `hash` belongs to.
pub(super) fn leaf_block(
    object: &Object,
    header: &FatHeader,
    first: &[u8],
    hash: u64,
) -> Result<u64> {
    let index = header.table_index(hash);
    let leaf = match table_block(header, first.len(), hash) {
        None => embedded_entry(first, index),
        Some(block) => {
            let table = object.read_block(block)?;
            external_entry(&table, (index % (first.len() / 8) as u64) as usize)
        }
    };
    if leaf == 0 || leaf >= header.free_block {
        let what = format!("the pointer table leads to block {leaf}");
        return Err(DmuError::corrupt(place(object, 0), what));
    }
    Ok(leaf)
}

/// The leaf of a hash, as a snapshot, and its block. Nothing when a split is under way.
fn try_leaf(
    object: &Object,
    header: &FatHeader,
    first: &[u8],
    hash: u64,
) -> Result<Option<(Buffer, u64)>> {
    let block = leaf_block(object, header, first, hash)?;
    let data = object.read_block(block)?;
    let leaf = Leaf::new(&data).map_err(|error| malformed(object, block, &error))?;
    Ok(leaf.covers(hash).then_some((data, block)))
}

/// The leaf of a hash, for those who hold the writer's lock.
pub(super) fn leaf_locked(zap: &Zap, hash: u64) -> Result<(Buffer, u64)> {
    let located = located(zap)?;
    try_leaf(&zap.object, &located.header, &located.first, hash)?.ok_or_else(|| {
        let what = "the pointer table leads to a leaf of other hashes";
        DmuError::corrupt(place(&zap.object, 0), what)
    })
}

/// The leaf of a hash, for readers.
pub(super) fn leaf_of(zap: &Zap, located: &Located, hash: u64) -> Result<Buffer> {
    placed_leaf_of(zap, located, hash).map(|(data, _)| data)
}

/// The same, and its block.
pub(super) fn placed_leaf_of(zap: &Zap, located: &Located, hash: u64) -> Result<(Buffer, u64)> {
    // What was remembered may lead anywhere once the table has moved.
    if let Ok(Some(found)) = try_leaf(&zap.object, &located.header, &located.first, hash) {
        return Ok(found);
    }
    METERS.lookups_repeated.increment();
    let _writer = zap.state().writer.lock();
    leaf_locked(zap, hash)
}

/// Starts reading the leaves that follow the one of `hash` in a listing. Best effort.
pub(super) fn prefetch_after(object: &Object, located: &Located, hash: u64) {
    const LEAVES: usize = 4;
    const LOOKS: u64 = 64;
    let (header, first) = (&located.header, &located.first);
    let step = 1u64 << (64 - header.table_shift.clamp(1, 63));
    let size = first.len() as u64;
    let mut seen = [0; LEAVES + 1];
    let mut count = 0;
    for ahead in 0..LOOKS {
        let Some(next) = ahead
            .checked_mul(step)
            .and_then(|ahead| hash.checked_add(ahead))
        else {
            return;
        };
        let Ok(block) = leaf_block(object, header, first, next) else {
            return;
        };
        if count > 0 && seen[count - 1] == block {
            continue;
        }
        // The first is the leaf that is read anyway.
        if count > 0 {
            object.prefetch(block * size, size);
        }
        seen[count] = block;
        count += 1;
        if count > LEAVES {
            return;
        }
    }
}

/// What `take` makes of the entry of a key.
pub(super) fn lookup<R>(
    zap: &Zap,
    key: &Key<'_>,
    take: impl FnOnce(&Entry<'_>) -> Result<R, FormatError>,
) -> Result<Option<R>> {
    let located = located(zap)?;
    check_key_kind(zap, &located.header, key)?;
    let hash = hash_of(&located.header, key);
    let known = zap.state().prints.get();
    let known = known.map(|prints| (prints, prints.version()));
    if let Some((prints, _)) = known
        && let Ok(block) = leaf_block(&zap.object, &located.header, &located.first, hash)
        && prints.lacks(block, hash)
    {
        return Ok(None);
    }
    let (data, block) = placed_leaf_of(zap, &located, hash)?;
    let leaf = Leaf::new(&data).map_err(|error| malformed(&zap.object, block, &error))?;
    if let Some((prints, version)) = known {
        prints.learn(block, &leaf, version);
    }
    let Some(entry) = leaf.find_key(hash, key) else {
        return Ok(None);
    };
    take(&entry)
        .map(Some)
        .map_err(|error| malformed(&zap.object, block, &error))
}

/// Calls `each` with every name that shares the hash of `name`, lowest differentiator first.
pub(super) fn each_of_hash(zap: &Zap, name: &[u8], mut each: impl FnMut(&[u8], u64)) -> Result<()> {
    let located = located(zap)?;
    let key = Key::Name(name);
    check_key_kind(zap, &located.header, &key)?;
    let hash = hash_of(&located.header, &key);
    let data = leaf_of(zap, &located, hash)?;
    let wrong = |error: FormatError| malformed(&zap.object, 0, &error);
    let leaf = Leaf::new(&data).map_err(wrong)?;
    let mut entries: Vec<_> = leaf.find(hash).collect();
    entries.sort_unstable_by_key(Entry::differentiator);
    for entry in entries {
        let value = match entry.word_value() {
            Some(word) => word,
            None => entry
                .value()
                .map_err(wrong)?
                .to_words()
                .first()
                .copied()
                .unwrap_or(0),
        };
        each(&entry.name().map_err(wrong)?, value);
    }
    Ok(())
}

pub(super) fn check_key_kind(zap: &Zap, header: &FatHeader, key: &Key<'_>) -> Result<()> {
    let words = HashKind::from_flags(header.flags).words;
    if words == matches!(key, Key::Words(_)) {
        Ok(())
    } else {
        Err(zap.object.unsuitable("the ZAP has keys of another kind"))
    }
}

/// Adds `delta` to the number of entries.
pub(super) fn count(object: &Arc<Object>, tx: &Tx, delta: i64) -> Result<()> {
    const ENTRY_COUNT: usize = 72;
    object.modify_block(tx, 0, |block| {
        if let Some(bytes) = block.get_mut(ENTRY_COUNT..ENTRY_COUNT + 8)
            && let Ok(old) = <[u8; 8]>::try_from(&*bytes)
        {
            let new = u64::from_ne_bytes(old).saturating_add_signed(delta);
            bytes.copy_from_slice(&new.to_ne_bytes());
        }
    })
}

/// What a change of a leaf came to.
enum Changed {
    Done,
    /// The leaf must be split first.
    NoRoom,
    Exists,
}

fn outcome(object: &Object, block: u64, done: Result<(), FormatError>) -> Result<Changed> {
    match done {
        Ok(()) => Ok(Changed::Done),
        Err(FormatError::NoRoom { .. }) => Ok(Changed::NoRoom),
        Err(error) => Err(malformed(object, block, &error)),
    }
}

/// Adds a key that is not there.
pub(super) fn insert(zap: &Zap, tx: &Tx, key: &FatKey<'_>, value: &Value) -> Result<()> {
    put(zap, tx, key, value, false)
}

/// Sets the value of a key that may be there.
pub(super) fn update(zap: &Zap, tx: &Tx, key: &FatKey<'_>, value: &Value) -> Result<()> {
    put(zap, tx, key, value, true)
}

fn put(zap: &Zap, tx: &Tx, key: &FatKey<'_>, value: &Value, replace: bool) -> Result<()> {
    let object = &zap.object;
    if value.stored().len() > format::zap::VALUE_MAX {
        return Err(object.unsuitable("a value that no ZAP holds"));
    }
    let known = located(zap)?;
    let header = &known.header;
    check_key_kind(zap, header, &key.key)?;
    if header.table_next_block != 0 {
        let finished = grow::finish_table(object, tx);
        zap.state().moved();
        finished?;
    }
    let hash = key
        .given
        .map_or_else(|| hash_of(header, &key.key), |(hash, _)| hash);
    let prints = zap.state().prints.get();
    loop {
        let (block, exists) = {
            let (data, block) = leaf_locked(zap, hash)?;
            let leaf = Leaf::new(&data).map_err(|error| malformed(object, block, &error))?;
            let exists = leaf.find_key(hash, &key.key).map(|entry| entry.chunk());
            if let Some(prints) = prints {
                prints.learn(block, &leaf, prints.version());
            }
            (block, exists)
        };
        let changed = match exists {
            Some(_) if !replace => Changed::Exists,
            Some(chunk) => {
                let done = object
                    .modify_block(tx, block, |bytes| LeafMut::new(bytes)?.update(chunk, value))?;
                outcome(object, block, done)?
            }
            None => {
                // The number of entries is in it.
                object.hold_block(tx, 0)?;
                let done = object.modify_block(tx, block, |bytes| {
                    let mut leaf = LeafMut::new(bytes)?;
                    let differentiator = match key.given {
                        Some((_, differentiator)) => differentiator,
                        None => leaf.as_leaf().unused_differentiator(hash),
                    };
                    leaf.insert(hash, differentiator, &key.key, value)
                        .map(|_| ())
                })?;
                if done.is_ok() {
                    if let Some(prints) = prints {
                        prints.note(block, hash);
                    }
                    count(object, tx, 1)?;
                }
                outcome(object, block, done)?
            }
        };
        match changed {
            Changed::Done => return Ok(()),
            Changed::Exists => return Err(zap.entry_exists()),
            Changed::NoRoom => split(zap, tx, block, hash)?,
        }
    }
}

/// Splits the leaf in `block`, to which `hash` belongs.
pub(super) fn split(zap: &Zap, tx: &Tx, block: u64, hash: u64) -> Result<()> {
    let state = zap.state();
    if let Some(prints) = state.prints.get() {
        prints.forget(block);
    }
    let split = grow::split(&zap.object, tx, block, hash);
    state.moved();
    split
}

/// Removes a key.
pub(super) fn remove(zap: &Zap, tx: &Tx, key: &Key<'_>) -> Result<()> {
    let object = &zap.object;
    let header = located(zap)?;
    check_key_kind(zap, &header.header, key)?;
    let hash = hash_of(&header.header, key);
    let (block, chunk) = {
        let (data, block) = leaf_locked(zap, hash)?;
        let leaf = Leaf::new(&data).map_err(|error| malformed(object, block, &error))?;
        let entry = leaf
            .find_key(hash, key)
            .ok_or_else(|| zap.no_such_entry())?;
        (block, entry.chunk())
    };
    object.hold_block(tx, 0)?;
    let done = object.modify_block(tx, block, |bytes| LeafMut::new(bytes)?.remove(chunk))?;
    done.map_err(|error| malformed(object, block, &error))?;
    count(object, tx, -1)
}
