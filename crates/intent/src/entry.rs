//! What operations hand to the log.

use base::ObjectId;
use dmu::{DmuError, ObjectSet};

/// In which order a record stands to others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// It changes names: every commit writes it, after all such records before it.
    Namespace,
    /// The same, and what was recorded of this object before goes with it: a rename, so that a
    /// file that replaces another is never there without its data.
    NamespaceAfter(ObjectId),
    /// It changes one object: only commits of that object write it.
    Object(ObjectId),
}

/// What an operation did.
#[derive(Clone, Debug)]
pub enum Entry {
    /// A record as [`format::intent_log::encode_record`] makes it.
    Record(Vec<u8>),
    /// Data were written.
    Write(WriteEntry),
}

/// A write of data.
#[derive(Clone, Debug)]
pub struct WriteEntry {
    /// The file.
    pub object: ObjectId,
    /// From where.
    pub offset: u64,
    /// How many bytes.
    pub length: u64,
    /// Where the bytes are.
    pub data: Data,
}

/// Where the bytes of a write are.
#[derive(Clone, Debug)]
pub enum Data {
    /// Here: for small writes that are committed at once.
    Copied(Box<[u8]>),
    /// In the object; looked up when the write is committed.
    Later,
}

/// Where the bytes of [`Data::Later`] are found.
pub trait Contents: Send + Sync {
    /// Fills `data` with the file's bytes from `offset` on, as they are now. False: the file is
    /// gone, or ends before `offset`, and the record has become needless.
    ///
    /// # Errors
    /// The bytes cannot be read.
    fn read(&self, object: ObjectId, offset: u64, data: &mut [u8]) -> Result<bool, DmuError>;
}

impl Contents for ObjectSet {
    fn read(&self, object: ObjectId, offset: u64, data: &mut [u8]) -> Result<bool, DmuError> {
        match self.object(object) {
            Ok(object) => object.read(offset, data).map(|()| true),
            Err(DmuError::NoSuchObject { .. }) => Ok(false),
            Err(error) => Err(error),
        }
    }
}

/// The property `sync`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SyncPolicy {
    /// What is asked for is made durable.
    #[default]
    Standard,
    /// Every operation is made durable; the layer that does operations sees to that.
    Always,
    /// Nothing is, before its txg.
    Disabled,
}

/// The property `logbias`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LogBias {
    /// Small writes go into the log, for speed.
    #[default]
    Latency,
    /// Data go where they belong at once; the log has pointers.
    Throughput,
}
