//! The stack, after a key was on it.

use zeroize::Zeroize;

/// More than any call of ours with a key takes.
const BYTES: usize = 32 << 10;

/// Calls what has key bytes on its stack, and overwrites that stack afterwards.
pub fn with_clean_stack<T>(call: impl FnOnce() -> T) -> T {
    let answer = apart(call);
    overwrite();
    answer
}

/// Frames of its own, where [`overwrite`] has its own then.
#[inline(never)]
fn apart<T>(call: impl FnOnce() -> T) -> T {
    call()
}

#[inline(never)]
fn overwrite() {
    let mut area = [0_u8; BYTES];
    area.zeroize();
    std::hint::black_box(&mut area);
}
