use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use base::random::{Rng, SeededRng};
use format::BlockPointer;
use format::dedup::{DedupBlock, DedupClass, key_of};

use super::super::tests::{new_pool, placed};
use super::super::{DedupTables, Entry};
use super::*;
use crate::tunables::DEDUP_LOG_READ_MAX;
use crate::{ImportOptions, Pool, Selection};

const KIND: Checksum = Checksum::Sha256;
const BYTES: u64 = 4096;

/// Limits are the process's: one test at a time.
static ONE: Mutex<()> = Mutex::new(());

struct Limits(#[expect(dead_code, reason = "it is held")] MutexGuard<'static, ()>);

impl Limits {
    /// Logs change places with so many entries, and are brought in as slowly as may be.
    fn of(entries: u64) -> Self {
        let limits = Self(ONE.lock().unwrap_or_else(PoisonError::into_inner));
        DEDUP_LOG_ENTRIES.set(entries);
        DEDUP_LOG_CACHE_BYTES.set(1 << 50);
        DEDUP_FLUSHED_MIN.set(1);
        limits
    }
}

impl Drop for Limits {
    fn drop(&mut self) {
        DEDUP_LOG_ENTRIES.reset();
        DEDUP_LOG_CACHE_BYTES.reset();
        DEDUP_FLUSHED_MIN.reset();
        DEDUP_LOG_READ_MAX.reset();
    }
}

/// A pool whose table is changed by hand.
struct Bench {
    pool: Arc<Pool>,
    folder: tempfile::TempDir,
    limits: Limits,
}

fn key(content: u64) -> DedupKey {
    key_of(&pointer(content))
}

fn pointer(content: u64) -> BlockPointer {
    placed(content, 0x4000 * content)
}

impl Bench {
    /// Logs change places with four entries.
    fn new() -> Self {
        Self::with(Limits::of(4))
    }

    fn with(limits: Limits) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let pool = new_pool(folder.path());
        Self {
            pool,
            folder,
            limits,
        }
    }

    /// Exported, changed from outside, and imported again.
    fn imported_after(self, change: impl FnOnce(&Path)) -> Self {
        let image = self.image();
        let Self {
            pool,
            folder,
            limits,
        } = self;
        pool.export().unwrap();
        drop(pool);
        change(&image);
        let options = ImportOptions::new(vec![image], Selection::Only);
        Self {
            pool: Pool::import(&options).unwrap(),
            folder,
            limits,
        }
    }

    fn image(&self) -> PathBuf {
        self.folder.path().join("a.img")
    }

    /// A txg in which these contents come to have so many references.
    fn txg(&self, changes: &[(u64, u64)]) {
        let (services, engine) = (&self.pool.services, self.pool.engine().unwrap());
        let tx = Tx::assign(engine, &dmu::Reservation::default()).unwrap();
        services.dedup.begin(true, false);
        let mut booking = services.book_dedup(&tx, KIND).unwrap();
        let mut changes = changes.to_vec();
        changes.sort_unstable();
        for (content, references) in changes {
            let mut entry = services.dedup.load_entry(KIND, &key(content)).unwrap();
            entry.now.blocks[0] = match references {
                0 => DedupBlock::default(),
                _ => DedupBlock {
                    references,
                    ..DedupBlock::of(&pointer(content))
                },
            };
            booking.apply(&key(content), &entry).unwrap();
        }
        services.finish_booking(Some(booking)).unwrap();
        drop(tx);
        self.pool.sync().unwrap();
    }

    fn entry(&self, content: u64) -> Entry {
        let tables = &self.pool.services.dedup;
        tables.load_entry(KIND, &key(content)).unwrap()
    }

    fn logs(&self) -> Arc<Logs> {
        let table = self.pool.services.dedup.table(KIND).expect("there is one");
        Arc::clone(table.logs().expect("it has logs"))
    }

    /// The table as the newest txg on disk has it.
    fn stored(&self) -> Arc<DedupTables> {
        stored(&self.image())
    }
}

fn stored(image: &Path) -> Arc<DedupTables> {
    let pool = Pool::open_read(&[image.to_owned()]).unwrap();
    let tables = DedupTables::new();
    let services = &pool.services;
    tables
        .load(&services.mos, &services.directory, &services.store)
        .unwrap();
    tables
}

/// Whether a log has the entry, and which ZAP.
fn place(entry: &Entry) -> (bool, Option<DedupClass>) {
    (entry.is_logged, entry.home)
}

#[test]
fn what_changes_is_in_a_log_first_and_then_in_a_zap() {
    let bench = Bench::new();
    bench.txg(&[(1, 1), (2, 2), (3, 1)]);
    let table = bench.pool.services.dedup.table(KIND).unwrap();
    assert!(table.stores.iter().all(Option::is_none), "no ZAP yet");
    // OpenZFS looks into no log of a pool without.
    let statistics = format::config::directory::DEDUP_STATISTICS.as_bytes();
    let directory = &bench.pool.services.directory;
    assert!(directory.lookup(statistics).unwrap().is_some());
    assert_eq!(place(&bench.entry(2)), (true, None));
    bench.txg(&[(4, 1)]);
    assert_eq!(bench.logs().tally().all, 4);
    // The logs change places: two are brought in for one.
    bench.txg(&[(5, 1)]);
    assert_eq!(place(&bench.entry(1)), (false, Some(DedupClass::Unique)));
    assert_eq!(place(&bench.entry(2)), (false, Some(DedupClass::Duplicate)));
    assert_eq!(place(&bench.entry(3)), (true, None));
    // What a ZAP has changes: an older state of it stays there until the log is brought in.
    bench.txg(&[(1, 2)]);
    assert_eq!(place(&bench.entry(1)), (true, Some(DedupClass::Unique)));
    assert_eq!(bench.entry(1).now.references(), 2);
    let table = bench.pool.services.dedup.table(KIND).unwrap();
    let sums = table.sums();
    assert_eq!((sums.stored, sums.referenced), (5 * BYTES, 7 * BYTES));
    assert_eq!(table.len().unwrap(), 5);
}

#[test]
fn a_log_that_is_brought_in_goes_on_where_it_was_after_an_import() {
    let bench = Bench::new();
    bench.txg(&[(1, 1), (2, 1), (3, 1), (4, 1)]);
    // 1 and 2 come into the ZAPs; of 3 the active log has a newer state.
    bench.txg(&[(3, 2)]);
    let tally = bench.logs().tally();
    assert_eq!((tally.all, tally.there, tally.homed), (2, 2, 0));
    let tables = bench.stored();
    let table = tables.table(KIND).unwrap();
    let logs = table.logs().unwrap();
    assert_eq!(logs.tally(), tally);
    assert_eq!(logs.histogram(), bench.logs().histogram());
    assert_eq!(logs.next(9).len(), 1, "only 4 is still to come");
    assert_eq!(table.len().unwrap(), 4);
    let bench = bench.imported_after(|_| ());
    assert_eq!(place(&bench.entry(1)), (false, Some(DedupClass::Unique)));
    assert_eq!(place(&bench.entry(4)), (true, None));
    bench.txg(&[(5, 1)]);
    assert_eq!(place(&bench.entry(4)), (false, Some(DedupClass::Unique)));
    // Nothing is left of that log: it is cut to nothing.
    let state = bench.logs();
    let [first, second] = state.objects();
    let lengths = [first, second].map(|log| log.info().max_block);
    assert_eq!(state.next(9), []);
    assert!(lengths.contains(&0), "{lengths:?}");
    bench.pool.export().unwrap();
}

#[test]
fn each_txg_begins_a_block_and_records_fill_it() {
    let bench = Bench::with(Limits::of(1 << 20));
    let logs = || bench.logs().state.read().headers[1].clone();
    let block = 128_u64 << 10;
    let in_a_block = block / RECORD_BYTES as u64;
    bench.txg(&[(1, 1)]);
    assert_eq!(logs().length, block);
    let first = logs().first_txg;
    let many: Vec<(u64, u64)> = (1..=in_a_block + 1).map(|content| (content, 1)).collect();
    bench.txg(&many);
    assert_eq!((logs().length, logs().first_txg), (3 * block, first));
    // Two bookings of a txg, as its passes make them, have one block.
    let (services, engine) = (&bench.pool.services, bench.pool.engine().unwrap());
    let tx = Tx::assign(engine, &dmu::Reservation::default()).unwrap();
    for content in 1..=2 {
        let mut booking = services.book_dedup(&tx, KIND).unwrap();
        let mut entry = bench.entry(content);
        entry.now.blocks[0].references = 7;
        booking.apply(&key(content), &entry).unwrap();
        services.finish_booking(Some(booking)).unwrap();
    }
    drop(tx);
    bench.pool.sync().unwrap();
    assert_eq!(logs().length, 4 * block);
    let tables = bench.stored();
    for content in 1..=2 {
        let entry = tables.load_entry(KIND, &key(content)).unwrap();
        assert_eq!(entry.now.references(), 7, "{content}");
    }
    assert_eq!(tables.table(KIND).unwrap().len().unwrap(), in_a_block + 1);
}

#[test]
fn a_table_goes_with_its_last_entry_wherever_that_is() {
    let bench = Bench::new();
    bench.txg(&[(1, 1), (2, 1), (3, 1), (4, 1)]);
    bench.txg(&[(5, 1)]);
    bench.txg(&[(1, 0), (3, 0), (5, 0)]);
    assert!(bench.pool.services.dedup.table(KIND).is_some());
    // An older state of 2 is in a ZAP; nothing of it counts.
    bench.txg(&[(2, 0), (4, 0)]);
    assert!(bench.pool.services.dedup.table(KIND).is_none());
    assert!(bench.stored().table(KIND).is_none());
    assert!(bench.pool.facts().dedup().is_empty());
}

/// References by content, in any order of changes, against a map; every few txgs as the disk has it.
#[test]
fn the_table_says_what_a_map_says() {
    const CONTENTS: u64 = 40;
    let bench = Bench::new();
    let random = SeededRng::new(7);
    let mut model: BTreeMap<u64, u64> = BTreeMap::new();
    let mut most = 0;
    for round in 0..150 {
        let count = 1 + random.below(6);
        let mut changes = BTreeMap::new();
        for _ in 0..count {
            changes.insert(1 + random.below(CONTENTS), random.below(4));
        }
        let changes: Vec<(u64, u64)> = changes.into_iter().collect();
        for (content, references) in &changes {
            model.insert(*content, *references);
        }
        model.retain(|_, references| *references > 0);
        bench.txg(&changes);
        let tables = match round % 10 {
            9 => bench.stored(),
            _ => Arc::clone(&bench.pool.services.dedup),
        };
        let Some(table) = tables.table(KIND) else {
            assert!(model.is_empty());
            continue;
        };
        for content in 1..=CONTENTS {
            let entry = tables.load_entry(KIND, &key(content)).unwrap();
            let wanted = model.get(&content).copied().unwrap_or(0);
            assert_eq!(entry.now.references(), wanted, "{content} in round {round}");
        }
        let logs = table.logs().unwrap();
        most = most.max(logs.tally().all);
        assert_eq!(table.len().unwrap(), model.len() as u64, "round {round}");
        let sums = table.sums();
        let referenced: u64 = model.values().sum();
        let wanted = (model.len() as u64 * BYTES, referenced * BYTES);
        assert_eq!((sums.stored, sums.referenced), wanted, "round {round}");
        assert_eq!(
            bench.pool.facts().dedup().buckets.is_empty(),
            model.is_empty()
        );
    }
    // 2 · (limit + the most that a txg appends) in both, as the comment of this module proves.
    assert!((5..=20).contains(&most), "{most}");
    let all: Vec<(u64, u64)> = model.keys().map(|content| (*content, 0)).collect();
    bench.txg(&all);
    assert!(bench.stored().table(KIND).is_none());
}

/// All of them must be known to find one.
#[test]
fn a_pool_whose_logs_do_not_fit_into_memory_is_only_read() {
    let bench = Bench::with(Limits::of(1 << 24));
    let count = 1 << 16;
    let many: Vec<(u64, u64)> = (1..=count).map(|content| (content, 1)).collect();
    bench.txg(&many);
    // Another state of an entry takes no more memory.
    bench.txg(&[(1, 2)]);
    DEDUP_LOG_READ_MAX.set(count);
    let bench = bench.imported_after(|_| ());
    assert_eq!(bench.logs().tally().all, count);
    bench.txg(&[(count + 1, 1)]);
    let image = bench.image();
    let Bench {
        pool,
        folder: _folder,
        limits: _limits,
    } = bench;
    pool.export().unwrap();
    drop(pool);
    let options = || ImportOptions::new(vec![image.clone()], Selection::Only);
    let Err(error) = Pool::import(&options()) else {
        panic!("one too many");
    };
    let blocker = ImportBlocker::DedupLogs { max: 1 << 16 };
    assert!(
        matches!(&error, PoolError::ReadOnlyPossible(found) if *found == blocker),
        "{error}"
    );
    let mut reading = options();
    reading.read_only = true;
    let pool = Pool::import(&reading).unwrap();
    assert!(pool.services.dedup.table(KIND).is_none());
    pool.export().unwrap();
    drop(pool);
    DEDUP_LOG_READ_MAX.set(count + 1);
    let pool = Pool::import(&options()).unwrap();
    let table = pool.services.dedup.table(KIND).unwrap();
    assert_eq!(table.len().unwrap(), count + 1);
    drop(table);
    pool.export().unwrap();
}

/// A log is brought in as the other one fills, and no two of its txgs differ much.
#[test]
fn what_is_brought_in_is_spread_over_the_txgs() {
    const LIMIT: usize = 1000;
    for (left, appended, most) in [
        (1000, 100, 101),
        (1100, 100, 111),
        (1000, 7, 8),
        (9000, 100, 200),
    ] {
        let (mut rest, mut recent) = (left, 0);
        while rest > 0 {
            let due = quota(appended, left, LIMIT);
            assert!(due > appended && due <= most, "{due} of {left}");
            rest = rest.saturating_sub(due);
            recent += appended;
        }
        let bound = LIMIT.max(left / 2) + appended;
        assert!(recent <= bound, "{recent} while {left} were brought in");
    }
    assert_eq!(quota(10, 500, 0), 20);
    assert_eq!(quota(0, 500, 100), 0);
}

/// The larger the cache may be, the longer are the logs.
#[test]
fn logs_may_be_as_long_as_memory_allows() {
    let _limits = Limits::of(50);
    DEDUP_LOG_CACHE_BYTES.set(1 << 30);
    let of = |cache_bytes| {
        let limits = LogLimits::of(cache_bytes);
        (limits.entries, limits.blocks)
    };
    let blocks = DEDUP_LOG_BLOCKS.get();
    assert_eq!(of(16 << 20), (50, blocks));
    assert_eq!(of(3 << 30), (150, 3 * blocks));
    // A pool goes to smaller machines, too.
    assert_eq!(of(1 << 40), (200, 4 * blocks));
}

#[test]
fn logs_of_which_none_is_marked_are_not_guessed_at() {
    let bench = Bench::new();
    bench.txg(&[(1, 1)]);
    let logs = bench.logs();
    let engine = bench.pool.engine().unwrap();
    let tx = Tx::assign(engine, &dmu::Reservation::default()).unwrap();
    let [first, _] = logs.objects();
    first.modify_bonus(&tx, |bonus| bonus[1] = 0).unwrap();
    drop(tx);
    bench.pool.sync().unwrap();
    let pool = Pool::open_read(&[bench.image()]).unwrap();
    let services = &pool.services;
    let tables = DedupTables::new();
    let error = tables
        .load(&services.mos, &services.directory, &services.store)
        .unwrap_err();
    let text = error.to_string();
    assert!(text.contains("dedup table of an unknown kind"), "{text}");
}

/// Overwrites all copies of a block of the ZAP of the entries with one reference.
fn damage(image: &Path, block: u64) {
    const AREA: u64 = 4 << 20;
    let tables = stored(image);
    let table = tables.table(KIND).unwrap();
    let store = table.stores[DedupClass::Unique.index()].as_ref().unwrap();
    let pointer = store.zap.object().block_pointer(block).unwrap();
    let file = std::fs::File::options().write(true).open(image).unwrap();
    for dva in pointer.dvas() {
        let at = dva.offset + AREA;
        std::os::unix::fs::FileExt::write_all_at(&file, &[0xEE; 512], at).unwrap();
    }
}

#[test]
fn an_entry_whose_place_cannot_be_read_stays_in_a_log() {
    let bench = Bench::with(Limits::of(2));
    bench.txg(&[(1, 1), (2, 1)]);
    bench.txg(&[(3, 1)]);
    assert_eq!(place(&bench.entry(1)), (false, Some(DedupClass::Unique)));
    bench.txg(&[(1, 2)]);
    assert_eq!(place(&bench.entry(1)), (true, Some(DedupClass::Unique)));
    let bench = bench.imported_after(|image| damage(image, 1));
    let tables = &bench.pool.services.dedup;
    assert!(tables.load_entry(KIND, &key(2)).is_err());
    let before = METERS.kept.get();
    for turn in 2..20 {
        bench.txg(&[(3, turn)]);
        assert_eq!(place(&bench.entry(1)), (true, Some(DedupClass::Unique)));
        assert_eq!(bench.entry(1).now.references(), 2);
        assert!(bench.logs().tally().all <= 4);
    }
    assert!(METERS.kept.get() > before);
    bench.pool.export().unwrap();
}
