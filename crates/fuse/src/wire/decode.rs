//! Decoding of requests. Total: any bytes give a request or a typed refusal.

use super::request::{
    CopyFileRangeRequest, CreateRequest, FallocateRequest, Forgets, Groups, IN_HEADER_LEN,
    InitRequest, IoctlRequest, MknodRequest, Operation, ReadRequest, RenameRequest, Request,
    RequestHeader, SetattrRequest, SetxattrRequest, WriteRequest,
};
use super::{
    FsyncFlags, GetattrFlags, InitFlags, Opcode, ReleaseFlags, RenameFlags, SetattrFields,
    Timestamp, WriteFlags, XattrFlags,
};

/// What INIT settled about the layouts of later requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Dialect {
    /// SETXATTR has the longer layout (`InitFlags::SETXATTR_EXT` was accepted).
    pub extended_setxattr: bool,
}

impl Default for Dialect {
    fn default() -> Self {
        Self {
            extended_setxattr: true,
        }
    }
}

/// Why a message is no request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum WireError {
    /// Shorter than the header.
    #[error("a request of {have} bytes has no whole header")]
    NoHeader {
        /// Bytes read.
        have: usize,
    },
    /// The length in the header is not the number of bytes read.
    #[error("a request says {claimed} bytes, {have} were read")]
    Length {
        /// Length in the header.
        claimed: u32,
        /// Bytes read.
        have: usize,
    },
    /// The arguments end too early.
    #[error("request {opcode}: the arguments are cut off")]
    Truncated {
        /// Its operation.
        opcode: u32,
    },
    /// A name is empty, unterminated, or holds a slash.
    #[error("request {opcode}: not a name")]
    Name {
        /// Its operation.
        opcode: u32,
    },
    /// The extensions at the end do not fit the message.
    #[error("request {opcode}: extensions do not fit")]
    Extension {
        /// Its operation.
        opcode: u32,
    },
}

/// Reads fields one after the other.
#[derive(Clone, Copy)]
pub(super) struct Fields<'a> {
    rest: &'a [u8],
}

impl<'a> Fields<'a> {
    pub(super) fn new(bytes: &'a [u8]) -> Self {
        Self { rest: bytes }
    }

    fn bytes(&mut self, len: usize) -> Option<&'a [u8]> {
        let (head, rest) = self.rest.split_at_checked(len)?;
        self.rest = rest;
        Some(head)
    }

    fn array<const LEN: usize>(&mut self) -> Option<[u8; LEN]> {
        let (head, rest) = self.rest.split_first_chunk::<LEN>()?;
        self.rest = rest;
        Some(*head)
    }

    fn u16(&mut self) -> Option<u16> {
        self.array().map(u16::from_ne_bytes)
    }

    fn u32(&mut self) -> Option<u32> {
        self.array().map(u32::from_ne_bytes)
    }

    fn u64(&mut self) -> Option<u64> {
        self.array().map(u64::from_ne_bytes)
    }

    fn i64(&mut self) -> Option<i64> {
        self.array().map(i64::from_ne_bytes)
    }

    pub(super) fn u64_or_zero(&mut self) -> u64 {
        self.u64().unwrap_or(0)
    }

    /// Bytes up to a NUL, which is passed over.
    fn string(&mut self) -> Option<&'a [u8]> {
        let end = self.rest.iter().position(|byte| *byte == 0)?;
        let text = self.rest.get(..end)?;
        self.rest = self.rest.get(end + 1..)?;
        Some(text)
    }
}

/// Decodes the header alone: enough to refuse a request whose arguments make no sense.
///
/// # Errors
/// [`WireError::NoHeader`] when there are fewer bytes than a header has.
pub fn decode_header(message: &[u8]) -> Result<RequestHeader, WireError> {
    header(&mut Fields::new(message)).ok_or(WireError::NoHeader {
        have: message.len(),
    })
}

fn header(fields: &mut Fields<'_>) -> Option<RequestHeader> {
    let length = fields.u32()?;
    let opcode = fields.u32()?;
    let unique = fields.u64()?;
    let node = fields.u64()?;
    let uid = fields.u32()?;
    let gid = fields.u32()?;
    let pid = fields.u32()?;
    let extension_len = usize::from(fields.u16()?) * 8;
    fields.u16()?;
    Some(RequestHeader {
        length,
        opcode,
        unique,
        node,
        uid,
        gid,
        pid,
        extension_len,
    })
}

/// Decodes one message as it was read from the FUSE device.
///
/// # Errors
/// A [`WireError`] that says what is wrong; the request can be refused by [`decode_header`].
pub fn decode_request(message: &[u8], dialect: Dialect) -> Result<Request<'_>, WireError> {
    let header = decode_header(message)?;
    if usize::try_from(header.length) != Ok(message.len()) {
        return Err(WireError::Length {
            claimed: header.length,
            have: message.len(),
        });
    }
    let opcode = header.opcode;
    let body = message.get(IN_HEADER_LEN..).unwrap_or_default();
    let extension_error = WireError::Extension { opcode };
    let arguments_len = body
        .len()
        .checked_sub(header.extension_len)
        .ok_or(extension_error)?;
    let (arguments, extensions) = body
        .split_at_checked(arguments_len)
        .ok_or(extension_error)?;
    let groups = decode_groups(extensions).ok_or(extension_error)?;
    let mut arguments = Arguments {
        fields: Fields::new(arguments),
        bad_name: false,
        dialect,
    };
    let operation = match Opcode::from_number(opcode) {
        Some(known) => arguments.operation(known),
        None => Some(Operation::Unsupported),
    };
    match operation {
        Some(operation) => Ok(Request {
            header,
            operation,
            groups,
        }),
        None if arguments.bad_name => Err(WireError::Name { opcode }),
        None => Err(WireError::Truncated { opcode }),
    }
}

/// The supplementary groups among the extensions; unknown extensions are passed over.
fn decode_groups(extensions: &[u8]) -> Option<Groups<'_>> {
    const HEADER_LEN: usize = 8;
    const KIND_GROUPS: u32 = 32;
    let mut groups = Groups::default();
    let mut fields = Fields::new(extensions);
    while !fields.rest.is_empty() {
        let len = usize::try_from(fields.u32()?).ok()?;
        let kind = fields.u32()?;
        let body = fields.bytes(len.checked_sub(HEADER_LEN)?)?;
        let padding = len.next_multiple_of(8) - len;
        fields.bytes(padding.min(fields.rest.len()))?;
        if kind == KIND_GROUPS {
            let mut body = Fields::new(body);
            let count = usize::try_from(body.u32()?).ok()?;
            groups = Groups {
                bytes: body.bytes(count.checked_mul(4)?)?,
            };
        }
    }
    Some(groups)
}

struct Arguments<'a> {
    fields: Fields<'a>,
    bad_name: bool,
    dialect: Dialect,
}

impl<'a> Arguments<'a> {
    /// A name in a directory.
    fn name(&mut self) -> Option<&'a [u8]> {
        let name = self
            .fields
            .string()
            .filter(|name| !name.is_empty() && !name.contains(&b'/'));
        self.bad_name |= name.is_none();
        name
    }

    /// A terminated text that is not empty: link targets and attribute names.
    fn text(&mut self) -> Option<&'a [u8]> {
        let text = self.fields.string().filter(|text| !text.is_empty());
        self.bad_name |= text.is_none();
        text
    }

    fn operation(&mut self, opcode: Opcode) -> Option<Operation<'a>> {
        Some(match opcode {
            Opcode::Lookup => Operation::Lookup { name: self.name()? },
            Opcode::Forget => self.forget()?,
            Opcode::Getattr => self.getattr()?,
            Opcode::Setattr => Operation::Setattr(setattr(&mut self.fields)?),
            Opcode::Readlink => Operation::Readlink,
            Opcode::Symlink => self.symlink()?,
            Opcode::Mknod => Operation::Mknod(self.mknod()?),
            Opcode::Mkdir => self.mkdir()?,
            Opcode::Unlink => Operation::Unlink { name: self.name()? },
            Opcode::Rmdir => Operation::Rmdir { name: self.name()? },
            Opcode::Rename | Opcode::Rename2 => Operation::Rename(self.rename(opcode)?),
            Opcode::Link => self.link()?,
            Opcode::Open => self.open()?,
            Opcode::Create => Operation::Create(self.create()?),
            Opcode::Tmpfile => self.tmpfile()?,
            Opcode::Read => Operation::Read(self.read()?),
            Opcode::Write => Operation::Write(self.write()?),
            Opcode::Statfs => Operation::Statfs,
            Opcode::Release => self.release()?,
            Opcode::Fsync => self.fsync()?,
            Opcode::Setxattr => Operation::Setxattr(self.setxattr()?),
            Opcode::Getxattr => self.getxattr()?,
            Opcode::Listxattr => self.listxattr()?,
            Opcode::Removexattr => Operation::Removexattr { name: self.text()? },
            Opcode::Flush => self.flush()?,
            Opcode::Init => Operation::Init(self.init()?),
            Opcode::Opendir => self.opendir()?,
            Opcode::Readdir | Opcode::Readdirplus => self.readdir(opcode)?,
            Opcode::Releasedir => self.releasedir()?,
            Opcode::Fsyncdir => self.fsyncdir()?,
            Opcode::Access => self.access()?,
            Opcode::Interrupt => self.interrupt()?,
            Opcode::Destroy => Operation::Destroy,
            Opcode::Ioctl => Operation::Ioctl(self.ioctl()?),
            Opcode::BatchForget => self.batch_forget()?,
            Opcode::Fallocate => Operation::Fallocate(self.fallocate()?),
            Opcode::Lseek => self.lseek()?,
            Opcode::CopyFileRange => Operation::CopyFileRange(self.copy_file_range()?),
            Opcode::Syncfs => Operation::Syncfs,
            Opcode::Statx => self.statx()?,
            Opcode::Getlk
            | Opcode::Setlk
            | Opcode::Setlkw
            | Opcode::Bmap
            | Opcode::Poll
            | Opcode::NotifyReply
            | Opcode::SetupMapping
            | Opcode::RemoveMapping => Operation::Unsupported,
        })
    }

    fn init(&mut self) -> Option<InitRequest> {
        let fields = &mut self.fields;
        let (major, minor) = (fields.u32()?, fields.u32()?);
        let max_readahead = fields.u32().unwrap_or(0);
        let low = InitFlags::from_bits_retain(u64::from(fields.u32().unwrap_or(0)));
        let high = u64::from(fields.u32().unwrap_or(0));
        let flags = if low.contains(InitFlags::INIT_EXT) {
            InitFlags::from_bits_retain(low.bits() | high << 32)
        } else {
            low
        };
        Some(InitRequest {
            major,
            minor,
            max_readahead,
            flags,
        })
    }

    fn forget(&mut self) -> Option<Operation<'a>> {
        Some(Operation::Forget {
            lookups: self.fields.u64()?,
        })
    }

    fn batch_forget(&mut self) -> Option<Operation<'a>> {
        self.fields.u64()?;
        Some(Operation::BatchForget {
            forgets: Forgets {
                bytes: self.fields.rest,
            },
        })
    }

    fn interrupt(&mut self) -> Option<Operation<'a>> {
        Some(Operation::Interrupt {
            unique: self.fields.u64()?,
        })
    }

    fn symlink(&mut self) -> Option<Operation<'a>> {
        Some(Operation::Symlink {
            name: self.name()?,
            target: self.text()?,
        })
    }

    fn mknod(&mut self) -> Option<MknodRequest<'a>> {
        let (mode, device) = (self.fields.u32()?, self.fields.u32()?);
        let umask = self.fields.u32()?;
        self.fields.u32()?;
        Some(MknodRequest {
            name: self.name()?,
            mode,
            device,
            umask,
        })
    }

    fn mkdir(&mut self) -> Option<Operation<'a>> {
        let (mode, umask) = (self.fields.u32()?, self.fields.u32()?);
        Some(Operation::Mkdir {
            name: self.name()?,
            mode,
            umask,
        })
    }

    fn rename(&mut self, opcode: Opcode) -> Option<RenameRequest<'a>> {
        let new_directory = self.fields.u64()?;
        let mut flags = RenameFlags::empty();
        if opcode == Opcode::Rename2 {
            flags = RenameFlags::from_bits_retain(self.fields.u32()?);
            self.fields.u32()?;
        }
        let (name, new_name) = (self.name()?, self.name()?);
        Some(RenameRequest {
            name,
            new_directory,
            new_name,
            flags,
        })
    }

    fn link(&mut self) -> Option<Operation<'a>> {
        Some(Operation::Link {
            node: self.fields.u64()?,
            name: self.name()?,
        })
    }

    /// What CREATE and TMPFILE have in front: flags, mode, umask, and flags of the open.
    fn creation(&mut self) -> Option<[u32; 4]> {
        let fields = &mut self.fields;
        Some([fields.u32()?, fields.u32()?, fields.u32()?, fields.u32()?])
    }

    fn create(&mut self) -> Option<CreateRequest<'a>> {
        let [flags, mode, umask, open_flags] = self.creation()?;
        Some(CreateRequest {
            name: self.name()?,
            flags,
            mode,
            umask,
            kill_suidgid: open_flags & OPEN_KILL_SUIDGID != 0,
        })
    }

    fn tmpfile(&mut self) -> Option<Operation<'a>> {
        let [flags, mode, umask, _open_flags] = self.creation()?;
        Some(Operation::Tmpfile { flags, mode, umask })
    }

    fn setxattr(&mut self) -> Option<SetxattrRequest<'a>> {
        const ACL_KILL_SGID: u32 = 1;
        let size = usize::try_from(self.fields.u32()?).ok()?;
        let flags = XattrFlags::from_bits_retain(self.fields.u32()?);
        let mut kill_sgid = false;
        if self.dialect.extended_setxattr {
            kill_sgid = self.fields.u32()? & ACL_KILL_SGID != 0;
            self.fields.u32()?;
        }
        let name = self.text()?;
        Some(SetxattrRequest {
            name,
            value: self.fields.bytes(size)?,
            flags,
            kill_sgid,
        })
    }

    fn getxattr(&mut self) -> Option<Operation<'a>> {
        let size = self.fields.u32()?;
        self.fields.u32()?;
        Some(Operation::Getxattr {
            name: self.text()?,
            size,
        })
    }

    fn listxattr(&mut self) -> Option<Operation<'a>> {
        Some(Operation::Listxattr {
            size: self.fields.u32()?,
        })
    }

    fn opendir(&mut self) -> Option<Operation<'a>> {
        Some(Operation::Opendir {
            flags: self.fields.u32()?,
        })
    }

    fn readdir(&mut self, opcode: Opcode) -> Option<Operation<'a>> {
        let fields = &mut self.fields;
        Some(Operation::Readdir {
            handle: fields.u64()?,
            cookie: fields.u64()?,
            size: fields.u32()?,
            plus: opcode == Opcode::Readdirplus,
        })
    }

    fn releasedir(&mut self) -> Option<Operation<'a>> {
        Some(Operation::Releasedir {
            handle: self.fields.u64()?,
        })
    }

    /// Flags and a handle.
    fn getattr_fields(&mut self) -> Option<(GetattrFlags, u64)> {
        let flags = GetattrFlags::from_bits_retain(self.fields.u32()?);
        self.fields.u32()?;
        Some((flags, self.fields.u64()?))
    }

    fn getattr(&mut self) -> Option<Operation<'a>> {
        let (flags, handle) = self.getattr_fields()?;
        Some(Operation::Getattr { flags, handle })
    }

    fn statx(&mut self) -> Option<Operation<'a>> {
        let (flags, handle) = self.getattr_fields()?;
        self.fields.u32()?;
        Some(Operation::Statx {
            flags,
            handle,
            mask: self.fields.u32()?,
        })
    }

    fn access(&mut self) -> Option<Operation<'a>> {
        Some(Operation::Access {
            mask: self.fields.u32()?,
        })
    }

    fn open(&mut self) -> Option<Operation<'a>> {
        let (flags, open_flags) = (self.fields.u32()?, self.fields.u32()?);
        Some(Operation::Open {
            flags,
            kill_suidgid: open_flags & OPEN_KILL_SUIDGID != 0,
        })
    }

    fn read(&mut self) -> Option<ReadRequest> {
        let fields = &mut self.fields;
        let (handle, offset, size) = (fields.u64()?, fields.u64()?, fields.u32()?);
        let (_read_flags, _lock_owner) = (fields.u32()?, fields.u64()?);
        Some(ReadRequest {
            handle,
            offset,
            size,
            flags: fields.u32()?,
        })
    }

    fn write(&mut self) -> Option<WriteRequest<'a>> {
        let fields = &mut self.fields;
        let (handle, offset) = (fields.u64()?, fields.u64()?);
        let size = usize::try_from(fields.u32()?).ok()?;
        let write_flags = WriteFlags::from_bits_retain(fields.u32()?);
        let _lock_owner = fields.u64()?;
        let flags = fields.u32()?;
        fields.u32()?;
        Some(WriteRequest {
            handle,
            offset,
            data: fields.bytes(size)?,
            write_flags,
            flags,
        })
    }

    fn release(&mut self) -> Option<Operation<'a>> {
        let fields = &mut self.fields;
        Some(Operation::Release {
            handle: fields.u64()?,
            flags: fields.u32()?,
            release_flags: ReleaseFlags::from_bits_retain(fields.u32()?),
        })
    }

    fn fsync(&mut self) -> Option<Operation<'a>> {
        Some(Operation::Fsync {
            handle: self.fields.u64()?,
            flags: FsyncFlags::from_bits_retain(self.fields.u32()?),
        })
    }

    fn fsyncdir(&mut self) -> Option<Operation<'a>> {
        Some(Operation::Fsyncdir {
            handle: self.fields.u64()?,
            flags: FsyncFlags::from_bits_retain(self.fields.u32()?),
        })
    }

    fn flush(&mut self) -> Option<Operation<'a>> {
        Some(Operation::Flush {
            handle: self.fields.u64()?,
        })
    }

    fn fallocate(&mut self) -> Option<FallocateRequest> {
        let fields = &mut self.fields;
        Some(FallocateRequest {
            handle: fields.u64()?,
            offset: fields.u64()?,
            length: fields.u64()?,
            mode: fields.u32()?,
        })
    }

    fn lseek(&mut self) -> Option<Operation<'a>> {
        let fields = &mut self.fields;
        Some(Operation::Lseek {
            handle: fields.u64()?,
            offset: fields.u64()?,
            whence: fields.u32()?,
        })
    }

    fn copy_file_range(&mut self) -> Option<CopyFileRangeRequest> {
        let fields = &mut self.fields;
        Some(CopyFileRangeRequest {
            handle: fields.u64()?,
            offset: fields.u64()?,
            to_node: fields.u64()?,
            to_handle: fields.u64()?,
            to_offset: fields.u64()?,
            length: fields.u64()?,
            flags: fields.u64()?,
        })
    }

    fn ioctl(&mut self) -> Option<IoctlRequest<'a>> {
        let fields = &mut self.fields;
        let handle = fields.u64()?;
        let (flags, command) = (fields.u32()?, fields.u32()?);
        let argument = fields.u64()?;
        let (input_size, output_size) = (fields.u32()?, fields.u32()?);
        let input = fields.bytes(usize::try_from(input_size).ok()?)?;
        Some(IoctlRequest {
            handle,
            flags,
            command,
            argument,
            output_size,
            input,
        })
    }
}

/// In OPEN and CREATE: the truncation clears set-id bits.
const OPEN_KILL_SUIDGID: u32 = 1;

fn setattr(fields: &mut Fields<'_>) -> Option<SetattrRequest> {
    let valid = SetattrFields::from_bits_retain(fields.u32()?);
    fields.u32()?;
    let (handle, size) = (fields.u64()?, fields.u64()?);
    let _lock_owner = fields.u64()?;
    let seconds = [fields.i64()?, fields.i64()?, fields.i64()?];
    let nanoseconds = [fields.u32()?, fields.u32()?, fields.u32()?];
    let time = |index: usize| Timestamp {
        seconds: seconds.get(index).copied().unwrap_or(0),
        nanoseconds: nanoseconds.get(index).copied().unwrap_or(0),
    };
    let mode = fields.u32()?;
    fields.u32()?;
    let (uid, gid) = (fields.u32()?, fields.u32()?);
    fields.u32()?;
    let (atime, mtime, ctime) = (time(0), time(1), time(2));
    Some(SetattrRequest {
        fields: valid,
        handle,
        size,
        atime,
        mtime,
        ctime,
        mode,
        uid,
        gid,
    })
}
