//! An object store in memory that knows which blocks live, for this crate's tests.

use std::collections::{BTreeMap, BTreeSet};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};

use base::{Bookmark, ObjectSetId, Txg, VdevId};
use codec::{Checksum, ChecksumValue};
use format::block_pointer::Dva;
use format::{BlockPointer, ObjectSetKind, ObjectSetPhys, ObjectType};
use parking_lot::Mutex;
use sys::Buffer;

use crate::error::BlockError;
use crate::object_set::{ObjectSet, OpenObjectSet};
use crate::store::{
    BlockAccounting, BlockKind, BlockReference, BlockStore, BlockWrite, BlockWriter,
    ReferenceRules, SyncContext,
};
use crate::tx::Tx;
use crate::workers::SyncWorkers;

#[derive(Debug, thiserror::Error)]
#[error("no block at {0}")]
struct Missing(u64);

/// Blocks by offset.
#[derive(Default)]
pub(crate) struct MemoryStore {
    blocks: Mutex<BTreeMap<u64, Buffer>>,
    next: AtomicU64,
    /// How many pointers lead to each block.
    live: Mutex<BTreeMap<u64, u64>>,
    dead: Mutex<Vec<u64>>,
    /// What the blocks born in a sync are charged with, less those killed.
    grown: AtomicI64,
    /// Done once, after the next read has its block and before the reader gets it.
    pub(crate) after_read: Mutex<Option<Box<dyn FnOnce() + Send>>>,
    /// Done once, after a block of dnodes was rewritten where it is.
    pub(crate) after_rewrite: Mutex<Option<Box<dyn FnOnce() + Send>>>,
    /// Whether a block that is not the one that the pointer was made for is not readable, as with checksums.
    pub(crate) verifies: AtomicBool,
    /// The block of dnodes that cannot be read; 0: none.
    pub(crate) refuse_dnodes: AtomicU64,
    /// Blocks that references may be made to, by the txg that said so.
    named: Mutex<BTreeMap<u64, Txg>>,
    /// Whether syncs write blocks instead of referring to others.
    pub(crate) refuses_references: AtomicBool,
    /// Whether blocks are born a txg too late.
    mistakes_births: AtomicBool,
    /// What a cache would have: blocks that were read, or were to be read ahead, and were not forgotten.
    pub(crate) kept: Mutex<BTreeSet<u64>>,
    /// Blocks that were to be read ahead, as often as that was said.
    pub(crate) ahead: Mutex<Vec<u64>>,
}

fn offset(pointer: &BlockPointer) -> u64 {
    pointer.dva(0).map_or(0, |dva| dva.offset)
}

/// Stands for a checksum; never 0.
fn digest(data: &Buffer) -> ChecksumValue {
    let mut hasher = DefaultHasher::new();
    data.hash(&mut hasher);
    ChecksumValue([hasher.finish() | 1; 4])
}

impl BlockStore for MemoryStore {
    fn read(&self, pointer: &BlockPointer, place: Bookmark) -> Result<Buffer, BlockError> {
        let refused = self.refuse_dnodes.load(Ordering::Relaxed);
        let dnodes = pointer.object_type() == ObjectType::DNODE && place.level == 0;
        if refused != 0 && dnodes && place.block == refused {
            return Err(BlockError::new(Missing(offset(pointer))));
        }
        if pointer.is_hole() {
            return Ok(Buffer::zeroed(pointer.lsize() as usize));
        }
        let at = offset(pointer);
        self.kept.lock().insert(at);
        let found = self.blocks.lock().get(&at).cloned();
        let after = self.after_read.lock().take();
        if let Some(after) = after {
            after();
        }
        let verifies = self.verifies.load(Ordering::Relaxed);
        let is_right = |data: &Buffer| {
            let value = pointer.checksum_value();
            !verifies || value == ChecksumValue([0; 4]) || value == digest(data)
        };
        found
            .filter(is_right)
            .ok_or_else(|| BlockError::new(Missing(at)))
    }

    fn prefetch(&self, blocks: &[(BlockPointer, Bookmark)]) {
        let places = || blocks.iter().map(|(pointer, _)| offset(pointer));
        self.kept.lock().extend(places());
        self.ahead.lock().extend(places());
    }

    fn forget(&self, pointer: &BlockPointer) {
        self.kept.lock().remove(&offset(pointer));
    }

    fn charged_bytes(&self, pointer: &BlockPointer) -> u64 {
        pointer.asize()
    }

    fn reference_rules(&self, _: ObjectSetId, kind: &BlockKind) -> Option<ReferenceRules> {
        let sample = BlockPointer::for_block(kind.object_type, 0, 512, 512);
        Some(ReferenceRules {
            checksum: sample.checksum_id(),
            copies: 1,
        })
    }

    fn will_share(&self, txg: Txg, pointer: &BlockPointer) -> bool {
        assert!(self.live.lock().contains_key(&offset(pointer)));
        let mut named = self.named.lock();
        let newest = named.entry(offset(pointer)).or_insert(txg);
        *newest = txg.max(*newest);
        true
    }
}

struct MemoryWriter<'a> {
    store: &'a MemoryStore,
    txg: Txg,
}

impl BlockWriter for MemoryWriter<'_> {
    fn write(&self, request: &BlockWrite<'_>) -> Result<BlockPointer, BlockError> {
        let size = request.data.len() as u64;
        let BlockWrite { kind, previous, .. } = *request;
        if request.data.iter().all(|&byte| byte == 0) && kind.object_type != ObjectType::OBJECT_SET
        {
            return Ok(if previous.birth() == Txg(0) {
                BlockPointer::HOLE
            } else {
                BlockPointer::hole_with_birth(size, kind.object_type, kind.level, self.txg)
            });
        }
        let again = !previous.is_hole() && previous.birth() == self.txg && previous.lsize() == size;
        let at = if again {
            offset(&previous)
        } else {
            self.store
                .next
                .fetch_add(size.next_multiple_of(4096), Ordering::Relaxed)
                + (1 << 20)
        };
        let mut pointer = BlockPointer::for_block(kind.object_type, kind.level, size, size);
        let late = u64::from(self.store.mistakes_births.load(Ordering::Relaxed));
        let birth = Txg(self.txg.0 + late);
        pointer.set_birth(birth, birth);
        pointer.set_fill(request.fill);
        let dva = Dva {
            vdev: VdevId(0),
            offset: at,
            asize: size,
            gang: false,
        };
        pointer.set_dva(0, Some(dva));
        if self.store.verifies.load(Ordering::Relaxed) {
            pointer.set_checksum(Checksum::Fletcher4, digest(request.data));
        }
        self.store.blocks.lock().insert(at, request.data.clone());
        if again && kind.object_type == ObjectType::DNODE && kind.level == 0 {
            let after = self.store.after_rewrite.lock().take();
            if let Some(after) = after {
                after();
            }
        }
        Ok(pointer)
    }

    fn refer(&self, reference: &BlockReference<'_>) -> Option<BlockPointer> {
        if self.store.refuses_references.load(Ordering::Relaxed) && !reference.is_unreadable {
            return None;
        }
        let named = self
            .store
            .named
            .lock()
            .get(&offset(reference.stored))
            .copied();
        assert!(
            named >= Some(self.txg),
            "{:?} was not named",
            reference.stored
        );
        assert_eq!(reference.stored.lsize(), reference.size as u64);
        assert!(reference.stored.physical_birth() < self.txg);
        let previous = &reference.previous;
        if !previous.is_hole() && offset(previous) == offset(reference.stored) {
            return Some(*previous);
        }
        let mut pointer = *reference.stored;
        pointer.set_birth(self.txg, pointer.physical_birth());
        Some(pointer)
    }
}

impl MemoryStore {
    /// Has written blocks be born a txg too late.
    pub(crate) fn mistake_births(&self) {
        self.mistakes_births.store(true, Ordering::Relaxed);
    }

    /// Has a block not be readable any more.
    pub(crate) fn lose(&self, pointer: &BlockPointer) {
        self.blocks.lock().remove(&offset(pointer));
    }

    /// Changes bytes of the blocks: (which block, which byte, by what).
    pub(crate) fn damage(&self, places: &[(usize, usize, u8)]) {
        let mut blocks = self.blocks.lock();
        let offsets: Vec<u64> = blocks.keys().copied().collect();
        for &(block, byte, flip) in places {
            let Some(data) = blocks.get_mut(&offsets[block % offsets.len()]) else {
                continue;
            };
            let byte = byte % data.len();
            data.make_mut()[byte] ^= flip;
        }
    }
}

/// Believes everything: for object sets that are damaged.
pub(crate) struct Gullible;

impl BlockAccounting for Gullible {
    fn born(&self, _: &BlockPointer) {}

    fn killed(&self, _: &BlockPointer) {}
}

impl BlockAccounting for MemoryStore {
    fn born(&self, pointer: &BlockPointer) {
        let is_reference = pointer.physical_birth() < pointer.birth();
        let mut live = self.live.lock();
        let count = live.entry(offset(pointer)).or_default();
        assert!(*count == 0 || is_reference, "born twice: {pointer:?}");
        *count += 1;
        let bytes = self.charged_bytes(pointer).cast_signed();
        self.grown.fetch_add(bytes, Ordering::Relaxed);
    }

    fn killed(&self, pointer: &BlockPointer) {
        let mut live = self.live.lock();
        let count = live.get_mut(&offset(pointer)).filter(|count| **count > 0);
        let count = count.unwrap_or_else(|| panic!("killed but not alive: {pointer:?}"));
        *count -= 1;
        self.dead.lock().push(offset(pointer));
        let bytes = self.charged_bytes(pointer).cast_signed();
        self.grown.fetch_sub(bytes, Ordering::Relaxed);
    }

    fn grew(&self, bytes: i64) {
        let told = self.grown.swap(0, Ordering::Relaxed);
        assert_eq!(bytes, told, "what the dnodes say, and the blocks");
    }
}

/// An object set in memory, synced by hand.
pub(crate) struct Harness {
    pub(crate) store: Arc<MemoryStore>,
    pub(crate) set: Arc<ObjectSet>,
    pub(crate) txg: Txg,
    pub(crate) workers: SyncWorkers,
}

impl Harness {
    pub(crate) fn new(kind: ObjectSetKind) -> Self {
        let mut harness = Self::with_store(Arc::new(MemoryStore::default()), kind);
        harness.sync();
        harness
    }

    /// An object set that has never been synced.
    pub(crate) fn with_store(store: Arc<MemoryStore>, kind: ObjectSetKind) -> Self {
        let tx = Tx::syncing(Txg(4));
        let set = ObjectSet::create(options(&store), kind, &tx).unwrap();
        Self {
            store,
            set,
            txg: Txg(4),
            workers: SyncWorkers::new(3),
        }
    }

    /// A transaction of the open txg.
    pub(crate) fn tx(&self) -> Tx {
        Tx::syncing(self.txg)
    }

    /// Opens the next txg; what the last one changed is not synced yet.
    pub(crate) fn advance(&mut self) -> Txg {
        let closed = self.txg;
        self.txg = closed.next();
        closed
    }

    /// Syncs `txg` and checks the new tree.
    pub(crate) fn sync_txg(&self, txg: Txg) {
        self.sync_with(txg, self.store.as_ref(), None).unwrap();
    }

    /// Syncs `txg`, telling someone of the blocks born and killed.
    pub(crate) fn sync_with(
        &self,
        txg: Txg,
        accounting: &dyn BlockAccounting,
        engine: Option<&txg::Engine>,
    ) -> crate::error::Result<()> {
        let writer = MemoryWriter {
            store: &self.store,
            txg,
        };
        while self.set.is_dirty(txg) {
            let context = SyncContext {
                txg,
                writer: &writer,
                accounting,
                workers: &self.workers,
                engine,
                hole_birth: true,
                counts_bytes: true,
                account_owners: true,
                account_objects: true,
            };
            self.set.sync(&context)?;
        }
        self.set.synced(txg);
        // Blocks that died are not reused for two txgs; here they are gone at once, so that a
        // reader of a dead block is found out.
        let mut blocks = self.store.blocks.lock();
        let mut live = self.store.live.lock();
        for dead in self.store.dead.lock().drain(..) {
            if live.get(&dead) == Some(&0) {
                blocks.remove(&dead);
                live.remove(&dead);
            }
        }
        self.store.named.lock().retain(|_, named| *named > txg);
        Ok(())
    }

    /// Writes a block as the open txg has it so far.
    pub(crate) fn write_early(&self, object: &crate::Object, block: u64) {
        let writer = MemoryWriter {
            store: &self.store,
            txg: self.txg,
        };
        object.write_early(self.txg, block, &writer).unwrap();
    }

    /// Closes and syncs the open txg.
    pub(crate) fn sync(&mut self) {
        let closed = self.advance();
        self.sync_txg(closed);
        self.check();
    }

    /// Opens the object set again from its root pointer.
    pub(crate) fn reopen(&mut self) {
        self.set = ObjectSet::open(options(&self.store), &self.set.root_pointer()).unwrap();
    }

    /// Every block that lives is reachable by as many pointers as are counted, and the fill counts are right.
    pub(crate) fn check(&self) {
        let mut reached = BTreeMap::new();
        let root = self.set.root_pointer();
        reached.insert(offset(&root), 1);
        let place = Bookmark::root(ObjectSetId(7));
        let phys = ObjectSetPhys::decode(&self.store.read(&root, place).unwrap()).unwrap();
        let mut count = 0;
        let meta = &phys.meta_dnode;
        self.walk_dnode(meta, &mut reached, &mut |store, block| {
            for (index, slot) in format::dnode::slots(&block) {
                if matches!(slot, format::dnode::Slot::Allocated { .. }) {
                    let dnode = format::DnodePhys::decode(&block[index * 512..]).unwrap();
                    let mut inner = BTreeMap::new();
                    let used = walk(store, &dnode, &mut inner);
                    assert_eq!(dnode.used_bytes(), used, "used of {dnode:?}");
                    count += 1;
                    for (at, times) in inner {
                        assert!(store.live.lock().contains_key(&at), "reachable but dead");
                        store.dead.lock().extend((0..times).map(|_| at));
                    }
                }
            }
        });
        for special in [&phys.user_used, &phys.group_used, &phys.project_used]
            .into_iter()
            .flatten()
        {
            walk(&self.store, special, &mut reached);
        }
        for at in self.store.dead.lock().drain(..) {
            *reached.entry(at).or_default() += 1;
        }
        assert_eq!(root.fill(), count, "fill of the root");
        assert_eq!(&reached, &*self.store.live.lock(), "leaked or lost blocks");
    }

    fn walk_dnode(
        &self,
        dnode: &format::DnodePhys,
        reached: &mut BTreeMap<u64, u64>,
        each: &mut dyn FnMut(&MemoryStore, Buffer),
    ) {
        let mut data = Vec::new();
        let used = walk_data(&self.store, dnode, reached, &mut data);
        assert_eq!(dnode.used_bytes(), used, "used of the meta-dnode");
        for block in data {
            each(&self.store, block);
        }
    }
}

fn walk(store: &MemoryStore, dnode: &format::DnodePhys, reached: &mut BTreeMap<u64, u64>) -> u64 {
    walk_data(store, dnode, reached, &mut Vec::new())
}

fn walk_data(
    store: &MemoryStore,
    dnode: &format::DnodePhys,
    reached: &mut BTreeMap<u64, u64>,
    data: &mut Vec<Buffer>,
) -> u64 {
    let mut used = 0;
    for pointer in &dnode.pointers[..usize::from(dnode.pointer_count)] {
        let level = dnode.levels - 1;
        used += walk_pointer(store, pointer, level, dnode, reached, data).0;
    }
    if let Some(spill) = &dnode.spill {
        assert!(reached.insert(offset(spill), 1).is_none());
        used += store.charged_bytes(spill);
    }
    used
}

fn walk_pointer(
    store: &MemoryStore,
    pointer: &BlockPointer,
    level: u8,
    dnode: &format::DnodePhys,
    reached: &mut BTreeMap<u64, u64>,
    data: &mut Vec<Buffer>,
) -> (u64, u64) {
    if pointer.is_hole() {
        return (0, 0);
    }
    assert_eq!(pointer.level(), level);
    let times = reached.entry(offset(pointer)).or_default();
    *times += 1;
    assert!(*times == 1 || level == 0, "reached twice");
    let block = store.read(pointer, Bookmark::root(ObjectSetId(7))).unwrap();
    let mut used = store.charged_bytes(pointer);
    if level == 0 {
        assert_eq!(block.len() as u32, dnode.data_block_size());
        data.push(block);
        return (used, pointer.fill());
    }
    let mut fill = 0;
    for index in 0..block.len() / 128 {
        let child = crate::pointer::get(&block, index);
        let (below, count) = walk_pointer(store, &child, level - 1, dnode, reached, data);
        used += below;
        fill += count;
    }
    assert_eq!(pointer.fill(), fill, "fill at level {level}");
    (used, fill)
}

fn options(store: &Arc<MemoryStore>) -> OpenObjectSet {
    OpenObjectSet {
        store: Arc::clone(store) as Arc<dyn BlockStore>,
        id: ObjectSetId(7),
        writable: true,
        objects_max: 256,
    }
}

mod tests;
