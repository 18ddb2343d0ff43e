//! What records that were passed over leave in doubt.
//!
//! A record is passed over if what it would change is damaged. Records after it may build on it: a file that is created
//! under a name whose removal is lost, writes to an object that got its number again. Done to what is there instead,
//! they would give one file what is another's, or take away a file that the log keeps under another name. So
//! what a lost record is about stays as it is, and what builds on it is passed over as well; the others are applied.

use std::collections::HashSet;

use base::ObjectId;
use dmu::DmuError;
use format::intent_log::{Change, Create, Created, Renamed};

use crate::PosixError;
use crate::core::Core;

type Name<'a> = (ObjectId, &'a [u8]);

/// At most some entries for each record of the log.
#[derive(Default)]
pub(super) struct Doubts {
    /// Names that have, or lack, what the log says otherwise.
    names: HashSet<(ObjectId, Box<[u8]>)>,
    /// Objects that the log says were made, or went, since they were what they are.
    identities: HashSet<ObjectId>,
    /// Objects that lack a name, or have one too many: none of their names may go.
    named: HashSet<ObjectId>,
    /// Objects whose contents or attributes are older than the log says.
    contents: HashSet<ObjectId>,
}

/// What a record needs to be as it was when the record was written.
#[derive(Default)]
struct Needs<'a> {
    names: Vec<Name<'a>>,
    /// Objects that must be the ones that the log means.
    same: Vec<ObjectId>,
    /// The one that loses a name.
    unnamed: Option<ObjectId>,
    /// The one whose contents or attributes change.
    changed: Option<ObjectId>,
}

/// The object that a name has now; none if that cannot be read either.
fn object_of(core: &Core, (directory, name): Name<'_>) -> Option<ObjectId> {
    let directory = core.directory(directory).ok()?;
    Some(core.find(&directory, name).ok()??.object)
}

impl<'a> Needs<'a> {
    fn of(change: &Change<'a>, core: &Core) -> Self {
        match *change {
            Change::Create(ref create) => Self::of_create(create),
            Change::Remove {
                directory, name, ..
            } => Self {
                names: vec![(directory, name)],
                same: vec![directory],
                unnamed: object_of(core, (directory, name)),
                changed: None,
            },
            Change::Link {
                directory,
                object,
                name,
            } => Self {
                names: vec![(directory, name)],
                same: vec![directory, object],
                ..Self::default()
            },
            Change::Rename {
                ref renamed,
                from,
                to,
            } => {
                let mut same = vec![from.0, to.0];
                same.extend(object_of(core, from));
                let target = object_of(core, to);
                let unnamed = match renamed {
                    Renamed::Replacing => target,
                    Renamed::Exchanged => {
                        same.extend(target);
                        None
                    }
                    Renamed::LeavingWhiteout(new) => {
                        same.push(new.object);
                        target
                    }
                };
                Self {
                    names: vec![from, to],
                    same,
                    unnamed,
                    changed: None,
                }
            }
            Change::Write { object, .. }
            | Change::Truncate { object, .. }
            | Change::SetAcl { object, .. }
            | Change::SetXattr { object, .. }
            | Change::CloneRange { object, .. } => Self::of_contents(object),
            Change::SetAttributes(ref set) => Self::of_contents(set.object),
        }
    }

    fn of_create(create: &Create<'a>) -> Self {
        let same = vec![create.directory, create.new.object];
        match create.created {
            // Of the file that it belongs to it is an attribute.
            Created::XattrDirectory => Self {
                same,
                changed: Some(create.directory),
                ..Self::default()
            },
            Created::File | Created::Directory | Created::Symlink(_) => Self {
                names: vec![(create.directory, create.name)],
                same,
                ..Self::default()
            },
        }
    }

    fn of_contents(object: ObjectId) -> Self {
        Self {
            same: vec![object],
            changed: Some(object),
            ..Self::default()
        }
    }
}

impl Doubts {
    pub(super) fn is_empty(&self) -> bool {
        let Self {
            names,
            identities,
            named,
            contents,
        } = self;
        names.is_empty() && identities.is_empty() && named.is_empty() && contents.is_empty()
    }

    /// Whether a record builds on one that was passed over.
    pub(super) fn are_about(&self, change: &Change<'_>, core: &Core) -> bool {
        if self.is_empty() {
            return false;
        }
        let needs = Needs::of(change, core);
        let is_named =
            |&(directory, name): &Name<'_>| self.names.contains(&(directory, name.into()));
        let is_another = |object: &ObjectId| self.identities.contains(object);
        needs.names.iter().any(is_named)
            || needs.same.iter().any(is_another)
            || needs
                .unnamed
                .is_some_and(|object| is_another(&object) || self.named.contains(&object))
            || needs
                .changed
                .is_some_and(|object| self.contents.contains(&object))
    }

    /// Notes what a record was about that is passed over.
    pub(super) fn pass_over(&mut self, change: &Change<'_>, core: &Core) {
        let needs = Needs::of(change, core);
        let names = needs.names.iter();
        self.names
            .extend(names.map(|&(directory, name)| (directory, name.into())));
        self.contents.extend(needs.changed);
        if let Some(object) = needs.unnamed {
            self.lose_name(object, core);
        }
        match change {
            Change::Create(create) => {
                self.identities.insert(create.new.object);
            }
            Change::Link { object, .. } => {
                self.named.insert(*object);
            }
            Change::Rename { renamed, from, to } => {
                self.named.extend(object_of(core, *from));
                match renamed {
                    Renamed::Replacing => {}
                    Renamed::Exchanged => self.named.extend(object_of(core, *to)),
                    Renamed::LeavingWhiteout(new) => {
                        self.identities.insert(new.object);
                    }
                }
            }
            Change::Remove { .. }
            | Change::Write { .. }
            | Change::Truncate { .. }
            | Change::SetAttributes(_)
            | Change::SetAcl { .. }
            | Change::SetXattr { .. }
            | Change::CloneRange { .. } => {}
        }
    }

    /// An object keeps a name that the log takes from it. With its last one it went, and its number may be another's.
    fn lose_name(&mut self, object: ObjectId, core: &Core) {
        let has_others = core.znode(object).is_ok_and(|znode| {
            let state = znode.state.read();
            state.links > 1 && !state.is_directory()
        });
        if !has_others || !self.named.insert(object) {
            self.identities.insert(object);
        }
    }
}

/// Whether an operation was refused because names or objects are not what the log's writer had: what a lost record
/// leaves behind, if there was one.
pub(super) fn is_contradiction(error: &PosixError) -> bool {
    match error {
        PosixError::NotFound
        | PosixError::Exists
        | PosixError::NotDirectory
        | PosixError::IsDirectory
        | PosixError::NotEmpty
        | PosixError::Invalid(_)
        | PosixError::TooManyLinks
        | PosixError::NoAttribute
        | PosixError::Stale => true,
        PosixError::Storage(error) => {
            matches!(
                error,
                DmuError::ObjectInUse { .. }
                    | DmuError::NoSuchObject { .. }
                    | DmuError::EntryExists { .. }
                    | DmuError::NoSuchEntry { .. }
            )
        }
        PosixError::AccessDenied
        | PosixError::NotPermitted(_)
        | PosixError::ReadOnly
        | PosixError::NoSpace
        | PosixError::QuotaExceeded
        | PosixError::NameTooLong
        | PosixError::InvalidName
        | PosixError::CrossDevice
        | PosixError::FileTooLarge
        | PosixError::AttributeTooLarge
        | PosixError::OutOfRange
        | PosixError::NotSupported(_)
        | PosixError::Busy
        | PosixError::NoSuchOffset
        | PosixError::BadHandle
        | PosixError::Unwritten
        | PosixError::Stopped(_)
        | PosixError::Log(_)
        | PosixError::Corrupt { .. } => false,
    }
}
