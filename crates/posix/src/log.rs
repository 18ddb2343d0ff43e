//! The seam of the intent log: where each change would make its record.

use base::{ObjectId, Txg};
use dmu::Tx;

use crate::{Result, SetAttributes};

/// What an operation did, in the terms of the intent log.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub enum Record<'a> {
    /// A file, directory, link or node came to be under a name.
    Create {
        /// The directory.
        directory: ObjectId,
        /// The new object.
        object: ObjectId,
        /// Dnode slots of the object.
        slots: u8,
        /// Type and permissions.
        mode: u32,
        /// Owner and group as stored.
        owner: (u64, u64),
        /// Generation.
        generation: u64,
        /// Creation time.
        crtime: crate::Timestamp,
        /// Device number as stored.
        device: u64,
        /// The name.
        name: &'a [u8],
        /// The target of a symbolic link.
        target: Option<&'a [u8]>,
    },
    /// A name other than a directory's went.
    Remove {
        /// The directory.
        directory: ObjectId,
        /// The name.
        name: &'a [u8],
    },
    /// A directory went.
    RemoveDirectory {
        /// The directory it was in.
        directory: ObjectId,
        /// Its name.
        name: &'a [u8],
    },
    /// A file got another name.
    Link {
        /// The directory.
        directory: ObjectId,
        /// The file.
        object: ObjectId,
        /// The name.
        name: &'a [u8],
    },
    /// A name moved.
    Rename {
        /// From where.
        from: (ObjectId, &'a [u8]),
        /// To where.
        to: (ObjectId, &'a [u8]),
        /// How an existing target was treated.
        mode: crate::RenameMode,
    },
    /// Data were written.
    Write {
        /// The file.
        object: ObjectId,
        /// Where.
        offset: u64,
        /// What.
        data: &'a [u8],
    },
    /// A range was freed, or (length 0) the size set.
    Truncate {
        /// The file.
        object: ObjectId,
        /// From where.
        offset: u64,
        /// How much.
        length: u64,
    },
    /// Attributes were set.
    SetAttributes {
        /// The file.
        object: ObjectId,
        /// Which, to what.
        change: &'a SetAttributes,
    },
    /// An extended attribute among the system attributes was set, or removed.
    SetXattr {
        /// The file.
        object: ObjectId,
        /// The attribute's name.
        name: &'a [u8],
        /// Its value; none when removed.
        value: Option<&'a [u8]>,
    },
}

/// Makes single operations durable before their txg is.
pub trait OperationLog: Send + Sync {
    /// Notes what `tx` just did; called once an operation, before the transaction ends.
    fn record(&self, tx: &Tx, record: &Record<'_>);

    /// Waits until everything recorded of `object`, and all changes of names before that, is
    /// durable. `changed` is the newest txg that changed the object.
    ///
    /// # Errors
    /// The pool cannot write.
    fn commit(&self, object: ObjectId, changed: Txg) -> Result<()>;
}

/// No log: durable is what has synced.
pub struct NoLog {
    engine: std::sync::Arc<txg::Engine>,
}

impl NoLog {
    /// Waits on `engine`.
    #[must_use]
    pub fn new(engine: std::sync::Arc<txg::Engine>) -> Self {
        Self { engine }
    }
}

impl OperationLog for NoLog {
    fn record(&self, _: &Tx, _: &Record<'_>) {}

    fn commit(&self, _: ObjectId, changed: Txg) -> Result<()> {
        self.engine.wait_synced(Some(changed)).map_err(Into::into)
    }
}
