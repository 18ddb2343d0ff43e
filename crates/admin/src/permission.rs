//! What `zfs allow` can grant: the permissions, and how a grant is written in the pool.
//!
//! A key is `<who><scope>$<id>`; see the dataset layer. In upper case its permissions are names of
//! sets (`@name`).

use dsl::property::{Access, dataset};

/// Permissions that are no property: what they allow.
const OPERATIONS: [&str; 33] = [
    "allow",
    "bookmark",
    "change-key",
    "clone",
    "create",
    "destroy",
    "diff",
    "groupobjquota",
    "groupobjused",
    "groupquota",
    "groupused",
    "hold",
    "load-key",
    "mount",
    "projectobjquota",
    "projectobjused",
    "projectquota",
    "projectused",
    "promote",
    "receive",
    "receive:append",
    "release",
    "rename",
    "rollback",
    "send",
    "send:encrypted",
    "send:raw",
    "share",
    "snapshot",
    "userobjquota",
    "userobjused",
    "userprop",
    "userquota",
];
/// The last of them by name.
const LAST_OPERATION: &str = "userused";
/// The length of a set's name with its `@`, at most.
const SET_NAME_MAX: usize = 64;

/// Whether there is such a permission.
#[must_use]
pub fn is_permission(name: &str) -> bool {
    let property = || dataset::find(name).is_some_and(|row| row.access != Access::ReadOnly);
    OPERATIONS.contains(&name) || name == LAST_OPERATION || property()
}

/// Whether it can be the name of a set of permissions.
#[must_use]
pub fn is_set_name(name: &str) -> bool {
    let legal = |c: char| c.is_ascii_alphanumeric() || "-_.: ".contains(c);
    name.strip_prefix('@').is_some_and(|short| {
        !short.is_empty() && name.len() < SET_NAME_MAX && short.chars().all(legal)
    })
}

/// The permission that setting or forgetting a property takes.
#[must_use]
pub fn permission_for(property: &str) -> String {
    if let Some((family, _)) = property.split_once('@') {
        return family.to_owned();
    }
    if property.contains(':') {
        "userprop".to_owned()
    } else {
        property.to_owned()
    }
}

/// The key that grants sets where `key` grants permissions.
#[must_use]
pub fn key_of_sets(key: &str) -> String {
    let (who, rest) = key.split_at_checked(1).unwrap_or((key, ""));
    who.to_ascii_uppercase() + rest
}
