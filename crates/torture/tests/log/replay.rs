//! Replays that end early, and records that are replayed as others.

use super::*;
use dmu::{AllocateObject, Reservation, Tx};
use format::{BlockPointer, ObjectType};
use intent::{Log, Replayed, Unapplied};
use millpond_torture::aftermath;
use millpond_torture::test_pool::image;
use pool::{ImportOptions, Selection};
use sim::WatchedDevice;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::mpsc;

/// Fails at a record, after what came before is on disk.
struct Failing<'a> {
    inner: Objects<'a>,
    pool: &'a Pool,
    left: usize,
}

impl Replay for Failing<'_> {
    fn apply(&mut self, record: &Record<'_>, block: Option<&[u8]>) -> Result<(), Unapplied> {
        if self.left == 0 {
            self.pool.sync().unwrap();
            return Err("not now".to_owned().into());
        }
        self.left -= 1;
        self.inner.apply(record, block)
    }

    fn pass_over(&mut self, record: &Record<'_>) {
        self.inner.pass_over(record);
    }
}

/// A replay ends in its middle, with an error or as at a crash: the next goes on behind it.
#[test]
fn a_replay_that_ends_early_is_taken_up_again() {
    let bench = Bench::new(17, 1);
    bench.log.commit_all().unwrap();
    bench.pool.sync().unwrap();
    for version in 1..=12 {
        let object = bench.create();
        bench.write(&object, version, version % 2 == 0);
        bench.commit(object.id(), version);
    }
    let folder = tempfile::tempdir().unwrap();
    bench.crash(u64::MAX, 17, folder.path());
    let mut applied = 0;
    for round in 0..4 {
        let test_pool = TestPool::import(folder.path(), false).unwrap();
        let log = open_log(&test_pool);
        let objects = Objects::of(&test_pool, &log);
        let mut replay = Failing {
            inner: objects,
            pool: &test_pool.pool,
            left: if round == 3 { usize::MAX } else { 5 },
        };
        let replayed = log.replay(&mut replay).unwrap();
        println!("round {round}: {replayed:?}");
        // What was applied in earlier rounds is not applied again.
        assert!(replayed.skipped >= applied, "{applied} were applied before");
        applied += replayed.records;
        assert_eq!(replayed.failed.is_some(), round < 3);
        assert_eq!(log.is_owed(), round < 3);
        if round == 3 {
            verify(&bench, &log, u64::MAX, &replayed);
        }
        drop(log);
        if round == 1 {
            test_pool.export().unwrap();
        }
    }
    let test_pool = TestPool::import(folder.path(), false).unwrap();
    test_pool.export().unwrap();
    if let Some(zdb) = golden::Zdb::from_environment() {
        zdb.assert_clean(folder.path(), POOL);
    }
}

pub(crate) fn length_of(object: &Object) -> usize {
    LENGTHS[object.id().0 as usize % LENGTHS.len()]
}

/// Makes an object, and makes a record durable that says that it has the blocks of another: both objects, and their
/// length.
fn clone_of(bench: &Bench, source: &Arc<Object>) -> (ObjectId, ObjectId, usize) {
    let copy = bench.create();
    let length = length_of(source);
    let size = u64::from(source.block_size());
    let blocks = (length as u64).div_ceil(size);
    let mut pointers = Vec::new();
    for block in 0..blocks {
        let mut bytes = vec![0; 128];
        let pointer = source.block_pointer(block).unwrap();
        format::record::put_at(&mut bytes, 0, &pointer, ByteOrder::NATIVE);
        pointers.extend(bytes);
    }
    let fields = CloneRangeFields {
        object: copy.id(),
        offset: 0,
        length: length as u64,
        block_size: size,
        pointer_count: blocks,
    };
    let record = fields.to_bytes(ByteOrder::NATIVE);
    let record = encode_record(kind::CLONE_RANGE, &record, &[&pointers]);
    let tx = bench.tx(0);
    bench
        .log
        .append(&tx, Scope::Object(copy.id()), vec![Entry::Record(record)]);
    drop(tx);
    bench.log.commit(copy.id()).unwrap();
    (source.id(), copy.id(), length)
}

/// Clones in a log, and what they must be.
struct Cloned {
    /// Source, copy, length.
    copies: Vec<(ObjectId, ObjectId, usize)>,
    contents: Vec<Vec<u8>>,
    /// The first block of each.
    firsts: Vec<BlockPointer>,
}

impl Cloned {
    /// Leaves the clones in the log of a pool that has crashed: of blocks of random bytes, of a hole among them, and of
    /// one that lies in its pointer.
    fn leave(bench: &Bench, folder: &Path) -> Self {
        bench.log.commit_all().unwrap();
        // All of `LENGTHS`: one has several blocks.
        let sources: Vec<_> = (0..5).map(|_| bench.create()).collect();
        let mut contents = Vec::new();
        for (object, version) in sources.iter().zip(1..) {
            bench.write(object, version, false);
            contents.push(content(version, length_of(object)));
        }
        for (object, content) in sources.iter().zip(&mut contents) {
            let tx = bench.tx(4096);
            if content.len() > 64 << 10 {
                object.free_range(&tx, 32 << 10, 16 << 10).unwrap();
                content[32 << 10..48 << 10].fill(0);
            } else if content.len() == 600 {
                content.fill(7);
                object.write(&tx, 0, content).unwrap();
            }
        }
        bench.pool.sync().unwrap();
        let clones = sources.iter().map(|source| clone_of(bench, source));
        let copies = clones.collect();
        let firsts = sources.iter().map(|source| source.block_pointer(0));
        let firsts = firsts.collect::<Result<_, _>>().unwrap();
        bench.crash(u64::MAX, 18, folder);
        Self {
            copies,
            contents,
            firsts,
        }
    }

    /// A replay that ends among the blocks of the longest clone, after which the next one does that clone again.
    fn replay_in_part(test_pool: &TestPool, log: &Log) {
        let mut replay = Failing {
            inner: Objects::of(test_pool, log),
            pool: &test_pool.pool,
            left: 10,
        };
        let replayed = log.replay(&mut replay).unwrap();
        println!("{replayed:?}");
        assert!(replayed.failed.is_some());
        assert!(log.is_owed());
    }

    /// Does away with whom the blocks were cloned from, and gives space that became free to others.
    fn remove_sources(&self, test_pool: &TestPool, log: &Log) {
        let pool = &test_pool.pool;
        let engine = pool.engine().unwrap();
        for (source, ..) in &self.copies {
            let tx = Tx::assign(engine, &Reservation::default()).unwrap();
            log.objects().free(&tx, *source).unwrap();
        }
        // Past the numbers that the log has.
        for number in 1000..1004 {
            let tx = Tx::assign(engine, &Reservation::default()).unwrap();
            let shape = AllocateObject {
                object_type: ObjectType::PLAIN_FILE,
                block_size: 16384,
                ..AllocateObject::default()
            };
            let object = log.objects().claim(&tx, ObjectId(number), &shape).unwrap();
            object.write(&tx, 0, &content(number, 1 << 20)).unwrap();
            drop(tx);
            pool.sync().unwrap();
        }
    }

    fn replay(&self, test_pool: &TestPool, log: &Log) {
        let mut objects = Objects::of(test_pool, log);
        let replayed = log.replay(&mut objects).unwrap();
        assert_eq!(replayed.failed, None);
        assert_eq!(replayed.lost, []);
        for ((source, copy, length), content) in self.copies.iter().zip(&self.contents) {
            let mut bytes = vec![0; *length];
            let object = log.objects().object(*copy).unwrap();
            object.read(0, &mut bytes).unwrap();
            assert!(
                bytes == *content,
                "a copy of object {source}, {length} bytes"
            );
        }
    }
}

/// With `zdb`, for that as well. It does not count what a log refers to: where nobody else has it, it calls it leaked.
pub(crate) fn is_sound(folder: &Path, zdb: bool) {
    aftermath::on_devices(folder);
    if let Some(zdb) = golden::Zdb::from_environment().filter(|_| zdb) {
        zdb.assert_clean(folder, POOL);
    }
}

/// Clones in a log refer to their blocks from the claim on: who they were cloned from may go, and the blocks are freed
/// with the log.
#[test]
fn blocks_of_clones_in_a_log_are_kept_for_its_replay() {
    are_kept(&Bench::new(18, 0), false);
}

/// The same where a dedup table counts most of them.
#[test]
fn deduplicated_blocks_of_clones_in_a_log_are_kept_for_its_replay() {
    are_kept(&Bench::deduplicated(21), true);
}

fn are_kept(bench: &Bench, by_a_dedup_table: bool) {
    let folder = tempfile::tempdir().unwrap();
    let cloned = Cloned::leave(bench, folder.path());
    let mut firsts = cloned.firsts.iter();
    assert_eq!(firsts.any(BlockPointer::is_dedup), by_a_dedup_table);
    // Claimed by one import, replayed by the next two.
    for round in 0..4 {
        let test_pool = TestPool::import(folder.path(), false).unwrap();
        let log = open_log(&test_pool);
        assert_eq!(log.is_owed(), round < 3);
        match round {
            0 => cloned.remove_sources(&test_pool, &log),
            1 => Cloned::replay_in_part(&test_pool, &log),
            2 => cloned.replay(&test_pool, &log),
            _ => {}
        }
        drop(log);
        test_pool.export().unwrap();
        is_sound(folder.path(), round > 1);
    }
}

/// What only a log refers to is looked at by a scrub.
#[test]
fn blocks_of_clones_in_a_log_are_scrubbed() {
    let bench = Bench::new(20, 0);
    let folder = tempfile::tempdir().unwrap();
    let cloned = Cloned::leave(&bench, folder.path());
    let test_pool = TestPool::import(folder.path(), false).unwrap();
    let log = open_log(&test_pool);
    cloned.remove_sources(&test_pool, &log);
    drop(log);
    test_pool.export().unwrap();
    let mut stored = cloned.firsts.iter().filter(|block| !block.is_embedded());
    let block = stored.next().expect("a block on the device");
    spoil(folder.path(), block);
    let test_pool = TestPool::import(folder.path(), false).unwrap();
    test_pool.pool.start_scrub().unwrap();
    test_pool.pool.wait_scrub().unwrap();
    let scan = test_pool.pool.scan().unwrap().expect("a scrub");
    assert_eq!(scan.errors, 1, "{scan:?}");
    test_pool.export().unwrap();
}

/// The same of an encrypted file system: its log is claimed without the key, and replayed with it.
#[test]
fn clones_in_an_encrypted_log_are_claimed_without_the_key() {
    for seed in [18, 19] {
        let bench = Bench::encrypted(seed);
        let folder = tempfile::tempdir().unwrap();
        let cloned = Cloned::leave(&bench, folder.path());
        // As root does after a crash, who has not got the key at hand.
        let selection = Selection::Name(POOL.to_owned());
        let mut options = ImportOptions::new(vec![folder.path().to_owned()], selection);
        options.force = true;
        let locked = TestPool::import_locked(&options).unwrap();
        locked.pool.sync().unwrap();
        locked.export().unwrap();
        is_sound(folder.path(), true);
        let test_pool = TestPool::import(folder.path(), false).unwrap();
        let log = open_log(&test_pool);
        assert!(log.is_owed());
        cloned.remove_sources(&test_pool, &log);
        cloned.replay(&test_pool, &log);
        drop(log);
        test_pool.export().unwrap();
        is_sound(folder.path(), true);
    }
}

/// Notes a block that a record points to, and applies nothing.
#[derive(Default)]
struct Noting {
    found: Option<(u64, BlockPointer)>,
}

impl Replay for Noting {
    fn apply(&mut self, record: &Record<'_>, block: Option<&[u8]>) -> Result<(), Unapplied> {
        if let (Body::Write(fields), Some(_)) = (&record.body, block) {
            self.found = Some((record.header.sequence, fields.pointer));
            return Err("not now".to_owned().into());
        }
        Ok(())
    }

    fn pass_over(&mut self, record: &Record<'_>) {
        panic!("record {} is passed over", record.header.sequence);
    }
}

/// Overwrites all copies of a block.
pub(crate) fn spoil(folder: &Path, block: &BlockPointer) {
    let path = image(folder, "crashed0");
    let disk = std::fs::File::options().write(true).open(path).unwrap();
    for dva in block.dvas() {
        // Behind the two labels and the boot block.
        disk.write_all_at(&[0xA5; 512], dva.offset + (4 << 20))
            .unwrap();
    }
}

/// A block of data that went bad after its log was claimed costs the record that has it, and not those after it.
#[test]
fn a_bad_block_of_data_costs_its_record() {
    let bench = Bench::new(19, 0);
    bench.log.commit_all().unwrap();
    bench.pool.sync().unwrap();
    for version in 1..=8 {
        let object = bench.create();
        bench.write(&object, version, false);
        bench.commit(object.id(), version);
    }
    let folder = tempfile::tempdir().unwrap();
    bench.crash(u64::MAX, 19, folder.path());
    let (sequence, pointer) = {
        let test_pool = TestPool::import(folder.path(), false).unwrap();
        let log = open_log(&test_pool);
        let mut noting = Noting::default();
        assert!(log.replay(&mut noting).unwrap().failed.is_some());
        drop(log);
        test_pool.export().unwrap();
        noting.found.expect("a record that points to a block")
    };
    spoil(folder.path(), &pointer);
    let test_pool = TestPool::import(folder.path(), false).unwrap();
    let log = open_log(&test_pool);
    let mut objects = Objects::of(&test_pool, &log);
    let replayed = log.replay(&mut objects).unwrap();
    assert_eq!(replayed.failed, None);
    let lost: Vec<u64> = replayed.lost.iter().map(|(lost, _)| *lost).collect();
    assert_eq!(lost, [sequence], "{:?}", replayed.lost);
    assert_eq!(objects.passed_over, [sequence]);
    assert!(replayed.records > 0, "{replayed:?}");
    drop(log);
    test_pool.export().unwrap();
}

/// A claimed log without records is freed by the next txg, whoever asks for its replay meanwhile: once. A txg that
/// synced while the replay read the chain had freed it already.
#[test]
fn a_log_that_owes_nothing_is_freed_once() {
    const PATIENCE: Duration = Duration::from_secs(2);
    let bench = Bench::new(22, 1);
    bench.log.commit_all().unwrap();
    let folder = tempfile::tempdir().unwrap();
    bench.crash(u64::MAX, 22, folder.path());
    let (reads, read) = mpsc::channel();
    let (goes_on, go_on) = mpsc::channel();
    let waits = Arc::new(Mutex::new(None));
    let watched = Arc::clone(&waits);
    let selection = Selection::Name(POOL.to_owned());
    let mut options = ImportOptions::new(vec![folder.path().to_owned()], selection);
    options.force = true;
    options.between = Some(Arc::new(move |inner| {
        if !inner.describe().contains("crashed1") {
            return inner;
        }
        let (reads, watched) = (reads.clone(), Arc::clone(&watched));
        let watch = move |_, _| {
            let waits: Option<mpsc::Receiver<()>> = watched.lock().unwrap().take();
            if let Some(waits) = waits {
                reads.send(()).unwrap();
                // That nobody answers is the test's affair.
                let _ = waits.recv_timeout(PATIENCE);
            }
        };
        Arc::new(WatchedDevice::reads(inner, watch))
    }));
    let test_pool = TestPool::import_as(&options).unwrap();
    let log = open_log(&test_pool);
    let header = log.objects().intent_log_header();
    assert_ne!(header.log, BlockPointer::HOLE);
    assert!(!log.is_owed());
    *waits.lock().unwrap() = Some(go_on);
    let pool = Arc::clone(&test_pool.pool);
    std::thread::scope(|scope| {
        scope.spawn(move || {
            if read.recv_timeout(PATIENCE).is_ok() {
                pool.engine().unwrap().wait_synced(None).unwrap();
            }
            // It may have gone on by itself.
            let _ = goes_on.send(());
        });
        let replayed = log.replay(&mut Objects::of(&test_pool, &log)).unwrap();
        assert_eq!(replayed, Replayed::default());
    });
    *waits.lock().unwrap() = None;
    test_pool.pool.sync().unwrap();
    assert_eq!(log.objects().intent_log_header().log, BlockPointer::HOLE);
    drop(log);
    test_pool.export().unwrap();
    if let Some(zdb) = golden::Zdb::from_environment() {
        zdb.assert_clean(folder.path(), POOL);
    }
}
