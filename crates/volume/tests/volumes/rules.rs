//! Single rules of volumes.

use super::{contents, create, open, set_number, set_policy};
use golden::Zdb;
use intent::{LogBias, SyncPolicy};
use millpond_volume::{Durability, VolumeError};
use pool::NewDevice;
use torture::test_pool::{POOL, TestPool};

const MIB: u64 = 1 << 20;

fn pool_of(folder: &tempfile::TempDir, size: u64) -> TestPool {
    let path = folder.path().join("pool.img");
    std::fs::File::create(&path).unwrap().set_len(size).unwrap();
    TestPool::create(vec![NewDevice::Path(path)]).unwrap()
}

#[test]
fn a_range_beyond_the_end_is_refused_and_changes_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let test_pool = pool_of(&folder, 128 * MIB);
    let name = create(&test_pool.pool, "v", MIB, 8192);
    let (volume, _) = open(&test_pool.pool, &name);
    let out_of_range = |result: Result<(), VolumeError>| {
        assert!(
            matches!(result, Err(VolumeError::OutOfRange { .. })),
            "{result:?}"
        );
    };
    for (offset, length) in [
        (MIB, 1),
        (MIB - 100, 101),
        (u64::MAX, 1),
        (u64::MAX - 1, 512),
    ] {
        let bytes = vec![7; usize::try_from(length).unwrap()];
        out_of_range(volume.write_at(offset, &bytes, Durability::Later));
        out_of_range(volume.write_zeroes(offset, length, Durability::Later));
        out_of_range(volume.discard(offset, length, Durability::Later));
        out_of_range(volume.read_at(offset, &mut vec![0; bytes.len()]));
    }
    out_of_range(volume.discard(0, u64::MAX, Durability::Later));
    assert!(contents(&volume).iter().all(|&byte| byte == 0));
    volume.close().unwrap();
    assert!(matches!(volume.flush(), Err(VolumeError::Closed)));
    drop(volume);
    test_pool.export().unwrap();
}

#[test]
fn a_discard_frees_whole_blocks_and_zeroes_free_parts_too() {
    let folder = tempfile::tempdir().unwrap();
    let test_pool = pool_of(&folder, 128 * MIB);
    let name = create(&test_pool.pool, "v", MIB, 16384);
    let (volume, _) = open(&test_pool.pool, &name);
    volume
        .write_at(0, &vec![1; 1 << 20], Durability::Later)
        .unwrap();
    test_pool.pool.sync().unwrap();
    volume.discard(100, 40_000, Durability::Later).unwrap();
    let mut wanted = vec![1; 1 << 20];
    wanted[16384..32768].fill(0);
    assert!(contents(&volume) == wanted);
    assert_eq!(volume.next_hole(0..u64::MAX).unwrap(), 16384);
    assert_eq!(volume.next_data(16384..u64::MAX).unwrap(), Some(32768));
    volume.write_zeroes(100, 40_000, Durability::Later).unwrap();
    wanted[100..40_100].fill(0);
    assert!(contents(&volume) == wanted);
    test_pool.pool.sync().unwrap();
    assert!(contents(&volume) == wanted);
    assert_eq!(volume.next_hole(0..u64::MAX).unwrap(), 16384);
    // What lies within one block frees nothing.
    volume.discard(50_000, 10_000, Durability::Later).unwrap();
    assert!(contents(&volume) == wanted);
    volume.discard(0, MIB, Durability::Later).unwrap();
    test_pool.pool.sync().unwrap();
    assert_eq!(volume.next_data(0..u64::MAX).unwrap(), None);
    assert!(contents(&volume).iter().all(|&byte| byte == 0));
    drop(volume);
    test_pool.export().unwrap();
}

#[test]
fn another_size_is_durable_and_what_goes_comes_back_as_zeroes() {
    let folder = tempfile::tempdir().unwrap();
    let test_pool = pool_of(&folder, 128 * MIB);
    let name = create(&test_pool.pool, "v", MIB, 8192);
    let (volume, _) = open(&test_pool.pool, &name);
    volume
        .write_at(0, &vec![3; 1 << 20], Durability::AtOnce)
        .unwrap();
    assert!(matches!(
        volume.resize(MIB + 1),
        Err(VolumeError::Unaligned { .. })
    ));
    volume.resize(MIB / 2).unwrap();
    assert_eq!(volume.size(), MIB / 2);
    let beyond = volume.write_at(MIB / 2, &[1], Durability::Later);
    assert!(matches!(beyond, Err(VolumeError::OutOfRange { .. })));
    volume.resize(2 * MIB).unwrap();
    let mut wanted = vec![0; 2 << 20];
    wanted[..1 << 19].fill(3);
    assert!(contents(&volume) == wanted);
    volume.close().unwrap();
    drop(volume);
    let (again, _) = open(&test_pool.pool, &name);
    assert_eq!(again.size(), 2 * MIB);
    drop(again);
    test_pool.export().unwrap();
    if let Some(zdb) = Zdb::from_environment() {
        zdb.assert_clean(folder.path(), POOL);
    }
}

/// What a volume reserves is there for it when the pool is full; without that it is told so, and loses nothing.
#[test]
fn a_reservation_holds_in_a_full_pool() {
    let folder = tempfile::tempdir().unwrap();
    let test_pool = pool_of(&folder, 96 * MIB);
    let pool = &test_pool.pool;
    let thick = create(pool, "thick", 8 * MIB, 16384);
    set_number(pool, &thick, "refreservation", 9 * MIB);
    let thin = create(pool, "thin", 200 * MIB, 16384);
    let (thick, _) = open(pool, &thick);
    let (thin, _) = open(pool, &thin);
    let mut random = torture::random::Random::new(5);
    let mut noise = || {
        (0..128 << 10)
            .flat_map(|_| random.draw().to_le_bytes())
            .collect::<Vec<u8>>()
    };
    let mut written = 0;
    let refusal = loop {
        match thin.write_at(written, &noise(), Durability::Later) {
            Ok(()) => written += MIB,
            Err(error) => break error,
        }
    };
    assert!(matches!(refusal, VolumeError::NoSpace), "{refusal}");
    assert!(written > 20 * MIB, "{written} bytes");
    for at in 0..8 {
        thick
            .write_at(at * MIB, &noise(), Durability::AtOnce)
            .unwrap();
    }
    // Over and over: what is replaced is freed.
    thick.write_at(0, &noise(), Durability::AtOnce).unwrap();
    // Discarding makes room again.
    thin.discard(0, written, Durability::AtOnce).unwrap();
    test_pool.pool.sync().unwrap();
    test_pool.pool.sync().unwrap();
    test_pool.pool.sync().unwrap();
    thin.write_at(0, &noise(), Durability::AtOnce).unwrap();
    drop((thick, thin));
    test_pool.export().unwrap();
    if let Some(zdb) = Zdb::from_environment() {
        zdb.assert_clean(folder.path(), POOL);
    }
}

/// `sync=always` and `sync=disabled` decide when the log is written.
#[test]
fn the_property_sync_is_honoured() {
    let folder = tempfile::tempdir().unwrap();
    let test_pool = pool_of(&folder, 128 * MIB);
    let name = create(&test_pool.pool, "v", MIB, 8192);
    let (volume, _) = open(&test_pool.pool, &name);
    let dataset = test_pool.pool.dsl().dataset(&name).unwrap();
    let log = test_pool.pool.intent_log(&dataset).unwrap().unwrap();
    let commits = || log.statistics().commits;
    let write = || volume.write_at(0, &[1; 4096], Durability::Later).unwrap();
    let before = commits();
    write();
    assert_eq!(commits(), before);
    set_policy(&test_pool.pool, &name, SyncPolicy::Always, LogBias::Latency);
    write();
    assert_eq!(commits(), before + 1);
    set_policy(
        &test_pool.pool,
        &name,
        SyncPolicy::Disabled,
        LogBias::Latency,
    );
    volume.flush().unwrap();
    volume.write_at(0, &[1; 4096], Durability::AtOnce).unwrap();
    assert_eq!(commits(), before + 1);
    drop((log, dataset, volume));
    test_pool.export().unwrap();
}
