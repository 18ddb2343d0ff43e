//! Lists of block pointers, with lists in lists so that appending one to another is cheap.
//!
//! Invariant: the totals in the bonus are those of the own pointers and of all lists inside;
//! entries marked as frees count negative. A list inside another may count more: the lists inside it
//! can have moved to the other. Changed in syncing context only.
//!
//! A list may be damaged where it is added to or taken from, and the pool goes on: see [`aside`] and [`take`].

mod aside;
mod named;
mod take;

use crate::tunables::POINTERS_AT_ONCE;
use std::sync::{Arc, LazyLock};

use base::metrics::{Counter, registry};

use base::ObjectId;
use dmu::{AllocateObject, Object, Tx};
use format::bpobj::{BpobjPhys, is_freed, stored_pointer};
use format::config::directory;
use format::record::get_at;
use format::{BlockPointer, ObjectType, features};

use crate::error::{DslError, Result};
use crate::mos::{Mos, change_record, read_record};
use crate::sizes::{Sizes, change};
pub(crate) use aside::{append_list_to, append_to};
pub use named::NamedList;
pub use take::Taken;

/// What can be watched here, for the whole process.
struct Meters {
    /// Lists that could not be added to any more: another took their place, with them inside.
    put_aside: Arc<Counter>,
    /// Lists that could not be read at all: what they list leaked.
    lists_lost: Arc<Counter>,
    /// Pointers of lists that could not be read when they were due to be freed: their blocks leaked.
    pointers_lost: Arc<Counter>,
}

static METERS: LazyLock<Meters> = LazyLock::new(|| {
    let counter = |name: &str| registry().counter(&format!("dsl.{name}"));
    Meters {
        put_aside: counter("lists_put_aside"),
        lists_lost: counter("lists_lost"),
        pointers_lost: counter("listed_pointers_lost"),
    }
});

const POINTER: u64 = 128;
const NUMBER: u64 = 8;
/// How deep lists may be nested before they are taken for a loop.
const DEPTH_MAX: u32 = 128;

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
        let list = Self {
            mos: mos.clone(),
            object: mos.object(id)?,
        };
        list.header()?;
        Ok(list)
    }

    /// A new list with blocks of `block_size` bytes.
    ///
    /// # Errors
    /// The object cannot be created.
    pub fn create(mos: &Mos, tx: &Tx, block_size: u32) -> Result<Self> {
        Self::create_for(mos, tx, block_size, mos.services.version())
    }

    /// The same in a pool that has version `known` from this txg on.
    pub(crate) fn create_for(mos: &Mos, tx: &Tx, block_size: u32, known: u64) -> Result<Self> {
        let length = if mos.services.references(&features::LIVELIST) == 0 {
            BpobjPhys::size_in(known)
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
    /// The object was freed and is something else now, or the list says that it is longer than any.
    pub fn header(&self) -> Result<BpobjPhys> {
        /// So many pointers take more than any pool has; offsets of them can be reckoned with.
        const LONGEST: u64 = 1 << 48;
        let header: BpobjPhys = read_record(&self.object)?;
        let counts = [
            header.pointer_count,
            header.freed_count,
            header.subobject_count,
        ];
        if counts.iter().any(|count| *count > LONGEST) {
            return Err(DslError::damaged(self.id(), "a list longer than any"));
        }
        Ok(header)
    }

    /// Sizes of all that is listed.
    ///
    /// # Errors
    /// As [`Bpobj::header`].
    pub fn sizes(&self) -> Result<Sizes> {
        if usize::from(self.object.info().bonus_len) < BpobjPhys::SIZE_V1 {
            return self.counted_sizes();
        }
        let header = self.header()?;
        Ok(Sizes::stored(
            header.bytes,
            header.compressed,
            header.uncompressed,
        ))
    }

    /// The same, of each block: the lists of the oldest pools do not sum up all.
    fn counted_sizes(&self) -> Result<Sizes> {
        let mut sum = Sizes::ZERO;
        self.for_each(&mut |pointer, freed| {
            let sizes = Sizes::of(self.mos.store.as_ref(), pointer);
            sum += if freed { -sizes } else { sizes };
            Ok(())
        })?;
        Ok(sum)
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
    /// The end of the list cannot be read, or the list not be written. Nothing has changed then.
    pub fn append(&self, tx: &Tx, pointers: &[BlockPointer], freed: bool) -> Result<()> {
        let header = self.header()?;
        let mut bytes = vec![0; pointers.len() * POINTER as usize];
        let mut sum = Sizes::ZERO;
        for (chunk, pointer) in bytes.chunks_exact_mut(POINTER as usize).zip(pointers) {
            sum += Sizes::of(self.mos.store.as_ref(), pointer);
            stored_pointer(pointer, freed).encode(chunk, base::ByteOrder::NATIVE);
        }
        self.write_at(tx, header.pointer_count * POINTER, &bytes)?;
        let sum = if freed { -sum } else { sum };
        change_record(&self.object, tx, |header: &mut BpobjPhys| {
            header.pointer_count += pointers.len() as u64;
            if freed {
                header.freed_count += pointers.len() as u64;
            }
            add(header, sum);
        })
    }

    /// Writes behind the end. What the sync will read is read first.
    fn write_at(&self, tx: &Tx, at: u64, bytes: &[u8]) -> Result<()> {
        self.object.prepare_write(at, bytes.len() as u64)?;
        Ok(self.object.write(tx, at, bytes)?)
    }

    /// Appends another list, which belongs to this one from now on or is gone. One that cannot be read is left where
    /// it is: what it lists leaks.
    ///
    /// # Errors
    /// The end of this list cannot be read, or it cannot be written. Nothing has changed then.
    pub fn append_list(&self, tx: &Tx, other: ObjectId) -> Result<()> {
        if self.mos.directory_word(directory::EMPTY_BPOBJ)? == Some(other.0) {
            return drop_empties(&self.mos, tx, 1);
        }
        let Some(list) = unless_lost(Self::open(&self.mos, other))? else {
            return Ok(());
        };
        let theirs = list.header()?;
        if theirs.is_empty() {
            return list.destroy(tx);
        }
        let sum = list.sizes()?;
        let array = self.array(tx)?;
        if !self.absorb(tx, &array, &list)? {
            self.append_numbers(tx, &array, &[other])?;
        }
        change_record(&self.object, tx, |header: &mut BpobjPhys| add(header, sum))
    }

    /// Takes over what another list holds, as far as that is little; true when nothing of it is left.
    fn absorb(&self, tx: &Tx, array: &Arc<Object>, list: &Self) -> Result<bool> {
        let theirs = list.header()?;
        if theirs.subobject_count != 0 {
            let bytes = theirs.subobject_count * NUMBER;
            let Some(numbers) = self.little(theirs.subobjects, bytes, || list.numbers(&theirs))?
            else {
                return Ok(false);
            };
            self.append_numbers(tx, array, &numbers)?;
            free_or_leak(&self.mos, tx, theirs.subobjects)?;
            change_record(&list.object, tx, |header: &mut BpobjPhys| {
                header.subobject_count = 0;
                header.subobjects = ObjectId(0);
            })?;
        }
        let bytes = theirs.pointer_count * POINTER;
        let read = || {
            let mut pointers = vec![0; bytes as usize];
            list.object.read(0, &mut pointers)?;
            // From here on it is the other list that has them.
            list.object.forget_block(0);
            Ok(pointers)
        };
        let Some(pointers) = self.little(list.id(), bytes, read)? else {
            return Ok(false);
        };
        let at = self.header()?.pointer_count * POINTER;
        match self.write_at(tx, at, &pointers) {
            // The other list may be inside this one even so.
            Err(error) if error.is_damage() => return Ok(false),
            written => written?,
        }
        change_record(&self.object, tx, |header: &mut BpobjPhys| {
            header.pointer_count += theirs.pointer_count;
            header.freed_count += theirs.freed_count;
        })?;
        change_record(&list.object, tx, |header: &mut BpobjPhys| {
            header.pointer_count = 0;
        })?;
        list.destroy(tx)?;
        Ok(true)
    }

    /// What `read` reads, if it is within the first block of an object and can be read.
    fn little<T>(
        &self,
        object: ObjectId,
        bytes: u64,
        read: impl FnOnce() -> Result<T>,
    ) -> Result<Option<T>> {
        let found = self.mos.object(object).and_then(|object| {
            let fits = bytes <= u64::from(object.block_size());
            fits.then(read).transpose()
        });
        match found {
            Err(error) if error.is_damage() => Ok(None),
            found => found,
        }
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
        let at = self.header()?.subobject_count * NUMBER;
        array.prepare_write(at, bytes.len() as u64)?;
        array.write(tx, at, &bytes)?;
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

    /// Frees the list itself, the lists inside it included, but no block that they list. What cannot be read of it
    /// leaks.
    ///
    /// # Errors
    /// A list cannot be written.
    pub fn destroy(&self, tx: &Tx) -> Result<()> {
        self.destroy_nested(tx, 0)
    }

    fn destroy_nested(&self, tx: &Tx, depth: u32) -> Result<()> {
        self.check_depth(depth)?;
        let header = self.header()?;
        for id in unless_lost(self.numbers(&header))?.unwrap_or_default() {
            let inner = Self::open(&self.mos, id);
            unless_lost(inner.and_then(|inner| inner.destroy_nested(tx, depth + 1)))?;
        }
        if header.subobjects.0 != 0 {
            free_or_leak(&self.mos, tx, header.subobjects)?;
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
            let to = (from + POINTERS_AT_ONCE.get()).min(header.pointer_count);
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
}

fn add(header: &mut BpobjPhys, sizes: Sizes) {
    change(&mut header.bytes, sizes.used);
    change(&mut header.compressed, sizes.compressed);
    change(&mut header.uncompressed, sizes.uncompressed);
}

/// What was found, or none when that is damaged: what it lists leaks then, which is counted.
pub(crate) fn unless_lost<T>(found: Result<T>) -> Result<Option<T>> {
    match found {
        Err(error) if error.is_damage() => {
            METERS.lists_lost.increment();
            Ok(None)
        }
        found => found.map(Some),
    }
}

/// Frees an object; one whose dnode cannot be read leaks.
fn free_or_leak(mos: &Mos, tx: &Tx, id: ObjectId) -> Result<()> {
    unless_lost(mos.free(tx, id)).map(|_| ())
}

/// `count` empty lists: the shared one each time, with as many more references to it; without the feature, lists of
/// their own.
pub(crate) fn reference_empties(mos: &Mos, tx: &Tx, count: usize) -> Result<Vec<ObjectId>> {
    let services = &mos.services;
    if count == 0 {
        return Ok(Vec::new());
    }
    if !services.is_enabled(&features::EMPTY_BPOBJ) {
        let own = |_| Ok(Bpobj::create(mos, tx, BpobjPhys::BLOCK_SIZE)?.id());
        return (0..count).map(own).collect();
    }
    let id = match shared_empty(mos)? {
        Some(id) => id,
        None => {
            let id = Bpobj::create(mos, tx, BpobjPhys::BLOCK_SIZE)?.id();
            let directory = mos.directory()?;
            directory.add(tx, directory::EMPTY_BPOBJ.as_bytes(), id.0)?;
            id
        }
    };
    services.change_references(tx, &features::EMPTY_BPOBJ, signed(count))?;
    Ok(vec![id; count])
}

/// Gives up `count` references to the shared empty list, and the list with the last one.
pub(crate) fn drop_empties(mos: &Mos, tx: &Tx, count: usize) -> Result<()> {
    let services = &mos.services;
    if count == 0 {
        return Ok(());
    }
    services.change_references(tx, &features::EMPTY_BPOBJ, -signed(count))?;
    if services.references(&features::EMPTY_BPOBJ) != 0 {
        return Ok(());
    }
    let directory = mos.directory()?;
    if let Some(id) = shared_empty(mos)? {
        directory.remove(tx, directory::EMPTY_BPOBJ.as_bytes())?;
        Bpobj::open(mos, id)?.destroy(tx)?;
    }
    Ok(())
}

/// The shared empty list, while anybody refers to it.
pub(crate) fn shared_empty(mos: &Mos) -> Result<Option<ObjectId>> {
    Ok(mos.directory_word(directory::EMPTY_BPOBJ)?.map(ObjectId))
}

fn signed(count: usize) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}
