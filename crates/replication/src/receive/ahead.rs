//! Decoding ahead: a thread reads and checks the stream while what came before is written.

use std::io::Read;
use std::sync::Arc;

use base::ByteOrder;
use base::queue::Bounded;
use base::thread;
use stream::{Item, Reader, Record};
use sys::BufferMut;

use super::ReceiveError;

/// How many batches wait to be written.
const BATCHES: usize = 4;
/// Bytes of a batch that is full.
const BATCH_BYTES: usize = 4 << 20;
/// Records of a batch that is full.
const BATCH_RECORDS: usize = 512;

/// A record with its payload.
#[derive(Debug)]
pub struct Piece {
    /// The record.
    pub item: Item,
    /// Its payload, in memory that a block can take over.
    pub payload: BufferMut,
    /// The byte order of the stream.
    pub order: ByteOrder,
    /// How many bytes of the stream were read with it.
    pub position: u64,
}

/// Some records, and what the stream ended with if it did.
struct Batch {
    pieces: Vec<Piece>,
    end: Option<Result<(), ReceiveError>>,
}

/// A stream that is decoded ahead.
pub struct Incoming {
    queue: Arc<Bounded<Batch>>,
    pieces: std::vec::IntoIter<Piece>,
    end: Option<Result<(), ReceiveError>>,
}

impl Incoming {
    /// Begins to decode a stream.
    ///
    /// # Errors
    /// No thread can be started.
    pub fn start(input: impl Read + Send + 'static) -> Result<Self, ReceiveError> {
        let queue = Arc::new(Bounded::new("receive", BATCHES));
        let filled = Arc::clone(&queue);
        let body = move || fill(Reader::new(input), &filled);
        thread::named("receive", sys::thread::BACKGROUND)
            .spawn(body)
            .map_err(stream::StreamError::Io)?;
        Ok(Self {
            queue,
            pieces: Vec::new().into_iter(),
            end: None,
        })
    }

    /// The next record; nothing after the last.
    ///
    /// # Errors
    /// As [`Reader::next`], once what came before has been handed out.
    pub fn next_piece(&mut self) -> Result<Option<Piece>, ReceiveError> {
        loop {
            if let Some(piece) = self.pieces.next() {
                return Ok(Some(piece));
            }
            if let Some(end) = self.end.take() {
                return end.map(|()| None);
            }
            match self.queue.pop() {
                Some(batch) => {
                    self.pieces = batch.pieces.into_iter();
                    self.end = batch.end;
                }
                None => return Ok(None),
            }
        }
    }
}

impl Drop for Incoming {
    /// The thread ends with its next batch.
    fn drop(&mut self) {
        self.queue.close();
    }
}

fn fill<R: Read>(mut reader: Reader<R>, queue: &Bounded<Batch>) {
    let mut pieces = Vec::new();
    let mut bytes = 0;
    loop {
        let (end, is_full) = match reader.next_in(BufferMut::scratch) {
            Ok(Some((item, payload))) => {
                bytes += payload.len();
                // What begins or ends is waited for.
                let is_edge = matches!(item.record, Record::Begin(_) | Record::End(_));
                pieces.push(Piece {
                    item,
                    payload,
                    order: reader.order(),
                    position: reader.position(),
                });
                let is_full = bytes >= BATCH_BYTES || pieces.len() >= BATCH_RECORDS;
                (None, is_edge || is_full)
            }
            Ok(None) => (Some(Ok(())), true),
            Err(error) => (Some(Err(error.into())), true),
        };
        if is_full {
            let is_end = end.is_some();
            let pieces = std::mem::take(&mut pieces);
            bytes = 0;
            if queue.push_wait(Batch { pieces, end }).is_err() || is_end {
                queue.close();
                return;
            }
        }
    }
}

impl std::fmt::Debug for Incoming {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Incoming")
    }
}
