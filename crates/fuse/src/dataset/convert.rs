//! Between the protocol's words and those of the file system.

use crate::dataset::View;
use crate::node::{Node, snapshot_root_inode};
use crate::tree::{Caller, Creation, Opening, Reply};
use crate::wire::{
    self, EntryReply, FileKind, RenameFlags, SetattrFields, SetattrRequest, Timeouts,
    device_number_from_wire, device_number_to_wire,
};
use base::clock::{Clock, SystemClock};
use posix::{
    Attributes, Credentials, Errno, FileType, NewNode, OpenOptions, PosixError, RenameMode,
    SetAttributes, SetTime, Timestamp,
};
use std::cell::OnceCell;
use std::sync::Arc;
use std::time::Duration;

/// The kernel may believe a name or attributes for this long: nothing changes them but requests of
/// the same mount, and what does is told.
pub(super) const LONG: Duration = Duration::from_secs(3600);
/// How long attributes of a file changed a moment ago are believed: the space that it takes is
/// known when its transaction group is written.
const FRESH: Duration = Duration::from_secs(1);
/// A file changed longer ago than this is written.
const SETTLED_SECONDS: u64 = 15;

/// For `map_err`.
pub(super) fn errno(error: PosixError) -> Errno {
    error.errno()
}

pub(super) fn credentials(caller: &Caller) -> Credentials {
    thread_local! {
        /// Callers mostly come without groups; making an empty list would allocate each time.
        static NO_GROUPS: OnceCell<Arc<[u32]>> = const { OnceCell::new() };
    }
    let groups = match caller.group_of_directory {
        Some(group) => Arc::from([group]),
        None => NO_GROUPS.with(|none| Arc::clone(none.get_or_init(|| Arc::from([])))),
    };
    Credentials {
        uid: caller.uid,
        gid: caller.gid,
        groups,
        privileged: caller.uid == 0,
    }
}

fn time(from: Timestamp) -> wire::Timestamp {
    wire::Timestamp {
        seconds: from.seconds,
        nanoseconds: from.nanoseconds,
    }
}

fn time_back(from: wire::Timestamp) -> Timestamp {
    Timestamp {
        seconds: from.seconds,
        nanoseconds: from.nanoseconds,
    }
}

impl View {
    /// The inode number shown: an object number in the live file system, beyond all of those in
    /// a snapshot.
    pub(super) fn inode(&self, object: base::ObjectId) -> u64 {
        match self {
            Self::Live(_) => object.0,
            Self::Snapshot(snapshot) if snapshot.file_system.root() == object => {
                snapshot_root_inode(snapshot.object_set)
            }
            Self::Snapshot(_) => self.node(object).id().unwrap_or(object.0),
        }
    }

    pub(super) fn attributes(&self, from: &Attributes) -> wire::Attributes {
        wire::Attributes {
            inode: self.inode(from.object),
            size: from.size,
            blocks: from.blocks,
            atime: time(from.atime),
            mtime: time(from.mtime),
            ctime: time(from.ctime),
            birth_time: time(from.crtime),
            mode: from.mode(),
            links: from.links,
            uid: from.uid,
            gid: from.gid,
            device: device_number_to_wire(from.device.0, from.device.1),
            block_size: from.block_size,
        }
    }

    /// How long attributes are believed.
    pub(super) fn attributes_valid(&self, from: &Attributes) -> Duration {
        let now = SystemClock.now_s();
        let changed = u64::try_from(from.ctime.seconds).unwrap_or(0);
        let settled = changed.saturating_add(SETTLED_SECONDS) < now;
        let live = matches!(self, Self::Live(_));
        if live && !settled && from.file_type == FileType::Regular {
            FRESH
        } else {
            LONG
        }
    }

    /// How long a name is believed. Where several names mean one file, the kernel would not know
    /// what a change of one does to the others.
    pub(super) fn names_valid(&self) -> Duration {
        if self.file_system().has_normalized_names() {
            Duration::ZERO
        } else {
            LONG
        }
    }

    pub(super) fn entry(&self, from: &Attributes) -> Reply<EntryReply> {
        Ok(EntryReply {
            node: self.node(from.object).id().ok_or(Errno::EIO)?,
            generation: from.generation,
            timeouts: Timeouts {
                entry: self.names_valid(),
                attributes: self.attributes_valid(from),
            },
            attributes: self.attributes(from),
        })
    }

    /// The answer for a name that is not there: remembered like one that is.
    pub(super) fn absent(&self) -> Reply<EntryReply> {
        let entry = self.names_valid();
        if entry.is_zero() {
            return Err(Errno::ENOENT);
        }
        Ok(EntryReply {
            node: 0,
            generation: 0,
            timeouts: Timeouts {
                entry,
                attributes: Duration::ZERO,
            },
            attributes: wire::Attributes::default(),
        })
    }

    pub(super) fn is_root(&self, object: base::ObjectId) -> bool {
        self.node(object) == Node::Root
    }
}

pub(super) fn kind(file_type: Option<FileType>) -> FileKind {
    file_type.map_or(FileKind::Unknown, |file_type| {
        FileKind::from_mode(file_type.bits() << 12)
    })
}

pub(super) fn new_node(creation: Creation) -> Reply<NewNode> {
    // mknod(2) with no type makes a regular file.
    let bits = match creation.mode >> 12 & 0xF {
        0 => FileType::Regular.bits(),
        bits => bits,
    };
    Ok(NewNode {
        file_type: FileType::from_bits(bits).ok_or(Errno::EINVAL)?,
        permissions: creation.mode & 0o7777,
        umask: creation.umask & 0o777,
        device: device_number_from_wire(creation.device),
    })
}

/// Flags of open(2).
pub(super) mod open_flags {
    pub(crate) const ACCESS_MODE: u32 = 3;
    pub(crate) const WRITE_ONLY: u32 = 1;
    pub(crate) const READ_WRITE: u32 = 2;
    pub(crate) const EXECUTE: u32 = 0o40;
    pub(crate) const TRUNCATE: u32 = 0o1000;
    pub(crate) const APPEND: u32 = 0o2000;
    pub(crate) const DATA_SYNC: u32 = 0o10_000;
    pub(crate) const NO_ACCESS_TIME: u32 = 0o1_000_000;
}

pub(super) fn open_options(opening: Opening) -> OpenOptions {
    use open_flags::{
        ACCESS_MODE, APPEND, DATA_SYNC, EXECUTE, NO_ACCESS_TIME, READ_WRITE, TRUNCATE, WRITE_ONLY,
    };
    let has = |flag| opening.flags & flag != 0;
    let mode = opening.flags & ACCESS_MODE;
    OpenOptions {
        read: mode != WRITE_ONLY,
        write: mode == WRITE_ONLY || mode == READ_WRITE,
        append: has(APPEND),
        // A truncation that clears set-id bits is done as a change of attributes.
        truncate: has(TRUNCATE) && !opening.kill_suidgid,
        sync: has(DATA_SYNC),
        keep_access_time: has(NO_ACCESS_TIME),
        execute: has(EXECUTE),
    }
}

pub(super) fn set_attributes(change: &SetattrRequest) -> SetAttributes {
    let fields = change.fields;
    let set_time = |at: SetattrFields, now: SetattrFields, value: wire::Timestamp| {
        if fields.contains(now) {
            Some(SetTime::Now)
        } else {
            fields.contains(at).then(|| SetTime::At(time_back(value)))
        }
    };
    SetAttributes {
        permissions: fields
            .contains(SetattrFields::MODE)
            .then_some(change.mode & 0o7777),
        uid: fields.contains(SetattrFields::UID).then_some(change.uid),
        gid: fields.contains(SetattrFields::GID).then_some(change.gid),
        size: fields.contains(SetattrFields::SIZE).then_some(change.size),
        atime: set_time(SetattrFields::ATIME, SetattrFields::ATIME_NOW, change.atime),
        mtime: set_time(SetattrFields::MTIME, SetattrFields::MTIME_NOW, change.mtime),
        ctime: fields
            .contains(SetattrFields::CTIME)
            .then(|| time_back(change.ctime)),
        kill_set_id: fields.contains(SetattrFields::KILL_SUIDGID),
        by_open_handle: fields.contains(SetattrFields::HANDLE),
        ..SetAttributes::default()
    }
}

pub(super) fn rename_mode(flags: RenameFlags) -> Reply<RenameMode> {
    match flags {
        none if none.is_empty() => Ok(RenameMode::Replace),
        RenameFlags::NOREPLACE => Ok(RenameMode::NoReplace),
        RenameFlags::EXCHANGE => Ok(RenameMode::Exchange),
        RenameFlags::WHITEOUT => Ok(RenameMode::Whiteout),
        _ => Err(Errno::EINVAL),
    }
}
