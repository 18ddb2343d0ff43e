//! One request: decoded arguments in, a call of the tree, an answer out.

use super::Shared;
use super::counters::counters;
use super::durable::{Durable, DurableJob, StalePages};
use super::parked::{Parked, Waits};
use crate::errno;
use crate::tree::{Caller, Creation, OPEN_DIRECT, Opened, Opening, ReadReply, Tree, Writing};
use crate::wire::{
    Body, DirectoryBuffer, FallocateMode, InitFlags, Operation, Request, RequestHeader, WireError,
    WriteFlags, decode_header, decode_request, out_header,
};
use base::metrics::flow;
use posix::Errno;
use std::io::IoSlice;
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

impl From<Body> for Answer {
    fn from(body: Body) -> Self {
        Self::Body(body)
    }
}

/// Where a request is served.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    /// By a reader while another one is free; one of them at a time may wait for room.
    BesideFree,
    /// By the last reader that is free, or a thread that such a one left it to: it does not wait for room.
    LastFree,
    /// By the last reader that is free, when no other can be started.
    LastOfAll,
    /// By a thread that reads no requests; there is room.
    Apart,
}

/// What a reader thread works with.
pub(super) struct Worker {
    pub(super) shared: Arc<Shared>,
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
        let answer = match (place, Waits::of(&request.operation)) {
            (Place::LastOfAll, Waits::Maybe | Waits::ForRoom) => {
                Parked::hand_over(self, message, opcode);
                return false;
            }
            (Place::BesideFree, Waits::ForRoom) => {
                let shared = Arc::clone(&self.shared);
                let Some(_waiter) = shared.readers.waiter() else {
                    return self.serve_if_room(&request, message);
                };
                self.answer_or_fail(&request)
            }
            (Place::LastFree, Waits::ForRoom) => return self.serve_if_room(&request, message),
            (Place::Apart, _)
            | (Place::BesideFree | Place::LastFree, Waits::Seldom | Waits::Maybe)
            | (Place::LastOfAll, Waits::Seldom) => self.answer_or_fail(&request),
        };
        self.send_answer(request.header.unique, answer)
    }

    /// Serves a request if there is room for what it changes, and has it wait without this thread otherwise.
    fn serve_if_room(&mut self, request: &Request<'_>, message: &[u8]) -> bool {
        let (answer, postponed) = posix::without_waiting(|| self.answer_or_fail(request));
        if let (Err(_), Some(postponed)) = (&answer, postponed) {
            Parked::until_admitted(self, (message, request.header.opcode), postponed);
            return false;
        }
        self.send_answer(request.header.unique, answer)
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
        caught.unwrap_or_else(|_| {
            counters().panics.increment();
            self.shared.fail();
            Err(Errno::EIO)
        })
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
        match request.operation {
            Operation::Read { .. } | Operation::Write { .. } => self.data_answer(&*tree, request),
            Operation::Lookup { .. }
            | Operation::Getattr { .. }
            | Operation::Statx { .. }
            | Operation::Setattr(_)
            | Operation::Readlink
            | Operation::Statfs
            | Operation::Readdir { .. } => node_answer(&*tree, request),
            Operation::Forget { lookups } => {
                tree.forget(node, lookups);
                Ok(Answer::None)
            }
            Operation::BatchForget { forgets } => {
                for one in forgets.iter() {
                    tree.forget(one.node, one.lookups);
                }
                Ok(Answer::None)
            }
            Operation::Open { .. }
            | Operation::Create { .. }
            | Operation::Tmpfile { .. }
            | Operation::Release { .. } => open_answer(&self.shared, request),
            Operation::Fallocate { .. } | Operation::CopyFileRange { .. } => {
                range_answer(&self.shared, request)
            }
            Operation::Ioctl { .. } => ioctl_answer(&self.shared, request),
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
            Operation::Setxattr { .. }
            | Operation::Getxattr { .. }
            | Operation::Listxattr { .. }
            | Operation::Removexattr { .. } => xattr_answer(&*tree, request),
            Operation::Symlink { .. }
            | Operation::Mknod { .. }
            | Operation::Mkdir { .. }
            | Operation::Unlink { .. }
            | Operation::Rmdir { .. }
            | Operation::Rename { .. }
            | Operation::Link { .. } => name_answer(&*tree, request),
            Operation::Destroy | Operation::Releasedir { .. } => Ok(Answer::Done),
            // ENOSYS makes the kernel stop asking: it opens directories by itself, checks
            // permissions by mode, has nothing to flush, and never interrupts us.
            Operation::Opendir { .. }
            | Operation::Access { .. }
            | Operation::Flush { .. }
            | Operation::Interrupt { .. }
            | Operation::Init(_)
            | Operation::Unsupported => Err(errno::ENOSYS),
        }
    }

    fn data_answer(&mut self, tree: &dyn Tree, request: &Request<'_>) -> Result<Answer, Errno> {
        match request.operation {
            Operation::Read {
                handle,
                offset,
                size,
                ..
            } => {
                tree.read(handle, offset, size, &mut self.data)?;
                let read: usize = self.data.parts().map(<[u8]>::len).sum();
                flow().user_read.add(read as u64);
                Ok(Answer::Data)
            }
            Operation::Write {
                handle,
                offset,
                data,
                write_flags,
                flags,
            } => {
                let how = Writing {
                    flags: write_flags,
                    durable: flags & DATA_SYNC != 0,
                    direct: flags & OPEN_DIRECT != 0,
                };
                let takes_set_id =
                    write_flags.has(WriteFlags::KILL_SUIDGID) && tree.has_set_id(handle);
                let written = tree.write(handle, offset, data, how)?;
                if takes_set_id {
                    self.shared.forget_mode(request.header.node);
                }
                flow().user_written.add(written.count as u64);
                let count = u32::try_from(written.count).unwrap_or(u32::MAX);
                let commits = written.owes_commit && count > 0;
                if commits || written.leaves_pages {
                    let stale = Some(StalePages {
                        node: request.header.node,
                        offset,
                    });
                    let job = DurableJob::Written {
                        handle,
                        count,
                        commits,
                        stale: stale.filter(|_| written.leaves_pages),
                    };
                    return Ok(self.durable(&request.header, job));
                }
                Ok(Body::written(count).into())
            }
            _ => Err(errno::ENOSYS),
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
        let writes_back = self.shared.settled.flags.has(InitFlags::WRITEBACK_CACHE);
        if writes_back || tree.maybe_dirty(handle) {
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
        Durable::submit(&self.shared, &self.device, header, job);
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

fn node_answer(tree: &dyn Tree, request: &Request<'_>) -> Result<Answer, Errno> {
    let node = request.header.node;
    match request.operation {
        Operation::Lookup { name } => {
            let found = tree.lookup(&caller(request), node, name)?;
            Ok(Body::entry(&found).into())
        }
        Operation::Getattr { .. } => {
            let (attributes, valid) = tree.getattr(node)?;
            Ok(Body::attribute(&attributes, valid).into())
        }
        Operation::Statx { .. } => {
            let (attributes, valid) = tree.getattr(node)?;
            Ok(Body::statx(&attributes, valid).into())
        }
        Operation::Setattr(change) => {
            let (attributes, valid) = tree.setattr(&caller(request), node, &change)?;
            Ok(Body::attribute(&attributes, valid).into())
        }
        Operation::Readlink => Ok(Answer::Bytes(tree.readlink(node)?)),
        Operation::Statfs => Ok(Body::statfs(&tree.statfs(node)?).into()),
        Operation::Readdir {
            cookie, size, plus, ..
        } => {
            let limit = usize::try_from(size).unwrap_or(0);
            let mut listing = DirectoryBuffer::new(limit, plus);
            tree.readdir(&caller(request), node, cookie, &mut listing)?;
            Ok(Answer::Listing(listing))
        }
        _ => Err(errno::ENOSYS),
    }
}

fn name_answer(tree: &dyn Tree, request: &Request<'_>) -> Result<Answer, Errno> {
    let node = request.header.node;
    let caller = caller(request);
    let entry = match request.operation {
        Operation::Symlink { name, target } => tree.symlink(&caller, node, name, target)?,
        Operation::Mknod {
            name,
            mode,
            device,
            umask,
        } => tree.mknod(
            &caller,
            node,
            name,
            Creation {
                mode,
                umask,
                device,
            },
        )?,
        Operation::Mkdir { name, mode, umask } => tree.mkdir(
            &caller,
            node,
            name,
            Creation {
                mode,
                umask,
                device: 0,
            },
        )?,
        Operation::Link { node: linked, name } => tree.link(&caller, linked, node, name)?,
        Operation::Unlink { name } => {
            tree.unlink(&caller, node, name)?;
            return Ok(Answer::Done);
        }
        Operation::Rmdir { name } => {
            tree.rmdir(&caller, node, name)?;
            return Ok(Answer::Done);
        }
        Operation::Rename {
            name,
            new_directory,
            new_name,
            flags,
        } => {
            tree.rename(&caller, (node, name), (new_directory, new_name), flags)?;
            return Ok(Answer::Done);
        }
        _ => return Err(errno::ENOSYS),
    };
    Ok(Body::entry(&entry).into())
}

fn open_answer(shared: &Shared, request: &Request<'_>) -> Result<Answer, Errno> {
    let node = request.header.node;
    let tree = &shared.tree;
    let allowed = |opened: &Opened| shared.open_flags(opened.flags);
    match request.operation {
        Operation::Open {
            flags,
            kill_suidgid,
        } => {
            let opening = Opening {
                flags,
                kill_suidgid,
            };
            let opened = tree.open(&caller(request), node, opening)?;
            if opened.lost_set_id {
                shared.forget_mode(node);
            }
            Ok(Body::open(opened.handle, allowed(&opened)).into())
        }
        Operation::Create {
            name,
            flags,
            mode,
            umask,
            kill_suidgid,
        } => {
            let creation = Creation {
                mode,
                umask,
                device: 0,
            };
            let opening = Opening {
                flags,
                kill_suidgid,
            };
            let (entry, opened) = tree.create(&caller(request), (node, name), creation, opening)?;
            Ok(Body::create(&entry, opened.handle, allowed(&opened)).into())
        }
        Operation::Tmpfile { flags, mode, umask } => {
            let creation = Creation {
                mode,
                umask,
                device: 0,
            };
            let opening = Opening {
                flags,
                kill_suidgid: false,
            };
            let (entry, opened) = tree.create_unnamed(&caller(request), node, creation, opening)?;
            Ok(Body::create(&entry, opened.handle, allowed(&opened)).into())
        }
        Operation::Release { handle, .. } => {
            tree.release(handle);
            Ok(Answer::Done)
        }
        _ => Err(errno::ENOSYS),
    }
}

/// Whether the change that is asked for takes set-id bits from an open file: fallocate and copies by
/// anybody but root, see [`Tree::fallocate`].
fn takes_set_id(tree: &dyn Tree, request: &Request<'_>, handle: u64) -> bool {
    request.header.uid != 0 && tree.has_set_id(handle)
}

fn range_answer(shared: &Shared, request: &Request<'_>) -> Result<Answer, Errno> {
    let tree = &*shared.tree;
    match request.operation {
        Operation::Fallocate {
            handle,
            offset,
            length,
            mode,
        } => {
            let takes_set_id = takes_set_id(tree, request, handle);
            let (range, mode) = ((offset, length), FallocateMode(mode));
            tree.fallocate(&caller(request), handle, range, mode)?;
            if takes_set_id {
                shared.forget_mode(request.header.node);
            }
            Ok(Answer::Done)
        }
        Operation::CopyFileRange {
            handle,
            offset,
            to_node,
            to_handle,
            to_offset,
            length,
            ..
        } => {
            // The answer has 32 bits, and a long copy would hold this thread: the caller asks on.
            let length = length.min(COPY_LEN_MAX);
            let (from, to) = ((handle, offset), (to_handle, to_offset));
            let takes_set_id = takes_set_id(tree, request, to_handle);
            let copied = tree.copy_range(&caller(request), from, to, length)?;
            if takes_set_id {
                shared.forget_mode(to_node);
            }
            Ok(Body::written(u32::try_from(copied).unwrap_or(u32::MAX)).into())
        }
        _ => Err(errno::ENOSYS),
    }
}

fn ioctl_answer(shared: &Shared, request: &Request<'_>) -> Result<Answer, Errno> {
    let node = request.header.node;
    let Operation::Ioctl {
        command,
        output_size,
        input,
        ..
    } = request.operation
    else {
        return Err(errno::ENOSYS);
    };
    let output = shared.tree.ioctl(&caller(request), node, command, input)?;
    if output.is_empty() {
        // A change: of the attributes that change with it the kernel does not know.
        shared.forget_mode(node);
    }
    let fits = u32::try_from(output.len()).is_ok_and(|len| len <= output_size);
    let answer = fits.then(|| Answer::BodyAndBytes(Body::ioctl(0), output));
    answer.ok_or(Errno::EINVAL)
}

const COPY_LEN_MAX: u64 = 64 << 20;

fn xattr_answer(tree: &dyn Tree, request: &Request<'_>) -> Result<Answer, Errno> {
    let node = request.header.node;
    let caller = caller(request);
    let (value, size) = match request.operation {
        Operation::Getxattr { name, size } => (tree.getxattr(&caller, node, name)?, size),
        Operation::Listxattr { size } => (tree.listxattr(&caller, node)?, size),
        Operation::Setxattr {
            name,
            value,
            flags,
            kill_sgid,
        } => {
            tree.setxattr(&caller, node, name, value, flags)?;
            if kill_sgid {
                tree.drop_set_gid(&caller, node)?;
            }
            return Ok(Answer::Done);
        }
        Operation::Removexattr { name } => {
            tree.removexattr(&caller, node, name)?;
            return Ok(Answer::Done);
        }
        _ => return Err(errno::ENOSYS),
    };
    let len = u32::try_from(value.len()).map_err(|_| Errno::E2BIG)?;
    match size {
        0 => Ok(Body::xattr_size(len).into()),
        size if size < len => Err(Errno::ERANGE),
        _ => Ok(Answer::Bytes(value)),
    }
}

/// Sends a reply. A failure is not ours to handle: the caller was killed (ENOENT) or the mount is
/// gone, which the next read says.
pub(super) fn send(device: &FuseDevice, unique: u64, parts: &[&[u8]]) {
    let len = parts.iter().map(|part| part.len()).sum();
    let header = out_header(unique, 0, len);
    let written = match parts {
        [] => device.write(&[IoSlice::new(&header)]),
        [one] => device.write(&[IoSlice::new(&header), IoSlice::new(one)]),
        many => {
            let slices: Vec<_> = std::iter::once(&header[..])
                .chain(many.iter().copied())
                .map(IoSlice::new)
                .collect();
            device.write(&slices)
        }
    };
    let _ = written;
}

pub(super) fn send_error(device: &FuseDevice, unique: u64, error: Errno) {
    if error != errno::ENOSYS {
        counters().errors.increment();
    }
    let _ = device.write(&[IoSlice::new(&out_header(unique, error.0, 0))]);
}
