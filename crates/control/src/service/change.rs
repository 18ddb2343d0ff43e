//! Every change, from its request to the engine. One at a time for a pool; reading goes on.

use dsl::tasks::{CreateBookmark, Hold, Promote, Release, Rename, RenameSnapshot, Snapshot};
use dsl::{DslError, PropertyChange, SetProperties};

use super::Service;
use super::create::{CreateFlags, stored};
use super::delegation::actor_of;
use super::destroy::DestroyFlags;
use super::mounting::{MountFlags, text_of};
use super::mountpoint::is_remount;
use super::refusal::{reason, refused, unreadable};
use super::rules::Target;
use super::voice::Voice;
use crate::message::{Assignments, Caller, Change};
use crate::name::{self, NameKind};
use crate::property::{Types, Value};
use crate::{Failure, FailureKind};

impl Service {
    /// Does a change; what it says goes to `voice`.
    pub(super) fn execute(
        &self,
        change: &Change,
        caller: &Caller,
        command: &str,
        voice: &mut Voice<'_>,
    ) -> Result<(), Failure> {
        let actor = actor_of(caller);
        if !actor.privileged {
            self.authorize(&actor, change)?;
        }
        if matches!(change, Change::WaitScrub) {
            // Others may change the pool, or stop the scrub, meanwhile.
            return self.wait_scrub();
        }
        if let Change::WaitTrim { devices } = change {
            return self.wait_trim(devices);
        }
        self.check_running(change)?;
        let _one_at_a_time = self.changes.lock();
        // What is granted, and what it is granted for, may have changed meanwhile.
        self.authorize(&actor, change)?;
        *self.acting.lock() = actor;
        // What ends the pool is recorded before, everything else once it has succeeded.
        if change.ends_service() {
            self.record(caller, command);
        }
        self.dispatch(change, voice)?;
        if !change.ends_service() && self.is_recorded(change) {
            self.record(caller, command);
        }
        Ok(())
    }

    /// Refuses at once what a suspended pool could only wait for.
    fn check_running(&self, change: &Change) -> Result<(), Failure> {
        let pool = self.dsl.pool_name();
        let (verb, name) = match change {
            Change::Clear { .. }
            | Change::Export { force: true }
            | Change::Unmount { force: true, .. } => return Ok(()),
            Change::Export { .. } => ("export", &pool),
            Change::DestroyPool { .. } => ("destroy", &pool),
            Change::Sync => ("sync", &pool),
            Change::Scrub(_) => ("scrub", &pool),
            Change::Trim { .. } => ("trim", &pool),
            Change::AddVdevs { .. } => ("add to", &pool),
            Change::RemoveVdevs { .. } => ("remove from", &pool),
            Change::Unmount { name, .. } => ("unmount", name.as_ref().unwrap_or(&pool)),
            _ => ("change", &pool),
        };
        let Some(reason) = self.pool.suspended() else {
            return Ok(());
        };
        if self.pool.stopped().is_some() {
            let text = "the pool has stopped";
            let failure = Failure::cannot(FailureKind::Medium, verb, name, text).advise(reason);
            return Err(failure.advise(format!(
                "see 'zpool status {pool}': copy what is newer than what is on disk, then run 'zpool export -f {pool}' \
                 and import the pool"
            )));
        }
        let text = "pool I/O is currently suspended";
        let failure = Failure::cannot(FailureKind::Medium, verb, name, text).advise(reason);
        Err(match change {
            Change::Export { .. } => failure.advise(format!(
                "mend the devices and run 'zpool clear {pool}', or give up what is not on disk: \
                 'zpool export -f {pool}'"
            )),
            _ => failure.advise(format!("mend the devices, then run 'zpool clear {pool}'")),
        })
    }

    const fn is_recorded(&self, change: &Change) -> bool {
        !matches!(
            change,
            Change::Mount { .. }
                | Change::Unmount { .. }
                | Change::Sync
                | Change::WaitScrub
                | Change::WaitTrim { .. }
                | Change::Destroy { dry_run: true, .. }
        )
    }

    fn dispatch(&self, change: &Change, voice: &mut Voice<'_>) -> Result<(), Failure> {
        match change {
            Change::Create {
                name,
                volume,
                properties,
                parents,
                unmounted,
            } => {
                let flags = CreateFlags {
                    parents: *parents,
                    unmounted: *unmounted,
                };
                self.create(name, *volume, properties, flags, voice)
            }
            Change::Clone {
                snapshot,
                name,
                properties,
                parents,
                unmounted,
            } => {
                let flags = CreateFlags {
                    parents: *parents,
                    unmounted: *unmounted,
                };
                self.clone_snapshot(snapshot, name, properties, flags, voice)
            }
            _ => self.dispatch_removal(change, voice),
        }
    }

    fn dispatch_removal(&self, change: &Change, voice: &mut Voice<'_>) -> Result<(), Failure> {
        match change {
            Change::Destroy {
                target,
                recursive,
                dependents,
                force,
                deferred,
                dry_run,
            } => {
                let flags = DestroyFlags {
                    recursive: *recursive,
                    dependents: *dependents,
                    force: *force,
                    deferred: *deferred,
                    dry_run: *dry_run,
                };
                self.destroy(target, flags, voice)
            }
            Change::Rollback {
                snapshot,
                destroy_later,
                destroy_clones,
                force,
            } => {
                let flags = DestroyFlags {
                    recursive: *destroy_later,
                    dependents: *destroy_clones,
                    force: *force,
                    deferred: false,
                    dry_run: false,
                };
                self.rollback(snapshot, flags)
            }
            _ => self.dispatch_names(change, voice),
        }
    }

    fn dispatch_names(&self, change: &Change, voice: &mut Voice<'_>) -> Result<(), Failure> {
        match change {
            Change::Snapshot {
                names,
                recursive,
                properties,
            } => self.snapshot(names, *recursive, properties),
            Change::Promote { name } => self.promote(name),
            Change::Rename {
                from,
                to,
                parents,
                recursive,
                keep_mounts,
                force,
            } => {
                let flags = RenameFlags {
                    parents: *parents,
                    recursive: *recursive,
                    keep_mounts: *keep_mounts,
                    force: *force,
                };
                self.rename(from, to, flags, voice)
            }
            Change::Set {
                names,
                properties,
                keep_mounts,
            } => self.set(names, properties, *keep_mounts, voice),
            Change::Inherit {
                names,
                property,
                recursive,
                received,
            } => self.inherit(names, property, *recursive, *received, voice),
            _ => self.dispatch_use(change, voice),
        }
    }

    fn dispatch_use(&self, change: &Change, voice: &mut Voice<'_>) -> Result<(), Failure> {
        match change {
            Change::Hold {
                tag,
                snapshots,
                recursive,
            } => self.hold(tag, snapshots, *recursive),
            Change::Release {
                tag,
                snapshots,
                recursive,
            } => self.release(tag, snapshots, *recursive),
            Change::Bookmark { source, name } => self.bookmark(source, name),
            Change::Delegate {
                name,
                grant,
                recursive,
                changes,
            } => self.delegate(name, *grant, *recursive, changes),
            Change::Mount {
                name,
                at,
                options,
                overlay,
                recursive,
                ..
            } => {
                let flags = MountFlags {
                    words: options,
                    overlay: *overlay,
                    at: at.as_deref(),
                };
                self.mount(name.as_deref(), flags, *recursive, voice)
            }
            Change::Unmount { name, force } => match name {
                Some(name) => self.unmount_one(name, *force),
                None => self.unmount_all(*force).map(drop),
            },
            _ => self.administer(change, voice),
        }
    }

    fn mount(
        &self,
        dataset: Option<&str>,
        flags: MountFlags<'_>,
        recursive: bool,
        voice: &mut Voice<'_>,
    ) -> Result<(), Failure> {
        let Some(dataset) = dataset else {
            self.mount_below(&self.dsl.pool_name(), flags, voice);
            return Ok(());
        };
        if is_remount(flags.words) {
            return self.remount(dataset, flags.words);
        }
        self.mount_one(dataset, flags)?;
        if recursive {
            let flags = MountFlags { at: None, ..flags };
            self.mount_below(dataset, flags, voice);
        }
        Ok(())
    }

    fn snapshot(
        &self,
        names: &[String],
        recursive: bool,
        properties: &Assignments,
    ) -> Result<(), Failure> {
        let failed = |name: &str, kind, reason: &str| {
            Failure::cannot(kind, "create snapshot", name, reason)
                .advise("no snapshots were created")
        };
        let mut all: Vec<String> = Vec::new();
        for name in names {
            let (dataset, short) = name.split_once('@').unwrap_or((name, ""));
            let head = self.head("open", dataset)?;
            let heads = if recursive {
                self.dsl
                    .heads_under(&head.directory())
                    .map_err(unreadable)?
            } else {
                vec![head]
            };
            for head in heads {
                let full = format!("{}@{short}", head.directory().name());
                if all
                    .iter()
                    .any(|other| name::dataset_of(other) == name::dataset_of(&full))
                {
                    let text =
                        "cannot create snapshots : multiple snapshots of same fs not allowed";
                    return Err(Failure::new(FailureKind::Invalid, text)
                        .advise("no snapshots were created"));
                }
                if let Err(error) = name::check_snapshot(&full) {
                    return Err(failed(&full, FailureKind::Invalid, &error.to_string()));
                }
                all.push(full);
            }
        }
        let target = Target {
            kind: Types::SNAPSHOT,
            creating: true,
        };
        if let Some(first) = all.first() {
            self.check_properties("create snapshot", first, target, properties)?;
        }
        for snapshot in &all {
            self.mounts().barrier(name::dataset_of(snapshot));
        }
        let task = Snapshot {
            names: all.clone(),
            properties: stored(properties)?,
        };
        self.run(task).map_err(|error| {
            let (kind, text) = reason(&error);
            let name = match &error {
                DslError::Exists { name } | DslError::NotFound { name } if name.contains('@') => {
                    name.clone()
                }
                _ => names.first().cloned().unwrap_or_default(),
            };
            failed(&name, kind, &text)
        })?;
        for snapshot in &all {
            self.mounts().snapshots_changed(name::dataset_of(snapshot));
        }
        Ok(())
    }

    fn promote(&self, dataset: &str) -> Result<(), Failure> {
        let head = self.head("open", dataset)?;
        let cannot = |kind, reason: &str| Failure::cannot(kind, "promote", dataset, reason);
        let Some(origin) = head.directory().origin().map_err(unreadable)? else {
            return Err(cannot(FailureKind::Invalid, "not a cloned filesystem"));
        };
        let old = origin.directory().name();
        self.dsl
            .run(Promote {
                path: dataset.to_owned(),
            })
            .map_err(|error| match &error {
                DslError::Exists { name } => {
                    let short = name.split_once('@').map_or("", |(_, short)| short);
                    let text = format!("conflicting snapshot '{short}' from parent '{old}'");
                    cannot(FailureKind::Exists, &text)
                }
                error => refused("promote", dataset, error),
            })?;
        self.mounts().snapshots_changed(dataset);
        self.mounts().snapshots_changed(&old);
        Ok(())
    }

    fn rename(
        &self,
        from: &str,
        to: &str,
        flags: RenameFlags,
        voice: &mut Voice<'_>,
    ) -> Result<(), Failure> {
        if name::kind_of(from) == NameKind::Snapshot {
            return self.rename_snapshot(from, to, flags.recursive);
        }
        self.head("open", from)?;
        let parent = name::parent_of(to).unwrap_or(to);
        if self.dsl.head(parent).is_err() {
            if !flags.parents {
                let reason = "parent does not exist";
                return Err(Failure::cannot(FailureKind::Missing, "create", to, reason));
            }
            let create = CreateFlags {
                parents: true,
                unmounted: false,
            };
            self.create(parent, None, &Assignments::new(), create, voice)?;
        }
        // Only mounts that follow the name must move.
        let before = self.places_below(from)?;
        let unmounted = if flags.keep_mounts {
            Vec::new()
        } else {
            self.unmount_below(from, flags.force)?
        };
        let task = Rename {
            from: from.to_owned(),
            to: to.to_owned(),
        };
        if let Err(error) = self.run(task) {
            self.mount_again(&unmounted);
            return Err(refused("rename", from, &error));
        }
        self.mounts().renamed(from, to);
        if !unmounted.is_empty() {
            self.mount_below(to, MountFlags::default(), voice);
            for (mount, _) in before {
                // Directories that were made for the old places go if nothing is in them.
                if !self
                    .mounts()
                    .mounted()
                    .iter()
                    .any(|now| now.path.starts_with(&mount.path))
                {
                    let _gone = std::fs::remove_dir(&mount.path);
                }
            }
        }
        Ok(())
    }

    fn rename_snapshot(&self, from: &str, to: &str, recursive: bool) -> Result<(), Failure> {
        let short = to.split_once('@').map_or(to, |(_, short)| short);
        if let Err(error) = self.dsl.dataset(from) {
            return Err(refused("open", from, &error));
        }
        let task = RenameSnapshot {
            from: from.to_owned(),
            to: short.to_owned(),
            recursive,
        };
        self.dsl.run(task).map_err(|error| match &error {
            DslError::Exists { .. } if recursive => {
                let reason = "a child dataset already has a snapshot with the new name";
                Failure::cannot(FailureKind::Exists, "rename", from, reason)
            }
            error => refused("rename", from, error),
        })?;
        let dataset = name::dataset_of(from);
        for mount in self.mounted_below(dataset) {
            self.mounts().snapshots_changed(&mount.dataset);
        }
        Ok(())
    }

    fn bookmark(&self, source: &str, bookmark: &str) -> Result<(), Failure> {
        let task = CreateBookmark {
            name: bookmark.to_owned(),
            source: source.to_owned(),
        };
        self.dsl.run(task).map_err(|error| {
            let cannot =
                |kind, reason: &str| Failure::cannot(kind, "create bookmark", bookmark, reason);
            match &error {
                DslError::Exists { .. } => cannot(FailureKind::Exists, "bookmark exists"),
                DslError::FeatureDisabled { .. } => {
                    cannot(FailureKind::Unsupported, "bookmark feature not enabled")
                }
                DslError::Unrelated { .. } => cannot(
                    FailureKind::Invalid,
                    "source is not an ancestor of the new bookmark's dataset",
                ),
                error => refused("create bookmark", bookmark, error),
            }
        })
    }

    /// The snapshots of the given names, and with `recursive` of the same name below.
    pub(super) fn snapshots_named(
        &self,
        names: &[String],
        recursive: bool,
    ) -> Result<Vec<String>, Failure> {
        let mut found = Vec::new();
        for name in names {
            let (dataset, short) = name.split_once('@').unwrap_or((name, ""));
            let head = self.head("open", dataset)?;
            if !recursive {
                found.push(name.clone());
                continue;
            }
            for head in self
                .dsl
                .heads_under(&head.directory())
                .map_err(unreadable)?
            {
                if head.snapshot(short).map_err(unreadable)?.is_some() {
                    found.push(format!("{}@{short}", head.directory().name()));
                }
            }
        }
        Ok(found)
    }

    fn hold(&self, tag: &str, snapshots: &[String], recursive: bool) -> Result<(), Failure> {
        let snapshots = self.snapshots_named(snapshots, recursive)?;
        let first = snapshots.first().cloned().unwrap_or_default();
        let cannot = |kind, text: &str| Failure::cannot(kind, "hold snapshot", &first, text);
        if tag.len() >= 256 {
            return Err(cannot(FailureKind::Invalid, "tag too long"));
        }
        let holds = snapshots
            .into_iter()
            .map(|snapshot| (snapshot, tag.to_owned()))
            .collect();
        self.dsl.run(Hold { holds }).map_err(|error| match &error {
            DslError::HoldExists { name, .. } => {
                let kind = FailureKind::Exists;
                let reason = "tag already exists on this dataset";
                Failure::cannot(kind, "hold snapshot", name, reason)
            }
            error => refused("hold snapshot", &first, error),
        })
    }

    fn release(&self, tag: &str, snapshots: &[String], recursive: bool) -> Result<(), Failure> {
        let snapshots = self.snapshots_named(snapshots, recursive)?;
        let first = snapshots.first().cloned().unwrap_or_default();
        let heads: Vec<String> = snapshots
            .iter()
            .map(|name| name::dataset_of(name).to_owned())
            .collect();
        let holds = snapshots
            .into_iter()
            .map(|snapshot| (snapshot, tag.to_owned()))
            .collect();
        self.dsl.run(Release { holds }).map_err(|error| {
            let (kind, text) = reason(&error);
            Failure::cannot(kind, "release hold from snapshot", &first, text)
        })?;
        // A deferred snapshot may have gone with its last hold.
        for head in heads {
            self.mounts().snapshots_changed(&head);
        }
        Ok(())
    }

    fn set(
        &self,
        names: &[String],
        properties: &Assignments,
        keep_mounts: bool,
        voice: &mut Voice<'_>,
    ) -> Result<(), Failure> {
        const VERB: &str = "set property for";
        for name in names {
            let dataset = self
                .dsl
                .dataset(name)
                .map_err(|error| refused("open", name, &error))?;
            let kind = if dataset.is_snapshot() {
                Types::SNAPSHOT
            } else {
                self.catalogue().kind_of(&dataset)?
            };
            self.check_properties(
                VERB,
                name,
                Target {
                    kind,
                    creating: false,
                },
                properties,
            )?;
            let properties = self.set_inside(name, &dataset, properties)?;
            let properties = self.resolved(&dataset, &properties)?;
            let changes = stored(&properties)?
                .into_iter()
                .map(|(name, value)| (name, PropertyChange::Set(value)))
                .collect();
            self.change_properties(name, changes, keep_mounts, voice)?;
        }
        Ok(())
    }

    /// `refreservation=auto` becomes a number.
    fn resolved(
        &self,
        dataset: &std::sync::Arc<dsl::Dataset>,
        properties: &Assignments,
    ) -> Result<Assignments, Failure> {
        let mut found = properties.clone();
        for (name, value) in &mut found {
            if name == "refreservation" && text_of(value) == Some("auto") {
                *value = Value::Number(self.automatic_reservation(dataset)?);
            }
        }
        Ok(found)
    }

    fn inherit(
        &self,
        names: &[String],
        property: &str,
        recursive: bool,
        received: bool,
        voice: &mut Voice<'_>,
    ) -> Result<(), Failure> {
        for name in names {
            let dataset = self
                .dsl
                .dataset(name)
                .map_err(|error| refused("open", name, &error))?;
            let mut all = vec![name.clone()];
            if recursive && !dataset.is_snapshot() {
                let heads = self
                    .dsl
                    .heads_under(&dataset.directory())
                    .map_err(unreadable)?;
                all = heads.iter().map(|head| head.directory().name()).collect();
            }
            for name in all {
                let change = if received {
                    PropertyChange::RevertToReceived
                } else {
                    PropertyChange::Inherit
                };
                self.change_properties(&name, vec![(property.to_owned(), change)], false, voice)?;
            }
        }
        Ok(())
    }

    /// Changes properties of one dataset and does what follows for mounts.
    fn change_properties(
        &self,
        dataset: &str,
        changes: Vec<(String, PropertyChange)>,
        keep_mounts: bool,
        voice: &mut Voice<'_>,
    ) -> Result<(), Failure> {
        let moves = changes
            .iter()
            .any(|(name, _)| name == "mountpoint" || name == "canmount");
        let remounts = changes.iter().any(|(name, _)| {
            matches!(
                name.as_str(),
                "readonly"
                    | "atime"
                    | "relatime"
                    | "devices"
                    | "exec"
                    | "setuid"
                    | "snapdir"
                    | "recordsize"
                    | "xattr"
                    | "acltype"
                    | "dnodesize"
                    | "longname"
                    | "sync"
            )
        });
        let was_mounted = self.mounted_below(dataset);
        // Only the administrator moves what is mounted.
        let keep_mounts = keep_mounts || !self.actor().privileged;
        let unmounted = if moves && !keep_mounts {
            self.unmount_below(dataset, false)?
        } else {
            Vec::new()
        };
        let names: Vec<String> = changes.iter().map(|(name, _)| name.clone()).collect();
        let task = SetProperties {
            name: dataset.to_owned(),
            changes,
        };
        if let Err(error) = self.dsl.run(task) {
            self.mount_again(&unmounted);
            return Err(self.set_refused(dataset, &names, &error));
        }
        if moves && !keep_mounts {
            // Turning a mount point on mounts it, as turning it off has unmounted it.
            let by_itself =
                !was_mounted.is_empty() || names.iter().any(|name| name == "mountpoint");
            if by_itself {
                self.mount_below(dataset, MountFlags::default(), voice);
            }
            for mount in &was_mounted {
                if !self
                    .mounts()
                    .mounted()
                    .iter()
                    .any(|now| now.path.starts_with(&mount.path))
                {
                    let _gone = std::fs::remove_dir(&mount.path);
                }
            }
        }
        if moves && !self.actor().privileged && !was_mounted.is_empty() {
            let text = "property may be set but unable to remount filesystem";
            voice.warn(Failure::new(FailureKind::Permission, text));
        }
        if remounts && !keep_mounts {
            self.refresh_mounts(dataset, voice);
        }
        Ok(())
    }

    fn set_refused(&self, dataset: &str, names: &[String], error: &DslError) -> Failure {
        let (kind, text) = match error {
            DslError::NoSpace => {
                let quota = names.iter().any(|name| name.ends_with("quota"));
                let text = if quota {
                    "size is less than current used or reserved space"
                } else {
                    "size is greater than available space"
                };
                (FailureKind::Space, text.to_owned())
            }
            DslError::ReadOnly => (FailureKind::ReadOnly, "dataset is read-only".to_owned()),
            error => reason(error),
        };
        Failure::cannot(kind, "set property for", dataset, text)
    }
}

/// How to rename.
#[derive(Debug, Clone, Copy)]
struct RenameFlags {
    parents: bool,
    recursive: bool,
    keep_mounts: bool,
    force: bool,
}
