use super::CacheDevice;
use crate::pool::Pool;
use crate::{CreateOptions, ImportOptions, NewDevice, NewVdev, Selection};
use base::Guid;
use dmu::{AllocateObject, Reservation, Tx};
use format::config::{directory, keys};
use format::{NvList, ObjectType, nvlist};

const LENGTH: u32 = 16 << 10;

/// Lists a device as OpenZFS does; the pool itself never writes such a list.
fn list(pool: &Pool, path: &str) {
    let mut device = NvList::new();
    device
        .set(keys::TYPE, "file")
        .set(keys::GUID, 77_u64)
        .set(keys::PATH, path);
    let mut list = NvList::new();
    list.set(keys::L2CACHE, vec![device]);
    let mut bytes = nvlist::encode_xdr(&list);
    let length = (bytes.len() as u64).to_ne_bytes();
    bytes.resize(LENGTH as usize, 0);
    let engine = pool.engine().unwrap();
    let tx = Tx::assign(engine, &Reservation::default()).unwrap();
    let services = &pool.services;
    let kind = AllocateObject {
        object_type: ObjectType::PACKED_NVLIST,
        block_size: LENGTH,
        bonus_type: ObjectType::PACKED_NVLIST_SIZE,
        bonus_len: 8,
        ..AllocateObject::default()
    };
    let object = services.mos.allocate(&tx, &kind).unwrap();
    object.write(&tx, 0, &bytes).unwrap();
    let fill = |bonus: &mut [u8]| bonus.copy_from_slice(&length);
    object.modify_bonus(&tx, fill).unwrap();
    let key = directory::L2CACHE.as_bytes();
    services.directory.update(&tx, key, object.id().0).unwrap();
    drop(tx);
    pool.sync().unwrap();
}

#[test]
fn cache_devices_are_told_and_left_alone() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.img");
    device::FileDevice::create(&path, 96 << 20).unwrap();
    let vdev = NewVdev::Single(NewDevice::Path(path.clone()));
    let pool = Pool::create(CreateOptions::new("tank", vec![vdev])).unwrap();
    assert_eq!(pool.facts().cache_devices(), []);
    list(&pool, "/nowhere/cache.img");
    let told = [CacheDevice {
        guid: Guid(77),
        kind: "file".to_owned(),
        path: "/nowhere/cache.img".to_owned(),
        is_there: false,
    }];
    assert_eq!(pool.facts().cache_devices(), told);
    pool.export().unwrap();
    drop(pool);
    let selection = Selection::Name("tank".to_owned());
    let pool = Pool::import(&ImportOptions::new(vec![path], selection)).unwrap();
    assert_eq!(pool.facts().cache_devices(), told);
    pool.export().unwrap();
}
