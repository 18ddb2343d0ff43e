//! Each thread's own scratch memory for compression, reused.

use std::cell::RefCell;

/// What a thread keeps between blocks; more is given back at once.
const KEEP_BYTES_MAX: usize = 1 << 20;

thread_local! {
    static SCRATCH: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

/// Runs `work` on `len` bytes of any content.
pub(crate) fn with_scratch<T>(len: usize, work: impl FnOnce(&mut [u8]) -> T) -> T {
    // Taken out, so that a nested use finds an empty one instead of a borrow that panics.
    let mut memory = SCRATCH.take();
    if memory.len() < len {
        memory.resize(len, 0);
    }
    let result = work(&mut memory[..len]);
    if memory.len() <= KEEP_BYTES_MAX {
        SCRATCH.replace(memory);
    }
    result
}
