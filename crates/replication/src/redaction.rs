//! What a redaction list is to have: the blocks of files and volumes of a snapshot that some other snapshots, which
//! come from it, all changed, freed, or deleted with their object.
//!
//! Names, sizes and attributes are not redacted: only contents of files and volumes are.

mod blocks_of;
mod cursor;

use std::sync::Arc;
use std::time::Duration;

use base::{ObjectId, Txg};
use dmu::Zap;
use dsl::Dataset;
use format::dnode::SLOTS_PER_BLOCK;
use format::redaction::RedactedRange;
use format::{BlockPointer, DnodePhys, ObjectSetKind, ObjectType};
use pool::Pool;

pub(crate) use cursor::Cursor;

use crate::blocks::{Blocks, FindError};
use crate::tunables::{REDACTION_BATCH, REDACTION_REST_MS};
use blocks_of::{Ranges, changed, intersection};

type Result<T, E = FindError> = std::result::Result<T, E>;

/// What takes ranges.
pub trait Taker<E> {
    /// Some of them, and the object and the block up to which these are all.
    ///
    /// # Errors
    /// They are not taken.
    fn take(
        &mut self,
        ranges: Vec<RedactedRange>,
        reached: (ObjectId, u64),
    ) -> std::result::Result<(), E>;

    /// Asked before each block that leads to others is read.
    ///
    /// # Errors
    /// No more is wanted.
    fn go_on(&mut self) -> std::result::Result<(), E>;
}

/// A snapshot that changed things.
struct Other {
    blocks: Blocks,
    /// The objects that have no name any more.
    unlinked: Option<Zap>,
}

impl Other {
    fn of(pool: &Arc<Pool>, dataset: &Arc<Dataset>) -> Result<Self> {
        const MASTER: ObjectId = ObjectId(1);
        let objects = dataset.object_set()?;
        let unlinked = match objects.kind() {
            ObjectSetKind::FileSystem => {
                let master = Zap::open(&objects.object(MASTER)?)?;
                let id = master.lookup(b"DELETE_QUEUE")?.map(ObjectId);
                id.map(|id| Zap::open(&objects.object(id)?)).transpose()?
            }
            ObjectSetKind::Volume
            | ObjectSetKind::None
            | ObjectSetKind::Meta
            | ObjectSetKind::Other => None,
        };
        Ok(Self {
            blocks: Blocks::of(pool, dataset)?,
            unlinked,
        })
    }

    /// An object as it is there; nothing of one that was deleted.
    fn object(&mut self, object: ObjectId) -> Result<Option<DnodePhys>> {
        if let Some(unlinked) = &self.unlinked
            && unlinked.lookup_int(object.0)?.is_some()
        {
            return Ok(None);
        }
        self.blocks.dnode(object)
    }
}

/// Finds all that `others` changed of a snapshot, behind an object and a block, and hands it to `taker`.
///
/// # Errors
/// Something cannot be read, or is not taken, or no more is wanted.
pub fn redact<E: From<FindError>>(
    pool: &Arc<Pool>,
    snapshot: &Arc<Dataset>,
    others: &[Arc<Dataset>],
    from: (ObjectId, u64),
    taker: &mut dyn Taker<E>,
) -> std::result::Result<(), E> {
    let blocks = Blocks::of(pool, snapshot)?;
    let others: Result<Vec<Other>> = others.iter().map(|one| Other::of(pool, one)).collect();
    let since = snapshot.phys().map_err(FindError::from)?.creation_txg;
    let mut redactor = Redactor {
        blocks,
        others: others?,
        since,
        from,
        found: Vec::new(),
        taker,
    };
    redactor.run()
}

struct Redactor<'a, E> {
    blocks: Blocks,
    others: Vec<Other>,
    /// When the snapshot was taken.
    since: Txg,
    /// What was found before.
    from: (ObjectId, u64),
    found: Vec<RedactedRange>,
    taker: &'a mut dyn Taker<E>,
}

impl<E: From<FindError>> Redactor<'_, E> {
    fn run(&mut self) -> std::result::Result<(), E> {
        const PER_BLOCK: u64 = SLOTS_PER_BLOCK as u64;
        let mut next = Some(self.from.0.0 / PER_BLOCK);
        while let Some(index) = next {
            self.taker.go_on()?;
            let Some(index) = self.blocks.next_dnodes(index)? else {
                break;
            };
            if self.all_changed_dnodes(index)? {
                for object in (index * PER_BLOCK..(index + 1) * PER_BLOCK).map(ObjectId) {
                    if object >= self.from.0 {
                        self.object(object)?;
                    }
                }
            }
            next = index.checked_add(1);
        }
        let all = (ObjectId(u64::MAX), u64::MAX);
        let rest = std::mem::take(&mut self.found);
        self.taker.take(rest, all)
    }

    /// Whether each of the others changed something of a block of dnodes.
    fn all_changed_dnodes(&mut self, index: u64) -> Result<bool> {
        for other in &self.others {
            let pointer = other.blocks.dnodes_pointer(index)?;
            if !pointer.is_hole() && pointer.birth() <= self.since {
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn object(&mut self, object: ObjectId) -> std::result::Result<(), E> {
        let Some(dnode) = self.blocks.dnode(object)? else {
            return Ok(());
        };
        let has_contents = [ObjectType::PLAIN_FILE, ObjectType::ZVOL].contains(&dnode.object_type);
        if !has_contents {
            return Ok(());
        }
        let mut others = Vec::new();
        for other in &mut self.others {
            let there = other.object(object)?;
            // What has blocks of another size has none of these.
            let same = there.filter(|there| {
                there.object_type == dnode.object_type
                    && there.data_block_size() == dnode.data_block_size()
            });
            if let Some(there) = &same
                && there.max_block_id >= dnode.max_block_id
                && tops(there).all(|pointer| !pointer.is_hole() && pointer.birth() <= self.since)
            {
                return Ok(());
            }
            others.push(same);
        }
        let mut window = self.blocks.first_leaf(object, &dnode, 0)?;
        while let Some((first, pointers)) = window {
            self.taker.go_on()?;
            self.leaf(object, &dnode, (first, &pointers), &others)?;
            let end = first.saturating_add(pointers.len() as u64);
            window = self.blocks.first_leaf(object, &dnode, end)?;
        }
        Ok(())
    }

    /// The blocks of one indirect block, or those that the dnode leads to.
    fn leaf(
        &mut self,
        object: ObjectId,
        dnode: &DnodePhys,
        (first, pointers): (u64, &[BlockPointer]),
        others: &[Option<DnodePhys>],
    ) -> std::result::Result<(), E> {
        let mut ranges = Ranges::new();
        for (block, pointer) in (first..).zip(pointers) {
            if !pointer.is_hole() && block <= dnode.max_block_id {
                ranges.push_block(block);
            }
        }
        let last = first
            .saturating_add(pointers.len() as u64)
            .saturating_sub(1);
        for (other, there) in self.others.iter().zip(others) {
            if ranges.is_empty() {
                return Ok(());
            }
            if let Some(there) = there {
                let changes = changed(&other.blocks, (object, there), (first, last), self.since)?;
                ranges = intersection(&ranges, &changes);
            }
        }
        for (first, end) in ranges.iter() {
            // What was found before is there.
            let first = if object == self.from.0 {
                first.max(self.from.1.saturating_add(1))
            } else {
                first
            };
            if first < end {
                let size = dnode.data_block_size();
                self.add(RedactedRange::new(object, first, end - first, size))?;
            }
        }
        Ok(())
    }

    fn add(&mut self, range: RedactedRange) -> std::result::Result<(), E> {
        if let Some(last) = self.found.last_mut()
            && last.join(&range)
        {
            return Ok(());
        }
        let most = usize::try_from(REDACTION_BATCH.get()).unwrap_or(usize::MAX);
        if self.found.len() >= most {
            let batch = std::mem::take(&mut self.found);
            let reached = batch.last().map_or(self.from, |last| {
                (last.object, last.end().saturating_sub(1))
            });
            self.taker.take(batch, reached)?;
            base::thread::sleep(Duration::from_millis(REDACTION_REST_MS.get()));
        }
        self.found.push(range);
        Ok(())
    }
}

/// The pointers in a dnode.
fn tops(dnode: &DnodePhys) -> impl Iterator<Item = &BlockPointer> {
    dnode.pointers.iter().take(dnode.pointer_count.into())
}
