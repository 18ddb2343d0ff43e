//! Messages and texts as they are sent and typed; the engine finds the other variants from there.

use admin::rows::Row;
use admin::{DATASET_PROPERTIES, POOL_PROPERTIES, VDEV_PROPERTIES};

const REQUESTS: &[&str] = &[
    r#""Hello""#,
    r#"{"Pool":"All"}"#,
    r#"{"Vdevs":{"names":["root-0"],"properties":{"Names":["size"]}}}"#,
    r#"{"History":{"internal":true}}"#,
    r#"{"Datasets":{"roots":["p"],"depth":1,"types":3,"properties":"All"}}"#,
    r#"{"Holds":{"snapshots":["p@s"],"recursive":true}}"#,
    r#"{"OwnerSpace":{"name":"p","kinds":["User","Group"]}}"#,
    r#"{"Diff":{"from":"p@a","to":"p"}}"#,
    r#"{"Events":{"after":0}}"#,
];

const CHANGES: &[&str] = &[
    r#"{"Create":{"name":"p/a","volume":null,"properties":[["quota",{"Number":1}]],"parents":true}}"#,
    r#"{"Destroy":{"target":{"Dataset":"p/a"},"recursive":true,"dependents":false,
        "force":false,"deferred":false,"dry_run":true}}"#,
    r#"{"Snapshot":{"names":["p@s"],"recursive":true,"properties":[["a:b",{"Text":"c"}]]}}"#,
    r#"{"Set":{"names":["p"],"properties":[["comment","Absent"]],"keep_mounts":false}}"#,
    r#"{"Delegate":{"name":"p","grant":true,"recursive":false,"changes":[["ul$0",["create"]]]}}"#,
    r#"{"SetPool":{"properties":[["autotrim",{"Number":1}]]}}"#,
    r#"{"SetVdev":{"vdev":"1","properties":[]}}"#,
    r#"{"Upgrade":{"version":5000}}"#,
    r#"{"Scrub":"Start"}"#,
    r#"{"Clear":{"vdev":null}}"#,
    r#"{"AddVdevs":{"vdevs":[{"class":"Data","shape":{"Mirror":["/a","/b"]}}],"force":true}}"#,
    r#"{"Export":{"force":true}}"#,
];

const PROGRAMS: &[&str] = &[
    "local a = (...).argv[1] zfs.sync.snapshot(a .. '@s') return {a, ok = zfs.exists(a)}",
    "for s in zfs.list.snapshots('p') do zfs.check.destroy(s) end return zfs.get_prop('p', 'a:b')",
    "local t = {3, 1, 2} table.sort(t, function(a, b) return a > b end) return table.concat(t, '/')",
    "local c = coroutine.wrap(function() coroutine.yield(7 / 2 % 5) end) return c()",
    "return string.format('%5d %s', 0xff, string.rep('ab', 9):gsub('%a(b*)', '%1'):upper())",
    "return #string.match(string.rep('a', 100), '^(a-)%f[%z]()$'), {['x'] = -1, [true] = [[y]]}",
    "setmetatable(_G, {__index = function(_, k) return k end}) goto e; error({1}) ::e:: return zfs.debug(z)",
];

const OPENINGS: &[&str] = &[
    r#"{"Create":{"name":"p","temporary_name":null,"vdevs":[{"class":"Data",
        "shape":{"Leaf":"/a"}}],"properties":[],"features":[["lz4_compress",true]],
        "without_features":false,"dataset_properties":[],"altroot":null,"force":false,
        "file_size":1,"command":""}}"#,
    r#"{"Import":{"guid":1,"name":"p","new_name":null,"temporary":false,"search":["/d"],
        "readonly":true,"force":false,"rewind":false,"rewind_extreme":false,"to_checkpoint":false,"dry_run":false,
        "txg_max":5,"destroyed":false,"missing_log":false,"unmounted":true,"altroot":"/r",
        "properties":[],"mount_options":["ro"],"command":""}}"#,
];

const RESPONSES: &[&str] = &[
    r#"{"Hello":{"pool":"p","guid":1,"pid":2,"version":"0"}}"#,
    r#"{"Datasets":[{"name":"p","kind":1,"created_txg":4,
        "properties":[["used",{"value":{"Number":1},"source":{"Inherited":"p"},
        "received":{"Text":"x"}}]]}]}"#,
    r#"{"DeleteQueue":7}"#,
    r#"{"SendProgress":{"name":"p@a","bytes":7}}"#,
    r#"{"Mounted":[{"dataset":"p","path":"/p"}]}"#,
    r#"{"Line":"x"}"#,
    r#"{"Failed":{"kind":"Other","message":"m","advice":["a"]}}"#,
    r#""Done""#,
];

fn texts(list: &[&str]) -> Vec<String> {
    list.iter().map(|text| (*text).to_owned()).collect()
}

/// Of [`admin::Request`].
pub(super) fn requests() -> Vec<String> {
    let change = |change: &&str| format!(r#"{{"Change":{{"change":{change},"command":"c"}}}}"#);
    let mut all = texts(REQUESTS);
    all.extend(CHANGES.iter().map(change));
    all
}

/// Of [`admin::OpenRequest`].
pub(super) fn openings() -> Vec<String> {
    texts(OPENINGS)
}

/// Channel programs.
pub(super) fn programs() -> Vec<String> {
    texts(PROGRAMS)
}

/// Of [`admin::Response`].
pub(super) fn responses() -> Vec<String> {
    texts(RESPONSES)
}

/// Every property with a few values.
pub(super) fn assignments() -> Vec<String> {
    let tables: [&[&Row]; 3] = [DATASET_PROPERTIES, POOL_PROPERTIES, VDEV_PROPERTIES];
    let rows = tables.into_iter().flatten();
    rows.flat_map(|row| ["on", "none", "512", "/a"].map(|value| format!("{}={value}", row.name)))
        .collect()
}
