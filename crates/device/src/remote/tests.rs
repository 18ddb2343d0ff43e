use std::ops::Range;
use std::os::unix::net::{UnixListener, UnixStream};
use std::sync::Mutex as StdMutex;
use std::thread;

use base::queue::Bounded;
use base::thread::Role;
use base::thread_pool::ThreadPool;
use nbd::{Beginning, Disk, Exports, Fault};
use sys::Buffer;

use super::*;

/// Whoever reads here is told that the server shuts down.
const CLOSING: u64 = 39 << 20;

/// Bytes in memory.
struct Bytes(StdMutex<Vec<u8>>);

impl Disk for Bytes {
    fn size(&self) -> u64 {
        self.0.lock().unwrap().len() as u64
    }
    fn block_size(&self) -> u32 {
        16 << 10
    }
    fn is_read_only(&self) -> bool {
        false
    }
    fn read(&self, offset: u64, out: &mut [u8]) -> Result<(), Fault> {
        if offset == CLOSING {
            return Err(Fault::Closing);
        }
        let from = offset as usize;
        out.copy_from_slice(&self.0.lock().unwrap()[from..from + out.len()]);
        Ok(())
    }
    fn write(&self, offset: u64, data: Vec<Buffer>, _durable: bool) -> Result<(), Fault> {
        let mut at = offset as usize;
        for buffer in &data {
            self.0.lock().unwrap()[at..at + buffer.len()].copy_from_slice(buffer);
            at += buffer.len();
        }
        Ok(())
    }
    fn write_zeroes(&self, _offset: u64, _length: u64, _durable: bool) -> Result<(), Fault> {
        Err(Fault::NoSpace)
    }
    fn trim(&self, _offset: u64, _length: u64, _durable: bool) -> Result<(), Fault> {
        Err(Fault::NoSpace)
    }
    fn flush(&self) -> Result<(), Fault> {
        Ok(())
    }
    fn next_data(&self, range: Range<u64>) -> Result<Option<u64>, Fault> {
        Ok(Some(range.start))
    }
    fn next_hole(&self, range: Range<u64>) -> Result<u64, Fault> {
        Ok(range.end)
    }
}

struct One(Arc<Bytes>);

impl Exports for One {
    fn names(&self) -> Vec<String> {
        vec!["disk".to_owned()]
    }
    fn open(&self, _name: &str) -> Result<Arc<dyn Disk>, Fault> {
        Ok(Arc::clone(&self.0) as _)
    }
}

/// A disk of a server that can be cut off.
fn served(folder: &Path) -> (PathBuf, Arc<StdMutex<Vec<UnixStream>>>) {
    let socket = folder.join("socket");
    let listener = UnixListener::bind(&socket).unwrap();
    let clients = Arc::new(StdMutex::new(Vec::new()));
    let all = Arc::clone(&clients);
    thread::spawn(move || {
        let bytes = Arc::new(Bytes(StdMutex::new(vec![0; 40 << 20])));
        for client in listener.incoming().flatten() {
            all.lock().unwrap().push(client.try_clone().unwrap());
            let exports = One(Arc::clone(&bytes));
            thread::spawn(move || {
                let queue = Bounded::new("nbd.requests", 4);
                let workers = ThreadPool::new(("nbd-test", Role::PART), 2, queue);
                let output = client.try_clone().unwrap();
                let _ended = nbd::serve(client, output, &exports, Beginning::Nothing, &workers);
                workers.close();
            });
        }
    });
    let uri = format!("nbd+unix:///disk?socket={}", socket.display());
    (PathBuf::from(uri), clients)
}

#[test]
fn a_disk_of_a_server_is_a_device_until_the_connection_breaks() {
    let folder = tempfile::tempdir().unwrap();
    let (uri, clients) = served(folder.path());
    // Nobody named it yet.
    assert!(matches!(
        crate::open_again(&uri, Access::ReadWrite).map(drop),
        Err(DeviceError::NotFound { .. })
    ));
    let device = crate::open(&uri, Access::ReadWrite).unwrap();
    assert_eq!(
        (device.size(), device.kind()),
        (40 << 20, DeviceKind::Remote)
    );
    assert_eq!(
        (device.sector_size(), device.physical_sector_size()),
        (512, 4096)
    );
    // More than one request may have.
    let bytes: Vec<u8> = (0..33_u32 << 20).map(|at| (at % 253) as u8).collect();
    device
        .write_vectored(4096, &[&bytes[..5000], &bytes[5000..]])
        .unwrap();
    device.flush().unwrap();
    let mut found = vec![0; bytes.len()];
    device.read(4096, &mut found).unwrap();
    assert!(found == bytes);
    let beyond = device.write(40 << 20, b"x");
    assert!(matches!(beyond, Err(DeviceError::OutOfRange { .. })));
    let full = device.discard(0, 4096);
    assert!(matches!(full, Err(DeviceError::HostFull { .. })));
    let closing = device.read(CLOSING, &mut found[..512]).unwrap_err();
    assert!(closing.is_gone(), "{closing}");
    assert_eq!(device.failure(), None);
    // What may be another host's is not sent any more, and what was begun ends with the connection.
    let is_open = Arc::new(AtomicBool::new(true));
    let fence = Arc::clone(&is_open);
    device.set_fence(Arc::new(move || fence.load(Ordering::Acquire)));
    device.write(8192, &bytes[8192 - 4096..][..512]).unwrap();
    is_open.store(false, Ordering::Release);
    let fenced = device.write(0, b"x").unwrap_err();
    assert!(fenced.is_gone(), "{fenced}");
    let device = crate::open(&uri, Access::ReadWrite).unwrap();
    device.flush().unwrap();
    for client in clients.lock().unwrap().drain(..) {
        client.shutdown(std::net::Shutdown::Both).unwrap();
    }
    let gone = device.write(0, b"x").unwrap_err();
    assert!(gone.is_gone(), "{gone}");
    assert!(device.flush().is_err() && device.failure().is_some());
    // It was named: it is found again, with what was made durable.
    let again = crate::open_again(&uri, Access::ReadOnly).unwrap();
    again.read(4096, &mut found).unwrap();
    assert!(found == bytes);
    let refused = again.write(0, b"x");
    assert!(matches!(refused, Err(DeviceError::ReadOnly { .. })));
    let unknown = crate::open(&folder.path().join("none"), Access::ReadOnly);
    assert!(unknown.is_err());
    let wrong = PathBuf::from(uri.to_str().unwrap().replace("/disk", "/other"));
    let text = crate::open(&wrong, Access::ReadOnly)
        .map(drop)
        .unwrap_err()
        .to_string();
    assert!(
        text.contains("cannot be connected to: it has no such export"),
        "{text}"
    );
}
