use super::*;

fn field(name: &str, value: EventValue) -> EventField {
    EventField {
        name: name.to_owned(),
        value,
    }
}

/// The lines below the first one are those of OpenZFS 2.3's `zpool events -v`, and of reports of
/// its users.
#[test]
fn particulars_are_shown_as_openzfs_shows_them() {
    let list = vec![
        field("version", EventValue::Number(0)),
        field("scheme", EventValue::Text("zfs".to_owned())),
    ];
    let record = EventRecord {
        id: 1,
        time_ns: 0x6b02_164f * 1_000_000_000 + 0x2b27_6dc1,
        class: "sysevent.fs.zfs.pool_import".to_owned(),
        fields: vec![
            field("detector", EventValue::List(list)),
            field("pool", EventValue::Text("v5".to_owned())),
            field("vdev_state", EventValue::Named("FAULTED".to_owned(), 5)),
            field("time", EventValue::Time(0x6b02_164f, 0x2b27_6dc1)),
            field("eid", EventValue::Number(1)),
        ],
    };
    let text = events(std::slice::from_ref(&record), false, true);
    let (head, body) = text.split_once('\n').unwrap();
    assert!(
        head.ends_with(".724004289 sysevent.fs.zfs.pool_import"),
        "{head}"
    );
    assert_eq!(head.find("sysevent"), EVENTS_HEADER.find("CLASS"));
    assert_eq!(
        body,
        "        detector = (embedded nvlist)\n                version = 0x0\n                \
         scheme = \"zfs\"\n        (end detector)\n        pool = \"v5\"\n        \
         vdev_state = \"FAULTED\" (0x5)\n        time = 0x6b02164f 0x2b276dc1 \n        \
         eid = 0x1\n\n"
    );
    let line = events(&[record], true, false);
    assert_eq!(line.replace('\t', " "), format!("{head}\n"));
    assert_eq!(line.matches('\t').count(), 1);
}
