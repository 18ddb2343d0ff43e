//! Lists of block pointers, with lists in lists so that appending one to another is cheap.
//!
//! Invariant: the totals in the bonus are those of the own pointers and of all lists inside;
//! entries marked as frees count negative. Changed in syncing context only.

use std::sync::Arc;

use base::ObjectId;
use dmu::{AllocateObject, Object, Tx};
use format::bpobj::{BpobjPhys, is_freed, stored_pointer};
use format::config::directory;
use format::record::get_at;
use format::{BlockPointer, ObjectType, features};

use crate::error::{DslError, Result};
use crate::mos::{Mos, change_record, read_record};
use crate::sizes::{Sizes, change};

const POINTER: u64 = 128;
const NUMBER: u64 = 8;
/// How deep lists may be nested before they are taken for a loop.
const DEPTH_MAX: u32 = 128;
/// Pointers read at once.
const BATCH: u64 = 512;
const VERSION_COMPRESSED_TOTALS: u64 = 3;
const VERSION_SUBOBJECTS: u64 = 26;

/// A list of block pointers.
#[derive(Clone)]
pub struct Bpobj {
    mos: Mos,
    object: Arc<Object>,
}

impl Bpobj {
    /// Opens a list.
    ///
    /// # Errors
    /// The object is no list.
    pub fn open(mos: &Mos, id: ObjectId) -> Result<Self> {
        let object = mos.object(id)?;
        read_record::<BpobjPhys>(&object)?;
        Ok(Self {
            mos: mos.clone(),
            object,
        })
    }

    /// A new list with blocks of `block_size` bytes.
    ///
    /// # Errors
    /// The object cannot be created.
    pub fn create(mos: &Mos, tx: &Tx, block_size: u32) -> Result<Self> {
        let version = mos.services.version();
        let length = if version < VERSION_COMPRESSED_TOTALS {
            BpobjPhys::SIZE_V0
        } else if version < VERSION_SUBOBJECTS {
            BpobjPhys::SIZE_V1
        } else if mos.services.references(&features::LIVELIST) == 0 {
            BpobjPhys::SIZE_V2
        } else {
            BpobjPhys::SIZE
        };
        let shape = AllocateObject {
            object_type: ObjectType::BPOBJ,
            block_size,
            bonus_type: ObjectType::BPOBJ_HEADER,
            bonus_len: length as u16,
            ..AllocateObject::default()
        };
        Ok(Self {
            mos: mos.clone(),
            object: mos.set.allocate(tx, &shape)?,
        })
    }

    /// Its object.
    #[must_use]
    pub fn id(&self) -> ObjectId {
        self.object.id()
    }

    /// Overrides how its blocks are stored.
    ///
    /// # Errors
    /// The object cannot be changed.
    pub fn set_compression(&self, tx: &Tx, compression: u8) -> Result<()> {
        Ok(self.object.set_overrides(tx, 0, compression)?)
    }

    /// The bonus.
    ///
    /// # Errors
    /// The object was freed and is something else now.
    pub fn header(&self) -> Result<BpobjPhys> {
        read_record(&self.object)
    }

    /// Sizes of all that is listed.
    ///
    /// # Errors
    /// As [`Bpobj::header`].
    pub fn sizes(&self) -> Result<Sizes> {
        let header = self.header()?;
        Ok(Sizes::stored(
            header.bytes,
            header.compressed,
            header.uncompressed,
        ))
    }

    /// Whether nothing is listed.
    ///
    /// # Errors
    /// As [`Bpobj::header`].
    pub fn is_empty(&self) -> Result<bool> {
        Ok(self.header()?.is_empty())
    }

    /// Appends block pointers; `freed` marks them as frees (livelists).
    ///
    /// # Errors
    /// The list cannot be written.
    pub fn append(&self, tx: &Tx, pointers: &[BlockPointer], freed: bool) -> Result<()> {
        let header = self.header()?;
        let mut bytes = vec![0; pointers.len() * POINTER as usize];
        let mut sum = Sizes::ZERO;
        for (chunk, pointer) in bytes.chunks_exact_mut(POINTER as usize).zip(pointers) {
            sum += Sizes::of(self.mos.store.as_ref(), pointer);
            stored_pointer(pointer, freed).encode(chunk, base::ByteOrder::NATIVE);
        }
        self.object
            .write(tx, header.pointer_count * POINTER, &bytes)?;
        let sum = if freed { -sum } else { sum };
        change_record(&self.object, tx, |header: &mut BpobjPhys| {
            header.pointer_count += pointers.len() as u64;
            if freed {
                header.freed_count += pointers.len() as u64;
            }
            add(header, sum);
        })
    }

    /// Appends another list, which belongs to this one from now on or is gone.
    ///
    /// # Errors
    /// A list cannot be read or written.
    pub fn append_list(&self, tx: &Tx, other: ObjectId) -> Result<()> {
        if self.mos.directory_word(directory::EMPTY_BPOBJ)? == Some(other.0) {
            return drop_empty(&self.mos, tx);
        }
        let list = Self::open(&self.mos, other)?;
        let theirs = list.header()?;
        if theirs.is_empty() {
            return list.destroy(tx);
        }
        let sum = list.sizes()?;
        let array = self.array(tx)?;
        let mut absorbed = false;
        if theirs.subobject_count == 0 {
            absorbed = true;
        } else if self.fits_block(theirs.subobjects, theirs.subobject_count * NUMBER)? {
            let numbers = list.numbers(&theirs)?;
            self.append_numbers(tx, &array, &numbers)?;
            self.mos.free(tx, theirs.subobjects)?;
            change_record(&list.object, tx, |header: &mut BpobjPhys| {
                header.subobject_count = 0;
                header.subobjects = ObjectId(0);
            })?;
            absorbed = true;
        }
        if absorbed && self.fits_block(other, theirs.pointer_count * POINTER)? {
            self.absorb_pointers(tx, &list, &theirs)?;
            change_record(&list.object, tx, |header: &mut BpobjPhys| {
                header.pointer_count = 0;
            })?;
            list.destroy(tx)?;
        } else {
            self.append_numbers(tx, &array, &[other])?;
        }
        change_record(&self.object, tx, |header: &mut BpobjPhys| add(header, sum))
    }

    /// Whether `bytes` bytes are within the first block of an object.
    fn fits_block(&self, object: ObjectId, bytes: u64) -> Result<bool> {
        Ok(bytes <= u64::from(self.mos.object(object)?.block_size()))
    }

    fn absorb_pointers(&self, tx: &Tx, list: &Self, theirs: &BpobjPhys) -> Result<()> {
        let mut bytes = vec![0; (theirs.pointer_count * POINTER) as usize];
        list.object.read(0, &mut bytes)?;
        let at = self.header()?.pointer_count * POINTER;
        self.object.write(tx, at, &bytes)?;
        change_record(&self.object, tx, |header: &mut BpobjPhys| {
            header.pointer_count += theirs.pointer_count;
            header.freed_count += theirs.freed_count;
        })
    }

    /// The array of the lists inside, made when it is not there.
    fn array(&self, tx: &Tx) -> Result<Arc<Object>> {
        let header = self.header()?;
        if header.subobjects.0 != 0 {
            return self.mos.object(header.subobjects);
        }
        let shape = AllocateObject {
            object_type: ObjectType::BPOBJ_SUBOBJECTS,
            block_size: BpobjPhys::BLOCK_SIZE,
            ..AllocateObject::default()
        };
        let array = self.mos.set.allocate(tx, &shape)?;
        change_record(&self.object, tx, |header: &mut BpobjPhys| {
            header.subobjects = array.id();
        })?;
        Ok(array)
    }

    fn append_numbers(&self, tx: &Tx, array: &Arc<Object>, numbers: &[ObjectId]) -> Result<()> {
        let bytes: Vec<u8> = numbers.iter().flat_map(|id| id.0.to_ne_bytes()).collect();
        array.write(tx, self.header()?.subobject_count * NUMBER, &bytes)?;
        change_record(&self.object, tx, |header: &mut BpobjPhys| {
            header.subobject_count += numbers.len() as u64;
        })
    }

    fn numbers(&self, header: &BpobjPhys) -> Result<Vec<ObjectId>> {
        const MANY: u64 = 1 << 24;
        if header.subobject_count == 0 {
            return Ok(Vec::new());
        }
        if header.subobject_count > MANY {
            return Err(DslError::damaged(
                self.id(),
                "more lists in a list than can be",
            ));
        }
        let mut bytes = vec![0; (header.subobject_count * NUMBER) as usize];
        self.mos.object(header.subobjects)?.read(0, &mut bytes)?;
        let word = |chunk| ObjectId(get_at(chunk, 0, base::ByteOrder::NATIVE));
        Ok(bytes.chunks_exact(NUMBER as usize).map(word).collect())
    }

    /// Frees the list itself, the lists inside it included, but no block that they list.
    ///
    /// # Errors
    /// A list cannot be read.
    pub fn destroy(&self, tx: &Tx) -> Result<()> {
        self.destroy_nested(tx, 0)
    }

    fn destroy_nested(&self, tx: &Tx, depth: u32) -> Result<()> {
        self.check_depth(depth)?;
        let header = self.header()?;
        for id in self.numbers(&header)? {
            Self::open(&self.mos, id)?.destroy_nested(tx, depth + 1)?;
        }
        if header.subobjects.0 != 0 {
            self.mos.free(tx, header.subobjects)?;
        }
        self.mos.free(tx, self.id())
    }

    fn check_depth(&self, depth: u32) -> Result<()> {
        if depth > DEPTH_MAX {
            return Err(DslError::damaged(self.id(), "lists are nested too deep"));
        }
        Ok(())
    }

    /// Calls `visit` with every pointer and whether it is marked as a free.
    ///
    /// # Errors
    /// A list cannot be read, or what `visit` says.
    pub fn for_each(&self, visit: &mut dyn FnMut(&BlockPointer, bool) -> Result<()>) -> Result<()> {
        self.for_each_nested(visit, 0)
    }

    fn for_each_nested(
        &self,
        visit: &mut dyn FnMut(&BlockPointer, bool) -> Result<()>,
        depth: u32,
    ) -> Result<()> {
        self.check_depth(depth)?;
        let header = self.header()?;
        for id in self.numbers(&header)? {
            Self::open(&self.mos, id)?.for_each_nested(visit, depth + 1)?;
        }
        let mut from = 0;
        while from < header.pointer_count {
            let to = (from + BATCH).min(header.pointer_count);
            for pointer in self.read_pointers(from, to)? {
                visit(&pointer, is_freed(&pointer))?;
            }
            from = to;
        }
        Ok(())
    }

    fn read_pointers(&self, from: u64, to: u64) -> Result<Vec<BlockPointer>> {
        let mut bytes = vec![0; ((to - from) * POINTER) as usize];
        self.object.read(from * POINTER, &mut bytes)?;
        let pointer = |chunk| get_at(chunk, 0, base::ByteOrder::NATIVE);
        Ok(bytes.chunks_exact(POINTER as usize).map(pointer).collect())
    }

    /// Takes up to `limit` pointers off the list, lists inside first, last ones first, and gives
    /// each to `take`. Lists inside that are used up are freed. Returns the sizes taken and how
    /// many pointers.
    ///
    /// # Errors
    /// A list cannot be read or written.
    pub fn take(
        &self,
        tx: &Tx,
        limit: u64,
        take: &mut dyn FnMut(&BlockPointer),
    ) -> Result<(Sizes, u64)> {
        self.take_nested(tx, limit, take, 0)
    }

    fn take_nested(
        &self,
        tx: &Tx,
        limit: u64,
        take: &mut dyn FnMut(&BlockPointer),
        depth: u32,
    ) -> Result<(Sizes, u64)> {
        self.check_depth(depth)?;
        let mut taken = Sizes::ZERO;
        let mut count = 0;
        while count < limit {
            let header = self.header()?;
            let Some(last) = header.subobject_count.checked_sub(1) else {
                break;
            };
            let array = self.mos.object(header.subobjects)?;
            let mut bytes = [0; NUMBER as usize];
            array.read(last * NUMBER, &mut bytes)?;
            let inner = Self::open(&self.mos, ObjectId(u64::from_ne_bytes(bytes)))?;
            let (sizes, pointers) = inner.take_nested(tx, limit - count, take, depth + 1)?;
            taken += sizes;
            count += pointers;
            change_record(&self.object, tx, |header: &mut BpobjPhys| {
                add(header, -sizes)
            })?;
            if inner.is_empty()? {
                inner.destroy(tx)?;
                self.drop_last_list(tx, last)?;
            }
        }
        let own = self.take_own(tx, limit - count, take)?;
        Ok((taken + own.0, count + own.1))
    }

    fn drop_last_list(&self, tx: &Tx, last: u64) -> Result<()> {
        if last == 0 {
            self.mos.free(tx, self.header()?.subobjects)?;
        }
        change_record(&self.object, tx, |header: &mut BpobjPhys| {
            header.subobject_count = last;
            if last == 0 {
                header.subobjects = ObjectId(0);
            }
        })
    }

    fn take_own(
        &self,
        tx: &Tx,
        limit: u64,
        take: &mut dyn FnMut(&BlockPointer),
    ) -> Result<(Sizes, u64)> {
        let header = self.header()?;
        if header.subobject_count != 0 || header.pointer_count == 0 || limit == 0 {
            return Ok((Sizes::ZERO, 0));
        }
        let mut taken = Sizes::ZERO;
        let mut freed = 0;
        let mut end = header.pointer_count;
        let goal = end.saturating_sub(limit);
        while end > goal {
            let from = end.saturating_sub(BATCH).max(goal);
            for pointer in self.read_pointers(from, end)?.iter().rev() {
                let sizes = Sizes::of(self.mos.store.as_ref(), pointer);
                if is_freed(pointer) {
                    freed += 1;
                    taken -= sizes;
                } else {
                    taken += sizes;
                }
                take(pointer);
            }
            end = from;
        }
        self.object
            .free_range(tx, end * POINTER, u64::MAX - end * POINTER)?;
        change_record(&self.object, tx, |header: &mut BpobjPhys| {
            header.pointer_count = end;
            header.freed_count = header.freed_count.saturating_sub(freed);
            add(header, -taken);
        })?;
        Ok((taken, header.pointer_count - end))
    }
}

fn add(header: &mut BpobjPhys, sizes: Sizes) {
    change(&mut header.bytes, sizes.used);
    change(&mut header.compressed, sizes.compressed);
    change(&mut header.uncompressed, sizes.uncompressed);
}

/// The shared empty list, with one more reference to it; without the feature, a list of one's own.
pub(crate) fn reference_empty(mos: &Mos, tx: &Tx) -> Result<ObjectId> {
    let services = &mos.services;
    if !services.is_enabled(&features::EMPTY_BPOBJ) {
        return Ok(Bpobj::create(mos, tx, BpobjPhys::BLOCK_SIZE)?.id());
    }
    let directory = mos.directory()?;
    let id = match directory.lookup(directory::EMPTY_BPOBJ.as_bytes())? {
        Some(id) => ObjectId(id),
        None => {
            let id = Bpobj::create(mos, tx, BpobjPhys::BLOCK_SIZE)?.id();
            directory.add(tx, directory::EMPTY_BPOBJ.as_bytes(), id.0)?;
            id
        }
    };
    services.change_references(tx, &features::EMPTY_BPOBJ, 1)?;
    Ok(id)
}

/// Gives up a reference to the shared empty list, and the list with the last one.
pub(crate) fn drop_empty(mos: &Mos, tx: &Tx) -> Result<()> {
    let services = &mos.services;
    services.change_references(tx, &features::EMPTY_BPOBJ, -1)?;
    if services.references(&features::EMPTY_BPOBJ) != 0 {
        return Ok(());
    }
    let directory = mos.directory()?;
    if let Some(id) = directory.lookup(directory::EMPTY_BPOBJ.as_bytes())? {
        directory.remove(tx, directory::EMPTY_BPOBJ.as_bytes())?;
        Bpobj::open(mos, ObjectId(id))?.destroy(tx)?;
    }
    Ok(())
}

/// Whether this is the shared empty list.
pub(crate) fn is_shared_empty(mos: &Mos, id: ObjectId) -> Result<bool> {
    Ok(mos.directory_word(directory::EMPTY_BPOBJ)? == Some(id.0))
}
