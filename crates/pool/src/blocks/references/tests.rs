use super::*;
use crate::Pool;
use format::ObjectType;
use format::brt::COUNTS_BLOCK_SIZE;
use format::zap::FatHeader;

/// The pool `codecs` and its tables; none, with a line that says so, where it is not at hand.
fn codecs() -> Option<(Arc<Pool>, Arc<BlockReferenceTable>)> {
    let pool = Pool::open_read(&golden::pool("codecs")?.images()).unwrap();
    let references = BlockReferenceTable::new();
    let (mos, directory) = (&pool.services.mos, &pool.services.directory);
    let usual = CountForm::Bytes;
    references.load(mos, directory, &pool.vdevs, usual).unwrap();
    Some((pool, references))
}

/// The table of the pool `codecs`: four blocks of a file and their copies (OpenZFS's `zdb -TTTT` prints the same).
#[test]
fn the_table_of_a_pool_of_openzfs_is_read() {
    let Some((pool, references)) = codecs() else {
        return;
    };
    let tables = references.tables.lock();
    let table = &tables[&VdevId(0)];
    assert_eq!(table.header.count, 4);
    assert_eq!((table.header.used, table.header.saved), (400_896, 400_896));
    for offset in [0x509_f000, 0x505_f000, 0x503_f000, 0x507_f000] {
        assert_eq!(table.lookup(offset).unwrap(), Some(1));
    }
    assert_eq!(table.lookup(0x509_f200).unwrap(), None);
    let regions = references.regions.read();
    let counts = &regions.counts[&VdevId(0)];
    assert_eq!(counts.iter().map(|count| u64::from(*count)).sum::<u64>(), 4);
    assert_eq!(counts[5], 4);
    assert!(
        regions.covers((VdevId(0), 0x509_f200)),
        "its region has entries"
    );
    assert!(!regions.covers((VdevId(0), 0)));
    drop(regions);
    // The form that ours are made in.
    let block = table.entries.object().read_block(0).unwrap();
    let form = FatHeader::read(&block).unwrap();
    let wanted = FatHeader::FLAG_HASH_48 | FatHeader::FLAG_WORD_KEYS;
    assert_eq!((form.flags, form.normalization), (wanted, 0));
    let info = table.entries.object().info();
    assert_eq!((info.block_size, info.indirect_shift), (1 << 12, 12));
    assert_eq!(info.object_type, ObjectType::OTN_ZAP_METADATA);
    let info = table.counts.info();
    assert_eq!(
        (info.block_size, info.object_type),
        (COUNTS_BLOCK_SIZE, ObjectType::OTN_U64_METADATA)
    );
    assert_eq!(info.bonus_type, ObjectType::OTN_U64_METADATA);
    let asize = pool.services.config.get().root.children[0].metaslab_bytes();
    assert_eq!(table.header.regions, asize.div_ceil(REGION_BYTES));
}

#[test]
fn only_expected_blocks_wait_without_a_table() {
    let references = BlockReferenceTable::new();
    let mut pointer = BlockPointer::for_block(ObjectType::PLAIN_FILE, 0, 4096, 4096);
    pointer.set_birth(Txg(7), Txg(7));
    pointer.set_dva(
        0,
        Some(format::Dva {
            vdev: VdevId(1),
            offset: 8192,
            asize: 4096,
            gang: false,
        }),
    );
    assert!(!references.may_be_shared(&pointer));
    references.expect(Txg(9), &pointer);
    references.expect(Txg(8), &pointer);
    assert!(references.may_be_shared(&pointer));
    let mut other = pointer;
    other.set_kind(ObjectType::PLAIN_FILE, 1);
    assert!(
        !references.may_be_shared(&other),
        "indirect blocks are never shared"
    );
    references.synced(Txg(8));
    assert!(references.may_be_shared(&pointer));
    references.synced(Txg(9));
    assert!(!references.may_be_shared(&pointer));
    assert!(!references.in_use.load(Ordering::Relaxed));
}

/// A header decides how much memory is asked for: no more than its vdev has regions.
#[test]
fn a_table_with_more_regions_than_its_vdev_is_damaged() {
    let Some((pool, references)) = codecs() else {
        return;
    };
    let asize = pool.vdevs.top(VdevId(0)).unwrap().asize();
    let mut tables = references.tables.lock();
    let table = tables.get_mut(&VdevId(0)).unwrap();
    table.header.regions = asize.div_ceil(REGION_BYTES) + 1;
    assert!(matches!(table.regions(asize), Err(PoolError::Damaged(_))));
}
