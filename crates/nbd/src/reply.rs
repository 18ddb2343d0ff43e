//! Replies to requests, whole ones at a time.

use std::io::Write;

use base::lock::{LockClass, Mutex, rank};

use crate::Fault;
use crate::extents::Extent;
use crate::wire::{
    ALLOCATION_ID, CHUNK_BLOCK_STATUS, CHUNK_DATA, CHUNK_DONE, CHUNK_ERROR, CHUNK_HOLE,
    CHUNK_MAGIC, CHUNK_NONE, EINVAL, EIO, ENOSPC, EPERM, ESHUTDOWN, SIMPLE_REPLY_MAGIC,
    STATE_HOLE_ZERO, small,
};

/// Held with nothing beside it.
static OUTPUT: LockClass = LockClass::new("nbd.output", rank::LAST);

/// Writes replies, from any thread.
pub(crate) struct Replies<W> {
    output: Mutex<W>,
    structured: bool,
}

/// The number of a fault.
const fn number(fault: Fault) -> u32 {
    match fault {
        Fault::ReadOnly => EPERM,
        Fault::Io => EIO,
        Fault::NoSpace => ENOSPC,
        Fault::Invalid => EINVAL,
        Fault::Closing => ESHUTDOWN,
    }
}

impl<W: Write> Replies<W> {
    pub(crate) fn new(output: W, structured: bool) -> Self {
        Self {
            output: Mutex::new(&OUTPUT, output),
            structured,
        }
    }

    /// Whether they are structured.
    pub(crate) const fn are_structured(&self) -> bool {
        self.structured
    }

    /// What cannot be written is lost: the reader will find the connection ended.
    fn put(&self, parts: &[&[u8]]) {
        let mut output = self.output.lock();
        for part in parts {
            if output.write_all(part).is_err() {
                return;
            }
        }
        let _gone = output.flush();
    }

    fn chunk(&self, cookie: u64, (flags, kind): (u16, u16), parts: &[&[u8]]) {
        let length = parts.iter().map(|part| part.len()).sum();
        let mut head = CHUNK_MAGIC.to_be_bytes().to_vec();
        head.extend(flags.to_be_bytes());
        head.extend(kind.to_be_bytes());
        head.extend(cookie.to_be_bytes());
        head.extend(small(length).to_be_bytes());
        let whole: Vec<&[u8]> = std::iter::once(&*head)
            .chain(parts.iter().copied())
            .collect();
        self.put(&whole);
    }

    fn simple(&self, cookie: u64, error: u32, data: &[u8]) {
        let mut head = SIMPLE_REPLY_MAGIC.to_be_bytes().to_vec();
        head.extend(error.to_be_bytes());
        head.extend(cookie.to_be_bytes());
        self.put(&[&head, data]);
    }

    /// It is done, or why not; of what has no data.
    pub(crate) fn done(&self, cookie: u64, outcome: Result<(), Fault>) {
        match outcome {
            Ok(()) if self.structured => self.chunk(cookie, (CHUNK_DONE, CHUNK_NONE), &[]),
            Ok(()) => self.simple(cookie, 0, &[]),
            Err(fault) => self.failed(cookie, fault),
        }
    }

    /// Why it is not done.
    pub(crate) fn failed(&self, cookie: u64, fault: Fault) {
        if !self.structured {
            return self.simple(cookie, number(fault), &[]);
        }
        let mut error = number(fault).to_be_bytes().to_vec();
        error.extend(0_u16.to_be_bytes());
        self.chunk(cookie, (CHUNK_DONE, CHUNK_ERROR), &[&error]);
    }

    /// What was read, as a whole.
    pub(crate) fn data(&self, cookie: u64, offset: u64, data: &[u8]) {
        if self.structured {
            let parts = [&offset.to_be_bytes()[..], data];
            self.chunk(cookie, (CHUNK_DONE, CHUNK_DATA), &parts);
        } else {
            self.simple(cookie, 0, data);
        }
    }

    /// A part of what was read, of several.
    pub(crate) fn part(&self, cookie: u64, extent: &Extent, data: &[u8], is_last: bool) {
        let flags = if is_last { CHUNK_DONE } else { 0 };
        let offset = extent.offset.to_be_bytes();
        if extent.is_hole {
            let length = u32::try_from(extent.length).unwrap_or(u32::MAX);
            let parts = [&offset[..], &length.to_be_bytes()];
            self.chunk(cookie, (flags, CHUNK_HOLE), &parts);
        } else {
            self.chunk(cookie, (flags, CHUNK_DATA), &[&offset, data]);
        }
    }

    /// Where data and holes are.
    pub(crate) fn states(&self, cookie: u64, extents: &[Extent]) {
        let mut states = ALLOCATION_ID.to_be_bytes().to_vec();
        for extent in extents {
            let length = u32::try_from(extent.length).unwrap_or(u32::MAX);
            let state = if extent.is_hole { STATE_HOLE_ZERO } else { 0 };
            states.extend(length.to_be_bytes());
            states.extend(state.to_be_bytes());
        }
        self.chunk(cookie, (CHUNK_DONE, CHUNK_BLOCK_STATUS), &[&states]);
    }
}
