//! Copying a piece of a vdev with each txg.

use std::ops::Range;
use std::sync::Arc;

use base::VdevId;
use base::metrics::{Counter, registry};
use format::block_pointer::Dva;
use format::indirect::MappingEntry;
use space::{ClassKind, Extent, PoolSpace, Request, SpaceError, VdevSpace};
use std::sync::LazyLock;
use sys::Buffer;
use vdev::{IoClass, Leaf, Top};

use super::stored::store;
use super::{Evacuation, Halt, Running};
use crate::error::{PoolError, Result};
use crate::sync::tasks::FirstPass;
use crate::tunables::{REMOVAL_BYTES, REMOVAL_SEGMENT_BYTES};

/// So much is read, and queued to be written, at once.
const PIECE_BYTES: u64 = 1 << 20;
/// Of a vdev that is mostly empty so many metaslabs are looked at with a txg.
const METASLABS_PER_TXG: usize = 64;

static COPIED: LazyLock<Arc<Counter>> =
    LazyLock::new(|| registry().counter("pool.removal_copied_bytes"));

/// What became of a range.
enum Copied {
    Entry(MappingEntry),
    Not(Halt),
}

impl Evacuation {
    /// Copies some of what is in use behind the place where the removal is.
    pub(super) fn copy_some(&self, pass: &FirstPass<'_>, running: &mut Running) -> Result<()> {
        let space = pass.space.vdev(running.vdev);
        let space = space.ok_or(PoolError::Vdev(vdev::VdevError::NoSuchTop(running.vdev)))?;
        let source = pass.vdevs.top(running.vdev)?;
        let shift = space.geometry().metaslab_shift;
        let sector = space.geometry().layout.sector();
        // What is in use and what is copied were counted when the removal began; since then others have written.
        let slop = pass.services.limits.figures().slop;
        let room = room_on_normal(pass.space, running.vdev, slop);
        let mut entries = Vec::new();
        let (mut left, mut looked) = (REMOVAL_BYTES.get().min(room), 0);
        'copying: while (left > 0 || room == 0) && looked < METASLABS_PER_TXG {
            let index = usize::try_from(running.at >> shift).unwrap_or(usize::MAX);
            let used = match space.in_use(index, pass.maps) {
                // Nobody can say what is to be copied.
                Err(_) if space.is_unreadable(index, pass.maps)? => {
                    running.halt = Some(Halt::Unreadable);
                    break;
                }
                used => used?,
            };
            let Some(used) = used else {
                running.is_copied = true;
                break;
            };
            looked += 1;
            // The one that it stopped in is looked at again.
            let rest = used.containing(running.at).into_iter();
            let rest = rest.chain(used.iter_from(running.at.saturating_add(1)));
            for range in rest {
                let mut start = range.start.max(running.at);
                while start < range.end {
                    if room == 0 {
                        running.halt = Some(Halt::NoSpace);
                    }
                    if left == 0 {
                        break 'copying;
                    }
                    // Whole sectors, at least one.
                    let piece = left.max(sector) / sector * sector;
                    let wanted = start..range.end.min(start.saturating_add(piece));
                    match self.copy(pass, (&space, &source), wanted)? {
                        Copied::Entry(entry) => {
                            let length = entry.destination.asize;
                            left = left.saturating_sub(length);
                            start += length;
                            running.at = start;
                            entries.push(entry);
                        }
                        Copied::Not(halt) => {
                            running.halt = Some(halt);
                            break 'copying;
                        }
                    }
                }
            }
            running.at = (index as u64 + 1) << shift;
        }
        self.note(pass, running, &entries)
    }

    /// Stores what was copied.
    fn note(
        &self,
        pass: &FirstPass<'_>,
        running: &mut Running,
        entries: &[MappingEntry],
    ) -> Result<()> {
        if entries.is_empty() {
            return Ok(());
        }
        running.stored.add(pass.tx, entries)?;
        self.allocator.obsolete.extend_removing(entries)?;
        let bytes: u64 = entries.iter().map(|entry| entry.destination.asize).sum();
        COPIED.add(bytes);
        running.removing.copied = running.removing.copied.saturating_add(bytes);
        store(pass.services, pass.tx, &running.removing)
    }

    /// Copies the beginning of a range to one place on another vdev.
    fn copy(
        &self,
        pass: &FirstPass<'_>,
        (space, source): (&VdevSpace, &Arc<Top>),
        range: Range<u64>,
    ) -> Result<Copied> {
        let place = match allocate(pass, space, range.end - range.start)? {
            Ok(place) => place,
            Err(halt) => return Ok(Copied::Not(halt)),
        };
        let target = pass.vdevs.top(place.vdev)?;
        let length = place.range.end - place.range.start;
        let mut at = 0;
        while at < length {
            let piece = (length - at).min(PIECE_BYTES);
            let data = match read(source, range.start + at, piece) {
                Ok(data) => data,
                Err(halt) => {
                    pass.space.free(&place)?;
                    return Ok(Copied::Not(halt));
                }
            };
            let offset = place.range.start + at;
            target.write(offset, data, IoClass::AsyncWrite, pass.group);
            at += piece;
        }
        Ok(Copied::Entry(MappingEntry {
            source: range.start,
            destination: Dva {
                vdev: place.vdev,
                offset: place.range.start,
                asize: length,
                gang: false,
            },
        }))
    }
}

/// How much can be copied to the other vdevs of a class.
pub(super) fn room(space: &PoolSpace, leaving: VdevId, class: ClassKind) -> u64 {
    let vdevs = space.vdevs();
    let others = vdevs.iter().filter(|vdev| {
        let geometry = vdev.geometry();
        geometry.class == class && geometry.vdev != leaving && vdev.is_allocatable()
    });
    let free = |vdev: &Arc<VdevSpace>| {
        let used = vdev
            .allocated_bytes()
            .saturating_add(vdev.unreadable_bytes());
        vdev.capacity_bytes().saturating_sub(used)
    };
    others.map(free).sum()
}

/// How much can be copied to the other normal vdevs with what the pool needs to go on left there: half of what it keeps
/// back.
pub(super) fn room_on_normal(space: &PoolSpace, leaving: VdevId, slop: u64) -> u64 {
    room(space, leaving, ClassKind::Normal).saturating_sub(slop / 2)
}

/// Room for as much of so many bytes as lies in one place, or why there is none.
fn allocate(
    pass: &FirstPass<'_>,
    space: &VdevSpace,
    wanted: u64,
) -> Result<std::result::Result<Extent, Halt>> {
    let sector = space.geometry().layout.sector();
    let mut size = wanted.min(REMOVAL_SEGMENT_BYTES.get().max(sector)) / sector * sector;
    while size >= sector {
        let request = Request {
            size,
            copies: 1,
            txg: pass.tx.txg(),
            class: space.geometry().class,
            hint: 0,
        };
        match pass.space.allocate(&request, pass.maps) {
            Ok(found) => {
                let Some(place) = found.into_iter().next() else {
                    break;
                };
                if place.range.end - place.range.start == size {
                    return Ok(Ok(place));
                }
                // Whole sectors of another size: a part of one could not be freed.
                pass.space.free(&place)?;
                return Ok(Err(Halt::Sectors));
            }
            Err(SpaceError::NoSpace { .. }) => size = size / 2 / sector * sector,
            Err(error) => return Err(error.into()),
        }
    }
    Ok(Err(Halt::NoSpace))
}

/// What a vdev has at a place: from every device that should have it, which must agree, as there is no checksum.
fn read(source: &Top, offset: u64, length: u64) -> std::result::Result<Buffer, Halt> {
    let length = usize::try_from(length).map_err(|_| Halt::Unreadable)?;
    let is_whole = |leaf: &&Arc<Leaf>| leaf.is_readable() && leaf.missing().is_empty();
    let mut found: Option<Buffer> = None;
    for leaf in source.leaves().iter().filter(is_whole) {
        let Ok(data) = source.read_side(leaf, offset, length) else {
            continue;
        };
        match &found {
            Some(known) if known[..] != data[..] => return Err(Halt::SidesDiffer),
            Some(_) => {}
            None => found = Some(data),
        }
    }
    found.ok_or(Halt::Unreadable)
}
