//! What operations say to the log: changes in the terms of its records.

use base::ObjectId;
use dmu::Tx;
use format::intent_log::{
    self, Change, Create, Created, ExtendedAttributes, NewObject, attribute, extended,
};

use super::Scope;
use crate::core::Core;
use crate::znode::{State, Znode};
use crate::{FileType, SetAttributes, Timestamp, flags};

/// Words of the bitmap of optional attributes.
const BITMAP_WORDS: u32 = 3;

/// Flags of a file and the bits by which records name them.
pub(crate) const FLAG_BITS: [(u64, u32); 9] = [
    (flags::READ_ONLY, extended::READ_ONLY),
    (flags::HIDDEN, extended::HIDDEN),
    (flags::SYSTEM, extended::SYSTEM),
    (flags::ARCHIVE, extended::ARCHIVE),
    (flags::IMMUTABLE, extended::IMMUTABLE),
    (flags::NO_UNLINK, extended::NO_UNLINK),
    (flags::APPEND_ONLY, extended::APPEND_ONLY),
    (flags::NO_DUMP, extended::NO_DUMP),
    (flags::PROJECT_INHERIT, extended::PROJECT_INHERIT),
];

/// A time as records have it.
fn words(time: Timestamp) -> [u64; 2] {
    [time.seconds.cast_unsigned(), time.nanoseconds.into()]
}

/// A new file as records have it.
pub(crate) fn new_object(znode: &Znode) -> NewObject {
    let state = znode.state.read();
    NewObject {
        object: znode.id(),
        slots: znode.slots(),
        mode: state.mode.into(),
        uid: state.uid,
        gid: state.gid,
        generation: state.generation,
        creation_time: words(state.crtime),
        device: state.device,
    }
}

/// A file that came to be under a name.
pub(crate) fn creation<'a>(
    directory: ObjectId,
    znode: &Znode,
    name: &'a [u8],
    target: Option<&'a [u8]>,
) -> Change<'a> {
    let is_directory = znode.state.read().file_type() == FileType::Directory;
    let created = match target {
        Some(target) => Created::Symlink(target),
        None if is_directory => Created::Directory,
        None => Created::File,
    };
    creation_as(created, directory, znode, name)
}

/// An object of this kind that came to be.
pub(crate) fn creation_as<'a>(
    created: Created<'a>,
    directory: ObjectId,
    znode: &Znode,
    name: &'a [u8],
) -> Change<'a> {
    Change::Create(Create {
        created,
        directory,
        new: new_object(znode),
        name,
        acl: None,
        attributes: None,
        domains: Vec::new(),
    })
}

impl Core {
    /// Notes a change of the size.
    pub(crate) fn record_size(&self, tx: &Tx, object: ObjectId, state: &State) {
        self.record_set(tx, object, state, attribute::SIZE, None);
    }

    /// Notes a change of the mode.
    pub(crate) fn record_mode(&self, tx: &Tx, object: ObjectId, state: &State) {
        let mask = attribute::MODE | attribute::CHANGE_TIME;
        self.record_set(tx, object, state, mask, None);
    }

    /// Notes a change of attributes that `state` already shows; `new_mode` also when the mode fell
    /// with the owner.
    pub(crate) fn record_attributes(
        &self,
        tx: &Tx,
        object: ObjectId,
        (state, new_mode): (&State, bool),
        change: &SetAttributes,
    ) {
        let bit = |is_set, bit| if is_set { bit } else { 0 };
        let mask = bit(new_mode || change.permissions.is_some(), attribute::MODE)
            | bit(change.uid.is_some(), attribute::UID)
            | bit(change.gid.is_some(), attribute::GID)
            | bit(change.atime.is_some(), attribute::ACCESS_TIME)
            | bit(change.mtime.is_some(), attribute::MODIFICATION_TIME)
            | attribute::CHANGE_TIME;
        self.record_set(tx, object, state, mask, extended_of(state, change));
    }

    fn record_set(
        &self,
        tx: &Tx,
        object: ObjectId,
        state: &State,
        mask: u64,
        extended: Option<ExtendedAttributes>,
    ) {
        if state.links == 0 {
            return;
        }
        let set = |bit, value| if mask & bit != 0 { value } else { 0 };
        // A time that is not set is that of the change, as OpenZFS has it.
        let time = |bit, time| {
            let is_set = mask & bit != 0;
            words(if is_set { time } else { state.ctime })
        };
        let has_more = if extended.is_some() {
            attribute::EXTENDED
        } else {
            0
        };
        let change = Change::SetAttributes(intent_log::SetAttributes {
            object,
            mask: mask | has_more,
            mode: set(attribute::MODE, state.mode.into()),
            uid: set(attribute::UID, state.uid),
            gid: set(attribute::GID, state.gid),
            size: set(attribute::SIZE, state.size),
            access_time: time(attribute::ACCESS_TIME, state.atime),
            modification_time: time(attribute::MODIFICATION_TIME, state.mtime),
            extended,
            domains: Vec::new(),
        });
        self.record(tx, Scope::File(object), &[change]);
    }
}

/// The optional attributes that a change sets, if any.
fn extended_of(state: &State, change: &SetAttributes) -> Option<ExtendedAttributes> {
    let (mut requested, mut values, mut stamp) = (0, 0, [0; 32]);
    if let Some((set, clear)) = change.flags {
        for (flag, bit) in FLAG_BITS {
            if (set | clear) & flag != 0 {
                requested |= bit;
            }
            if set & flag != 0 {
                values |= u64::from(bit);
            }
        }
    }
    if change.crtime.is_some() {
        requested |= extended::CREATION_TIME;
    }
    if change.project.is_some() {
        requested |= extended::PROJECT;
        stamp[..8].copy_from_slice(&state.project.to_ne_bytes());
    }
    (requested != 0).then(|| ExtendedAttributes {
        word_count: BITMAP_WORDS,
        requested: [requested, 0, 0],
        values,
        creation_time: words(state.crtime),
        scan_stamp: stamp,
    })
}
