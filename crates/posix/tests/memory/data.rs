use std::sync::atomic::Ordering;

use millpond_posix::{
    AllocateMode, DatasetProperties, Errno, FileType, MountOptions, NewFileSystem, OpenOptions,
    QuotaKind, QuotaUnit, SetAttributes, WriteOptions,
};

use crate::store::MemoryPool;
use crate::{READ_WRITE, node, root};

fn size(pool: &MemoryPool, object: base::ObjectId, size: u64) {
    let change = SetAttributes {
        size: Some(size),
        ..SetAttributes::default()
    };
    pool.fs.setattr(&root(), object, &change).unwrap();
}

#[test]
fn block_sizes_follow_the_file() {
    let pool = MemoryPool::plain();
    let file = pool.file("f");
    let block = || file.attributes().unwrap().block_size;
    assert_eq!(block(), 512);
    file.write(0, &[1; 700], WriteOptions::default()).unwrap();
    assert_eq!(block(), 1024);
    file.write(700, &[1; 70_000], WriteOptions::default())
        .unwrap();
    assert_eq!(block(), 70_700u32.next_multiple_of(512));
    file.write(200_000, &[1; 10], WriteOptions::default())
        .unwrap();
    assert_eq!(block(), 128 << 10);
    size(&pool, file.object(), 0);
    assert_eq!(block(), 128 << 10);
}

#[test]
fn the_end_of_a_shortened_file_reads_as_zeros_when_it_grows_again() {
    let mut pool = MemoryPool::plain();
    let file = pool.file("f");
    file.write(0, &[7; 300_000], WriteOptions::default())
        .unwrap();
    size(&pool, file.object(), 131_100);
    pool.sync();
    size(&pool, file.object(), 5000);
    size(&pool, file.object(), 300_000);
    let object = file.object();
    drop(file);
    pool.remount(true);
    let file = pool.fs.open(&root(), object, READ_WRITE).unwrap();
    let mut data = vec![1; 300_000];
    assert_eq!(file.read(0, &mut data).unwrap(), 300_000);
    assert!(data[..5000].iter().all(|&byte| byte == 7));
    assert!(data[5000..].iter().all(|&byte| byte == 0));
}

#[test]
fn emptying_a_file_reads_nothing_of_it() {
    let mut pool = MemoryPool::plain();
    let file = pool.file("f");
    file.write(0, &[7; 10_000], WriteOptions::default())
        .unwrap();
    let object = file.object();
    drop(file);
    pool.remount(true);
    let before = pool.contents_read();
    size(&pool, object, 0);
    assert_eq!(pool.contents_read(), before);
}

#[test]
fn holes_are_found_before_and_after_they_are_synced() {
    let pool = MemoryPool::plain();
    let file = pool.file("f");
    const K: u64 = 128 << 10;
    file.write(3 * K, &[1; 1000], WriteOptions::default())
        .unwrap();
    file.write(0, &[1; 10], WriteOptions::default()).unwrap();
    for _ in 0..2 {
        assert_eq!(file.seek_data(0).unwrap(), 0);
        assert_eq!(file.seek_hole(0).unwrap(), K);
        assert_eq!(file.seek_data(K).unwrap(), 3 * K);
        assert_eq!(file.seek_hole(3 * K).unwrap(), 3 * K + 1000);
        assert_eq!(
            file.seek_data(3 * K + 1000).unwrap_err().errno(),
            Errno::ENXIO
        );
        pool.sync();
    }
    file.allocate(AllocateMode::PunchHole, 0..K).unwrap();
    assert_eq!(file.seek_data(0).unwrap(), 3 * K);
    file.allocate(AllocateMode::ZeroRange { keep_size: false }, K..5 * K)
        .unwrap();
    assert_eq!(file.attributes().unwrap().size, 5 * K);
    assert_eq!(file.seek_data(0).unwrap_err().errno(), Errno::ENXIO);
}

#[test]
fn appending_goes_to_the_end() {
    let pool = MemoryPool::plain();
    pool.file("f");
    let options = OpenOptions {
        append: true,
        ..READ_WRITE
    };
    let file = pool.fs.open(&root(), pool.object("f"), options).unwrap();
    file.write(0, b"one", WriteOptions::default()).unwrap();
    file.write(0, b"two", WriteOptions::default()).unwrap();
    let mut data = [0; 6];
    file.read(0, &mut data).unwrap();
    assert_eq!(&data, b"onetwo");
}

#[test]
fn writes_by_many_threads_all_arrive() {
    let mut pool = MemoryPool::plain();
    std::thread::scope(|scope| {
        for thread in 0..4u8 {
            let pool = &pool;
            scope.spawn(move || {
                let own = pool.directory(&format!("d{thread}"));
                for i in 0..100u32 {
                    let name = format!("f{i}");
                    let new = node(FileType::Regular, 0o644);
                    let (file, _) = pool
                        .fs
                        .create(&root(), own, name.as_bytes(), &new, READ_WRITE)
                        .unwrap();
                    let data = vec![thread + 1; 3000 + i as usize];
                    file.write(0, &data, WriteOptions::default()).unwrap();
                    if i % 3 == 0 {
                        drop(file);
                        pool.fs.unlink(&root(), own, name.as_bytes()).unwrap();
                    } else if i % 3 == 1 {
                        let to = (pool.fs.root(), format!("m{thread}.{i}").into_bytes());
                        pool.fs
                            .rename(
                                &root(),
                                (own, name.as_bytes()),
                                (to.0, &to.1),
                                Default::default(),
                            )
                            .unwrap();
                    }
                    if i % 40 == 0 {
                        pool.sync();
                    }
                }
            });
        }
    });
    pool.remount(true);
    for thread in 0..4u8 {
        let own = pool.object(&format!("d{thread}"));
        assert_eq!(pool.fs.getattr(own).unwrap().size, 2 + 33);
        for i in (1..100u32).step_by(3) {
            let object = pool.object(&format!("m{thread}.{i}"));
            let file = pool.fs.open(&root(), object, READ_WRITE).unwrap();
            let mut data = vec![0; 3000 + i as usize];
            assert_eq!(file.read(0, &mut data).unwrap(), data.len());
            assert!(data.iter().all(|&byte| byte == thread + 1));
        }
    }
}

#[test]
fn no_space_is_an_error_but_removal_goes_on() {
    let pool = MemoryPool::plain();
    let file = pool.file("f");
    pool.room.0.store(0, Ordering::Relaxed);
    pool.sync();
    let refused = file.write(0, b"x", WriteOptions::default());
    assert_eq!(refused.unwrap_err().errno(), Errno::ENOSPC);
    let refused = pool.fs.mkdir(
        &root(),
        pool.fs.root(),
        b"d",
        &node(FileType::Directory, 0o755),
    );
    assert_eq!(refused.unwrap_err().errno(), Errno::ENOSPC);
    drop(file);
    pool.fs.unlink(&root(), pool.fs.root(), b"f").unwrap();
}

#[test]
fn quotas_act_on_what_was_synced() {
    let pool = MemoryPool::plain();
    let who = millpond_posix::Credentials::new(1000, 1000);
    let everyone = SetAttributes {
        permissions: Some(0o777),
        ..SetAttributes::default()
    };
    pool.fs.setattr(&root(), pool.fs.root(), &everyone).unwrap();
    pool.fs
        .set_quota(QuotaKind::User, QuotaUnit::Bytes, 1000, 100_000)
        .unwrap();
    let new = node(FileType::Regular, 0o644);
    let (file, _) = pool
        .fs
        .create(&who, pool.fs.root(), b"f", &new, READ_WRITE)
        .unwrap();
    file.write(0, &[1; 200_000], WriteOptions::default())
        .unwrap();
    pool.sync();
    let refused = file.write(0, b"x", WriteOptions::default());
    assert_eq!(refused.unwrap_err().errno(), Errno::EDQUOT);
    let line = pool
        .fs
        .quotas(QuotaKind::User)
        .unwrap()
        .into_iter()
        .find(|line| line.id == 1000);
    let line = line.unwrap();
    assert_eq!((line.objects, line.bytes_max), (1, 100_000));
    assert!(line.bytes > 200_000);
    pool.fs
        .set_quota(QuotaKind::User, QuotaUnit::Bytes, 1000, 0)
        .unwrap();
    file.write(0, b"x", WriteOptions::default()).unwrap();
}

#[test]
fn large_records_and_dnodes() {
    let properties = DatasetProperties {
        record_size: 1 << 20,
        dnode_slots: 2,
        ..Default::default()
    };
    let mut pool = MemoryPool::new(
        NewFileSystem::default(),
        properties,
        MountOptions::default(),
    );
    let file = pool.file("f");
    let data: Vec<u8> = (0..3_000_000u32).map(|i| (i / 7) as u8).collect();
    assert_eq!(
        file.write(0, &data, WriteOptions::default()).unwrap(),
        data.len()
    );
    assert_eq!(file.attributes().unwrap().block_size, 1 << 20);
    drop(file);
    pool.remount(true);
    let file = pool.fs.open(&root(), pool.object("f"), READ_WRITE).unwrap();
    let mut found = vec![0; data.len()];
    file.read(0, &mut found).unwrap();
    assert!(found == data);
    let copy = pool.file("copy");
    assert_eq!(
        copy.copy_from(&file, 1000..2_000_000, 5, WriteOptions::default())
            .unwrap(),
        1_999_000
    );
    let mut part = vec![0; 1_999_000];
    copy.read(5, &mut part).unwrap();
    assert!(part == data[1000..2_000_000]);
}

/// The new last block is read before the transaction; here it is gone from the cache when it is needed again.
#[test]
fn a_size_that_cannot_be_set_is_not_told_to_the_log() {
    let pool = MemoryPool::plain();
    let file = pool.file("f");
    file.write(0, &[1; 700], Default::default()).unwrap();
    pool.sync();
    let shorter = millpond_posix::SetAttributes {
        size: Some(100),
        ..Default::default()
    };
    let longer = millpond_posix::SetAttributes {
        size: Some(5000),
        ..Default::default()
    };
    let fails = |change: &millpond_posix::SetAttributes, readable: u64| {
        pool.diary.take();
        pool.let_contents_be_read(readable);
        let changed = pool.fs.setattr(&root(), file.object(), change);
        pool.let_contents_be_read(u64::MAX);
        if changed.is_ok() {
            return false;
        }
        assert!(pool.diary.take().is_empty(), "told after {readable} reads");
        assert_eq!(pool.fs.getattr(file.object()).unwrap().size, 700);
        true
    };
    assert!(fails(&longer, 0));
    pool.sync();
    let mut contents = [0; 1000];
    assert_eq!(file.read(0, &mut contents).unwrap(), 700);
    assert!(contents[..700].iter().all(|&byte| byte == 1));
    // Each of its reads in turn, until there is none that fails.
    pool.sync();
    let failed = (0..10).take_while(|&readable| fails(&shorter, readable));
    assert!((1..10).contains(&failed.count()));
}

/// Access times that find no room keep nobody from unmounting, and are stored once files are read again.
#[test]
fn access_times_without_room_are_let_go() {
    const DAY_NS: u64 = 86_400_000_000_000;
    let mut pool = MemoryPool::plain();
    // More than are stored at once.
    let objects: Vec<_> = (0..300)
        .map(|i| pool.file(&format!("f{i}")).object())
        .collect();
    let read_all = |pool: &MemoryPool| {
        pool.clock.advance_ns(2 * DAY_NS);
        for &object in &objects {
            let file = pool.fs.open(&root(), object, crate::READ_WRITE).unwrap();
            file.read(0, &mut [0; 1]).unwrap();
        }
    };
    for &object in &objects {
        let file = pool.fs.open(&root(), object, crate::READ_WRITE).unwrap();
        file.write(0, b"x", WriteOptions::default()).unwrap();
    }
    let room = pool.room.0.swap(0, std::sync::atomic::Ordering::Relaxed);
    read_all(&pool);
    pool.room
        .0
        .store(room, std::sync::atomic::Ordering::Relaxed);
    read_all(&pool);
    let times = |pool: &MemoryPool| -> Vec<_> {
        let found = objects.iter().map(|&object| pool.fs.getattr(object));
        found.map(|found| found.unwrap().atime).collect()
    };
    let read = times(&pool);
    pool.remount(true);
    assert_eq!(times(&pool), read);
    read_all(&pool);
    pool.room.0.store(0, std::sync::atomic::Ordering::Relaxed);
    pool.fs.unmount().unwrap();
}
