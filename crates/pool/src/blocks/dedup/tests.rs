use super::*;
use crate::Pool;
use base::Txg;
use format::dedup::TABLE_BLOCK_SHIFT;
use format::zap::FatHeader;
use format::{Dva, ObjectType};

fn block(content: u64) -> BlockPointer {
    let mut pointer = BlockPointer::for_block(ObjectType::PLAIN_FILE, 0, 8192, 4096);
    pointer.set_checksum(Checksum::Sha256, codec::ChecksumValue([content, 1, 2, 3]));
    pointer.set_birth(Txg(9), Txg(9));
    pointer
}

pub(super) fn placed(content: u64, offset: u64) -> BlockPointer {
    let mut pointer = block(content);
    let dva = Dva {
        vdev: base::VdevId(0),
        offset,
        asize: 4096,
        gang: false,
    };
    pointer.set_dva(0, Some(dva));
    pointer
}

/// The tables of the pool `codecs`, as OpenZFS's zdb prints them (`-DD`).
#[test]
fn the_table_of_a_pool_of_openzfs_is_read() {
    let Some(golden) = golden::pool("codecs") else {
        return;
    };
    let pool = Pool::open_read(&golden.images()).unwrap();
    let tables = DedupTables::new();
    tables
        .load(
            &pool.services.mos,
            &pool.services.directory,
            &pool.services.store,
        )
        .unwrap();
    let table = tables.table(Checksum::Sha256).expect("there is one");
    assert_eq!(table.form, DedupForm::Flat);
    assert_eq!(table.len().unwrap(), 4);
    let sums = table.sums();
    assert_eq!((sums.stored, sums.referenced), (500_736, 1_001_472));
    let logs = table.logs().expect("it is of the newer kind");
    assert_eq!(logs.tally().all, 0);
    let duplicates = table.stores[DedupClass::Duplicate.index()].as_ref();
    let duplicates = duplicates.expect("all are");
    // The form that ours are made in.
    let object = duplicates.zap.object();
    let form = FatHeader::read(&object.read_block(0).unwrap()).unwrap();
    let wanted = FatHeader::FLAG_HASH_48 | FatHeader::FLAG_WORD_KEYS | FatHeader::FLAG_HASHED_KEYS;
    assert_eq!((form.flags, form.normalization), (wanted, 0));
    let info = object.info();
    assert_eq!(
        (info.block_size, info.indirect_shift),
        (1 << TABLE_BLOCK_SHIFT, TABLE_BLOCK_SHIFT)
    );
    assert_eq!(info.object_type, ObjectType::DDT_ZAP);
    let entries = duplicates.zap.entries().unwrap();
    assert_eq!(entries.len(), 4);
    for entry in entries {
        let key = DedupKey::try_from(entry.words).expect("five words");
        let stored = duplicates.zap.lookup_words(&key).unwrap();
        let stored = stored.expect("it is listed");
        let value = DedupValue::unpack(DedupForm::Flat, stored.stored()).expect("a value");
        assert_eq!(value.references(), 2);
        assert_eq!(value.class(), DedupClass::Duplicate);
        assert_eq!(value.pack(), stored.stored(), "OpenZFS packs it so");
        let pointer = value.blocks[0].pointer(Checksum::Sha256, &key);
        assert_eq!(key_of(&pointer), key);
        assert!(value.blocks[0].is_of(&pointer));
    }
}

#[test]
fn the_second_of_two_who_store_the_same_at_once_refers_to_the_first() {
    let tables = DedupTables::new();
    tables.begin(true, false);
    assert_eq!(tables.find(&block(1), 1), DedupAnswer::Absent);
    assert_eq!(tables.enter(&placed(1, 0x4000), 1), None);
    let first = placed(1, 0x4000);
    assert_eq!(tables.enter(&placed(1, 0x8000), 1), Some(first));
    assert_eq!(tables.find(&block(1), 1), DedupAnswer::Stored(first));
    tables.refer(&first, 1);
    let pending = tables.pending.lock();
    let entry = pending.entries.values().next().expect("one");
    assert_eq!(entry.now.references(), 3);
    assert!(entry.home.is_none() && entry.before.references() == 0);
}

#[test]
fn what_has_too_few_copies_is_stored_beside_the_table() {
    for (fast, answer) in [(true, DedupAnswer::Declined), (false, DedupAnswer::Absent)] {
        let tables = DedupTables::new();
        tables.begin(fast, false);
        assert_eq!(tables.enter(&placed(1, 0x4000), 1), None);
        // The older kind has a place for each number of copies.
        assert_eq!(tables.find(&block(1), 2), answer);
    }
}

#[test]
fn nothing_new_refers_to_what_a_scan_has_to_find_elsewhere() {
    let tables = DedupTables::new();
    tables.begin(true, true);
    assert_eq!(tables.find(&block(1), 1), DedupAnswer::Absent);
    assert_eq!(tables.enter(&placed(1, 0x4000), 1), None);
    assert_eq!(tables.find(&block(1), 1), DedupAnswer::Declined);
}

pub(super) fn new_pool(folder: &std::path::Path) -> Arc<Pool> {
    let path = folder.join("a.img");
    device::FileDevice::create(&path, 96 << 20).unwrap();
    let vdev = crate::NewVdev::Single(crate::NewDevice::Path(path));
    Pool::create(crate::CreateOptions::new("tank", vec![vdev])).unwrap()
}

/// A quota is a convenience: a table of properties that cannot be read stops no txg.
#[test]
fn a_quota_that_cannot_be_read_is_as_none() {
    let folder = tempfile::tempdir().unwrap();
    let pool = new_pool(folder.path());
    let engine = pool.engine().unwrap();
    let tx = dmu::Tx::assign(engine, &dmu::Reservation::default()).unwrap();
    let key = format::config::directory::POOL_PROPERTIES.as_bytes();
    let nothing = 1 << 20;
    pool.services.directory.update(&tx, key, nothing).unwrap();
    drop(tx);
    pool.sync().unwrap();
    pool.sync().unwrap();
    pool.export().unwrap();
}
