//! Serving one connection.

use std::io::{BufReader, ErrorKind, Read, Write};
use std::sync::Arc;

use base::lock::{Condvar, LockClass, Mutex, rank};
use base::thread_pool::ThreadPool;
use sys::Buffer;

use crate::extents::extents;
use crate::negotiation::{Agreed, negotiate};
use crate::reply::Replies;
use crate::wire::{
    BLOCK_STATUS, CACHE, DISCONNECT, DONT_FRAGMENT, FLUSH, FUA, NO_HOLE, READ, REQUEST_MAGIC,
    REQUEST_ONE, TRIM, WRITE, WRITE_ZEROES, buffers, u16_of, u32_of, u64_of,
};
use crate::{Beginning, Disk, Exports, Fault, NbdError};

/// Held with nothing beside it.
static FLIGHT: LockClass = LockClass::new("nbd.under_way", rank::LAST);

/// No read or write has more bytes, and no more are in memory for one connection at once than twice as many.
pub const MEMORY_MAX: u32 = 32 << 20;
/// Nor more requests.
const REQUESTS_MAX: u32 = 64;
/// Parts of a read, or of what is told of a range.
const EXTENTS_MAX: usize = 512;
/// Bytes that are read at once from the connection. What is longer goes by this buffer: requests are small, and what
/// lies in it of data is copied once more.
const BUFFER_BYTES: usize = 16 << 10;
/// Zeroes that are written at once.
const ZEROES_BYTES: u64 = 1 << 20;

/// A request.
struct Request {
    flags: u16,
    kind: u16,
    cookie: u64,
    offset: u64,
    length: u32,
    data: Vec<Buffer>,
}

/// What is under way.
#[derive(Default)]
struct UnderWay {
    requests: u32,
    bytes: u64,
}

/// What the requests of a connection have in common.
struct Connection<W> {
    disk: Arc<dyn Disk>,
    replies: Replies<W>,
    allocation: bool,
    under_way: Mutex<UnderWay>,
    released: Condvar,
}

/// Serves a client, from its beginning on, until it goes or breaks the protocol; `workers` do what it asks for.
///
/// # Errors
/// The connection broke, or the client does not speak the protocol.
pub fn serve<R: Read, W: Write + Send + 'static>(
    input: R,
    mut output: W,
    exports: &dyn Exports,
    beginning: Beginning,
    workers: &Arc<ThreadPool>,
) -> Result<(), NbdError> {
    let mut input = BufReader::with_capacity(BUFFER_BYTES, input);
    let Some(agreed) = negotiate(&mut input, &mut output, exports, beginning)? else {
        return Ok(());
    };
    let Agreed {
        disk,
        structured,
        allocation,
    } = agreed;
    let connection = Arc::new(Connection {
        disk,
        replies: Replies::new(output, structured),
        allocation,
        under_way: Mutex::new(&FLIGHT, UnderWay::default()),
        released: Condvar::new(),
    });
    let outcome = requests(&mut input, &connection, workers);
    connection.wait_for_all();
    outcome
}

fn requests<R: Read, W: Write + Send + 'static>(
    input: &mut R,
    connection: &Arc<Connection<W>>,
    workers: &Arc<ThreadPool>,
) -> Result<(), NbdError> {
    loop {
        match u32_of(input) {
            Ok(REQUEST_MAGIC) => {}
            Ok(_) => return Err(NbdError::Protocol("no request")),
            // It went without a word.
            Err(error) if error.kind() == ErrorKind::UnexpectedEof => return Ok(()),
            Err(error) => return Err(error.into()),
        }
        let mut request = Request {
            flags: u16_of(input)?,
            kind: u16_of(input)?,
            cookie: u64_of(input)?,
            offset: u64_of(input)?,
            length: u32_of(input)?,
            data: Vec::new(),
        };
        if request.kind == DISCONNECT {
            return Ok(());
        }
        let has_payload = request.kind == WRITE;
        if has_payload && request.length > MEMORY_MAX {
            return Err(NbdError::Protocol("a write of too many bytes"));
        }
        connection.reserve(request.memory());
        if has_payload {
            let range = (request.offset, request.length);
            match buffers(input, range, connection.disk.block_size()) {
                Ok(data) => request.data = data,
                Err(error) => {
                    connection.release(request.memory());
                    return Err(error.into());
                }
            }
        }
        let own = Arc::clone(connection);
        let job = move || {
            let memory = request.memory();
            own.answer(request);
            own.release(memory);
        };
        if let Err(job) = workers.run(Box::new(job)) {
            job();
        }
    }
}

impl Request {
    /// The bytes that it takes.
    fn memory(&self) -> u64 {
        match self.kind {
            READ | WRITE => u64::from(self.length.min(MEMORY_MAX)),
            _ => 0,
        }
    }
}

impl<W: Write> Connection<W> {
    /// Waits until there is room for a request.
    fn reserve(&self, bytes: u64) {
        let mut under_way = self.under_way.lock();
        let is_full = |under_way: &UnderWay| {
            under_way.requests >= REQUESTS_MAX
                || (under_way.bytes > 0 && under_way.bytes + bytes > 2 * u64::from(MEMORY_MAX))
        };
        while is_full(&under_way) {
            self.released.wait(&mut under_way);
        }
        under_way.requests += 1;
        under_way.bytes += bytes;
    }

    fn release(&self, bytes: u64) {
        let mut under_way = self.under_way.lock();
        under_way.requests = under_way.requests.saturating_sub(1);
        under_way.bytes = under_way.bytes.saturating_sub(bytes);
        self.released.notify_all();
    }

    fn wait_for_all(&self) {
        let mut under_way = self.under_way.lock();
        while under_way.requests > 0 {
            self.released.wait(&mut under_way);
        }
    }

    fn answer(&self, request: Request) {
        match request.kind {
            READ => self.read(&request),
            BLOCK_STATUS => self.status(&request),
            _ => self.replies.done(request.cookie, self.change(request)),
        }
    }

    /// Refuses what is not within the disk.
    fn check(&self, request: &Request, beyond: Fault) -> Result<(), Fault> {
        let end = request.offset.checked_add(request.length.into());
        if end.is_none_or(|end| end > self.disk.size()) {
            return Err(beyond);
        }
        Ok(())
    }

    fn change(&self, request: Request) -> Result<(), Fault> {
        let (offset, length) = (request.offset, u64::from(request.length));
        let durable = request.flags & FUA != 0;
        let allowed = match request.kind {
            WRITE_ZEROES => FUA | NO_HOLE,
            _ => FUA,
        };
        if request.flags & !allowed != 0 {
            return Err(Fault::Invalid);
        }
        match request.kind {
            FLUSH => self.disk.flush(),
            CACHE => self.check(&request, Fault::Invalid),
            WRITE | WRITE_ZEROES | TRIM if self.disk.is_read_only() => Err(Fault::ReadOnly),
            WRITE => {
                self.check(&request, Fault::NoSpace)?;
                self.disk.write(offset, request.data, durable)
            }
            WRITE_ZEROES => {
                self.check(&request, Fault::NoSpace)?;
                if request.flags & NO_HOLE == 0 {
                    return self.disk.write_zeroes(offset, length, durable);
                }
                self.zeroes(offset, length, durable)
            }
            TRIM => {
                self.check(&request, Fault::Invalid)?;
                self.disk.trim(offset, length, durable)
            }
            _ => Err(Fault::Invalid),
        }
    }

    /// Zeroes that are written as any bytes are.
    fn zeroes(&self, offset: u64, length: u64, durable: bool) -> Result<(), Fault> {
        let mut done = 0;
        while done < length {
            let piece = (length - done).min(ZEROES_BYTES);
            let at = offset + done;
            let range = (at, u32::try_from(piece).map_err(|_| Fault::Invalid)?);
            let zeroes = buffers(&mut std::io::repeat(0), range, self.disk.block_size());
            let zeroes = zeroes.map_err(|_| Fault::Io)?;
            done += piece;
            self.disk.write(at, zeroes, durable && done == length)?;
        }
        if durable && length > ZEROES_BYTES {
            return self.disk.flush();
        }
        Ok(())
    }

    fn read(&self, request: &Request) {
        if let Err(fault) = self.try_read(request) {
            self.replies.failed(request.cookie, fault);
        }
    }

    /// Nothing was answered if it fails.
    fn try_read(&self, request: &Request) -> Result<(), Fault> {
        self.check(request, Fault::Invalid)?;
        let is_structured = self.replies.are_structured();
        let allowed = if is_structured { DONT_FRAGMENT } else { 0 };
        if request.flags & !(allowed | FUA) != 0 || request.length > MEMORY_MAX {
            return Err(Fault::Invalid);
        }
        let (offset, length) = (request.offset, u64::from(request.length));
        let is_whole = !is_structured || request.flags & DONT_FRAGMENT != 0 || length == 0;
        let parts = if is_whole {
            Vec::new()
        } else {
            extents(&*self.disk, (offset, length), EXTENTS_MAX, true)?
        };
        let size = usize::try_from(request.length).map_err(|_| Fault::Invalid)?;
        if parts.iter().all(|part| !part.is_hole) {
            let mut data = vec![0; size];
            self.disk.read(offset, &mut data)?;
            self.replies.data(request.cookie, offset, &data);
            return Ok(());
        }
        // All is read before anything is answered, so that what fails is answered once.
        let mut data = Vec::with_capacity(parts.len());
        for part in &parts {
            let bytes = if part.is_hole { 0 } else { part.length };
            let mut bytes = vec![0; usize::try_from(bytes).map_err(|_| Fault::Invalid)?];
            self.disk.read(part.offset, &mut bytes)?;
            data.push(bytes);
        }
        let last = parts.len().saturating_sub(1);
        for (at, (part, bytes)) in parts.iter().zip(&data).enumerate() {
            self.replies.part(request.cookie, part, bytes, at == last);
        }
        Ok(())
    }

    fn status(&self, request: &Request) {
        let found = self.check(request, Fault::Invalid).and_then(|()| {
            let is_known = request.flags & !(REQUEST_ONE | FUA) == 0;
            if !self.allocation || !is_known || request.length == 0 {
                return Err(Fault::Invalid);
            }
            let most = if request.flags & REQUEST_ONE != 0 {
                1
            } else {
                EXTENTS_MAX
            };
            let range = (request.offset, u64::from(request.length));
            extents(&*self.disk, range, most, false)
        });
        match found {
            Ok(found) => self.replies.states(request.cookie, &found),
            Err(fault) => self.replies.failed(request.cookie, fault),
        }
    }
}
