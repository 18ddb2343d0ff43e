//! Sends a snapshot: BEGIN, what changed since an earlier snapshot or all of it, END.

mod begin;
mod error;
mod estimate;
mod frees;
mod objects;
mod raw;
mod window;

use std::cell::RefCell;
use std::io::Write;
use std::sync::Arc;

use base::{Guid, ObjectId, ObjectSetId, Txg};
use dsl::{Dataset, RedactionList};
use pool::Pool;
use stream::Writer;

use crate::redaction::Cursor;
use objects::Walk;
use window::Window;

pub use error::SendError;
pub use estimate::estimate;

/// What a stream may hold.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SendOptions {
    /// Blocks of more than 128 KiB (`-L`).
    pub large_blocks: bool,
    /// Blocks inside of their pointers (`-e`).
    pub embedded: bool,
    /// Blocks as they are compressed (`-c`).
    pub compressed: bool,
    /// Blocks of encrypted datasets as they are encrypted, all others as by the three above (`-w`).
    pub raw: bool,
}

/// What the receiver has already.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SendFrom {
    /// The snapshot, which may be gone here.
    pub guid: Guid,
    /// Its txg.
    pub txg: Txg,
    /// It is the origin of the clone that is sent.
    pub is_origin: bool,
    /// Its physical and logical bytes, where they are known.
    pub sizes: Option<(u64, u64)>,
    /// The guid of its set of vectors; 0 where nothing is encrypted.
    pub ivset: u64,
}

/// What is to be sent.
#[derive(Clone)]
pub struct SendJob {
    /// The snapshot; or a head that nobody changes.
    pub dataset: Arc<Dataset>,
    /// Its name as the stream tells it.
    pub name: String,
    /// What the receiver has; none: nothing.
    pub from: Option<SendFrom>,
    /// What the stream may hold.
    pub options: SendOptions,
    /// Goes on behind what was received: from this object and offset.
    pub resume: Option<(ObjectId, u64)>,
    /// What it leaves out, and what the receiver may lack.
    pub redaction: SendRedaction,
    /// Of what was received in part, that part.
    pub saved: Option<SavedPart>,
}

/// How far something was received that is sent on: its stream goes so far and has no end, so that who receives it keeps
/// what has come, and goes on where this was broken off.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SavedPart {
    /// The guid of the snapshot that was received.
    pub to_guid: Guid,
    /// The block that came last: its object, and its offset there.
    pub until: (ObjectId, u64),
}

/// What a stream leaves out on purpose, and what was left out of those before it.
#[derive(Clone, Default)]
pub struct SendRedaction {
    /// What is left out.
    pub left_out: Option<Arc<RedactionList>>,
    /// What was left out of the snapshot that the stream starts from, and is sent now.
    pub sent_again: Option<Arc<RedactionList>>,
    /// The snapshots by which what it starts from is redacted here; none: that is whole.
    pub from: Option<Vec<Guid>>,
}

/// Sends a snapshot. The writer is left behind the stream's END, or anywhere after a failure.
///
/// # Errors
/// The snapshot cannot be read, or the stream cannot be written.
pub fn send<W: Write>(
    pool: &Arc<Pool>,
    job: &SendJob,
    writer: &mut Writer<W>,
) -> Result<(), SendError> {
    let begun = begin::begin(pool, job)?;
    let to_guid = begun.record.to_guid;
    writer.begin(begun.record, begun.list.as_ref())?;
    let set = ObjectSetId(job.dataset.id().0);
    let mut window = Window::new(pool, writer);
    let walk = Walk {
        pool,
        set,
        to_guid,
        from: job.from.map_or(Txg(0), |from| from.txg),
        form: begun.form,
        resume: job.resume,
        until: job.saved.map(|saved| saved.until),
        left_out: RefCell::new(job.redaction.left_out.clone().map(Cursor::new)),
        sent_again: RefCell::new(job.redaction.sent_again.clone().map(Cursor::new)),
    };
    walk.run(&job.dataset, &mut window)?;
    window.finish()?;
    if job.saved.is_none() {
        writer.end(to_guid)?;
    }
    Ok(())
}
