//! Where the kernel gathers writes: files are as without that, and so are snapshots, limits and errors.

use super::{Mounted, WAIT};
use rustix::fs::{FallocateFlags, SeekFrom, copy_file_range, fallocate, seek};
use rustix::io::Errno;
use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;
use std::sync::atomic::Ordering;
use std::time::Duration;

fn errno(result: std::io::Result<impl std::fmt::Debug>) -> Option<i32> {
    result.expect_err("is refused").raw_os_error()
}

fn times(path: &Path) -> (i64, i64, i64, i64) {
    let found = fs::metadata(path).unwrap();
    (
        found.mtime(),
        found.mtime_nsec(),
        found.ctime(),
        found.ctime_nsec(),
    )
}

fn appending(path: &Path) -> File {
    let mut options = OpenOptions::new();
    options.create(true).append(true).open(path).unwrap()
}

#[test]
fn what_several_append_follows_one_another() {
    let Some(at) = Mounted::gathering() else {
        return;
    };
    let path = at.path("f");
    let threads: Vec<_> = (0..4_u8)
        .map(|number| {
            let mut file = appending(&path);
            std::thread::spawn(move || {
                for count in 0..500_u16 {
                    let [low, high] = count.to_le_bytes();
                    file.write_all(&[number, low, high, b'\n']).unwrap();
                    if count % 100 == 0 {
                        file.sync_all().unwrap();
                    }
                }
            })
        })
        .collect();
    threads
        .into_iter()
        .for_each(|thread| thread.join().unwrap());
    let at = at.again();
    let found = fs::read(at.path("f")).unwrap();
    assert_eq!(found.len(), 4 * 500 * 4);
    for number in 0..4 {
        let lines = found.chunks(4).filter(|line| line[0] == number);
        let counts: Vec<u16> = lines
            .map(|line| u16::from_le_bytes([line[1], line[2]]))
            .collect();
        assert!(counts.into_iter().eq(0..500));
    }
}

#[test]
fn sizes_and_times_stay_what_was_shown() {
    let Some(at) = Mounted::gathering() else {
        return;
    };
    let path = at.path("f");
    let mut file = File::create(&path).unwrap();
    file.write_all(&[1; 10_000]).unwrap();
    let shown = (times(&path), fs::metadata(&path).unwrap().len());
    std::thread::sleep(Duration::from_millis(50));
    // The pages are written now, and may not move the times.
    at.mount.session().invalidate_node(node(&at, "f"));
    file.sync_all().unwrap();
    assert_eq!((times(&path), fs::metadata(&path).unwrap().len()), shown);
    let early = std::time::UNIX_EPOCH + Duration::from_secs(1000);
    file.write_all(b"more").unwrap();
    file.set_modified(early).unwrap();
    let shown = times(&path);
    assert_eq!((shown.0, shown.1), (1000, 0));
    // A size that is there already is no change.
    let length = file.metadata().unwrap().len();
    let program = format!("import os, sys; os.truncate(sys.argv[1], {length})");
    let _absent = Command::new("python3")
        .args(["-c", &program])
        .arg(&path)
        .status();
    assert_eq!((times(&path).0, times(&path).1), (1000, 0));
    let shown = times(&path);
    drop(file);
    // Only a part of the page is written, through an open that may not read.
    let kept = fs::metadata(at.path("f")).unwrap().len();
    let at = at.again();
    assert_eq!(times(&at.path("f")), shown);
    let writer = OpenOptions::new().write(true).open(at.path("f")).unwrap();
    writer.write_all_at(b"part", 5000).unwrap();
    drop(writer);
    let found = fs::read(at.path("f")).unwrap();
    assert_eq!(
        (found.len() as u64, &found[4998..5006]),
        (kept, &b"\x01\x01part\x01\x01"[..])
    );
    assert!(times(&at.path("f")).0 > 1000);
}

/// The node of a name, as the kernel is told of it.
fn node(at: &Mounted, name: &str) -> u64 {
    let object = fs::metadata(at.path(name)).unwrap().ino();
    let dirty = at.dirty_nodes();
    let found = dirty.iter().find(|node| **node & 0xFFFF_FFFF == object);
    *found.expect("a file that is being written")
}

#[test]
fn a_snapshot_has_what_was_written_before() {
    let Some(at) = Mounted::gathering() else {
        return;
    };
    fs::create_dir(at.path("d")).unwrap();
    let mut file = File::create(at.path("d/f")).unwrap();
    for (number, name) in ["one", "two"].iter().enumerate() {
        file.write_all(&[b'a'; 3000]).unwrap();
        let shown = times(&at.path("d/f"));
        std::thread::sleep(Duration::from_millis(20));
        at.snapshot(name);
        let kept = at.path(&format!(".zfs/snapshot/{name}/d/f"));
        assert_eq!(fs::read(&kept).unwrap(), vec![b'a'; 3000 * (number + 1)]);
        assert_eq!((times(&kept), times(&at.path("d/f"))), (shown, shown));
    }
    // Without a name there is nothing to show; its contents are written all the same.
    fs::remove_file(at.path("d/f")).unwrap();
    file.write_all(b"more").unwrap();
    at.mount.write_back(WAIT).unwrap();
    assert_eq!(file.metadata().unwrap().len(), 6004);
}

#[test]
fn a_rollback_leaves_no_size_and_no_page() {
    let Some(at) = Mounted::gathering() else {
        return;
    };
    fs::write(at.path("f"), b"before").unwrap();
    at.snapshot("s");
    let mut file = appending(&at.path("f"));
    file.write_all(&[b'x'; 9000]).unwrap();
    at.rollback("s");
    assert_eq!(fs::metadata(at.path("f")).unwrap().len(), 6);
    assert_eq!(fs::read(at.path("f")).unwrap(), b"before");
    // What is written to a file that is gone fails, at the latest when it is to be durable.
    let written = file.write_all(b"late").and_then(|()| file.sync_all());
    assert!(written.is_err());
    drop(file);
    fs::write(at.path("f"), b"after the rollback").unwrap();
    let at = at.again();
    assert_eq!(fs::read(at.path("f")).unwrap(), b"after the rollback");
}

#[test]
fn a_write_without_room_is_refused_and_what_was_taken_is_kept() {
    let Some(at) = Mounted::gathering() else {
        return;
    };
    let full = Some(Errno::NOSPC.raw_os_error());
    let mut file = File::create(at.path("f")).unwrap();
    file.write_all(&[1; 100_000]).unwrap();
    // It is full all at once; what the kernel has is promised.
    at.disk.room.store(0, Ordering::SeqCst);
    file.sync_all().unwrap();
    assert_eq!(errno(file.write(b"more")), full);
    assert_eq!(errno(file.write(b"more")), full);
    let other = File::create(at.path("other"));
    assert!(other.is_err() || errno(other.unwrap().write(b"x")) == full);
    assert_eq!(file.metadata().unwrap().len(), 100_000);
    // Room for writes, but not for all that the kernel might gather.
    at.disk.room.store(8 << 20, Ordering::SeqCst);
    for _ in 0..3 {
        file.write_all(&[2; 50_000]).unwrap();
    }
    at.disk.room.store(0, Ordering::SeqCst);
    assert_eq!(errno(file.write(b"more")), full);
    file.sync_all().unwrap();
    at.disk.room.store(u64::MAX, Ordering::SeqCst);
    file.write_all(&[3; 50]).unwrap();
    drop(file);
    let at = at.again();
    let found = fs::read(at.path("f")).unwrap();
    assert_eq!(
        (found.len(), found[249_999], found[250_049]),
        (250_050, 2, 3)
    );
}

#[test]
fn what_becomes_immutable_is_not_written_any_more() {
    let Some(at) = Mounted::gathering() else {
        return;
    };
    let path = at.path("f");
    let mut file = File::create(&path).unwrap();
    file.write_all(b"allowed").unwrap();
    let change = |flag: &str| Command::new("chattr").arg(flag).arg(&path).status();
    match change("+i") {
        Ok(status) if status.success() => {}
        _ => {
            println!("skipped: chattr does not work here");
            return;
        }
    }
    assert_eq!(
        errno(file.write(b"refused")),
        Some(Errno::PERM.raw_os_error())
    );
    file.sync_all().unwrap();
    assert!(change("-i").unwrap().success() && change("+a").unwrap().success());
    let mut log = appending(&path);
    log.write_all(b", appended").unwrap();
    log.sync_all().unwrap();
    drop((file, log));
    assert_eq!(fs::read(&path).unwrap(), b"allowed, appended");
    assert!(change("-a").unwrap().success());
}

#[test]
fn a_change_by_others_takes_set_id_bits() {
    let Some(at) = Mounted::gathering() else {
        return;
    };
    let path = at.path("program");
    fs::write(&path, b"program").unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o6777)).unwrap();
    let mut root = appending(&path);
    root.write_all(b", by root").unwrap();
    assert_eq!(fs::metadata(&path).unwrap().mode() & 0o7777, 0o6777);
    let script = "printf ', by others' >> \"$1\"";
    let status = Command::new("sh")
        .args(["-c", script, "sh"])
        .arg(&path)
        .uid(65_534)
        .gid(65_534)
        .status();
    if !status.is_ok_and(|status| status.success()) {
        println!("skipped: nobody cannot come here");
        return;
    }
    assert_eq!(fs::metadata(&path).unwrap().mode() & 0o7777, 0o777);
    assert_eq!(fs::read(&path).unwrap(), b"program, by root, by others");
}

#[test]
fn holes_copies_and_direct_writes_lie_beside_pages() {
    let Some(at) = Mounted::gathering() else {
        return;
    };
    let path = at.path("f");
    let open = |flags: i32| {
        let mut options = OpenOptions::new();
        let options = options.read(true).write(true).create(true);
        options.custom_flags(flags).open(&path).unwrap()
    };
    let direct_flag = rustix::fs::OFlags::DIRECT.bits().cast_signed();
    let file = open(0);
    let mut model = vec![7; 600_000];
    file.write_all_at(&model, 0).unwrap();
    fallocate(
        &file,
        FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE,
        131_072,
        262_144,
    )
    .unwrap();
    model[131_072..393_216].fill(0);
    file.write_all_at(&[8; 5000], 150_000).unwrap();
    model[150_000..155_000].fill(8);
    fallocate(&file, FallocateFlags::ZERO_RANGE, 590_000, 20_000).unwrap();
    model.resize(610_000, 0);
    model[590_000..].fill(0);
    let (mut from, mut to) = (149_000, 400_000);
    assert_eq!(
        copy_file_range(&file, Some(&mut from), &file, Some(&mut to), 10_000),
        Ok(10_000)
    );
    model.copy_within(149_000..159_000, 400_000);
    let direct = open(direct_flag);
    direct.write_all_at(&[9; 8192], 401_408).unwrap();
    model[401_408..409_600].fill(9);
    file.write_all_at(&[5; 10], 401_410).unwrap();
    model[401_410..401_420].fill(5);
    let mut read = vec![0; 8192];
    direct.read_exact_at(&mut read, 401_408).unwrap();
    assert_eq!(read, model[401_408..409_600]);
    let synchronous = open(rustix::fs::OFlags::SYNC.bits().cast_signed());
    synchronous.write_all_at(&[6; 100], 100).unwrap();
    model[100..200].fill(6);
    file.set_len(605_000).unwrap();
    model.truncate(605_000);
    file.write_all_at(b"end", 700_000).unwrap();
    model.resize(700_000, 0);
    model.extend(b"end");
    assert_eq!(seek(&file, SeekFrom::Data(700_001)), Ok(700_001));
    assert_eq!(seek(&file, SeekFrom::Hole(140_000)), Ok(262_144));
    assert_eq!(file.metadata().unwrap().len(), 700_003);
    assert!(fs::read(&path).unwrap() == model);
    drop((file, direct, synchronous));
    let at = at.again();
    assert!(fs::read(at.path("f")).unwrap() == model);
}
