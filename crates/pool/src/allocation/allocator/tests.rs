use super::*;
use crate::pool::Pool;
use crate::{CreateOptions, NewDevice, NewVdev};

#[test]
fn what_an_open_txg_gives_back_is_freed_when_that_txg_syncs() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.img");
    device::FileDevice::create(&path, 96 << 20).unwrap();
    let vdev = NewVdev::Single(NewDevice::Path(path));
    let pool = Pool::create(CreateOptions::new("tank", vec![vdev])).unwrap();
    pool.sync().unwrap();
    let writer = pool.writer().unwrap();
    let (allocator, space) = (&writer.syncer.allocator, &writer.syncer.space);
    let check = || {
        for vdev in space.vdevs() {
            vdev.free_ranges(&*writer.syncer.maps).unwrap();
        }
    };
    let hold = writer.engine.hold().unwrap();
    let before = writer.syncer.maps.syncing();
    assert!(before < hold.txg());
    let request = AllocationRequest {
        psize: 8192,
        copies: 2,
        class: AllocationClass::Normal,
        txg: hold.txg(),
        hint: 0,
    };
    let allocation = allocator.allocate(&request).unwrap();
    for dva in allocation.iter() {
        allocator.free(&dva, hold.txg(), hold.txg());
    }
    // A txg that syncs while this one is open has nothing to free.
    assert!(!space.is_dirty(before));
    space.sync(before, 1, &*writer.syncer.maps).unwrap();
    check();
    let rested = space.deferred_bytes(ClassKind::Normal);
    let txg = hold.txg();
    drop(hold);
    pool.sync().unwrap();
    check();
    assert!(writer.syncer.maps.syncing() >= txg);
    assert!(space.deferred_bytes(ClassKind::Normal) >= rested + 2 * 8192);
    pool.export().unwrap();
}
