//! What a client of NBD says, and what a server does.

use std::io::{self, Cursor, Write};
use std::ops::Range;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use base::queue::Bounded;
use base::thread::{self, Role};
use base::thread_pool::ThreadPool;
use nbd::{Beginning, Client, Disk, Exports, Fault, Limits, NbdError};
use sys::Buffer;

use crate::target::{Target, targets};

pub(super) const TARGETS: &[Target] = targets! {
    nbd: |bytes| {
        let _ = serve(bytes, Beginning::Nothing);
        // The same behind a handshake of TLS, and what comes before one.
        let _ = serve(bytes, Beginning::Secured { flags: 1 });
        let _ = nbd::start_tls(&mut &bytes[..], &mut std::io::sink());
        // What a server says.
        let _ = nbd::greet_server(&mut &bytes[..], &mut std::io::sink());
        let _ = nbd::ask_for_tls(&mut &bytes[..], &mut std::io::sink());
        let _ = nbd::choose(&mut &bytes[..], &mut std::io::sink(), "disk");
        replies(bytes);
    };
};

fn serve(bytes: &[u8], beginning: Beginning) -> Result<(), NbdError> {
    let input = Cursor::new(bytes.to_vec());
    nbd::serve(input, std::io::sink(), &One, beginning, &nobody())
}

/// What a server says to two requests, which it has by then.
fn replies(bytes: &[u8]) {
    let sent = Arc::new(AtomicUsize::new(0));
    let limits = Limits {
        requests_max: 2,
        patience: Duration::from_secs(60),
    };
    let client = Client::new(Sent(Arc::clone(&sent)), limits, Box::new(|| {}));
    thread::scope(|scope| {
        scope.spawn(|| {
            let mut out = [0; 4];
            let _ = client.read(0, &mut out);
        });
        scope.spawn(|| client.flush());
        while sent.load(Ordering::Acquire) < 2 {
            std::thread::yield_now();
        }
        client.replies(&mut &bytes[..]);
    });
}

/// Counts the requests that were sent.
struct Sent(Arc<AtomicUsize>);

impl Write for Sent {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.fetch_add(1, Ordering::AcqRel);
        Ok(())
    }
}

/// Threads that there are none of: who serves does all himself.
fn nobody() -> Arc<ThreadPool> {
    static NOBODY: OnceLock<Arc<ThreadPool>> = OnceLock::new();
    let made = NOBODY.get_or_init(|| {
        let none = ThreadPool::new(("fuzz-nbd", Role::PART), 0, Bounded::new("nbd.requests", 1));
        none.close();
        none
    });
    Arc::clone(made)
}

/// A disk whose even blocks are holes, and who keeps nothing.
struct Striped;

const BLOCK: u64 = 512;
const SIZE: u64 = 64 * BLOCK;

/// The first block at or after that of a byte that is a hole, or is none.
fn find(offset: u64, hole: bool) -> u64 {
    let is_hole = (offset / BLOCK).is_multiple_of(2);
    if is_hole == hole {
        offset
    } else {
        (offset / BLOCK + 1) * BLOCK
    }
}

impl Disk for Striped {
    fn size(&self) -> u64 {
        SIZE
    }
    fn block_size(&self) -> u32 {
        BLOCK as u32
    }
    fn is_read_only(&self) -> bool {
        false
    }
    fn read(&self, offset: u64, out: &mut [u8]) -> Result<(), Fault> {
        within(offset, out.len() as u64)
    }
    fn write(&self, offset: u64, data: Vec<Buffer>, _durable: bool) -> Result<(), Fault> {
        within(offset, data.iter().map(|buffer| buffer.len() as u64).sum())
    }
    fn write_zeroes(&self, offset: u64, length: u64, _durable: bool) -> Result<(), Fault> {
        within(offset, length)
    }
    fn trim(&self, offset: u64, length: u64, _durable: bool) -> Result<(), Fault> {
        within(offset, length)
    }
    fn flush(&self) -> Result<(), Fault> {
        Ok(())
    }
    fn next_data(&self, range: Range<u64>) -> Result<Option<u64>, Fault> {
        within(range.start, range.end.saturating_sub(range.start))?;
        Ok(Some(find(range.start, false)).filter(|found| *found < range.end))
    }
    fn next_hole(&self, range: Range<u64>) -> Result<u64, Fault> {
        within(range.start, range.end.saturating_sub(range.start))?;
        Ok(find(range.start, true).min(range.end))
    }
}

/// A disk is asked for nothing beyond its end.
fn within(offset: u64, length: u64) -> Result<(), Fault> {
    assert!(offset.checked_add(length).is_some_and(|end| end <= SIZE));
    Ok(())
}

struct One;

impl Exports for One {
    fn names(&self) -> Vec<String> {
        vec!["disk".to_owned()]
    }
    fn open(&self, _name: &str) -> Result<Arc<dyn Disk>, Fault> {
        Ok(Arc::new(Striped))
    }
}
