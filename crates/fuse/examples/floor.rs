//! A FUSE server that does nothing: it keeps names and sizes in memory and throws data away. What the kernel, the
//! channel and the load cost without a file system is the floor of benchmarks (`cargo xtask bench`). Nothing
//! of our own transport is in it but the device and the protocol: two threads, each with a descriptor of its own, that
//! sleep until a request comes.
//!
//! `floor DIRECTORY` mounts there and serves until it is unmounted.
#![allow(
    clippy::large_enum_variant,
    clippy::print_stderr,
    clippy::wildcard_enum_match_arm,
    reason = "a tool; what it does not know it refuses, and an answer lives on the stack"
)]

extern crate millpond_fuse as fuse;

use fuse::wire::{
    Attributes, Body, Dialect, DirectoryBuffer, EntryReply, FileKind, InitFlags, InitReply,
    OpenReplyFlags, Operation, ROOT_NODE, Request, SetattrFields, StatfsReply, Timeouts,
    decode_request, out_header,
};
use std::collections::HashMap;
use std::io::IoSlice;
use std::path::Path;
use std::process::ExitCode;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use sys::{Errno, FuseDevice, FuseMountOptions};

const THREADS: usize = 2;
const SHARDS: u64 = 16;
const TRANSFER_LEN_MAX: u32 = 1 << 20;
const VALID: Duration = Duration::from_secs(3600);
const DIRECTORY: u32 = 0o40_000;
const FILE: u32 = 0o100_000;

#[derive(Clone, Copy)]
struct Node {
    mode: u32,
    size: u64,
    /// Without a name it is there as long as the kernel knows it: somebody may have it open.
    is_named: bool,
}

type Names = HashMap<(u64, Vec<u8>), u64>;

struct Floor {
    names: Vec<Mutex<Names>>,
    nodes: Vec<Mutex<HashMap<u64, Node>>>,
    next: AtomicU64,
}

/// What is answered beside errors.
enum Answer {
    Nothing,
    Body(Body),
    Listing(DirectoryBuffer),
    Zeros(usize),
}

impl Floor {
    fn new() -> Self {
        let floor = Self {
            names: (0..SHARDS).map(|_| Mutex::default()).collect(),
            nodes: (0..SHARDS).map(|_| Mutex::default()).collect(),
            next: AtomicU64::new(ROOT_NODE + 1),
        };
        let root = Node {
            mode: DIRECTORY | 0o777,
            size: 0,
            is_named: true,
        };
        floor.nodes(ROOT_NODE).insert(ROOT_NODE, root);
        floor
    }

    fn nodes(&self, node: u64) -> MutexGuard<'_, HashMap<u64, Node>> {
        locked(&self.nodes[(node % SHARDS) as usize])
    }

    fn names(&self, directory: u64, name: &[u8]) -> MutexGuard<'_, Names> {
        let sum = name.iter().fold(directory, |sum, byte| {
            sum.wrapping_mul(31).wrapping_add(u64::from(*byte))
        });
        locked(&self.names[(sum % SHARDS) as usize])
    }

    fn node(&self, node: u64) -> Result<Node, Errno> {
        self.nodes(node).get(&node).copied().ok_or(Errno::NOENT)
    }

    fn attributes(&self, number: u64) -> Result<Attributes, Errno> {
        let node = self.node(number)?;
        Ok(Attributes {
            inode: number,
            size: node.size,
            blocks: node.size / 512,
            mode: node.mode,
            links: 1,
            block_size: 4096,
            ..Attributes::default()
        })
    }

    fn entry(&self, node: u64) -> Result<EntryReply, Errno> {
        Ok(EntryReply {
            node,
            generation: 0,
            timeouts: Timeouts {
                entry: VALID,
                attributes: VALID,
            },
            attributes: self.attributes(node)?,
        })
    }

    fn attribute(&self, node: u64) -> Result<Answer, Errno> {
        Ok(Answer::Body(Body::attribute(
            &self.attributes(node)?,
            VALID,
        )))
    }

    fn add(&self, directory: u64, name: &[u8], mode: u32) -> Result<EntryReply, Errno> {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        let node = Node {
            mode,
            size: 0,
            is_named: true,
        };
        self.nodes(number).insert(number, node);
        self.names(directory, name)
            .insert((directory, name.to_vec()), number);
        self.entry(number)
    }

    fn remove(&self, directory: u64, name: &[u8]) -> Result<u64, Errno> {
        let removed = self
            .names(directory, name)
            .remove(&(directory, name.to_vec()));
        removed.ok_or(Errno::NOENT)
    }

    fn unlink(&self, directory: u64, name: &[u8]) -> Result<(), Errno> {
        let removed = self.remove(directory, name)?;
        if let Some(node) = self.nodes(removed).get_mut(&removed) {
            node.is_named = false;
        }
        Ok(())
    }

    fn forget(&self, forgotten: impl IntoIterator<Item = u64>) -> Answer {
        for number in forgotten {
            let mut nodes = self.nodes(number);
            if nodes.get(&number).is_some_and(|node| !node.is_named) {
                nodes.remove(&number);
            }
        }
        Answer::Nothing
    }

    fn list(&self, directory: u64, cookie: u64, size: u32) -> DirectoryBuffer {
        let mut found = Vec::new();
        for shard in &self.names {
            let names = locked(shard);
            let here = names.iter().filter(|((within, _), _)| *within == directory);
            found.extend(here.map(|((_, name), node)| (*node, name.clone())));
        }
        found.sort();
        let mut listing = DirectoryBuffer::new(size as usize, false);
        for (place, (node, name)) in found.iter().enumerate().skip(cookie as usize) {
            let mode = self.node(*node).map_or(FILE, |node| node.mode);
            let shown = (*node, FileKind::from_mode(mode));
            if !listing.push(shown, place as u64 + 1, name, None) {
                break;
            }
        }
        listing
    }

    fn answer(&self, request: &Request<'_>) -> Result<Answer, Errno> {
        let node = request.header.node;
        let entry = |entry: Result<EntryReply, Errno>| Ok(Answer::Body(Body::entry(&entry?)));
        match request.operation {
            Operation::Lookup { name } => {
                let found = self.names(node, name).get(&(node, name.to_vec())).copied();
                entry(self.entry(found.ok_or(Errno::NOENT)?))
            }
            Operation::Getattr { .. } => self.attribute(node),
            Operation::Setattr(change) => {
                if change.fields.contains(SetattrFields::SIZE)
                    && let Some(node) = self.nodes(node).get_mut(&node)
                {
                    node.size = change.size;
                }
                self.attribute(node)
            }
            Operation::Mkdir { name, mode, .. } => {
                entry(self.add(node, name, DIRECTORY | mode & 0o7777))
            }
            Operation::Mknod(new) => entry(self.add(node, new.name, FILE | new.mode & 0o7777)),
            Operation::Create(new) => {
                let made = self.add(node, new.name, FILE | new.mode & 0o7777)?;
                let body = Body::create(&made, 0, OpenReplyFlags::KEEP_CACHE);
                Ok(Answer::Body(body))
            }
            Operation::Unlink { name } | Operation::Rmdir { name } => {
                self.unlink(node, name)?;
                Ok(Answer::Body(Body::empty()))
            }
            Operation::Rename(names) => {
                let moved = self.remove(node, names.name)?;
                let to = (names.new_directory, names.new_name.to_vec());
                self.names(names.new_directory, names.new_name)
                    .insert(to, moved);
                Ok(Answer::Body(Body::empty()))
            }
            Operation::Write(write) => {
                let end = write.offset + write.data.len() as u64;
                if let Some(node) = self.nodes(node).get_mut(&node) {
                    node.size = node.size.max(end);
                }
                Ok(Answer::Body(Body::written(write.data.len() as u32)))
            }
            Operation::Read(read) => {
                let size = self.node(node)?.size;
                let end = (read.offset + u64::from(read.size)).min(size);
                Ok(Answer::Zeros(end.saturating_sub(read.offset) as usize))
            }
            Operation::Readdir { cookie, size, .. } => {
                Ok(Answer::Listing(self.list(node, cookie, size)))
            }
            Operation::Statfs => Ok(Answer::Body(Body::statfs(&StatfsReply {
                block_size: 4096,
                name_len_max: 255,
                fragment_size: 4096,
                ..StatfsReply::default()
            }))),
            Operation::Release { .. } | Operation::Fsync { .. } | Operation::Fsyncdir { .. } => {
                Ok(Answer::Body(Body::empty()))
            }
            Operation::Forget { .. } => Ok(self.forget([node])),
            Operation::BatchForget { forgets } => {
                Ok(self.forget(forgets.iter().map(|one| one.node)))
            }
            Operation::Destroy => Ok(Answer::Nothing),
            _ => Err(Errno::NOSYS),
        }
    }

    /// Serves until the mount is gone.
    fn serve(&self, device: &FuseDevice) {
        static ZEROS: [u8; TRANSFER_LEN_MAX as usize] = [0; TRANSFER_LEN_MAX as usize];
        let mut buffer = vec![0; TRANSFER_LEN_MAX as usize + 4096];
        loop {
            let len = match device.read(&mut buffer) {
                Ok(len) => len,
                Err(Errno::INTR | Errno::AGAIN | Errno::NOENT) => continue,
                Err(_) => return,
            };
            let Ok(request) = decode_request(&buffer[..len], Dialect::default()) else {
                continue;
            };
            let unique = request.header.unique;
            match self.answer(&request) {
                Ok(Answer::Nothing) => {}
                Ok(Answer::Body(body)) => send(device, unique, body.as_bytes()),
                Ok(Answer::Listing(listing)) => send(device, unique, listing.as_bytes()),
                Ok(Answer::Zeros(len)) => send(device, unique, &ZEROS[..len.min(ZEROS.len())]),
                Err(error) => {
                    let header = out_header(unique, error.raw_os_error(), 0);
                    let _gone = device.write(&[IoSlice::new(&header)]);
                }
            }
        }
    }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn send(device: &FuseDevice, unique: u64, body: &[u8]) {
    let header = out_header(unique, 0, body.len());
    let _gone = device.write(&[IoSlice::new(&header), IoSlice::new(body)]);
}

/// Answers the kernel's first message.
fn initialise(device: &FuseDevice) -> Result<(), Errno> {
    let mut buffer = vec![0; 64 << 10];
    let len = device.read(&mut buffer)?;
    let request = decode_request(&buffer[..len], Dialect::default());
    let request = request.map_err(|_| Errno::PROTO)?;
    let Operation::Init(init) = request.operation else {
        return Err(Errno::PROTO);
    };
    let wanted = [
        InitFlags::ASYNC_READ,
        InitFlags::BIG_WRITES,
        InitFlags::PARALLEL_DIROPS,
        InitFlags::ASYNC_DIO,
        InitFlags::MAX_PAGES,
        InitFlags::NO_OPENDIR_SUPPORT,
        InitFlags::HANDLE_KILLPRIV_V2,
        InitFlags::SETXATTR_EXT,
        InitFlags::INIT_EXT,
    ];
    let wanted = wanted
        .iter()
        .fold(InitFlags::empty(), |all, one| all.union(*one));
    let reply = InitReply {
        max_readahead: TRANSFER_LEN_MAX,
        flags: wanted.intersection(init.flags),
        max_background: 64,
        congestion_threshold: 48,
        max_write: TRANSFER_LEN_MAX,
        time_granularity_ns: 1,
        max_pages: 256,
    };
    send(device, request.header.unique, Body::init(&reply).as_bytes());
    Ok(())
}

fn main() -> ExitCode {
    let Some(place) = std::env::args().nth(1) else {
        eprintln!("usage: floor DIRECTORY");
        return ExitCode::from(2);
    };
    let options = FuseMountOptions {
        source: "floor".to_owned(),
        subtype: "floor".to_owned(),
        ..FuseMountOptions::default()
    };
    let device = match sys::mount_fuse(Path::new(&place), &options) {
        Ok(device) => device,
        Err(error) => {
            eprintln!("floor: {error}");
            return ExitCode::FAILURE;
        }
    };
    let floor = Floor::new();
    let more: Result<Vec<_>, _> = (1..THREADS).map(|_| device.another()).collect();
    match initialise(&device).and(more) {
        Ok(more) => std::thread::scope(|scope| {
            for device in &more {
                scope.spawn(|| floor.serve(device));
            }
            floor.serve(&device);
        }),
        Err(error) => {
            eprintln!("floor: {error}");
            return ExitCode::FAILURE;
        }
    }
    ExitCode::SUCCESS
}
