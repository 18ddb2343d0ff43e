//! Checking many blocks at once: every copy on every side, sorted by place, in long reads.

use base::{Bookmark, Txg};
use std::sync::Arc;

use device::BlockDevice;
use format::block_pointer::{BlockPointer, Dva};
use format::gang::GangHeader;
use layout::{Block, Column, Layout};
use pipeline::{Pipeline, ReadRequest};
use sys::BufferMut;
use vdev::{BlockRange, DATA_START, Failure, IoClass, Leaf, Verdict};

/// A read covers at most this much: it stays in the CPU's cache while it is summed.
const RUN_BYTES_MAX: u64 = 1 << 20;
/// Holes up to this size are read along.
const GAP_BYTES_MAX: u64 = 32 << 10;
const ALIGNMENT: u64 = 4096;
/// When this much is collected, it is sorted and read.
const BATCH_BLOCKS_MAX: usize = 32 << 10;
const BATCH_BYTES_MAX: u64 = 512 << 20;

/// What the bytes at some place should be.
#[derive(Clone, Copy)]
enum Content {
    /// The block itself.
    Block,
    /// The gang header that the pointer leads to.
    GangHeader,
}

struct Expected {
    block: BlockPointer,
    bookmark: Bookmark,
    content: Content,
}

struct Copy {
    leaf: usize,
    offset: u64,
    length: u64,
    expected: usize,
}

/// A copy that lies on several devices, with parity.
struct Stripe {
    dva: Dva,
    length: u64,
    expected: usize,
}

/// A copy that is not what it should be.
#[derive(Clone, Debug)]
pub(crate) struct BadCopy {
    pub(crate) bookmark: Bookmark,
    pub(crate) block: BlockPointer,
    pub(crate) vdev: u64,
    pub(crate) device: String,
    pub(crate) offset: u64,
    /// The device's error; a wrong checksum otherwise.
    pub(crate) error: Option<String>,
    /// Whether another copy is good.
    pub(crate) repairable: bool,
}

/// A device with what is needed to read it at length.
#[derive(Clone)]
pub(crate) struct Side {
    pub(crate) vdev: u64,
    pub(crate) layout: Layout,
    /// Which child of how many it is.
    pub(crate) child: (usize, usize),
    pub(crate) path: String,
    pub(crate) device: Arc<dyn BlockDevice>,
    /// Knows what it missed.
    pub(crate) leaf: Arc<Leaf>,
}

impl Side {
    /// What it holds of `length` bytes at an address.
    fn column(&self, dva: &Dva, length: u64, birth: Txg) -> Option<Column> {
        let (child, children) = self.child;
        let block = Block {
            offset: dva.offset,
            psize: length,
            birth,
        };
        self.layout
            .columns(&block, children)
            .find(|column| column.child == child)
    }
}

/// One thread's collection of blocks to check.
pub(crate) struct Bulk<'a> {
    pipeline: &'a Pipeline,
    sides: &'a [Side],
    expected: Vec<Expected>,
    copies: Vec<Copy>,
    stripes: Vec<Stripe>,
    bytes: u64,
    /// None until something is read at length: many collections never do.
    buffer: Option<BufferMut>,
    pub(crate) bad: Vec<BadCopy>,
    pub(crate) bytes_checked: u64,
    /// Bytes of copies that are not there yet: their device was away when they were written.
    pub(crate) bytes_missed: u64,
}

impl<'a> Bulk<'a> {
    pub(crate) fn new(pipeline: &'a Pipeline, sides: &'a [Side]) -> Self {
        Self {
            pipeline,
            sides,
            expected: Vec::new(),
            copies: Vec::new(),
            stripes: Vec::new(),
            bytes: 0,
            buffer: None,
            bad: Vec::new(),
            bytes_checked: 0,
            bytes_missed: 0,
        }
    }

    /// Adds every copy of a block that lies in one piece.
    pub(crate) fn add_block(&mut self, block: &BlockPointer, bookmark: Bookmark) {
        self.add(block, bookmark, Content::Block, block.psize(), block.dvas());
    }

    /// Adds every copy of a gang header.
    pub(crate) fn add_gang_header(&mut self, leader: &BlockPointer, bookmark: Bookmark) {
        self.add(
            leader,
            bookmark,
            Content::GangHeader,
            self.pipeline.gang_header_size(leader.dvas()) as u64,
            leader.dvas(),
        );
    }

    fn add(
        &mut self,
        block: &BlockPointer,
        bookmark: Bookmark,
        content: Content,
        length: u64,
        dvas: impl Iterator<Item = Dva>,
    ) {
        let expected = self.expected.len();
        self.expected.push(Expected {
            block: *block,
            bookmark,
            content,
        });
        let birth = block.physical_birth();
        for dva in dvas {
            let of_vdev = |side: &&Side| side.vdev == dva.vdev.0;
            let in_stripes = |side: &Side| !side.layout.is_copies();
            let top = self.pipeline.vdevs().top(dva.vdev);
            let was_moved = top.is_ok_and(|top| top.is_indirect());
            if was_moved || self.sides.iter().find(of_vdev).is_some_and(in_stripes) {
                self.stripes.push(Stripe {
                    dva,
                    length,
                    expected,
                });
                self.bytes += length;
                continue;
            }
            let missed = |side: &Side| side.leaf.misses(birth);
            let mut sides = self.sides.iter().filter(of_vdev);
            // Where every side missed the txg each has a part of it.
            let may_miss = sides.any(|side| !missed(side));
            for (leaf, side) in self.sides.iter().enumerate() {
                if of_vdev(&side) && may_miss && missed(side) {
                    self.bytes_missed += length;
                } else if of_vdev(&side)
                    && let Some(column) = side.column(&dva, length, birth)
                {
                    self.copies.push(Copy {
                        leaf,
                        offset: within(column.offset, side.device.size()),
                        length,
                        expected,
                    });
                    self.bytes += length;
                }
            }
        }
        if self.expected.len() >= BATCH_BLOCKS_MAX || self.bytes >= BATCH_BYTES_MAX {
            self.flush();
        }
    }

    /// Reads and checks what was collected.
    pub(crate) fn flush(&mut self) {
        let mut copies = std::mem::take(&mut self.copies);
        copies.sort_unstable_by_key(|copy| (copy.leaf, copy.offset));
        let mut rest = &copies[..];
        while let Some(first) = rest.first() {
            let mut end = first.offset + first.length;
            let mut count = 1;
            for copy in &rest[1..] {
                let copy_end = copy.offset + copy.length;
                let apart = copy.leaf != first.leaf
                    || copy.offset > end + GAP_BYTES_MAX
                    || copy_end.max(end) - first.offset > RUN_BYTES_MAX;
                if apart {
                    break;
                }
                end = end.max(copy_end);
                count += 1;
            }
            let (run, tail) = rest.split_at(count);
            self.check_run(run, end);
            rest = tail;
        }
        copies.clear();
        self.copies = copies;
        let mut stripes = std::mem::take(&mut self.stripes);
        stripes.sort_unstable_by_key(|stripe| (stripe.dva.vdev, stripe.dva.offset));
        for stripe in &stripes {
            self.check_stripe(stripe);
        }
        stripes.clear();
        self.stripes = stripes;
        self.expected.clear();
        self.bytes = 0;
    }

    fn check_run(&mut self, run: &[Copy], end: u64) {
        let Some(first) = run.first() else { return };
        let start = (DATA_START + first.offset) & !(ALIGNMENT - 1);
        match self.read(first.leaf, start, DATA_START + end) {
            Ok(length) => {
                for copy in run {
                    let at = (DATA_START + copy.offset - start) as usize;
                    let read = self.buffer.as_ref().and_then(|buffer| buffer.get(..length));
                    let bytes = read.and_then(|read| read.get(at..at + copy.length as usize));
                    let good = bytes.is_some_and(|bytes| self.is_good(copy, bytes));
                    self.bytes_checked += copy.length;
                    if !good {
                        self.note(copy, None);
                    }
                }
            }
            Err(error) if run.len() == 1 => self.note(first, Some(error)),
            // One bad sector must not condemn its neighbours.
            Err(_) => {
                for copy in run {
                    self.check_run(std::slice::from_ref(copy), copy.offset + copy.length);
                }
            }
        }
    }

    /// Reads every column of a block, and notes the devices that have something else.
    fn check_stripe(&mut self, stripe: &Stripe) {
        let expected = &self.expected[stripe.expected];
        let (block, bookmark) = (expected.block, expected.bookmark);
        let range = BlockRange {
            offset: stripe.dva.offset,
            len: usize::try_from(stripe.length).unwrap_or(usize::MAX),
            birth: block.physical_birth(),
        };
        let top = self.pipeline.vdevs().top(stripe.dva.vdev);
        let outcome = top.and_then(|top| {
            top.verify_stripe(range, &mut |bytes| match expected.content {
                Content::Block => self.pipeline.verdict(&block, bytes),
                Content::GangHeader => Verdict::proof(GangHeader::decode(bytes, &block).is_ok()),
            })
        });
        self.bytes_checked += stripe.length;
        let bad = |device: &str, error, repairable| BadCopy {
            bookmark,
            block,
            vdev: stripe.dva.vdev.0,
            device: device.to_owned(),
            offset: stripe.dva.offset,
            error,
            repairable,
        };
        let outcome = match outcome {
            Ok(outcome) => outcome,
            Err(error) => {
                self.bad.push(bad("?", Some(error.to_string()), false));
                return;
            }
        };
        for failure in &outcome.failures {
            let error = match &failure.failure {
                Failure::Missing => {
                    self.bytes_missed += stripe.length;
                    continue;
                }
                Failure::Unavailable(..) if outcome.data.is_some() => continue,
                Failure::Checksum => None,
                Failure::Device(_) | Failure::Unavailable(..) => Some(failure.to_string()),
            };
            let repairable = outcome.data.is_some();
            self.bad.push(bad(&failure.path, error, repairable));
        }
        if outcome.data.is_none() && outcome.failures.is_empty() {
            self.bad.push(bad("?", None, false));
        }
    }

    /// Fills the buffer from a device; how many bytes there are.
    fn read(&mut self, leaf: usize, start: u64, end: u64) -> Result<usize, String> {
        let device = &self.sides[leaf].device;
        let end = end.next_multiple_of(ALIGNMENT).min(device.size());
        let length = end.saturating_sub(start) as usize;
        const CAPACITY: u64 = RUN_BYTES_MAX + (16 << 20) + 2 * ALIGNMENT;
        let buffer = self
            .buffer
            .get_or_insert_with(|| BufferMut::scratch(CAPACITY as usize));
        let Some(target) = buffer.get_mut(..length) else {
            return Err("block too large".to_owned());
        };
        device
            .read(start, target)
            .map_err(|error| error.to_string())?;
        Ok(length)
    }

    fn is_good(&self, copy: &Copy, bytes: &[u8]) -> bool {
        let expected = &self.expected[copy.expected];
        match expected.content {
            Content::Block => self.pipeline.verify(&expected.block, bytes),
            Content::GangHeader => GangHeader::decode(bytes, &expected.block).is_ok(),
        }
    }

    fn note(&mut self, copy: &Copy, error: Option<String>) {
        let expected = &self.expected[copy.expected];
        let request = ReadRequest::new(expected.bookmark)
            .in_class(IoClass::Scan)
            .uncached()
            .speculative();
        let repairable = match expected.content {
            Content::Block => self.pipeline.read_stored(&expected.block, &request).is_ok(),
            Content::GangHeader => self.pipeline.gang_header(&expected.block, &request).is_ok(),
        };
        let side = &self.sides[copy.leaf];
        self.bad.push(BadCopy {
            bookmark: expected.bookmark,
            block: expected.block,
            vdev: side.vdev,
            device: side.path.clone(),
            offset: copy.offset,
            error,
            repairable,
        });
    }
}

/// Where to look for a copy. One behind the end of a device, which a pointer may say, is looked for at its end, where
/// nothing can be read.
fn within(offset: u64, device_size: u64) -> u64 {
    offset.min(device_size)
}

#[cfg(test)]
mod tests;
