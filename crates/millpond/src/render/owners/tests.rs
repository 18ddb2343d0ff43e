use super::*;

fn record(kind: OwnerKind, id: u64, figures: [Option<u64>; 4]) -> OwnerRecord {
    let [used, quota, objects_used, object_quota] = figures;
    OwnerRecord {
        used,
        quota,
        objects_used,
        object_quota,
        ..OwnerRecord::new(kind, id)
    }
}

fn names() -> OwnerNames {
    OwnerNames::parse(
        "root:x:0:0::/:/bin/sh\njoe:x:1001:1001\nbroken\nother:x:0:0\nodd:x:y:\n",
        "wheel:x:0:\n",
    )
}

fn sorted(records: &mut [OwnerRecord], names: &OwnerNames, field: OwnerField, descending: bool) {
    sort_owners(records, names, &[OwnerSort { field, descending }]);
}

#[test]
fn tables_of_users() {
    let mut records = [
        record(
            OwnerKind::User,
            4242,
            [Some(512), None, Some(1), Some(2000)],
        ),
        record(
            OwnerKind::User,
            1001,
            [Some(0), Some(5 << 20), Some(0), None],
        ),
        record(
            OwnerKind::User,
            0,
            [Some(1_701_888), Some(0), Some(320), None],
        ),
    ];
    sort_owners(&mut records, &names(), &[]);
    let shown = owner_space(&records, &names(), &OwnerField::ALL, Style::default());
    assert_eq!(
        shown,
        "TYPE        NAME   USED  QUOTA  OBJUSED  OBJQUOTA\n\
         POSIX User  4242   512B   none        1     1.95K\n\
         POSIX User  joe      0B     5M        0      none\n\
         POSIX User  root  1.62M   none      320      none\n"
    );
    let style = Style {
        scripted: true,
        exact: true,
    };
    let fields = [
        OwnerField::Name,
        OwnerField::Used,
        OwnerField::Quota,
        OwnerField::ObjectQuota,
    ];
    sorted(&mut records, &names(), OwnerField::Used, true);
    assert_eq!(
        owner_space(&records, &names(), &fields, style),
        "root\t1701888\t0\t0\n4242\t512\t0\t2000\njoe\t0\t5242880\t0\n"
    );
}

#[test]
fn kinds_and_numbers() {
    let nothing = [None; 4];
    let windows = (3 << 32) | 500;
    let mut records = [
        record(OwnerKind::User, windows, nothing),
        record(OwnerKind::User, 10, nothing),
        record(OwnerKind::User, 9, nothing),
        record(OwnerKind::Group, 0, nothing),
    ];
    let numbers = OwnerNames::default();
    sort_owners(&mut records, &numbers, &[]);
    let fields = [
        OwnerField::Type,
        OwnerField::Name,
        OwnerField::Used,
        OwnerField::ObjectsUsed,
    ];
    assert_eq!(
        owner_space(&records, &numbers, &fields, Style::default()),
        "TYPE         NAME   USED  OBJUSED\n\
         POSIX Group  0         -        -\n\
         POSIX User   9         -        -\n\
         POSIX User   10        -        -\n\
         SMB User     3-500     -        -\n"
    );
    // Without -n digits are compared as letters; projects have numbers only.
    sorted(&mut records, &names(), OwnerField::Name, false);
    let ids: Vec<u64> = records.iter().map(|record| record.id).collect();
    assert_eq!(ids, [10, windows, 9, 0]);
    let mut projects = [10, 9, 1 << 33].map(|id| record(OwnerKind::Project, id, nothing));
    sorted(&mut projects, &names(), OwnerField::Name, true);
    assert_eq!(
        owner_space(&projects, &names(), &fields[..2], Style::default()),
        "TYPE     NAME\nProject  8589934592\nProject  10\nProject  9\n"
    );
}
