//! A file system in memory, for tests of the protocol only.

#![allow(unreachable_pub, reason = "shared between test programs")]

use fuse::wire::{
    Attributes, DirectoryBuffer, EntryReply, FallocateMode, FileKind, FsyncFlags, OpenReplyFlags,
    ROOT_NODE, RenameFlags, SetattrFields, SetattrRequest, StatfsReply, Timeouts, Timestamp,
    XattrFlags,
};
use fuse::{Caller, Creation, Opened, Opening, ReadReply, Reply, Tree, Writing, Written};
use posix::Errno;
use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, RwLock};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

const LONG: Duration = Duration::from_secs(3600);

#[derive(Default)]
struct Content {
    attributes: Attributes,
    data: Vec<u8>,
    names: BTreeMap<Vec<u8>, u64>,
    xattrs: BTreeMap<Vec<u8>, Vec<u8>>,
}

type Node = Arc<Mutex<Content>>;

/// Marks the handle of an open that goes past the page cache: one for writing only.
const DIRECT: u64 = 1 << 48;

/// The tree; nodes live as long as it does.
pub struct Memory {
    nodes: RwLock<HashMap<u64, Node>>,
    next: AtomicU64,
    /// An fsync, a read of a file with the attribute `user.slow`, and a write of one with
    /// `user.slow-writes` take this long.
    pub delay_ms: AtomicU64,
    /// Whether looking up names waits until it is not.
    pub stuck: AtomicBool,
    /// Nodes opened for reading and writing.
    writers: Mutex<HashMap<u64, u64>>,
    /// Whether the session told of its end.
    pub ended: AtomicBool,
    /// Writes that were to be durable.
    pub durable_writes: AtomicU64,
}

fn now() -> Timestamp {
    let elapsed = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    let seconds = i64::try_from(elapsed.as_secs()).unwrap();
    Timestamp {
        seconds,
        nanoseconds: elapsed.subsec_nanos(),
    }
}

impl Memory {
    pub fn new() -> Arc<Self> {
        let tree = Self {
            nodes: RwLock::default(),
            next: AtomicU64::new(1),
            delay_ms: AtomicU64::new(0),
            stuck: AtomicBool::new(false),
            writers: Mutex::default(),
            ended: AtomicBool::new(false),
            durable_writes: AtomicU64::new(0),
        };
        tree.make(
            &Caller {
                uid: 0,
                gid: 0,
                pid: 0,
                group_of_directory: None,
            },
            0o40_777,
        );
        Arc::new(tree)
    }

    fn make(&self, caller: &Caller, mode: u32) -> (u64, Node) {
        let inode = self.next.fetch_add(1, Ordering::Relaxed);
        let attributes = Attributes {
            inode,
            mode,
            links: if FileKind::from_mode(mode) == FileKind::Directory {
                2
            } else {
                1
            },
            uid: caller.uid,
            gid: caller.gid,
            atime: now(),
            mtime: now(),
            ctime: now(),
            birth_time: now(),
            block_size: 4096,
            ..Attributes::default()
        };
        let node = Arc::new(Mutex::new(Content {
            attributes,
            ..Content::default()
        }));
        self.nodes.write().unwrap().insert(inode, Arc::clone(&node));
        (inode, node)
    }

    /// Waits for `delay_ms`, or until a test makes it zero.
    fn delay(&self) {
        let start = Instant::now();
        let left =
            || u128::from(self.delay_ms.load(Ordering::Relaxed)) > start.elapsed().as_millis();
        while left() {
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    fn lag(&self, node: &Node, name: &[u8]) {
        if node.lock().unwrap().xattrs.contains_key(name) {
            self.delay();
        }
    }

    fn node(&self, node: u64) -> Reply<Node> {
        self.nodes
            .read()
            .unwrap()
            .get(&node)
            .cloned()
            .ok_or(Errno::ESTALE)
    }

    fn insert(&self, directory: u64, name: &[u8], child: u64) -> Reply<()> {
        let parent = self.node(directory)?;
        let mut parent = parent.lock().unwrap();
        if parent.names.contains_key(name) {
            return Err(Errno::EEXIST);
        }
        parent.names.insert(name.to_vec(), child);
        parent.attributes.mtime = now();
        Ok(())
    }

    /// Changes data behind the kernel's back.
    pub fn overwrite(&self, node: u64, data: &[u8]) {
        let node = self.node(node).unwrap();
        let mut content = node.lock().unwrap();
        content.data = data.to_vec();
        content.attributes.size = data.len() as u64;
    }

    fn named(&self, directory: u64, name: &[u8]) -> Reply<u64> {
        let parent = self.node(directory)?;
        let parent = parent.lock().unwrap();
        parent.names.get(name).copied().ok_or(Errno::ENOENT)
    }

    fn made(&self, caller: &Caller, place: (u64, &[u8]), creation: Creation) -> Reply<EntryReply> {
        let (inode, node) = self.make(caller, creation.mode & !creation.umask);
        self.insert(place.0, place.1, inode)?;
        node.lock().unwrap().attributes.device = creation.device;
        let attributes = node.lock().unwrap().attributes;
        Ok(entry(&attributes))
    }
}

fn entry(attributes: &Attributes) -> EntryReply {
    let timeouts = Timeouts {
        entry: LONG,
        attributes: LONG,
    };
    EntryReply {
        node: attributes.inode,
        generation: 0,
        timeouts,
        attributes: *attributes,
    }
}

impl Tree for Memory {
    fn lookup(&self, _: &Caller, directory: u64, name: &[u8]) -> Reply<EntryReply> {
        while self.stuck.load(Ordering::Relaxed) {
            std::thread::sleep(Duration::from_millis(1));
        }
        match self.named(directory, name) {
            Ok(found) => Ok(entry(&self.node(found)?.lock().unwrap().attributes)),
            Err(Errno::ENOENT) => Ok(EntryReply {
                node: 0,
                ..entry(&Attributes::default())
            }),
            Err(error) => Err(error),
        }
    }

    fn getattr(&self, node: u64) -> Reply<(Attributes, Duration)> {
        Ok((self.node(node)?.lock().unwrap().attributes, LONG))
    }

    fn setattr(
        &self,
        _: &Caller,
        node: u64,
        change: &SetattrRequest,
    ) -> Reply<(Attributes, Duration)> {
        let node = self.node(node)?;
        let mut content = node.lock().unwrap();
        if change.fields.contains(SetattrFields::SIZE) {
            content
                .data
                .resize(usize::try_from(change.size).unwrap(), 0);
            content.attributes.size = change.size;
        }
        if change.fields.contains(SetattrFields::MODE) {
            content.attributes.mode = content.attributes.mode & !0o7777 | change.mode & 0o7777;
        }
        if change.fields.contains(SetattrFields::UID) {
            content.attributes.uid = change.uid;
        }
        if change.fields.contains(SetattrFields::GID) {
            content.attributes.gid = change.gid;
        }
        if change.fields.contains(SetattrFields::MTIME) {
            content.attributes.mtime = change.mtime;
        }
        content.attributes.ctime = now();
        Ok((content.attributes, LONG))
    }

    fn readlink(&self, node: u64) -> Reply<Vec<u8>> {
        Ok(self.node(node)?.lock().unwrap().data.clone())
    }

    fn mknod(&self, who: &Caller, directory: u64, name: &[u8], new: Creation) -> Reply<EntryReply> {
        self.made(who, (directory, name), new)
    }

    fn mkdir(&self, who: &Caller, directory: u64, name: &[u8], new: Creation) -> Reply<EntryReply> {
        self.made(
            who,
            (directory, name),
            Creation {
                mode: new.mode | 0o40_000,
                ..new
            },
        )
    }

    fn symlink(
        &self,
        who: &Caller,
        directory: u64,
        name: &[u8],
        target: &[u8],
    ) -> Reply<EntryReply> {
        let new = Creation {
            mode: 0o120_777,
            umask: 0,
            device: 0,
        };
        let made = self.made(who, (directory, name), new)?;
        self.overwrite(made.node, target);
        self.lookup(who, directory, name)
    }

    fn link(&self, who: &Caller, node: u64, directory: u64, name: &[u8]) -> Reply<EntryReply> {
        self.insert(directory, name, node)?;
        self.node(node)?.lock().unwrap().attributes.links += 1;
        self.lookup(who, directory, name)
    }

    fn unlink(&self, _: &Caller, directory: u64, name: &[u8]) -> Reply<()> {
        let found = self.named(directory, name)?;
        self.node(directory)?.lock().unwrap().names.remove(name);
        self.node(found)?.lock().unwrap().attributes.links -= 1;
        Ok(())
    }

    fn rmdir(&self, _: &Caller, directory: u64, name: &[u8]) -> Reply<()> {
        let found = self.named(directory, name)?;
        if !self.node(found)?.lock().unwrap().names.is_empty() {
            return Err(Errno::ENOTEMPTY);
        }
        self.node(directory)?.lock().unwrap().names.remove(name);
        Ok(())
    }

    fn rename(
        &self,
        _: &Caller,
        from: (u64, &[u8]),
        to: (u64, &[u8]),
        flags: RenameFlags,
    ) -> Reply<()> {
        let moved = self.named(from.0, from.1)?;
        if flags.contains(RenameFlags::NOREPLACE) && self.named(to.0, to.1).is_ok() {
            return Err(Errno::EEXIST);
        }
        self.node(from.0)?.lock().unwrap().names.remove(from.1);
        self.node(to.0)?
            .lock()
            .unwrap()
            .names
            .insert(to.1.to_vec(), moved);
        Ok(())
    }

    fn open(&self, _: &Caller, node: u64, opening: Opening) -> Reply<Opened> {
        const TRUNCATE: u32 = 0o1000;
        if opening.flags & TRUNCATE != 0 {
            self.overwrite(node, b"");
        }
        if opening.flags & 3 == 2 {
            *self.writers.lock().unwrap().entry(node).or_default() += 1;
        }
        let flags = OpenReplyFlags::KEEP_CACHE.union(OpenReplyFlags::NOFLUSH);
        if opening.flags & 3 == 1 {
            return Ok(Opened {
                handle: node | DIRECT,
                flags: flags.union(OpenReplyFlags::DIRECT_IO),
                forgets_attributes: false,
            });
        }
        Ok(Opened {
            handle: node,
            flags,
            forgets_attributes: false,
        })
    }

    fn create(
        &self,
        who: &Caller,
        place: (u64, &[u8]),
        creation: Creation,
        opening: Opening,
    ) -> Reply<(EntryReply, Opened)> {
        let made = self.made(who, place, creation)?;
        Ok((made, self.open(who, made.node, opening)?))
    }

    fn read(&self, handle: u64, offset: u64, size: u32, reply: &mut ReadReply) -> Reply<()> {
        let node = self.node(handle & !DIRECT)?;
        self.lag(&node, b"user.slow");
        let content = node.lock().unwrap();
        let start = usize::try_from(offset).unwrap().min(content.data.len());
        let len = (content.data.len() - start).min(size as usize);
        reply
            .scratch(len)
            .copy_from_slice(&content.data[start..start + len]);
        reply.fill(len);
        Ok(())
    }

    fn write(&self, handle: u64, offset: u64, data: &[u8], how: Writing) -> Reply<Written> {
        let node = self.node(handle & !DIRECT)?;
        self.lag(&node, b"user.slow-writes");
        let mut content = node.lock().unwrap();
        let start = usize::try_from(offset).unwrap();
        let end = start + data.len();
        if content.data.len() < end {
            content.data.resize(end, 0);
            content.attributes.size = end as u64;
        }
        content.data[start..end].copy_from_slice(data);
        content.attributes.mtime = now();
        self.durable_writes
            .fetch_add(u64::from(how.durable), Ordering::Relaxed);
        Ok(Written {
            asks_as_of_now: false,
            count: data.len(),
            owes_commit: false,
            leaves_pages: handle & DIRECT != 0,
        })
    }

    fn release(&self, handle: u64) {
        let mut writers = self.writers.lock().unwrap();
        if let Some(count) = writers.get_mut(&handle) {
            *count -= 1;
            if *count == 0 {
                writers.remove(&handle);
            }
        }
    }

    fn fsync(&self, _: u64, _: FsyncFlags) -> Reply<()> {
        self.delay();
        Ok(())
    }

    fn fsync_directory(&self, _: u64) -> Reply<()> {
        Ok(())
    }

    fn sync(&self) -> Reply<()> {
        Ok(())
    }

    fn readdir(
        &self,
        _: &Caller,
        directory: u64,
        cookie: u64,
        buffer: &mut DirectoryBuffer,
    ) -> Reply<()> {
        let names = self.node(directory)?.lock().unwrap().names.clone();
        let mut all = vec![
            (1, b".".to_vec(), directory),
            (2, b"..".to_vec(), ROOT_NODE),
        ];
        all.extend(
            names
                .into_iter()
                .map(|(name, inode)| (inode + 2, name, inode)),
        );
        // A name's cookie stays when others come and go.
        all.sort();
        for (next_cookie, name, inode) in all.into_iter().filter(|entry| entry.0 > cookie) {
            let attributes = self.node(inode)?.lock().unwrap().attributes;
            let known = entry(&attributes);
            let with = (next_cookie > 2).then_some(&known);
            let kind = FileKind::from_mode(attributes.mode);
            if !buffer.push((inode, kind), next_cookie, &name, with) {
                break;
            }
        }
        Ok(())
    }

    fn statfs(&self, _: u64) -> Reply<StatfsReply> {
        let files = self.nodes.read().unwrap().len() as u64;
        let (blocks, block_size, fragment_size) = (1 << 20, 4096, 4096);
        let some = StatfsReply {
            blocks,
            files,
            block_size,
            fragment_size,
            ..StatfsReply::default()
        };
        Ok(StatfsReply {
            blocks_free: 1 << 19,
            name_len_max: 255,
            ..some
        })
    }

    fn setxattr(
        &self,
        _: &Caller,
        node: u64,
        name: &[u8],
        value: &[u8],
        flags: XattrFlags,
    ) -> Reply<()> {
        let node = self.node(node)?;
        let mut content = node.lock().unwrap();
        if flags.contains(XattrFlags::CREATE) && content.xattrs.contains_key(name) {
            return Err(Errno::EEXIST);
        }
        content.xattrs.insert(name.to_vec(), value.to_vec());
        Ok(())
    }

    fn getxattr(&self, _: &Caller, node: u64, name: &[u8]) -> Reply<Vec<u8>> {
        let node = self.node(node)?;
        let content = node.lock().unwrap();
        content.xattrs.get(name).cloned().ok_or(Errno::ENODATA)
    }

    fn listxattr(&self, _: &Caller, node: u64) -> Reply<Vec<u8>> {
        let node = self.node(node)?;
        let content = node.lock().unwrap();
        Ok(content
            .xattrs
            .keys()
            .flat_map(|name| [name.as_slice(), b"\0"].concat())
            .collect())
    }

    fn removexattr(&self, _: &Caller, node: u64, name: &[u8]) -> Reply<()> {
        let removed = self.node(node)?.lock().unwrap().xattrs.remove(name);
        removed.map(drop).ok_or(Errno::ENODATA)
    }

    fn fallocate(
        &self,
        _caller: &Caller,
        handle: u64,
        (offset, length): (u64, u64),
        mode: FallocateMode,
    ) -> Reply<()> {
        if mode != FallocateMode::empty() {
            return Err(Errno::EOPNOTSUPP);
        }
        let node = self.node(handle)?;
        let mut content = node.lock().unwrap();
        let end = (offset + length).max(content.attributes.size);
        content.data.resize(usize::try_from(end).unwrap(), 0);
        content.attributes.size = end;
        Ok(())
    }

    fn seek(&self, handle: u64, offset: u64, hole: bool) -> Reply<u64> {
        let size = self.node(handle)?.lock().unwrap().attributes.size;
        if offset >= size {
            return Err(Errno::ENXIO);
        }
        Ok(if hole { size } else { offset })
    }

    fn nodes_maybe_mapped(&self) -> Vec<u64> {
        self.writers.lock().unwrap().keys().copied().collect()
    }

    fn ended(&self) {
        self.ended.store(true, Ordering::SeqCst);
    }
}
