//! Several trees in one mount: a file system and those that are mounted inside of it.
//!
//! An ordinary user cannot mount one FUSE file system inside another one: the helper, which is
//! privileged, may not even look at the mount point. So the one mount shows them all. Each tree
//! has a *tag*, the upper byte of its node ids, inode numbers and handles; the directory that it
//! covers leads to its root. The first tree has tag 0 and the mount's root.

use crate::session::Session;
use crate::tree::{Caller, Creation, Opened, Opening, ReadReply, Reply, Tree, Writing, Written};
use crate::wire::{
    Attributes, DirectoryBuffer, EntryReply, FallocateMode, FsyncFlags, ROOT_NODE, RenameFlags,
    SetattrRequest, StatfsReply, XattrFlags,
};
use base::lock::{LockClass, RwLock, rank};
use posix::{Completion, Errno};
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

static MEMBERS_CLASS: LockClass = LockClass::new("fuse.multiplexer", rank::FRONT_END + 6);

const TAG_SHIFT: u32 = 56;
const INNER_MASK: u64 = (1 << TAG_SHIFT) - 1;
const TAGS: usize = 256;

/// Names a tree of a multiplexer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct TreeTag(u8);

impl TreeTag {
    /// The first tree.
    pub const FIRST: Self = Self(0);

    fn mark(self) -> u64 {
        u64::from(self.0) << TAG_SHIFT
    }

    /// The node id of this tree's root in the mount.
    #[must_use]
    pub fn root(self) -> u64 {
        self.mark() | ROOT_NODE
    }
}

/// A tree and the directory that it covers.
struct Member {
    tree: Arc<dyn Tree>,
    covers: Option<Cover>,
}

/// A directory that a tree is shown in place of.
#[derive(Clone)]
struct Cover {
    host: TreeTag,
    /// Its names from the host's root on.
    path: Vec<Vec<u8>>,
    node: u64,
    /// The directory that it is in, and its name there.
    parent: u64,
    name: Vec<u8>,
}

/// Nobody in particular: permissions are the kernel's to check.
const NOBODY: Caller = Caller {
    uid: 0,
    gid: 0,
    pid: 0,
    group_of_directory: None,
};

impl Cover {
    /// The directory of a path in a tree; one that is absent is made if `make` says so.
    fn find(host: TreeTag, path: &[Vec<u8>], tree: &dyn Tree, make: bool) -> Reply<Self> {
        let (mut parent, mut node) = (ROOT_NODE, ROOT_NODE);
        for name in path {
            parent = node;
            node = match tree.lookup(&NOBODY, parent, name) {
                Ok(found) if found.node != 0 => found.node,
                Ok(_) | Err(Errno::ENOENT) if make => {
                    let creation = Creation {
                        mode: 0o755,
                        umask: 0,
                        device: 0,
                    };
                    tree.mkdir(&NOBODY, parent, name, creation)?.node
                }
                Ok(_) => return Err(Errno::ENOENT),
                Err(error) => return Err(error),
            };
        }
        // The root itself cannot be covered: the kernel knows it without asking.
        let name = path.last().ok_or(Errno::EBUSY)?.clone();
        Ok(Self {
            host,
            path: path.to_vec(),
            node,
            parent,
            name,
        })
    }

    /// Makes the kernel ask again what the name means.
    fn forget(&self, session: &Session) {
        session.invalidate_name(self.host.mark() | self.parent, &self.name);
    }
}

#[derive(Default)]
struct Members {
    /// By tag. A tag is used again only when there is no new one: the kernel may still ask for
    /// nodes of a tree that has gone.
    by_tag: Vec<Option<Member>>,
    covered: HashMap<(TreeTag, u64), TreeTag>,
}

/// Trees that are shown in one mount.
pub struct MountMultiplexer {
    members: RwLock<Members>,
}

/// A tree, its tag, and a node or handle as the tree knows it.
type Inner = (Arc<dyn Tree>, TreeTag, u64);

impl MountMultiplexer {
    /// A multiplexer of one tree.
    #[must_use]
    pub fn new(first: Arc<dyn Tree>) -> Arc<Self> {
        let members = Members {
            by_tag: vec![Some(Member {
                tree: first,
                covers: None,
            })],
            covered: HashMap::new(),
        };
        Arc::new(Self {
            members: RwLock::new(&MEMBERS_CLASS, members),
        })
    }

    /// Shows `tree` in place of the directory that `path` names in the tree `host`.
    ///
    /// # Errors
    /// EBUSY when the directory is covered already, ENOSPC when there are too many trees, and what
    /// the look-ups say.
    pub fn add(
        &self,
        host: TreeTag,
        path: &[&[u8]],
        tree: Arc<dyn Tree>,
        session: &Session,
    ) -> Reply<TreeTag> {
        let (outer, ..) = self.inner(host.root())?;
        let path: Vec<Vec<u8>> = path.iter().map(|name| name.to_vec()).collect();
        let cover = Cover::find(host, &path, &*outer, false)?;
        let mut members = self.members.write();
        if members.covered.contains_key(&(host, cover.node)) {
            return Err(Errno::EBUSY);
        }
        let index = if members.by_tag.len() < TAGS {
            members.by_tag.push(None);
            members.by_tag.len() - 1
        } else {
            members
                .by_tag
                .iter()
                .position(Option::is_none)
                .ok_or(Errno::ENOSPC)?
        };
        let tag = TreeTag(u8::try_from(index).map_err(|_| Errno::ENOSPC)?);
        if let Some(place) = members.by_tag.get_mut(index) {
            *place = Some(Member {
                tree,
                covers: Some(cover.clone()),
            });
        }
        members.covered.insert((host, cover.node), tag);
        drop(members);
        cover.forget(session);
        Ok(tag)
    }

    /// The content of the tree `host` was replaced, and its nodes are others now: covers the directories with the
    /// same paths again. Those that are absent are made; where that fails, nothing is covered.
    pub fn cover_again(&self, host: TreeTag, session: &Session) {
        let Ok((outer, ..)) = self.inner(host.root()) else {
            return;
        };
        let tags: Vec<(TreeTag, Cover)> = {
            let members = self.members.read();
            let inside = members.covered.iter().filter(|((of, _), _)| *of == host);
            let cover = |tag: TreeTag| {
                let member = members.by_tag.get(usize::from(tag.0))?.as_ref()?;
                Some((tag, member.covers.clone()?))
            };
            inside.filter_map(|(_, tag)| cover(*tag)).collect()
        };
        for (tag, old) in tags {
            let found = Cover::find(host, &old.path, &*outer, true).ok();
            let mut members = self.members.write();
            members.covered.remove(&(host, old.node));
            if let Some(new) = &found {
                members.covered.insert((host, new.node), tag);
                let place = members.by_tag.get_mut(usize::from(tag.0));
                if let Some(member) = place.and_then(Option::as_mut) {
                    member.covers = Some(new.clone());
                }
            }
            drop(members);
            if let Some(new) = found {
                new.forget(session);
            }
        }
    }

    /// Whether trees are shown inside of this one.
    #[must_use]
    pub fn is_host(&self, tag: TreeTag) -> bool {
        self.members
            .read()
            .covered
            .keys()
            .any(|(host, _)| *host == tag)
    }

    /// Shows the covered directory again.
    pub fn remove(&self, tag: TreeTag, session: &Session) {
        let mut members = self.members.write();
        let place = members.by_tag.get_mut(usize::from(tag.0));
        let member = place.and_then(Option::take);
        let cover = member.as_ref().and_then(|member| member.covers.clone());
        if let Some(cover) = &cover {
            members.covered.remove(&(cover.host, cover.node));
        }
        drop(members);
        drop(member);
        if let Some(cover) = cover {
            cover.forget(session);
        }
    }

    fn inner(&self, outer: u64) -> Reply<Inner> {
        let tag = TreeTag(u8::try_from(outer >> TAG_SHIFT).unwrap_or(0));
        let members = self.members.read();
        let member = members
            .by_tag
            .get(usize::from(tag.0))
            .and_then(Option::as_ref);
        let tree = Arc::clone(&member.ok_or(Errno::ESTALE)?.tree);
        Ok((tree, tag, outer & INNER_MASK))
    }

    /// Two nodes or handles of one tree.
    fn inner_pair(&self, one: u64, other: u64) -> Reply<(Arc<dyn Tree>, TreeTag, u64, u64)> {
        let (tree, tag, one) = self.inner(one)?;
        let (_, other_tag, other) = self.inner(other)?;
        if tag == other_tag {
            Ok((tree, tag, one, other))
        } else {
            Err(Errno::EXDEV)
        }
    }

    fn covering(&self, tag: TreeTag, node: u64) -> Option<(Arc<dyn Tree>, TreeTag)> {
        let members = self.members.read();
        let cover = *members.covered.get(&(tag, node))?;
        let member = members.by_tag.get(usize::from(cover.0))?.as_ref()?;
        Some((Arc::clone(&member.tree), cover))
    }

    /// An entry as the mount shows it: where its directory is covered, the root of what covers it.
    fn outer_entry(&self, tag: TreeTag, mut entry: EntryReply) -> Reply<EntryReply> {
        if entry.node == 0 {
            return Ok(entry);
        }
        let mut tag = tag;
        if let Some((tree, cover)) = self.covering(tag, entry.node) {
            let (attributes, valid) = tree.getattr(ROOT_NODE)?;
            entry.node = ROOT_NODE;
            entry.generation = 0;
            entry.timeouts.attributes = valid;
            entry.attributes = attributes;
            tag = cover;
        }
        entry.node |= tag.mark();
        entry.attributes.inode |= tag.mark();
        Ok(entry)
    }

    /// A directory that is covered cannot be removed or moved.
    fn refuse_covered(
        &self,
        (tree, tag): (&dyn Tree, TreeTag),
        caller: &Caller,
        (directory, name): (u64, &[u8]),
    ) -> Reply<()> {
        if !self.is_host(tag) {
            return Ok(());
        }
        match tree.lookup(caller, directory, name) {
            Ok(entry) if self.covering(tag, entry.node).is_some() => Err(Errno::EBUSY),
            // What is wrong with the name, the operation itself says.
            _ => Ok(()),
        }
    }

    fn trees(&self) -> Vec<(Arc<dyn Tree>, TreeTag)> {
        let members = self.members.read();
        let present = members
            .by_tag
            .iter()
            .enumerate()
            .filter_map(|(index, member)| {
                let tag = TreeTag(u8::try_from(index).ok()?);
                Some((Arc::clone(&member.as_ref()?.tree), tag))
            });
        present.collect()
    }
}

fn shown(tag: TreeTag, (mut attributes, valid): (Attributes, Duration)) -> (Attributes, Duration) {
    attributes.inode |= tag.mark();
    (attributes, valid)
}

fn opened(tag: TreeTag, opened: Opened) -> Opened {
    Opened {
        handle: opened.handle | tag.mark(),
        ..opened
    }
}

impl Tree for MountMultiplexer {
    fn lookup(&self, caller: &Caller, directory: u64, name: &[u8]) -> Reply<EntryReply> {
        let (tree, tag, directory) = self.inner(directory)?;
        if name == b".." && directory == ROOT_NODE {
            let covers = {
                let members = self.members.read();
                let member = members
                    .by_tag
                    .get(usize::from(tag.0))
                    .and_then(Option::as_ref);
                member.and_then(|member| member.covers.clone())
            };
            if let Some(Cover { host, parent, .. }) = covers {
                return self.lookup(caller, host.mark() | parent, b".");
            }
        }
        self.outer_entry(tag, tree.lookup(caller, directory, name)?)
    }

    fn forget(&self, node: u64, lookups: u64) {
        if let Ok((tree, _, node)) = self.inner(node) {
            tree.forget(node, lookups);
        }
    }

    fn getattr(&self, node: u64) -> Reply<(Attributes, Duration)> {
        let (tree, tag, node) = self.inner(node)?;
        Ok(shown(tag, tree.getattr(node)?))
    }

    fn setattr(
        &self,
        caller: &Caller,
        node: u64,
        change: &SetattrRequest,
    ) -> Reply<(Attributes, Duration)> {
        let (tree, tag, node) = self.inner(node)?;
        Ok(shown(tag, tree.setattr(caller, node, change)?))
    }

    fn readlink(&self, node: u64) -> Reply<Vec<u8>> {
        let (tree, _, node) = self.inner(node)?;
        tree.readlink(node)
    }

    fn mknod(&self, who: &Caller, directory: u64, name: &[u8], new: Creation) -> Reply<EntryReply> {
        let (tree, tag, directory) = self.inner(directory)?;
        self.outer_entry(tag, tree.mknod(who, directory, name, new)?)
    }

    fn mkdir(&self, who: &Caller, directory: u64, name: &[u8], new: Creation) -> Reply<EntryReply> {
        let (tree, tag, directory) = self.inner(directory)?;
        self.outer_entry(tag, tree.mkdir(who, directory, name, new)?)
    }

    fn symlink(
        &self,
        who: &Caller,
        directory: u64,
        name: &[u8],
        target: &[u8],
    ) -> Reply<EntryReply> {
        let (tree, tag, directory) = self.inner(directory)?;
        self.outer_entry(tag, tree.symlink(who, directory, name, target)?)
    }

    fn link(&self, caller: &Caller, node: u64, directory: u64, name: &[u8]) -> Reply<EntryReply> {
        let (tree, tag, node, directory) = self.inner_pair(node, directory)?;
        self.outer_entry(tag, tree.link(caller, node, directory, name)?)
    }

    fn unlink(&self, caller: &Caller, directory: u64, name: &[u8]) -> Reply<()> {
        let (tree, _, directory) = self.inner(directory)?;
        tree.unlink(caller, directory, name)
    }

    fn rmdir(&self, caller: &Caller, directory: u64, name: &[u8]) -> Reply<()> {
        let (tree, tag, directory) = self.inner(directory)?;
        self.refuse_covered((&*tree, tag), caller, (directory, name))?;
        tree.rmdir(caller, directory, name)
    }

    fn rename(
        &self,
        caller: &Caller,
        from: (u64, &[u8]),
        to: (u64, &[u8]),
        flags: RenameFlags,
    ) -> Reply<()> {
        let (tree, tag, old, new) = self.inner_pair(from.0, to.0)?;
        self.refuse_covered((&*tree, tag), caller, (old, from.1))?;
        self.refuse_covered((&*tree, tag), caller, (new, to.1))?;
        tree.rename(caller, (old, from.1), (new, to.1), flags)
    }

    fn open(&self, caller: &Caller, node: u64, opening: Opening) -> Reply<Opened> {
        let (tree, tag, node) = self.inner(node)?;
        Ok(opened(tag, tree.open(caller, node, opening)?))
    }

    fn create(
        &self,
        caller: &Caller,
        (directory, name): (u64, &[u8]),
        creation: Creation,
        opening: Opening,
    ) -> Reply<(EntryReply, Opened)> {
        let (tree, tag, directory) = self.inner(directory)?;
        let (entry, open) = tree.create(caller, (directory, name), creation, opening)?;
        Ok((self.outer_entry(tag, entry)?, opened(tag, open)))
    }

    fn create_unnamed(
        &self,
        caller: &Caller,
        directory: u64,
        creation: Creation,
        opening: Opening,
    ) -> Reply<(EntryReply, Opened)> {
        let (tree, tag, directory) = self.inner(directory)?;
        let (entry, open) = tree.create_unnamed(caller, directory, creation, opening)?;
        Ok((self.outer_entry(tag, entry)?, opened(tag, open)))
    }

    fn read(&self, handle: u64, offset: u64, size: u32, reply: &mut ReadReply) -> Reply<()> {
        let (tree, _, handle) = self.inner(handle)?;
        tree.read(handle, offset, size, reply)
    }

    fn write(&self, handle: u64, offset: u64, data: &[u8], how: Writing) -> Reply<Written> {
        let (tree, _, handle) = self.inner(handle)?;
        tree.write(handle, offset, data, how)
    }

    fn release(&self, handle: u64) {
        if let Ok((tree, _, handle)) = self.inner(handle) {
            tree.release(handle);
        }
    }

    fn fsync(&self, handle: u64, flags: FsyncFlags) -> Reply<()> {
        let (tree, _, handle) = self.inner(handle)?;
        tree.fsync(handle, flags)
    }

    fn fsync_async(&self, handle: u64, completion: &Arc<dyn Completion>) -> bool {
        self.inner(handle)
            .is_ok_and(|(tree, _, handle)| tree.fsync_async(handle, completion))
    }

    fn fsync_directory(&self, node: u64) -> Reply<()> {
        let (tree, _, node) = self.inner(node)?;
        tree.fsync_directory(node)
    }

    fn sync(&self) -> Reply<()> {
        self.trees()
            .into_iter()
            .try_for_each(|(tree, _)| tree.sync())
    }

    fn readdir(
        &self,
        caller: &Caller,
        directory: u64,
        cookie: u64,
        buffer: &mut DirectoryBuffer,
    ) -> Reply<()> {
        let (tree, tag, directory) = self.inner(directory)?;
        let covered = {
            let members = self.members.read();
            let here = members.covered.keys().filter(|(host, _)| *host == tag);
            here.map(|(_, node)| *node).collect()
        };
        buffer.mark(tag.mark(), covered);
        tree.readdir(caller, directory, cookie, buffer)
    }

    fn statfs(&self, node: u64) -> Reply<StatfsReply> {
        let (tree, _, node) = self.inner(node)?;
        tree.statfs(node)
    }

    fn setxattr(
        &self,
        caller: &Caller,
        node: u64,
        name: &[u8],
        value: &[u8],
        flags: XattrFlags,
    ) -> Reply<()> {
        let (tree, _, node) = self.inner(node)?;
        tree.setxattr(caller, node, name, value, flags)
    }

    fn getxattr(&self, caller: &Caller, node: u64, name: &[u8]) -> Reply<Vec<u8>> {
        let (tree, _, node) = self.inner(node)?;
        tree.getxattr(caller, node, name)
    }

    fn listxattr(&self, caller: &Caller, node: u64) -> Reply<Vec<u8>> {
        let (tree, _, node) = self.inner(node)?;
        tree.listxattr(caller, node)
    }

    fn removexattr(&self, caller: &Caller, node: u64, name: &[u8]) -> Reply<()> {
        let (tree, _, node) = self.inner(node)?;
        tree.removexattr(caller, node, name)
    }

    fn fallocate(
        &self,
        caller: &Caller,
        handle: u64,
        (offset, length): (u64, u64),
        mode: FallocateMode,
    ) -> Reply<()> {
        let (tree, _, handle) = self.inner(handle)?;
        tree.fallocate(caller, handle, (offset, length), mode)
    }

    fn seek(&self, handle: u64, offset: u64, hole: bool) -> Reply<u64> {
        let (tree, _, handle) = self.inner(handle)?;
        tree.seek(handle, offset, hole)
    }

    fn drop_set_gid(&self, caller: &Caller, node: u64) -> Reply<()> {
        let (tree, _, node) = self.inner(node)?;
        tree.drop_set_gid(caller, node)
    }

    fn has_set_id(&self, handle: u64) -> bool {
        self.inner(handle)
            .is_ok_and(|(tree, _, handle)| tree.has_set_id(handle))
    }

    fn maybe_dirty(&self, handle: u64) -> bool {
        self.inner(handle)
            .is_ok_and(|(tree, _, handle)| tree.maybe_dirty(handle))
    }

    fn copy_range(
        &self,
        caller: &Caller,
        from: (u64, u64),
        to: (u64, u64),
        length: u64,
    ) -> Reply<u64> {
        let (tree, _, source, target) = self.inner_pair(from.0, to.0)?;
        tree.copy_range(caller, (source, from.1), (target, to.1), length)
    }

    fn ioctl(&self, caller: &Caller, node: u64, command: u32, input: &[u8]) -> Reply<Vec<u8>> {
        let (tree, _, node) = self.inner(node)?;
        tree.ioctl(caller, node, command, input)
    }

    fn nodes_maybe_mapped(&self) -> Vec<u64> {
        let marked = self.trees().into_iter().flat_map(|(tree, tag)| {
            let nodes = tree.nodes_maybe_mapped();
            nodes.into_iter().map(move |node| node | tag.mark())
        });
        marked.collect()
    }

    fn came_late(&self, node: u64) {
        if let Ok((tree, _, node)) = self.inner(node) {
            tree.came_late(node);
        }
    }

    fn ended(&self) {
        for (tree, _) in self.trees() {
            tree.ended();
        }
    }
}
