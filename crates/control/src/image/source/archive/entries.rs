//! The entries of an archive, one after the other, with what the headers before them say of them.

use std::io;

use posix::{FileType, Timestamp};
use tar::{EntryType, Header};

use super::access_list;
use super::pax::Records;
use super::sparse::{self, Extents};
use super::spool::{Spool, cut_off};
use super::tree::Inode;
use crate::image::source::Found;

/// Archives are made of blocks of so many bytes.
pub(super) const BLOCK: u64 = 512;
/// The longest header of names or records that is believed.
const HEADER_BYTES_MAX: u64 = 16 << 20;

/// Names and values, in the order of the names.
type Attributes = Vec<(Vec<u8>, Vec<u8>)>;

/// What an entry is.
#[derive(Debug)]
pub(super) enum Kind {
    /// Something of its own.
    Node(FileType),
    /// Another name of the file that this path names.
    Link(Vec<u8>),
    /// What no file system has.
    Unknown(u8),
}

/// An entry.
#[derive(Debug)]
pub(super) struct Entry {
    pub(super) path: Vec<u8>,
    pub(super) kind: Kind,
    pub(super) inode: Inode,
    /// What of it cannot be kept.
    pub(super) problem: Option<String>,
}

/// An archive that is gone through.
pub(super) struct Entries<'a> {
    bytes: &'a Spool,
    at: u64,
    global: Records,
    long: Long,
}

/// What stands in front of an entry.
#[derive(Default)]
struct Long {
    path: Option<Vec<u8>>,
    target: Option<Vec<u8>>,
    records: Option<Records>,
}

fn malformed(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what)
}

impl<'a> Entries<'a> {
    pub(super) fn of(bytes: &'a Spool) -> Self {
        Self {
            bytes,
            at: 0,
            global: Records::default(),
            long: Long::default(),
        }
    }

    /// The next entry; none at the end.
    pub(super) fn next(&mut self) -> io::Result<Option<Entry>> {
        loop {
            let Some(header) = self.header()? else {
                return Ok(None);
            };
            let size = header
                .entry_size()
                .map_err(|_| malformed("a size is malformed"))?;
            match header.entry_type().as_byte() {
                b'L' => self.long.path = Some(self.name(size)?),
                b'K' => self.long.target = Some(self.name(size)?),
                b'x' => {
                    let content = self.content(size)?;
                    self.long.records.get_or_insert_default().add(&content)?;
                }
                b'g' => {
                    let content = self.content(size)?;
                    self.global.add(&content)?;
                }
                // The label of a volume is no file.
                b'V' => self.at = self.after(self.at, size)?,
                kind => return self.entry(&header, kind, size).map(Some),
            }
        }
    }

    /// The next header; none at the end of the archive.
    fn header(&mut self) -> io::Result<Option<Header>> {
        let mut header = Header::new_old();
        // An archive of nothing is one; nothing at all is none.
        if self.at >= self.bytes.length() && self.at > 0 {
            return Ok(None);
        }
        if self.bytes.length() < BLOCK {
            return Err(malformed("it is not a tar archive"));
        }
        self.bytes.read(header.as_mut_bytes(), self.at)?;
        if header.as_bytes().iter().all(|byte| *byte == 0) {
            return Ok(None);
        }
        if !is_header(&header) {
            let what = match self.at {
                0 => "it is not a tar archive".to_owned(),
                at => format!("the header at byte {at} is damaged"),
            };
            return Err(malformed(&what));
        }
        self.at += BLOCK;
        Ok(Some(header))
    }

    /// Where what follows `size` bytes begins.
    fn after(&self, at: u64, size: u64) -> io::Result<u64> {
        let end = at
            .checked_add(size)
            .filter(|end| *end <= self.bytes.length());
        // The padding of the last entry may be missing.
        Ok(end.ok_or_else(cut_off)?.next_multiple_of(BLOCK))
    }

    fn content(&mut self, size: u64) -> io::Result<Vec<u8>> {
        let next = self.after(self.at, size)?;
        if size > HEADER_BYTES_MAX {
            return Err(malformed("a header is too long"));
        }
        let mut content = vec![0; usize::try_from(size).unwrap_or(0)];
        self.bytes.read(&mut content, self.at)?;
        self.at = next;
        Ok(content)
    }

    fn name(&mut self, size: u64) -> io::Result<Vec<u8>> {
        let mut name = self.content(size)?;
        while name.last() == Some(&0) {
            name.pop();
        }
        Ok(name)
    }

    fn entry(&mut self, header: &Header, kind: u8, size: u64) -> io::Result<Entry> {
        let long = std::mem::take(&mut self.long);
        let records = long.records.unwrap_or_default().over(&self.global);
        let path = records
            .get("GNU.sparse.name")
            .or_else(|| records.get("path"));
        let path = path.map(ToOwned::to_owned).or(long.path);
        let path = path.unwrap_or_else(|| header.path_bytes().into_owned());
        let target = records
            .get("linkpath")
            .map(ToOwned::to_owned)
            .or(long.target);
        let target = target.or_else(|| header.link_name_bytes().map(std::borrow::Cow::into_owned));
        let target = target.unwrap_or_default();
        let size = records.number("size")?.unwrap_or(size);
        let kind = kind_of(kind, &path, &target);
        let mapped = self.body(header, &kind, &records, size)?;
        let number = |key, field: io::Result<u64>| -> io::Result<u32> {
            // Old archives leave fields empty.
            let value = records.number(key)?.unwrap_or_else(|| field.unwrap_or(0));
            u32::try_from(value).map_err(|_| malformed("an owner's number is too large"))
        };
        let field = |found: io::Result<Option<u32>>| found.ok().flatten().unwrap_or(0);
        let modified = records.time("mtime")?.unwrap_or(Timestamp {
            seconds: header.mtime().unwrap_or(0).cast_signed(),
            nanoseconds: 0,
        });
        let file_type = match kind {
            Kind::Node(file_type) => Some(file_type),
            Kind::Link(_) | Kind::Unknown(_) => None,
        };
        let is_device = matches!(
            kind,
            Kind::Node(FileType::CharacterDevice | FileType::BlockDevice)
        );
        let found = Found {
            file_type,
            permissions: if file_type == Some(FileType::Symlink) {
                0o777
            } else {
                header.mode().unwrap_or(0) & 0o7777
            },
            uid: number("uid", header.uid())?,
            gid: number("gid", header.gid())?,
            device: if is_device {
                (field(header.device_major()), field(header.device_minor()))
            } else {
                (0, 0)
            },
            size: mapped.size,
            modified,
            accessed: records.time("atime")?.unwrap_or(modified),
            identity: None,
        };
        let (attributes, problem) = attributes(&records);
        Ok(Entry {
            path,
            kind,
            inode: Inode {
                found,
                names: 0,
                target,
                extents: mapped.extents,
                attributes,
            },
            problem,
        })
    }

    /// Where the bytes of an entry lie; passes over them.
    fn body(
        &mut self,
        header: &Header,
        kind: &Kind,
        records: &Records,
        size: u64,
    ) -> io::Result<sparse::Mapped> {
        let place = self.at;
        match kind {
            Kind::Node(FileType::Regular) if header.entry_type() == EntryType::GNUSparse => {
                let map = sparse::of_header(header, self.bytes, place)?;
                self.at = self.after(map.place, size)?;
                return map.apply(size);
            }
            // Some archives say how long the file is, and some of these have it here once more.
            Kind::Link(_) if !self.is_followed_by_body(place, size) => {
                return Ok(sparse::Mapped::default());
            }
            Kind::Node(_) | Kind::Link(_) | Kind::Unknown(_) => {}
        }
        self.at = self.after(place, size)?;
        if !matches!(kind, Kind::Node(FileType::Regular)) {
            return Ok(sparse::Mapped::default());
        }
        let mapped = sparse::of_records(records, self.bytes, place, place + size)?;
        Ok(mapped.unwrap_or_else(|| sparse::Mapped {
            extents: Extents::whole(place, size),
            size,
        }))
    }

    fn is_followed_by_body(&self, place: u64, size: u64) -> bool {
        let mut header = Header::new_old();
        let read = self.bytes.read(header.as_mut_bytes(), place);
        let is_end = header.as_bytes().iter().all(|byte| *byte == 0);
        size > 0 && read.is_ok() && !is_end && !is_header(&header)
    }
}

/// Whether a block's sum is right.
fn is_header(header: &Header) -> bool {
    let sum = |add: fn(u32, u8) -> u32| {
        let bytes = header.as_bytes().iter().enumerate();
        bytes.fold(0, |sum, (at, byte)| {
            add(
                sum,
                if (148..156).contains(&at) {
                    b' '
                } else {
                    *byte
                },
            )
        })
    };
    // Some programs added the bytes as signed numbers.
    let unsigned = sum(|sum, byte| sum.wrapping_add(u32::from(byte)));
    let signed = sum(|sum, byte| sum.wrapping_add_signed(i32::from(byte.cast_signed())));
    header
        .cksum()
        .is_ok_and(|told| told == unsigned || told == signed)
}

fn kind_of(kind: u8, path: &[u8], target: &[u8]) -> Kind {
    match kind {
        // Before 1988 a directory was a file whose name ends so.
        b'0' if path.ends_with(b"/") => Kind::Node(FileType::Directory),
        b'0' | b'7' | b'S' => Kind::Node(FileType::Regular),
        b'1' => Kind::Link(target.to_vec()),
        b'2' => Kind::Node(FileType::Symlink),
        b'3' => Kind::Node(FileType::CharacterDevice),
        b'4' => Kind::Node(FileType::BlockDevice),
        // `D` has the names that an incremental archive's directory had.
        b'5' | b'D' => Kind::Node(FileType::Directory),
        b'6' => Kind::Node(FileType::Fifo),
        other => Kind::Unknown(other),
    }
}

/// Extended attributes and access lists.
fn attributes(records: &Records) -> (Attributes, Option<String>) {
    let mut found = std::collections::BTreeMap::new();
    let mut problem = None;
    for (key, value) in records.all() {
        if let Some(name) = key.strip_prefix(b"SCHILY.xattr.") {
            found.insert(name.to_vec(), value.to_vec());
        }
        let (list, is_default) = match key {
            b"SCHILY.acl.access" => ("system.posix_acl_access", false),
            b"SCHILY.acl.default" => ("system.posix_acl_default", true),
            _ => continue,
        };
        match access_list::encode(value, is_default) {
            Ok(None) => {}
            Ok(Some(list_bytes)) => {
                found.insert(list.as_bytes().to_vec(), list_bytes);
            }
            Err(reason) => problem = Some(format!("cannot keep its access list: {reason}")),
        }
    }
    (found.into_iter().collect(), problem)
}
