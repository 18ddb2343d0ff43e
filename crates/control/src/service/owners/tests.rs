use super::*;

#[test]
fn names_say_whose_and_what() {
    let parsed = |name| {
        OwnerProperty::parse(name).map(|found| (found.kind, found.unit, found.is_limit, found.id()))
    };
    let (bytes, objects) = (QuotaUnit::Bytes, QuotaUnit::Objects);
    assert_eq!(
        parsed("userquota@7"),
        Some((QuotaKind::User, bytes, true, Some(7)))
    );
    assert_eq!(
        parsed("groupobjused@0"),
        Some((QuotaKind::Group, objects, false, Some(0)))
    );
    assert_eq!(
        parsed("projectobjquota@4294967295"),
        Some((QuotaKind::Project, objects, true, Some(4_294_967_295)))
    );
    assert_eq!(
        parsed("userused@root"),
        Some((QuotaKind::User, bytes, false, Some(0)))
    );
    assert_eq!(
        parsed("projectused@root"),
        Some((QuotaKind::Project, bytes, false, None))
    );
    for other in ["written@a", "userquota", "quota", "feature@x", "user@1"] {
        assert_eq!(parsed(other), None);
    }
}

#[test]
fn tables_give_numbers() {
    let table = "root:x:0:0:root:/root:/bin/sh\njoe:x:1001:1001::/home/joe:/bin/sh\nbad:x\n";
    assert_eq!(id_in(table, "joe"), Some(1001));
    assert_eq!(id_in(table, "bad"), None);
    assert_eq!(id_in(table, "jo"), None);
}
