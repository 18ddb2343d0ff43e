//! Where buffers' memory comes from and goes to: size classes, reused up to a bound in bytes.

#![allow(
    unsafe_code,
    reason = "memory is lent by hand here; each block has its argument"
)]

use base::lock::{LockClass, Mutex, rank};
use base::metrics::{Counter, Gauge, Source, Value, registry};
use base::thread;
use std::alloc::{Layout, alloc_zeroed, dealloc, handle_alloc_error};
use std::ops::Range;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, LazyLock};
use std::time::Duration;

static CLASS: LockClass = LockClass::new("buffer_pool", rank::LAST + 10).of_process();

/// Memory of at least a page starts on a page.
const PAGE: usize = 4096;
/// Smaller memory starts on a sector.
const SECTOR: usize = 512;
/// Each power of two has this many classes (as a shift): a quarter is the most that is wasted.
const STEP_SHIFT: u32 = 2;
/// Classes cover 4 KiB to 16 MiB; smaller and larger memory is not kept.
const LARGEST: usize = 16 << 20;
/// Freed memory kept for reuse unless told otherwise: a sixteenth of the machine's, within these.
/// Memory from the system has to be cleared, and on a virtual machine perhaps to be found first.
const LIMIT_SHARE: u64 = 16;
const LIMIT_MIN: u64 = 64 << 20;
const LIMIT_MAX: u64 = 1 << 30;
/// What is kept beyond this goes back to the system when it was not needed for a while.
const KEPT_IDLE: usize = 64 << 20;
/// Fewer zeros are not worth a system call.
const ZEROS_MIN: usize = 32 << 10;
const TRIM_PERIOD: Duration = Duration::from_secs(5);

/// Memory of one buffer.
pub(super) struct Allocation {
    pointer: NonNull<u8>,
    capacity: usize,
}

// SAFETY: an allocation is plain memory with no tie to a thread; who may read or write it is
// decided by `Buffer` and `BufferMut` by the rules of borrowing.
unsafe impl Send for Allocation {}
// SAFETY: as above: `&Allocation` gives out only the pointer.
unsafe impl Sync for Allocation {}

impl Allocation {
    /// Memory for `len` bytes, and whether it is fresh from the heap and so zero. All of it is
    /// initialised in either case.
    pub(super) fn take(len: usize) -> (Self, bool) {
        let pool = &*POOL;
        let capacity = class_size(len);
        pool.meters.live_bytes.add(capacity as i64);
        if let Some(class) = class_index(capacity)
            && let Some(Free(pointer)) = pool.classes[class].lock().pop()
        {
            let kept = pool.kept_bytes.fetch_sub(capacity, Ordering::Relaxed);
            pool.min_kept
                .fetch_min(kept.saturating_sub(capacity), Ordering::Relaxed);
            pool.meters.reused.increment();
            return (Self { pointer, capacity }, false);
        }
        pool.meters.allocated.increment();
        (
            Self {
                pointer: allocate(capacity),
                capacity,
            },
            true,
        )
    }

    pub(super) const fn pointer(&self) -> *mut u8 {
        self.pointer.as_ptr()
    }

    pub(super) const fn capacity(&self) -> usize {
        self.capacity
    }

    /// Gives the pages that lie within a range of zeros back to the system; how many bytes that are.
    pub(super) fn release_zeros(&self, zeros: Range<usize>) -> usize {
        let start = zeros.start.next_multiple_of(PAGE);
        let end = zeros.end.min(self.capacity) / PAGE * PAGE;
        // Small memory shares pages with others.
        if self.capacity < PAGE || end.saturating_sub(start) < ZEROS_MIN {
            return 0;
        }
        // SAFETY: memory of a page or more starts on a page (`layout`), and `start..end` are whole pages inside of it.
        // They are anonymous memory of this process and hold zeros, as they do afterwards: who reads them meanwhile
        // sees no difference, and nobody writes: this is borrowed from a `Buffer`, which is immutable.
        let given = unsafe {
            rustix::mm::madvise(
                self.pointer.as_ptr().add(start).cast(),
                end - start,
                rustix::mm::Advice::LinuxDontNeed,
            )
        };
        given.map_or(0, |()| end - start)
    }
}

impl Drop for Allocation {
    fn drop(&mut self) {
        let pool = &*POOL;
        pool.meters.live_bytes.add(-(self.capacity as i64));
        if let Some(class) = class_index(self.capacity) {
            let kept = pool.kept_bytes.fetch_add(self.capacity, Ordering::Relaxed);
            if kept + self.capacity <= pool.limit.load(Ordering::Relaxed) {
                pool.classes[class].lock().push(Free(self.pointer));
                if kept > KEPT_IDLE && !pool.trims.load(Ordering::Relaxed) {
                    start_trimming();
                }
                return;
            }
            pool.kept_bytes.fetch_sub(self.capacity, Ordering::Relaxed);
        }
        release(self.pointer, self.capacity);
    }
}

/// The heap layout of memory of `capacity` bytes, a function of nothing else.
fn layout(capacity: usize) -> Layout {
    let align = if capacity >= PAGE { PAGE } else { SECTOR };
    Layout::from_size_align(capacity, align).unwrap_or(Layout::new::<[u8; PAGE]>())
}

fn allocate(capacity: usize) -> NonNull<u8> {
    let layout = layout(capacity);
    // An absurd capacity has no layout and cannot be had: the same end as an exhausted heap.
    if layout.size() < capacity {
        handle_alloc_error(layout);
    }
    // SAFETY: the layout's size is not zero: `class_size` gives at least a sector.
    let pointer = unsafe { alloc_zeroed(layout) };
    NonNull::new(pointer).unwrap_or_else(|| handle_alloc_error(layout))
}

/// Gives the pages of memory that is about to be freed back to the system. The heap alone would keep them: what another
/// thread frees it takes up when the thread that allocated it next comes by, and that may sleep.
fn release_pages(pointer: NonNull<u8>, capacity: usize) {
    /// Less is not worth a system call, and small blocks share pages with others.
    const MIN: usize = 64 << 10;
    if capacity < MIN || !capacity.is_multiple_of(PAGE) {
        return;
    }
    // SAFETY: memory of a page or more starts on a page (`layout`), so these are whole pages of one block that came
    // from `allocate(capacity)`; its only owner gives it up and nobody reads it again. They stay mapped, as zeros.
    let _ = unsafe {
        rustix::mm::madvise(
            pointer.as_ptr().cast(),
            capacity,
            rustix::mm::Advice::LinuxDontNeed,
        )
    };
}

fn release(pointer: NonNull<u8>, capacity: usize) {
    release_pages(pointer, capacity);
    // SAFETY: the pointer came from `allocate(capacity)`, which used the same layout, and its
    // only owner (an `Allocation` being dropped, or the pool's list) gives it up here.
    unsafe { dealloc(pointer.as_ptr(), layout(capacity)) }
}

/// The memory that a buffer of `len` bytes gets.
fn class_size(len: usize) -> usize {
    if len <= PAGE {
        return len.max(1).next_multiple_of(SECTOR);
    }
    if len > LARGEST {
        return len.checked_next_multiple_of(PAGE).unwrap_or(len);
    }
    let step = 1usize << ((len - 1).ilog2() - STEP_SHIFT);
    len.next_multiple_of(step.max(PAGE))
}

/// The pool's list for memory of `capacity` bytes, if such memory is kept.
fn class_index(capacity: usize) -> Option<usize> {
    if !(PAGE..=LARGEST).contains(&capacity) {
        return None;
    }
    let bits = capacity.ilog2();
    let step = (capacity >> (bits - STEP_SHIFT)) & ((1 << STEP_SHIFT) - 1);
    Some((((bits - PAGE.ilog2()) << STEP_SHIFT) as usize) + step)
}

const CLASSES: usize = (((LARGEST.ilog2() - PAGE.ilog2()) << STEP_SHIFT) + 1) as usize;

struct Free(NonNull<u8>);

// SAFETY: as for `Allocation`; a free block has no other owner than the list it is in.
unsafe impl Send for Free {}

struct Pool {
    classes: Vec<Mutex<Vec<Free>>>,
    kept_bytes: AtomicUsize,
    limit: AtomicUsize,
    /// The least that was kept since the last look: so much was not needed.
    min_kept: AtomicUsize,
    /// Whether a thread frees what is not needed.
    trims: AtomicBool,
    meters: Arc<Meters>,
}

#[derive(Default)]
struct Meters {
    live_bytes: Gauge,
    reused: Counter,
    allocated: Counter,
}

impl Source for Meters {
    fn collect(&self, sink: &mut dyn FnMut(&str, Value)) {
        sink("live_bytes", Value::from(&self.live_bytes));
        sink("reused", Value::from(&self.reused));
        sink("allocated", Value::from(&self.allocated));
    }
}

static POOL: LazyLock<Pool> = LazyLock::new(|| {
    let meters = Arc::new(Meters::default());
    registry().add_source("buffer", &meters);
    Pool {
        classes: (0..CLASSES)
            .map(|_| Mutex::new(&CLASS, Vec::new()))
            .collect(),
        kept_bytes: AtomicUsize::new(0),
        limit: AtomicUsize::new(default_limit()),
        min_kept: AtomicUsize::new(0),
        trims: AtomicBool::new(false),
        meters,
    }
});

/// What the buffer pool holds and did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BufferPoolStats {
    /// Bytes of memory in buffers that are in use.
    pub live_bytes: u64,
    /// Bytes of freed memory kept for reuse.
    pub kept_bytes: u64,
    /// How many buffers reused memory.
    pub reused: u64,
    /// How many buffers came from the heap.
    pub allocated: u64,
}

/// What the buffer pool holds and did so far.
#[must_use]
pub fn buffer_pool_stats() -> BufferPoolStats {
    let pool = &*POOL;
    BufferPoolStats {
        live_bytes: u64::try_from(pool.meters.live_bytes.get()).unwrap_or(0),
        kept_bytes: pool.kept_bytes.load(Ordering::Relaxed) as u64,
        reused: pool.meters.reused.get(),
        allocated: pool.meters.allocated.get(),
    }
}

/// Sets how many bytes of freed memory are kept for reuse; what is kept beyond is released.
pub fn set_buffer_pool_limit(bytes: usize) {
    POOL.limit.store(bytes, Ordering::Relaxed);
    shrink(bytes);
}

/// Releases free memory until no more than `bytes` are kept, the largest first.
fn shrink(bytes: usize) {
    let pool = &*POOL;
    for (index, class) in pool.classes.iter().enumerate().rev() {
        while pool.kept_bytes.load(Ordering::Relaxed) > bytes {
            let Some(free) = class.lock().pop() else {
                break;
            };
            let capacity = class_capacity(index);
            pool.kept_bytes.fetch_sub(capacity, Ordering::Relaxed);
            release(free.0, capacity);
        }
    }
}

fn default_limit() -> usize {
    let share = crate::system::memory_bytes() / LIMIT_SHARE;
    usize::try_from(share.clamp(LIMIT_MIN, LIMIT_MAX)).unwrap_or(KEPT_IDLE)
}

/// Starts the thread that gives memory back, unless it runs. It lives while much is kept.
fn start_trimming() {
    if POOL.trims.swap(true, Ordering::AcqRel) {
        return;
    }
    let started = thread::named("buffer-trim", crate::thread::BACKGROUND)
        .stack_bytes(64 << 10)
        .unscheduled()
        .spawn(|| {
            let pool = &*POOL;
            while pool.kept_bytes.load(Ordering::Relaxed) > KEPT_IDLE {
                let kept = pool.kept_bytes.load(Ordering::Relaxed);
                pool.min_kept.store(kept, Ordering::Relaxed);
                std::thread::sleep(TRIM_PERIOD);
                trim();
            }
            pool.trims.store(false, Ordering::Release);
        });
    if started.is_err() {
        POOL.trims.store(false, Ordering::Release);
    }
}

/// Frees what lay unused all the time since the last look.
fn trim() {
    let unused = POOL.min_kept.load(Ordering::Relaxed);
    let kept = POOL.kept_bytes.load(Ordering::Relaxed);
    shrink(kept.saturating_sub(unused).max(KEPT_IDLE));
}

/// The inverse of [`class_index`].
fn class_capacity(index: usize) -> usize {
    let base = PAGE << (index >> STEP_SHIFT);
    base + (index & ((1 << STEP_SHIFT) - 1)) * (base >> STEP_SHIFT)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_that_lies_unused_is_given_back() {
        let buffers: Vec<_> = (0..160).map(|_| Allocation::take(1 << 20)).collect();
        drop(buffers);
        let kept = POOL.kept_bytes.load(Ordering::Relaxed);
        POOL.min_kept.store(kept, Ordering::Relaxed);
        trim();
        let after = POOL.kept_bytes.load(Ordering::Relaxed);
        assert!(after <= KEPT_IDLE + (16 << 20), "{after} of {kept} kept");
    }

    #[test]
    fn pages_that_are_given_back_are_no_longer_there() {
        let kept = allocate(256 << 10);
        let bytes = || {
            // SAFETY: it was allocated above with this length, and is freed below.
            unsafe { std::slice::from_raw_parts_mut(kept.as_ptr(), 256 << 10) }
        };
        bytes().fill(7);
        release_pages(kept, 256 << 10);
        assert!(bytes().iter().all(|byte| *byte == 0), "pages of before");
        bytes().fill(8);
        release(kept, 256 << 10);
    }

    #[test]
    fn classes_are_consistent_for_every_length() {
        for len in (0..64 << 10).chain([1 << 20, (1 << 20) + 1, LARGEST - 1, LARGEST]) {
            let capacity = class_size(len);
            assert!(capacity >= len && capacity <= len + len / 4 + PAGE);
            if let Some(index) = class_index(capacity) {
                assert_eq!(class_capacity(index), capacity, "length {len}");
                assert!(index < CLASSES);
            }
        }
    }
}
