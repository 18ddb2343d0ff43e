//! Commits of several log blocks that did not become whole: at the end of a chain, behind which nothing counts. What
//! was allocated for them is in use for nobody.

use super::*;
use intent::{Data, WriteEntry};
use replay::{is_sound, spoil};
use std::path::Path;

/// Which block is not there.
#[derive(Clone, Copy, Debug)]
enum Missing {
    /// Data, which a record in the last block points to.
    Data,
    /// The last block of the commit.
    Last,
}

/// One commit of several log blocks; the last of its records point to data.
fn commit_in_blocks(bench: &Bench) {
    const COPIES: u64 = 40;
    const COPIED: usize = 9000;
    let mut created = std::iter::repeat_with(|| bench.create());
    let is_long = |object: &Arc<Object>| replay::length_of(object) == 200_000;
    let object = created.find(is_long).unwrap();
    for version in 1..=COPIES {
        let bytes = content(version, COPIED);
        let tx = bench.tx(COPIED);
        object.write(&tx, 0, &bytes).unwrap();
        let entry = WriteEntry {
            object: object.id(),
            offset: 0,
            length: COPIED as u64,
            data: Data::Copied(bytes.into()),
        };
        let scope = Scope::Object(object.id());
        bench.log.append(&tx, scope, vec![Entry::Write(entry)]);
    }
    bench.write(&object, COPIES + 1, false);
    bench.commit(object.id(), COPIES + 1);
}

/// The last block of the chain that was written, and the last block of data that it points to.
fn last_blocks(folder: &Path) -> (BlockPointer, BlockPointer) {
    let test_pool = TestPool::import(folder, false).unwrap();
    let log = open_log(&test_pool);
    assert!(log.is_owed());
    let set = log.objects();
    let mut data = None;
    let chain = intent::walk(
        test_pool.pool.pipeline(),
        set.id(),
        &set.intent_log_header(),
        &mut |record| {
            if let Body::Write(fields) = &record.body
                && !fields.pointer.is_hole()
            {
                data = Some(fields.pointer);
            }
            true
        },
    );
    // The very last was never written.
    let last = chain.blocks.len() - 2;
    assert!(last > 1, "one commit of {} blocks", last + 1);
    let blocks = (chain.blocks[last], data.expect("data of their own"));
    drop(log);
    test_pool.export().unwrap();
    blocks
}

fn leaks_nothing(seed: u64, missing: Missing) {
    println!("{missing:?}");
    let bench = Bench::new(seed, 0);
    logged_object(&bench);
    bench.pool.sync().unwrap();
    commit_in_blocks(&bench);
    let folder = tempfile::tempdir().unwrap();
    bench.crash(u64::MAX, seed, folder.path());
    let (last, data) = last_blocks(folder.path());
    bench.crash(u64::MAX, seed, folder.path());
    spoil(
        folder.path(),
        match missing {
            Missing::Data => &data,
            Missing::Last => &last,
        },
    );
    // Claimed, and left so.
    TestPool::import(folder.path(), false)
        .unwrap()
        .export()
        .unwrap();
    is_sound(folder.path(), true);
    let test_pool = TestPool::import(folder.path(), false).unwrap();
    let log = open_log(&test_pool);
    let replayed = log.replay(&mut Objects::of(&test_pool, &log)).unwrap();
    println!("{replayed:?}");
    assert_eq!((replayed.failed, replayed.lost.len()), (None, 0));
    assert!(!log.is_owed());
    drop(log);
    test_pool.export().unwrap();
    is_sound(folder.path(), true);
}

#[test]
fn a_commit_whose_data_are_not_there_leaks_no_log_blocks() {
    leaks_nothing(26, Missing::Data);
}

#[test]
fn a_commit_whose_last_block_is_not_there_leaks_no_log_blocks() {
    leaks_nothing(27, Missing::Last);
}
