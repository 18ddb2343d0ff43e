//! Every object of every pool that OpenZFS made on one device: found, counted, read.

#[path = "support/mod.rs"]
mod support;

use std::collections::BTreeMap;
use std::sync::Arc;

use base::{ByteOrder, ObjectId, ObjectSetId, Txg};
use codec::Salt;
use device::{Access, FileDevice};
use format::dsl::DatasetPhys;
use format::object_type::SwapClass;
use format::zap::Value;
use format::{BlockPointer, ObjectType};
use golden::GoldenPool;
use millpond_dmu::{DmuError, ObjectSet, OpenObjectSet, Owner, Tx, Zap};

/// Pools whose one top-level vdev is one file.
const POOLS: [&str; 9] = [
    "codecs", "gang", "grub2", "many", "nofeat", "old", "v28", "vol", "zil",
];

fn open(store: &Arc<support::Store>, id: u64, root: &BlockPointer) -> Arc<ObjectSet> {
    open_as(store, id, root, false)
}

fn open_as(
    store: &Arc<support::Store>,
    id: u64,
    root: &BlockPointer,
    writable: bool,
) -> Arc<ObjectSet> {
    let options = OpenObjectSet {
        store: Arc::clone(store) as _,
        id: ObjectSetId(id),
        writable,
        objects_max: 512,
    };
    ObjectSet::open(options, root).unwrap()
}

fn is_zap(kind: ObjectType) -> bool {
    kind.swap_class() == Some(SwapClass::Zap)
}

/// The user that a file's attributes name.
fn user_of(kind: ObjectType, bonus: &[u8]) -> Option<u64> {
    let word = |at: usize| Some(u64::from_ne_bytes(bonus.get(at..at + 8)?.try_into().ok()?));
    match kind {
        ObjectType::SYSTEM_ATTRIBUTES if bonus.get(..4) == Some(&0x002F_505Au32.to_ne_bytes()) => {
            let header = usize::from(u16::from_ne_bytes([bonus[4], bonus[5]]) >> 10) * 8;
            word(header + 24)
        }
        ObjectType::ZNODE => word(128),
        _ => None,
    }
}

/// The accounting by user is what its rule makes of the objects.
fn check_users(set: &ObjectSet) {
    const DNODE_BYTES: u64 = 512;
    let Some(used) = set.used_object(Owner::User) else {
        return;
    };
    let mut sums: BTreeMap<String, u64> = BTreeMap::new();
    let mut at = ObjectId(0);
    while let Some(id) = set.next_object(at).unwrap() {
        at = id;
        let object = set.object(id).unwrap();
        let kind = object.info().bonus_type;
        let user = object.with_bonus(|bonus| user_of(kind, bonus));
        if let Some(user) = user {
            *sums.entry(format!("{user:x}")).or_default() += object.used_bytes() + DNODE_BYTES;
        }
    }
    let entries = Zap::open(&used).unwrap().entries().unwrap();
    let named = entries
        .iter()
        .map(|entry| (String::from_utf8_lossy(&entry.name), entry.value));
    let found: BTreeMap<String, u64> = named
        .filter(|(name, _)| !name.starts_with("obj-"))
        .map(|(name, value)| (name.into_owned(), value))
        .collect();
    assert_eq!(found, sums);
}

/// What reading everything in an object set came to.
#[derive(Debug, Default)]
struct Census {
    objects: u64,
    zaps: u64,
    entries: u64,
    bytes: u64,
}

fn read_zap(zap: &Zap, census: &mut Census) {
    census.zaps += 1;
    let entries = zap.entries().unwrap();
    assert_eq!(
        entries.len() as u64,
        zap.len().unwrap(),
        "{:?}",
        zap.object()
    );
    let mut cookies: Vec<u64> = entries.iter().map(|entry| entry.cookie).collect();
    cookies.dedup();
    assert_eq!(cookies.len(), entries.len());
    for entry in &entries {
        let found = if entry.words.is_empty() {
            zap.lookup_value(&entry.name).unwrap()
        } else {
            zap.lookup_words(&entry.words).unwrap()
        };
        let found = found.unwrap_or_else(|| panic!("{:?} is listed but not found", entry.name));
        assert_eq!(found.count() as u64, entry.count);
    }
    assert_eq!(zap.lookup(b"no such name, surely").unwrap_or(None), None);
    census.entries += entries.len() as u64;
}

/// Every ZAP that OpenZFS wrote can be changed: entries go, come and grow, and the rest stays.
/// Nothing is synced: the pool's image is not touched.
fn change_zaps(set: &ObjectSet) -> usize {
    let tx = Tx::syncing(Txg(u64::MAX / 2));
    let mut at = ObjectId(0);
    let mut changed = 0;
    while let Some(id) = set.next_object(at).unwrap() {
        at = id;
        let object = set.object(id).unwrap();
        let kind = object.info().object_type;
        if !is_zap(kind) || object.next_data(0..u64::MAX).unwrap().is_none() {
            continue;
        }
        let zap = Zap::open(&object).unwrap();
        let before = zap.entries().unwrap();
        if before.iter().any(|entry| !entry.words.is_empty()) {
            continue;
        }
        changed += 1;
        let mut model: BTreeMap<Vec<u8>, u64> = before
            .iter()
            .map(|entry| (entry.name.clone(), entry.value))
            .collect();
        for entry in before.iter().step_by(2) {
            zap.remove(&tx, &entry.name).unwrap();
            model.remove(&entry.name);
        }
        for index in 0..40u64 {
            let name = format!("a new name, of some length, number {index}").into_bytes();
            zap.add(&tx, &name, index).unwrap();
            model.insert(name, index);
        }
        for entry in before.iter().step_by(3) {
            zap.update(&tx, &entry.name, 7).unwrap();
            model.insert(entry.name.clone(), 7);
        }
        zap.add_value(&tx, b"an array", &Value::words(&[1, 2, 3]))
            .unwrap();
        model.insert(b"an array".to_vec(), 1);
        let after: BTreeMap<Vec<u8>, u64> = zap
            .entries()
            .unwrap()
            .into_iter()
            .map(|entry| (entry.name, entry.value))
            .collect();
        assert_eq!(after, model, "{:?}", zap.object());
    }
    changed
}

fn read_all(set: &ObjectSet) -> Census {
    const READ_MAX: u64 = 32 << 20;
    let mut census = Census::default();
    let mut at = ObjectId(0);
    while let Some(id) = set.next_object(at).unwrap() {
        at = id;
        census.objects += 1;
        let object = set.object(id).unwrap();
        let info = object.info();
        let mut blocks = 0;
        let mut offset = 0;
        while let Some(data) = object.next_data(offset..u64::MAX).unwrap() {
            let hole = object.next_hole(data..u64::MAX).unwrap();
            assert!(hole > data);
            blocks += (hole - data).div_ceil(u64::from(info.block_size));
            offset = hole;
            if census.bytes < READ_MAX && hole - data < READ_MAX {
                let mut bytes = vec![0; (hole - data) as usize];
                object.read(data, &mut bytes).unwrap();
                census.bytes += hole - data;
            }
        }
        if info.has_spill {
            assert!(object.spill().unwrap().is_some());
        }
        if is_zap(info.object_type) && blocks > 0 {
            read_zap(&Zap::open(&object).unwrap(), &mut census);
        }
    }
    for owner in Owner::ALL {
        if let Some(object) = set.used_object(owner) {
            read_zap(&Zap::open(&object).unwrap(), &mut census);
        }
    }
    assert_eq!(census.objects, set.object_count(), "fill of the root");
    check_users(set);
    census
}

fn read_pool(pool: &GoldenPool) {
    let image = &pool.images()[0];
    let device = FileDevice::open(image, Access::ReadOnly).unwrap();
    let labels = vdev::read_labels(&device);
    let best = labels.best_uberblock(None).unwrap();
    let root = best.uberblock.root;
    let pipeline = support::pipeline(image, Access::ReadOnly, 9);
    let store = Arc::new(support::Store(pipeline));
    let mos = open(&store, 0, &root);
    let directory = Zap::open(&mos.object(ObjectId(1)).unwrap()).unwrap();
    if let Some(salt) = directory
        .lookup_value(b"org.illumos:checksum_salt")
        .unwrap()
    {
        store.0.set_salt(Salt(salt.stored().try_into().unwrap()));
    }
    println!("{}: mos {:?}", pool.pool_name(), read_all(&mos));
    println!(
        "{} ZAPs changed",
        change_zaps(&open_as(&store, 0, &root, true))
    );
    let mut at = ObjectId(0);
    while let Some(id) = mos.next_object(at).unwrap() {
        at = id;
        let object = mos.object(id).unwrap();
        if object.info().bonus_type != ObjectType::DSL_DATASET {
            continue;
        }
        let phys = DatasetPhys::decode(&object.bonus(), ByteOrder::NATIVE).unwrap();
        if phys.block_pointer.is_hole() {
            continue;
        }
        let set = open(&store, id.0, &phys.block_pointer);
        println!(
            "{}: {id} {:?} {:?}",
            pool.pool_name(),
            set.kind(),
            read_all(&set)
        );
    }
}

#[test]
fn every_object_is_read() {
    for name in POOLS {
        if let Some(pool) = golden::pool(name) {
            read_pool(&pool);
        }
    }
}

#[test]
fn what_is_not_there_is_said_so() {
    let Some(pool) = golden::pool("old") else {
        return;
    };
    let image = &pool.images()[0];
    let device = FileDevice::open(image, Access::ReadOnly).unwrap();
    let root = vdev::read_labels(&device)
        .best_uberblock(None)
        .unwrap()
        .uberblock
        .root;
    let store = Arc::new(support::Store(support::pipeline(
        image,
        Access::ReadOnly,
        9,
    )));
    let mos = open(&store, 0, &root);
    let missing = mos.object(ObjectId(1 << 40));
    assert!(matches!(missing, Err(DmuError::NoSuchObject { .. })));
    assert!(mos.object(ObjectId(0)).is_err());
    let directory = Zap::open(&mos.object(ObjectId(1)).unwrap()).unwrap();
    assert!(directory.lookup(b"root_dataset").unwrap().is_some());
}
