//! Adding, changing and removing entries; a micro ZAP that does not suffice becomes fat.

use format::ObjectType;
use format::zap::micro::MICRO_NAME_MAX;
use format::zap::{self, Key, MicroMut, Value};

use super::fat::{self, FatKey, NewFat};
use super::header::malformed;
use super::micro::TooSmall;
use super::{Form, Zap};
use crate::error::Result;
use crate::tx::Tx;

impl Zap {
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
                .map_err(|error| malformed(&self.object, 0, &error))?;
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

    /// [`Zap::remove`] with a number as its own name, in hex.
    ///
    /// # Errors
    /// As [`Zap::remove`].
    pub fn remove_int(&self, tx: &Tx, key: u64) -> Result<()> {
        self.remove(tx, format!("{key:x}").as_bytes())
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
                .map_err(|error| malformed(&self.object, 0, &error));
        }
        if name.len() <= MICRO_NAME_MAX {
            let mut tried = self
                .object
                .modify_block(tx, 0, |block| index.insert(block, name, value))?;
            if matches!(tried, Err(TooSmall::Slots)) {
                let size = self.object.block_size() + 512;
                if size as usize <= self.object.micro_zap_bytes_max() {
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
