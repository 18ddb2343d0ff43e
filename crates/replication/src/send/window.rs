//! Reads blocks ahead of the stream: several at once, and no more than a bounded number of bytes. The stream has them
//! in the order of the walk.

use std::collections::VecDeque;
use std::io::Write;
use std::sync::{Arc, OnceLock};

use base::Bookmark;
use base::lock::{Condvar, LockClass, Mutex, rank};
use base::queue::Bounded;
use base::thread_pool::ThreadPool;
use format::BlockPointer;
use pipeline::{Pipeline, ReadError, ReadRequest};
use pool::Pool;
use stream::{Record, Writer};
use sys::Buffer;
use vdev::IoClass;

use super::SendError;
use super::frees::Frees;

/// Held with nothing beside it.
static BLOCK: LockClass = LockClass::new("replication.block", rank::LAST);

/// No more bytes of blocks are read ahead of what was written.
const BYTES_MAX: u64 = 32 << 20;
/// Nor more records.
const RECORDS_MAX: usize = 1024;
/// So many blocks are read at once, of all streams.
const THREADS_MAX: usize = 16;
/// So many more may wait for a thread.
const QUEUED_MAX: usize = 256;

/// How a block goes into the stream.
#[derive(Clone, Debug)]
pub(super) enum Contents {
    /// As it is used: the records that it is cut into, one after the other.
    Plain(Vec<Record>),
    /// As it is stored.
    Stored(Box<Record>),
}

/// A block that is being read.
struct Block {
    found: Mutex<Option<Result<Buffer, ReadError>>>,
    ready: Condvar,
}

impl Block {
    fn wait(&self) -> Result<Buffer, ReadError> {
        let mut found = self.found.lock();
        loop {
            match found.take() {
                Some(found) => return found,
                None => self.ready.wait(&mut found),
            }
        }
    }
}

/// What is to be written.
enum Pending {
    Ready(Box<Record>, Vec<u8>),
    Block(Contents, Arc<Block>, u64),
}

/// See the module.
pub(super) struct Window<'a, W> {
    pipeline: Arc<Pipeline>,
    readers: Arc<ThreadPool>,
    writer: &'a mut Writer<W>,
    frees: Frees,
    pending: VecDeque<Pending>,
    bytes: u64,
}

/// The threads of all streams.
fn readers() -> Arc<ThreadPool> {
    static READERS: OnceLock<Arc<ThreadPool>> = OnceLock::new();
    let made = READERS.get_or_init(|| {
        let role = ("send-read", sys::thread::BACKGROUND);
        ThreadPool::new(role, THREADS_MAX, Bounded::new("send.reads", QUEUED_MAX))
    });
    Arc::clone(made)
}

impl<'a, W: Write> Window<'a, W> {
    pub(super) fn new(pool: &Pool, writer: &'a mut Writer<W>) -> Self {
        Self {
            pipeline: Arc::clone(pool.pipeline()),
            readers: readers(),
            writer,
            frees: Frees::default(),
            pending: VecDeque::new(),
            bytes: 0,
        }
    }

    /// Something is free; neighbours join.
    pub(super) fn free(&mut self, record: Record) -> Result<(), SendError> {
        match self.frees.add(record) {
            Some(done) => self.push(Pending::Ready(Box::new(done), Vec::new())),
            None => Ok(()),
        }
    }

    /// A record whose payload is at hand.
    pub(super) fn record(&mut self, record: Record, payload: Vec<u8>) -> Result<(), SendError> {
        self.end_frees()?;
        self.push(Pending::Ready(Box::new(record), payload))
    }

    /// A block, which is read now and written in its turn.
    pub(super) fn block(
        &mut self,
        pointer: &BlockPointer,
        place: Bookmark,
        contents: Contents,
    ) -> Result<(), SendError> {
        self.end_frees()?;
        let block = Arc::new(Block {
            found: Mutex::new(&BLOCK, None),
            ready: Condvar::new(),
        });
        let (pipeline, result) = (Arc::clone(&self.pipeline), Arc::clone(&block));
        let (pointer, is_stored) = (*pointer, matches!(contents, Contents::Stored(_)));
        let bytes = if is_stored {
            pointer.psize()
        } else {
            pointer.lsize()
        };
        let read = move || {
            let request = ReadRequest::new(place)
                .in_class(IoClass::AsyncRead)
                .uncached();
            let found = if is_stored {
                pipeline.read_stored(&pointer, &request)
            } else {
                pipeline.read(&pointer, &request)
            };
            // Who waits may close the pool then.
            drop(pipeline);
            *result.found.lock() = Some(found);
            result.ready.notify_all();
        };
        if let Err(job) = self.readers.run(Box::new(read)) {
            job();
        }
        self.bytes += bytes;
        self.push(Pending::Block(contents, block, bytes))
    }

    /// Writes all that is left.
    pub(super) fn finish(mut self) -> Result<(), SendError> {
        self.end_frees()?;
        while let Some(first) = self.pending.pop_front() {
            self.write(first)?;
        }
        Ok(())
    }

    fn end_frees(&mut self) -> Result<(), SendError> {
        match self.frees.take() {
            Some(done) => self.push(Pending::Ready(Box::new(done), Vec::new())),
            None => Ok(()),
        }
    }

    fn push(&mut self, next: Pending) -> Result<(), SendError> {
        self.pending.push_back(next);
        while self.bytes > BYTES_MAX || self.pending.len() > RECORDS_MAX {
            let Some(first) = self.pending.pop_front() else {
                break;
            };
            self.write(first)?;
        }
        Ok(())
    }

    fn write(&mut self, item: Pending) -> Result<(), SendError> {
        match item {
            Pending::Ready(record, payload) => self.writer.record(&record, &payload)?,
            Pending::Block(contents, block, bytes) => {
                let data = block.wait()?;
                self.bytes -= bytes;
                match contents {
                    Contents::Stored(record) => self.writer.record(&record, &data)?,
                    Contents::Plain(records) => {
                        // All pieces but the last are of one size. What is missing in a block is refused by the writer.
                        let first = records.first().map(Record::payload_length).transpose()?;
                        let size = first
                            .and_then(|size| usize::try_from(size).ok())
                            .unwrap_or(1);
                        let mut pieces = data.chunks(size.max(1));
                        for record in &records {
                            self.writer
                                .record(record, pieces.next().unwrap_or_default())?;
                        }
                    }
                }
            }
        }
        Ok(())
    }
}

impl<W> Drop for Window<'_, W> {
    /// Nobody reads for a stream that broke off: the pool may be closed then.
    fn drop(&mut self) {
        for item in self.pending.drain(..) {
            if let Pending::Block(_, block, _) = item {
                // Nobody wants it any more.
                let _read = block.wait();
            }
        }
    }
}
