//! Blocks of memory: aligned for direct I/O, refcounted, reused.
//!
//! A [`BufferMut`] has one owner and is written; [`BufferMut::freeze`] makes it a [`Buffer`], which
//! is shared and read. Freed memory of a size class goes to a pool that is bounded in bytes.

#![allow(
    unsafe_code,
    reason = "memory is lent by hand here; each block has its argument"
)]

mod pool;

use std::fmt;
use std::ops::{Deref, DerefMut, Range};
use std::sync::Arc;

use pool::Allocation;
pub use pool::{BufferPoolStats, buffer_pool_stats, set_buffer_pool_limit};

/// An immutable block of bytes; clones share the memory.
#[derive(Clone)]
pub struct Buffer {
    allocation: Arc<Allocation>,
    start: usize,
    len: usize,
}

/// A block of bytes with one owner.
pub struct BufferMut {
    /// Nobody else has a reference to it: that is what makes writing through its pointer sound.
    allocation: Arc<Allocation>,
    len: usize,
}

impl BufferMut {
    /// `len` zero bytes.
    #[must_use]
    pub fn zeroed(len: usize) -> Self {
        let (allocation, fresh) = Allocation::take(len);
        let mut buffer = Self {
            allocation: Arc::new(allocation),
            len,
        };
        if !fresh {
            buffer.fill(0);
        }
        buffer
    }

    /// `len` bytes of any content: for memory that is about to be overwritten whole.
    #[must_use]
    pub fn scratch(len: usize) -> Self {
        let (allocation, _) = Allocation::take(len);
        Self {
            allocation: Arc::new(allocation),
            len,
        }
    }

    /// A copy of `bytes`.
    #[must_use]
    pub fn from_slice(bytes: &[u8]) -> Self {
        let mut buffer = Self::scratch(bytes.len());
        buffer.copy_from_slice(bytes);
        buffer
    }

    /// The same bytes, from now on shared and immutable.
    #[must_use]
    pub fn freeze(self) -> Buffer {
        Buffer {
            allocation: self.allocation,
            start: 0,
            len: self.len,
        }
    }

    /// Shortens the block to `len` bytes; longer is ignored.
    pub fn truncate(&mut self, len: usize) {
        self.len = self.len.min(len);
    }
}

impl Deref for BufferMut {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        // SAFETY: `len` never exceeds the allocation's capacity (`take` gives at least the length
        // asked for, `truncate` only shrinks); the memory was zeroed when first allocated, so all
        // of it is initialised; it lives as long as `self.allocation`.
        unsafe { std::slice::from_raw_parts(self.allocation.pointer(), self.len) }
    }
}

impl DerefMut for BufferMut {
    fn deref_mut(&mut self) -> &mut [u8] {
        // SAFETY: as in `deref`; and the `Arc` is not shared (private field, created unique by the
        // constructors and `Buffer::try_into_mut`), so `&mut self` is the only way to the bytes.
        unsafe { std::slice::from_raw_parts_mut(self.allocation.pointer(), self.len) }
    }
}

impl fmt::Debug for BufferMut {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "BufferMut({} bytes)", self.len)
    }
}

impl Buffer {
    /// `len` zero bytes.
    #[must_use]
    pub fn zeroed(len: usize) -> Self {
        BufferMut::zeroed(len).freeze()
    }

    /// A copy of `bytes`.
    #[must_use]
    pub fn from_slice(bytes: &[u8]) -> Self {
        BufferMut::from_slice(bytes).freeze()
    }

    /// The bytes of `range`, sharing this buffer's memory.
    ///
    /// # Panics
    /// If `range` is not inside the buffer.
    #[must_use]
    pub fn slice(&self, range: Range<usize>) -> Self {
        assert!(
            range.start <= range.end && range.end <= self.len,
            "slice outside its buffer"
        );
        Self {
            allocation: Arc::clone(&self.allocation),
            start: self.start + range.start,
            len: range.end - range.start,
        }
    }

    /// The bytes for writing, without a copy if nobody shares them; else this gives itself back.
    ///
    /// # Errors
    /// The buffer, if its memory is shared or it is a part of a larger one.
    pub fn try_into_mut(mut self) -> Result<BufferMut, Self> {
        if self.start == 0 && Arc::get_mut(&mut self.allocation).is_some() {
            Ok(BufferMut {
                allocation: self.allocation,
                len: self.len,
            })
        } else {
            Err(self)
        }
    }

    /// The bytes for writing; copied first if they are shared.
    pub fn make_mut(&mut self) -> &mut [u8] {
        if Arc::get_mut(&mut self.allocation).is_none() {
            *self = Self::from_slice(self);
        }
        // SAFETY: the range lies inside the allocation (see `deref`), and the `Arc` is not shared:
        // it was checked above or is fresh. `&mut self` is then the only way to the bytes.
        unsafe {
            std::slice::from_raw_parts_mut(self.allocation.pointer().add(self.start), self.len)
        }
    }

    /// Whether another buffer shares this one's memory.
    #[must_use]
    pub fn is_shared(&self) -> bool {
        Arc::strong_count(&self.allocation) > 1
    }

    /// How many bytes of memory the buffer keeps alive: what a cache must account for.
    #[must_use]
    pub fn memory_size(&self) -> usize {
        self.allocation.capacity()
    }

    /// Gives the pages of a long run of zeros at the end back to the system: they are zeros still, and take memory
    /// again where somebody writes. How many bytes that were.
    #[must_use]
    pub fn release_zeros(&self) -> usize {
        let used = self
            .iter()
            .rposition(|byte| *byte != 0)
            .map_or(0, |at| at + 1);
        self.allocation
            .release_zeros(self.start + used..self.start + self.len)
    }

    /// Whether both are the same bytes of the same memory.
    #[must_use]
    pub fn same_memory(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.allocation, &other.allocation)
            && self.start == other.start
            && self.len == other.len
    }
}

impl Deref for Buffer {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        // SAFETY: `start + len` never exceeds the allocation's capacity (`freeze` starts with a
        // valid length, `slice` checks); all memory is initialised (see `BufferMut::deref`); while
        // `self` is borrowed nobody writes: `make_mut` and `BufferMut` need an unshared `Arc`.
        unsafe { std::slice::from_raw_parts(self.allocation.pointer().add(self.start), self.len) }
    }
}

impl AsRef<[u8]> for Buffer {
    fn as_ref(&self) -> &[u8] {
        self
    }
}

impl From<BufferMut> for Buffer {
    fn from(buffer: BufferMut) -> Self {
        buffer.freeze()
    }
}

impl From<&[u8]> for Buffer {
    fn from(bytes: &[u8]) -> Self {
        Self::from_slice(bytes)
    }
}

impl Default for Buffer {
    fn default() -> Self {
        Self::zeroed(0)
    }
}

impl PartialEq for Buffer {
    fn eq(&self, other: &Self) -> bool {
        **self == **other
    }
}

impl Eq for Buffer {}

impl fmt::Debug for Buffer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Buffer({} bytes)", self.len)
    }
}

#[cfg(test)]
mod tests;
