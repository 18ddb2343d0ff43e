//! Intent logs are claimed several at once: each is read block after block, which on disks takes long.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use base::lock::{Condvar, LockClass, Mutex, rank};
use base::{ByteOrder, ObjectSetId};
use dmu::{Reservation, Tx};
use format::BlockPointer;
use format::intent_log::{CreateFields, encode_record, kind};
use intent::{Entry, Log, Scope};
use sim::WatchedDevice;

use super::*;
use crate::churn::create_volume;

static MET: LockClass = LockClass::new("test.met", rank::LAST + 20);

/// Where the allocatable area of a device begins.
const AREA: u64 = 4 << 20;
/// Only a test that fails waits for so long.
const PATIENCE: Duration = Duration::from_secs(20);

/// Has a read of one of some places end when all of these are being read.
struct Meeting {
    places: Vec<u64>,
    met: Mutex<usize>,
    changed: Condvar,
    alone: AtomicUsize,
}

impl Meeting {
    fn meet(&self, offset: u64, len: usize) {
        let read = offset..offset + len as u64;
        if !self.places.iter().any(|place| read.contains(place)) {
            return;
        }
        let mut met = self.met.lock();
        *met += 1;
        self.changed.notify_all();
        while *met < self.places.len() {
            if self.changed.wait_for(&mut met, PATIENCE) {
                self.alone.fetch_add(1, Ordering::Relaxed);
                return;
            }
        }
    }
}

/// Commits until the log has a chain of which the disk knows; answers where it begins.
fn commit(pool: &Arc<Pool>, log: &Log) -> u64 {
    for _ in 0..8 {
        let tx = Tx::assign(pool.engine().unwrap(), &Reservation::default()).unwrap();
        let fields = CreateFields {
            directory: ObjectId(34),
            object_and_slots: 1,
            mode: 0o100_644,
            uid: 0,
            gid: 0,
            generation: tx.txg().0,
            creation_time: [0; 2],
            device: 0,
        };
        let record = encode_record(kind::CREATE, &fields.to_bytes(ByteOrder::NATIVE), &[b"f\0"]);
        log.append(&tx, Scope::Namespace, vec![Entry::Record(record)]);
        drop(tx);
        log.commit_all().unwrap();
        let first = log.objects().intent_log_header().log;
        if first != BlockPointer::HOLE {
            return first.dva(0).unwrap().offset;
        }
        pool.sync().unwrap();
    }
    panic!("commits do not use the log");
}

#[test]
fn logs_are_claimed_at_once() {
    const HEADS: usize = 4;
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.img");
    device::FileDevice::create(&path, 96 << 20).unwrap();
    let vdev = crate::NewVdev::Single(crate::NewDevice::Path(path.clone()));
    let pool = Pool::create(crate::CreateOptions::new("tank", vec![vdev])).unwrap();
    let names: Vec<String> = (0..HEADS).map(|head| format!("head{head}")).collect();
    names.iter().for_each(|name| create_volume(&pool, name));
    let logs: Vec<Arc<Log>> = names
        .iter()
        .map(|name| {
            let head = pool.dsl().head(&format!("tank/{name}")).unwrap();
            pool.intent_log(&head).unwrap().unwrap()
        })
        .collect();
    for log in &logs {
        commit(&pool, log);
    }
    pool.sync().unwrap();
    // Of all at one moment: a chain may have begun anew with the txg.
    let places: Vec<u64> = logs.iter().map(|log| AREA + commit(&pool, log)).collect();
    let crashed = folder.path().join("crashed.img");
    std::fs::copy(&path, &crashed).unwrap();
    drop(logs);
    pool.export().unwrap();
    drop(pool);

    let options = options(&[crashed]);
    let found = select(&options).unwrap();
    let mut devices = Devices::of_pool(&found, Purpose::Writing, None).unwrap();
    let (loaded, rewound) = load_with_rewind(&found, &mut devices, &options).unwrap();
    let leaf = Arc::clone(&loaded.objects.foundation.vdevs.tops()[0].leaves()[0]);
    let meeting = Arc::new(Meeting {
        places,
        met: Mutex::new(&MET, 0),
        changed: Condvar::new(),
        alone: AtomicUsize::new(0),
    });
    let watch = Arc::clone(&meeting);
    let watched = WatchedDevice::reads(leaf.device().unwrap(), move |at, len| watch.meet(at, len));
    leaf.set_device(Some(Arc::new(watched)));
    let first = loaded.uberblock.txg.next();
    let pool = open(loaded, rewound, (first, None), &options).unwrap();
    assert_eq!(meeting.alone.load(Ordering::Relaxed), 0);
    assert!(*meeting.met.lock() >= HEADS);
    for name in names {
        let head = pool.dsl().head(&format!("tank/{name}")).unwrap();
        assert!(pool.intent_log(&head).unwrap().unwrap().is_owed());
    }
    pool.export().unwrap();
}

/// A pool that nobody changes goes from txg to txg without an uberblock: what its logs write then is much younger than
/// the state that an import finds.
#[test]
fn a_checkpoint_is_not_older_than_the_logs_that_were_claimed_for_it() {
    const GAP: usize = 100;
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.img");
    device::FileDevice::create(&path, 96 << 20).unwrap();
    let vdev = crate::NewVdev::Single(crate::NewDevice::Path(path.clone()));
    let pool = Pool::create(crate::CreateOptions::new("tank", vec![vdev])).unwrap();
    create_volume(&pool, "head");
    let head = pool.dsl().head("tank/head").unwrap();
    let log = pool.intent_log(&head).unwrap().unwrap();
    commit(&pool, &log);
    for _ in 0..GAP {
        pool.sync().unwrap();
    }
    commit(&pool, &log);
    let crashed = folder.path().join("crashed.img");
    std::fs::copy(&path, &crashed).unwrap();
    drop((log, head));
    pool.export().unwrap();
    drop(pool);

    let pool = Pool::import(&options(&[crashed])).unwrap();
    let head = pool.dsl().head("tank/head").unwrap();
    let header = head.root().unwrap().unwrap().log_header;
    assert!(header.claim_txg != Txg(0) && !header.log.is_hole());
    let owned = intent::owned_blocks(&pool.pipeline, ObjectSetId(head.id().0), &header);
    let newest = owned.iter().map(BlockPointer::physical_birth).max();
    pool.take_checkpoint().unwrap();
    let kept = crate::checkpoint::stored(&pool.services.directory).unwrap();
    let kept = kept.unwrap();
    println!("claimed in {}, {newest:?}, {}", header.claim_txg, kept.txg);
    assert!(newest > Some(header.claim_txg), "the log is as old as that");
    // Or the blocks were free as soon as they are not needed for the newest state.
    assert!(newest <= Some(kept.txg));
    pool.export().unwrap();
}
