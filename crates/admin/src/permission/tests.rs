use super::*;

#[test]
fn what_is_asked_for_can_be_granted() {
    for operation in Permission::OPERATIONS {
        assert!(is_permission(operation.name()), "{operation:?}");
    }
    // What setting a property takes, of whatever kind the property is.
    let set = [
        "atime",
        "userquota@0",
        "projectobjquota@7",
        "org.example:note",
    ];
    for property in set {
        let permission = Permission::of_property(property);
        assert!(is_permission(permission.name()), "{permission:?}");
    }
    assert!(!is_permission("used"));
    assert!(!is_permission("touch"));
}

#[test]
fn what_setting_a_property_takes() {
    let of = |property| Permission::of_property(property).name();
    assert_eq!(of("atime"), "atime");
    assert_eq!(of("userquota@0"), "userquota");
    assert_eq!(of("org.example:note"), "userprop");
}
