//! An object store in memory that knows which blocks live, for this crate's tests.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use base::{ObjectSetId, Txg, VdevId};
use format::block_pointer::Dva;
use format::{BlockPointer, ObjectSetKind, ObjectSetPhys, ObjectType};
use parking_lot::Mutex;
use sys::Buffer;

use crate::error::{BlockError, Place};
use crate::object_set::{ObjectSet, OpenObjectSet};
use crate::store::{BlockAccounting, BlockStore, BlockWrite, BlockWriter, SyncContext};
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
    live: Mutex<BTreeSet<u64>>,
    dead: Mutex<Vec<u64>>,
    /// Done once, after the next read has its block and before the reader gets it.
    pub(crate) after_read: Mutex<Option<Box<dyn FnOnce() + Send>>>,
}

fn offset(pointer: &BlockPointer) -> u64 {
    pointer.dva(0).map_or(0, |dva| dva.offset)
}

impl BlockStore for MemoryStore {
    fn read(&self, pointer: &BlockPointer, _: Place) -> Result<Buffer, BlockError> {
        if pointer.is_hole() {
            return Ok(Buffer::zeroed(pointer.lsize() as usize));
        }
        let at = offset(pointer);
        let found = self.blocks.lock().get(&at).cloned();
        let after = self.after_read.lock().take();
        if let Some(after) = after {
            after();
        }
        found.ok_or_else(|| BlockError::new(Missing(at)))
    }

    fn prefetch(&self, _: &[(BlockPointer, Place)]) {}

    fn charged_bytes(&self, pointer: &BlockPointer) -> u64 {
        pointer.asize()
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
        pointer.set_birth(self.txg, self.txg);
        pointer.set_fill(request.fill);
        let dva = Dva {
            vdev: VdevId(0),
            offset: at,
            asize: size,
            gang: false,
        };
        pointer.set_dva(0, Some(dva));
        self.store.blocks.lock().insert(at, request.data.clone());
        Ok(pointer)
    }
}

impl MemoryStore {
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
        assert!(
            self.live.lock().insert(offset(pointer)),
            "born twice: {pointer:?}"
        );
    }

    fn killed(&self, pointer: &BlockPointer) {
        assert!(
            self.live.lock().remove(&offset(pointer)),
            "killed but not alive: {pointer:?}"
        );
        self.dead.lock().push(offset(pointer));
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
                account_owners: true,
                account_objects: true,
            };
            self.set.sync(&context)?;
        }
        self.set.synced(txg);
        // Blocks that died are not reused for two txgs; here they are gone at once, so that a
        // reader of a dead block is found out.
        let mut blocks = self.store.blocks.lock();
        for dead in self.store.dead.lock().drain(..) {
            blocks.remove(&dead);
        }
        Ok(())
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

    /// Every block that lives is reachable exactly once, and the fill counts are right.
    pub(crate) fn check(&self) {
        let mut reached = BTreeSet::new();
        let root = self.set.root_pointer();
        assert!(reached.insert(offset(&root)));
        let place = Place::root(ObjectSetId(7));
        let phys = ObjectSetPhys::decode(&self.store.read(&root, place).unwrap()).unwrap();
        let mut count = 0;
        let meta = &phys.meta_dnode;
        self.walk_dnode(meta, &mut reached, &mut |store, block| {
            for (index, slot) in format::dnode::slots(&block) {
                if matches!(slot, format::dnode::Slot::Allocated { .. }) {
                    let dnode = format::DnodePhys::decode(&block[index * 512..]).unwrap();
                    let mut inner = BTreeSet::new();
                    let used = walk(store, &dnode, &mut inner);
                    assert_eq!(dnode.used_bytes(), used, "used of {dnode:?}");
                    count += 1;
                    for at in inner {
                        assert!(store.live.lock().contains(&at), "reachable but dead");
                        store.dead.lock().push(at);
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
        reached.extend(self.store.dead.lock().drain(..));
        assert_eq!(root.fill(), count, "fill of the root");
        assert_eq!(&reached, &*self.store.live.lock(), "leaked or lost blocks");
    }

    fn walk_dnode(
        &self,
        dnode: &format::DnodePhys,
        reached: &mut BTreeSet<u64>,
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

fn walk(store: &MemoryStore, dnode: &format::DnodePhys, reached: &mut BTreeSet<u64>) -> u64 {
    walk_data(store, dnode, reached, &mut Vec::new())
}

fn walk_data(
    store: &MemoryStore,
    dnode: &format::DnodePhys,
    reached: &mut BTreeSet<u64>,
    data: &mut Vec<Buffer>,
) -> u64 {
    let mut used = 0;
    for pointer in &dnode.pointers[..usize::from(dnode.pointer_count)] {
        let level = dnode.levels - 1;
        used += walk_pointer(store, pointer, level, dnode, reached, data).0;
    }
    if let Some(spill) = &dnode.spill {
        assert!(reached.insert(offset(spill)));
        used += store.charged_bytes(spill);
    }
    used
}

fn walk_pointer(
    store: &MemoryStore,
    pointer: &BlockPointer,
    level: u8,
    dnode: &format::DnodePhys,
    reached: &mut BTreeSet<u64>,
    data: &mut Vec<Buffer>,
) -> (u64, u64) {
    if pointer.is_hole() {
        return (0, 0);
    }
    assert_eq!(pointer.level(), level);
    assert!(reached.insert(offset(pointer)), "reached twice");
    let block = store.read(pointer, Place::root(ObjectSetId(7))).unwrap();
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
