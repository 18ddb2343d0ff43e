//! Who may do what: the grants, and how changes and readers ask for permissions.

use std::sync::Arc;

use admin::{Assignments, Caller, Failure, FailureKind, GrantRecord, Permission, name};
use dsl::property::pool::DELEGATION;
use dsl::{Actor, Directory};

use super::Service;
use super::refusal::unreadable;

/// Why somebody is refused.
const DENIED: &str = "permission denied";

/// `cannot VERB 'NAME': permission denied`.
pub(super) fn denied(verb: &str, name: &str) -> Failure {
    Failure::cannot(FailureKind::Permission, verb, name, DENIED)
}

pub(super) fn denied_plainly(what: &str) -> Failure {
    Failure::new(FailureKind::Permission, format!("cannot {what}: {DENIED}"))
}

/// The groups of a user besides the one that a process runs with, as `/etc/group` says.
fn groups_of(user: u32) -> Vec<u32> {
    let passwd = std::fs::read_to_string("/etc/passwd").unwrap_or_default();
    let name = passwd.lines().find_map(|line| {
        let mut fields = line.split(':');
        let name = fields.next()?;
        (fields.nth(1)?.parse() == Ok(user)).then(|| name.to_owned())
    });
    let Some(name) = name else {
        return Vec::new();
    };
    let group = std::fs::read_to_string("/etc/group").unwrap_or_default();
    let of_line = |line: &str| {
        let mut fields = line.split(':');
        let id = fields.nth(2)?.parse().ok()?;
        fields
            .next()?
            .split(',')
            .any(|member| member == name)
            .then_some(id)
    };
    group.lines().filter_map(of_line).collect()
}

/// On whose behalf a caller's change is made. The daemon's own user and root may do everything.
pub(super) fn actor_of(caller: &Caller) -> Actor {
    let privileged = caller.uid == 0 || caller.uid == sys::user_id();
    let mut groups = Vec::new();
    if !privileged {
        groups = groups_of(caller.uid);
        groups.push(caller.gid);
    }
    Actor {
        user: caller.uid,
        groups,
        privileged,
    }
}

impl Service {
    /// The grants of a dataset, then those above it.
    pub(super) fn grants(&self, dataset: &str) -> Result<Vec<GrantRecord>, Failure> {
        let head = self.head("open", dataset)?;
        let mut found = Vec::new();
        let mut current = Some(head.directory());
        while let Some(directory) = current {
            let grants = directory.grants().map_err(unreadable)?;
            found.push(GrantRecord {
                dataset: directory.name(),
                grants: grants
                    .into_iter()
                    .map(|grant| (grant.key, grant.permissions))
                    .collect(),
            });
            current = directory.parent();
        }
        Ok(found)
    }

    /// Whether grants count in this pool.
    fn delegates(&self) -> bool {
        // A property that cannot be read counts as its default.
        let stored = self.pool.get(DELEGATION);
        stored.map_or(true, |found| found.value)
    }

    /// Whether the caller has all these permissions on a dataset. A dataset that is not there
    /// refuses by itself.
    fn has_all(
        &self,
        actor: &Actor,
        dataset: &str,
        permissions: &[Permission<'_>],
    ) -> Result<bool, Failure> {
        if actor.privileged {
            return Ok(true);
        }
        let Ok(head) = self.dsl.head(name::dataset_of(dataset)) else {
            return Ok(true);
        };
        if !self.delegates() {
            return Ok(false);
        }
        let directory: Arc<Directory> = head.directory();
        for permission in permissions {
            if !directory
                .permits(actor, permission.name())
                .map_err(unreadable)?
            {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Refuses with `failure` unless the caller has all these permissions on a dataset.
    pub(super) fn require(
        &self,
        actor: &Actor,
        dataset: &str,
        permissions: &[Permission<'_>],
        failure: impl FnOnce() -> Failure,
    ) -> Result<(), Failure> {
        if self.has_all(actor, dataset, permissions)? {
            Ok(())
        } else {
            Err(failure())
        }
    }

    /// Refuses with `failure` unless the caller has at least one of these permissions on a dataset.
    pub(super) fn require_one(
        &self,
        actor: &Actor,
        dataset: &str,
        permissions: &[Permission<'_>],
        failure: impl FnOnce() -> Failure,
    ) -> Result<(), Failure> {
        for permission in permissions {
            if self.has_all(actor, dataset, &[*permission])? {
                return Ok(());
            }
        }
        Err(failure())
    }

    /// These datasets, and with `recursive` all below.
    pub(super) fn these(&self, names: &[String], recursive: bool) -> Result<Vec<String>, Failure> {
        if !recursive {
            return Ok(names.to_vec());
        }
        let mut found = Vec::new();
        for name in names {
            // What is not there is refused for that.
            if let Ok(directory) = self.dsl.directory(name::dataset_of(name)) {
                let heads = self.dsl.heads_under(&directory).map_err(unreadable)?;
                found.extend(heads.iter().map(|head| head.directory().name()));
            }
        }
        Ok(found)
    }

    pub(super) fn require_each(
        &self,
        actor: &Actor,
        names: &[String],
        recursive: bool,
        permission: Permission<'_>,
        failure: impl Fn() -> Failure,
    ) -> Result<(), Failure> {
        for name in self.these(names, recursive)? {
            self.require(actor, &name, &[permission], &failure)?;
        }
        Ok(())
    }

    /// The parent of something new, and what is set on it. Parents that are made with it are looked
    /// at one by one when they are made.
    pub(super) fn authorize_new(
        &self,
        actor: &Actor,
        new: &str,
        properties: &Assignments,
    ) -> Result<(), Failure> {
        let mut parent = name::parent_of(new);
        while let Some(above) = parent.filter(|above| self.dsl.head(above).is_err()) {
            parent = name::parent_of(above);
        }
        let Some(parent) = parent else {
            return Ok(());
        };
        let failure = || denied("create", new);
        self.require(
            actor,
            parent,
            &[Permission::CREATE, Permission::MOUNT],
            failure,
        )?;
        for (property, _) in properties {
            self.require(actor, parent, &[Permission::of_property(property)], failure)?;
        }
        Ok(())
    }

    /// Only the administrator unmounts; so nobody else does what takes unmounting.
    pub(super) fn require_unmounted(&self, actor: &Actor, dataset: &str) -> Result<(), Failure> {
        if actor.privileged {
            return Ok(());
        }
        match self.mounted_below(dataset).first() {
            Some(mount) => Err(denied("unmount", &mount.path.to_string_lossy())),
            None => Ok(()),
        }
    }

    /// Who may read what is not for everybody: `what` names it.
    pub(super) fn may_read(
        &self,
        caller: &Caller,
        dataset: &str,
        permissions: &[Permission<'_>],
        what: &str,
    ) -> Result<(), Failure> {
        let actor = actor_of(caller);
        self.require(&actor, dataset, permissions, || denied_plainly(what))
    }

    /// What only the administrator may read.
    pub(super) fn may_read_all(&self, caller: &Caller, what: &str) -> Result<(), Failure> {
        if actor_of(caller).privileged {
            Ok(())
        } else {
            Err(denied_plainly(what))
        }
    }
}
