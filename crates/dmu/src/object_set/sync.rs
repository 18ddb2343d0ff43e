//! Syncing an object set: objects, accounting by owner, dnodes, the array of dnodes, the root.
//!
//! Objects are taken in the order of their numbers, a few blocks of dnodes a job, so that one job
//! writes the data, the indirect blocks and the dnodes of neighbours. Objects with much data are
//! split first: their blocks are jobs of their own.

use std::sync::atomic::Ordering;
use std::sync::{Arc, OnceLock};

use base::lock::{LockClass, Mutex, rank};
use base::{Bookmark, Txg};
use format::dnode::{SLOT_SIZE, SLOTS_PER_BLOCK, Slot};
use format::{BlockPointer, DnodePhys, ObjectSetKind, ObjectSetPhys, ObjectType};
use sys::BufferMut;

use super::meta::{BLOCK_SIZE, Meta, MetaVersion};
use super::{Header, ObjectSet};
use crate::accounting::Changes;
use crate::dnode_header::to_phys;
use crate::editor::{Editor, book};
use crate::error::{DmuError, Result};
use crate::object::{Object, Synced, Work};
use crate::store::{BlockKind, BlockWrite, Owner, SyncContext};
use crate::tunables;
use crate::tx::Tx;
use crate::workers::SyncWorkers;
use crate::zap::Zap;

static EDIT: LockClass = LockClass::nesting("dmu.sync_edit", rank::DMU + 5);
static RESULTS: LockClass = LockClass::new("dmu.sync_results", rank::DMU + 6);

/// An object whose blocks are written by several jobs.
struct Large<'a> {
    work: &'a Work,
    editor: Mutex<Option<Editor<'a>>>,
    previous: OnceLock<Vec<BlockPointer>>,
    written: Vec<OnceLock<BlockPointer>>,
    done: OnceLock<Synced>,
}

/// A range of blocks of a large object.
struct Piece {
    large: usize,
    from: usize,
    to: usize,
}

/// Objects of one block of dnodes.
struct Group<'a> {
    block: u64,
    objects: &'a [Arc<Object>],
}

/// What the jobs on blocks of dnodes leave behind.
#[derive(Default)]
struct Results {
    /// Block, old pointer, new pointer; nothing when the block has no dnode left.
    blocks: Vec<(u64, BlockPointer, Option<BlockPointer>)>,
    changes: Changes,
    /// By how much the objects' blocks are charged more than before.
    used_delta: i64,
}

impl ObjectSet {
    /// Reads what the sync of `txg`, which has closed, will need, apart from what it frees as whole trees; nothing is
    /// changed. An object set that cannot be synced must be known before the first of its blocks is written or freed.
    ///
    /// # Errors
    /// A block cannot be read: [`ObjectSet::sync`] would fail half-way.
    pub fn look_ahead(&self, txg: Txg, workers: &SyncWorkers) -> Result<()> {
        let mut objects = self.shared.dirty.peek(txg);
        objects.retain(|object| Owner::of_object(object.id()).is_none());
        objects.sort_unstable_by_key(|object| object.id());
        let groups: Vec<&[Arc<Object>]> = objects
            .chunk_by(|one, other| block_of(one) == block_of(other))
            .collect();
        let jobs: Vec<_> = groups.chunks(tunables::SYNC_JOB_BLOCKS.count()).collect();
        workers.run(
            jobs.len(),
            objects.len() >= tunables::SYNC_HEAVY_OBJECTS.count(),
            |job| {
                for group in jobs[job] {
                    self.shared
                        .meta
                        .read_block(&self.shared, block_of(&group[0]))?;
                    for object in *group {
                        object.look_ahead(txg)?;
                    }
                }
                Ok(())
            },
        )
    }

    /// Whether the sync of what is dirty now in `txg` is worth several threads.
    #[must_use]
    pub fn is_heavy(&self, txg: Txg) -> bool {
        let many = tunables::SYNC_HEAVY_OBJECTS.count();
        let some = self.shared.dirty.some(txg, many);
        let bytes = some.iter().map(|object| object.dirty_bytes(txg));
        some.len() >= many || bytes.sum::<u64>() >= tunables::SYNC_HEAVY_BYTES.get()
    }

    /// Writes everything that is dirty in the context's txg; the pointer to the new root block.
    /// Called again in the same txg when more became dirty.
    ///
    /// # Errors
    /// A block cannot be read or written. The txg must not be completed then.
    pub fn sync(&self, context: &SyncContext<'_>) -> Result<BlockPointer> {
        let txg = context.txg;
        let mut context = *context;
        if self.kind() != ObjectSetKind::FileSystem {
            context.account_owners = false;
        }
        context.account_objects &= context.account_owners;
        let context = &context;
        let header = self.header_dirty[txg.slot()].swap(false, Ordering::AcqRel);
        let mut objects = self.shared.dirty.take(txg);
        if objects.is_empty() && !header {
            return Ok(self.root_pointer());
        }
        let _pass = self.shared.passes.begin(txg);
        objects.sort_unstable_by_key(|object| object.id());
        check_once(context, &objects);
        let ordinary = objects.partition_point(|object| Owner::of_object(object.id()).is_none());
        let mut special = objects.split_off(ordinary);
        let results = self.sync_objects(context, &objects)?;
        if context.account_owners {
            self.account(context, &results.changes)?;
        }
        special.extend(self.shared.dirty.take(txg));
        // The accounting is not accounted for itself.
        let unaccounted = SyncContext {
            account_owners: false,
            account_objects: false,
            ..*context
        };
        let mut used_delta = results.used_delta;
        for object in &special {
            if let Some(work) = object.begin_sync(txg) {
                let synced = work.run(&unaccounted)?;
                used_delta += synced.used_delta;
                object.end_sync(txg, &synced, false);
            }
        }
        let (next, meta_delta) = self.sync_meta(context, results.blocks)?;
        let (root, root_delta) = self.sync_root(context, &next)?;
        context
            .accounting
            .grew(used_delta + meta_delta + root_delta);
        self.shared.meta.swap(next);
        for object in objects.iter().chain(&special) {
            object.leave();
        }
        Ok(root)
    }

    fn sync_objects(&self, context: &SyncContext<'_>, objects: &[Arc<Object>]) -> Result<Results> {
        let sizes: Vec<u64> = objects
            .iter()
            .map(|object| object.dirty_bytes(context.txg))
            .collect();
        let total: u64 = sizes.iter().sum();
        let heavy = total >= tunables::SYNC_HEAVY_BYTES.get()
            || objects.len() >= tunables::SYNC_HEAVY_OBJECTS.count();
        let large = tunables::SYNC_LARGE_BYTES.get();
        let works: Vec<Work> = objects
            .iter()
            .zip(&sizes)
            .filter(|(_, bytes)| **bytes > large)
            .filter_map(|(object, _)| object.begin_sync(context.txg))
            .collect();
        let larges = sync_large(context, &works)?;
        let groups: Vec<Group<'_>> = objects
            .chunk_by(|one, other| block_of(one) == block_of(other))
            .map(|objects| Group {
                block: block_of(&objects[0]),
                objects,
            })
            .collect();
        let results = Mutex::new(&RESULTS, Results::default());
        let jobs: Vec<&[Group<'_>]> = groups.chunks(tunables::SYNC_JOB_BLOCKS.count()).collect();
        context.workers.run(jobs.len(), heavy, |job| {
            let mut mine = Results::default();
            for group in jobs[job] {
                self.sync_group(context, group, &larges, &mut mine)?;
            }
            let mut all = results.lock();
            all.blocks.append(&mut mine.blocks);
            all.changes.merge(mine.changes);
            all.used_delta += mine.used_delta;
            Ok::<(), DmuError>(())
        })?;
        Ok(results.into_inner())
    }

    /// Writes the objects of one block of dnodes, and the block.
    fn sync_group(
        &self,
        context: &SyncContext<'_>,
        group: &Group<'_>,
        larges: &[Large<'_>],
        results: &mut Results,
    ) -> Result<()> {
        let mut data =
            BufferMut::from_slice(&self.shared.meta.read_block(&self.shared, group.block)?);
        for object in group.objects {
            let large = larges
                .binary_search_by_key(&object.id(), |large| large.work.object.id())
                .ok()
                .and_then(|index| larges[index].done.get());
            let outcome = if let Some(synced) = large {
                encode_into(&mut data, object, synced);
                results.used_delta += synced.used_delta;
                object.end_sync(context.txg, synced, context.account_owners)
            } else {
                let Some(work) = object.begin_sync(context.txg) else {
                    continue;
                };
                let synced = work.run(context)?;
                encode_into(&mut data, object, &synced);
                drop(work);
                results.used_delta += synced.used_delta;
                object.end_sync(context.txg, &synced, context.account_owners)
            };
            results.changes.add(&outcome);
        }
        let fill = format::dnode::slots(&data)
            .filter(|(_, slot)| matches!(slot, Slot::Allocated { .. }))
            .count() as u64;
        let previous = self.shared.meta.pointer(&self.shared, 0, group.block)?;
        if fill == 0 {
            results.blocks.push((group.block, previous, None));
            return Ok(());
        }
        let place = Meta::reader(&self.shared).place(0, group.block);
        let data = data.freeze();
        let request = BlockWrite {
            data: &data,
            form: self.seal_of(group.block, &previous),
            kind: kind(ObjectType::DNODE),
            fill,
            previous,
            shared: None,
            cached: true,
            place,
        };
        let new = context.writer.write(&request);
        let new = new.map_err(|source| DmuError::Write { place, source })?;
        self.forget_seal(group.block, &new);
        self.shared.store.keep(&new, place, &data);
        results.blocks.push((group.block, previous, Some(new)));
        Ok(())
    }

    /// Makes the next version of the array of dnodes; by how much its blocks are charged more than before.
    fn sync_meta(
        &self,
        context: &SyncContext<'_>,
        mut blocks: Vec<(u64, BlockPointer, Option<BlockPointer>)>,
    ) -> Result<(MetaVersion, i64)> {
        let mut next = MetaVersion::clone(&self.shared.meta.version());
        blocks.sort_unstable_by_key(|(block, _, _)| *block);
        let mut editor = Editor::new(next.tree.clone(), context, Meta::reader(&self.shared));
        editor.raise(next.header.levels_min)?;
        if let Some((last, _, _)) = blocks.last() {
            editor.grow_to(*last)?;
            next.header.max_block = next.header.max_block.max(*last);
        }
        for (block, old, new) in blocks {
            match new {
                Some(new) => editor.set_data(block, &old, new)?,
                None => editor.free(block, block)?,
            }
        }
        let edited = editor.finish()?;
        next.tree = edited.tree;
        next.tree.max_block = next.header.max_block;
        let used = next
            .footprint
            .used_bytes
            .saturating_add_signed(edited.used_delta);
        next.footprint.used_bytes = used;
        if edited.touched {
            next.footprint
                .flags
                .set(format::dnode::DnodeFlags::USED_BYTES, context.counts_bytes);
        }
        Ok((next, edited.used_delta))
    }

    fn sync_root(
        &self,
        context: &SyncContext<'_>,
        next: &MetaVersion,
    ) -> Result<(BlockPointer, i64)> {
        let header = self.header.lock().clone();
        let owners = self.owners.read().clone();
        let special = |owner: Owner| {
            owners[owner.index()]
                .as_ref()
                .map(|object| object.to_phys())
        };
        let meta_dnode = to_phys(&next.header, &next.tree, &next.footprint);
        let fill = next.tree.pointers.iter().map(BlockPointer::fill).sum();
        let Header {
            root,
            log_header,
            kind: set_kind,
            flags,
            portable_mac,
            local_mac,
            size,
        } = header;
        let phys = ObjectSetPhys {
            meta_dnode,
            log_header,
            kind: set_kind,
            flags,
            portable_mac,
            local_mac,
            user_used: special(Owner::User),
            group_used: special(Owner::Group),
            project_used: special(Owner::Project),
        };
        let place = Bookmark::root(self.shared.id);
        let mut data = BufferMut::zeroed(size);
        phys.encode(&mut data)
            .map_err(|error| DmuError::corrupt(place, error.to_string()))?;
        let request = BlockWrite {
            data: &data.freeze(),
            form: None,
            kind: kind(ObjectType::OBJECT_SET),
            fill,
            previous: root,
            shared: None,
            cached: true,
            place,
        };
        let new = context.writer.write(&request);
        let new = new.map_err(|source| DmuError::Write { place, source })?;
        let (delta, _) = book(context, self.shared.store.as_ref(), &root, &new);
        self.header.lock().root = new;
        Ok((new, delta))
    }

    /// Applies the changes of charges to the accounting ZAPs.
    fn account(&self, context: &SyncContext<'_>, changes: &Changes) -> Result<()> {
        let tx = Tx::syncing(context.txg);
        let projects = self.flags() & ObjectSetPhys::FLAG_PROJECT_QUOTA != 0;
        for owner in Owner::ALL {
            if owner == Owner::Project && !projects {
                continue;
            }
            let mut all = changes.of(owner).peekable();
            if all.peek().is_none() {
                continue;
            }
            let zap = match self.accounting_zap(&tx, owner) {
                Err(error) if error.is_damage() => continue,
                zap => zap?,
            };
            for (id, change) in all {
                let key = format!("{id:x}");
                count(&zap, &tx, key.as_bytes(), change.bytes)?;
                if context.account_objects {
                    count(&zap, &tx, format!("obj-{key}").as_bytes(), change.objects)?;
                }
            }
        }
        Ok(())
    }

    /// The accounting ZAP of a kind, made when there is none yet.
    fn accounting_zap(&self, tx: &Tx, owner: Owner) -> Result<Zap> {
        if let Some(object) = self.used_object(owner) {
            return Zap::open(&object);
        }
        let phys = DnodePhys::new(ObjectType::USER_GROUP_USED, 512, 17, ObjectType::NONE, 0, 1);
        let object = Object::create(&self.shared, owner.object(), &phys);
        object.enter_new(tx)?;
        let zap = Zap::format(&object, tx, 0)?;
        self.owners.write()[owner.index()] = Some(object);
        Ok(zap)
    }
}

/// Changes a count. One that is damaged is wrong from then on, and no more than that.
fn count(zap: &Zap, tx: &Tx, key: &[u8], change: i64) -> Result<()> {
    match zap.increment(tx, key, change) {
        Err(error) if error.is_damage() => Ok(()),
        done => done,
    }
}

/// Which objects a txg changed is known from its list alone; one that is on it twice would be written from two states.
fn check_once(context: &SyncContext<'_>, sorted: &[Arc<Object>]) {
    let Some(engine) = context.engine else {
        return;
    };
    let twice = sorted
        .array_windows()
        .find(|[one, other]| one.id() == other.id());
    if let Some([object, _]) = twice {
        let (object, txg) = (object.id(), context.txg);
        let finding = format_args!("object {object} is twice on the list of txg {txg}");
        engine.findings().note("dmu.dirty", finding);
    }
}

fn block_of(object: &Arc<Object>) -> u64 {
    object.id().0 / SLOTS_PER_BLOCK as u64
}

const fn kind(object_type: ObjectType) -> BlockKind {
    BlockKind {
        object_type,
        level: 0,
        spill: false,
        checksum: 0,
        compress: 0,
    }
}

fn encode_into(block: &mut [u8], object: &Object, synced: &Synced) {
    let start = (object.id().0 % SLOTS_PER_BLOCK as u64) as usize * SLOT_SIZE;
    let end = (start + synced.slots() * SLOT_SIZE).min(BLOCK_SIZE);
    if let Some(slots) = block.get_mut(start..end) {
        synced.encode(slots);
    }
}

/// Writes the blocks of objects that are worth splitting.
fn sync_large<'a>(context: &'a SyncContext<'a>, works: &'a [Work]) -> Result<Vec<Large<'a>>> {
    let larges: Vec<Large<'a>> = works
        .iter()
        .map(|work| Large {
            work,
            editor: Mutex::new(&EDIT, None),
            previous: OnceLock::new(),
            written: (0..work.blocks().len()).map(|_| OnceLock::new()).collect(),
            done: OnceLock::new(),
        })
        .collect();
    context
        .workers
        .run(larges.len(), true, |index| larges[index].open(context))?;
    let mut pieces = Vec::new();
    for (large, Large { work, .. }) in larges.iter().enumerate() {
        let step = (tunables::SYNC_JOB_BYTES.get() / work.block_size().max(1)).max(1) as usize;
        let count = work.blocks().len();
        pieces.extend((0..count).step_by(step).map(|from| Piece {
            large,
            from,
            to: (from + step).min(count),
        }));
    }
    context.workers.run(pieces.len(), true, |index| {
        let Piece { large, from, to } = pieces[index];
        larges[large].write(context, from, to)
    })?;
    context
        .workers
        .run(larges.len(), true, |index| larges[index].close(context))?;
    Ok(larges)
}

impl<'a> Large<'a> {
    /// Opens the tree and looks up what the new blocks replace.
    fn open(&self, context: &'a SyncContext<'a>) -> Result<()> {
        let mut editor = self.work.edit(context)?;
        let blocks = self.work.blocks().iter();
        let previous = blocks
            .map(|(block, _)| editor.pointer_at(0, *block))
            .collect::<Result<Vec<_>>>()?;
        let _ = self.previous.set(previous);
        *self.editor.lock() = Some(editor);
        Ok(())
    }

    fn previous(&self, index: usize) -> BlockPointer {
        self.previous
            .get()
            .and_then(|all| all.get(index))
            .copied()
            .unwrap_or(BlockPointer::HOLE)
    }

    fn write(&self, context: &SyncContext<'_>, from: usize, to: usize) -> Result<()> {
        for index in from..to {
            let new = self
                .work
                .write_block(context, index, self.previous(index))?;
            let _ = self.written[index].set(new);
        }
        Ok(())
    }

    /// Puts the new pointers in and writes the indirect blocks.
    fn close(&self, context: &SyncContext<'_>) -> Result<()> {
        let editor = self.editor.lock().take();
        let Some(mut editor) = editor else {
            return Ok(());
        };
        for (index, (block, _)) in self.work.blocks().iter().enumerate() {
            let old = self.previous(index);
            let new = self.written[index].get().copied().unwrap_or(old);
            editor.set_data(*block, &old, new)?;
        }
        let _ = self.done.set(self.work.finish(editor, context)?);
        Ok(())
    }
}
