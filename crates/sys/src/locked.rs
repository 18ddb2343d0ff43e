//! Memory for keys: never swapped out, in no core dump, in no child, and zeroed before it is freed.

#![expect(
    unsafe_code,
    reason = "memory that the allocator does not know, with a value in it"
)]

use std::fmt;
use std::ops::{Deref, DerefMut};
use std::ptr::{self, NonNull};

use rustix::io::Errno;
use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mlock, mmap_anonymous, munmap};
use rustix::param::page_size;

/// A value in pages of its own that are locked into memory, left out of core dumps, and zeros in forked children.
/// When it is dropped the pages are zeroed. What `T` points to is elsewhere: keep values flat.
pub struct Locked<T> {
    value: NonNull<T>,
    len: usize,
}

// SAFETY: a `Locked` owns its value as a `Box` does; nothing else has the pointer.
unsafe impl<T: Send> Send for Locked<T> {}
// SAFETY: as above; a shared reference gives shared references to the value only.
unsafe impl<T: Sync> Sync for Locked<T> {}

impl<T> Locked<T> {
    /// Puts a value there that is made from nothing secret, to be filled in place.
    ///
    /// # Errors
    /// There is no memory, or no more of it may be locked (`RLIMIT_MEMLOCK`).
    pub fn new(value: T) -> Result<Self, Errno> {
        let len = size_of::<T>().max(1).next_multiple_of(page_size());
        if align_of::<T>() > page_size() {
            return Err(Errno::INVAL);
        }
        let access = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: a new anonymous mapping, at a place that the kernel chooses, disturbs nothing.
        let pages = unsafe { mmap_anonymous(ptr::null_mut(), len, access, MapFlags::PRIVATE) }?;
        let protect = || {
            // SAFETY: the range is the mapping that was just made.
            unsafe { mlock(pages, len) }?;
            for advice in [Advice::LinuxDontDump, Advice::LinuxWipeOnFork] {
                // SAFETY: as above; neither advice changes what this process sees there.
                unsafe { madvise(pages, len, advice) }?;
            }
            NonNull::new(pages.cast::<T>()).ok_or(Errno::NOMEM)
        };
        match protect() {
            Ok(place) => {
                // SAFETY: the pages are this long, writable, aligned for `T` (a page is) and hold no value yet.
                unsafe { place.write(value) };
                Ok(Self { value: place, len })
            }
            Err(error) => {
                // SAFETY: the mapping that was just made, which nobody refers to.
                let _ = unsafe { munmap(pages, len) };
                Err(error)
            }
        }
    }
}

impl<T> Deref for Locked<T> {
    type Target = T;

    fn deref(&self) -> &T {
        // SAFETY: the value was written when this was made, and lives until it is dropped.
        unsafe { self.value.as_ref() }
    }
}

impl<T> DerefMut for Locked<T> {
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: as above, and `self` is borrowed for as long as the answer.
        unsafe { self.value.as_mut() }
    }
}

impl<T> Drop for Locked<T> {
    fn drop(&mut self) {
        let pages = self.value.as_ptr().cast::<u8>();
        // SAFETY: the value is there and is not used after this.
        unsafe { ptr::drop_in_place(self.value.as_ptr()) };
        for index in 0..self.len {
            // SAFETY: the pages are ours, this long and writable. Volatile: or the compiler would leave it out.
            unsafe { pages.add(index).write_volatile(0) };
        }
        // SAFETY: the mapping is ours, and nothing refers to it any more. Unmapping unlocks it.
        let _ = unsafe { munmap(pages.cast(), self.len) };
    }
}

/// What is in it is nobody's business.
impl<T> fmt::Debug for Locked<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Locked")
    }
}

#[cfg(test)]
mod tests;
