//! Each thread's own scratch memory for compression, reused.

use crate::tunables;
use std::cell::RefCell;

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
    if memory.len() <= tunables::SCRATCH_BYTES_MAX.count() {
        SCRATCH.replace(memory);
    }
    result
}
