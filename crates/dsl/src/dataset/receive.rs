//! A dataset that is being received: what a stream that goes on later needs to know of it, and whether a head is still
//! as its snapshot left it.

use std::sync::Arc;

use base::lock::{LockClass, Mutex, rank};
use base::{Guid, ObjectSetId, Txg};
use dmu::{ObjectSet, SealedShape, Tx, Zap};
use format::dsl::{DatasetPhys, key};
use format::zap::Value;

use super::Dataset;
use crate::error::{DslError, Result};

static RECEIVED: LockClass = LockClass::new("dsl.received", rank::LAST + 13);

/// How far a receive has come.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ResumePoint {
    /// The object that was written last.
    pub object: u64,
    /// The offset in it.
    pub offset: u64,
    /// Bytes of the stream that were read by then.
    pub bytes: u64,
}

/// What is kept of a receive that may be interrupted and go on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ResumeState {
    /// The guid of the snapshot that is received.
    pub to_guid: Guid,
    /// The guid of the snapshot that the stream begins at; 0 of a full one.
    pub from_guid: Guid,
    /// The snapshot's name on the sending side.
    pub to_name: String,
    /// How far it has come.
    pub point: ResumePoint,
    /// The stream has blocks above 128 KiB.
    pub large_blocks: bool,
    /// The stream has embedded blocks.
    pub embedded: bool,
    /// The stream has compressed blocks.
    pub compressed: bool,
    /// The stream has encrypted blocks as they are stored.
    pub raw: bool,
    /// The guids of the snapshots by which the bookmark is redacted that the stream begins at.
    pub redacted_from: Option<Vec<Guid>>,
}

impl ResumeState {
    /// The keys that say something of the stream, with what they say.
    const fn marks(&self) -> [(&'static str, bool); 4] {
        [
            (key::RESUME_LARGE_BLOCK, self.large_blocks),
            (key::RESUME_EMBEDDED, self.embedded),
            (key::RESUME_COMPRESSED, self.compressed),
            (key::RESUME_RAW, self.raw),
        ]
    }

    pub(crate) fn store(&self, tx: &Tx, zap: &Zap) -> Result<()> {
        if self.from_guid.0 != 0 {
            zap.update(tx, key::RESUME_FROM_GUID.as_bytes(), self.from_guid.0)?;
        }
        zap.update(tx, key::RESUME_TO_GUID.as_bytes(), self.to_guid.0)?;
        let name = Value::string(&self.to_name);
        zap.update_value(tx, key::RESUME_TO_NAME.as_bytes(), &name)?;
        store_point(tx, zap, &self.point)?;
        if let Some(guids) = self
            .redacted_from
            .as_ref()
            .filter(|guids| !guids.is_empty())
        {
            let words: Vec<u64> = guids.iter().map(|guid| guid.0).collect();
            let key = key::RESUME_REDACT_BOOKMARK_SNAPS.as_bytes();
            zap.update_value(tx, key, &Value::words(&words))?;
        }
        for (key, is_set) in self.marks() {
            if is_set {
                zap.update(tx, key.as_bytes(), 1)?;
            }
        }
        Ok(())
    }
}

fn store_point(tx: &Tx, zap: &Zap, point: &ResumePoint) -> Result<()> {
    zap.update(tx, key::RESUME_OBJECT.as_bytes(), point.object)?;
    zap.update(tx, key::RESUME_OFFSET.as_bytes(), point.offset)?;
    zap.update(tx, key::RESUME_BYTES.as_bytes(), point.bytes)?;
    Ok(())
}

/// How far a receive had come at the end of each txg that has not synced.
pub(super) struct Noted(Mutex<[Option<(Txg, ResumePoint)>; Txg::SLOTS]>);

impl Noted {
    pub(super) fn new() -> Self {
        Self(Mutex::new(&RECEIVED, [None; Txg::SLOTS]))
    }
}

impl Dataset {
    /// What is kept of a receive into this head that was interrupted and can go on.
    ///
    /// # Errors
    /// The keys beside the record cannot be read.
    pub fn resume_state(&self) -> Result<Option<ResumeState>> {
        let Some(zap) = self.extra()? else {
            return Ok(None);
        };
        let word = |key: &str| zap.lookup(key.as_bytes());
        let Some(to_guid) = word(key::RESUME_TO_GUID)? else {
            return Ok(None);
        };
        let name = zap.lookup_value(key::RESUME_TO_NAME.as_bytes())?;
        let name = name.as_ref().and_then(Value::as_text).unwrap_or("");
        Ok(Some(ResumeState {
            to_guid: Guid(to_guid),
            from_guid: Guid(word(key::RESUME_FROM_GUID)?.unwrap_or(0)),
            to_name: name.to_owned(),
            point: ResumePoint {
                object: word(key::RESUME_OBJECT)?.unwrap_or(0),
                offset: word(key::RESUME_OFFSET)?.unwrap_or(0),
                bytes: word(key::RESUME_BYTES)?.unwrap_or(0),
            },
            large_blocks: word(key::RESUME_LARGE_BLOCK)?.is_some(),
            embedded: word(key::RESUME_EMBEDDED)?.is_some(),
            compressed: word(key::RESUME_COMPRESSED)?.is_some(),
            raw: word(key::RESUME_RAW)?.is_some(),
            redacted_from: zap
                .lookup_value(key::RESUME_REDACT_BOOKMARK_SNAPS.as_bytes())?
                .map(|value| value.to_words().into_iter().map(Guid).collect()),
        }))
    }

    /// Notes how far a receive into this head has come with a transaction: stored with what the transaction writes.
    pub fn note_received(&self, tx: &Tx, point: ResumePoint) {
        let mut noted = self.received.0.lock();
        if let Some(slot) = noted.get_mut(tx.txg().slot()) {
            *slot = Some((tx.txg(), point));
        }
    }

    /// Stores how far the receive has come with this txg, if it is one that may go on.
    pub(super) fn store_received(&self, tx: &Tx) -> Result<()> {
        let noted = {
            let mut noted = self.received.0.lock();
            let slot = noted.get_mut(tx.txg().slot()).and_then(Option::take);
            slot.filter(|(txg, _)| *txg == tx.txg())
        };
        let (Some((_, point)), Some(zap)) = (noted, self.extra()?) else {
            return Ok(());
        };
        if zap.lookup(key::RESUME_TO_GUID.as_bytes())?.is_none() {
            return Ok(());
        }
        store_point(tx, &zap, &point)
    }

    /// The receive is complete: nothing is kept of how far it had come.
    pub(crate) fn forget_resume_state(&self, tx: &Tx) -> Result<()> {
        const KEYS: [&str; 11] = [
            key::RESUME_FROM_GUID,
            key::RESUME_TO_GUID,
            key::RESUME_TO_NAME,
            key::RESUME_OBJECT,
            key::RESUME_OFFSET,
            key::RESUME_BYTES,
            key::RESUME_LARGE_BLOCK,
            key::RESUME_EMBEDDED,
            key::RESUME_COMPRESSED,
            key::RESUME_RAW,
            key::RESUME_REDACT_BOOKMARK_SNAPS,
        ];
        let Some(zap) = self.extra()? else {
            return Ok(());
        };
        for key in KEYS {
            if zap.lookup_value(key.as_bytes())?.is_some() {
                zap.remove(tx, key.as_bytes())?;
            }
        }
        Ok(())
    }

    /// Opens this head for a transaction to be received as it was sealed elsewhere.
    ///
    /// # Errors
    /// Its root cannot be read, somebody has it open, or it cannot have that shape.
    pub(crate) fn begin_sealed(self: &Arc<Self>, tx: &Tx, shape: &SealedShape) -> Result<()> {
        self.close_unless_used();
        if self.open_object_set().is_some() {
            return Err(DslError::busy(self.name()?));
        }
        self.dsl.keys.keep_locked(ObjectSetId(self.id().0));
        let open = self.sealed_root()?;
        Ok(open.begin_sealed(tx, shape)?)
    }

    /// The object set that is received as it was sealed elsewhere.
    ///
    /// # Errors
    /// None is.
    pub fn sealed_object_set(&self) -> Result<Arc<ObjectSet>> {
        let open = self.open_object_set().filter(|open| open.is_sealed());
        open.ok_or_else(|| DslError::damaged(self.id(), "nothing sealed is received into it"))
    }

    /// Nothing more is received as it was sealed: who opens this head from now on proves it by its keys. What was
    /// received has synced.
    pub fn end_sealed(&self) {
        if self.open_object_set().is_some_and(|open| open.is_sealed()) {
            self.close_object_set();
            self.dsl.heads.lock().remove(&self.id());
        }
    }

    /// Whether this head holds a receive that is under way, or was interrupted.
    ///
    /// # Errors
    /// The record cannot be read.
    pub fn is_inconsistent(&self) -> Result<bool> {
        Ok(self.phys()?.has_flag(DatasetPhys::FLAG_INCONSISTENT))
    }

    /// Whether this head, as last synced, has other objects than a snapshot of it. An intent log that came and went
    /// since then changes the root block alone.
    ///
    /// # Errors
    /// The root blocks cannot be read.
    pub fn is_modified_since(&self, snapshot: &Self) -> Result<bool> {
        let (mine, theirs) = (self.phys()?, snapshot.phys()?);
        if mine.block_pointer == theirs.block_pointer
            || mine.block_pointer.birth() <= theirs.creation_txg
        {
            return Ok(false);
        }
        Ok(match (self.root()?, snapshot.root()?) {
            (Some(mine), Some(theirs)) => mine.meta_dnode != theirs.meta_dnode,
            (None, None) => false,
            (Some(_), None) | (None, Some(_)) => true,
        })
    }
}
