use base::Guid;
use format::nvlist::{NvList, Value};

use super::{PackageList, PackageValue};
use crate::{Reader, decode_list};

/// One dataset with a snapshot.
fn list() -> NvList {
    let mut system = NvList::new();
    system.set("name", "pool/a");
    system.set("parentfromsnap", 7_u64);
    system.set("origin", 9_u64);
    let mut properties = NvList::new();
    properties.set("quota", 10_u64);
    properties.set("my:own", "text");
    properties.set("odd", Value::Boolean);
    system.set("props", properties);
    let mut snapshots = NvList::new();
    snapshots.set("one", 1_u64);
    system.set("snaps", snapshots);
    let mut tags = NvList::new();
    tags.set("keep", 5_u64);
    let mut holds = NvList::new();
    holds.set("one", tags);
    system.set("snapholds", holds);
    system.set("is_encroot", Value::Boolean);
    let mut systems = NvList::new();
    systems.set("0x1", system);
    let mut list = NvList::new();
    list.set("fromsnap", "one");
    list.set("tosnap", "two");
    list.set("raw", Value::Boolean);
    list.set("fss", systems);
    list
}

#[test]
fn what_a_list_says() {
    let package = PackageList::of(&list()).unwrap();
    assert_eq!(
        (package.from.as_deref(), &*package.to),
        (Some("one"), "two")
    );
    assert!(package.is_recursive && package.is_raw);
    let system = package.system_with(Guid(1)).unwrap();
    assert_eq!(
        (&*system.name, system.parent_snapshot, system.origin),
        ("pool/a", Guid(7), Some(Guid(9)))
    );
    assert!(system.is_encryption_root);
    let properties = [
        ("quota".to_owned(), PackageValue::Number(10)),
        ("my:own".to_owned(), PackageValue::Text("text".to_owned())),
    ];
    assert_eq!(system.properties, properties);
    assert_eq!(system.snapshot(Guid(1)).unwrap().holds, ["keep"]);
    assert_eq!(package.base_of(system), Some(Guid(1)));
    assert!(package.system_with(Guid(2)).is_none());
}

#[test]
fn what_no_sender_makes_is_refused() {
    assert!(PackageList::of(&NvList::new()).is_err());
    let mut no_snapshot = list();
    no_snapshot.remove("tosnap");
    assert!(PackageList::of(&no_snapshot).is_err());
    for (key, value) in [
        ("name", Value::Uint64(1)),
        ("snaps", {
            let mut snapshots = NvList::new();
            snapshots.set("one", "no number");
            Value::List(snapshots)
        }),
    ] {
        let mut changed = list();
        let mut systems = changed.list("fss").unwrap().clone();
        let mut system = systems.list("0x1").unwrap().clone();
        system.set(key, value);
        systems.set("0x1", system);
        changed.set("fss", systems);
        assert!(PackageList::of(&changed).is_err(), "{key}");
    }
}

#[test]
fn the_list_of_openzfs() {
    let Some(pool) = golden::pool("streams") else {
        return;
    };
    let bytes = std::fs::read(pool.folder.join("replicate.stream")).unwrap();
    let mut payload = Vec::new();
    Reader::new(&*bytes).next(&mut payload).unwrap();
    let list = decode_list(&payload).unwrap().unwrap();
    let package = PackageList::of(&list).unwrap();
    let names: Vec<&str> = package.systems.iter().map(|one| &*one.name).collect();
    assert_eq!(names, ["gst/src", "gst/src/kid"]);
    let child = &package.systems[1];
    let above = package.system_with(child.parent_snapshot).unwrap();
    assert_eq!((&*above.name, above.snapshots.len()), ("gst/src", 3));
}
