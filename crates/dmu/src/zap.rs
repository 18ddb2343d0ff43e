//! The ZAP: a table from names (or words) to integers, kept in an object.
//!
//! Readers of a fat ZAP take no lock of it: a leaf that they read is a snapshot, and says by its
//! prefix whether it is the right one; if not, a split is under way and they look again behind the
//! writer's lock. A micro ZAP has an index in memory, behind a lock that is shared by readers.

mod ahead;
mod cursor;
mod fat;
mod grow;
mod hold;
mod micro;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use base::lock::{LockClass, Mutex, MutexGuard, RwLock, rank};
use base::{Bookmark, ObjectId};
use format::zap::micro::{MICRO_NAME_MAX, SIZE_MAX};
use format::zap::normalize::{NormalizationFlags, names_match};
use format::zap::{self, BlockKind, FatHeader, Key, MicroMut, Value};
use format::{FormatError, ObjectType};
use sys::BufferMut;

use crate::error::{DmuError, Result};
use crate::object::Object;
use crate::object_set::{AllocateObject, ObjectSet};
use crate::tx::Tx;

pub use cursor::{ZapCursor, ZapEntry};
use fat::{FatKey, Located, NewFat};
use micro::{Index, TooSmall};

static WRITER: LockClass = LockClass::new("dmu.zap_writer", rank::DMU + 10);
static LOCATED: LockClass = LockClass::new("dmu.zap_header", rank::DMU + 12);
static FORM: LockClass = LockClass::new("dmu.zap_form", rank::DMU + 11);

/// Which form the ZAP has, as far as it is known.
#[derive(Clone)]
pub(crate) enum Form {
    Unknown,
    Micro(Index),
    Fat,
}

/// What an object that is a ZAP keeps in memory.
pub(crate) struct ZapState {
    /// Held while the ZAP is changed.
    pub(crate) writer: Mutex<()>,
    pub(crate) form: RwLock<Form>,
    /// The header of a fat ZAP, for lookups.
    located: RwLock<Option<Arc<Located>>>,
    /// Rises whenever leaves move.
    version: AtomicU64,
}

impl ZapState {
    fn new() -> Box<Self> {
        Box::new(Self {
            writer: Mutex::new(&WRITER, ()),
            form: RwLock::new(&FORM, Form::Unknown),
            located: RwLock::new(&LOCATED, None),
            version: AtomicU64::new(0),
        })
    }

    /// Leaves have moved: the header that is remembered is out of date.
    pub(crate) fn moved(&self) {
        self.version.fetch_add(1, Ordering::AcqRel);
        *self.located.write() = None;
    }
}

/// How a new ZAP is made.
#[derive(Clone, Copy, Debug, Default)]
pub struct CreateZap {
    /// The object's type.
    pub object_type: ObjectType,
    /// What the bonus holds.
    pub bonus_type: ObjectType,
    /// Valid bonus bytes.
    pub bonus_len: u16,
    /// Slots of the dnode; 0 = 1.
    pub slots: u8,
    /// The object's number, when it is given.
    pub id: Option<ObjectId>,
    /// The normalisation word.
    pub normalization: u64,
    /// The `FLAG_` constants of [`FatHeader`]; any makes the ZAP fat at once.
    pub flags: u64,
    /// Block size; 0 = 512 for a micro ZAP, 16 KiB for a fat one.
    pub block_size: u32,
    /// Log2 of the indirect block size; 0 = 17.
    pub indirect_shift: u8,
}

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

/// A ZAP. Cheap to clone and to open; what is kept in memory belongs to the object.
#[derive(Clone, Debug)]
pub struct Zap {
    object: Arc<Object>,
}

impl Zap {
    /// The ZAP in an object.
    ///
    /// # Errors
    /// Its first block cannot be read or is no ZAP's.
    pub fn open(object: &Arc<Object>) -> Result<Self> {
        let zap = Self {
            object: Arc::clone(object),
        };
        zap.load()?;
        Ok(zap)
    }

    /// A new ZAP in a new object.
    ///
    /// # Errors
    /// The object cannot be created.
    pub fn create(set: &ObjectSet, tx: &Tx, options: &CreateZap) -> Result<Self> {
        const FAT_BLOCK: u32 = 1 << zap::fat::BLOCK_SHIFT_DEFAULT;
        let fat = options.flags != 0;
        let default = if fat { FAT_BLOCK } else { 512 };
        let block_size = if options.block_size == 0 {
            default
        } else {
            options.block_size
        };
        let shape = AllocateObject {
            object_type: options.object_type,
            block_size,
            indirect_shift: options.indirect_shift,
            bonus_type: options.bonus_type,
            bonus_len: options.bonus_len,
            slots: options.slots,
        };
        let object = match options.id {
            Some(id) => set.claim(tx, id, &shape)?,
            None => set.allocate(tx, &shape)?,
        };
        if !fat {
            return Self::format(&object, tx, options.normalization);
        }
        if options.flags & FatHeader::FLAG_WORD_KEYS != 0 && options.normalization != 0 {
            return Err(object.unsuitable("word keys are not normalised"));
        }
        let zap = Self { object };
        let new = NewFat {
            salt: new_salt(&zap.object, tx),
            normalization: options.normalization,
            flags: options.flags,
        };
        let writer = zap.state().writer.lock();
        fat::format(&zap.object, tx, &new)?;
        *zap.state().form.write() = Form::Fat;
        drop(writer);
        Ok(zap)
    }

    /// Makes an object that has no data an empty micro ZAP.
    ///
    /// # Errors
    /// The object cannot be written.
    pub fn format(object: &Arc<Object>, tx: &Tx, normalization: u64) -> Result<Self> {
        let zap = Self {
            object: Arc::clone(object),
        };
        let writer = zap.state().writer.lock();
        let size = object.block_size() as usize;
        let salt = new_salt(object, tx);
        let mut block = BufferMut::zeroed(size);
        MicroMut::create(&mut block, salt, normalization);
        let index = Index::load(&block).map_err(|error| zap.format_error(0, &error))?;
        object.write_block(tx, 0, block.freeze())?;
        fat::moved(&zap);
        *zap.state().form.write() = Form::Micro(index);
        drop(writer);
        Ok(zap)
    }

    /// The object.
    #[must_use]
    pub const fn object(&self) -> &Arc<Object> {
        &self.object
    }

    fn state(&self) -> &ZapState {
        self.object.zap.get_or_init(ZapState::new)
    }

    /// Begins a change.
    fn begin(&self, tx: &Tx) -> Result<MutexGuard<'_, ()>> {
        let writer = self.state().writer.lock();
        self.object.stage(tx)?;
        Ok(writer)
    }

    fn load(&self) -> Result<()> {
        if !matches!(*self.state().form.read(), Form::Unknown) {
            return Ok(());
        }
        let block = self.object.read_block(0)?;
        let mut form = self.state().form.write();
        if matches!(*form, Form::Unknown) {
            *form = match zap::block_kind(&block) {
                BlockKind::Micro => {
                    let index = Index::load(&block);
                    Form::Micro(index.map_err(|error| self.format_error(0, &error))?)
                }
                BlockKind::Header => {
                    FatHeader::read(&block).map_err(|error| self.format_error(0, &error))?;
                    Form::Fat
                }
                BlockKind::Leaf | BlockKind::Other => {
                    return Err(DmuError::corrupt(
                        self.place(0),
                        "not the first block of a ZAP",
                    ));
                }
            };
        }
        Ok(())
    }

    fn place(&self, block: u64) -> Bookmark {
        Bookmark::new(self.object.object_set(), self.object.id(), 0, block)
    }

    fn format_error(&self, block: u64, error: &FormatError) -> DmuError {
        DmuError::corrupt(self.place(block), error.to_string())
    }

    fn entry_exists(&self) -> DmuError {
        DmuError::EntryExists {
            object_set: self.object.object_set(),
            object: self.object.id(),
        }
    }

    fn no_such_entry(&self) -> DmuError {
        DmuError::NoSuchEntry {
            object_set: self.object.object_set(),
            object: self.object.id(),
        }
    }

    /// How many entries there are.
    ///
    /// # Errors
    /// The header cannot be read.
    pub fn len(&self) -> Result<u64> {
        if let Form::Micro(index) = &*self.state().form.read() {
            return Ok(index.len() as u64);
        }
        Ok(fat::header(&self.object)?.0.entry_count)
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

    /// Adds a name with one integer.
    ///
    /// # Errors
    /// The name is there already; the ZAP is full; a block cannot be read or is malformed.
    pub fn add(&self, tx: &Tx, name: &[u8], value: u64) -> Result<()> {
        self.check_name(name)?;
        let _writer = self.begin(tx)?;
        if self.put_micro(tx, name, value, false)? {
            return Ok(());
        }
        fat::insert(self, tx, &FatKey::new(Key::Name(name)), &Value::word(value))
    }

    /// Adds a name with any value.
    ///
    /// # Errors
    /// As [`Zap::add`].
    pub fn add_value(&self, tx: &Tx, name: &[u8], value: &Value) -> Result<()> {
        if let Some(word) = value.as_word() {
            return self.add(tx, name, word);
        }
        self.check_name(name)?;
        let _writer = self.begin(tx)?;
        self.make_fat(tx)?;
        fat::insert(self, tx, &FatKey::new(Key::Name(name)), value)
    }

    /// Adds a key of words.
    ///
    /// # Errors
    /// As [`Zap::add`].
    pub fn add_words(&self, tx: &Tx, key: &[u64], value: &Value) -> Result<()> {
        let _writer = self.begin(tx)?;
        fat::insert(self, tx, &FatKey::new(Key::Words(key)), value)
    }

    /// Sets the integer of a name, which need not be there.
    ///
    /// # Errors
    /// As [`Zap::add`], but that the name may be there.
    pub fn update(&self, tx: &Tx, name: &[u8], value: u64) -> Result<()> {
        self.check_name(name)?;
        let _writer = self.begin(tx)?;
        if self.put_micro(tx, name, value, true)? {
            return Ok(());
        }
        fat::update(self, tx, &FatKey::new(Key::Name(name)), &Value::word(value))
    }

    /// Sets the value of a name, which need not be there.
    ///
    /// # Errors
    /// As [`Zap::update`].
    pub fn update_value(&self, tx: &Tx, name: &[u8], value: &Value) -> Result<()> {
        if let Some(word) = value.as_word() {
            return self.update(tx, name, word);
        }
        self.check_name(name)?;
        let _writer = self.begin(tx)?;
        self.make_fat(tx)?;
        fat::update(self, tx, &FatKey::new(Key::Name(name)), value)
    }

    /// Sets the value of a key of words, which need not be there.
    ///
    /// # Errors
    /// As [`Zap::update`].
    pub fn update_words(&self, tx: &Tx, key: &[u64], value: &Value) -> Result<()> {
        let _writer = self.begin(tx)?;
        fat::update(self, tx, &FatKey::new(Key::Words(key)), value)
    }

    /// Removes a name.
    ///
    /// # Errors
    /// It is not there; a block cannot be read or is malformed.
    pub fn remove(&self, tx: &Tx, name: &[u8]) -> Result<()> {
        let _writer = self.begin(tx)?;
        if let Form::Micro(index) = &mut *self.state().form.write() {
            let found = self
                .object
                .with_block(0, |block| index.find(block, name).map(|entry| entry.slot))?;
            let slot = found.ok_or_else(|| self.no_such_entry())?;
            self.object
                .modify_block(tx, 0, |block| {
                    index.forget(block, slot);
                    MicroMut::new(block).map(|mut block| block.clear(slot))
                })?
                .map_err(|error| self.format_error(0, &error))?;
            return Ok(());
        }
        fat::remove(self, tx, &Key::Name(name))
    }

    /// Removes a key of words.
    ///
    /// # Errors
    /// As [`Zap::remove`].
    pub fn remove_words(&self, tx: &Tx, key: &[u64]) -> Result<()> {
        let _writer = self.begin(tx)?;
        fat::remove(self, tx, &Key::Words(key))
    }

    /// Adds `delta` to the integer of a name; an entry that becomes 0 is removed.
    ///
    /// # Errors
    /// As [`Zap::update`].
    pub fn increment(&self, tx: &Tx, name: &[u8], delta: i64) -> Result<()> {
        let old = self.lookup(name)?;
        match (old, old.unwrap_or(0).wrapping_add_signed(delta)) {
            (None, 0) => Ok(()),
            (Some(_), 0) => self.remove(tx, name),
            (_, value) => self.update(tx, name, value),
        }
    }

    /// [`Zap::add`] with a number as its own name, in hex.
    ///
    /// # Errors
    /// As [`Zap::add`].
    pub fn add_int(&self, tx: &Tx, key: u64, value: u64) -> Result<()> {
        self.add(tx, format!("{key:x}").as_bytes(), value)
    }

    /// [`Zap::update`] with a number as its own name, in hex.
    ///
    /// # Errors
    /// As [`Zap::update`].
    pub fn update_int(&self, tx: &Tx, key: u64, value: u64) -> Result<()> {
        self.update(tx, format!("{key:x}").as_bytes(), value)
    }

    /// [`Zap::lookup`] with a number as its own name, in hex.
    ///
    /// # Errors
    /// As [`Zap::lookup`].
    pub fn lookup_int(&self, key: u64) -> Result<Option<u64>> {
        self.lookup(format!("{key:x}").as_bytes())
    }

    /// [`Zap::remove`] with a number as its own name, in hex.
    ///
    /// # Errors
    /// As [`Zap::remove`].
    pub fn remove_int(&self, tx: &Tx, key: u64) -> Result<()> {
        self.remove(tx, format!("{key:x}").as_bytes())
    }

    /// A listing that starts at a position: 0, or what [`ZapEntry::cookie`] said.
    #[must_use]
    pub fn cursor(&self, from: u64) -> ZapCursor {
        ZapCursor::new(self.clone(), from)
    }

    /// All entries, in the order of listings.
    ///
    /// # Errors
    /// A block cannot be read or is malformed.
    pub fn entries(&self) -> Result<Vec<ZapEntry>> {
        let mut cursor = self.cursor(0);
        let mut all = Vec::new();
        while let Some(entry) = cursor.next_entry()? {
            all.push(entry);
        }
        Ok(all)
    }

    fn check_name(&self, name: &[u8]) -> Result<()> {
        let directory = self.object.info().object_type == ObjectType::DIRECTORY;
        let max = if directory {
            zap::NAME_LONG_MAX
        } else {
            zap::NAME_MAX
        };
        if name.is_empty() || name.len() > max || name.contains(&0) {
            return Err(self.object.unsuitable("a name that no ZAP holds"));
        }
        Ok(())
    }

    /// Puts a name into a micro ZAP; false when the ZAP is fat, or has just become so.
    fn put_micro(&self, tx: &Tx, name: &[u8], value: u64, replace: bool) -> Result<bool> {
        let mut form = self.state().form.write();
        let Form::Micro(index) = &mut *form else {
            return Ok(false);
        };
        let known = self
            .object
            .with_block(0, |block| index.find(block, name).map(|e| e.slot))?;
        if let Some(slot) = known {
            if !replace {
                return Err(self.entry_exists());
            }
            let set = |block: &mut [u8]| {
                MicroMut::new(block).map(|mut block| block.set_value(slot, value))
            };
            let done = self.object.modify_block(tx, 0, set)?;
            return done
                .map(|()| true)
                .map_err(|error| self.format_error(0, &error));
        }
        if name.len() <= MICRO_NAME_MAX {
            let mut tried = self
                .object
                .modify_block(tx, 0, |block| index.insert(block, name, value))?;
            if matches!(tried, Err(TooSmall::Slots)) {
                let size = self.object.block_size() + 512;
                if size as usize <= SIZE_MAX {
                    self.object.set_block_size(tx, size, 0)?;
                    index.grow(size as usize);
                    tried = self
                        .object
                        .modify_block(tx, 0, |block| index.insert(block, name, value))?;
                }
            }
            if tried.is_ok() {
                return Ok(true);
            }
        }
        self.upgrade(tx, &mut form)?;
        Ok(false)
    }

    /// Makes a micro ZAP fat. The writer's lock is held.
    fn make_fat(&self, tx: &Tx) -> Result<()> {
        let mut form = self.state().form.write();
        if matches!(*form, Form::Micro(_)) {
            self.upgrade(tx, &mut form)?;
        }
        Ok(())
    }

    fn upgrade(&self, tx: &Tx, form: &mut Form) -> Result<()> {
        let Form::Micro(index) = form else {
            return Ok(());
        };
        let block = self.object.read_block(0)?;
        let new = NewFat {
            salt: index.salt(),
            normalization: index.normalization().0,
            flags: 0,
        };
        self.object
            .set_block_size(tx, 1 << zap::fat::BLOCK_SHIFT_DEFAULT, 0)?;
        fat::format(&self.object, tx, &new)?;
        for (hash, differentiator, entry) in index.entries(&block) {
            let key = FatKey {
                key: Key::Name(entry.name),
                given: Some((hash, differentiator)),
            };
            fat::insert(self, tx, &key, &Value::word(entry.value))?;
        }
        *form = Form::Fat;
        Ok(())
    }
}

/// A salt: odd, and different from ZAP to ZAP.
fn new_salt(object: &Object, tx: &Tx) -> u64 {
    let mut mixed =
        object.object_set().0.rotate_left(32) ^ object.id().0.rotate_left(16) ^ tx.txg().0;
    for _ in 0..2 {
        mixed = (mixed ^ (mixed >> 31)).wrapping_mul(0x7FB5_D329_728E_A185);
    }
    mixed | 1
}

#[cfg(test)]
mod tests;
