use admin::{
    DatasetRow, Setting, Source, Types, Value, VdevNaming, find_dataset_property,
    find_pool_property, *,
};

use super::*;

fn columns(names: &[&str]) -> Vec<admin::PropertyName> {
    names
        .iter()
        .map(|name| find_dataset_property(name).unwrap())
        .collect()
}

fn row(name: &str, kind: Types, txg: u64, used: u64) -> DatasetRow {
    DatasetRow {
        name: name.into(),
        kind,
        created_txg: txg,
        properties: vec![
            ("used".into(), Setting::measured(Value::Number(used))),
            (
                "type".into(),
                Setting::measured(Value::Text(kind.word().into())),
            ),
        ],
    }
}

fn names(rows: &[DatasetRow]) -> Vec<&str> {
    rows.iter().map(|row| row.name.as_str()).collect()
}

#[test]
fn datasets_in_their_natural_order() {
    let mut rows = vec![
        row("p/b#mark", Types::BOOKMARK, 3, 0),
        row("p/b@z", Types::SNAPSHOT, 5, 2),
        row("p/b@a", Types::SNAPSHOT, 7, 9),
        row("p/b", Types::FILESYSTEM, 2, 4),
        row("p/b/c", Types::FILESYSTEM, 2, 1),
        row("p", Types::FILESYSTEM, 1, 8),
        row("p@x", Types::SNAPSHOT, 9, 3),
    ];
    sort_datasets(&mut rows, &[]);
    assert_eq!(
        names(&rows),
        ["p", "p@x", "p/b", "p/b@z", "p/b@a", "p/b#mark", "p/b/c"]
    );
    let by_used = SortKey {
        property: find_dataset_property("used").unwrap(),
        descending: true,
    };
    sort_datasets(&mut rows, &[by_used]);
    assert_eq!(
        names(&rows),
        ["p/b@a", "p", "p/b", "p@x", "p/b@z", "p/b/c", "p/b#mark"]
    );
}

#[test]
fn a_list_with_missing_values() {
    let rows = [
        row("p", Types::FILESYSTEM, 1, 24_576),
        row("p@a", Types::SNAPSHOT, 4, 0),
    ];
    let shown = dataset_list(
        &rows,
        &columns(&["name", "used", "avail", "type"]),
        Style::default(),
    );
    assert_eq!(
        shown,
        "NAME   USED  AVAIL  TYPE\np       24K      -  filesystem\np@a      0B      -  snapshot\n"
    );
    let style = Style {
        scripted: true,
        exact: true,
    };
    assert_eq!(
        dataset_list(&rows, &columns(&["name", "used", "avail"]), style),
        "p\t24576\t-\np@a\t0\t-\n"
    );
}

#[test]
fn get_in_columns() {
    let rows = [GetRow {
        name: "tank/a".into(),
        property: find_dataset_property("recordsize").unwrap(),
        setting: Some(Setting::from(
            Value::Number(131_072),
            Source::Inherited("tank".into()),
        )),
    }];
    assert_eq!(
        get(&rows, &GetField::USUAL, Style::default()),
        "NAME    PROPERTY    VALUE  SOURCE\ntank/a  recordsize  128K   inherited from tank\n"
    );
}

fn leaf(path: &str) -> VdevReport {
    VdevReport {
        path: Some(path.into()),
        ..VdevReport::healthy("file", 7)
    }
}

fn pool(name: &str, vdevs: Vec<VdevReport>) -> PoolStatus {
    PoolStatus {
        txg: 5,
        vdevs,
        ..PoolStatus::healthy(name, 1)
    }
}

#[test]
fn status_of_a_mirror_and_of_classes() {
    let mirror = VdevReport {
        kind: "mirror".into(),
        path: None,
        children: vec![leaf("/tmp/u/mirror/m0.img"), leaf("/tmp/u/mirror/m1.img")],
        ..leaf("")
    };
    assert_eq!(
        status(&pool("gmirror", vec![mirror]), StatusOptions::default()),
        "  pool: gmirror\n state: ONLINE\nconfig:\n\n\
         \tNAME                      STATE     READ WRITE CKSUM\n\
         \tgmirror                   ONLINE       0     0     0\n\
         \t  mirror-0                ONLINE       0     0     0\n\
         \t    /tmp/u/mirror/m0.img  ONLINE       0     0     0\n\
         \t    /tmp/u/mirror/m1.img  ONLINE       0     0     0\n\
         \nerrors: No known data errors\n"
    );
    let log = VdevReport {
        class: VdevClass::Log,
        ..leaf("/d/log")
    };
    let spare = VdevReport {
        class: VdevClass::Spare,
        state: VdevState::Available,
        ..leaf("/d/spare")
    };
    let text = status(
        &pool("p", vec![leaf("/d/a"), log, spare]),
        StatusOptions::default(),
    );
    assert!(
        text.contains("\tlogs\t\n\t  /d/log    ONLINE       0     0     0\n"),
        "{text}"
    );
    assert!(
        text.contains("\tspares\n\t  /d/spare  AVAIL   \n"),
        "{text}"
    );
}

#[test]
fn status_of_scans_and_errors() {
    let mut sick = pool(
        "p",
        vec![VdevReport {
            checksum_errors: 3,
            ..leaf("/d/a")
        }],
    );
    sick.error_count = 2;
    sick.scan = Some(ScanReport {
        kind: ScanKind::Scrub,
        state: ScanState::Paused,
        started: 0,
        ended: 0,
        elapsed: 0,
        errors: 0,
        repaired: 0,
        to_examine: 4096,
        scanned: 2048,
        issued: 1024,
    });
    let text = status(&sick, StatusOptions::default());
    assert!(!sick.is_healthy());
    assert!(text.contains("   see: https://openzfs.github.io/openzfs-docs/msg/ZFS-8000-8A\n"));
    assert!(
        text.contains("\t2K / 4K scanned, 1K / 4K issued\n\t0B repaired, 25.00% done\n"),
        "{text}"
    );
    assert!(text.contains("errors: 2 data errors, use '-v' for a list\n"));
    let gone = VdevReport {
        absent: true,
        state: VdevState::Unavailable,
        cause: Some(VdevCause::CannotOpen),
        ..leaf("/d/b")
    };
    let text = status(&pool("p", vec![gone]), StatusOptions::default());
    assert!(
        text.contains("\t  7         UNAVAIL      0     0     0  was /d/b\n"),
        "{text}"
    );
    assert!(text.contains("ZFS-8000-2Q"));
}

#[test]
fn pools_in_columns() {
    let names = ["name", "size", "cap", "dedup", "health", "altroot"];
    let columns: Vec<_> = names
        .iter()
        .map(|name| find_pool_property(name).unwrap())
        .collect();
    let number = |value| Setting::measured(Value::Number(value));
    let report = PoolReport {
        name: "tank".into(),
        guid: 1,
        txg: 1,
        properties: vec![
            ("size".into(), number(80 << 20)),
            ("capacity".into(), number(3)),
            ("dedupratio".into(), number(100)),
            (
                "health".into(),
                Setting::measured(Value::Text("ONLINE".into())),
            ),
        ],
        vdevs: Vec::new(),
    };
    assert_eq!(
        pool_list(
            std::slice::from_ref(&report),
            &columns,
            PoolListOptions::default()
        ),
        "NAME   SIZE    CAP  DEDUP    HEALTH  ALTROOT\ntank    80M     3%  1.00x    ONLINE  -\n"
    );
}

#[test]
fn importable_pools() {
    let found = ImportCandidate {
        name: "tank".into(),
        guid: 42,
        state: VdevState::Online,
        cause: None,
        destroyed: false,
        comment: None,
        import: ImportState::Ready,
        vdevs: vec![leaf("/d/a.img")],
    };
    assert_eq!(
        import_list(&[found.clone(), found], VdevNaming::default()),
        "  pool: tank\n    id: 42\n state: ONLINE\n\
         action: The pool can be imported using its name or numeric identifier.\nconfig:\n\n\
         \ttank        ONLINE\n\t  /d/a.img  ONLINE\n\n  pool: tank\n    id: 42\n state: ONLINE\n\
         action: The pool can be imported using its name or numeric identifier.\nconfig:\n\n\
         \ttank        ONLINE\n\t  /d/a.img  ONLINE\n"
    );
}

#[test]
fn a_pool_to_be_imported_is_shown_with_what_it_does_not_use() {
    let cache = VdevReport {
        class: VdevClass::Cache,
        activity: Some("unused".into()),
        ..leaf("/d/cache")
    };
    let spare = VdevReport {
        class: VdevClass::Spare,
        ..leaf("/d/spare")
    };
    let found = ImportCandidate {
        name: "tank".into(),
        guid: 42,
        state: VdevState::Online,
        cause: None,
        destroyed: false,
        comment: None,
        import: ImportState::Ready,
        vdevs: vec![leaf("/d/a.img"), cache.clone(), spare],
    };
    let text = import_list(&[found], VdevNaming::default());
    let groups = "\tcache\n\t  /d/cache\n\tspares\n\t  /d/spare\n";
    assert!(text.ends_with(groups), "{text}");
    let text = status(
        &pool("p", vec![leaf("/d/a"), cache]),
        StatusOptions::default(),
    );
    let line = "\tcache\n\t  /d/cache  ONLINE       0     0     0  (unused)\n";
    assert!(text.contains(line), "{text}");
}

#[test]
fn history_lines() {
    let record = |event| HistoryRecord {
        time: 0,
        event,
        user: Some(0),
        host: Some("h".into()),
        zone: Some("linux".into()),
    };
    let records = [
        record(HistoryEvent::Command("zpool create p f".into())),
        record(HistoryEvent::Internal {
            name: "set".into(),
            txg: 5,
            dataset: Some(("p".into(), 54)),
            text: "compression=15".into(),
        }),
    ];
    let time = admin::date::history(0);
    assert_eq!(
        history("p", &records, false, false),
        format!("History for 'p':\n{time} zpool create p f\n\n")
    );
    let long = history("p", &records, true, true);
    assert!(long.contains(&format!(
        "{time} [txg:5] set p (54) compression=15 [user 0 (root) on h:linux]\n"
    )));
}
