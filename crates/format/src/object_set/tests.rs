use super::*;
use crate::ObjectType;
use crate::object_type::SwapClass;
use crate::swap::class;

fn sample() -> ObjectSetPhys {
    let dnode = |kind| DnodePhys::new(kind, 16384, 17, ObjectType::NONE, 0, 1);
    ObjectSetPhys {
        meta_dnode: dnode(ObjectType::DNODE),
        log_header: LogHeader {
            flags: 3,
            ..LogHeader::EMPTY
        },
        kind: ObjectSetKind::FileSystem,
        flags: 7,
        portable_mac: [1; 32],
        local_mac: [2; 32],
        user_used: Some(dnode(ObjectType::USER_GROUP_USED)),
        group_used: None,
        project_used: Some(dnode(ObjectType::USER_GROUP_USED)),
    }
}

#[test]
fn round_trips_and_swaps_back() {
    let object_set = sample();
    let mut bytes = vec![0; SIZE];
    object_set.encode(&mut bytes).unwrap();
    assert_eq!(ObjectSetPhys::decode(&bytes).unwrap(), object_set);
    let before = bytes.clone();
    class(SwapClass::ObjectSet, &mut bytes);
    assert_ne!(bytes, before);
    class(SwapClass::ObjectSet, &mut bytes);
    assert_eq!(bytes, before);
}

#[test]
fn shorter_forms_have_no_accounting() {
    let mut object_set = sample();
    let mut bytes = vec![0; SIZE_OLD];
    assert!(object_set.encode(&mut bytes).is_err());
    object_set.user_used = None;
    object_set.project_used = None;
    object_set.encode(&mut bytes).unwrap();
    assert_eq!(ObjectSetPhys::decode(&bytes).unwrap(), object_set);
    assert!(ObjectSetPhys::decode(&bytes[..1000]).is_err());
}
