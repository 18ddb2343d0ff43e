//! A cold sequential read beside writers that never stop, on modelled devices in virtual time: how much longer the read
//! takes, and whether reader and writers together get what the device has. Without classes the same test is red.

use millpond_vdev::{IoClass, Next, Policy, Scheduler};
use sim::{DeviceModel, VirtualDevice, VirtualOperation};
use std::collections::BTreeMap;

/// Bytes that are read.
const TOTAL: u64 = 2 << 30;
const READ: u64 = 128 << 10;
const WRITE: u64 = 1 << 20;
/// Reads that a reader and its read-ahead keep under way.
const WINDOW: u64 = 3;
/// Writes that always wait: dirty data is at its limit.
const BACKLOG: u32 = 32;
/// Where the writers' part of the device begins.
const FAR: u64 = 1 << 40;

struct Run {
    device: VirtualDevice,
    scheduler: Scheduler,
    now_ns: u64,
    started: BTreeMap<u64, (IoClass, u64)>,
    next_id: u64,
    read_offset: u64,
    write_offset: u64,
    read_done: u64,
    written: u64,
    longest_read_ns: u64,
    /// The class that ended last, and how often it was another than before: seeks of a disk.
    last: Option<IoClass>,
    changes: u64,
}

impl Run {
    fn new(model: DeviceModel, policy: Policy) -> Self {
        let mut scheduler = Scheduler::new(policy);
        scheduler.set_dirty(1000);
        Self {
            device: VirtualDevice::new(model),
            scheduler,
            now_ns: 1,
            started: BTreeMap::new(),
            next_id: 0,
            read_offset: 0,
            write_offset: FAR,
            read_done: 0,
            written: 0,
            longest_read_ns: 0,
            last: None,
            changes: 0,
        }
    }

    /// Starts what may start; when to look again.
    fn dispatch(&mut self) -> Option<u64> {
        loop {
            let class = match self.scheduler.next(self.now_ns) {
                Next::Start(class) => class,
                Next::At(at) => return Some(at),
                Next::Idle => return None,
            };
            let (offset, len) = if class == IoClass::AsyncWrite {
                self.write_offset += WRITE;
                (self.write_offset - WRITE, WRITE)
            } else {
                self.read_offset += READ;
                (self.read_offset - READ, READ)
            };
            let id = self.next_id;
            self.next_id += 1;
            self.started.insert(id, (class, self.now_ns));
            let operation = VirtualOperation { id, offset, len };
            self.device.submit(self.now_ns, operation);
        }
    }

    fn ended(&mut self, operation: VirtualOperation) {
        let (class, started) = self.started.remove(&operation.id).unwrap();
        let len = operation.len as usize;
        self.scheduler.end(class, len, started, self.now_ns);
        self.changes += u64::from(self.last.replace(class) != Some(class));
        if class == IoClass::AsyncWrite {
            self.written += WRITE;
            self.scheduler.arrive(IoClass::AsyncWrite);
        } else {
            self.read_done += READ;
            self.longest_read_ns = self.longest_read_ns.max(self.now_ns - started);
            if self.read_done + (WINDOW - 1) * READ < TOTAL {
                self.scheduler.arrive(IoClass::AsyncRead);
            }
        }
    }

    /// Runs until everything is read, or for that long; answers the nanoseconds.
    fn run(&mut self, reads: bool, writes: bool, until_ns: u64) -> u64 {
        if reads {
            (0..WINDOW).for_each(|_| self.scheduler.arrive(IoClass::AsyncRead));
        }
        if writes {
            (0..BACKLOG).for_each(|_| self.scheduler.arrive(IoClass::AsyncWrite));
        }
        while self.now_ns < until_ns && (!reads || self.read_done < TOTAL) {
            let wake = self.dispatch();
            let end = self.device.next_end_ns();
            match (end, wake) {
                (Some(end), wake) if wake.is_none_or(|wake| end <= wake) => {
                    self.now_ns = end;
                    let (_, operation) = self.device.take_ended().unwrap();
                    self.ended(operation);
                }
                (_, Some(wake)) => self.now_ns = wake,
                (_, None) => panic!("nothing is under way and nothing will be"),
            }
        }
        self.now_ns
    }
}

/// How much longer the read takes beside the writers, and the sum of the shares of the solo rates.
fn measure(model: DeviceModel, policy: Policy) -> (f64, f64) {
    const FOREVER: u64 = 2_000_000_000_000;
    let alone_ns = Run::new(model, policy).run(true, false, FOREVER);
    let mut writer = Run::new(model, policy);
    let writer_ns = writer.run(false, true, 20_000_000_000);
    let writer_rate = writer.written as f64 / writer_ns as f64;
    let mut both = Run::new(model, policy);
    let both_ns = both.run(true, true, FOREVER);
    let ratio = both_ns as f64 / alone_ns as f64;
    let written_rate = both.written as f64 / both_ns as f64;
    let sum = 1.0 / ratio + written_rate / writer_rate;
    println!(
        "{model:?} {policy:?}: loaded ÷ unloaded {ratio:.3}, shares {:.3} + {:.3} = {sum:.3}, \
         longest read {} ms, {:.2} changes a second",
        1.0 / ratio,
        written_rate / writer_rate,
        both.longest_read_ns / 1_000_000,
        both.changes as f64 / (both_ns as f64 / 1e9)
    );
    (ratio, sum)
}

#[test]
fn reads_are_not_starved_by_writes() {
    let (ratio, sum) = measure(DeviceModel::FLASH, Policy::Classes);
    assert!(ratio <= 1.13, "{ratio}");
    assert!(sum >= 1.0, "{sum}");
    // A disk pays two seeks for every change between reading and writing: the sum stays below 1.
    let (ratio, sum) = measure(DeviceModel::DISK, Policy::Classes);
    assert!(ratio <= 1.13, "{ratio}");
    assert!(sum >= 0.95, "{sum}");
}

#[test]
fn a_trickle_of_reads_does_not_hold_writes_back() {
    let mut scheduler = Scheduler::new(Policy::Classes);
    scheduler.set_dirty(1000);
    let mut now_ns = 1;
    let mut started = 0;
    // A read of 1 ms each 50 ms, and writes that always wait.
    for _ in 0..200 {
        scheduler.arrive(IoClass::SyncRead);
        assert_eq!(scheduler.next(now_ns), Next::Start(IoClass::SyncRead));
        scheduler.end(IoClass::SyncRead, 4096, now_ns, now_ns + 1_000_000);
        for _ in 0..10 {
            scheduler.arrive(IoClass::AsyncWrite);
            if scheduler.next(now_ns) == Next::Start(IoClass::AsyncWrite) {
                started += 1;
                scheduler.end(IoClass::AsyncWrite, 1 << 20, now_ns, now_ns + 5_000_000);
            }
            now_ns += 5_000_000;
        }
    }
    assert!(started > 1600, "{started} of 2000 writes");
}

#[test]
fn more_dirty_data_means_more_writes_at_once() {
    let depth = |dirty| {
        let mut scheduler = Scheduler::new(Policy::Classes);
        scheduler.set_dirty(dirty);
        (0..20).for_each(|_| scheduler.arrive(IoClass::AsyncWrite));
        while scheduler.next(1) != Next::Idle {}
        scheduler.active(IoClass::AsyncWrite)
    };
    assert_eq!([0, 300, 450, 600, 1000].map(depth), [2, 2, 6, 10, 10]);
}

/// The bytes of txg writes that a device of this speed has on it at most, `after_ns` after a log block.
fn bytes_beside_log(write_ns: u64, after_ns: u64) -> usize {
    let mut scheduler = Scheduler::new(Policy::Classes);
    let mut now_ns = 1;
    for _ in 0..20 {
        scheduler.arrive(IoClass::AsyncWrite);
        assert_eq!(
            scheduler.next(now_ns),
            Next::Start(IoClass::AsyncWrite),
            "one write at least"
        );
        scheduler.end(IoClass::AsyncWrite, 65536, now_ns, now_ns + write_ns);
        now_ns += write_ns;
    }
    scheduler.arrive(IoClass::SyncWrite);
    assert_eq!(scheduler.next(now_ns), Next::Start(IoClass::SyncWrite));
    scheduler.end(IoClass::SyncWrite, 4096, now_ns, now_ns + 100_000);
    now_ns += 100_000 + after_ns;
    (0..20).for_each(|_| scheduler.arrive(IoClass::AsyncWrite));
    while scheduler.next(now_ns) != Next::Idle {}
    scheduler.active(IoClass::AsyncWrite) as usize * scheduler.write_bytes_max(now_ns)
}

#[test]
fn a_quick_device_has_little_to_do_for_txgs_beside_a_log() {
    assert_eq!(bytes_beside_log(200_000, 1_000_000), 128 << 10);
    assert_eq!(bytes_beside_log(200_000, 60_000_000), 2 << 20, "no log");
    // One small write at a time would be 13 MB/s.
    assert_eq!(bytes_beside_log(10_000_000, 1_000_000), 2 << 20);
    assert_eq!(bytes_beside_log(10_000_000, 60_000_000), 2 << 20);
}

#[test]
fn without_classes_they_are() {
    for model in [DeviceModel::DISK, DeviceModel::FLASH] {
        let (ratio, _) = measure(model, Policy::Fifo);
        assert!(ratio > 2.0, "the fault is back: {ratio}");
    }
}
