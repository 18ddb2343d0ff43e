//! The attributes of a file system and the layouts that its files use.
//!
//! Both are tables on disk, kept whole in memory. The registry gives each attribute name a number,
//! length and class; a layout is a list of attribute numbers. New layouts are added as files come
//! to need them; nothing is ever removed.

use std::collections::HashMap;
use std::sync::{Arc, OnceLock};

use base::lock::{LockClass, Mutex, RwLock, rank};
use base::{ByteOrder, ObjectId};
use dmu::{CreateZap, ObjectSet, Tx, Zap};
use format::ObjectType;
use format::record::put_at;
use format::sa::ValueClass;
use format::sa::{Attribute, FIXED_NUMBERS, LAYOUT_EMPTY, LAYOUT_FIRST, LAYOUT_MAX, Registration};
use format::zap::Value as ZapValue;

use crate::packing::{KNOWN, Value};
use crate::znode::{State, internal_flags};
use crate::{Corruption, FileType, PosixError, Result};

static LAYOUTS: LockClass = LockClass::new("posix.layouts", rank::POSIX + 30);
static GROWTH: LockClass = LockClass::new("posix.layout_growth", rank::POSIX + 29);

const REGISTRY_KEY: &[u8] = b"REGISTRY";
const LAYOUTS_KEY: &[u8] = b"LAYOUTS";

/// An attribute as the registry describes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Entry {
    pub(crate) number: u16,
    /// Length in bytes; 0 for a variable one.
    pub(crate) length: u16,
    pub(crate) class: ValueClass,
    pub(crate) known: Option<Attribute>,
}

/// A list of attributes in storage order.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Layout {
    pub(crate) number: u16,
    pub(crate) entries: Vec<Entry>,
}

#[derive(Debug, Default)]
struct Table {
    by_number: HashMap<u16, Arc<Layout>>,
    by_attributes: HashMap<Vec<u16>, Arc<Layout>>,
}

/// The tables, in memory and on disk.
#[derive(Debug)]
pub(crate) struct Registry {
    /// The object that names both tables; none in file systems without system attributes.
    master: Option<ObjectId>,
    entries: Vec<Entry>,
    numbers: [Option<u16>; KNOWN],
    layouts: RwLock<Table>,
    /// The layouts of new files, once used.
    new_file: [OnceLock<Arc<Layout>>; 4],
    /// Serialises the making of layouts; remembers whether the tables exist on disk.
    growth: Mutex<OnDisk>,
}

#[derive(Debug, Default)]
struct OnDisk {
    registry: Option<ObjectId>,
    layouts: Option<ObjectId>,
    /// Names of this software that the registry on disk lacks.
    unregistered: Vec<Attribute>,
}

impl Registry {
    /// A registry for a file system without system attributes: it knows no layout.
    pub(crate) fn unavailable() -> Self {
        Self::assemble(None, Vec::new(), Vec::new(), OnDisk::default())
    }

    /// Reads both tables.
    pub(crate) fn load(objects: &ObjectSet, master: ObjectId) -> Result<Self> {
        let damaged = || PosixError::Corrupt {
            object: master,
            what: Corruption::AttributeRegistry,
        };
        let zap = Zap::open(&objects.object(master)?)?;
        let registry = zap.lookup(REGISTRY_KEY)?.map(ObjectId);
        let layouts = zap.lookup(LAYOUTS_KEY)?.map(ObjectId);
        let entries = match registry {
            Some(object) => read_entries(objects, object)?.ok_or_else(damaged)?,
            None => default_entries(),
        };
        let lists = match layouts {
            Some(object) => read_layouts(objects, object, &entries)?.ok_or_else(damaged)?,
            None => Vec::new(),
        };
        let unregistered = match registry {
            Some(_) => Attribute::ALL
                .iter()
                .copied()
                .filter(|&known| entries.iter().all(|entry| entry.known != Some(known)))
                .collect(),
            None => Attribute::ALL.to_vec(),
        };
        let disk = OnDisk {
            registry,
            layouts,
            unregistered,
        };
        Ok(Self::assemble(Some(master), entries, lists, disk))
    }

    fn assemble(
        master: Option<ObjectId>,
        mut entries: Vec<Entry>,
        lists: Vec<Layout>,
        disk: OnDisk,
    ) -> Self {
        // Names that the registry lacks get the next numbers when first something is stored.
        for &attribute in disk.unregistered.iter().filter(|_| disk.registry.is_some()) {
            let number = entries.len() as u16;
            entries.push(entry_of(attribute, number));
        }
        let mut numbers = [None; KNOWN];
        for entry in &entries {
            if let Some(known) = entry.known {
                numbers[known as usize] = Some(entry.number);
            }
        }
        let mut table = Table::default();
        table.insert(Layout {
            number: LAYOUT_EMPTY,
            entries: Vec::new(),
        });
        for layout in lists {
            table.insert(layout);
        }
        Self {
            master,
            entries,
            numbers,
            layouts: RwLock::new(&LAYOUTS, table),
            new_file: Default::default(),
            growth: Mutex::new(&GROWTH, disk),
        }
    }

    /// Whether attributes can be packed at all.
    pub(crate) fn is_available(&self) -> bool {
        self.master.is_some()
    }

    /// The layout of that number.
    pub(crate) fn layout(&self, number: u16) -> Option<Arc<Layout>> {
        self.layouts.read().by_number.get(&number).cloned()
    }

    /// A value to be stored.
    pub(crate) fn value(&self, attribute: Attribute, bytes: &[u8]) -> Value {
        Value {
            number: self.numbers[attribute as usize].unwrap_or(u16::MAX),
            known: Some(attribute),
            class: attribute.class(),
            variable: attribute.length() == 0,
            bytes: bytes.to_vec(),
        }
    }

    /// The values of a new file in the order of OpenZFS. Project and device only where the file
    /// has them.
    pub(crate) fn values_of(&self, state: &State, aces: &[u8]) -> Vec<Value> {
        let has_project = state.has(internal_flags::PROJECT_ID);
        let has_device = has_device(state);
        let mut values = Vec::with_capacity(NEW_FILE.len());
        for &attribute in NEW_FILE {
            if attribute == Attribute::Projid && !has_project
                || attribute == Attribute::Rdev && !has_device
            {
                continue;
            }
            match state.words(attribute) {
                Some(words) => {
                    let mut bytes = [0; 16];
                    put_at(&mut bytes, 0, &words, ByteOrder::NATIVE);
                    values.push(self.value(attribute, &bytes[..attribute.length().into()]));
                }
                None => values.push(self.value(attribute, aces)),
            }
        }
        values
    }

    /// The layout of a new file that has or has not a project and a device.
    pub(crate) fn new_file_layout(
        &self,
        tx: &Tx,
        objects: &Arc<ObjectSet>,
        state: &State,
    ) -> Result<Arc<Layout>> {
        let kind = usize::from(state.has(internal_flags::PROJECT_ID))
            | usize::from(has_device(state)) << 1;
        if let Some(layout) = self.new_file[kind].get() {
            return Ok(Arc::clone(layout));
        }
        let layout = self.layout_of(tx, objects, &self.values_of(state, &[]))?;
        Ok(Arc::clone(self.new_file[kind].get_or_init(|| layout)))
    }

    /// The layout that holds exactly `values` in their order; a new one is stored when there is
    /// none yet.
    pub(crate) fn layout_of(
        &self,
        tx: &Tx,
        objects: &Arc<ObjectSet>,
        values: &[Value],
    ) -> Result<Arc<Layout>> {
        let numbers: Vec<u16> = values.iter().map(|value| value.number).collect();
        if let Some(layout) = self.layouts.read().by_attributes.get(&numbers) {
            return Ok(Arc::clone(layout));
        }
        let mut disk = self.growth.lock();
        if let Some(layout) = self.layouts.read().by_attributes.get(&numbers) {
            return Ok(Arc::clone(layout));
        }
        let (count, highest) = {
            let table = self.layouts.read();
            let highest = table
                .by_number
                .keys()
                .copied()
                .max()
                .unwrap_or(LAYOUT_EMPTY);
            // Layout 0, the legacy one, is not in the table but counts.
            (table.by_number.len() as u16 + 1, highest)
        };
        let number = count.max(highest + 1).max(LAYOUT_FIRST);
        if number > LAYOUT_MAX {
            return Err(PosixError::NotSupported(
                "more attribute layouts than can be numbered",
            ));
        }
        let entries = numbers
            .iter()
            .map(|number| self.entries.get(usize::from(*number)).copied())
            .collect::<Option<Vec<Entry>>>()
            .ok_or(PosixError::NotSupported("attribute that is not registered"))?;
        self.store(tx, objects, &mut disk, number, &numbers)?;
        let layout = Arc::new(Layout { number, entries });
        self.layouts.write().insert_shared(Arc::clone(&layout));
        Ok(layout)
    }

    fn store(
        &self,
        tx: &Tx,
        objects: &Arc<ObjectSet>,
        disk: &mut OnDisk,
        number: u16,
        numbers: &[u16],
    ) -> Result<()> {
        let Some(master) = self.master else {
            return Err(PosixError::NotSupported(
                "attribute in a file system of this version",
            ));
        };
        let create = |object_type, key: &[u8]| -> Result<ObjectId> {
            let zap = Zap::create(
                objects,
                tx,
                &CreateZap {
                    object_type,
                    ..Default::default()
                },
            )?;
            let id = zap.object().id();
            let named = objects
                .object(master)
                .and_then(|master| Zap::open(&master)?.add(tx, key, id.0));
            match named {
                Ok(()) => Ok(id),
                Err(error) => {
                    objects.free(tx, id)?;
                    Err(error.into())
                }
            }
        };
        let registry = match disk.registry {
            Some(object) => object,
            None => create(ObjectType::SA_REGISTRATION, REGISTRY_KEY)?,
        };
        disk.registry = Some(registry);
        if !disk.unregistered.is_empty() {
            let zap = Zap::open(&objects.object(registry)?)?;
            for &attribute in &disk.unregistered {
                let Some(number) = self.numbers[attribute as usize] else {
                    continue;
                };
                let registration = Registration {
                    number,
                    length: attribute.length(),
                    class: attribute.class(),
                };
                // Some may be there from a time when this did not come to its end.
                zap.update(tx, attribute.name().as_bytes(), registration.pack())?;
            }
            disk.unregistered.clear();
        }
        let layouts = match disk.layouts {
            Some(object) => object,
            None => create(ObjectType::SA_LAYOUTS, LAYOUTS_KEY)?,
        };
        disk.layouts = Some(layouts);
        let zap = Zap::open(&objects.object(layouts)?)?;
        zap.add_value(
            tx,
            number.to_string().as_bytes(),
            &ZapValue::shorts(numbers),
        )?;
        Ok(())
    }
}

fn has_device(state: &State) -> bool {
    matches!(
        state.file_type(),
        FileType::BlockDevice | FileType::CharacterDevice
    )
}

/// The attributes of a new file, in storage order.
const NEW_FILE: &[Attribute] = &[
    Attribute::Mode,
    Attribute::Size,
    Attribute::Gen,
    Attribute::Uid,
    Attribute::Gid,
    Attribute::Parent,
    Attribute::Flags,
    Attribute::Atime,
    Attribute::Mtime,
    Attribute::Ctime,
    Attribute::Crtime,
    Attribute::Links,
    Attribute::Projid,
    Attribute::Rdev,
    Attribute::DaclCount,
    Attribute::DaclAces,
];

impl Table {
    fn insert(&mut self, layout: Layout) {
        self.insert_shared(Arc::new(layout));
    }

    fn insert_shared(&mut self, layout: Arc<Layout>) {
        let numbers = layout.entries.iter().map(|entry| entry.number).collect();
        self.by_attributes
            .entry(numbers)
            .or_insert_with(|| Arc::clone(&layout));
        self.by_number.insert(layout.number, layout);
    }
}

fn entry_of(attribute: Attribute, number: u16) -> Entry {
    Entry {
        number,
        length: attribute.length(),
        class: attribute.class(),
        known: Some(attribute),
    }
}

/// What a registry will be when first something is stored in it.
fn default_entries() -> Vec<Entry> {
    Attribute::ALL
        .iter()
        .map(|&attribute| entry_of(attribute, attribute as u16))
        .collect()
}

/// The registry's entries in the order of their numbers, which must be dense; `None` otherwise.
fn read_entries(objects: &ObjectSet, object: ObjectId) -> Result<Option<Vec<Entry>>> {
    let zap = Zap::open(&objects.object(object)?)?;
    let mut slots: Vec<Option<Entry>> = Vec::new();
    for entry in zap.entries()? {
        let Ok(Registration {
            number,
            length,
            class,
        }) = Registration::unpack(entry.value)
        else {
            return Ok(None);
        };
        let known = Attribute::from_name(&entry.name)
            .filter(|known| known.length() == length && known.class() == class);
        let at = usize::from(number);
        if slots.len() <= at {
            slots.resize(at + 1, None);
        }
        if slots[at]
            .replace(Entry {
                number,
                length,
                class,
                known,
            })
            .is_some()
        {
            return Ok(None);
        }
    }
    let fixed = |entry: &Entry| {
        entry.number >= FIXED_NUMBERS
            || entry.known.is_none_or(|known| known as u16 == entry.number)
    };
    let entries: Option<Vec<Entry>> = slots.into_iter().collect();
    Ok(entries.filter(|entries| entries.iter().all(fixed)))
}

fn read_layouts(
    objects: &ObjectSet,
    object: ObjectId,
    entries: &[Entry],
) -> Result<Option<Vec<Layout>>> {
    let zap = Zap::open(&objects.object(object)?)?;
    let mut layouts = Vec::new();
    for entry in zap.entries()? {
        let number = std::str::from_utf8(&entry.name)
            .ok()
            .and_then(|name| name.parse().ok());
        let value = zap.lookup_value(&entry.name)?;
        let numbers = value.map(|value| value.to_words()).unwrap_or_default();
        let attributes: Option<Vec<Entry>> = numbers
            .iter()
            .map(|&number| entries.get(usize::try_from(number).ok()?).copied())
            .collect();
        match (number, attributes) {
            (Some(number), Some(entries)) => layouts.push(Layout { number, entries }),
            _ => return Ok(None),
        }
    }
    Ok(Some(layouts))
}
