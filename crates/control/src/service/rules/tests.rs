use super::*;

fn check_one(kind: Types, name: &str, value: Value) -> Result<(), String> {
    let target = Target {
        kind,
        creating: false,
    };
    check(
        target,
        &vec![(name.to_owned(), value)],
        &|needed| match needed {
            Requirement::Feature(feature) => feature.name != "zstd_compress",
            Requirement::Version(version) => version <= 20,
        },
    )
    .map_err(|error| error.to_string())
}

#[test]
fn what_may_be_set() {
    let number = Value::Number;
    assert_eq!(check_one(Types::FILESYSTEM, "atime", number(0)), Ok(()));
    assert_eq!(
        check_one(Types::FILESYSTEM, "a:b", Value::Text("x".into())),
        Ok(())
    );
    assert_eq!(
        check_one(Types::SNAPSHOT, "a:b", Value::Text("x".into())),
        Ok(())
    );
    let refused = |kind, name, value| check_one(kind, name, value).unwrap_err();
    assert_eq!(
        refused(Types::VOLUME, "atime", number(0)),
        "'atime' does not apply to datasets of this type"
    );
    assert_eq!(
        refused(Types::FILESYSTEM, "used", number(0)),
        "'used' is readonly"
    );
    assert_eq!(
        refused(Types::SNAPSHOT, "devices", number(0)),
        "this property can not be modified for snapshots"
    );
    assert_eq!(
        refused(Types::FILESYSTEM, "compression", number(16 + (3 << 7))),
        "pool and or dataset must be upgraded to set this property or value"
    );
    for (name, value) in [("compression", 14), ("compression", 15), ("dedup", 2)] {
        assert_eq!(check_one(Types::FILESYSTEM, name, number(value)), Ok(()));
    }
    for (name, value) in [("dedup", 1), ("version", 5)] {
        assert_eq!(
            refused(Types::FILESYSTEM, name, number(value)),
            "pool and or dataset must be upgraded to set this property or value"
        );
    }
}

#[test]
fn reservations_of_volumes_are_those_of_openzfs() {
    // A golden pool's volume of 32 MB with blocks of 8 KB.
    assert_eq!(volume_reservation(33_554_432, 8192, 1), 36_700_160);
}
