use super::*;
use crate::Times;
use proptest::prelude::*;

const SIZE: u64 = 1 << 20;

fn byte_at(disk: &SimulatedDisk, offset: u64) -> u8 {
    let mut byte = [0];
    disk.snapshot().read(offset, &mut byte);
    byte[0]
}

proptest! {
    /// Whatever the crash, each sector holds its last flushed content or that of a later write.
    #[test]
    fn a_crash_keeps_what_was_flushed(
        steps in proptest::collection::vec((0u64..64, 1usize..8, prop::bool::weighted(0.2)), 1..40),
        seed in any::<u64>(),
        cut in 0.0f64..1.0,
    ) {
        let disk = SimulatedDisk::new(SIZE, 7);
        for (n, (sector, count, flush)) in steps.iter().enumerate() {
            disk.write(sector * 512, &vec![n as u8 + 1; count * 512]).unwrap();
            if *flush {
                disk.flush().unwrap();
            }
        }
        let index = (disk.log_len() as f64 * cut) as usize;
        let mut possible = vec![vec![0u8]; 80];
        for n in 0..index {
            match disk.event(n).unwrap() {
                Event::Write { offset, data } => {
                    for sector in 0..data.len() / 512 {
                        possible[offset as usize / 512 + sector].push(data[0]);
                    }
                }
                Event::Flush => possible.iter_mut().for_each(|p| *p = vec![*p.last().unwrap()]),
                _ => {}
            }
        }
        let crashed = disk.crash_at(index, seed);
        let mut bytes = vec![0; 80 * 512];
        crashed.read(0, &mut bytes).unwrap();
        for (sector, possible) in bytes.chunks(512).zip(&possible) {
            prop_assert!(sector.iter().all(|b| *b == sector[0]), "torn inside a sector");
            prop_assert!(possible.contains(&sector[0]));
        }
        prop_assert_eq!(disk.crash_at(index, seed).snapshot(), crashed.snapshot());
    }
}

#[test]
fn every_shape_of_crash_comes_up() {
    let disk = SimulatedDisk::new(SIZE, 1);
    (0..4u64).for_each(|n| disk.write(n * 4096, &[1; 4096]).unwrap());
    let shape = |seed| {
        let crashed = disk.crash(seed);
        let mut bytes = vec![0; 4 * 4096];
        crashed.read(0, &mut bytes).unwrap();
        bytes
            .chunks(4096)
            .map(|w| w.iter().filter(|b| **b == 1).count())
            .collect::<Vec<_>>()
    };
    let shapes: Vec<_> = (0..200).map(shape).collect();
    assert!(shapes.iter().any(|s| s.iter().all(|n| *n == 0)), "all lost");
    assert!(
        shapes.iter().any(|s| s.iter().all(|n| *n == 4096)),
        "all kept"
    );
    assert!(
        shapes.iter().any(|s| s[0] == 0 && s[3] == 4096),
        "newer kept, older lost"
    );
    assert!(
        shapes.iter().any(|s| s.iter().any(|n| *n > 0 && *n < 4096)),
        "torn"
    );
}

#[test]
fn a_failed_flush_forgets_even_if_the_next_succeeds() {
    let disk = SimulatedDisk::new(SIZE, 3);
    disk.write(0, &[1; 512]).unwrap();
    disk.inject(Fault::everywhere(FaultKind::FlushError, Times::Count(1)));
    assert!(disk.flush().is_err());
    assert!(disk.failure().is_some() && disk.write(0, &[2; 512]).is_err());
    disk.clear_failure();
    disk.write(512, &[3; 512]).unwrap();
    disk.flush().unwrap();
    assert_eq!(byte_at(&disk, 0), 1, "the page cache still has it");
    // Over many disks both outcomes are seen; what was flushed well is always there.
    let outcome = |seed| {
        let disk = SimulatedDisk::new(SIZE, seed);
        disk.write(0, &[1; 512]).unwrap();
        disk.inject(Fault::everywhere(FaultKind::FlushError, Times::Count(1)));
        assert!(disk.flush().is_err());
        disk.clear_failure();
        disk.write(512, &[3; 512]).unwrap();
        disk.flush().unwrap();
        let crashed = disk.crash(seed);
        assert_eq!(byte_at(&crashed, 512), 3);
        byte_at(&crashed, 0)
    };
    let outcomes: Vec<u8> = (0..50).map(outcome).collect();
    assert!(outcomes.contains(&0) && outcomes.contains(&1));
}

#[test]
fn faults_do_what_they_say() {
    let disk = SimulatedDisk::new(SIZE, 4);
    let fault = |kind, times| Fault {
        kind,
        range: 0..4096,
        times,
    };
    disk.inject(fault(FaultKind::LostWrite, Times::Count(1)));
    disk.write(0, &[1; 512]).unwrap();
    assert_eq!(byte_at(&disk, 0), 0);
    disk.inject(fault(FaultKind::MisdirectedWrite(8192), Times::Count(1)));
    disk.write(0, &[2; 512]).unwrap();
    assert_eq!((byte_at(&disk, 0), byte_at(&disk, 8192)), (0, 2));
    disk.inject(fault(FaultKind::WriteError, Times::After(1)));
    disk.write(0, &[3; 512]).unwrap();
    assert!(disk.write(0, &[4; 512]).is_err() && disk.write(4096, &[4; 512]).is_ok());
    disk.inject(fault(FaultKind::ReadError, Times::Always));
    assert!(disk.read(512, &mut [0; 512]).is_err() && disk.read(4096, &mut [0; 512]).is_ok());
    disk.heal();
    disk.read(0, &mut [0; 512]).unwrap();
    disk.flush().unwrap();
    disk.inject(fault(FaultKind::RottenRead, Times::After(1)));
    let read = |offset| {
        let mut byte = [0];
        disk.read(offset, &mut byte).unwrap();
        byte[0]
    };
    let seen = (read(0), read(0), read(8192));
    assert_eq!(seen, (3, !3, 2));
    disk.heal();
    let places = disk.rot(0..512, 1, 9);
    assert_ne!(byte_at(&disk, places[0]), 3);
    assert_ne!(byte_at(&disk.crash(1), places[0]), 3);
}

#[test]
fn disks_of_one_pool_crash_at_one_moment() {
    let timeline = Timeline::new();
    let a = SimulatedDisk::on_timeline(SIZE, 1, &timeline);
    let b = SimulatedDisk::on_timeline(SIZE, 2, &timeline);
    a.write(0, &[1; 512]).unwrap();
    a.flush().unwrap();
    let between = timeline.now();
    b.write(0, &[1; 512]).unwrap();
    b.flush().unwrap();
    let (a, b) = (a.crash_at_moment(between, 5), b.crash_at_moment(between, 5));
    assert_eq!((byte_at(&a, 0), byte_at(&b, 0)), (1, 0));
}

#[test]
fn a_disk_goes_to_a_file_and_comes_back() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("disk");
    let disk = SimulatedDisk::new(SIZE + 512, 1);
    disk.write(SIZE, &[7; 512]).unwrap();
    disk.write(5000, &[8; 100]).unwrap();
    disk.write_to_file(&path).unwrap();
    let back = SimulatedDisk::from_file(&path, 1).unwrap();
    assert_eq!(
        (back.size(), back.snapshot()),
        (disk.size(), disk.snapshot())
    );
    assert_eq!(back.snapshot().digest(), disk.snapshot().digest());
    disk.forget_log();
    assert_eq!(
        (disk.log_len(), disk.crash(9).snapshot()),
        (0, disk.snapshot())
    );
}
