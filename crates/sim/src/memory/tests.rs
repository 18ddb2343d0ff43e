use super::*;
use std::time::Instant;

#[test]
fn what_was_written_is_read_and_nothing_beyond_the_end() {
    let disk = MemoryDisk::new(1 << 20);
    disk.write(5000, &[7; 9000]).unwrap();
    let mut found = [1; 3];
    disk.read(13_999, &mut found).unwrap();
    assert_eq!(found, [7, 0, 0]);
    disk.discard(0, 1 << 20).unwrap();
    disk.read(5000, &mut found).unwrap();
    assert_eq!(found, [0; 3]);
    assert!(disk.write((1 << 20) - 1, &[1; 2]).is_err());
}

#[test]
fn a_paced_disk_takes_its_time() {
    let model = DeviceModel::SolidState {
        channels: 2,
        latency_ns: 5_000_000,
        bytes_per_second: 1 << 30,
    };
    let disk = MemoryDisk::paced(1 << 20, model);
    let start = Instant::now();
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| disk.read(0, &mut [0; 512]).unwrap());
        }
    });
    assert!(start.elapsed() >= Duration::from_millis(10), "two by two");
}

#[test]
fn a_flush_takes_the_time_that_was_said() {
    let disk = MemoryDisk::slow_to_flush(1 << 20, Duration::from_millis(5));
    let start = Instant::now();
    disk.write(0, &[1; 512]).unwrap();
    disk.flush().unwrap();
    disk.flush().unwrap();
    assert!(start.elapsed() >= Duration::from_millis(10));
}
