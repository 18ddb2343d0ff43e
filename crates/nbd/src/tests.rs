use std::io::{self, Cursor, Write};
use std::ops::Range;
use std::sync::{Arc, Mutex};

use base::queue::Bounded;
use base::thread::Role;
use base::thread_pool::ThreadPool;
use sys::Buffer;

use super::wire::*;
use super::*;

/// A disk in memory whose blocks of zeroes are holes.
pub(crate) struct Memory {
    pub(crate) bytes: Mutex<Vec<u8>>,
    pub(crate) log: Mutex<Vec<String>>,
    read_only: bool,
}

const BLOCK: usize = 512;

impl Memory {
    fn is_hole(&self, offset: u64) -> bool {
        let bytes = self.bytes.lock().unwrap();
        let block = offset as usize / BLOCK * BLOCK;
        bytes[block..block + BLOCK].iter().all(|byte| *byte == 0)
    }

    fn note(&self, text: String) {
        self.log.lock().unwrap().push(text);
    }

    fn find(&self, offset: u64, hole: bool) -> u64 {
        let mut at = offset;
        while at < self.size() && self.is_hole(at) != hole {
            at = (at / BLOCK as u64 + 1) * BLOCK as u64;
        }
        at.min(self.size())
    }
}

impl Disk for Memory {
    fn size(&self) -> u64 {
        self.bytes.lock().unwrap().len() as u64
    }
    fn block_size(&self) -> u32 {
        BLOCK as u32
    }
    fn is_read_only(&self) -> bool {
        self.read_only
    }
    fn read(&self, offset: u64, out: &mut [u8]) -> Result<(), Fault> {
        let from = offset as usize;
        out.copy_from_slice(&self.bytes.lock().unwrap()[from..from + out.len()]);
        Ok(())
    }
    fn write(&self, offset: u64, data: Vec<Buffer>, durable: bool) -> Result<(), Fault> {
        let mut at = offset as usize;
        for buffer in &data {
            assert!(buffer.len() <= BLOCK - at % BLOCK, "beyond a block");
            self.bytes.lock().unwrap()[at..at + buffer.len()].copy_from_slice(buffer);
            at += buffer.len();
        }
        let length = at - offset as usize;
        self.note(format!("write {offset} {length} {durable}"));
        Ok(())
    }
    fn write_zeroes(&self, offset: u64, length: u64, durable: bool) -> Result<(), Fault> {
        let range = offset as usize..(offset + length) as usize;
        self.bytes.lock().unwrap()[range].fill(0);
        self.note(format!("zeroes {offset} {length} {durable}"));
        Ok(())
    }
    fn trim(&self, offset: u64, length: u64, durable: bool) -> Result<(), Fault> {
        self.note(format!("trim {offset} {length} {durable}"));
        Ok(())
    }
    fn flush(&self) -> Result<(), Fault> {
        self.note("flush".to_owned());
        Ok(())
    }
    fn next_data(&self, range: Range<u64>) -> Result<Option<u64>, Fault> {
        assert!(range.end <= self.size());
        let found = self.find(range.start, false);
        Ok((found < range.end).then_some(found))
    }
    fn next_hole(&self, range: Range<u64>) -> Result<u64, Fault> {
        assert!(range.end <= self.size());
        Ok(self.find(range.start, true).min(range.end))
    }
}

pub(crate) struct One(pub(crate) Arc<Memory>);

impl Exports for One {
    fn names(&self) -> Vec<String> {
        vec!["pond/disk".to_owned()]
    }
    fn open(&self, name: &str) -> Result<Arc<dyn Disk>, Fault> {
        assert_eq!(name, "pond/disk");
        Ok(Arc::clone(&self.0) as _)
    }
}

pub(crate) fn disk(read_only: bool) -> Arc<Memory> {
    Arc::new(Memory {
        bytes: Mutex::new(vec![0; 64 << 10]),
        log: Mutex::default(),
        read_only,
    })
}

#[derive(Clone, Default)]
struct Output(Arc<Mutex<Vec<u8>>>);

impl Write for Output {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().extend(bytes);
        Ok(bytes.len())
    }
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// What a server without threads answers to these bytes, behind its greeting.
fn answered(disk: &Arc<Memory>, input: &[u8]) -> (Vec<u8>, Result<(), NbdError>) {
    let workers = ThreadPool::new(("nbd-test", Role::PART), 0, Bounded::new("nbd.requests", 1));
    workers.close();
    let output = Output::default();
    let served = serve(
        Cursor::new(input),
        output.clone(),
        &One(Arc::clone(disk)),
        Beginning::Nothing,
        &workers,
    );
    let bytes = output.0.lock().unwrap()[18..].to_vec();
    (bytes, served)
}

/// What a server that requires TLS answers to these bytes before it, behind its greeting, and how many it read.
fn answered_before_tls(mut input: &[u8]) -> (Vec<u8>, Result<Option<u32>, NbdError>, usize) {
    let whole = input.len();
    let mut output = Vec::new();
    let begun = start_tls(&mut input, &mut output);
    (output[18..].to_vec(), begun, whole - input.len())
}

fn option_reply(option: u32, kind: u32, data: &[u8]) -> Vec<u8> {
    let mut bytes = OPTION_REPLY_MAGIC.to_be_bytes().to_vec();
    bytes.extend(option.to_be_bytes());
    bytes.extend(kind.to_be_bytes());
    bytes.extend((data.len() as u32).to_be_bytes());
    bytes.extend(data);
    bytes
}

fn greeting() -> Vec<u8> {
    u32::from(FIXED_NEWSTYLE | NO_ZEROES).to_be_bytes().to_vec()
}

fn option(kind: u32, data: &[u8]) -> Vec<u8> {
    let mut bytes = OPTION_MAGIC.to_be_bytes().to_vec();
    bytes.extend(kind.to_be_bytes());
    bytes.extend((data.len() as u32).to_be_bytes());
    bytes.extend(data);
    bytes
}

fn text(text: &str) -> Vec<u8> {
    let mut bytes = (text.len() as u32).to_be_bytes().to_vec();
    bytes.extend(text.as_bytes());
    bytes
}

fn go(name: &str) -> Vec<u8> {
    let mut data = text(name);
    data.extend(0_u16.to_be_bytes());
    option(OPTION_GO, &data)
}

fn contexts(kind: u32, queries: &[&str]) -> Vec<u8> {
    let mut data = text("");
    data.extend((queries.len() as u32).to_be_bytes());
    for query in queries {
        data.extend(text(query));
    }
    option(kind, &data)
}

fn request(kind: u16, flags: u16, offset: u64, length: u32) -> Vec<u8> {
    let mut bytes = REQUEST_MAGIC.to_be_bytes().to_vec();
    bytes.extend(flags.to_be_bytes());
    bytes.extend(kind.to_be_bytes());
    bytes.extend(7_u64.to_be_bytes());
    bytes.extend(offset.to_be_bytes());
    bytes.extend(length.to_be_bytes());
    bytes
}

/// A connection with structured replies and block status: the answers behind its negotiation.
fn structured(disk: &Arc<Memory>, requests: &[Vec<u8>]) -> Vec<u8> {
    let mut input = greeting();
    input.extend(option(OPTION_STRUCTURED_REPLY, &[]));
    input.extend(contexts(OPTION_SET_META_CONTEXT, &[ALLOCATION]));
    input.extend(go(""));
    let (agreed, _) = answered(disk, &input);
    input.extend(requests.concat());
    input.extend(request(DISCONNECT, 0, 0, 0));
    let (bytes, served) = answered(disk, &input);
    served.unwrap();
    bytes[agreed.len()..].to_vec()
}

fn chunk(flags: u16, kind: u16, data: &[u8]) -> Vec<u8> {
    let mut bytes = CHUNK_MAGIC.to_be_bytes().to_vec();
    bytes.extend(flags.to_be_bytes());
    bytes.extend(kind.to_be_bytes());
    bytes.extend(7_u64.to_be_bytes());
    bytes.extend((data.len() as u32).to_be_bytes());
    bytes.extend(data);
    bytes
}

fn done() -> Vec<u8> {
    chunk(CHUNK_DONE, CHUNK_NONE, &[])
}

fn failed(number: u32) -> Vec<u8> {
    let mut data = number.to_be_bytes().to_vec();
    data.extend([0, 0]);
    chunk(CHUNK_DONE, CHUNK_ERROR, &data)
}

#[test]
fn exports_are_listed_and_described() {
    let disk = disk(false);
    let mut input = greeting();
    input.extend(option(OPTION_LIST, &[]));
    input.extend(go("other"));
    input.extend(option(99, b"what"));
    let mut info = text("");
    info.extend(1_u16.to_be_bytes());
    info.extend(INFO_NAME.to_be_bytes());
    input.extend(option(OPTION_INFO, &info));
    input.extend(contexts(OPTION_LIST_META_CONTEXT, &[]));
    input.extend(option(OPTION_ABORT, &[]));
    let (bytes, served) = answered(&disk, &input);
    served.unwrap();
    let reply = option_reply;
    let flags: u16 = HAS_FLAGS
        | SEND_FLUSH
        | CAN_MULTI_CONN
        | SEND_CACHE
        | SEND_FUA
        | SEND_TRIM
        | SEND_WRITE_ZEROES;
    let mut export = INFO_EXPORT.to_be_bytes().to_vec();
    export.extend((64_u64 << 10).to_be_bytes());
    export.extend(flags.to_be_bytes());
    let mut name = INFO_NAME.to_be_bytes().to_vec();
    name.extend(b"pond/disk");
    let mut sizes = INFO_BLOCK_SIZE.to_be_bytes().to_vec();
    for size in [1, BLOCK as u32, MEMORY_MAX] {
        sizes.extend(size.to_be_bytes());
    }
    let expected = [
        reply(OPTION_LIST, REPLY_SERVER, &text("pond/disk")),
        reply(OPTION_LIST, REPLY_ACK, &[]),
        reply(OPTION_GO, ERROR_UNKNOWN, b"there is no such export"),
        reply(99, ERROR_UNSUPPORTED, &[]),
        reply(OPTION_INFO, REPLY_INFO, &export),
        reply(OPTION_INFO, REPLY_INFO, &name),
        reply(OPTION_INFO, REPLY_INFO, &sizes),
        reply(OPTION_INFO, REPLY_ACK, &[]),
        // Nobody has agreed on structured replies.
        reply(OPTION_LIST_META_CONTEXT, ERROR_INVALID, &[]),
        reply(OPTION_ABORT, REPLY_ACK, &[]),
    ];
    assert_eq!(bytes, expected.concat());
}

#[test]
fn holes_are_told_and_not_sent() {
    let disk = disk(false);
    disk.bytes.lock().unwrap()[1024..1536].fill(5);
    let answers = structured(
        &disk,
        &[
            request(BLOCK_STATUS, 0, 512, 2048),
            request(BLOCK_STATUS, REQUEST_ONE, 0, 4096),
            request(READ, 0, 0, 2048),
            request(READ, DONT_FRAGMENT, 1000, 30),
        ],
    );
    let words =
        |words: &[u32]| -> Vec<u8> { words.iter().flat_map(|word| word.to_be_bytes()).collect() };
    let at = |offset: u64, rest: &[u8]| [&offset.to_be_bytes()[..], rest].concat();
    let mut mixed = vec![0; 24];
    mixed.extend([5; 6]);
    let expected = [
        chunk(1, CHUNK_BLOCK_STATUS, &words(&[1, 512, 3, 512, 0, 1024, 3])),
        chunk(1, CHUNK_BLOCK_STATUS, &words(&[1, 1024, 3])),
        chunk(0, CHUNK_HOLE, &at(0, &1024_u32.to_be_bytes())),
        chunk(0, CHUNK_DATA, &at(1024, &[5; 512])),
        chunk(1, CHUNK_HOLE, &at(1536, &512_u32.to_be_bytes())),
        chunk(1, CHUNK_DATA, &at(1000, &mixed)),
    ];
    assert_eq!(answers, expected.concat());
}

#[test]
fn changes_reach_the_disk_as_asked() {
    let disk = disk(false);
    let mut write = request(WRITE, FUA, 512, 4);
    write.extend(b"data");
    // Across the ends of blocks: the disk gets it cut there.
    let mut long = request(WRITE, 0, 500, 1100);
    long.extend((0..1100).map(|at| at as u8));
    let answers = structured(
        &disk,
        &[
            write,
            long,
            request(FLUSH, 0, 0, 0),
            request(TRIM, 0, 1024, 1024),
            request(WRITE_ZEROES, FUA, 0, 1024),
            request(WRITE_ZEROES, NO_HOLE, 0, 10),
            request(CACHE, 0, 0, 10),
        ],
    );
    assert_eq!(answers, done().repeat(7));
    let log = [
        "write 512 4 true",
        "write 500 1100 false",
        "flush",
        "trim 1024 1024 false",
        "zeroes 0 1024 true",
        "write 0 10 false",
    ];
    assert_eq!(*disk.log.lock().unwrap(), log);
}

#[test]
fn what_cannot_be_is_refused_and_the_connection_lives() {
    let disk = disk(false);
    let end = disk.size();
    let mut beyond = request(WRITE, 0, end - 1, 2);
    beyond.extend([1, 2]);
    let answers = structured(
        &disk,
        &[
            request(READ, 0, end, 1),
            request(READ, 0, u64::MAX, 2),
            request(READ, 0, 0, MEMORY_MAX + 1),
            beyond,
            request(99, 0, 0, 0),
            request(FLUSH, 1 << 14, 0, 0),
            request(BLOCK_STATUS, 0, 0, 0),
            request(FLUSH, 0, 0, 0),
        ],
    );
    let invalid = failed(EINVAL);
    let expected = [invalid.repeat(3), failed(ENOSPC), invalid.repeat(3), done()];
    assert_eq!(answers, expected.concat());
    let disk = self::disk(true);
    let mut write = request(WRITE, 0, 0, 1);
    write.push(1);
    let answers = structured(&disk, &[write, request(TRIM, 0, 0, 1)]);
    assert_eq!(answers, failed(EPERM).repeat(2));
}

#[test]
fn simple_replies_and_the_oldest_option() {
    let disk = disk(false);
    disk.bytes.lock().unwrap()[..4].copy_from_slice(b"text");
    let mut input = 0_u32.to_be_bytes().to_vec();
    input.extend(option(OPTION_EXPORT_NAME, b"pond/disk"));
    input.extend(request(READ, 0, 0, 4));
    input.extend(request(READ, 0, 1 << 40, 4));
    let (bytes, served) = answered(&disk, &input);
    // It went without a word.
    served.unwrap();
    assert_eq!(bytes[..8], (64_u64 << 10).to_be_bytes());
    let mut expected = Vec::new();
    for (error, data) in [(0, &b"text"[..]), (EINVAL, b"")] {
        expected.extend(SIMPLE_REPLY_MAGIC.to_be_bytes());
        expected.extend(error.to_be_bytes());
        expected.extend(7_u64.to_be_bytes());
        expected.extend(data);
    }
    assert_eq!(bytes[8 + 2 + 124..], expected);
}

#[test]
fn whoever_does_not_speak_it_is_left() {
    let disk = disk(false);
    let is_left = |input: &[u8]| matches!(answered(&disk, input).1, Err(NbdError::Protocol(_)));
    assert!(is_left(&[0xFF; 4]));
    assert!(is_left(&[greeting(), vec![1; 16]].concat()));
    assert!(is_left(
        &[greeting(), option(OPTION_EXPORT_NAME, b"no")].concat()
    ));
    assert!(is_left(&[greeting(), go(""), vec![1; 28]].concat()));
    let too_long = request(WRITE, 0, 0, MEMORY_MAX + 1);
    assert!(is_left(&[greeting(), go(""), too_long].concat()));
    // An option of too many bytes is read past.
    let long = [
        greeting(),
        option(OPTION_LIST, &vec![0; 70_000]),
        option(OPTION_ABORT, &[]),
    ];
    answered(&disk, &long.concat()).1.unwrap();
}

#[test]
fn before_tls_nothing_else_is_to_be_had() {
    let refused = |option| option_reply(option, ERROR_TLS_REQUIRED, b"this server requires TLS");
    let mut input = greeting();
    input.extend(option(OPTION_STRUCTURED_REPLY, &[]));
    input.extend(option(OPTION_LIST, &[]));
    input.extend(go("pond/disk"));
    input.extend(option(OPTION_STARTTLS, b"x"));
    input.extend(option(OPTION_STARTTLS, &[]));
    let asked = input.len();
    // What was said plainly behind it is not believed: the handshake finds it.
    input.extend(option(OPTION_LIST, &[]));
    let (bytes, begun, read) = answered_before_tls(&input);
    let flags = u32::from(FIXED_NEWSTYLE | NO_ZEROES);
    assert_eq!((begun.unwrap(), read), (Some(flags), asked));
    let expected = [
        refused(OPTION_STRUCTURED_REPLY),
        refused(OPTION_LIST),
        refused(OPTION_GO),
        option_reply(OPTION_STARTTLS, ERROR_INVALID, &[]),
        option_reply(OPTION_STARTTLS, REPLY_ACK, &[]),
    ];
    assert_eq!(bytes, expected.concat());
    let ended = [greeting(), option(OPTION_ABORT, &[])].concat();
    let (bytes, begun, _) = answered_before_tls(&ended);
    assert_eq!(begun.unwrap(), None);
    assert_eq!(bytes, option_reply(OPTION_ABORT, REPLY_ACK, &[]));
    for wrong in [
        option(OPTION_EXPORT_NAME, b"pond/disk"),
        option(OPTION_LIST, &vec![0; 70_000]),
        option(OPTION_LIST, &[]).repeat(20),
        vec![1; 16],
    ] {
        let (_, begun, _) = answered_before_tls(&[greeting(), wrong].concat());
        assert!(matches!(begun, Err(NbdError::Protocol(_))), "{begun:?}");
    }
}

#[test]
fn behind_tls_the_options_come_without_a_greeting() {
    let workers = ThreadPool::new(("nbd-test", Role::PART), 0, Bounded::new("nbd.requests", 1));
    workers.close();
    let output = Output::default();
    let input = [option(OPTION_STARTTLS, &[]), option(OPTION_ABORT, &[])];
    let beginning = Beginning::Secured {
        flags: u32::from(FIXED_NEWSTYLE),
    };
    let exports = One(disk(false));
    let input = Cursor::new(input.concat());
    serve(input, output.clone(), &exports, beginning, &workers).unwrap();
    let expected = [
        option_reply(OPTION_STARTTLS, ERROR_INVALID, &[]),
        option_reply(OPTION_ABORT, REPLY_ACK, &[]),
    ];
    assert_eq!(*output.0.lock().unwrap(), expected.concat());
}
