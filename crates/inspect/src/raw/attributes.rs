//! File systems: their root, and the attributes of their files, whichever way they are stored.

use std::collections::HashMap;

use base::{ByteOrder, ObjectId};
use format::FormatError;
use format::dnode::DnodeFlags;
use format::object_type::ObjectType;
use format::record::get_at;
use format::sa::{Attribute, Header, Registration};
use format::znode::{self, ZnodePhys};
use pipeline::ReadRequest;

use super::{RawObject, RawObjectSet, ZapKey};
use crate::error::{InspectError, Result};

/// The object that every file system starts from.
const MASTER_NODE: ObjectId = ObjectId(1);
/// The mode's bits that say what a file is, and those of a symbolic link.
const MODE_TYPE: u64 = 0o170_000;
const MODE_SYMLINK: u64 = 0o120_000;

/// A file's attributes. What is not stored is zero or empty.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Attributes {
    pub(crate) mode: u64,
    pub(crate) uid: u64,
    pub(crate) gid: u64,
    pub(crate) size: u64,
    pub(crate) links: u64,
    pub(crate) parent: u64,
    pub(crate) generation: u64,
    pub(crate) flags: u64,
    pub(crate) device: u64,
    pub(crate) project: Option<u64>,
    /// Seconds and nanoseconds.
    pub(crate) atime: [u64; 2],
    pub(crate) mtime: [u64; 2],
    pub(crate) ctime: [u64; 2],
    pub(crate) crtime: [u64; 2],
    /// The directory of extended attributes; 0 when there is none.
    pub(crate) xattr_directory: u64,
    /// Extended attributes kept with the others: an XDR list.
    pub(crate) packed_xattrs: Vec<u8>,
    /// Where a symbolic link leads, when that is stored with the attributes.
    pub(crate) symlink: Option<Vec<u8>>,
}

/// A file system's object set with what its attributes need to be understood.
#[derive(Clone)]
pub(crate) struct RawFileSystem {
    pub(crate) set: RawObjectSet,
    /// The root directory.
    pub(crate) root: ObjectId,
    registry: HashMap<u16, (Option<Attribute>, Registration)>,
    layouts: HashMap<u16, Vec<u16>>,
}

impl RawFileSystem {
    /// Looks up the master node. Layouts that cannot be read only cost the files that use them.
    pub(crate) fn open(set: &RawObjectSet) -> Result<Self> {
        let mut words = HashMap::new();
        set.object(MASTER_NODE)?.zap_entries(&mut |entry| {
            if let (ZapKey::Name(name), Some(value)) = (entry.key, entry.value.as_word()) {
                words.insert(name, value);
            }
        })?;
        let word = |name: &str| words.get(name.as_bytes()).copied();
        let root = word("ROOT").ok_or(InspectError::NoEntry("ROOT"))?;
        let mut file_system = Self {
            set: set.clone(),
            root: ObjectId(root),
            registry: default_registry(),
            layouts: HashMap::new(),
        };
        if let Some(attributes) = word("SA_ATTRS").filter(|&id| id != 0) {
            file_system.load_attributes(ObjectId(attributes))?;
        }
        Ok(file_system)
    }

    fn load_attributes(&mut self, id: ObjectId) -> Result<()> {
        let master = self.set.object(id)?;
        let word = |name: &str| -> Result<Option<ObjectId>> {
            Ok(master
                .zap_lookup(name.as_bytes())?
                .and_then(|value| value.as_word())
                .map(ObjectId))
        };
        let (registry, layouts) = (word("REGISTRY")?, word("LAYOUTS")?);
        if let Some(registry) = registry {
            self.set.object(registry)?.zap_entries(&mut |entry| {
                let (ZapKey::Name(name), Some(word)) = (&entry.key, entry.value.as_word()) else {
                    return;
                };
                if let Ok(registration) = Registration::unpack(word) {
                    let known = Attribute::from_name(name);
                    self.registry
                        .insert(registration.number, (known, registration));
                }
            })?;
        }
        if let Some(layouts) = layouts {
            self.set.object(layouts)?.zap_entries(&mut |entry| {
                let number = entry.key.text().parse().ok();
                let numbers: Vec<u16> = entry
                    .value
                    .to_words()
                    .iter()
                    .map(|&word| word as u16)
                    .collect();
                self.layouts.extend(number.map(|number| (number, numbers)));
            })?;
        }
        Ok(())
    }

    /// A file's attributes.
    pub(crate) fn attributes(&self, object: &RawObject) -> Result<Attributes> {
        let mut attributes = Attributes::default();
        let bonus = object.dnode.bonus_bytes();
        if object.dnode.bonus_type == ObjectType::ZNODE {
            legacy(bonus, &mut attributes);
            return Ok(attributes);
        }
        self.block(object, bonus, &mut attributes)?;
        if let Some(spill) = object.dnode.spill
            && object.dnode.flags.contains(DnodeFlags::SPILL)
        {
            let place = object.place(0, u64::MAX - 1);
            let bytes = self.set.pipeline.read(&spill, &ReadRequest::new(place))?;
            self.block(object, &bytes, &mut attributes)?;
        }
        Ok(attributes)
    }

    /// The attributes in a bonus or spill block.
    fn block(&self, object: &RawObject, bytes: &[u8], into: &mut Attributes) -> Result<()> {
        let bad = |field, value| {
            let what = "system attributes";
            object.format_error(FormatError::Invalid { what, field, value })
        };
        let header = Header::decode(bytes).map_err(|source| object.format_error(source))?;
        let Some(header) = header else { return Ok(()) };
        let empty = Vec::new();
        let layout = match self.layouts.get(&header.layout) {
            Some(layout) => layout,
            None if header.layout <= 1 => &empty,
            None => return Err(bad("layout", header.layout.into())),
        };
        let mut at = header.size;
        let mut variable = 0;
        for number in layout {
            let (known, registration) = self
                .registry
                .get(number)
                .ok_or_else(|| bad("attribute number", (*number).into()))?;
            let length = if registration.length > 0 {
                registration.length
            } else {
                variable += 1;
                header
                    .variable_length(bytes, variable - 1)
                    .ok_or_else(|| bad("variable lengths", variable as u64))?
            };
            let end = at + usize::from(length);
            let stored = bytes
                .get(at..end)
                .ok_or_else(|| bad("length", length.into()))?;
            let mut value = stored.to_vec();
            if header.order != ByteOrder::NATIVE {
                registration.class.swap(&mut value);
            }
            if let Some(known) = known {
                into.take(*known, value);
            }
            at = end.next_multiple_of(8);
        }
        Ok(())
    }
}

/// The numbers that attributes have before any registry.
fn default_registry() -> HashMap<u16, (Option<Attribute>, Registration)> {
    let registration = |&attribute: &Attribute| {
        let number = attribute as u16;
        let (length, class) = (attribute.length(), attribute.class());
        (
            number,
            (
                Some(attribute),
                Registration {
                    number,
                    length,
                    class,
                },
            ),
        )
    };
    Attribute::ALL.iter().map(registration).collect()
}

impl Attributes {
    fn take(&mut self, attribute: Attribute, value: Vec<u8>) {
        let word: u64 = get_at(&value, 0, ByteOrder::NATIVE);
        let time: [u64; 2] = get_at(&value, 0, ByteOrder::NATIVE);
        match attribute {
            Attribute::Atime => self.atime = time,
            Attribute::Mtime => self.mtime = time,
            Attribute::Ctime => self.ctime = time,
            Attribute::Crtime => self.crtime = time,
            Attribute::Gen => self.generation = word,
            Attribute::Mode => self.mode = word,
            Attribute::Size => self.size = word,
            Attribute::Parent => self.parent = word,
            Attribute::Links => self.links = word,
            Attribute::Xattr => self.xattr_directory = word,
            Attribute::Rdev => self.device = word,
            Attribute::Flags => self.flags = word,
            Attribute::Uid => self.uid = word,
            Attribute::Gid => self.gid = word,
            Attribute::Projid => self.project = Some(word),
            Attribute::Symlink => self.symlink = Some(value),
            Attribute::Dxattr => self.packed_xattrs = value,
            Attribute::Pad
            | Attribute::ZnodeAcl
            | Attribute::DaclAces
            | Attribute::DaclCount
            | Attribute::Scanstamp => {}
        }
    }
}

/// The attributes of a legacy znode.
fn legacy(bonus: &[u8], into: &mut Attributes) {
    let znode = ZnodePhys::decode_padded(bonus, ByteOrder::NATIVE);
    *into = Attributes {
        mode: znode.mode,
        uid: znode.uid,
        gid: znode.gid,
        size: znode.size,
        links: znode.links,
        parent: znode.parent.0,
        generation: znode.generation,
        flags: znode.flags,
        device: znode.device,
        project: None,
        atime: znode.atime,
        mtime: znode.mtime,
        ctime: znode.ctime,
        crtime: znode.crtime,
        xattr_directory: znode.xattr.0,
        packed_xattrs: Vec::new(),
        symlink: None,
    };
    if znode.mode & MODE_TYPE == MODE_SYMLINK {
        let target = bonus.get(znode::TAIL..).unwrap_or(&[]);
        // A longer target is in the first data block.
        into.symlink = target.get(..znode.size as usize).map(<[u8]>::to_vec);
    }
}
