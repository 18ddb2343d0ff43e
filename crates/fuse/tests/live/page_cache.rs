//! A file that is only written goes past the kernel's page cache, and nobody sees old data for it.

use super::Mounted;
use rustix::fs::{XattrFlags, fgetxattr, fsetxattr};
use rustix::io::Errno;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::sync::atomic::{AtomicU64, Ordering};

const PAGE: usize = 4096;
const PAGES: u64 = 4;

fn page(version: u64) -> Vec<u8> {
    version.to_le_bytes().repeat(PAGE / 8)
}

fn version(file: &File, page: u64) -> u64 {
    let mut bytes = [0; 8];
    file.read_exact_at(&mut bytes, page * PAGE as u64).unwrap();
    u64::from_le_bytes(bytes)
}

#[test]
fn readers_never_see_what_was_before_a_write() {
    let Some(at) = Mounted::new() else { return };
    let path = at.path("f");
    let writer = File::create(&path).unwrap();
    for page_number in 0..PAGES {
        writer
            .write_all_at(&page(0), page_number * PAGE as u64)
            .unwrap();
    }
    let reader = File::open(&path).unwrap();
    let newest: [AtomicU64; PAGES as usize] = std::array::from_fn(|_| AtomicU64::new(0));
    const LAST: u64 = 4000;
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                while newest[0].load(Ordering::SeqCst) < LAST {
                    for (page_number, newest) in newest.iter().enumerate() {
                        let floor = newest.load(Ordering::SeqCst);
                        let found = version(&reader, page_number as u64);
                        assert!(found >= floor, "page {page_number}: {found}, not {floor}");
                    }
                }
            });
        }
        for number in 1..=LAST {
            let page_number = number % PAGES;
            writer
                .write_all_at(&page(number), page_number * PAGE as u64)
                .unwrap();
            newest[page_number as usize].store(number, Ordering::SeqCst);
        }
    });
    for (page_number, newest) in newest.iter().enumerate() {
        let expected = newest.load(Ordering::SeqCst);
        assert_eq!(version(&reader, page_number as u64), expected);
    }
}

#[test]
fn what_one_open_writes_the_others_read() {
    let Some(at) = Mounted::new() else { return };
    let path = at.path("f");
    let first = File::create(&path).unwrap();
    first.write_all_at(&page(1), 0).unwrap();
    // Both of these use the page cache, and have the page in it.
    let reader = File::open(&path).unwrap();
    let both = File::options().read(true).write(true).open(&path).unwrap();
    assert_eq!((version(&reader, 0), version(&both, 0)), (1, 1));
    first.write_all_at(&page(2), 0).unwrap();
    assert_eq!((version(&reader, 0), version(&both, 0)), (2, 2));
    both.write_all_at(&page(3), 0).unwrap();
    assert_eq!(version(&reader, 0), 3);
    // Uses the cache, for others do.
    let late = File::options().write(true).open(&path).unwrap();
    late.write_all_at(&page(4), 0).unwrap();
    first.write_all_at(&page(5), PAGE as u64).unwrap();
    assert_eq!((version(&reader, 0), version(&both, 1)), (4, 5));
    drop((reader, both, late));
    first.write_all_at(&page(6), 0).unwrap();
    assert_eq!(version(&File::open(&path).unwrap(), 0), 6);
    assert_eq!(std::fs::read(&path).unwrap().len(), 2 * PAGE);
}

/// Version 2 of the form, with CAP_NET_BIND_SERVICE in force.
const CAPABILITY: [u8; 20] = [1, 0, 0, 2, 0, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];

#[test]
fn a_changed_program_loses_its_capabilities() {
    let Some(at) = Mounted::new() else { return };
    const NAME: &str = "security.capability";
    let path = at.path("program");
    let before = File::create(&path).unwrap();
    match fsetxattr(&before, NAME, &CAPABILITY, XattrFlags::empty()) {
        Err(Errno::PERM) => {
            println!("skipped: capabilities cannot be set here");
            return;
        }
        set => set.unwrap(),
    }
    let mut value = [0; 64];
    assert_eq!(fgetxattr(&before, NAME, &mut value), Ok(20));
    // Opened before the capability was there, and after.
    before.write_all_at(b"changed", 0).unwrap();
    assert_eq!(fgetxattr(&before, NAME, &mut value), Err(Errno::NODATA));
    fsetxattr(&before, NAME, &CAPABILITY, XattrFlags::empty()).unwrap();
    let after = File::options().write(true).open(&path).unwrap();
    after.write_all_at(b"again", 0).unwrap();
    assert_eq!(fgetxattr(&before, NAME, &mut value), Err(Errno::NODATA));
}

/// Random writes and truncations by opens that come and go, read through one that stays and through new ones.
#[test]
fn every_open_reads_what_the_others_wrote() {
    use base::random::SeededRng;
    let seeds =
        std::env::var("MILLPOND_SEED").map_or(vec![4, 5], |text| vec![text.parse().unwrap()]);
    for seed in seeds {
        println!(
            "repeat with: MILLPOND_SEED={seed} cargo test -p millpond-fuse --test live every_open"
        );
        // The kernel gathers writes for every other seed.
        let at = match seed % 2 {
            0 => Mounted::gathering(),
            _ => Mounted::new(),
        };
        let Some(at) = at else { return };
        reads_and_writes(&at, &SeededRng::new(seed));
    }
}

fn reads_and_writes(at: &Mounted, random: &base::random::SeededRng) {
    use base::random::Rng;
    const LENGTH_MAX: u64 = 300_000;
    let path = at.path("f");
    let mut model: Vec<u8> = Vec::new();
    let mut writer = File::create(&path).unwrap();
    let stays = File::open(&path).unwrap();
    for _ in 0..1500 {
        match random.below(10) {
            0 => {
                let length = random.below(LENGTH_MAX);
                writer.set_len(length).unwrap();
                model.resize(length as usize, 0);
            }
            1 => {
                let both = random.below(3) == 0;
                writer = File::options().write(true).read(both).open(&path).unwrap();
            }
            _ => {
                let mut data = vec![0; 1 + random.below(20_000) as usize];
                random.fill(&mut data);
                let start = random.below(LENGTH_MAX) as usize;
                writer.write_all_at(&data, start as u64).unwrap();
                let end = start + data.len();
                model.resize(model.len().max(end), 0);
                model[start..end].copy_from_slice(&data);
            }
        }
        let start = (random.below(LENGTH_MAX) as usize).min(model.len());
        let mut piece = vec![0; (random.below(30_000) as usize).min(model.len() - start)];
        stays.read_exact_at(&mut piece, start as u64).unwrap();
        assert!(piece == model[start..start + piece.len()]);
        if random.below(10) == 0 {
            assert!(std::fs::read(&path).unwrap() == model);
        }
    }
}

/// The kernel writes pages by any open of the file that it finds.
#[test]
fn pages_of_an_appending_open_stay_where_they_are() {
    const PROGRAM: &str = "
import mmap, os, sys
descriptor = os.open(sys.argv[1], os.O_RDWR | os.O_APPEND)
memory = mmap.mmap(descriptor, 0)
memory[0:5] = b'FIRST'
memory.flush()
os.write(descriptor, b'last')
";
    let Some(at) = Mounted::new() else { return };
    let path = at.path("f");
    std::fs::write(&path, b"first second ").unwrap();
    let program = std::process::Command::new("python3")
        .args(["-c", PROGRAM])
        .arg(&path)
        .status();
    let Ok(status) = program else {
        println!("skipped: there is no python3 here to map a file with");
        return;
    };
    assert!(status.success());
    assert_eq!(std::fs::read(&path).unwrap(), b"FIRST second last");
}
