//! Decoding of requests. Total: any bytes give a request or a typed refusal.

use super::request::{
    Forgets, Groups, IN_HEADER_LEN, InitRequest, Operation, Request, RequestHeader, SetattrRequest,
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
        match opcode {
            Opcode::Init => self.init(),
            Opcode::Destroy => Some(Operation::Destroy),
            Opcode::Lookup
            | Opcode::Symlink
            | Opcode::Mknod
            | Opcode::Mkdir
            | Opcode::Unlink
            | Opcode::Rmdir
            | Opcode::Rename
            | Opcode::Rename2
            | Opcode::Link
            | Opcode::Create
            | Opcode::Tmpfile => self.name_operation(opcode),
            Opcode::Setxattr | Opcode::Getxattr | Opcode::Listxattr | Opcode::Removexattr => {
                self.xattr_operation(opcode)
            }
            Opcode::Opendir | Opcode::Readdir | Opcode::Readdirplus | Opcode::Releasedir => {
                self.directory_operation(opcode)
            }
            Opcode::Forget => Some(Operation::Forget {
                lookups: self.fields.u64()?,
            }),
            Opcode::BatchForget => {
                self.fields.u64()?;
                Some(Operation::BatchForget {
                    forgets: Forgets {
                        bytes: self.fields.rest,
                    },
                })
            }
            Opcode::Getattr | Opcode::Statx | Opcode::Setattr | Opcode::Access => {
                self.attribute_operation(opcode)
            }
            Opcode::Readlink => Some(Operation::Readlink),
            Opcode::Statfs => Some(Operation::Statfs),
            Opcode::Syncfs => Some(Operation::Syncfs),
            Opcode::Interrupt => Some(Operation::Interrupt {
                unique: self.fields.u64()?,
            }),
            Opcode::Open
            | Opcode::Read
            | Opcode::Write
            | Opcode::Release
            | Opcode::Fsync
            | Opcode::Fsyncdir
            | Opcode::Flush => self.file_operation(opcode),
            Opcode::Fallocate | Opcode::Lseek | Opcode::CopyFileRange | Opcode::Ioctl => {
                self.range_operation(opcode)
            }
            Opcode::Getlk
            | Opcode::Setlk
            | Opcode::Setlkw
            | Opcode::Bmap
            | Opcode::Poll
            | Opcode::NotifyReply
            | Opcode::SetupMapping
            | Opcode::RemoveMapping => Some(Operation::Unsupported),
        }
    }

    fn init(&mut self) -> Option<Operation<'a>> {
        let fields = &mut self.fields;
        let (major, minor) = (fields.u32()?, fields.u32()?);
        let max_readahead = fields.u32().unwrap_or(0);
        let low = InitFlags(u64::from(fields.u32().unwrap_or(0)));
        let high = u64::from(fields.u32().unwrap_or(0));
        let flags = if low.has(InitFlags::INIT_EXT) {
            InitFlags(low.0 | high << 32)
        } else {
            low
        };
        Some(Operation::Init(InitRequest {
            major,
            minor,
            max_readahead,
            flags,
        }))
    }

    fn name_operation(&mut self, opcode: Opcode) -> Option<Operation<'a>> {
        Some(match opcode {
            Opcode::Lookup => Operation::Lookup { name: self.name()? },
            Opcode::Symlink => Operation::Symlink {
                name: self.name()?,
                target: self.text()?,
            },
            Opcode::Mknod => {
                let (mode, device) = (self.fields.u32()?, self.fields.u32()?);
                let umask = self.fields.u32()?;
                self.fields.u32()?;
                Operation::Mknod {
                    name: self.name()?,
                    mode,
                    device,
                    umask,
                }
            }
            Opcode::Mkdir => {
                let (mode, umask) = (self.fields.u32()?, self.fields.u32()?);
                Operation::Mkdir {
                    name: self.name()?,
                    mode,
                    umask,
                }
            }
            Opcode::Unlink => Operation::Unlink { name: self.name()? },
            Opcode::Rmdir => Operation::Rmdir { name: self.name()? },
            Opcode::Rename | Opcode::Rename2 => {
                let new_directory = self.fields.u64()?;
                let mut flags = RenameFlags::NONE;
                if opcode == Opcode::Rename2 {
                    flags = RenameFlags(self.fields.u32()?);
                    self.fields.u32()?;
                }
                let (name, new_name) = (self.name()?, self.name()?);
                Operation::Rename {
                    name,
                    new_directory,
                    new_name,
                    flags,
                }
            }
            Opcode::Link => Operation::Link {
                node: self.fields.u64()?,
                name: self.name()?,
            },
            Opcode::Create | Opcode::Tmpfile => {
                let (flags, mode) = (self.fields.u32()?, self.fields.u32()?);
                let (umask, open_flags) = (self.fields.u32()?, self.fields.u32()?);
                if opcode == Opcode::Tmpfile {
                    return Some(Operation::Tmpfile { flags, mode, umask });
                }
                let kill_suidgid = open_flags & OPEN_KILL_SUIDGID != 0;
                Operation::Create {
                    name: self.name()?,
                    flags,
                    mode,
                    umask,
                    kill_suidgid,
                }
            }
            _ => Operation::Unsupported,
        })
    }

    fn xattr_operation(&mut self, opcode: Opcode) -> Option<Operation<'a>> {
        const ACL_KILL_SGID: u32 = 1;
        Some(match opcode {
            Opcode::Setxattr => {
                let size = usize::try_from(self.fields.u32()?).ok()?;
                let flags = XattrFlags(self.fields.u32()?);
                let mut kill_sgid = false;
                if self.dialect.extended_setxattr {
                    kill_sgid = self.fields.u32()? & ACL_KILL_SGID != 0;
                    self.fields.u32()?;
                }
                let name = self.text()?;
                Operation::Setxattr {
                    name,
                    value: self.fields.bytes(size)?,
                    flags,
                    kill_sgid,
                }
            }
            Opcode::Getxattr => {
                let size = self.fields.u32()?;
                self.fields.u32()?;
                Operation::Getxattr {
                    name: self.text()?,
                    size,
                }
            }
            Opcode::Listxattr => Operation::Listxattr {
                size: self.fields.u32()?,
            },
            _ => Operation::Removexattr { name: self.text()? },
        })
    }

    fn directory_operation(&mut self, opcode: Opcode) -> Option<Operation<'a>> {
        let fields = &mut self.fields;
        Some(match opcode {
            Opcode::Opendir => Operation::Opendir {
                flags: fields.u32()?,
            },
            Opcode::Releasedir => Operation::Releasedir {
                handle: fields.u64()?,
            },
            _ => {
                let (handle, cookie, size) = (fields.u64()?, fields.u64()?, fields.u32()?);
                let plus = opcode == Opcode::Readdirplus;
                Operation::Readdir {
                    handle,
                    cookie,
                    size,
                    plus,
                }
            }
        })
    }

    fn attribute_operation(&mut self, opcode: Opcode) -> Option<Operation<'a>> {
        let fields = &mut self.fields;
        Some(match opcode {
            Opcode::Getattr | Opcode::Statx => {
                let flags = GetattrFlags(fields.u32()?);
                fields.u32()?;
                let handle = fields.u64()?;
                if opcode == Opcode::Getattr {
                    return Some(Operation::Getattr { flags, handle });
                }
                fields.u32()?;
                Operation::Statx {
                    flags,
                    handle,
                    mask: fields.u32()?,
                }
            }
            Opcode::Access => Operation::Access {
                mask: fields.u32()?,
            },
            _ => Operation::Setattr(setattr(fields)?),
        })
    }

    fn file_operation(&mut self, opcode: Opcode) -> Option<Operation<'a>> {
        let fields = &mut self.fields;
        if opcode == Opcode::Open {
            let (flags, open_flags) = (fields.u32()?, fields.u32()?);
            return Some(Operation::Open {
                flags,
                kill_suidgid: open_flags & OPEN_KILL_SUIDGID != 0,
            });
        }
        let handle = fields.u64()?;
        Some(match opcode {
            Opcode::Read => {
                let (offset, size) = (fields.u64()?, fields.u32()?);
                let (_read_flags, _lock_owner) = (fields.u32()?, fields.u64()?);
                Operation::Read {
                    handle,
                    offset,
                    size,
                    flags: fields.u32()?,
                }
            }
            Opcode::Write => {
                let (offset, size) = (fields.u64()?, usize::try_from(fields.u32()?).ok()?);
                let write_flags = WriteFlags(fields.u32()?);
                let _lock_owner = fields.u64()?;
                let flags = fields.u32()?;
                fields.u32()?;
                Operation::Write {
                    handle,
                    offset,
                    data: fields.bytes(size)?,
                    write_flags,
                    flags,
                }
            }
            Opcode::Release => {
                let flags = fields.u32()?;
                Operation::Release {
                    handle,
                    flags,
                    release_flags: ReleaseFlags(fields.u32()?),
                }
            }
            Opcode::Fsync => Operation::Fsync {
                handle,
                flags: FsyncFlags(fields.u32()?),
            },
            Opcode::Fsyncdir => Operation::Fsyncdir {
                handle,
                flags: FsyncFlags(fields.u32()?),
            },
            _ => Operation::Flush { handle },
        })
    }

    fn range_operation(&mut self, opcode: Opcode) -> Option<Operation<'a>> {
        let fields = &mut self.fields;
        let handle = fields.u64()?;
        Some(match opcode {
            Opcode::Fallocate => {
                let (offset, length) = (fields.u64()?, fields.u64()?);
                Operation::Fallocate {
                    handle,
                    offset,
                    length,
                    mode: fields.u32()?,
                }
            }
            Opcode::Lseek => {
                let offset = fields.u64()?;
                Operation::Lseek {
                    handle,
                    offset,
                    whence: fields.u32()?,
                }
            }
            Opcode::CopyFileRange => Operation::CopyFileRange {
                handle,
                offset: fields.u64()?,
                to_node: fields.u64()?,
                to_handle: fields.u64()?,
                to_offset: fields.u64()?,
                length: fields.u64()?,
                flags: fields.u64()?,
            },
            _ => {
                let (flags, command) = (fields.u32()?, fields.u32()?);
                let argument = fields.u64()?;
                let (input_size, output_size) = (fields.u32()?, fields.u32()?);
                let input = fields.bytes(usize::try_from(input_size).ok()?)?;
                Operation::Ioctl {
                    handle,
                    flags,
                    command,
                    argument,
                    output_size,
                    input,
                }
            }
        })
    }
}

/// In OPEN and CREATE: the truncation clears set-id bits.
const OPEN_KILL_SUIDGID: u32 = 1;

fn setattr(fields: &mut Fields<'_>) -> Option<SetattrRequest> {
    let valid = SetattrFields(fields.u32()?);
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
