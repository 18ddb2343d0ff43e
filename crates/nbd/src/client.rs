//! The protocol as a client speaks it: requests of many threads over one connection, and simple replies to them.
//!
//! One thread reads the replies ([`Client::replies`]); who asks waits for his own. What breaks the connection fails all
//! that wait, and all that come later: what of it was done nobody knows. Invariants: no more than
//! [`Limits::requests_max`] requests are under way, and of a reply no more is held than its request asked for; each
//! request ends within [`Limits::patience`], or the connection does.

mod handshake;

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::sync::Arc;
use std::time::Duration;

use base::lock::{Condvar, LockClass, Mutex, rank};

pub use handshake::{Export, ask_for_tls, choose, greet_server};

use crate::NbdError;
use crate::wire::{
    DISCONNECT, FLUSH, READ, REQUEST_MAGIC, SIMPLE_REPLY_MAGIC, TRIM, WRITE, payload, small,
    u32_of, u64_of,
};

/// Held while a request is written: they go out one after the other.
static OUTPUT: LockClass = LockClass::new("nbd.client_output", rank::DEVICE + 10);
static UNDER_WAY: LockClass = LockClass::new("nbd.client_requests", rank::LAST);
static ANSWER: LockClass = LockClass::new("nbd.client_answer", rank::LAST);

/// Bytes that are sent before it is asked again whether the rest may be.
const PIECE_BYTES: usize = 64 << 10;
/// A wait is made of so many: one in which the process was stopped counts as one, and no more.
const WAITS: u32 = 8;

/// What is asked of a server at most.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Requests under way; who asks for more waits.
    pub requests_max: usize,
    /// A server that leaves a request unanswered for so long is taken for one that is gone.
    pub patience: Duration,
}

/// Why a request failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// The server says so, by a number that means what `errno` does on Linux.
    Number(u32),
    /// The connection broke, or the server does not speak the protocol.
    Broken(Arc<str>),
}

/// Whether a change may be sent, or the rest of one.
pub type MaySend<'a> = &'a dyn Fn() -> bool;

/// A request that waits for its reply.
struct Asked {
    /// The bytes that its reply brings.
    bytes: u32,
    answer: Mutex<Option<Result<Vec<u8>, Refusal>>>,
    answered: Condvar,
}

impl Asked {
    fn new(bytes: u32) -> Arc<Self> {
        Arc::new(Self {
            bytes,
            answer: Mutex::new(&ANSWER, None),
            answered: Condvar::new(),
        })
    }

    /// The first answer counts.
    fn answer(&self, answer: Result<Vec<u8>, Refusal>) {
        self.answer.lock().get_or_insert(answer);
        self.answered.notify_one();
    }

    /// The answer, or none in that time.
    fn wait(&self, patience: Duration) -> Option<Result<Vec<u8>, Refusal>> {
        let mut answer = self.answer.lock();
        let mut waits = 0;
        while answer.is_none() && waits < WAITS {
            if self.answered.wait_for(&mut answer, patience / WAITS) {
                waits += 1;
            }
        }
        answer.take()
    }
}

#[derive(Default)]
struct UnderWay {
    next: u64,
    requests: BTreeMap<u64, Arc<Asked>>,
    broken: Option<Arc<str>>,
}

/// A connection whose export is chosen.
pub struct Client<W> {
    limits: Limits,
    output: Mutex<W>,
    under_way: Mutex<UnderWay>,
    /// A request ended.
    room: Condvar,
    /// Ends the connection, so that who reads it or writes to it is woken.
    hang_up: Box<dyn Fn() + Send + Sync>,
}

impl<W: Write> Client<W> {
    /// A client that writes there; `hang_up` ends the connection.
    pub fn new(output: W, limits: Limits, hang_up: Box<dyn Fn() + Send + Sync>) -> Self {
        Self {
            limits,
            output: Mutex::new(&OUTPUT, output),
            under_way: Mutex::new(&UNDER_WAY, UnderWay::default()),
            room: Condvar::new(),
            hang_up,
        }
    }

    /// Reads replies until the connection ends.
    pub fn replies<R: Read>(&self, input: &mut R) {
        let ended = self.read_replies(input);
        self.fail(&ended.map_or_else(|error| error.to_string(), |never| match never {}));
    }

    fn read_replies<R: Read>(&self, input: &mut R) -> Result<std::convert::Infallible, NbdError> {
        loop {
            if u32_of(input)? != SIMPLE_REPLY_MAGIC {
                return Err(NbdError::Protocol("no reply"));
            }
            let (error, cookie) = (u32_of(input)?, u64_of(input)?);
            let asked = self.under_way.lock().requests.get(&cookie).cloned();
            let Some(asked) = asked else {
                return Err(NbdError::Protocol("a reply to nothing"));
            };
            let answer = match error {
                0 => Ok(payload(input, asked.bytes)?),
                number => Err(Refusal::Number(number)),
            };
            self.under_way.lock().requests.remove(&cookie);
            asked.answer(answer);
            self.room.notify_one();
        }
    }

    /// Nothing goes any more, for this reason, if nothing broke it before.
    fn fail(&self, reason: &str) {
        let mut under_way = self.under_way.lock();
        let reason = Arc::clone(under_way.broken.get_or_insert_with(|| reason.into()));
        let requests = std::mem::take(&mut under_way.requests);
        drop(under_way);
        (self.hang_up)();
        for asked in requests.into_values() {
            asked.answer(Err(Refusal::Broken(Arc::clone(&reason))));
        }
        self.room.notify_all();
    }

    /// Why nothing goes any more, if it does not.
    pub fn broken(&self) -> Option<Arc<str>> {
        self.under_way.lock().broken.clone()
    }

    /// Fills `out` with the bytes from `offset` on.
    ///
    /// # Errors
    /// They cannot be read.
    pub fn read(&self, offset: u64, out: &mut [u8]) -> Result<(), Refusal> {
        let data = self.ask(READ, (offset, small(out.len())), &[], &|| true)?;
        if data.len() != out.len() {
            return Err(Refusal::Broken("a reply of another length".into()));
        }
        out.copy_from_slice(&data);
        Ok(())
    }

    /// Writes pieces, one behind the other. When nothing more `may_send`, the connection ends instead.
    ///
    /// # Errors
    /// They cannot be written, or not as a whole.
    pub fn write(
        &self,
        offset: u64,
        pieces: &[&[u8]],
        may_send: MaySend<'_>,
    ) -> Result<(), Refusal> {
        let length = pieces.iter().map(|piece| piece.len()).sum();
        let place = (offset, small(length));
        self.ask(WRITE, place, pieces, may_send).map(drop)
    }

    /// Makes durable what was written.
    ///
    /// # Errors
    /// It could not be made so.
    pub fn flush(&self) -> Result<(), Refusal> {
        self.ask(FLUSH, (0, 0), &[], &|| true).map(drop)
    }

    /// Frees a range as far as that can be.
    ///
    /// # Errors
    /// It cannot be done.
    pub fn trim(&self, offset: u64, length: u32, may_send: MaySend<'_>) -> Result<(), Refusal> {
        self.ask(TRIM, (offset, length), &[], may_send).map(drop)
    }

    /// Says that nothing more comes, and ends the connection.
    pub fn disconnect(&self) {
        if self.broken().is_none() {
            let bytes = request(DISCONNECT, 0, (0, 0));
            let mut output = self.output.lock();
            // Who is gone need not be told.
            let _told = output.write_all(&bytes).and_then(|()| output.flush());
        }
        self.fail("it was closed");
    }

    fn ask(
        &self,
        kind: u16,
        place: (u64, u32),
        pieces: &[&[u8]],
        may_send: MaySend<'_>,
    ) -> Result<Vec<u8>, Refusal> {
        let asked = Asked::new(if kind == READ { place.1 } else { 0 });
        let cookie = self.enter(&asked)?;
        if let Err(reason) = self.put(&request(kind, cookie, place), pieces, may_send) {
            self.fail(&reason);
        }
        asked.wait(self.limits.patience).unwrap_or_else(|| {
            let seconds = self.limits.patience.as_secs_f32();
            let reason = format!("it has not answered for {seconds} seconds");
            self.fail(&reason);
            Err(Refusal::Broken(self.broken().unwrap_or_default()))
        })
    }

    /// The number of a request, when there is room for it.
    fn enter(&self, asked: &Arc<Asked>) -> Result<u64, Refusal> {
        let mut under_way = self.under_way.lock();
        loop {
            if let Some(reason) = &under_way.broken {
                return Err(Refusal::Broken(Arc::clone(reason)));
            }
            if under_way.requests.len() < self.limits.requests_max {
                break;
            }
            // Each of these ends, or the connection.
            self.room.wait(&mut under_way);
        }
        let cookie = under_way.next;
        under_way.next = cookie.wrapping_add(1);
        under_way.requests.insert(cookie, Arc::clone(asked));
        Ok(cookie)
    }

    /// Sends a request. What comes behind a part of one would be taken for the rest: if it fails, the connection ends
    /// before anybody else writes to it.
    fn put(&self, head: &[u8], pieces: &[&[u8]], may_send: MaySend<'_>) -> Result<(), String> {
        let mut output = self.output.lock();
        send(&mut *output, head, pieces, may_send).inspect_err(|_| (self.hang_up)())
    }
}

fn send<W: Write>(
    output: &mut W,
    head: &[u8],
    pieces: &[&[u8]],
    may_send: MaySend<'_>,
) -> Result<(), String> {
    let held_up = || Err("it took so long that another host may have what is there".to_owned());
    // It may have waited for long.
    if !may_send() {
        return held_up();
    }
    let written = |result: std::io::Result<()>| result.map_err(|error| error.to_string());
    written(output.write_all(head))?;
    let mut sent = 0;
    for part in pieces.iter().flat_map(|piece| piece.chunks(PIECE_BYTES)) {
        if sent > 0 && !may_send() {
            return held_up();
        }
        written(output.write_all(part))?;
        sent += part.len();
    }
    written(output.flush())
}

/// A request, without what it brings.
fn request(kind: u16, cookie: u64, (offset, length): (u64, u32)) -> Vec<u8> {
    let mut bytes = REQUEST_MAGIC.to_be_bytes().to_vec();
    bytes.extend(0_u16.to_be_bytes());
    bytes.extend(kind.to_be_bytes());
    bytes.extend(cookie.to_be_bytes());
    bytes.extend(offset.to_be_bytes());
    bytes.extend(length.to_be_bytes());
    bytes
}

#[cfg(test)]
mod tests;
