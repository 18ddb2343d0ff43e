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

/// Bytes that writers who never stop get in each half minute beside a reader who never stops either, as a part of the
/// device's, with dirty data at `dirty` thousandths of their limit.
fn shares_of_writers(dirty: u32, half_minutes: u64) -> Vec<f64> {
    const SPAN_NS: u64 = 30_000_000_000;
    let mut run = Run::new(DeviceModel::DISK, Policy::Classes);
    run.scheduler.set_dirty(dirty);
    (0..WINDOW).for_each(|_| run.scheduler.arrive(IoClass::AsyncRead));
    (0..BACKLOG).for_each(|_| run.scheduler.arrive(IoClass::AsyncWrite));
    let share = |span: u64| {
        let before = run.written;
        // A file without an end.
        run.read_done = 0;
        while run.now_ns < (span + 1) * SPAN_NS {
            run.read_done = 0;
            run.run(false, false, run.now_ns + 1_000_000);
        }
        (run.written - before) as f64 / (150e6 * SPAN_NS as f64 / 1e9)
    };
    (0..half_minutes).map(share).collect()
}

#[test]
fn writers_who_have_been_at_the_limit_for_long_get_their_share() {
    let shares = shares_of_writers(1000, 4);
    println!("{shares:.2?}");
    assert!(shares[0] < 0.35 && shares[3] > 0.5, "{shares:?}");
    assert!(
        shares.windows(2).all(|pair| pair[1] > pair[0] - 0.02),
        "it rises: {shares:?}"
    );
    let half = shares_of_writers(950, 4);
    println!("{half:.2?}");
    assert!(half[3] > shares[0] && half[3] < shares[3], "{half:?}");
    // Where the throttle alone slows them down, reads keep what they have.
    let low = shares_of_writers(800, 4);
    println!("{low:.2?}");
    assert!(low[3] < 0.35, "{low:?}");
}

/// A log block each 5 ms beside writers that never stop, for ten seconds: bytes a second of the writers, and the
/// longest log write but for one in a hundred.
fn beside_constant_log(model: DeviceModel) -> (f64, u64) {
    const EACH_NS: u64 = 5_000_000;
    const UNTIL_NS: u64 = 10_000_000_000;
    let mut run = Run::new(model, Policy::Classes);
    (0..BACKLOG).for_each(|_| run.scheduler.arrive(IoClass::AsyncWrite));
    let (mut log_at, mut log_ns) = (1, Vec::new());
    let mut sizes = BTreeMap::new();
    let mut written = 0;
    while run.now_ns < UNTIL_NS {
        if run.now_ns >= log_at {
            run.scheduler.arrive(IoClass::SyncWrite);
            log_at += EACH_NS;
        }
        let mut wake = log_at;
        loop {
            let class = match run.scheduler.next(run.now_ns) {
                Next::Start(class) => class,
                Next::At(at) => break wake = wake.min(at),
                Next::Idle => break,
            };
            let len = match class {
                IoClass::AsyncWrite => run.scheduler.write_bytes_max(run.now_ns) as u64,
                _ => 4096,
            };
            let id = run.next_id;
            run.next_id += 1;
            sizes.insert(id, len);
            run.started.insert(id, (class, run.now_ns));
            let offset = id << 30;
            run.device
                .submit(run.now_ns, VirtualOperation { id, offset, len });
        }
        let end = run.device.next_end_ns().filter(|end| *end <= wake);
        let Some(end) = end else {
            run.now_ns = wake;
            continue;
        };
        run.now_ns = end;
        let (_, operation) = run.device.take_ended().unwrap();
        let (class, started) = run.started.remove(&operation.id).unwrap();
        run.scheduler
            .end(class, operation.len as usize, started, end);
        if class == IoClass::AsyncWrite {
            written += operation.len;
            run.scheduler.arrive(class);
        } else {
            log_ns.push(end - started);
        }
    }
    log_ns.sort_unstable();
    let rate = written as f64 / (UNTIL_NS as f64 / 1e9);
    (rate, log_ns[log_ns.len() * 99 / 100])
}

#[test]
fn a_device_with_latency_gets_more_than_one_write_beside_a_log() {
    let distant = |latency_ns| DeviceModel::SolidState {
        channels: 16,
        latency_ns,
        bytes_per_second: 4_000_000_000,
    };
    for (latency_ns, min) in [(500_000, 250e6), (1_000_000, 250e6), (1_400_000, 250e6)] {
        let (rate, log_ns) = beside_constant_log(distant(latency_ns));
        println!("{latency_ns} ns: {:.0} MB/s, log {log_ns} ns", rate / 1e6);
        assert!(rate > min, "{latency_ns}: {rate}");
        assert!(log_ns < latency_ns * 2, "{latency_ns}: {log_ns}");
    }
    // One that is slow for want of bandwidth: the log would wait for all.
    let narrow = DeviceModel::SolidState {
        channels: 1,
        latency_ns: 50_000,
        bytes_per_second: 130_000_000,
    };
    let (rate, log_ns) = beside_constant_log(narrow);
    println!("narrow: {:.0} MB/s, log {log_ns} ns", rate / 1e6);
    assert!(log_ns < 3_500_000, "{log_ns}");
}

#[test]
fn without_classes_they_are() {
    for model in [DeviceModel::DISK, DeviceModel::FLASH] {
        let (ratio, _) = measure(model, Policy::Fifo);
        assert!(ratio > 2.0, "the fault is back: {ratio}");
    }
}
