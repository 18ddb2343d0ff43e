//! What `zfs allow` can grant: the permissions, and how a grant is written in the pool.
//!
//! A key is `<who><scope>$<id>`; see the dataset layer. In upper case its permissions are names of
//! sets (`@name`).

use dsl::property::{Access, dataset};

/// What a change or a reader asks for: that the caller has been granted this.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Permission<'a>(&'a str);

/// Declares the permissions that are no property. There is no other way to ask for one: what the service asks for can
/// be granted.
macro_rules! operations {
    ($($constant:ident = $name:literal,)*) => {
        impl Permission<'static> {
            $(
                #[doc = concat!("`", $name, "`.")]
                pub const $constant: Self = Permission($name);
            )*

            /// All that are no property.
            const OPERATIONS: &[Self] = &[$(Self::$constant),*];
        }
    };
}

operations! {
    ALLOW = "allow",
    BOOKMARK = "bookmark",
    CHANGE_KEY = "change-key",
    CLONE = "clone",
    CREATE = "create",
    DESTROY = "destroy",
    DIFF = "diff",
    GROUPOBJQUOTA = "groupobjquota",
    GROUPOBJUSED = "groupobjused",
    GROUPQUOTA = "groupquota",
    GROUPUSED = "groupused",
    HOLD = "hold",
    LOAD_KEY = "load-key",
    MOUNT = "mount",
    PROJECTOBJQUOTA = "projectobjquota",
    PROJECTOBJUSED = "projectobjused",
    PROJECTQUOTA = "projectquota",
    PROJECTUSED = "projectused",
    PROMOTE = "promote",
    RECEIVE = "receive",
    RECEIVE_APPEND = "receive:append",
    RELEASE = "release",
    RENAME = "rename",
    ROLLBACK = "rollback",
    SEND = "send",
    SEND_ENCRYPTED = "send:encrypted",
    SEND_RAW = "send:raw",
    SHARE = "share",
    SNAPSHOT = "snapshot",
    USEROBJQUOTA = "userobjquota",
    USEROBJUSED = "userobjused",
    USERPROP = "userprop",
    USERQUOTA = "userquota",
    USERUSED = "userused",
}

impl<'a> Permission<'a> {
    /// The permission that setting or forgetting a property takes.
    #[must_use]
    pub fn of_property(property: &'a str) -> Self {
        if let Some((family, _)) = property.split_once('@') {
            return Self(family);
        }
        if property.contains(':') {
            Permission::USERPROP
        } else {
            Self(property)
        }
    }

    /// What a grant lists, to pass it on: a permission or the name of a set.
    #[must_use]
    pub const fn listed(name: &'a str) -> Self {
        Self(name)
    }

    /// As grants write it.
    #[must_use]
    pub const fn name(self) -> &'a str {
        self.0
    }
}

/// The length of a set's name with its `@`, at most.
const SET_NAME_MAX: usize = 64;

/// Whether there is such a permission.
#[must_use]
pub fn is_permission(name: &str) -> bool {
    let property = || dataset::find(name).is_some_and(|row| row.access != Access::ReadOnly);
    Permission::OPERATIONS.iter().any(|one| one.name() == name) || property()
}

/// Whether it can be the name of a set of permissions.
#[must_use]
pub fn is_set_name(name: &str) -> bool {
    let legal = |c: char| c.is_ascii_alphanumeric() || "-_.: ".contains(c);
    name.strip_prefix('@').is_some_and(|short| {
        !short.is_empty() && name.len() < SET_NAME_MAX && short.chars().all(legal)
    })
}

/// The key that grants sets where `key` grants permissions.
#[must_use]
pub fn key_of_sets(key: &str) -> String {
    let (who, rest) = key.split_at_checked(1).unwrap_or((key, ""));
    who.to_ascii_uppercase() + rest
}

#[cfg(test)]
mod tests;
