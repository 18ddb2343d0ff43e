//! Reading a file's attributes from its object.

use std::sync::Arc;

use base::{ByteOrder, ObjectId};
use dmu::Object;
use format::ObjectType;
use format::record::get_at;
use format::sa::{Attribute, Header};
use format::znode::{TAIL, ZnodePhys};

use super::{AclCache, Form, State, Znode, internal_flags};
use crate::packing::{Block, Place, Places, locate};
use crate::registry::Registry;
use crate::{Corruption, PosixError, Result, Timestamp};

/// Attributes that every file has.
const ALWAYS: [Attribute; 12] = [
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
];

impl Znode {
    /// The file that `object` is.
    pub(crate) fn load(object: Arc<Object>, registry: &Registry) -> Result<Arc<Self>> {
        let damaged = |what| PosixError::Corrupt {
            object: object.id(),
            what,
        };
        let state = match object.info().bonus_type {
            ObjectType::SYSTEM_ATTRIBUTES => load_packed(&object, registry)?,
            ObjectType::ZNODE => load_legacy(&object)?,
            _ => return Err(damaged(Corruption::ObjectKind)),
        };
        if crate::FileType::from_mode(state.mode).is_none() {
            return Err(damaged(Corruption::ObjectKind));
        }
        Ok(Self::new(object, state))
    }

    /// The stored bytes of an attribute of variable length, in host order.
    pub(crate) fn value(&self, state: &State, attribute: Attribute) -> Result<Option<Vec<u8>>> {
        let Form::Packed(places) = &state.form else {
            return Ok(None);
        };
        let Some(place) = places.get(attribute) else {
            return Ok(None);
        };
        let mut value = match place.block {
            Block::Bonus => self.object.with_bonus(|bonus| slice(bonus, place).to_vec()),
            Block::Spill => {
                let spill = self.object.spill()?;
                let spill = spill.ok_or(self.corrupt(Corruption::SystemAttributes))?;
                slice(&spill, place).to_vec()
            }
        };
        if places.foreign {
            attribute.class().swap(&mut value);
        }
        Ok(Some(value))
    }

    /// The target of a symbolic link.
    pub(crate) fn link_target(&self, state: &State) -> Result<Vec<u8>> {
        if let Some(target) = self.value(state, Attribute::Symlink)? {
            return Ok(target);
        }
        const TARGET_MAX: u64 = 1 << 16;
        let damaged = || self.corrupt(Corruption::SymbolicLink);
        let size = usize::try_from(state.size.min(TARGET_MAX)).map_err(|_| damaged())?;
        if state.form == Form::Legacy {
            let inline = self.object.with_bonus(|bonus| {
                bonus
                    .get(TAIL..)
                    .and_then(|tail| tail.get(..size))
                    .map(<[u8]>::to_vec)
            });
            if let Some(target) = inline {
                return Ok(target);
            }
        }
        if state.size > TARGET_MAX || self.object.used_bytes() == 0 && !self.object.is_dirty() {
            return Err(damaged());
        }
        let mut target = vec![0; size];
        self.object.read(0, &mut target)?;
        Ok(target)
    }
}

fn slice(block: &[u8], place: Place) -> &[u8] {
    let start = usize::from(place.offset);
    block
        .get(start..start + usize::from(place.length))
        .unwrap_or(&[])
}

/// Finds where the attributes of `object` lie.
pub(super) fn places_of(object: &Object, registry: &Registry) -> Result<Places> {
    let damaged = |_| PosixError::Corrupt {
        object: object.id(),
        what: Corruption::SystemAttributes,
    };
    let mut places = Places::NONE;
    // A copy: the layouts have a lock of their own, which comes before the object's.
    note(&mut places, Block::Bonus, &object.bonus(), registry).map_err(damaged)?;
    if let Some(spill) = object.spill()? {
        note(&mut places, Block::Spill, &spill, registry).map_err(damaged)?;
    }
    Ok(places)
}

fn note(
    places: &mut Places,
    block: Block,
    bytes: &[u8],
    registry: &Registry,
) -> Result<(), crate::packing::Malformed> {
    use crate::packing::Malformed;
    let Some(header) = Header::decode(bytes).map_err(|_| Malformed)? else {
        return Ok(());
    };
    let layout = registry.layout(header.layout).ok_or(Malformed)?;
    locate(places, block, bytes, &header, &layout)
}

fn load_packed(object: &Object, registry: &Registry) -> Result<State> {
    let places = places_of(object, registry)?;
    let missing = |attribute: Attribute| PosixError::Corrupt {
        object: object.id(),
        what: Corruption::MissingAttribute(attribute.name()),
    };
    if let Some(&absent) = ALWAYS
        .iter()
        .find(|&&attribute| places.get(attribute).is_none())
    {
        return Err(missing(absent));
    }
    let spill = object.spill()?;
    let words = |attribute: Attribute| -> [u64; 2] {
        let Some(place) = places.get(attribute) else {
            return [0; 2];
        };
        let read = |block: &[u8]| {
            let value = slice(block, place);
            let word = |at| {
                let word: u64 = get_at(value, at, ByteOrder::NATIVE);
                if places.foreign {
                    word.swap_bytes()
                } else {
                    word
                }
            };
            [word(0), word(8)]
        };
        match place.block {
            Block::Bonus => object.with_bonus(read),
            Block::Spill => spill.as_deref().map_or([0; 2], read),
        }
    };
    let word = |attribute| words(attribute)[0];
    Ok(State {
        mode: word(Attribute::Mode) as u32,
        generation: word(Attribute::Gen),
        size: word(Attribute::Size),
        parent: ObjectId(word(Attribute::Parent)),
        links: word(Attribute::Links),
        xattr: ObjectId(word(Attribute::Xattr)),
        device: word(Attribute::Rdev),
        flags: word(Attribute::Flags),
        uid: word(Attribute::Uid),
        gid: word(Attribute::Gid),
        atime: timestamp(words(Attribute::Atime)),
        mtime: timestamp(words(Attribute::Mtime)),
        ctime: timestamp(words(Attribute::Ctime)),
        crtime: timestamp(words(Attribute::Crtime)),
        project: word(Attribute::Projid),
        acl_count: word(Attribute::DaclCount),
        form: Form::Packed(Box::new(places)),
        unnamed: false,
        freed: false,
        access_acl: AclCache::Unknown,
        default_acl: AclCache::Unknown,
    })
}

fn load_legacy(object: &Object) -> Result<State> {
    let znode = object
        .with_bonus(|bonus| ZnodePhys::decode(bonus, ByteOrder::NATIVE))
        .map_err(|_| PosixError::Corrupt {
            object: object.id(),
            what: Corruption::Znode,
        })?;
    Ok(State {
        mode: znode.mode as u32,
        generation: znode.generation,
        size: znode.size,
        parent: znode.parent,
        links: znode.links,
        xattr: znode.xattr,
        device: znode.device,
        flags: znode.flags & !internal_flags::PROJECT_ID,
        uid: znode.uid,
        gid: znode.gid,
        atime: timestamp(znode.atime),
        mtime: timestamp(znode.mtime),
        ctime: timestamp(znode.ctime),
        crtime: timestamp(znode.crtime),
        project: 0,
        acl_count: znode.acl_count.into(),
        form: Form::Legacy,
        unnamed: false,
        freed: false,
        access_acl: AclCache::Unknown,
        default_acl: AclCache::Unknown,
    })
}

fn timestamp([seconds, nanoseconds]: [u64; 2]) -> Timestamp {
    const LAST_NANOSECOND: u64 = 999_999_999;
    let nanoseconds = nanoseconds.min(LAST_NANOSECOND) as u32;
    Timestamp {
        seconds: seconds.cast_signed(),
        nanoseconds,
    }
}
