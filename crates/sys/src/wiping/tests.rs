#![expect(unsafe_code, reason = "an allocator is called")]

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicUsize, Ordering};

use super::{WipingAllocator, with_freed_memory_wiped};

/// Counts bytes of blocks that are given back with something in them.
#[derive(Default)]
struct Watching {
    left: AtomicUsize,
}

// SAFETY: the system's allocator does all of it.
unsafe impl GlobalAlloc for Watching {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: as the caller's.
        unsafe { System.alloc(layout) }
    }
    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        // SAFETY: the block is that long, and was written.
        let bytes = unsafe { std::slice::from_raw_parts(block, layout.size()) };
        let left = bytes.iter().filter(|byte| **byte != 0).count();
        self.left.fetch_add(left, Ordering::SeqCst);
        // SAFETY: as the caller's.
        unsafe { System.dealloc(block, layout) }
    }
}

/// Fills a block, lets it grow, and frees it; what was left in blocks that were given back, and what it had grown to.
fn bytes_left() -> (usize, Vec<u8>) {
    let allocator = WipingAllocator::new(Watching::default());
    let small = Layout::new::<[u8; 64]>();
    let large = Layout::new::<[u8; 256]>();
    // SAFETY: no layout is empty, each block has the one that it was made with, and is not used after it is freed.
    let grown = unsafe {
        let block = allocator.alloc(small);
        block.write_bytes(7, small.size());
        let block = allocator.realloc(block, small, large.size());
        block
            .add(small.size())
            .write_bytes(9, large.size() - small.size());
        let grown = std::slice::from_raw_parts(block, large.size()).to_vec();
        allocator.dealloc(block, large);
        grown
    };
    (allocator.0.left.load(Ordering::SeqCst), grown)
}

#[test]
fn what_is_freed_is_zeroed_while_somebody_asks() {
    let mut wanted = vec![7; 64];
    wanted.extend([9; 192]);
    let (left, grown) = with_freed_memory_wiped(bytes_left);
    assert_eq!((left, &grown), (0, &wanted));
    let (left, grown) = bytes_left();
    assert_eq!((left, &grown), (64 + 256, &wanted));
}
