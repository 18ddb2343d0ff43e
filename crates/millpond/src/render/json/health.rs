//! The health of pools as JSON: `zpool status -j`.

use admin::{
    LeafReport, LeafWork, LeafWorkState, PoolStatus, ScanKind, ScanReport, ScanState, VdevClass,
    VdevNaming, VdevReport, VdevState, human, human_bytes,
};
use format::config::VdevType;
use serde_json::{Map, Value as JsonValue, json};

use super::super::status::explained;
use super::Json;

type Object = Map<String, JsonValue>;

/// The groups beside the main tree, by their keys.
const GROUPS: [(VdevClass, &str); 5] = [
    (VdevClass::Dedup, "dedup"),
    (VdevClass::Special, "special"),
    (VdevClass::Log, "logs"),
    (VdevClass::Cache, "l2cache"),
    (VdevClass::Spare, "spares"),
];

impl Json {
    /// Adds the health of pools.
    pub(crate) fn statuses(&mut self, pools: &[PoolStatus], naming: VdevNaming) {
        let mut all = Object::new();
        for pool in pools {
            let object = self.health(pool, naming);
            all.insert(self.pool_key(&pool.name, pool.guid), object.into());
        }
        self.member("pools", all.into());
    }

    fn health(&self, pool: &PoolStatus, naming: VdevNaming) -> Object {
        let state = pool.state.word();
        let mut object = self.pool_head(&pool.name, pool.guid, pool.txg, state, false);
        if let Some((status, action, id)) = explained(pool) {
            put(&mut object, "status", json!(format!("{status}\n")));
            put(&mut object, "action", json!(format!("{action}\n")));
            if let Some(id) = id {
                let page = format!("https://openzfs.github.io/openzfs-docs/msg/ZFS-8000-{id}");
                put(&mut object, "msgid", json!(format!("ZFS-8000-{id}")));
                put(&mut object, "moreinfo", json!(page));
            }
        }
        if let Some(scan) = &pool.scan {
            put(&mut object, "scan_stats", self.scan(scan).into());
        }
        put(&mut object, "vdevs", self.main_tree(pool, naming).into());
        for (class, key) in GROUPS {
            let mut group = Object::new();
            for vdev in pool.vdevs.iter().filter(|vdev| vdev.class == class) {
                self.vdev(vdev, naming, &pool.name, &mut group);
            }
            if !group.is_empty() {
                put(&mut object, key, group.into());
            }
        }
        if self.options.dedup {
            let entries = pool.dedup.buckets.iter().map(|bucket| bucket[0]).sum();
            let tables = json!({"obj_count": self.number(entries), "ddt_object_stats": {}});
            put(&mut object, "dedup_stats", tables);
        }
        put(&mut object, "error_count", self.number(pool.error_count));
        if !pool.error_files.is_empty() {
            put(&mut object, "errlist", json!(pool.error_files));
        }
        object
    }

    fn scan(&self, scan: &ScanReport) -> Object {
        let time = |seconds: u64| {
            if self.exact() {
                self.number(seconds)
            } else {
                json!(admin::date::zoned(seconds))
            }
        };
        let function = match scan.kind {
            ScanKind::Scrub => "SCRUB",
            ScanKind::Resilver => "RESILVER",
        };
        let state = match scan.state {
            ScanState::Running | ScanState::Paused => "SCANNING",
            ScanState::Finished => "FINISHED",
            ScanState::Canceled => "CANCELED",
        };
        let mut object = Object::new();
        put(&mut object, "function", json!(function));
        put(&mut object, "state", json!(state));
        put(&mut object, "start_time", time(scan.started));
        put(&mut object, "end_time", time(scan.ended));
        for (key, bytes) in [
            ("to_examine", scan.to_examine),
            ("examined", scan.scanned),
            ("processed", scan.repaired),
        ] {
            put(&mut object, key, self.bytes(bytes));
        }
        put(&mut object, "errors", self.number(scan.errors));
        let paused = match scan.state {
            ScanState::Paused => time(scan.ended),
            ScanState::Running | ScanState::Finished | ScanState::Canceled if self.exact() => {
                self.number(0)
            }
            ScanState::Running | ScanState::Finished | ScanState::Canceled => json!("-"),
        };
        put(&mut object, "scrub_pause", paused);
        put(&mut object, "issued", self.bytes(scan.issued));
        object
    }

    /// The ordinary vdevs below the pool itself; in a flat list only leaves and what holds them.
    fn main_tree(&self, pool: &PoolStatus, naming: VdevNaming) -> Object {
        let mut below = Object::new();
        let ordinary = |vdev: &&VdevReport| vdev.class == VdevClass::Normal;
        for vdev in pool.vdevs.iter().filter(ordinary) {
            self.vdev(vdev, naming, &pool.name, &mut below);
        }
        let mut root = Object::new();
        put(&mut root, "name", json!(pool.name));
        put(&mut root, "vdev_type", json!(VdevType::Root.name()));
        put(&mut root, "guid", self.number(pool.guid));
        put(&mut root, "class", json!("normal"));
        put(&mut root, "state", json!(pool.root_state.word()));
        let counted = |vdev: &&VdevReport| vdev.class != VdevClass::Log;
        let tops = || pool.vdevs.iter().filter(counted);
        let allocated = tops().filter_map(|vdev| vdev.allocated).sum();
        self.space(
            &mut root,
            Some(allocated),
            tops().map(|vdev| vdev.size).sum(),
        );
        let errors = |of: fn(&VdevReport) -> u64| pool.vdevs.iter().map(of).sum::<u64>();
        put(
            &mut root,
            "read_errors",
            self.count(errors(|vdev| vdev.read_errors)),
        );
        put(
            &mut root,
            "write_errors",
            self.count(errors(|vdev| vdev.write_errors)),
        );
        let checksums = errors(|vdev| vdev.checksum_errors);
        put(&mut root, "checksum_errors", self.count(checksums));
        let mut out = Object::new();
        if self.flat() {
            out = below;
        } else {
            put(&mut root, "vdevs", below.into());
        }
        out.insert(pool.name.clone(), root.into());
        out
    }

    fn space(&self, into: &mut Object, allocated: Option<u64>, size: u64) {
        if let Some(allocated) = allocated.filter(|bytes| *bytes > 0) {
            put(into, "alloc_space", self.bytes(allocated));
        }
        if size > 0 {
            put(into, "total_space", self.bytes(size));
            put(into, "def_space", self.bytes(size));
        }
    }

    fn vdev(&self, vdev: &VdevReport, naming: VdevNaming, parent: &str, into: &mut Object) {
        if !vdev.is_there() {
            return;
        }
        let name = naming.name(vdev);
        let mut object = Object::new();
        put(&mut object, "name", json!(name));
        put(&mut object, "vdev_type", json!(vdev.kind));
        put(&mut object, "guid", self.number(vdev.guid));
        if let Some(path) = &vdev.path {
            put(&mut object, "path", json!(path));
        }
        put(&mut object, "class", json!(class_word(vdev.class)));
        put(&mut object, "state", json!(vdev.state.word()));
        if self.flat() {
            put(&mut object, "parent", json!(parent));
        }
        self.space(&mut object, vdev.allocated, vdev.size);
        if vdev.device_size > 0 {
            put(&mut object, "phys_space", self.bytes(vdev.device_size));
        }
        put(&mut object, "read_errors", self.count(vdev.read_errors));
        put(&mut object, "write_errors", self.count(vdev.write_errors));
        put(
            &mut object,
            "checksum_errors",
            self.count(vdev.checksum_errors),
        );
        if vdev.is_leaf() {
            self.leaf_details(&vdev.leaf, &mut object);
        }
        if vdev.state != VdevState::Online
            && let Some(cause) = &vdev.cause
        {
            put(&mut object, "aux", json!(cause.text()));
        }
        let mut children = Object::new();
        for child in &vdev.children {
            let place = if self.flat() {
                &mut *into
            } else {
                &mut children
            };
            self.vdev(child, naming, &name, place);
        }
        if !children.is_empty() {
            put(&mut object, "vdevs", children.into());
        }
        into.insert(name, object.into());
    }

    /// What of a leaf is asked for.
    fn leaf_details(&self, leaf: &LeafReport, object: &mut Object) {
        if leaf.resilver_deferred {
            put(object, "resilver_deferred", self.number(1));
        }
        let state = |work: LeafWork, none: &'static str| match work.state {
            LeafWorkState::None => none,
            LeafWorkState::Active => "ACTIVE",
            LeafWorkState::Suspended => "SUSPENDED",
            LeafWorkState::Complete => "COMPLETE",
        };
        if self.options.slow {
            put(object, "slow_ios", self.count(leaf.slow));
        }
        if self.options.initialize {
            let state = state(leaf.initialize, "UNINITIALIZED");
            put(object, "init_state", json!(state));
        }
        if self.options.trim {
            put(object, "trim_state", json!(state(leaf.trim, "UNTRIMMED")));
            put(object, "trim_notsup", self.number(0));
        }
    }

    fn exact(&self) -> bool {
        self.options.exact
    }

    fn flat(&self) -> bool {
        self.options.flat_vdevs
    }

    /// Bytes, as people or programs read them.
    fn bytes(&self, bytes: u64) -> JsonValue {
        if self.exact() {
            self.number(bytes)
        } else {
            json!(human_bytes(bytes))
        }
    }

    fn count(&self, count: u64) -> JsonValue {
        if self.exact() {
            self.number(count)
        } else {
            json!(human(count))
        }
    }
}

fn put(object: &mut Object, key: &str, value: JsonValue) {
    object.insert(key.to_owned(), value);
}

const fn class_word(class: VdevClass) -> &'static str {
    match class {
        VdevClass::Normal => "normal",
        VdevClass::Dedup => "dedup",
        VdevClass::Special => "special",
        VdevClass::Log => "log",
        VdevClass::Cache => "l2cache",
        VdevClass::Spare => "spare",
    }
}
