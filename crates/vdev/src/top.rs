//! A top-level vdev: a layout, and the children that it spreads blocks over.

mod copies;
mod kept;
mod moved;
mod moves;
mod parts;
pub(crate) mod range_copy;
mod repair;
mod stripe;

use crate::group::{Reports, WriteCompletion};
use crate::members::Members;
use crate::node::Children;
use crate::reads::ReadThreads;
use crate::{
    BlockRange, Condition, Failure, Fence, IoClass, Leaf, LeafFailure, Node, TxgRanges, VdevAux,
    VdevError, VdevState, Verdict, WriteGroup,
};
use base::thread::{self, Role};
use base::{Guid, Txg, VdevId, invariant};
use device::DeviceError;
use layout::{Area, Block, Kind, Layout, Moved, Piece, Placement};
use std::ops::Range;
use std::sync::Arc;
use sys::Buffer;

use copies::Copies;
use kept::Found;
pub(crate) use kept::KeptWrites;
pub(crate) use moved::Elsewhere;
use moved::MovedTo;
pub use moves::Move;
use moves::Moves;
use parts::with_zeros;
pub use repair::{Lacking, Repaired, ScrubOutcome};

/// What is known of a top-level vdev from its configuration.
#[derive(Clone, Copy, Debug)]
pub struct TopConfig {
    /// Its place in the pool.
    pub id: VdevId,
    /// Its guid (of the leaf itself if that is all there is).
    pub guid: Guid,
    /// Sector size as a power of two.
    pub ashift: u32,
    /// Size of the allocatable area in bytes.
    pub asize: u64,
    /// Whether it holds only intent logs: the pool goes on without it when it fails.
    pub is_log: bool,
}

/// A read that gave the right bytes.
#[derive(Clone, Debug)]
pub struct ReadOutcome {
    /// The bytes.
    pub data: Buffer,
    /// The leaves that did not have them, in the order in which they were asked.
    pub failures: Vec<LeafFailure>,
    /// Leaves that had others: for [`Top::repair_read`], as long as the place is this block's.
    pub lacking: Vec<Arc<Leaf>>,
}

/// A top-level vdev.
pub struct Top {
    config: TopConfig,
    layout: Layout,
    node: Node,
    /// The children, as the layout counts them.
    children: Children,
    /// What no leaf took.
    kept: Arc<KeptWrites>,
    /// What moves to another child, and who looks for blocks meanwhile.
    moves: Arc<Moves>,
    /// What is being copied to leaves that lack it.
    copies: Arc<Copies>,
    read_threads: ReadThreads,
    /// Where what it held lies, if it was removed.
    moved_to: Option<MovedTo>,
}

impl Top {
    /// A top-level vdev over `node`.
    #[must_use]
    pub fn new(config: TopConfig, node: Node) -> Arc<Self> {
        Arc::new(Self::of(config, node, KeptWrites::new()))
    }

    fn of(config: TopConfig, node: Node, kept: Arc<KeptWrites>) -> Self {
        Self {
            layout: Layout::new(node.kind(), config.ashift),
            config,
            children: Children::new(&node),
            node,
            kept,
            moves: Moves::new(),
            copies: Copies::new(),
            read_threads: ReadThreads::new(),
            moved_to: None,
        }
    }

    /// The same vdev over other children: leaves came or went. What no leaf took stays with it.
    #[must_use]
    pub fn regrouped(self: &Arc<Self>, config: TopConfig, node: Node) -> Arc<Self> {
        let mut next = Self::of(config, node, Arc::clone(&self.kept));
        // What has moved to another child has moved of both.
        if next.layout == self.layout {
            next.layout = self.layout.clone();
        }
        self.moves.succeed(self);
        next.moves = Arc::clone(&self.moves);
        next.copies = Arc::clone(&self.copies);
        Arc::new(next)
    }

    /// The txgs of which some block cannot be had, should the leaves fail of which `fails` says so, or be unreadable:
    /// what all children of a mirror lack, and of a RAID-Z more than parity can stand for.
    #[must_use]
    pub fn outage(&self, fails: &dyn Fn(&Leaf) -> bool) -> TxgRanges {
        self.node.outage(fails)
    }

    /// [`Top::outage`] of one of its vdevs; of all, if there is none of that guid.
    #[must_use]
    pub fn outage_of(&self, vdev: Guid, fails: &dyn Fn(&Leaf) -> bool) -> TxgRanges {
        self.node.find(vdev).unwrap_or(&self.node).outage(fails)
    }

    /// Its configuration.
    #[must_use]
    pub const fn config(&self) -> &TopConfig {
        &self.config
    }

    /// Its place in the pool.
    #[must_use]
    pub const fn id(&self) -> VdevId {
        self.config.id
    }

    /// Sector size as a power of two.
    #[must_use]
    pub const fn ashift(&self) -> u32 {
        self.config.ashift
    }

    /// Size of the allocatable area in bytes.
    #[must_use]
    pub const fn asize(&self) -> u64 {
        self.config.asize
    }

    /// How it spreads blocks over its leaves.
    #[must_use]
    pub const fn layout(&self) -> &Layout {
        &self.layout
    }

    /// Says what has moved, if it is a RAID-Z that is getting another child; before anybody looks for blocks.
    pub fn set_moved(&self, moved: Moved) {
        if let Kind::RaidZ(raidz) = self.layout.kind()
            && let Some(growth) = raidz.growth()
        {
            growth.set_moved(moved);
        }
    }

    /// How many of its children may lack a block that can be read all the same.
    #[must_use]
    pub fn tolerance(&self) -> usize {
        self.layout.tolerance(self.children.count())
    }

    /// Whether so many children are lost, when all of these leaves fail, that some block cannot be read.
    #[must_use]
    pub fn is_lost_without(&self, fails: impl Fn(&Leaf) -> bool) -> bool {
        let fails = |guid: Guid| {
            let mut leaves = self.leaves().iter();
            leaves.any(|leaf| leaf.guid() == guid && fails(leaf))
        };
        self.children.members().lost(fails) > self.tolerance()
    }

    /// Its vdevs as a tree.
    #[must_use]
    pub const fn node(&self) -> &Node {
        &self.node
    }

    /// Its leaves, from left to right.
    #[must_use]
    pub fn leaves(&self) -> &[Arc<Leaf>] {
        self.children.leaves()
    }

    /// Bytes of data for which its smallest leaf has room; none unless all leaves are in use.
    #[must_use]
    pub fn smallest_leaf(&self) -> Option<u64> {
        let leaves = self.leaves();
        if !leaves.iter().all(|leaf| leaf.is_writable()) {
            return None;
        }
        let devices = leaves.iter().filter(|leaf| leaf.spare_room().is_none());
        devices.map(|leaf| leaf.asize()).min()
    }

    /// Says until when its leaves are written, to those that do not know.
    pub(crate) fn set_fence(&self, fence: &Arc<Fence>) {
        self.leaves().iter().for_each(|leaf| leaf.set_fence(fence));
    }

    /// How it is, as follows from its leaves.
    #[must_use]
    pub fn condition(&self) -> Condition {
        self.node.condition()
    }

    /// What a block of `psize` bytes takes up that is written in txg `birth`.
    #[must_use]
    pub fn allocated_size(&self, psize: u64, birth: Txg) -> u64 {
        self.layout.asize(psize, birth)
    }

    /// Where a block lies on the children.
    fn placement(&self, offset: u64, len: usize, birth: Txg) -> Placement {
        self.placement_at((offset, len, birth), self.layout.moved())
    }

    /// Where a block lies when so much has moved.
    fn placement_at(
        &self,
        (offset, len, birth): (u64, usize, Txg),
        moved: Option<Moved>,
    ) -> Placement {
        let block = Block {
            offset,
            psize: len as u64,
            birth,
        };
        self.layout
            .placement_at(&block, self.children.count(), moved)
    }

    /// What a block takes up.
    fn allocated(&self, offset: u64, len: usize, birth: Txg) -> Range<u64> {
        let asize = self.layout.asize(len as u64, birth);
        offset..offset.saturating_add(asize)
    }

    fn contains(&self, offset: u64, len: usize, birth: Txg) -> Result<(), VdevError> {
        let (len, asize) = (len as u64, self.asize());
        let end = offset.checked_add(self.layout.asize(len, birth));
        if end.is_some_and(|end| end <= asize) {
            return Ok(());
        }
        Err(VdevError::OutOfRange {
            vdev: self.id(),
            offset,
            len,
            asize,
        })
    }

    /// `data` with zeros up to a whole number of the vdev's sectors.
    fn padded(&self, data: Buffer) -> Buffer {
        let whole = self.layout.whole_sectors(data.len() as u64);
        with_zeros(data, whole as usize)
    }

    /// The readable leaves in the order in which they are asked: those that were there when the
    /// bytes were written, then the least busy, then by place so that each has its own stretches.
    fn order(&self, range: BlockRange) -> Vec<(&Arc<Leaf>, bool)> {
        let leaves = self.leaves();
        if let [only] = leaves {
            return vec![(only, false)];
        }
        let count = leaves.len();
        let first = (range.offset >> 21) as usize % count.max(1);
        let mut order: Vec<_> = (0..count)
            .map(|i| &leaves[(first + i) % count])
            .filter(|leaf| leaf.is_readable())
            .map(|leaf| (leaf, leaf.misses(range.birth)))
            .collect();
        order.sort_by_key(|(leaf, stale)| (*stale, leaf.handle().active()));
        order
    }

    /// Reads `range`, asking leaf after leaf until `accept` says that the bytes are right. Leaves that
    /// had others are named, and no more than that: whether it is their fault ([`Top::blame`]), and whether they may be
    /// written ([`Top::repair_read`]), only who knows that the place is still this block's can say. A
    /// leaf that missed the bytes is believed only if they are proven: without a checksum what it has is
    /// older, or never was anything. The device is read on the caller's thread; what is queued but not
    /// yet written is served from the queue.
    ///
    /// # Errors
    /// If no leaf has the right bytes, with what each leaf said.
    pub fn read(
        &self,
        range: BlockRange,
        class: IoClass,
        accept: &mut dyn FnMut(&[u8]) -> Verdict,
    ) -> Result<ReadOutcome, VdevError> {
        self.contains(range.offset, range.len, range.birth)?;
        let mut failures = Vec::new();
        let mut bad = Vec::new();
        let read_failed = |failures| VdevError::ReadFailed {
            vdev: self.id(),
            offset: range.offset,
            len: range.len as u64,
            failures,
        };
        match self.kept.find(range) {
            Found::All(data) if accept(&data) != Verdict::Wrong => {
                return Ok(ReadOutcome {
                    data,
                    failures,
                    lacking: bad,
                });
            }
            // Without a checksum nothing would tell what the leaves have from what they should have.
            Found::Part => return Err(read_failed(failures)),
            Found::All(_) | Found::Nothing => {}
        }
        match self.layout.kind() {
            Kind::Single | Kind::Mirror => {}
            Kind::Indirect => return self.read_moved(range, class, accept),
            Kind::RaidZ(_) | Kind::Draid(_) => {
                return self
                    .read_stripe((range, class), accept)
                    .map_err(read_failed);
            }
        }
        for (leaf, stale) in self.order(range) {
            match read_leaf(leaf, (range, class), stale, accept) {
                Ok(data) => {
                    return Ok(ReadOutcome {
                        data,
                        failures,
                        lacking: bad,
                    });
                }
                Err(failure) => {
                    if !stale && !matches!(failure.failure, Failure::Unavailable(..)) {
                        bad.push(Arc::clone(leaf));
                    }
                    failures.push(failure);
                }
            }
        }
        for leaf in self.leaves().iter().filter(|leaf| !leaf.is_readable()) {
            if !failures.iter().any(|failure| failure.leaf == leaf.guid()) {
                let condition = leaf.condition();
                let failure = Failure::Unavailable(condition.state, condition.aux);
                failures.push(leaf.handle().failure(failure));
            }
        }
        Err(read_failed(failures))
    }

    /// Queues the write of `data` at `offset` on every leaf. Returns at once unless the queue is
    /// full; then the caller writes for a while. Failures are the group's: [`WriteGroup::wait`].
    pub fn write(&self, offset: u64, data: Buffer, class: IoClass, group: &Arc<WriteGroup>) {
        self.write_of((offset, group.txg()), data, class, group);
    }

    /// [`Top::write`] of a block of another txg than the group's: where its bytes lie may depend on it.
    pub(crate) fn write_of(
        &self,
        (offset, birth): (u64, Txg),
        data: Buffer,
        class: IoClass,
        group: &Arc<WriteGroup>,
    ) {
        let data = self.padded(data);
        if data.is_empty() {
            return;
        }
        if self.is_indirect() {
            self.write_moved((offset, birth), &data, class, group);
            return;
        }
        let inside = invariant!(
            group.findings(),
            self.contains(offset, data.len(), birth).is_ok(),
            "vdev.inside",
            "{} bytes are written at {offset} of vdev {}, which has {}",
            data.len(),
            self.id(),
            self.asize()
        );
        // Nothing moves on, and nothing begins to be copied, before this is in the queues.
        let _inside = self.moves.look_for();
        self.copies
            .written(self.allocated(offset, data.len(), birth));
        let (mut parts, there) = self.parts_of((offset, birth), &data);
        parts.extend(there);
        let completion = WriteCompletion::new(
            (group, &self.kept),
            (self.id(), offset, birth),
            data.clone(),
            class,
            self.reports(&parts),
        );
        if completion.is_unheard() {
            completion.give_up(Vec::new());
            return;
        }
        for (piece, bytes) in parts {
            for holder in self.children.holders(&piece) {
                let leaf = holder.leaf;
                if inside && holder.is_writable() {
                    let place = place_of(&piece);
                    leaf.write(place, bytes.clone(), Arc::clone(&completion));
                    continue;
                }
                let condition = holder.condition();
                let failure = if inside {
                    Failure::Unavailable(condition.state, condition.aux)
                } else {
                    Failure::Device(DeviceError::OutOfRange {
                        device: leaf.path(),
                        operation: device::Operation::Write,
                        offset,
                        len: data.len() as u64,
                        size: self.asize(),
                    })
                };
                completion.report(leaf.handle(), Err(failure));
            }
        }
    }

    /// Who is to report on a write of these parts.
    fn reports(&self, parts: &[(Piece, Buffer)]) -> Reports {
        let tolerance = self.tolerance();
        let Some(draid) = self.children.spare_rooms() else {
            let reports = parts
                .iter()
                .flat_map(|(piece, _)| self.children.of(piece.child));
            return Reports {
                count: reports.count(),
                tolerance,
                members: Arc::clone(self.children.members()),
            };
        };
        // A leaf may hold a column of one stripe as its own, and one of the next stripe for a spare.
        let (mut leaves, mut ranges) = (Vec::new(), Vec::new());
        for (piece, _) in parts {
            let start = leaves.len();
            let holders = self.children.holders(piece);
            leaves.extend(holders.map(|holder| holder.leaf.guid()));
            ranges.push(start..leaves.len());
        }
        let width = draid.data() + draid.parity();
        Reports {
            count: leaves.len(),
            tolerance,
            members: Arc::new(Members::of_stripes(leaves, ranges, width)),
        }
    }

    /// [`Top::write`] of a block of `psize` bytes, of txg `birth`, of which only the first ones count: where nothing
    /// depends on the others, they are not written.
    pub fn write_beginning(
        &self,
        (offset, birth): (u64, Txg),
        (data, psize): (Buffer, u64),
        class: IoClass,
        group: &Arc<WriteGroup>,
    ) {
        let size = self.layout.written_size(data.len() as u64, psize);
        let data = with_zeros(data, size as usize);
        self.write_of((offset, birth), data, class, group);
    }

    /// Gives the bytes of `leaf` that hold nothing but what lies in `range` back to its device. Nobody may have been
    /// given them.
    ///
    /// # Errors
    /// As [`Leaf::discard`].
    pub fn discard(&self, leaf: &Leaf, range: Range<u64>) -> Result<(), VdevError> {
        let child = self.children.child_of(leaf.guid()).unwrap_or(0);
        let mut places = self.layout.on_child(range, child).into_iter();
        places
            .try_for_each(|place| leaf.discard(place.start, place.end.saturating_sub(place.start)))
    }

    /// Overwrites what of a free range lies on one leaf.
    ///
    /// # Errors
    /// As [`Leaf::overwrite`].
    pub fn overwrite(
        &self,
        leaf: &Leaf,
        range: Range<u64>,
        filler: &[u8],
    ) -> Result<(), VdevError> {
        let child = self.children.child_of(leaf.guid()).unwrap_or(0);
        let mut places = self.layout.on_child(range, child).into_iter();
        places.try_for_each(|place| leaf.overwrite(place, filler))
    }

    /// Makes every write that is done (whose group was waited for) durable on every usable leaf.
    ///
    /// # Errors
    /// If more leaves could not than the layout tolerates (of a mirror: all): what was written since the last flush is
    /// kept and written again by [`Leaf::clear`]. Where the others suffice, a leaf that could not has missed those txgs
    /// and is out of use.
    pub fn flush(&self) -> Result<(), VdevError> {
        if self.is_indirect() {
            return Ok(()); // what is written lies on others
        }
        let leaves: Vec<_> = self
            .leaves()
            .iter()
            .filter(|leaf| leaf.is_writable() && leaf.spare_room().is_none())
            .collect();
        if leaves.is_empty() && self.leaves().iter().any(|leaf| leaf.is_readable()) {
            return Ok(()); // opened for reading: nothing was written
        }
        let results: Vec<_> = match &leaves[..] {
            [only] => vec![only.handle().flush()],
            several => thread::scope(|scope| {
                let start = |leaf: &Arc<Leaf>| {
                    let leaf = Arc::clone(leaf);
                    let flush = thread::named("flush", Role::PART);
                    flush.spawn_scoped(scope, move || leaf.handle().flush())
                };
                let threads: Vec<_> = several.iter().map(|leaf| start(leaf)).collect();
                let gone = |leaf: &Arc<Leaf>| DeviceError::NotFound {
                    device: leaf.path(),
                };
                let started = threads.into_iter().zip(several);
                started
                    .map(|(thread, leaf)| match thread {
                        Ok(thread) => thread.join().unwrap_or_else(|_| Err(gone(leaf))),
                        // Without a thread, by this one.
                        Err(_) => leaf.handle().flush(),
                    })
                    .collect()
            }),
        };
        let is_good = |leaf: &Leaf| {
            let mut outcomes = leaves.iter().zip(&results);
            // What a distributed spare holds is flushed with the leaves on which that lies.
            leaf.spare_room().is_some()
                || outcomes.any(|(other, result)| other.guid() == leaf.guid() && result.is_ok())
        };
        let any_good = results.iter().any(Result::is_ok);
        let enough = any_good && !self.is_lost_without(|leaf| !is_good(leaf));
        let mut failures = Vec::new();
        for (leaf, result) in leaves.iter().zip(results) {
            let Err(error) = result else { continue };
            leaf.handle().meters.write_errors.increment();
            if enough {
                leaf.handle().fail(&error, VdevAux::IoFailure);
            }
            failures.push(leaf.handle().failure(Failure::Device(error)));
        }
        if enough {
            // Also those that went out of use since they were written to: nobody flushed them.
            for leaf in self.leaves().iter().filter(|leaf| !leaf.is_writable()) {
                leaf.handle().lose_unflushed();
            }
            return Ok(());
        }
        Err(VdevError::FlushFailed {
            vdev: self.id(),
            failures,
        })
    }

    /// Puts every leaf out of use until it is cleared: a log vdev that failed, which the pool can do without.
    pub fn give_up(&self) {
        for leaf in self.leaves().iter().filter(|leaf| leaf.is_readable()) {
            leaf.set_condition(Condition::new(VdevState::Faulted, VdevAux::IoFailure));
        }
    }

    /// [`Top::flush`] for a txg, which needs nothing of a log vdev: one that fails is given up.
    ///
    /// # Errors
    /// As [`Top::flush`], unless it is a log vdev.
    pub fn flush_for_txg(&self) -> Result<(), VdevError> {
        match self.flush() {
            Err(_) if self.config.is_log => {
                self.give_up();
                Ok(())
            }
            result => result,
        }
    }
}

/// Where a piece lies on the device.
const fn place_of(piece: &Piece) -> u64 {
    match piece.area {
        Area::Data => Leaf::device_offset(piece.offset),
        Area::Scratch => Leaf::scratch_offset(piece.offset),
    }
}

/// Reads from one leaf and judges.
fn read_leaf(
    leaf: &Arc<Leaf>,
    (range, class): (BlockRange, IoClass),
    stale: bool,
    accept: &mut dyn FnMut(&[u8]) -> Verdict,
) -> Result<Buffer, LeafFailure> {
    // Whole sectors: a device with large ones gives nothing else.
    let whole = range.len.next_multiple_of(1 << leaf.ashift());
    let data = leaf
        .read(Leaf::device_offset(range.offset), whole, class)
        .map_err(|failure| leaf.handle().failure(failure))?;
    let data = if whole == range.len {
        data
    } else {
        data.slice(0..range.len)
    };
    match (accept(&data), stale) {
        (Verdict::Proven, _) | (Verdict::Unproven, false) => Ok(data),
        (Verdict::Unproven | Verdict::Wrong, true) => Err(leaf.handle().failure(Failure::Missing)),
        (Verdict::Wrong, false) => Err(leaf.handle().failure(Failure::Checksum)),
    }
}

#[cfg(test)]
mod tests;
