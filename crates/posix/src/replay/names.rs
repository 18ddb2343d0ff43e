//! Records about names.

use std::sync::Arc;

use base::{ByteOrder, ObjectId};
use format::intent_log::{Change, Create, Created, ExtendedAttributes, Renamed, extended};
use format::record::get_at;
use format::sa::Attribute;

use super::{Applier, claim, owner, time};
use crate::core::Plan;
use crate::log::{self, FLAG_BITS, Scope};
use crate::store::NewFile;
use crate::znode::{Znode, internal_flags};
use crate::{FileType, PosixError, RenameMode, Result, flags};

/// What optional attributes say of a new file.
#[derive(Default)]
struct Optional {
    flags: u64,
    project: Option<u64>,
    crtime: Option<[u64; 2]>,
}

/// The flags that are set, and those that are mentioned.
pub(super) fn flags_of(attributes: &ExtendedAttributes) -> (u64, u64) {
    let (mut set, mut named) = (0, 0);
    for (flag, bit) in FLAG_BITS {
        if attributes.requested[0] & bit != 0 {
            named |= flag;
            if attributes.values & u64::from(bit) != 0 {
                set |= flag;
            }
        }
    }
    (set, named)
}

/// The project that is set.
pub(super) fn project_of(attributes: &ExtendedAttributes, order: ByteOrder) -> Option<u64> {
    let has = attributes.requested[0] & extended::PROJECT != 0;
    has.then(|| get_at(&attributes.scan_stamp, 0, order))
}

/// The creation time that is set.
pub(super) fn creation_time_of(attributes: &ExtendedAttributes) -> Option<[u64; 2]> {
    let has = attributes.requested[0] & extended::CREATION_TIME != 0;
    has.then_some(attributes.creation_time)
}

impl Applier {
    pub(super) fn names(&self, change: &Change<'_>, order: ByteOrder) -> Result<()> {
        let core = &self.core;
        match change {
            Change::Create(create) if create.created == Created::XattrDirectory => {
                self.create_xattr_directory(create)
            }
            Change::Create(create) => self.create(create, order),
            &Change::Remove {
                directory,
                name,
                is_directory: true,
            } => core.rmdir(&self.who, directory, name).map(drop),
            &Change::Remove {
                directory, name, ..
            } => core.unlink(&self.who, directory, name).map(drop),
            &Change::Link {
                directory,
                object,
                name,
            } => core.link(&self.who, object, directory, name).map(drop),
            Change::Rename { renamed, from, to } => {
                let how = match renamed {
                    Renamed::Replacing => (RenameMode::Replace, None),
                    Renamed::Exchanged => (RenameMode::Exchange, None),
                    Renamed::LeavingWhiteout(new) => {
                        core.free_number(new.object)?;
                        (RenameMode::Whiteout, Some(new))
                    }
                };
                core.rename_as(&self.who, *from, *to, how).map(drop)
            }
            Change::Write { .. }
            | Change::Truncate { .. }
            | Change::SetAttributes(_)
            | Change::SetAcl { .. }
            | Change::SetXattr { .. }
            | Change::CloneRange { .. } => Err(PosixError::Invalid("record of another kind")),
        }
    }

    fn create(&self, create: &Create<'_>, order: ByteOrder) -> Result<()> {
        let core = &self.core;
        let new = &create.new;
        let kind = u32::try_from(new.mode).ok().and_then(FileType::from_mode);
        let fits = match (create.created, kind) {
            (Created::Directory, Some(kind)) => kind == FileType::Directory,
            (Created::Symlink(_), Some(kind)) => kind == FileType::Symlink,
            (Created::File | Created::XattrDirectory, Some(kind)) => {
                !matches!(kind, FileType::Directory | FileType::Symlink)
            }
            (_, None) => false,
        };
        let Some(kind) = kind.filter(|_| fits) else {
            return Err(PosixError::Invalid("mode of a new file in the log"));
        };
        let parent = core.directory(create.directory)?;
        if let Some(found) = core.find(&parent, create.name)? {
            return self.is_made(found.object, new.generation);
        }
        let optional = self.optional(create, &parent, kind, order);
        let target = match create.created {
            Created::Symlink(target) => Some(target),
            Created::File | Created::Directory | Created::XattrDirectory => None,
        };
        let file = NewFile {
            mode: new.mode as u32,
            uid: owner(new.uid)?.into(),
            gid: owner(new.gid)?.into(),
            parent: Some(parent.id()),
            flags: optional.flags,
            project: optional.project.unwrap_or(0),
            device: new.device,
            links: if kind == FileType::Directory { 2 } else { 1 },
            target,
            now: time(new.creation_time),
            slots: new.slots,
            claim: Some(claim(new)),
        };
        core.free_number(new.object)?;
        let tx = core.begin(Plan {
            names: 1,
            objects: 6,
            ..Plan::default()
        })?;
        let names = parent.names.write();
        core.hold_entry(&tx, &parent)?;
        let znode = core.create_file(&tx, &file)?;
        core.table.insert(Arc::clone(&znode));
        let named = core.add_entry(&tx, &parent, create.name, (znode.id(), kind));
        if let Err(error) = named {
            core.abandon(&tx, &znode);
            return Err(error);
        }
        if let Some(crtime) = optional.crtime {
            let mut state = znode.state.write();
            state.crtime = time(crtime);
            znode.store(&tx, &core.store, &mut state, &[Attribute::Crtime])?;
        }
        let made = log::creation(parent.id(), &znode, create.name, target);
        core.record(&tx, Scope::Names, &[made]);
        drop(names);
        drop(tx);
        match &create.acl {
            Some(acl) if !acl.aces.is_empty() => self.set_acl(&znode, acl, order),
            _ => Ok(()),
        }
    }

    /// Whether what is to be made is there already: the same object.
    fn is_made(&self, object: ObjectId, generation: u64) -> Result<()> {
        let found = self.core.znode(object)?;
        let same = found.state.read().generation == generation;
        if same {
            Ok(())
        } else {
            Err(PosixError::Exists)
        }
    }

    /// What the record and the directory say beyond owner and mode.
    fn optional(
        &self,
        create: &Create<'_>,
        parent: &Znode,
        kind: FileType,
        order: ByteOrder,
    ) -> Optional {
        let state = parent.state.read();
        let mut optional = Optional::default();
        if state.has(internal_flags::XATTR) {
            optional.flags |= internal_flags::XATTR;
            optional.project = Some(state.project);
        }
        if state.has(flags::PROJECT_INHERIT) {
            optional.project = Some(state.project);
            if kind == FileType::Directory {
                optional.flags |= flags::PROJECT_INHERIT;
            }
        }
        if let Some(attributes) = &create.attributes {
            optional.flags |= flags_of(attributes).0;
            optional.project = project_of(attributes, order).or(optional.project);
            optional.crtime = creation_time_of(attributes);
        }
        optional.project = optional.project.filter(|_| self.core.store.has_projects());
        optional
    }

    /// The hidden directory of a file's attributes.
    fn create_xattr_directory(&self, create: &Create<'_>) -> Result<()> {
        let core = &self.core;
        let new = &create.new;
        let Some(file) = self.existing(create.directory)? else {
            return Err(PosixError::NotFound);
        };
        let (made, project) = {
            let state = file.state.read();
            (state.xattr, state.project)
        };
        if made.0 != 0 {
            return self.is_made(made, new.generation);
        }
        if new.mode & 0o170_000 != 0o040_000 {
            return Err(PosixError::Invalid("mode of a directory in the log"));
        }
        core.free_number(new.object)?;
        let tx = core.begin(Plan {
            names: 1,
            objects: 3,
            ..Plan::default()
        })?;
        let directory = core.create_file(
            &tx,
            &NewFile {
                mode: new.mode as u32,
                uid: owner(new.uid)?.into(),
                gid: owner(new.gid)?.into(),
                parent: Some(file.id()),
                flags: internal_flags::XATTR,
                project,
                device: 0,
                links: 2,
                target: None,
                now: time(new.creation_time),
                slots: new.slots,
                claim: Some(claim(new)),
            },
        )?;
        core.table.insert(Arc::clone(&directory));
        let mut state = file.state.write();
        let held = file.hold(&tx, &core.store, &mut state, &[Attribute::Xattr]);
        if let Err(error) = held {
            drop(state);
            core.abandon(&tx, &directory);
            return Err(error);
        }
        state.xattr = directory.id();
        file.store(&tx, &core.store, &mut state, &[Attribute::Xattr])?;
        drop(state);
        let made = log::creation_as(create.created, file.id(), &directory, b"");
        core.record(&tx, Scope::Names, &[made]);
        Ok(())
    }
}
