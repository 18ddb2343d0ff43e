//! Who may do what: grants, and the permissions that each change takes.

use std::sync::Arc;

use dsl::{Actor, ChangeGrants, Directory, Grant};

use super::Service;
use super::refusal::{refused, unreadable};
use crate::message::{Assignments, Caller, Change, DestroyTarget};
use crate::name;
use crate::permission::permission_for;
use crate::report::GrantRecord;
use crate::{Failure, FailureKind};

/// Why somebody is refused.
const DENIED: &str = "permission denied";

/// `cannot VERB 'NAME': permission denied`.
fn denied(verb: &str, name: &str) -> Failure {
    Failure::cannot(FailureKind::Permission, verb, name, DENIED)
}

fn denied_plainly(what: &str) -> Failure {
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

    /// Grants, or takes back, here and with `recursive` on everything below.
    pub(super) fn delegate(
        &self,
        dataset: &str,
        grant: bool,
        recursive: bool,
        changes: &[(String, Vec<String>)],
    ) -> Result<(), Failure> {
        let head = self.head("open", dataset)?;
        let paths: Vec<String> = if recursive {
            let heads = self
                .dsl
                .heads_under(&head.directory())
                .map_err(unreadable)?;
            heads.iter().map(|head| head.directory().name()).collect()
        } else {
            vec![dataset.to_owned()]
        };
        for path in paths {
            let task = ChangeGrants {
                path: path.clone(),
                grant,
                changes: changes
                    .iter()
                    .map(|(key, permissions)| Grant {
                        key: key.clone(),
                        permissions: permissions.clone(),
                    })
                    .collect(),
            };
            self.run(task)
                .map_err(|error| refused("set permissions on", &path, &error))?;
        }
        Ok(())
    }

    /// Whether grants count in this pool.
    fn delegates(&self) -> bool {
        let stored = self.pool.property("delegation");
        !matches!(stored, Ok(Some(dsl::PropertyValue::Number(0))))
    }

    /// Whether the caller has all these permissions on a dataset. A dataset that is not there
    /// refuses by itself.
    fn has_all(&self, actor: &Actor, dataset: &str, permissions: &[&str]) -> Result<bool, Failure> {
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
            if !directory.permits(actor, permission).map_err(unreadable)? {
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
        permissions: &[&str],
        failure: impl FnOnce() -> Failure,
    ) -> Result<(), Failure> {
        if self.has_all(actor, dataset, permissions)? {
            Ok(())
        } else {
            Err(failure())
        }
    }

    /// Refuses what the caller may not. Root and the daemon's own user may everything, others what
    /// is granted to them.
    pub(super) fn authorize(&self, actor: &Actor, change: &Change) -> Result<(), Failure> {
        if actor.privileged {
            return Ok(());
        }
        match change {
            // Parents, children and clones are looked at where they are found.
            Change::Create {
                name, properties, ..
            } => self.authorize_new(actor, name, properties),
            Change::Clone {
                snapshot,
                name,
                properties,
                ..
            } => {
                let failure = || denied("create", name);
                self.require(actor, snapshot, &["clone"], failure)?;
                self.authorize_new(actor, name, properties)
            }
            Change::Destroy { target, .. } => {
                let (name, failure) = match target {
                    DestroyTarget::Dataset(name) => (name, denied("destroy", name)),
                    DestroyTarget::Bookmark(name) => (name, denied("destroy", name)),
                    DestroyTarget::Snapshots { dataset, .. } => {
                        (dataset, denied_plainly("destroy snapshots"))
                    }
                };
                self.require(actor, name, &["destroy", "mount"], || failure)
            }
            Change::Set {
                names, properties, ..
            } => self.authorize_properties(actor, names, properties),
            Change::Inherit {
                names,
                property,
                recursive,
                ..
            } => {
                let permission = permission_for(property);
                for name in self.these(names, *recursive)? {
                    let text = format!("inherit {property} for '{name}'");
                    self.require(actor, &name, &[&permission], || denied_plainly(&text))?;
                }
                Ok(())
            }
            _ => self.authorize_use(actor, change),
        }
    }

    fn authorize_use(&self, actor: &Actor, change: &Change) -> Result<(), Failure> {
        match change {
            Change::Snapshot {
                names, recursive, ..
            } => self.require_each(actor, names, *recursive, "snapshot", || {
                denied_plainly("create snapshots ")
            }),
            Change::Hold {
                snapshots,
                recursive,
                ..
            } => self.require_each(actor, snapshots, *recursive, "hold", || {
                denied_plainly("hold")
            }),
            Change::Release {
                snapshots,
                recursive,
                ..
            } => self.require_each(actor, snapshots, *recursive, "release", || {
                denied_plainly("release")
            }),
            Change::Rollback {
                snapshot,
                destroy_later,
                ..
            } => {
                let failure = || denied("rollback", name::dataset_of(snapshot));
                self.require(actor, snapshot, &["rollback"], failure)?;
                let more: &[&str] = if *destroy_later {
                    &["destroy", "mount"]
                } else {
                    &[]
                };
                self.require(actor, snapshot, more, failure)
            }
            Change::Bookmark { source, name } => {
                let failure = || denied("create bookmark", name);
                self.require(actor, source, &["bookmark"], failure)?;
                self.require(actor, name, &["bookmark"], failure)
            }
            Change::Promote { name } => self.authorize_promotion(actor, name),
            Change::Rename {
                from,
                to,
                recursive,
                ..
            } => self.authorize_renaming(actor, from, to, *recursive),
            Change::Delegate {
                name,
                grant,
                changes,
                recursive,
            } => {
                let failure = || denied("set permissions on", name);
                if *grant {
                    let all = changes.iter().flat_map(|(_, granted)| granted);
                    let all: Vec<&str> = all.map(String::as_str).chain(["allow"]).collect();
                    return self.require(actor, name, &all, failure);
                }
                // Taking back is for one's own grants.
                let (here, below) = (format!("ul${}", actor.user), format!("ud${}", actor.user));
                let own =
                    |key: &str| key.eq_ignore_ascii_case(&here) || key.eq_ignore_ascii_case(&below);
                if *recursive || !changes.iter().all(|(key, _)| own(key)) {
                    return Err(failure());
                }
                self.require(actor, name, &["allow"], failure)
            }
            Change::Sync => Ok(()),
            other => Err(self.denied_of_pool(other)),
        }
    }

    /// What only the administrator does.
    fn denied_of_pool(&self, change: &Change) -> Failure {
        let pool = self.dsl.pool_name();
        match change {
            Change::Mount { name, .. } => denied("mount", name.as_deref().unwrap_or(&pool)),
            Change::Unmount { name, .. } => denied("unmount", name.as_deref().unwrap_or(&pool)),
            Change::SetPool { .. } | Change::SetVdev { .. } => denied("set property for", &pool),
            Change::Scrub(_) | Change::WaitScrub => denied_plainly(&format!("scrub {pool}")),
            Change::Trim { .. } | Change::WaitTrim { .. } => {
                denied_plainly(&format!("trim {pool}"))
            }
            Change::Export { .. } => denied("export", &pool),
            Change::DestroyPool { .. } => denied("destroy", &pool),
            Change::AddVdevs { .. } => denied("add to", &pool),
            Change::RemoveVdevs { .. } => denied("remove from", &pool),
            Change::Upgrade => denied("upgrade", &pool),
            Change::Clear { .. } => denied_plainly(&format!("clear errors for {pool}")),
            _ => denied("change", &pool),
        }
    }

    /// These datasets, and with `recursive` all below.
    fn these(&self, names: &[String], recursive: bool) -> Result<Vec<String>, Failure> {
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

    fn require_each(
        &self,
        actor: &Actor,
        names: &[String],
        recursive: bool,
        permission: &str,
        failure: impl Fn() -> Failure,
    ) -> Result<(), Failure> {
        for name in self.these(names, recursive)? {
            self.require(actor, &name, &[permission], &failure)?;
        }
        Ok(())
    }

    /// The parent of something new, and what is set on it. Parents that are made with it are looked
    /// at one by one when they are made.
    fn authorize_new(
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
        self.require(actor, parent, &["create", "mount"], failure)?;
        for (property, _) in properties {
            self.require(actor, parent, &[&permission_for(property)], failure)?;
        }
        Ok(())
    }

    fn authorize_properties(
        &self,
        actor: &Actor,
        names: &[String],
        properties: &Assignments,
    ) -> Result<(), Failure> {
        for name in names {
            for (property, _) in properties {
                let failure = || denied("set property for", name);
                self.require(actor, name, &[&permission_for(property)], failure)?;
            }
        }
        Ok(())
    }

    fn authorize_promotion(&self, actor: &Actor, name: &str) -> Result<(), Failure> {
        let failure = || denied("promote", name);
        self.require(actor, name, &["promote", "mount"], failure)?;
        let Ok(head) = self.dsl.head(name) else {
            return Ok(());
        };
        if let Some(origin) = head.directory().origin().map_err(unreadable)? {
            let origin = origin.directory().name();
            self.require(actor, &origin, &["promote", "mount"], failure)?;
        }
        Ok(())
    }

    fn authorize_renaming(
        &self,
        actor: &Actor,
        from: &str,
        to: &str,
        recursive: bool,
    ) -> Result<(), Failure> {
        let failure = || denied("rename", from);
        for name in self.these(&[from.to_owned()], recursive)? {
            self.require(actor, &name, &["rename", "mount"], failure)?;
        }
        if from.contains('@') {
            return Ok(());
        }
        self.require_unmounted(actor, from)?;
        self.authorize_new(actor, to, &Assignments::new())
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
        permissions: &[&str],
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
