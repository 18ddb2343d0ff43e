//! Encoding of replies. A reply is the header of 16 bytes, then a body: a [`Body`] of fixed size,
//! a [`DirectoryBuffer`], or plain data, sent with one vectored write.

use super::{InitFlags, OpenReplyFlags, PROTOCOL_MAJOR, PROTOCOL_MINOR};
use std::time::Duration;

/// Length of the header in front of every reply and notification.
pub const OUT_HEADER_LEN: usize = 16;

/// The header of a reply whose body has `body_len` bytes; `error` is an errno, or 0.
#[must_use]
pub fn out_header(unique: u64, error: i32, body_len: usize) -> [u8; OUT_HEADER_LEN] {
    let len = u32::try_from(OUT_HEADER_LEN.saturating_add(body_len)).unwrap_or(u32::MAX);
    let mut header = [0; OUT_HEADER_LEN];
    let (sizes, id) = header.split_at_mut(8);
    let (len_field, error_field) = sizes.split_at_mut(4);
    len_field.copy_from_slice(&len.to_ne_bytes());
    error_field.copy_from_slice(&error.saturating_abs().saturating_neg().to_ne_bytes());
    id.copy_from_slice(&unique.to_ne_bytes());
    header
}

/// A point in time, in seconds and nanoseconds since 1970.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Timestamp {
    /// Whole seconds; negative before 1970.
    pub seconds: i64,
    /// Nanoseconds after them.
    pub nanoseconds: u32,
}

/// What kind of file a node is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileKind {
    /// A FIFO.
    Fifo,
    /// A character device.
    CharacterDevice,
    /// A directory.
    Directory,
    /// A block device.
    BlockDevice,
    /// A regular file.
    Regular,
    /// A symbolic link.
    SymbolicLink,
    /// A socket.
    Socket,
    /// Something else; listings show it as unknown.
    Unknown,
}

impl FileKind {
    /// The kind in a mode's upper bits.
    #[must_use]
    pub const fn from_mode(mode: u32) -> Self {
        match (mode >> 12) & 0xF {
            1 => Self::Fifo,
            2 => Self::CharacterDevice,
            4 => Self::Directory,
            6 => Self::BlockDevice,
            8 => Self::Regular,
            10 => Self::SymbolicLink,
            12 => Self::Socket,
            _ => Self::Unknown,
        }
    }

    /// The number in a listing (`DT_*`).
    #[must_use]
    pub const fn listing_number(self) -> u32 {
        match self {
            Self::Fifo => 1,
            Self::CharacterDevice => 2,
            Self::Directory => 4,
            Self::BlockDevice => 6,
            Self::Regular => 8,
            Self::SymbolicLink => 10,
            Self::Socket => 12,
            Self::Unknown => 0,
        }
    }
}

/// Attributes as stat(2) shows them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Attributes {
    /// Inode number shown.
    pub inode: u64,
    /// Length in bytes.
    pub size: u64,
    /// Space used, in units of 512 bytes.
    pub blocks: u64,
    /// Access time.
    pub atime: Timestamp,
    /// Modification time.
    pub mtime: Timestamp,
    /// Change time.
    pub ctime: Timestamp,
    /// Birth time; only STATX shows it.
    pub birth_time: Timestamp,
    /// Kind and permissions.
    pub mode: u32,
    /// Number of links.
    pub links: u32,
    /// Owner.
    pub uid: u32,
    /// Group.
    pub gid: u32,
    /// Device number as [`device_number_to_wire`] makes it.
    pub device: u32,
    /// Preferred I/O size.
    pub block_size: u32,
}

/// How long the kernel may believe what it was told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timeouts {
    /// A name's meaning.
    pub entry: Duration,
    /// A node's attributes.
    pub attributes: Duration,
}

/// A node found or made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EntryReply {
    /// Its node id; 0 says that there is none, cacheable for the entry timeout.
    pub node: u64,
    /// Differs when the node id is used again for another file.
    pub generation: u64,
    /// How long this stays true.
    pub timeouts: Timeouts,
    /// Its attributes.
    pub attributes: Attributes,
}

/// Sizes of a file system, as statvfs(3) has them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StatfsReply {
    /// Size in fragments.
    pub blocks: u64,
    /// Free fragments.
    pub blocks_free: u64,
    /// Free fragments for ordinary users.
    pub blocks_available: u64,
    /// Objects there can be.
    pub files: u64,
    /// Objects that can still be made.
    pub files_free: u64,
    /// Preferred I/O size.
    pub block_size: u32,
    /// The longest name.
    pub name_len_max: u32,
    /// Size of a fragment.
    pub fragment_size: u32,
}

/// Our side of INIT.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InitReply {
    /// Longest read-ahead in bytes.
    pub max_readahead: u32,
    /// What both sides can.
    pub flags: InitFlags,
    /// Asynchronous requests (read-ahead, write-back) in flight at once.
    pub max_background: u16,
    /// From how many on the kernel calls the connection congested.
    pub congestion_threshold: u16,
    /// Longest write in bytes.
    pub max_write: u32,
    /// Granularity of times in nanoseconds.
    pub time_granularity_ns: u32,
    /// Most pages of one request.
    pub max_pages: u16,
}

const BODY_LEN_MAX: usize = 288;

/// A reply body of fixed layout.
#[derive(Clone, Copy)]
pub struct Body {
    bytes: [u8; BODY_LEN_MAX],
    len: usize,
}

impl Body {
    fn new() -> Self {
        Self {
            bytes: [0; BODY_LEN_MAX],
            len: 0,
        }
    }

    /// An answer without a body.
    #[must_use]
    pub fn empty() -> Self {
        Self::new()
    }

    /// The encoded bytes.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        self.bytes.get(..self.len).unwrap_or_default()
    }

    /// Appends; what would not fit is left out (no layout here comes near the limit).
    fn put(&mut self, bytes: &[u8]) -> &mut Self {
        let end = self.len.saturating_add(bytes.len());
        if let Some(place) = self.bytes.get_mut(self.len..end) {
            place.copy_from_slice(bytes);
            self.len = end;
        }
        self
    }

    fn u16(&mut self, value: u16) -> &mut Self {
        self.put(&value.to_ne_bytes())
    }

    fn u32(&mut self, value: u32) -> &mut Self {
        self.put(&value.to_ne_bytes())
    }

    fn u64(&mut self, value: u64) -> &mut Self {
        self.put(&value.to_ne_bytes())
    }

    fn i64(&mut self, value: i64) -> &mut Self {
        self.put(&value.to_ne_bytes())
    }

    fn zeros(&mut self, count: usize) -> &mut Self {
        self.len = self.len.saturating_add(count).min(BODY_LEN_MAX);
        self
    }

    fn attributes(&mut self, attributes: &Attributes) -> &mut Self {
        let Attributes {
            atime,
            mtime,
            ctime,
            ..
        } = attributes;
        self.u64(attributes.inode)
            .u64(attributes.size)
            .u64(attributes.blocks);
        self.i64(atime.seconds)
            .i64(mtime.seconds)
            .i64(ctime.seconds);
        self.u32(atime.nanoseconds)
            .u32(mtime.nanoseconds)
            .u32(ctime.nanoseconds);
        self.u32(attributes.mode).u32(attributes.links);
        self.u32(attributes.uid).u32(attributes.gid);
        self.u32(attributes.device)
            .u32(attributes.block_size)
            .u32(0)
    }

    fn entry_fields(&mut self, entry: &EntryReply) -> &mut Self {
        let Timeouts {
            entry: name_valid,
            attributes: attributes_valid,
        } = entry.timeouts;
        self.u64(entry.node).u64(entry.generation);
        self.u64(name_valid.as_secs())
            .u64(attributes_valid.as_secs());
        self.u32(name_valid.subsec_nanos())
            .u32(attributes_valid.subsec_nanos());
        self.attributes(&entry.attributes)
    }

    fn open_fields(&mut self, handle: u64, flags: OpenReplyFlags) -> &mut Self {
        self.u64(handle).u32(flags.bits()).u32(0)
    }

    /// LOOKUP, MKNOD, MKDIR, SYMLINK, LINK.
    #[must_use]
    pub fn entry(entry: &EntryReply) -> Self {
        *Self::new().entry_fields(entry)
    }

    /// GETATTR, SETATTR.
    #[must_use]
    pub fn attribute(attributes: &Attributes, valid: Duration) -> Self {
        let mut body = Self::new();
        body.u64(valid.as_secs()).u32(valid.subsec_nanos()).u32(0);
        *body.attributes(attributes)
    }

    /// STATX: everything that stat shows, and the birth time.
    #[must_use]
    pub fn statx(attributes: &Attributes, valid: Duration) -> Self {
        const BASIC_STATS_AND_BIRTH_TIME: u32 = 0xFFF;
        let mut body = Self::new();
        body.u64(valid.as_secs())
            .u32(valid.subsec_nanos())
            .u32(0)
            .zeros(16);
        body.u32(BASIC_STATS_AND_BIRTH_TIME)
            .u32(attributes.block_size)
            .u64(0);
        body.u32(attributes.links)
            .u32(attributes.uid)
            .u32(attributes.gid);
        body.u16(u16::try_from(attributes.mode & 0xFFFF).unwrap_or(0))
            .u16(0);
        body.u64(attributes.inode)
            .u64(attributes.size)
            .u64(attributes.blocks)
            .u64(0);
        for time in [
            attributes.atime,
            attributes.birth_time,
            attributes.ctime,
            attributes.mtime,
        ] {
            body.i64(time.seconds).u32(time.nanoseconds).u32(0);
        }
        let (major, minor) = device_number_from_wire(attributes.device);
        *body.u32(major).u32(minor).zeros(8 + 14 * 8)
    }

    /// OPEN, OPENDIR.
    #[must_use]
    pub fn open(handle: u64, flags: OpenReplyFlags) -> Self {
        *Self::new().open_fields(handle, flags)
    }

    /// CREATE, TMPFILE.
    #[must_use]
    pub fn create(entry: &EntryReply, handle: u64, flags: OpenReplyFlags) -> Self {
        *Self::new().entry_fields(entry).open_fields(handle, flags)
    }

    /// WRITE, COPY_FILE_RANGE: bytes taken.
    #[must_use]
    pub fn written(count: u32) -> Self {
        *Self::new().u32(count).u32(0)
    }

    /// GETXATTR and LISTXATTR of size 0: bytes there are.
    #[must_use]
    pub fn xattr_size(size: u32) -> Self {
        Self::written(size)
    }

    /// LSEEK: where it is.
    #[must_use]
    pub fn seek(offset: u64) -> Self {
        *Self::new().u64(offset)
    }

    /// STATFS.
    #[must_use]
    pub fn statfs(sizes: &StatfsReply) -> Self {
        let mut body = Self::new();
        body.u64(sizes.blocks)
            .u64(sizes.blocks_free)
            .u64(sizes.blocks_available);
        body.u64(sizes.files).u64(sizes.files_free);
        body.u32(sizes.block_size)
            .u32(sizes.name_len_max)
            .u32(sizes.fragment_size);
        *body.zeros(4 + 6 * 4)
    }

    /// IOCTL with its result; output data follows separately.
    #[must_use]
    pub fn ioctl(result: i32) -> Self {
        *Self::new().put(&result.to_ne_bytes()).u32(0).u32(0).u32(0)
    }

    /// INIT.
    #[must_use]
    pub fn init(reply: &InitReply) -> Self {
        let low = u32::try_from(reply.flags.bits() & 0xFFFF_FFFF).unwrap_or(0);
        let high = u32::try_from(reply.flags.bits() >> 32).unwrap_or(0);
        let mut body = Self::new();
        body.u32(PROTOCOL_MAJOR)
            .u32(PROTOCOL_MINOR)
            .u32(reply.max_readahead)
            .u32(low);
        body.u16(reply.max_background)
            .u16(reply.congestion_threshold);
        body.u32(reply.max_write).u32(reply.time_granularity_ns);
        body.u16(reply.max_pages).u16(0).u32(high);
        *body.zeros(4 + 6 * 4)
    }
}

/// A listing under construction, never longer than the kernel asked for.
#[derive(Debug)]
pub struct DirectoryBuffer {
    bytes: Vec<u8>,
    limit: usize,
    plus: bool,
    mark: u64,
    without_attributes: Vec<u64>,
}

const DIRENT_LEN: usize = 24;
const ENTRY_LEN: usize = 128;

impl DirectoryBuffer {
    /// An empty listing of at most `limit` bytes; `plus`: entries carry attributes.
    #[must_use]
    pub fn new(limit: usize, plus: bool) -> Self {
        Self {
            bytes: Vec::new(),
            limit,
            plus,
            mark: 0,
            without_attributes: Vec::new(),
        }
    }

    /// Sets bits in every node id and inode number that follows; the attributes of the nodes in
    /// `without_attributes` (ids without the bits) are left out.
    pub fn mark(&mut self, mark: u64, without_attributes: Vec<u64>) {
        self.mark = mark;
        self.without_attributes = without_attributes;
    }

    /// Whether entries carry attributes.
    #[must_use]
    pub const fn is_plus(&self) -> bool {
        self.plus
    }

    /// Whether a name of this length still fits: to be asked before references are counted.
    #[must_use]
    pub fn has_room(&self, name_len: usize) -> bool {
        let fixed = if self.plus {
            ENTRY_LEN + DIRENT_LEN
        } else {
            DIRENT_LEN
        };
        let len = fixed.saturating_add(name_len).next_multiple_of(8);
        self.bytes.len().saturating_add(len) <= self.limit
    }

    /// Appends a name; `next_cookie` is where a listing continues after it. False: no room.
    /// In a listing with attributes, `entry` carries them; none means that the kernel must ask.
    pub fn push(
        &mut self,
        (inode, kind): (u64, FileKind),
        next_cookie: u64,
        name: &[u8],
        entry: Option<&EntryReply>,
    ) -> bool {
        let Ok(name_len) = u32::try_from(name.len()) else {
            return false;
        };
        if !self.has_room(name.len()) {
            return false;
        }
        if self.bytes.capacity() == 0 {
            self.bytes.reserve_exact(self.limit.min(1 << 20));
        }
        if self.plus {
            match entry.filter(|entry| !self.without_attributes.contains(&entry.node)) {
                Some(entry) => {
                    let mut entry = *entry;
                    entry.node |= self.mark;
                    entry.attributes.inode |= self.mark;
                    self.bytes.extend_from_slice(Body::entry(&entry).as_bytes());
                }
                None => self.bytes.extend_from_slice(&[0; ENTRY_LEN]),
            }
        }
        let inode = inode | self.mark;
        self.bytes.extend_from_slice(&inode.to_ne_bytes());
        self.bytes.extend_from_slice(&next_cookie.to_ne_bytes());
        self.bytes.extend_from_slice(&name_len.to_ne_bytes());
        self.bytes
            .extend_from_slice(&kind.listing_number().to_ne_bytes());
        self.bytes.extend_from_slice(name);
        self.bytes.resize(self.bytes.len().next_multiple_of(8), 0);
        true
    }

    /// The encoded bytes.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes
    }
}

/// A device number as requests and attributes carry it.
#[must_use]
pub const fn device_number_to_wire(major: u32, minor: u32) -> u32 {
    (minor & 0xFF) | ((major & 0xFFF) << 8) | ((minor & 0xF_FF00) << 12)
}

/// Major and minor number from the form that requests and attributes carry.
#[must_use]
pub const fn device_number_from_wire(device: u32) -> (u32, u32) {
    (
        (device >> 8) & 0xFFF,
        (device & 0xFF) | ((device >> 12) & 0xF_FF00),
    )
}
