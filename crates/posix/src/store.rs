//! What storing a file needs: the objects, the attribute registry, and the form of new files.

use std::sync::Arc;

use base::{ByteOrder, ObjectId};
use dmu::{AllocateObject, CreateZap, Object, ObjectSet, Tx, Zap};
use format::acl;
use format::record::put_at;
use format::sa::Attribute;
use format::znode::{INLINE_ACL_SIZE, TAIL, ZnodePhys};
use format::{ObjectSetPhys, ObjectType};

use crate::master::{VERSION_FLAGS, VERSION_SYSTEM_ATTRIBUTES};
use crate::packing::{NEW_BONUS_MAX, Places, pack_new};
use crate::registry::Registry;
use crate::znode::{AclCache, Form, State, Znode, internal_flags};
use crate::{PosixError, Result, Timestamp};

/// The largest bonus of a one-slot dnode with one block pointer.
const LEGACY_BONUS_MAX: usize = 320;

/// The objects of a file system and how files are stored in them.
pub(crate) struct Store {
    pub(crate) objects: Arc<ObjectSet>,
    pub(crate) registry: Registry,
    pub(crate) version: u64,
    pub(crate) directory_normalization: u64,
}

/// What a new file shall be.
#[derive(Clone, Copy, Debug)]
pub(crate) struct NewFile<'a> {
    /// Type and permissions.
    pub(crate) mode: u32,
    pub(crate) uid: u64,
    pub(crate) gid: u64,
    /// The directory; the object itself for a root directory.
    pub(crate) parent: Option<ObjectId>,
    /// Flags beyond those that follow from the rest.
    pub(crate) flags: u64,
    pub(crate) project: u64,
    pub(crate) device: u64,
    pub(crate) links: u64,
    pub(crate) target: Option<&'a [u8]>,
    pub(crate) now: Timestamp,
    /// Slots of its dnode.
    pub(crate) slots: u8,
    /// What it must be, when a log says so.
    pub(crate) claim: Option<Claim>,
}

/// What a file that comes to be again must be.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Claim {
    pub(crate) object: ObjectId,
    pub(crate) generation: u64,
}

impl Store {
    /// Whether files belong to projects.
    pub(crate) fn has_projects(&self) -> bool {
        self.version >= VERSION_SYSTEM_ATTRIBUTES
            && self.objects.flags() & ObjectSetPhys::FLAG_PROJECT_QUOTA != 0
    }

    /// The flags word of a file with this mode.
    fn flags_of(&self, new: &NewFile<'_>) -> u64 {
        let kind = new.mode & 0o170_000;
        let is_directory = kind == 0o040_000;
        let mut flags = new.flags | mode_flags(new.mode);
        if self.version >= VERSION_FLAGS {
            flags |= internal_flags::CHANGED;
        }
        if is_directory {
            flags |= internal_flags::ACL_AUTO_INHERIT;
        }
        if self.has_projects() && (is_directory || kind == 0o100_000) {
            flags |= internal_flags::PROJECT_ID;
        }
        flags
    }

    /// Creates the object of a new file. It has no name yet.
    pub(crate) fn create(&self, tx: &Tx, new: &NewFile<'_>) -> Result<Arc<Znode>> {
        let is_directory = new.mode & 0o170_000 == 0o040_000;
        let aces = acl::trivial(new.mode, is_directory);
        let object = self.create_object(tx, new, is_directory)?;
        let mut state = State {
            mode: new.mode,
            generation: new.claim.map_or(tx.txg().0, |claim| claim.generation),
            size: if is_directory {
                2
            } else {
                new.target.map_or(0, <[u8]>::len) as u64
            },
            parent: new.parent.unwrap_or(object.id()),
            links: new.links,
            xattr: ObjectId(0),
            device: new.device,
            flags: self.flags_of(new),
            uid: new.uid,
            gid: new.gid,
            atime: new.now,
            mtime: new.now,
            ctime: new.now,
            crtime: new.now,
            project: new.project,
            acl_count: aces.len() as u64,
            form: Form::Legacy,
            freed: false,
            unnamed: false,
            access_acl: AclCache::Known(None),
            default_acl: AclCache::Known(None),
        };
        let stored = self.store_attributes(tx, &object, &mut state, &aces, new.target);
        if let Err(error) = stored {
            // Nobody has heard of it yet.
            self.objects.free(tx, object.id())?;
            return Err(error);
        }
        let znode = Znode::new(object, state);
        znode.changed(tx.txg());
        Ok(znode)
    }

    fn store_attributes(
        &self,
        tx: &Tx,
        object: &Arc<Object>,
        state: &mut State,
        aces: &[acl::Ace],
        target: Option<&[u8]>,
    ) -> Result<()> {
        if self.version < VERSION_SYSTEM_ATTRIBUTES {
            return self.store_legacy(tx, object, state, aces, target);
        }
        let aces = acl::encode(aces);
        let places = match target {
            None => self.store_plain(tx, object, state, &aces)?,
            Some(target) => {
                let mut values = self.registry.values_of(state, &aces);
                values.push(self.registry.value(Attribute::Symlink, target));
                Znode::store_new(object, tx, self, &values)?
            }
        };
        state.form = Form::Packed(Box::new(places));
        Ok(())
    }

    /// Stores the attributes of a new file that has those which all files of its kind have.
    fn store_plain(
        &self,
        tx: &Tx,
        object: &Arc<Object>,
        state: &State,
        aces: &[u8],
    ) -> Result<Places> {
        let layout = self.registry.new_file_layout(tx, &self.objects, state)?;
        let mut bonus = [0; NEW_BONUS_MAX];
        let words = |attribute| state.words(attribute);
        match pack_new(&mut bonus, &layout, words, aces) {
            Some((length, places)) => {
                object.set_bonus(tx, ObjectType::SYSTEM_ATTRIBUTES, &bonus[..length])?;
                Ok(places)
            }
            None => Znode::store_new(object, tx, self, &self.registry.values_of(state, aces)),
        }
    }

    fn create_object(&self, tx: &Tx, new: &NewFile<'_>, is_directory: bool) -> Result<Arc<Object>> {
        let legacy = self.version < VERSION_SYSTEM_ATTRIBUTES;
        let bonus_type = if legacy {
            ObjectType::ZNODE
        } else {
            ObjectType::SYSTEM_ATTRIBUTES
        };
        let bonus_len = if legacy { TAIL as u16 } else { 0 };
        if is_directory {
            let options = CreateZap {
                object_type: ObjectType::DIRECTORY,
                bonus_type,
                bonus_len,
                slots: new.slots,
                id: new.claim.map(|claim| claim.object),
                normalization: self.directory_normalization,
                ..CreateZap::default()
            };
            return Ok(Arc::clone(
                Zap::create(&self.objects, tx, &options)?.object(),
            ));
        }
        let shape = AllocateObject {
            object_type: ObjectType::PLAIN_FILE,
            bonus_type,
            bonus_len,
            slots: new.slots,
            ..AllocateObject::default()
        };
        Ok(match new.claim {
            Some(claim) => self.objects.claim(tx, claim.object, &shape)?,
            None => self.objects.allocate(tx, &shape)?,
        })
    }

    /// Stores a new file in the old form.
    fn store_legacy(
        &self,
        tx: &Tx,
        object: &Arc<Object>,
        state: &State,
        aces: &[acl::Ace],
        target: Option<&[u8]>,
    ) -> Result<()> {
        let pair = |time: Timestamp| [time.seconds.cast_unsigned(), time.nanoseconds.into()];
        // Variable entries came together with identities, in version 3.
        let packed = if self.version >= VERSION_FLAGS {
            acl::encode(aces)
        } else {
            acl::encode_old(aces)
        };
        let mut inline = [0; INLINE_ACL_SIZE];
        inline
            .iter_mut()
            .zip(&packed)
            .for_each(|(to, from)| *to = *from);
        let count = aces.len() as u16;
        let (acl_size, acl_version, acl_count) = if self.version >= VERSION_FLAGS {
            (packed.len() as u32, 1, count)
        } else {
            (count.into(), 0, 0)
        };
        let znode = ZnodePhys {
            atime: pair(state.atime),
            mtime: pair(state.mtime),
            ctime: pair(state.ctime),
            crtime: pair(state.crtime),
            generation: state.generation,
            mode: state.mode.into(),
            size: state.size,
            parent: state.parent,
            links: state.links,
            xattr: ObjectId(0),
            device: state.device,
            flags: state.flags,
            uid: state.uid,
            gid: state.gid,
            zap: 0,
            pad: [0; 3],
            acl_object: ObjectId(0),
            acl_size,
            acl_version,
            acl_count,
            acl_inline: inline,
        };
        let mut bonus = znode.to_bytes(ByteOrder::NATIVE).to_vec();
        match target {
            Some(target) if TAIL + target.len() <= LEGACY_BONUS_MAX => {
                bonus.extend_from_slice(target);
            }
            Some(target) => {
                object.set_block_size(tx, target.len().next_multiple_of(512) as u32, 0)?;
                object.write(tx, 0, target)?;
            }
            None => {}
        }
        Ok(object.set_bonus(tx, ObjectType::ZNODE, &bonus)?)
    }

    /// Makes an access list that says what the mode says, and notes it in the flags.
    pub(crate) fn store_mode(
        &self,
        tx: &Tx,
        znode: &Znode,
        state: &mut State,
        mode: u32,
    ) -> Result<()> {
        let aces = acl::trivial(mode, state.is_directory());
        self.store_acl(tx, znode, state, (mode, &aces))
    }

    /// Stores an access list with the mode that it amounts to.
    pub(crate) fn store_acl(
        &self,
        tx: &Tx,
        znode: &Znode,
        state: &mut State,
        (mode, aces): (u32, &[acl::Ace]),
    ) -> Result<()> {
        let is_trivial = aces == acl::trivial(mode, state.is_directory());
        let flags = if is_trivial { mode_flags(mode) } else { 0 };
        let attributes = [Attribute::Mode, Attribute::Flags, Attribute::DaclCount];
        if state.form != Form::Legacy {
            znode.hold(tx, self, state, &attributes)?;
        }
        let before = (state.mode, state.flags, state.acl_count);
        state.mode = mode;
        state.flags = state.flags & !internal_flags::OF_MODE | flags;
        state.acl_count = aces.len() as u64;
        let stored = if state.form == Form::Legacy {
            self.store_legacy_acl(tx, znode, state, aces)
        } else {
            let packed = acl::encode(aces);
            znode
                .overwrite_value(tx, self, state, Attribute::DaclAces, &packed)
                .and_then(|()| znode.store(tx, self, state, &attributes))
        };
        if stored.is_err() {
            (state.mode, state.flags, state.acl_count) = before;
        }
        stored
    }

    fn store_legacy_acl(
        &self,
        tx: &Tx,
        znode: &Znode,
        state: &mut State,
        aces: &[acl::Ace],
    ) -> Result<()> {
        let old = znode.legacy()?;
        let is_old_form = self.version < VERSION_FLAGS || old.acl_version == 0;
        let packed = if is_old_form {
            acl::encode_old(aces)
        } else {
            acl::encode(aces)
        };
        if packed.len() > INLINE_ACL_SIZE {
            return Err(PosixError::NotSupported(
                "long access list in a file system of this version",
            ));
        }
        if old.acl_object.0 != 0 {
            self.objects.free(tx, old.acl_object)?;
        }
        znode.store(tx, self, state, &[Attribute::Mode, Attribute::Flags])?;
        let count = aces.len() as u16;
        znode.object.modify_bonus(tx, |bonus| {
            const ACL: usize = format::znode::ZnodeAcl::OFFSET;
            let order = ByteOrder::NATIVE;
            put_at(bonus, ACL, &0u64, order);
            let size = if is_old_form {
                u32::from(count)
            } else {
                packed.len() as u32
            };
            put_at(bonus, ACL + 8, &size, order);
            put_at(bonus, ACL + 12, &u16::from(!is_old_form), order);
            put_at(bonus, ACL + 14, &if is_old_form { 0 } else { count }, order);
            if let Some(room) = bonus.get_mut(ACL + 16..ACL + 16 + INLINE_ACL_SIZE) {
                room.fill(0);
                room.iter_mut()
                    .zip(&packed)
                    .for_each(|(to, from)| *to = *from);
            }
        })?;
        Ok(())
    }
}

/// The flags that follow from a mode whose access list is trivial.
pub(crate) fn mode_flags(mode: u32) -> u64 {
    let nobody_denied = mode & 0o111 == 0o111;
    internal_flags::ACL_TRIVIAL
        | if nobody_denied {
            internal_flags::NO_EXECUTE_DENIED
        } else {
            0
        }
}
