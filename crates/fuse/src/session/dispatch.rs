//! One request: decoded arguments in, a call of the tree, an answer out.

use super::counters::counters;
use super::durable::{self, DurableJob, StalePages};
use super::parked::{self, Waits};
use super::reader_states::{Place, Readers};
use super::send::{send, send_error};
use super::shared::Shared;
use crate::errno;
use crate::tree::{BeforeWrite, Caller, Creation, OPEN_DIRECT, Opening, ReadReply, Tree, Writing};
use crate::wire::{
    Body, CopyFileRangeRequest, CreateRequest, DirectoryBuffer, EntryReply, FallocateMode,
    FallocateRequest, GetattrFlags, IoctlRequest, MknodRequest, Operation, ReadRequest,
    RenameRequest, Request, RequestHeader, SetattrRequest, SetxattrRequest, WireError, WriteFlags,
    WriteRequest, decode_header, decode_request,
};
use base::metrics::flow;
use posix::{AwaitedDevices, Errno};
use std::sync::Arc;
use sys::FuseDevice;

/// A flag of open(2), or of one write: it is to be durable (`O_DSYNC`, of which `O_SYNC` is more).
const DATA_SYNC: u32 = 0o10_000;

/// What a request comes to.
#[allow(
    clippy::large_enum_variant,
    reason = "lives on the stack for one request; a box would be an allocation each time"
)]
enum Answer {
    /// Nothing is sent: forgets.
    None,
    /// Sent later by another thread.
    Later,
    /// Done, without a body.
    Done,
    /// A body of fixed layout.
    Body(Body),
    /// Plain bytes.
    Bytes(Vec<u8>),
    /// A body, then plain bytes.
    BodyAndBytes(Body, Vec<u8>),
    /// What the worker's [`ReadReply`] holds.
    Data,
    /// A listing.
    Listing(DirectoryBuffer),
}

/// What an attempt at a request came to, and what it is to wait for before the next one, if it failed.
type Attempt = (Result<Answer, Errno>, Option<AwaitedDevices>);

impl From<Body> for Answer {
    fn from(body: Body) -> Self {
        Self::Body(body)
    }
}

/// What a reader thread works with.
pub(super) struct Worker {
    pub(super) shared: Arc<Shared>,
    /// The set of readers that it belongs to, or took the request.
    pub(super) readers: Arc<Readers>,
    pub(super) device: Arc<FuseDevice>,
    pub(super) data: ReadReply,
}

impl Worker {
    /// Serves the request in `message`; whether it is done with (others are answered later).
    pub(super) fn serve(&mut self, message: &[u8], place: Place) -> bool {
        let request = match decode_request(message, self.shared.settled.dialect) {
            Ok(request) => request,
            Err(error) => {
                self.refuse(message, error);
                return true;
            }
        };
        let opcode = request.header.opcode;
        self.data.clear();
        let attempt = match (place, Waits::of(&request.operation)) {
            (Place::Elsewhere, _) | (Place::LastOfAll, Waits::Maybe | Waits::ForRoom) => {
                parked::hand_over(self, message, opcode);
                return false;
            }
            (Place::BesideFree, Waits::ForRoom) => {
                let readers = Arc::clone(&self.readers);
                let Some(_waiter) = readers.waiter() else {
                    return self.serve_if_room(&request, message);
                };
                self.attempt(&request)
            }
            (Place::LastFree, Waits::ForRoom) => return self.serve_if_room(&request, message),
            (Place::Apart, _)
            | (Place::BesideFree | Place::LastFree, Waits::Seldom | Waits::Maybe)
            | (Place::LastOfAll, Waits::Seldom) => self.attempt(&request),
        };
        self.end_attempt(&request, message, attempt)
    }

    /// An attempt at a request, which can be done again as long as it changed nothing.
    fn attempt(&mut self, request: &Request<'_>) -> Attempt {
        posix::repeatable(|| self.answer_or_fail(request))
    }

    /// Sends what an attempt came to, or has the request wait for the devices that it found away; whether that is all.
    fn end_attempt(
        &self,
        request: &Request<'_>,
        message: &[u8],
        (answer, devices): Attempt,
    ) -> bool {
        let RequestHeader { unique, opcode, .. } = request.header;
        if let (Err(_), Some(devices)) = (&answer, devices) {
            parked::until_devices_are_back(self, message, (unique, opcode), devices);
            return false;
        }
        self.send_answer(unique, answer)
    }

    /// Serves a request if there is room for what it changes, and has it wait without this thread otherwise.
    fn serve_if_room(&mut self, request: &Request<'_>, message: &[u8]) -> bool {
        let (attempt, postponed) = posix::without_waiting(|| self.attempt(request));
        if let ((Err(_), _), Some(postponed)) = (&attempt, postponed) {
            parked::until_admitted(self, (message, request.header.opcode), postponed);
            return false;
        }
        self.end_attempt(request, message, attempt)
    }

    /// Sends what a request came to; whether that is all.
    fn send_answer(&self, unique: u64, answer: Result<Answer, Errno>) -> bool {
        match answer {
            Ok(Answer::None) => {}
            Ok(Answer::Later) => return false,
            Ok(Answer::Done) => send(&self.device, unique, &[]),
            Ok(Answer::Body(body)) => send(&self.device, unique, &[body.as_bytes()]),
            Ok(Answer::Bytes(bytes)) => send(&self.device, unique, &[&bytes]),
            Ok(Answer::BodyAndBytes(body, bytes)) => {
                send(&self.device, unique, &[body.as_bytes(), &bytes]);
            }
            Ok(Answer::Listing(listing)) => send(&self.device, unique, &[listing.as_bytes()]),
            Ok(Answer::Data) => {
                let parts: Vec<&[u8]> = self.data.parts().collect();
                send(&self.device, unique, &parts);
            }
            Err(error) => send_error(&self.device, unique, error),
        }
        true
    }

    /// An operation that panics fails the mount: what it left behind is unknown.
    fn answer_or_fail(&mut self, request: &Request<'_>) -> Result<Answer, Errno> {
        if self.shared.has_failed() {
            return Err(Errno::EIO);
        }
        let caught =
            std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| self.answer(request)));
        let answer = caught.unwrap_or_else(|_| {
            counters().panics.increment();
            self.shared.fail();
            Err(Errno::EIO)
        });
        if let Err(Errno::ESTALE) = answer {
            self.shared.tree.came_late(request.header.node);
        }
        answer
    }

    fn refuse(&self, message: &[u8], _error: WireError) {
        counters().malformed.increment();
        if let Ok(header) = decode_header(message) {
            send_error(&self.device, header.unique, Errno::EINVAL);
        }
    }

    fn answer(&mut self, request: &Request<'_>) -> Result<Answer, Errno> {
        let header = &request.header;
        let node = header.node;
        let tree = Arc::clone(&self.shared.tree);
        let tree = &*tree;
        let caller = &caller(request);
        let shared = &self.shared;
        match request.operation {
            Operation::Read(read) => self.read(tree, &read),
            Operation::Write(write) => self.write(tree, header, &write),
            Operation::Lookup { name } => entry(tree.lookup(caller, node, name)),
            Operation::Getattr { flags, handle } => self.getattr(header, flags, handle),
            Operation::Statx { .. } => statx(tree, node),
            Operation::Setattr(change) => setattr(tree, request, &change),
            Operation::Readlink => Ok(Answer::Bytes(tree.readlink(node)?)),
            Operation::Statfs => Ok(Body::statfs(&tree.statfs(node)?).into()),
            Operation::Readdir {
                cookie, size, plus, ..
            } => readdir(tree, request, cookie, (size, plus)),
            Operation::Forget { lookups } => Ok(forget(tree, [(node, lookups)])),
            Operation::BatchForget { forgets } => Ok(forget(
                tree,
                forgets.iter().map(|one| (one.node, one.lookups)),
            )),
            Operation::Open {
                flags,
                kill_suidgid,
            } => open(shared, request, flags, kill_suidgid),
            Operation::Create(create) => create_file(shared, request, &create),
            Operation::Tmpfile { flags, mode, umask } => {
                tmpfile(shared, request, flags, (mode, umask))
            }
            Operation::Release { handle, .. } => {
                tree.release(handle);
                Ok(Answer::Done)
            }
            Operation::Fallocate(range) => fallocate(shared, request, &range),
            Operation::CopyFileRange(copy) => copy_file_range(shared, request, &copy),
            Operation::Ioctl(call) => ioctl(shared, request, &call),
            Operation::Lseek {
                handle,
                offset,
                whence,
            } => self.seek_answer(header, handle, (offset, whence)),
            Operation::Fsync { handle, flags } => {
                Ok(self.durable(header, DurableJob::File { handle, flags }))
            }
            Operation::Fsyncdir { .. } => Ok(self.durable(header, DurableJob::Directory { node })),
            Operation::Syncfs => Ok(self.durable(header, DurableJob::Everything)),
            Operation::Setxattr(change) => setxattr(tree, request, &change),
            Operation::Getxattr { name, size } => sized(tree.getxattr(caller, node, name)?, size),
            Operation::Listxattr { size } => sized(tree.listxattr(caller, node)?, size),
            Operation::Removexattr { name } => done(tree.removexattr(caller, node, name)),
            Operation::Symlink { name, target } => entry(tree.symlink(caller, node, name, target)),
            Operation::Mknod(new) => mknod(tree, request, &new),
            Operation::Mkdir { name, mode, umask } => {
                entry(tree.mkdir(caller, node, name, creation(mode, umask, 0)))
            }
            Operation::Unlink { name } => done(tree.unlink(caller, node, name)),
            Operation::Rmdir { name } => done(tree.rmdir(caller, node, name)),
            Operation::Rename(names) => rename(tree, request, &names),
            Operation::Link { node: linked, name } => entry(tree.link(caller, linked, node, name)),
            Operation::Destroy | Operation::Releasedir { .. } => Ok(Answer::Done),
            Operation::Interrupt { unique } => Ok(interrupt(shared, unique)),
            // ENOSYS makes the kernel stop asking: it opens directories by itself, checks
            // permissions by mode, and has nothing to flush.
            Operation::Opendir { .. }
            | Operation::Access { .. }
            | Operation::Flush { .. }
            | Operation::Init(_)
            | Operation::Unsupported => Err(errno::ENOSYS),
        }
    }

    fn read(&mut self, tree: &dyn Tree, read: &ReadRequest) -> Result<Answer, Errno> {
        tree.read(read.handle, read.offset, read.size, &mut self.data)?;
        let len: usize = self.data.parts().map(<[u8]>::len).sum();
        flow().user_read.add(len as u64);
        Ok(Answer::Data)
    }

    fn write(
        &self,
        tree: &dyn Tree,
        header: &RequestHeader,
        write: &WriteRequest<'_>,
    ) -> Result<Answer, Errno> {
        let &WriteRequest { handle, offset, .. } = write;
        let how = Writing {
            flags: write.write_flags,
            durable: write.flags & DATA_SYNC != 0,
            direct: write.flags & OPEN_DIRECT != 0,
        };
        let takes_set_id =
            write.write_flags.contains(WriteFlags::KILL_SUIDGID) && tree.has_set_id(handle);
        let written = tree.write(handle, offset, write.data, how)?;
        if takes_set_id {
            self.shared.forget_mode(header.node);
        }
        if written.asks_as_of_now {
            self.shared.forget_attributes_of_written();
        }
        flow().user_written.add(written.count as u64);
        let count = u32::try_from(written.count).unwrap_or(u32::MAX);
        let commits = written.owes_commit && count > 0;
        if commits || written.leaves_pages {
            let stale = Some(StalePages {
                node: header.node,
                offset,
            });
            let job = DurableJob::Written {
                handle,
                count,
                commits,
                stale: stale.filter(|_| written.leaves_pages),
            };
            return Ok(self.durable(header, job));
        }
        Ok(Body::written(count).into())
    }

    /// Where it gathers writes, the kernel asks for attributes of an open file before a write, and for nothing else.
    fn getattr(
        &self,
        header: &RequestHeader,
        flags: GetattrFlags,
        handle: u64,
    ) -> Result<Answer, Errno> {
        let (tree, node) = (&*self.shared.tree, header.node);
        if !flags.contains(GetattrFlags::HANDLE) || !self.shared.gathers_writes() {
            return getattr(tree, node);
        }
        match tree.before_write(handle)? {
            BeforeWrite::Goes => getattr(tree, node),
            BeforeWrite::Asks { as_of_now } => {
                if as_of_now {
                    self.shared.forget_attributes_of_written();
                }
                Ok(self.durable(header, DurableJob::BeforeWrite { node, handle }))
            }
        }
    }

    /// The kernel asks without writing back what it has (it does so before it asks for a copy or a
    /// hole): a program that copies by data and holes would miss what was stored through a mapping.
    fn seek_answer(
        &self,
        header: &RequestHeader,
        handle: u64,
        (offset, whence): (u64, u32),
    ) -> Result<Answer, Errno> {
        const SEEK_DATA: u32 = 3;
        const SEEK_HOLE: u32 = 4;
        if whence != SEEK_DATA && whence != SEEK_HOLE {
            return Err(Errno::EINVAL);
        }
        let hole = whence == SEEK_HOLE;
        let tree = &self.shared.tree;
        if self.shared.gathers_writes() || tree.maybe_dirty(handle) {
            let node = header.node;
            let job = DurableJob::Seek {
                node,
                handle,
                offset,
                hole,
            };
            return Ok(self.durable(header, job));
        }
        Ok(Body::seek(tree.seek(handle, offset, hole)?).into())
    }

    /// Hands a request that waits for the disk to the threads that may; does it here when they
    /// have more than enough already.
    fn durable(&self, header: &RequestHeader, job: DurableJob) -> Answer {
        durable::submit((&self.shared, &self.readers), &self.device, header, job);
        Answer::Later
    }
}

fn caller(request: &Request<'_>) -> Caller {
    let RequestHeader { uid, gid, pid, .. } = request.header;
    Caller {
        uid,
        gid,
        pid,
        group_of_directory: request.groups.iter().next(),
    }
}

fn creation(mode: u32, umask: u32, device: u32) -> Creation {
    Creation {
        mode,
        umask,
        device,
    }
}

/// The answer of an operation that says no more than that it is done.
fn done(result: Result<(), Errno>) -> Result<Answer, Errno> {
    result.map(|()| Answer::Done)
}

/// The answer of an operation that found or made a name.
fn entry(found: Result<EntryReply, Errno>) -> Result<Answer, Errno> {
    Ok(Body::entry(&found?).into())
}

fn forget(tree: &dyn Tree, forgets: impl IntoIterator<Item = (u64, u64)>) -> Answer {
    for (node, lookups) in forgets {
        tree.forget(node, lookups);
    }
    Answer::None
}

/// A signal came for who waits for a request. Of one that is being served nothing is broken off.
fn interrupt(shared: &Shared, unique: u64) -> Answer {
    shared.awaiting.interrupt(unique);
    Answer::None
}

fn getattr(tree: &dyn Tree, node: u64) -> Result<Answer, Errno> {
    let (attributes, valid) = tree.getattr(node)?;
    Ok(Body::attribute(&attributes, valid).into())
}

fn statx(tree: &dyn Tree, node: u64) -> Result<Answer, Errno> {
    let (attributes, valid) = tree.getattr(node)?;
    Ok(Body::statx(&attributes, valid).into())
}

fn setattr(
    tree: &dyn Tree,
    request: &Request<'_>,
    change: &SetattrRequest,
) -> Result<Answer, Errno> {
    let (attributes, valid) = tree.setattr(&caller(request), request.header.node, change)?;
    Ok(Body::attribute(&attributes, valid).into())
}

fn readdir(
    tree: &dyn Tree,
    request: &Request<'_>,
    cookie: u64,
    (size, plus): (u32, bool),
) -> Result<Answer, Errno> {
    let limit = usize::try_from(size).unwrap_or(0);
    let mut listing = DirectoryBuffer::new(limit, plus);
    tree.readdir(&caller(request), request.header.node, cookie, &mut listing)?;
    Ok(Answer::Listing(listing))
}

fn mknod(tree: &dyn Tree, request: &Request<'_>, new: &MknodRequest<'_>) -> Result<Answer, Errno> {
    let creation = creation(new.mode, new.umask, new.device);
    entry(tree.mknod(&caller(request), request.header.node, new.name, creation))
}

fn rename(
    tree: &dyn Tree,
    request: &Request<'_>,
    names: &RenameRequest<'_>,
) -> Result<Answer, Errno> {
    let from = (request.header.node, names.name);
    let to = (names.new_directory, names.new_name);
    done(tree.rename(&caller(request), from, to, names.flags))
}

fn open(
    shared: &Shared,
    request: &Request<'_>,
    flags: u32,
    kill_suidgid: bool,
) -> Result<Answer, Errno> {
    let node = request.header.node;
    let opening = Opening {
        flags,
        kill_suidgid,
    };
    let opened = shared.tree.open(&caller(request), node, opening)?;
    if opened.forgets_attributes {
        shared.forget_mode(node);
    }
    Ok(Body::open(opened.handle, shared.open_flags(opened.flags)).into())
}

fn create_file(
    shared: &Shared,
    request: &Request<'_>,
    create: &CreateRequest<'_>,
) -> Result<Answer, Errno> {
    let place = (request.header.node, create.name);
    let creation = creation(create.mode, create.umask, 0);
    let opening = Opening {
        flags: create.flags,
        kill_suidgid: create.kill_suidgid,
    };
    let (entry, opened) = shared
        .tree
        .create(&caller(request), place, creation, opening)?;
    Ok(Body::create(&entry, opened.handle, shared.open_flags(opened.flags)).into())
}

fn tmpfile(
    shared: &Shared,
    request: &Request<'_>,
    flags: u32,
    (mode, umask): (u32, u32),
) -> Result<Answer, Errno> {
    let node = request.header.node;
    let creation = creation(mode, umask, 0);
    let opening = Opening {
        flags,
        kill_suidgid: false,
    };
    let made = shared
        .tree
        .create_unnamed(&caller(request), node, creation, opening);
    let (entry, opened) = made?;
    Ok(Body::create(&entry, opened.handle, shared.open_flags(opened.flags)).into())
}

/// Whether the change that is asked for takes set-id bits from an open file: fallocate and copies by
/// anybody but root, see [`Tree::fallocate`].
fn takes_set_id(tree: &dyn Tree, request: &Request<'_>, handle: u64) -> bool {
    request.header.uid != 0 && tree.has_set_id(handle)
}

fn fallocate(
    shared: &Shared,
    request: &Request<'_>,
    fallocate: &FallocateRequest,
) -> Result<Answer, Errno> {
    let tree = &*shared.tree;
    let handle = fallocate.handle;
    let takes_set_id = takes_set_id(tree, request, handle);
    let range = (fallocate.offset, fallocate.length);
    tree.fallocate(
        &caller(request),
        handle,
        range,
        FallocateMode::from_bits_retain(fallocate.mode),
    )?;
    if takes_set_id {
        shared.forget_mode(request.header.node);
    }
    Ok(Answer::Done)
}

fn copy_file_range(
    shared: &Shared,
    request: &Request<'_>,
    copy: &CopyFileRangeRequest,
) -> Result<Answer, Errno> {
    let tree = &*shared.tree;
    // The answer has 32 bits, and a long copy would hold this thread: the caller asks on.
    let length = copy.length.min(COPY_LEN_MAX);
    let from = (copy.handle, copy.offset);
    let to = (copy.to_handle, copy.to_offset);
    let takes_set_id = takes_set_id(tree, request, copy.to_handle);
    let copied = tree.copy_range(&caller(request), from, to, length)?;
    if takes_set_id {
        shared.forget_mode(copy.to_node);
    }
    Ok(Body::written(u32::try_from(copied).unwrap_or(u32::MAX)).into())
}

fn ioctl(shared: &Shared, request: &Request<'_>, call: &IoctlRequest<'_>) -> Result<Answer, Errno> {
    let node = request.header.node;
    let output = shared
        .tree
        .ioctl(&caller(request), node, call.command, call.input)?;
    if output.is_empty() {
        // A change: of the attributes that change with it the kernel does not know.
        shared.forget_mode(node);
    }
    let fits = u32::try_from(output.len()).is_ok_and(|len| len <= call.output_size);
    let answer = fits.then(|| Answer::BodyAndBytes(Body::ioctl(0), output));
    answer.ok_or(Errno::EINVAL)
}

const COPY_LEN_MAX: u64 = 64 << 20;

fn setxattr(
    tree: &dyn Tree,
    request: &Request<'_>,
    change: &SetxattrRequest<'_>,
) -> Result<Answer, Errno> {
    let node = request.header.node;
    let caller = caller(request);
    tree.setxattr(&caller, node, change.name, change.value, change.flags)?;
    if change.kill_sgid {
        tree.drop_set_gid(&caller, node)?;
    }
    Ok(Answer::Done)
}

/// A value for a caller with room for `size` bytes; with none he asks how long it is.
fn sized(value: Vec<u8>, size: u32) -> Result<Answer, Errno> {
    let len = u32::try_from(value.len()).map_err(|_| Errno::E2BIG)?;
    match size {
        0 => Ok(Body::xattr_size(len).into()),
        size if size < len => Err(Errno::ERANGE),
        _ => Ok(Answer::Bytes(value)),
    }
}
