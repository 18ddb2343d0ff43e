//! Memory that is zeroed when it is freed, for as long as somebody asks for it: libraries that know nothing of secrets
//! leave copies of them behind.

#![expect(unsafe_code, reason = "an allocator")]

use std::alloc::{GlobalAlloc, Layout};
use std::hint::black_box;
use std::sync::atomic::{AtomicUsize, Ordering};

/// How many ask.
static ASKED: AtomicUsize = AtomicUsize::new(0);

/// An allocator that zeroes what is given back to another, while somebody asks for it ([`with_freed_memory_wiped`]).
/// For the rest of the time it costs one load of a number for each block that is freed.
#[derive(Debug, Default)]
pub struct WipingAllocator<A>(A);

impl<A> WipingAllocator<A> {
    /// Above another allocator.
    pub const fn new(inner: A) -> Self {
        Self(inner)
    }
}

/// One who asks; a panic ends it, too.
struct Asking;

impl Drop for Asking {
    fn drop(&mut self) {
        ASKED.fetch_sub(1, Ordering::SeqCst);
    }
}

/// Calls what leaves secrets on the heap. What any thread frees meanwhile is zeroed, if the process has a
/// [`WipingAllocator`].
pub fn with_freed_memory_wiped<T>(call: impl FnOnce() -> T) -> T {
    ASKED.fetch_add(1, Ordering::SeqCst);
    let _until_then = Asking;
    call()
}

fn is_asked() -> bool {
    ASKED.load(Ordering::Relaxed) > 0
}

/// Zeroes a block.
///
/// # Safety
/// It is `len` bytes long, and nobody else uses it.
unsafe fn wipe(block: *mut u8, len: usize) {
    // SAFETY: the caller says so.
    unsafe { block.write_bytes(0, len) };
    // Or the compiler might leave out what nobody reads.
    black_box(block);
}

// SAFETY: each block is the inner allocator's, with the layout that it was asked for with.
unsafe impl<A: GlobalAlloc> GlobalAlloc for WipingAllocator<A> {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: as the caller's.
        unsafe { self.0.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: as the caller's.
        unsafe { self.0.alloc_zeroed(layout) }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        if is_asked() {
            // SAFETY: the block is that long, and the caller gives it up.
            unsafe { wipe(block, layout.size()) };
        }
        // SAFETY: as the caller's.
        unsafe { self.0.dealloc(block, layout) }
    }

    unsafe fn realloc(&self, block: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        if !is_asked() {
            // SAFETY: as the caller's.
            return unsafe { self.0.realloc(block, layout, size) };
        }
        // SAFETY: the caller says that `size` is not zero and no more than a layout may have.
        let wanted = unsafe { Layout::from_size_align_unchecked(size, layout.align()) };
        // SAFETY: the layout is sound, as above.
        let moved = unsafe { self.0.alloc(wanted) };
        if !moved.is_null() {
            // SAFETY: both blocks are at least that long, and one of them is new.
            unsafe { block.copy_to_nonoverlapping(moved, size.min(layout.size())) };
            // SAFETY: the caller gives it up, as there is another.
            unsafe { self.dealloc(block, layout) };
        }
        moved
    }
}

#[cfg(test)]
mod tests;
