//! Renaming.
//!
//! Locks: the names of all directories concerned, in ascending order of object number. A directory
//! that moves to another parent takes the file system's rename lock first, so that the walk up
//! which proves that it does not move below itself sees no other move.

use std::sync::Arc;

use base::ObjectId;
use dmu::{Tx, Zap};
use format::intent_log::{Change, NewObject, Renamed};
use format::sa::Attribute;

use crate::core::{Core, Plan};
use crate::log::{Scope, new_object};
use crate::lookup::Found;
use crate::names::is_dot;
use crate::nodes::EntryChange;
use crate::removal::{Gone, Losing, Loss, TRIES_MAX, mark_removed};
use crate::replay::{claim, time};
use crate::store::NewFile;
use crate::znode::{NamesWrite, Znode};
use crate::{Access, Credentials, FileType, PosixError, RenameMode, Result, flags};

/// The deepest tree that a walk up believes in.
const DEPTH_MAX: usize = 1 << 20;

/// The attributes of a file that change when it moves.
const OF_A_MOVE: [Attribute; 3] = [Attribute::Parent, Attribute::Ctime, Attribute::Flags];

/// How a target is treated, and what a whiteout must be when a log says so.
pub(crate) type How<'a> = (RenameMode, Option<&'a NewObject>);

/// One end of a rename.
#[derive(Clone)]
struct End<'a> {
    directory: Arc<Znode>,
    name: &'a [u8],
    entry: Option<Found>,
    file: Option<Arc<Znode>>,
}

impl End<'_> {
    fn object(&self) -> Option<ObjectId> {
        self.file.as_ref().map(|file| file.id())
    }

    /// The name under which the entry is stored, or shall be.
    fn stored(&self) -> &[u8] {
        self.entry
            .as_ref()
            .map_or(self.name, |entry| entry.stored(self.name))
    }
}

/// What the rename takes the target's name from.
fn replaced<'a>(source: &End<'_>, target: &'a End<'_>, mode: RenameMode) -> Option<&'a Arc<Znode>> {
    let file = target.file.as_ref()?;
    (mode != RenameMode::Exchange && Some(file.id()) != source.object()).then_some(file)
}

impl Core {
    pub(crate) fn rename(
        &self,
        who: &Credentials,
        from: (ObjectId, &[u8]),
        to: (ObjectId, &[u8]),
        mode: RenameMode,
    ) -> Result<Option<Gone>> {
        self.rename_as(who, from, to, (mode, None))
    }

    /// Renames, and says what was replaced; a whiteout is what the log says that it must be, if it
    /// does.
    pub(crate) fn rename_as(
        &self,
        who: &Credentials,
        from: (ObjectId, &[u8]),
        to: (ObjectId, &[u8]),
        how: How<'_>,
    ) -> Result<Option<Gone>> {
        if is_dot(from.1) || is_dot(to.1) {
            return Err(PosixError::Busy);
        }
        self.master.names.check(to.1, self.name_length_max())?;
        for _ in 0..TRIES_MAX {
            let source = self.find_end(who, from)?;
            let target = self.find_end(who, to)?;
            if let Some(loss) = self.try_rename(who, &source, &target, how)? {
                let replaced = replaced(&source, &target, how.0);
                return Ok(replaced.map(|replaced| (Arc::clone(replaced), loss)));
            }
        }
        Err(PosixError::Busy)
    }

    fn find_end<'a>(&self, who: &Credentials, (id, name): (ObjectId, &'a [u8])) -> Result<End<'a>> {
        let directory = self.directory(id)?;
        let found = match self.find_child(who, &directory, name) {
            Ok((entry, file)) => (Some(entry), Some(file)),
            Err(PosixError::NotFound) => (None, None),
            Err(error) => return Err(error),
        };
        let (entry, file) = found;
        Ok(End {
            directory,
            name,
            entry,
            file,
        })
    }

    /// One attempt, and what came of what was replaced; none when a name came to mean something else meanwhile.
    fn try_rename(
        &self,
        who: &Credentials,
        source: &End<'_>,
        target: &End<'_>,
        (mode, replayed): How<'_>,
    ) -> Result<Option<Loss>> {
        let moved = source.file.as_ref().ok_or(PosixError::NotFound)?;
        if self.is_settled(source, target, mode)? {
            return Ok(Some(Loss::default()));
        }
        let crosses = source.directory.id() != target.directory.id();
        let is_directory = moved.state.read().is_directory();
        if crosses && is_directory {
            // Looked at again under the lock; here for the answer that takes precedence, and to
            // have the way up in memory.
            self.check_loop(moved, &target.directory)?;
        }
        self.check_rename(who, source, target, mode)?;
        let goes = target.file.as_ref();
        let tx = self.begin(Plan {
            names: 4,
            objects: 8,
            freed_blocks: goes.and_then(|file| self.cost_at_once(file)).unwrap_or(0),
            ..Plan::default()
        })?;
        let exchanged = target
            .file
            .as_ref()
            .filter(|_| mode == RenameMode::Exchange);
        let exchanged_directory = exchanged.is_some_and(|file| file.state.read().is_directory());
        let _order = (crosses && (is_directory || exchanged_directory)).then(|| self.rename.lock());
        if crosses && is_directory {
            self.check_loop(moved, &target.directory)?;
        }
        if let Some(exchanged) = exchanged.filter(|_| crosses && exchanged_directory) {
            self.check_loop(exchanged, &source.directory)?;
        }
        let replaced = replaced(source, target, mode);
        let mut directories = vec![&source.directory, &target.directory];
        directories.extend(replaced.filter(|file| file.state.read().is_directory()));
        let mut locked = Znode::lock_names(&directories);
        if !self.is_current(source)? || !self.is_current(target)? {
            return Ok(None);
        }
        self.check_locked(&locked, replaced)?;
        let loss = self.rename_locked(&tx, who, (source, target), (mode, replayed))?;
        if let Some(replaced) = replaced {
            mark_removed(&mut locked, replaced);
        }
        drop(locked);
        drop(tx);
        if let Some(replaced) = replaced {
            self.finish(replaced, loss.lingers);
        }
        Ok(Some(loss))
    }

    /// Renames between ends that are what they were found to be, in directories whose names are locked.
    fn rename_locked(
        &self,
        tx: &Tx,
        who: &Credentials,
        (source, target): (&End<'_>, &End<'_>),
        (mode, replayed): How<'_>,
    ) -> Result<Loss> {
        let moved = source.file.as_ref().ok_or(PosixError::NotFound)?;
        let exchanged = target
            .file
            .as_ref()
            .filter(|_| mode == RenameMode::Exchange);
        let kind = moved.state.read().file_type();
        self.hold_rename(tx, (source, target), (moved, exchanged))?;
        let whiteout = (mode == RenameMode::Whiteout)
            .then(|| self.make_whiteout(tx, who, source, replayed))
            .transpose()?;
        let done = match exchanged {
            Some(other) => self
                .whole(tx, || self.exchange(tx, source, target, (moved, other)))
                .map(|()| Loss::default()),
            None => replaced(source, target, mode)
                .map(|replaced| self.hold_links(tx, replaced))
                .transpose()
                .and_then(|losing| {
                    let left = whiteout.as_ref();
                    self.whole(tx, || {
                        self.replace(tx, (source, target), (moved, kind), (left, losing))
                    })
                }),
        };
        let loss = done.inspect_err(|_| {
            if let Some(whiteout) = &whiteout {
                self.abandon(tx, whiteout);
            }
        })?;
        let renamed = match (&whiteout, exchanged) {
            (Some(whiteout), _) => Renamed::LeavingWhiteout(new_object(whiteout)),
            (None, Some(_)) => Renamed::Exchanged,
            (None, None) => Renamed::Replacing,
        };
        self.record_rename(tx, renamed, source, target);
        Ok(loss)
    }

    /// Looks again at what may have changed until the names were locked: directories that are gone, and something that
    /// came into the directory that goes.
    fn check_locked(
        &self,
        locked: &[(ObjectId, NamesWrite<'_>)],
        replaced: Option<&Arc<Znode>>,
    ) -> Result<()> {
        if locked.iter().any(|(_, names)| names.removed) {
            return Err(PosixError::NotFound);
        }
        match replaced {
            Some(replaced)
                if replaced.state.read().is_directory()
                    && !self.entries(replaced)?.is_empty()? =>
            {
                Err(PosixError::NotEmpty)
            }
            _ => Ok(()),
        }
    }

    fn record_rename(&self, tx: &Tx, renamed: Renamed, source: &End<'_>, target: &End<'_>) {
        // What was written to the file comes before its new name: a file that is replaced is
        // never replaced by an empty one.
        let scope = match (&renamed, source.object()) {
            (Renamed::Replacing, Some(moved)) => Scope::NamesAfter(moved),
            _ => Scope::Names,
        };
        let change = Change::Rename {
            renamed,
            from: (source.directory.id(), source.stored()),
            to: (target.directory.id(), target.name),
        };
        self.record(tx, scope, &[change]);
    }

    /// Whether there is nothing to do: both names are the same file.
    fn is_settled(&self, source: &End<'_>, target: &End<'_>, mode: RenameMode) -> Result<bool> {
        if target.file.is_none() {
            return match mode {
                RenameMode::Exchange => Err(PosixError::NotFound),
                RenameMode::Replace | RenameMode::NoReplace | RenameMode::Whiteout => Ok(false),
            };
        }
        let same_file = source.object() == target.object();
        let same_entry = same_file
            && source.directory.id() == target.directory.id()
            && source.stored() == target.stored();
        // Another spelling of the same entry is not a target that exists.
        let respells = same_entry && target.stored() != target.name;
        if mode == RenameMode::NoReplace && !respells {
            return Err(PosixError::Exists);
        }
        Ok(same_file && !respells)
    }

    fn check_rename(
        &self,
        who: &Credentials,
        source: &End<'_>,
        target: &End<'_>,
        mode: RenameMode,
    ) -> Result<()> {
        let moved = source.file.as_ref().ok_or(PosixError::NotFound)?;
        let crosses = source.directory.id() != target.directory.id();
        self.check_removal(who, &source.directory, moved)?;
        let is_directory = moved.state.read().is_directory();
        let replaced = target.file.as_ref().filter(|file| file.id() != moved.id());
        match replaced {
            Some(replaced) => {
                self.check_removal(who, &target.directory, replaced)?;
                let onto_directory = replaced.state.read().is_directory();
                if mode != RenameMode::Exchange {
                    match (is_directory, onto_directory) {
                        (true, false) => return Err(PosixError::NotDirectory),
                        (false, true) => return Err(PosixError::IsDirectory),
                        (true, true) if !self.entries(replaced)?.is_empty()? => {
                            return Err(PosixError::NotEmpty);
                        }
                        _ => {}
                    }
                }
            }
            None => self.check_directory_change(who, &target.directory, false)?,
        }
        if crosses && is_directory {
            self.check(who, moved, Access::WRITE)?;
        }
        self.check_projects(source, target, moved)
    }

    /// A tree that hands down its project takes in no files of other projects.
    fn check_projects(&self, source: &End<'_>, target: &End<'_>, moved: &Znode) -> Result<()> {
        if source.directory.id() == target.directory.id() {
            return Ok(());
        }
        let wanted = {
            let state = target.directory.state.read();
            state
                .has(flags::PROJECT_INHERIT)
                .then(|| state.shown_project())
        };
        let project = moved.state.read().shown_project();
        match wanted {
            Some(wanted) if wanted != project && !self.replaying => Err(PosixError::CrossDevice),
            _ => Ok(()),
        }
    }

    /// Fails when `directory` lies below `moved`, or is it. The caller holds the rename lock.
    fn check_loop(&self, moved: &Znode, directory: &Znode) -> Result<()> {
        let mut at = directory.id();
        for _ in 0..DEPTH_MAX {
            if at == moved.id() {
                return Err(PosixError::Invalid("a directory cannot move below itself"));
            }
            let parent = self.znode(at)?.state.read().parent;
            if parent == at || at == self.master.root {
                return Ok(());
            }
            at = parent;
        }
        Err(directory.corrupt(crate::Corruption::DirectoryEntry))
    }

    /// Whether an end still is what it was found to be. The caller holds the names.
    fn is_current(&self, end: &End<'_>) -> Result<bool> {
        let found = self.find(&end.directory, end.name)?;
        let same_name = match (&found, &end.entry) {
            (Some(found), Some(entry)) => found.stored(end.name) == entry.stored(end.name),
            (None, None) => true,
            _ => false,
        };
        Ok(same_name
            && match (&found, &end.file) {
                (Some(found), Some(file)) => found.is(file),
                (None, None) => true,
                _ => false,
            })
    }

    /// Holds what a rename changes; of what it replaces, the names alone. Entries and attributes are as they were.
    fn hold_rename(
        &self,
        tx: &Tx,
        (source, target): (&End<'_>, &End<'_>),
        (moved, exchanged): (&Arc<Znode>, Option<&Arc<Znode>>),
    ) -> Result<()> {
        self.note_name(target.name)?;
        self.hold_entry(tx, &source.directory)?;
        if source.directory.id() != target.directory.id() {
            self.hold_entry(tx, &target.directory)?;
        }
        for file in [Some(moved), exchanged].into_iter().flatten() {
            let mut state = file.state.write();
            file.hold(tx, &self.store, &mut state, &OF_A_MOVE)?;
        }
        let entries = self.entries(&target.directory)?;
        entries.hold(tx, target.name)?;
        if target.stored() != target.name {
            entries.hold(tx, target.stored())?;
        }
        Ok(self.entries(&source.directory)?.hold(tx, source.stored())?)
    }

    /// Moves a name; what is held has the last word about what had it before.
    fn replace(
        &self,
        tx: &Tx,
        (source, target): (&End<'_>, &End<'_>),
        (moved, kind): (&Znode, FileType),
        (whiteout, losing): (Option<&Arc<Znode>>, Option<Losing<'_>>),
    ) -> Result<Loss> {
        let crosses = source.directory.id() != target.directory.id();
        let subdirectories = i64::from(kind == FileType::Directory);
        let replaces = losing.is_some();
        let replaces_directory = losing.as_ref().is_some_and(Losing::is_directory);
        let entries = self.entries(&target.directory)?;
        let value = self.pack(moved.id(), kind);
        let take = |entries: &Zap| match whiteout {
            Some(left) => {
                let value = self.pack(left.id(), FileType::CharacterDevice);
                entries.update(tx, source.stored(), value)
            }
            None => entries.remove(tx, source.stored()),
        };
        let from = self.entries(&source.directory)?;
        // An exact name is changed in one step: readers always find one of both files.
        if replaces && target.stored() == target.name {
            entries.update(tx, target.name, value)?;
            take(&from)?;
        } else {
            if replaces {
                entries.remove(tx, target.stored())?;
            }
            take(&from)?;
            self.add_name(tx, &target.directory, target.name, value)?;
        }
        let loss = match losing {
            Some(losing) => self.lose_links(tx, losing)?,
            None => Loss::default(),
        };
        let gone = EntryChange {
            entries: i64::from(whiteout.is_some()) - 1,
            subdirectories: -subdirectories,
        };
        let come = EntryChange {
            entries: i64::from(!replaces),
            subdirectories: subdirectories - i64::from(replaces_directory),
        };
        if crosses {
            self.note_entry(tx, &source.directory, gone)?;
            self.note_entry(tx, &target.directory, come)?;
        } else {
            let both = EntryChange {
                entries: gone.entries + come.entries,
                subdirectories: gone.subdirectories + come.subdirectories,
            };
            self.note_entry(tx, &source.directory, both)?;
        }
        self.note_moved(tx, moved, target.directory.id())?;
        Ok(loss)
    }

    fn exchange(
        &self,
        tx: &Tx,
        source: &End<'_>,
        target: &End<'_>,
        (moved, other): (&Arc<Znode>, &Arc<Znode>),
    ) -> Result<()> {
        let kind = |file: &Znode| file.state.read().file_type();
        let (moved_kind, other_kind) = (kind(moved), kind(other));
        let value = self.pack(other.id(), other_kind);
        self.entries(&source.directory)?
            .update(tx, source.stored(), value)?;
        let value = self.pack(moved.id(), moved_kind);
        self.entries(&target.directory)?
            .update(tx, target.stored(), value)?;
        let crosses = source.directory.id() != target.directory.id();
        let count = |kind| i64::from(kind == FileType::Directory);
        let change = if crosses {
            count(other_kind) - count(moved_kind)
        } else {
            0
        };
        let at_source = EntryChange {
            entries: 0,
            subdirectories: change,
        };
        let at_target = EntryChange {
            entries: 0,
            subdirectories: -change,
        };
        self.note_entry(tx, &source.directory, at_source)?;
        if crosses {
            self.note_entry(tx, &target.directory, at_target)?;
        }
        self.note_moved(tx, moved, target.directory.id())?;
        self.note_moved(tx, other, source.directory.id())
    }

    fn note_moved(&self, tx: &Tx, moved: &Znode, parent: ObjectId) -> Result<()> {
        let mut state = moved.state.write();
        state.parent = parent;
        state.ctime = self.now();
        self.mark_changed(&mut state);
        moved.store(tx, &self.store, &mut state, &OF_A_MOVE)
    }

    /// Makes the character device 0:0 that is left where a file was: an overlay takes it for "removed".
    fn make_whiteout(
        &self,
        tx: &Tx,
        who: &Credentials,
        source: &End<'_>,
        replayed: Option<&NewObject>,
    ) -> Result<Arc<Znode>> {
        let whiteout = self.create_file(
            tx,
            &NewFile {
                mode: FileType::CharacterDevice.bits() << 12,
                uid: replayed.map_or(who.uid.into(), |new| new.uid),
                gid: replayed.map_or(who.gid.into(), |new| new.gid),
                parent: Some(source.directory.id()),
                flags: 0,
                project: 0,
                device: 0,
                links: 1,
                target: None,
                now: replayed.map_or_else(|| self.now(), |new| time(new.creation_time)),
                slots: replayed.map_or(self.properties().dnode_slots, |new| new.slots),
                claim: replayed.map(claim),
            },
        )?;
        self.table.insert(Arc::clone(&whiteout));
        Ok(whiteout)
    }
}
