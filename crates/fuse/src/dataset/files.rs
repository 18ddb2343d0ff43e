//! The operations, each on the file system that its node belongs to.

use super::control::CONTROL_NAME;
use super::convert::{credentials, errno, kind, new_node, open_flags, rename_mode};
use super::gathering::ASKED_BYTES;
use super::{DatasetTree, Place, SnapshotDirectory, View};
use crate::handle::Handle;
use crate::node::{ControlNode, Node};
use crate::open_tracker::{OpenMode, Share};
use crate::tree::{
    BeforeWrite, Caller, Creation, OPEN_DIRECT, Opened, Opening, Piece, ReadReply, Reply, Tree,
    Writing, Written,
};
use crate::wire::{
    Attributes, DirectoryBuffer, EntryReply, FallocateMode, FileKind, FsyncFlags, OpenReplyFlags,
    REWRITE, RenameFlags, SetattrRequest, StatfsReply, WriteFlags, XattrFlags,
};
use posix::{
    AllocateMode, Completion, Errno, OpenFile, PosixError, Removed, SetAttributes, Visit,
    WriteOptions, XattrMode,
};
use std::sync::Arc;
use std::time::Duration;

const SET_GROUP_ID: u32 = 0o2000;

/// Where a listing of the root continues after `.zfs`, which is its last entry.
const LISTING_END: u64 = i64::MAX as u64;

/// Whether a change by this caller takes set-id bits from a file. Of fallocate and copies the kernel
/// does not say so, nor which capabilities the caller has: root is taken to have all.
fn loses_set_id(caller: &Caller) -> bool {
    caller.uid != 0
}

impl DatasetTree {
    fn handle(&self, number: u64) -> Reply<Arc<Handle>> {
        // A file that a rollback closed has a number, but nothing behind it.
        self.handles.get(number).ok_or(Errno::ESTALE)
    }

    pub(super) fn opened(
        &self,
        file: OpenFile,
        (view, node): (&View, u64),
        opening: Opening,
    ) -> Opened {
        let mode = opening.flags & open_flags::ACCESS_MODE;
        let live = match view {
            View::Live(live) => Some(Arc::clone(live)),
            View::Snapshot(_) => None,
        };
        let gathers = self.gathering.is_on();
        let maybe_mapped =
            mode == open_flags::READ_WRITE || gathers && mode == open_flags::WRITE_ONLY;
        // Of a file with extended attributes the kernel looks at `security.capability` before a
        // write, but only if that goes through its cache.
        let mode = OpenMode {
            direct: mode == open_flags::WRITE_ONLY && !gathers && !file.has_extended_attributes(),
            mappable: maybe_mapped,
            buffered: opening.flags & OPEN_DIRECT == 0,
            executing: opening.flags & open_flags::EXECUTE != 0,
        };
        let written = live.as_ref().filter(|_| gathers && maybe_mapped);
        if let Some(live) = written {
            self.gathering.note_block(file.block_bytes());
            // Those who ask by then are asked for at their next write.
            let _asks = self.gathering.renew(&live.file_system);
        }
        let forgets_attributes = written.is_some();
        let share = live.is_some().then(|| self.open_tracker.open(node, mode));
        let is_direct = share.as_ref().is_some_and(Share::is_direct);
        let handle = self.handles.insert(Handle {
            file,
            node,
            maybe_mapped,
            live,
            share,
        });
        // Nothing changes data but through this mount, so that cached pages stay right; a close
        // has nothing to flush.
        let flags = OpenReplyFlags::KEEP_CACHE.union(OpenReplyFlags::NOFLUSH);
        let flags = if is_direct {
            flags.union(OpenReplyFlags::DIRECT_IO)
        } else {
            flags
        };
        Opened {
            handle,
            flags,
            forgets_attributes,
        }
    }

    /// Both directories in one file system.
    fn resolve_both(&self, one: u64, other: u64) -> Reply<(View, base::ObjectId, base::ObjectId)> {
        let (view, one) = self.resolve_file(one, Errno::EROFS)?;
        let (second, other) = self.resolve_file(other, Errno::EROFS)?;
        let same = match (&view, &second) {
            (View::Live(first), View::Live(second)) => first.epoch == second.epoch,
            (View::Snapshot(first), View::Snapshot(second)) => first.slot == second.slot,
            (View::Live(_), View::Snapshot(_)) | (View::Snapshot(_), View::Live(_)) => false,
        };
        if same {
            Ok((view, one, other))
        } else {
            Err(Errno::EXDEV)
        }
    }

    /// `.zfs` cannot be made, removed or moved in the root.
    fn refuse_control_name(
        &self,
        view: &View,
        directory: base::ObjectId,
        name: &[u8],
    ) -> Reply<()> {
        let disabled = self.snapshot_directory() == SnapshotDirectory::Disabled;
        if name == CONTROL_NAME && view.is_root(directory) && !disabled {
            return Err(Errno::EPERM);
        }
        Ok(())
    }

    /// Remembers what lost a name, for those who still look at it.
    fn remember_unlinked(&self, view: &View, removed: Removed) {
        if let Some(node) = view.node(removed.object()).id() {
            self.unlinked.insert(node, removed);
        }
    }

    fn make(
        &self,
        caller: &Caller,
        (directory, name): (u64, &[u8]),
        make: impl FnOnce(
            &posix::FileSystem,
            &posix::Credentials,
            base::ObjectId,
        ) -> posix::Result<posix::Attributes>,
    ) -> Reply<EntryReply> {
        let (view, directory) = self.resolve_file(directory, Errno::EROFS)?;
        if self.refuse_control_name(&view, directory, name).is_err() {
            return Err(Errno::EEXIST);
        }
        let made = make(view.file_system(), &credentials(caller), directory).map_err(errno)?;
        self.entry(&view, &made)
    }

    fn list_live(
        &self,
        caller: &Caller,
        (view, directory): (&View, base::ObjectId),
        cookie: u64,
        buffer: &mut DirectoryBuffer,
    ) -> Reply<bool> {
        let who = credentials(caller);
        let plus = buffer.is_plus();
        let mut full = false;
        let mut push = |entry: &posix::DirectoryEntry<'_>,
                        attributes: Option<&posix::Attributes>| {
            // The kernel counts a reference for each entry with attributes but for the dots.
            let dots = entry.name == b"." || entry.name == b"..";
            let known = attributes
                .filter(|_| !dots)
                .and_then(|found| self.entry(view, found).ok());
            let shown = (view.inode(entry.object), kind(entry.file_type));
            if buffer.push(shown, entry.next_cookie, entry.name, known.as_ref()) {
                if known.is_some() {
                    view.count_lookup();
                }
                Visit::Continue
            } else {
                full = true;
                Visit::Full
            }
        };
        let files = view.file_system();
        if plus {
            files
                .readdirplus(&who, directory, cookie, &mut push)
                .map_err(errno)?;
        } else {
            files
                .readdir(&who, directory, cookie, &mut |entry| push(entry, None))
                .map_err(errno)?;
        }
        Ok(!full)
    }
}

impl Tree for DatasetTree {
    fn lookup(&self, caller: &Caller, directory: u64, name: &[u8]) -> Reply<EntryReply> {
        let (view, directory) = match self.resolve(directory)? {
            Place::Control(node) => return self.control_lookup(node, name),
            Place::File(view, directory) => (view, directory),
        };
        if name == CONTROL_NAME
            && view.is_root(directory)
            && self.snapshot_directory() != SnapshotDirectory::Disabled
        {
            return self.control_entry(ControlNode::Control);
        }
        if name == b".."
            && matches!(view, View::Snapshot(_))
            && view.file_system().root() == directory
        {
            return self.control_entry(ControlNode::Snapshots);
        }
        let files = view.file_system();
        // So the kernel finds any node again, of whatever kind: for a file handle of which it has
        // forgotten the inode.
        if name == b"." {
            let entry = self.entry(&view, &files.getattr(directory).map_err(errno)?)?;
            view.count_lookup();
            return Ok(entry);
        }
        match files.lookup(&credentials(caller), directory, name) {
            Ok(found) => {
                let entry = self.entry(&view, &found)?;
                view.count_lookup();
                Ok(entry)
            }
            Err(PosixError::NotFound) => view.absent(),
            Err(error) => Err(error.errno()),
        }
    }

    fn forget(&self, node: u64, lookups: u64) {
        if let Some(Node::Snapshot { slot, .. }) = Node::from_id(node) {
            self.views.forget(slot, lookups);
            return;
        }
        // Nodes that somebody uses are not forgotten, whatever the count.
        self.unlinked.forget(node);
    }

    fn getattr(&self, node: u64) -> Reply<(Attributes, Duration)> {
        match self.resolve(node)? {
            Place::Control(node) => self.control_attributes(node),
            Place::File(view, object) => {
                let found = match view.file_system().getattr(object) {
                    Err(PosixError::Stale) => self.unlinked.attributes(node, object),
                    found => Some(found.map_err(errno)?),
                };
                let found = found.ok_or(Errno::ESTALE)?;
                let valid = self.attributes_valid((&view, node), &found);
                Ok((view.attributes(&found), valid))
            }
        }
    }

    fn setattr(
        &self,
        caller: &Caller,
        node: u64,
        change: &SetattrRequest,
    ) -> Reply<(Attributes, Duration)> {
        let (view, object) = self.resolve_file(node, Errno::EROFS)?;
        let changed = view
            .file_system()
            .setattr(&credentials(caller), object, &self.asked_for(change))
            .map_err(errno)?;
        let valid = self.attributes_valid((&view, node), &changed);
        Ok((view.attributes(&changed), valid))
    }

    fn readlink(&self, node: u64) -> Reply<Vec<u8>> {
        let (view, object) = self.resolve_file(node, Errno::EINVAL)?;
        view.file_system().readlink(object).map_err(errno)
    }

    fn mknod(&self, who: &Caller, directory: u64, name: &[u8], new: Creation) -> Reply<EntryReply> {
        let node = new_node(new)?;
        self.make(who, (directory, name), |files, who, directory| {
            files.mknod(who, directory, name, &node)
        })
    }

    fn mkdir(&self, who: &Caller, directory: u64, name: &[u8], new: Creation) -> Reply<EntryReply> {
        let node = new_node(Creation {
            mode: new.mode & 0o7777 | 0o40_000,
            ..new
        })?;
        self.make(who, (directory, name), |files, who, directory| {
            files.mkdir(who, directory, name, &node)
        })
    }

    fn symlink(
        &self,
        who: &Caller,
        directory: u64,
        name: &[u8],
        target: &[u8],
    ) -> Reply<EntryReply> {
        self.make(who, (directory, name), |files, who, directory| {
            files.symlink(who, directory, name, target)
        })
    }

    fn link(&self, caller: &Caller, node: u64, directory: u64, name: &[u8]) -> Reply<EntryReply> {
        let (view, object, directory) = self.resolve_both(node, directory)?;
        self.refuse_control_name(&view, directory, name)
            .map_err(|_| Errno::EEXIST)?;
        let who = credentials(caller);
        let linked = view
            .file_system()
            .link(&who, object, directory, name)
            .map_err(errno)?;
        self.entry(&view, &linked)
    }

    fn unlink(&self, caller: &Caller, directory: u64, name: &[u8]) -> Reply<()> {
        let (view, directory) = self.resolve_file(directory, Errno::EROFS)?;
        self.refuse_control_name(&view, directory, name)?;
        let files = view.file_system();
        let gone = files.unlink(&credentials(caller), directory, name);
        self.remember_unlinked(&view, gone.map_err(errno)?);
        Ok(())
    }

    fn rmdir(&self, caller: &Caller, directory: u64, name: &[u8]) -> Reply<()> {
        let (view, directory) = self.resolve_file(directory, Errno::EROFS)?;
        self.refuse_control_name(&view, directory, name)?;
        let files = view.file_system();
        let gone = files.rmdir(&credentials(caller), directory, name);
        self.remember_unlinked(&view, gone.map_err(errno)?);
        Ok(())
    }

    fn rename(
        &self,
        caller: &Caller,
        from: (u64, &[u8]),
        to: (u64, &[u8]),
        flags: RenameFlags,
    ) -> Reply<()> {
        let mode = rename_mode(flags)?;
        let (view, old, new) = self.resolve_both(from.0, to.0)?;
        self.refuse_control_name(&view, old, from.1)?;
        self.refuse_control_name(&view, new, to.1)?;
        let who = credentials(caller);
        let files = view.file_system();
        let replaced = files.rename(&who, (old, from.1), (new, to.1), mode);
        if let Some(replaced) = replaced.map_err(errno)? {
            self.remember_unlinked(&view, replaced);
        }
        Ok(())
    }

    fn open(&self, caller: &Caller, node: u64, opening: Opening) -> Reply<Opened> {
        let (view, object) = self.resolve_file(node, Errno::EISDIR)?;
        // Of an open for reading that empties, the kernel sees too late that a program runs.
        if opening.flags & open_flags::TRUNCATE != 0 && self.open_tracker.is_executed(node) {
            return Err(Errno::ETXTBSY);
        }
        let who = credentials(caller);
        let files = view.file_system();
        let file = files
            .open(&who, object, self.open_options(opening))
            .map_err(errno)?;
        let mut lost_set_id = false;
        if opening.kill_suidgid && opening.flags & open_flags::TRUNCATE != 0 {
            lost_set_id = file.has_set_id();
            let (size, kill_set_id, by_open_handle) = (Some(0), true, true);
            let empty = SetAttributes {
                size,
                kill_set_id,
                by_open_handle,
                ..SetAttributes::default()
            };
            files.setattr(&who, object, &empty).map_err(errno)?;
        }
        let opened = self.opened(file, (&view, node), opening);
        Ok(Opened {
            forgets_attributes: opened.forgets_attributes || lost_set_id,
            ..opened
        })
    }

    fn create(
        &self,
        caller: &Caller,
        (directory, name): (u64, &[u8]),
        creation: Creation,
        opening: Opening,
    ) -> Reply<(EntryReply, Opened)> {
        let node = new_node(creation)?;
        let (view, directory) = self.resolve_file(directory, Errno::EROFS)?;
        self.refuse_control_name(&view, directory, name)
            .map_err(|_| Errno::EISDIR)?;
        let who = credentials(caller);
        let options = self.open_options(opening);
        let files = view.file_system();
        let (file, made) = files
            .create(&who, directory, name, &node, options)
            .map_err(errno)?;
        self.made_and_opened(file, (&view, &made), opening)
    }

    fn create_unnamed(
        &self,
        caller: &Caller,
        directory: u64,
        creation: Creation,
        opening: Opening,
    ) -> Reply<(EntryReply, Opened)> {
        let node = new_node(creation)?;
        let (view, directory) = self.resolve_file(directory, Errno::EROFS)?;
        let who = credentials(caller);
        let options = self.open_options(opening);
        let files = view.file_system();
        let (file, made) = files
            .create_unnamed(&who, directory, &node, options)
            .map_err(errno)?;
        self.made_and_opened(file, (&view, &made), opening)
    }

    fn read(&self, handle: u64, offset: u64, size: u32, reply: &mut ReadReply) -> Reply<()> {
        let handle = self.handle(handle)?;
        let len = usize::try_from(size.min(crate::session::TRANSFER_LEN_MAX)).unwrap_or(0);
        let mut visit = |buffer, range| reply.push(Piece { buffer, range });
        handle
            .file
            .read_with(offset, len, &mut visit)
            .map(drop)
            .map_err(errno)
    }

    fn write(&self, handle: u64, offset: u64, data: &[u8], how: Writing) -> Reply<Written> {
        let handle = self.handle(handle)?;
        // What the page cache writes back is nobody's direct write.
        let share = handle
            .share
            .as_ref()
            .filter(|_| !how.flags.contains(WriteFlags::CACHE));
        let (is_cached, gathers) = (
            how.flags.contains(WriteFlags::CACHE),
            self.gathering.is_on(),
        );
        let options = WriteOptions {
            kill_set_id: how.flags.contains(WriteFlags::KILL_SUIDGID),
            drop_capability: share.is_some_and(Share::is_direct),
            sync: how.durable,
            // The kernel knows where the file ends, or only it does.
            at_offset: is_cached || gathers,
            was_stored: is_cached,
            keeps_times: is_cached && gathers,
            uncommitted: true,
            ..WriteOptions::default()
        };
        let mut asks_as_of_now = false;
        let written = match handle.file.write(offset, data, options) {
            Err(refusal @ (PosixError::NoSpace | PosixError::QuotaExceeded))
                if is_cached && gathers =>
            {
                let data = (offset, data);
                let (count, now) = self.write_promised(&handle.file, data, options, refusal)?;
                asks_as_of_now = now;
                Ok(count)
            }
            written => written,
        };
        Ok(Written {
            count: written.map_err(errno)?,
            asks_as_of_now,
            owes_commit: how.durable || handle.file.is_synchronous(),
            leaves_pages: share.is_some_and(|share| share.leaves_pages(how.direct)),
        })
    }

    fn release(&self, handle: u64) {
        drop(self.handles.remove(handle));
    }

    fn fsync(&self, handle: u64, _flags: FsyncFlags) -> Reply<()> {
        self.handle(handle)?.file.fsync().map_err(errno)
    }

    fn fsync_async(&self, handle: u64, completion: &Arc<dyn Completion>) -> bool {
        self.handle(handle)
            .is_ok_and(|handle| handle.file.fsync_async(completion))
    }

    fn fsync_directory(&self, node: u64) -> Reply<()> {
        match self.resolve(node)? {
            Place::File(view @ View::Live(_), directory) => {
                view.file_system().fsync_directory(directory).map_err(errno)
            }
            // Nobody changes them.
            Place::File(View::Snapshot(_), _) | Place::Control(_) => Ok(()),
        }
    }

    fn sync(&self) -> Reply<()> {
        self.views.live()?.file_system.sync().map_err(errno)
    }

    fn readdir(
        &self,
        caller: &Caller,
        directory: u64,
        cookie: u64,
        buffer: &mut DirectoryBuffer,
    ) -> Reply<()> {
        let (view, object) = match self.resolve(directory)? {
            Place::Control(node) => return self.control_readdir(node, cookie, buffer),
            Place::File(view, object) => (view, object),
        };
        if cookie == LISTING_END {
            return Ok(());
        }
        let complete = self.list_live(caller, (&view, object), cookie, buffer)?;
        if complete
            && view.is_root(object)
            && self.snapshot_directory() == SnapshotDirectory::Visible
        {
            let shown = (ControlNode::Control.inode(), FileKind::Directory);
            buffer.push(shown, LISTING_END, CONTROL_NAME, None);
        }
        Ok(())
    }

    fn statfs(&self, node: u64) -> Reply<StatfsReply> {
        let (view, object) = match self.resolve(node)? {
            Place::File(view, object) => (view, object),
            Place::Control(_) => {
                let live = self.views.live()?;
                let root = live.file_system.root();
                (View::Live(live), root)
            }
        };
        let sizes = view.file_system().statfs(object).map_err(errno)?;
        Ok(StatfsReply {
            blocks: sizes.blocks,
            blocks_free: sizes.blocks_free,
            blocks_available: sizes.blocks_free,
            files: sizes.files,
            files_free: sizes.files_free,
            block_size: sizes.block_size,
            name_len_max: sizes.name_length_max,
            fragment_size: sizes.block_size,
        })
    }

    fn setxattr(
        &self,
        caller: &Caller,
        node: u64,
        name: &[u8],
        value: &[u8],
        flags: XattrFlags,
    ) -> Reply<()> {
        let (view, object) = self.resolve_file(node, Errno::EOPNOTSUPP)?;
        let mode = match flags {
            none if none.is_empty() => XattrMode::Either,
            XattrFlags::CREATE => XattrMode::Create,
            XattrFlags::REPLACE => XattrMode::Replace,
            _ => return Err(Errno::EINVAL),
        };
        let who = credentials(caller);
        view.file_system()
            .setxattr(&who, object, name, value, mode)
            .map_err(errno)
    }

    fn getxattr(&self, caller: &Caller, node: u64, name: &[u8]) -> Reply<Vec<u8>> {
        let (view, object) = self.resolve_file(node, Errno::ENODATA)?;
        view.file_system()
            .getxattr(&credentials(caller), object, name)
            .map_err(errno)
    }

    fn listxattr(&self, caller: &Caller, node: u64) -> Reply<Vec<u8>> {
        let (view, object) = match self.resolve(node)? {
            Place::File(view, object) => (view, object),
            Place::Control(_) => return Ok(Vec::new()),
        };
        let names = view
            .file_system()
            .listxattr(&credentials(caller), object)
            .map_err(errno)?;
        let mut list = Vec::with_capacity(names.iter().map(|name| name.len() + 1).sum());
        for name in names {
            list.extend_from_slice(&name);
            list.push(0);
        }
        Ok(list)
    }

    fn removexattr(&self, caller: &Caller, node: u64, name: &[u8]) -> Reply<()> {
        let (view, object) = self.resolve_file(node, Errno::EOPNOTSUPP)?;
        view.file_system()
            .removexattr(&credentials(caller), object, name)
            .map_err(errno)
    }

    fn fallocate(
        &self,
        caller: &Caller,
        handle: u64,
        (offset, length): (u64, u64),
        mode: FallocateMode,
    ) -> Reply<()> {
        let keep_size = mode.contains(FallocateMode::KEEP_SIZE);
        let mode = match mode.difference(FallocateMode::KEEP_SIZE) {
            none if none.is_empty() && keep_size => AllocateMode::KeepSize,
            none if none.is_empty() => AllocateMode::Extend,
            FallocateMode::PUNCH_HOLE if keep_size => AllocateMode::PunchHole,
            FallocateMode::ZERO_RANGE => AllocateMode::ZeroRange { keep_size },
            _ => return Err(Errno::EOPNOTSUPP),
        };
        let end = offset.checked_add(length).ok_or(Errno::EFBIG)?;
        let handle = self.handle(handle)?;
        handle.file.allocate(mode, offset..end).map_err(errno)?;
        if loses_set_id(caller) {
            handle.file.drop_set_id().map_err(errno)?;
        }
        Ok(())
    }

    fn seek(&self, handle: u64, offset: u64, hole: bool) -> Reply<u64> {
        let handle = self.handle(handle)?;
        let file = &handle.file;
        if hole {
            file.seek_hole(offset)
        } else {
            file.seek_data(offset)
        }
        .map_err(errno)
    }

    fn drop_set_gid(&self, caller: &Caller, node: u64) -> Reply<()> {
        let (view, object) = self.resolve_file(node, Errno::EOPNOTSUPP)?;
        let files = view.file_system();
        let mode = files.getattr(object).map_err(errno)?.permissions;
        if mode & SET_GROUP_ID == 0 {
            return Ok(());
        }
        let change = SetAttributes {
            permissions: Some(mode & !SET_GROUP_ID),
            ..SetAttributes::default()
        };
        let who = credentials(caller);
        files.setattr(&who, object, &change).map_err(errno)?;
        Ok(())
    }

    fn has_set_id(&self, handle: u64) -> bool {
        self.handle(handle)
            .is_ok_and(|handle| handle.file.has_set_id())
    }

    fn maybe_dirty(&self, handle: u64) -> bool {
        self.handle(handle)
            .is_ok_and(|handle| handle.share.as_ref().is_some_and(Share::maybe_dirty))
    }

    fn copy_range(
        &self,
        caller: &Caller,
        from: (u64, u64),
        to: (u64, u64),
        length: u64,
    ) -> Reply<u64> {
        let (source, target) = (self.handle(from.0)?, self.handle(to.0)?);
        let end = from.1.checked_add(length).ok_or(Errno::EINVAL)?;
        let options = WriteOptions {
            kill_set_id: loses_set_id(caller),
            ..WriteOptions::default()
        };
        target
            .file
            .copy_from(&source.file, from.1..end, to.1, options)
            .map_err(errno)
    }

    fn ioctl(&self, caller: &Caller, node: u64, command: u32, input: &[u8]) -> Reply<Vec<u8>> {
        match command {
            REWRITE => self.rewrite(caller, node, input),
            _ => self.file_flags(caller, node, (command, input)),
        }
    }

    fn nodes_maybe_mapped(&self) -> Vec<u64> {
        self.handles
            .collect(|handle| handle.maybe_mapped.then_some(handle.node))
    }

    fn gathers_writes(&self, bytes: u64) -> bool {
        self.gathering.begin(bytes);
        true
    }

    fn before_write(&self, handle: u64) -> Reply<BeforeWrite> {
        let handle = self.handle(handle)?;
        match &handle.live {
            Some(live) if self.gathering.is_on() && handle.maybe_mapped => {
                handle.file.check_change().map_err(errno)?;
                Ok(self.gathering.renew(&live.file_system))
            }
            Some(_) | None => Ok(BeforeWrite::Goes),
        }
    }

    fn admit_write(&self, handle: u64) -> Reply<()> {
        let handle = self.handle(handle)?;
        handle.file.check_write(ASKED_BYTES).map_err(errno)?;
        self.gathering.grant();
        Ok(())
    }

    fn path_of(&self, node: u64) -> Option<(Vec<u8>, u64)> {
        let (view, object) = self.resolve_file(node, Errno::ENOENT).ok()?;
        let path = view.file_system().path_of(object).ok()??;
        Some((path, view.inode(object)))
    }

    fn came_late(&self, node: u64) {
        if let Ok(Place::File(View::Live(live), _)) = self.resolve(node) {
            live.file_system.came_late();
        }
    }

    fn ended(&self) {
        self.abandon();
    }
}
