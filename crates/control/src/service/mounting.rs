//! Mounting and unmounting, and what changes of names and properties mean for mounts.

use std::collections::{BTreeMap, HashSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use admin::{Failure, FailureKind, Mounted, Types, name};
use dsl::Dataset;
use dsl::property::{CanMount, Property, dataset};

use super::Service;
use super::dataset_index::setting_of;
use super::mountpoint::{MountFlags, Mountpoint, apply_words, mount_order};
use super::refusal::unreadable;
use super::reporter::Reporter;
use super::side_by_side::side_by_side;
use crate::MountOptions;
use crate::mounts::{Force, MountRequest};

/// How many are mounted or unmounted at a time: mostly the kernel and the next txg are waited for.
const AT_A_TIME: usize = 64;

/// An ordinary user's file systems may lie inside of each other's mounts, which change with each.
fn at_a_time() -> usize {
    if sys::user_id() == 0 { AT_A_TIME } else { 1 }
}

/// Parts a list by the depth of places, and within a depth by the places themselves: what lies at different places of
/// one depth does not lie in each other. Both in the order of the list.
fn by_depth<T>(list: Vec<T>, path: impl Fn(&T) -> &Path) -> Vec<Vec<Vec<T>>> {
    let mut depths: BTreeMap<usize, Vec<Vec<T>>> = BTreeMap::new();
    for item in list {
        let places = depths.entry(path(&item).components().count()).or_default();
        match places.last_mut() {
            Some(place) if place.first().map(&path) == Some(path(&item)) => place.push(item),
            _ => places.push(vec![item]),
        }
    }
    depths.into_values().collect()
}

/// A file system that may be mounted.
pub(super) struct Mountable {
    pub(super) request: MountRequest,
    /// False for `canmount=noauto`.
    pub(super) by_itself: bool,
}

impl Service {
    pub(super) fn mountpoint(&self, head: &Dataset, name: &str) -> Result<Mountpoint, Failure> {
        let stored = head
            .effective(dataset::MOUNTPOINT.row())
            .map_err(unreadable)?
            .map(setting_of);
        Ok(Mountpoint::effective(
            name,
            stored.as_ref(),
            self.altroot.as_deref(),
        ))
    }

    pub(super) fn mount_options(&self, head: &Dataset) -> Result<MountOptions, Failure> {
        // What set-id programs and device nodes of a stranger's pool do, nobody here has decided.
        let is_stranger = self.of_stranger.is_some();
        Ok(MountOptions {
            readonly: self.readonly || is_on(head, dataset::READONLY)?,
            atime: is_on(head, dataset::ATIME)?,
            relatime: is_on(head, dataset::RELATIME)?,
            devices: is_on(head, dataset::DEVICES)? && (!is_stranger || self.is_asked("devices")),
            exec: is_on(head, dataset::EXEC)?,
            setuid: is_on(head, dataset::SETUID)? && (!is_stranger || self.is_asked("setuid")),
            overlay: is_on(head, dataset::OVERLAY)?,
            write_back: None,
        })
    }

    /// Whether the import was given a word of mount options.
    pub(super) fn is_asked(&self, word: &str) -> bool {
        self.mount_words.iter().any(|given| given == word)
    }

    /// How a head would be mounted, or the reason why it is not.
    pub(super) fn mountable(
        &self,
        head: &Arc<Dataset>,
        flags: MountFlags<'_>,
    ) -> Result<Mountable, Failure> {
        let refuse = |kind, reason: &str| Err(Failure::new(kind, reason));
        let dataset = head.directory().name();
        if self.dataset_index().kind_of(head)? != Types::FILESYSTEM {
            return refuse(
                FailureKind::Invalid,
                "operation not applicable to datasets of this type",
            );
        }
        if head.is_inconsistent().map_err(unreadable)? {
            let text = "what is received into it is not whole";
            return refuse(FailureKind::Busy, text);
        }
        if !flags.redacted && head.redacted_by().map_err(unreadable)?.is_some() {
            let text =
                "Dataset is not complete, was created by receiving a redacted zfs send stream.";
            return refuse(FailureKind::Invalid, text);
        }
        let path = match (self.mountpoint(head, &dataset)?, flags.at) {
            (Mountpoint::Legacy, Some(at)) => at.to_owned(),
            (Mountpoint::Path(_) | Mountpoint::None, Some(_)) => {
                let text = "it has a mount point of its own";
                return Err(Failure::new(FailureKind::Invalid, text).advise(format!(
                    "use 'zfs mount {dataset}', or 'zfs set mountpoint=legacy {dataset}'"
                )));
            }
            (Mountpoint::Path(path), None) => path,
            (Mountpoint::Legacy, None) => {
                return Err(Failure::new(FailureKind::Invalid, "legacy mountpoint")
                    .advise("use mount(8) to mount this filesystem"));
            }
            (Mountpoint::None, None) => {
                return refuse(FailureKind::Invalid, "no mountpoint set");
            }
        };
        let can_mount = head.get(dataset::CANMOUNT).map_err(unreadable)?.value;
        if can_mount == CanMount::Off {
            return refuse(FailureKind::Invalid, "'canmount' property is set to 'off'");
        }
        if is_on(head, dataset::ZONED)? {
            return refuse(FailureKind::Invalid, "dataset is exported to a local zone");
        }
        let record = head.directory().key_record().map_err(unreadable)?;
        if record.as_ref().is_some_and(|record| !record.is_loaded()) {
            return refuse(FailureKind::Permission, "encryption key not loaded");
        }
        let mut options = self.mount_options(head)?;
        options.overlay |= flags.overlay;
        let words = self
            .mount_words
            .iter()
            .chain(flags.words)
            .cloned()
            .collect::<Vec<_>>();
        if let Err(word) = apply_words(&mut options, &words) {
            let text = format!("invalid mount option '{word}'");
            return Err(Failure::new(FailureKind::Invalid, text));
        }
        Ok(Mountable {
            request: MountRequest {
                dataset,
                path,
                beneath: self.altroot.clone().filter(|_| flags.at.is_none()),
                of_stranger: self
                    .of_stranger
                    .clone()
                    .filter(|_| flags.at.is_none() && !flags.overlay),
                options,
            },
            by_itself: can_mount != CanMount::NoAuto,
        })
    }

    /// Mounts one file system because someone asked for it.
    pub(super) fn mount_one(&self, dataset: &str, flags: MountFlags<'_>) -> Result<(), Failure> {
        let head = self.head("open", dataset)?;
        let mountable = self
            .mountable(&head, flags)
            .map_err(|reason| framed("mount", dataset, reason))?;
        self.mounts()
            .mount(&mountable.request)
            .map_err(|reason| framed("mount", dataset, reason))?;
        self.check_replayed(&head, dataset)
    }

    /// Gives a mounted file system other options, until it is unmounted.
    pub(super) fn remount(&self, dataset: &str, words: &[String]) -> Result<(), Failure> {
        let head = self.head("open", dataset)?;
        let refuse = |kind, text: &str| Err(Failure::cannot(kind, "remount", dataset, text));
        let Some(mut options) = self.mounts().options(dataset) else {
            return refuse(FailureKind::Missing, "not currently mounted");
        };
        if let Err(word) = apply_words(&mut options, words) {
            let text = format!("invalid mount option '{word}'");
            return refuse(FailureKind::Invalid, &text);
        }
        if !options.readonly && self.readonly {
            return refuse(FailureKind::ReadOnly, "the pool is read-only");
        }
        if !options.readonly && is_on(&head, dataset::READONLY)? {
            return refuse(FailureKind::ReadOnly, "its property 'readonly' is on");
        }
        self.mounts()
            .set_options(dataset, &options)
            .map_err(|reason| framed("remount", dataset, reason))
    }

    /// Says so when a file system that was just mounted cannot be written, because its log could not be replayed.
    fn check_replayed(&self, head: &Arc<Dataset>, dataset: &str) -> Result<(), Failure> {
        let log = self.pool.intent_log(head).ok().flatten();
        let Some(log) = log.filter(|log| log.is_owed()) else {
            return Ok(());
        };
        let text = format!("warning: '{dataset}' is mounted read-only");
        let failure = Failure::new(FailureKind::Medium, text);
        let failure = match log.replay_failure() {
            Some((sequence, reason)) => failure.because(format!(
                "record {sequence} of its intent log cannot be replayed: {reason}"
            )),
            None => failure.because("its intent log cannot be replayed"),
        };
        Err(failure.because("the log is kept; changes after that record are not there"))
    }

    /// Mounts what is below (and at) a dataset, as far as it mounts by itself, parents first, and side by side what
    /// does not lie in each other.
    pub(super) fn mount_below(
        &self,
        dataset: &str,
        flags: MountFlags<'_>,
        reporter: &mut Reporter<'_>,
    ) {
        let mut found = self.mountables(dataset, flags, reporter);
        found.retain(|mountable| mountable.by_itself);
        self.mount_these(found, reporter);
    }

    /// Mounts what was unmounted to be renamed, where its new name leads.
    pub(super) fn mount_renamed(
        &self,
        unmounted: &[Mounted],
        (from, to): (&str, &str),
        reporter: &mut Reporter<'_>,
    ) {
        let below = unmounted.iter();
        let below = below.filter_map(|mount| mount.dataset.strip_prefix(from));
        let renamed: HashSet<String> = below.map(|below| format!("{to}{below}")).collect();
        let mut found = self.mountables(to, MountFlags::default(), reporter);
        found.retain(|mountable| renamed.contains(&mountable.request.dataset));
        self.mount_these(found, reporter);
    }

    /// Mounts these, parents first, but for those that are mounted.
    fn mount_these(&self, mut found: Vec<Mountable>, reporter: &mut Reporter<'_>) {
        let mounted: HashSet<String> = self
            .mounts()
            .mounted()
            .into_iter()
            .map(|mount| mount.dataset)
            .collect();
        found.retain(|mountable| !mounted.contains(&mountable.request.dataset));
        for depth in by_depth(found, |mountable| &mountable.request.path) {
            let failures = side_by_side("mounting", &depth, at_a_time(), |place| {
                let each = place.iter().map(|one| self.mount_found(&one.request));
                each.filter_map(Result::err).collect::<Vec<_>>()
            });
            failures
                .into_iter()
                .flatten()
                .for_each(|failure| reporter.warn(failure));
        }
    }

    /// Mounts one of those that mount by themselves.
    fn mount_found(&self, request: &MountRequest) -> Result<(), Failure> {
        self.mounts()
            .mount(request)
            .map_err(|reason| framed("mount", &request.dataset, reason))?;
        match self.dsl.head(&request.dataset) {
            Ok(head) => self.check_replayed(&head, &request.dataset),
            Err(_) => Ok(()),
        }
    }

    fn mountables(
        &self,
        dataset: &str,
        flags: MountFlags<'_>,
        reporter: &mut Reporter<'_>,
    ) -> Vec<Mountable> {
        let heads = match self
            .dsl
            .directory(dataset)
            .and_then(|root| self.dsl.heads_under(&root))
        {
            Ok(heads) => heads,
            Err(error) => {
                reporter.warn(unreadable(error));
                return Vec::new();
            }
        };
        let mut found = Vec::new();
        for head in heads {
            match self.mountable(&head, flags) {
                Ok(mountable) => found.push(mountable),
                Err(failure) if failure.kind == FailureKind::Medium => reporter.warn(failure),
                // Nobody asked for this one in particular.
                Err(_) => {}
            }
        }
        found.sort_by(|a, b| mount_order(&a.request.path, &b.request.path));
        found
    }

    /// Mounts a new dataset if it mounts by itself; true if it is or need not be mounted.
    pub(super) fn mount_new(&self, head: &Arc<Dataset>, reporter: &mut Reporter<'_>) -> bool {
        match self.mountable(head, MountFlags::default()) {
            Ok(mountable) if mountable.by_itself => match self.mounts().mount(&mountable.request) {
                Ok(()) => true,
                Err(reason) => {
                    reporter.warn(framed("mount", &mountable.request.dataset, reason));
                    false
                }
            },
            Ok(_) => true,
            Err(failure) => failure.kind != FailureKind::Medium,
        }
    }

    /// What is mounted of a dataset and below, children first.
    pub(super) fn mounted_below(&self, dataset: &str) -> Vec<Mounted> {
        self.mounted_if(|mounted| name::is_within(mounted, dataset))
    }

    /// What is mounted of these datasets, the innermost first.
    pub(super) fn mounted_if(&self, is_meant: impl Fn(&str) -> bool) -> Vec<Mounted> {
        let mut found: Vec<Mounted> = self
            .mounts()
            .mounted()
            .into_iter()
            .filter(|mount| is_meant(&mount.dataset))
            // Of two at one place, the later one lies upon the other.
            .rev()
            .collect();
        found.sort_by(|a, b| mount_order(&b.path, &a.path));
        found
    }

    /// Unmounts a dataset and all below, children first, and side by side what does not lie in each other. If one
    /// refuses, those that went are mounted again and nothing has changed.
    pub(super) fn unmount_below(
        &self,
        dataset: &str,
        force: Force,
    ) -> Result<Vec<Mounted>, Failure> {
        self.unmount_these(self.mounted_below(dataset), force)
    }

    /// The same of these, the innermost first.
    pub(super) fn unmount_these(
        &self,
        mounts: Vec<Mounted>,
        force: Force,
    ) -> Result<Vec<Mounted>, Failure> {
        self.check_held(&mounts, force)?;
        let mut gone = Vec::new();
        for depth in by_depth(mounts, |mount| &mount.path).into_iter().rev() {
            let is_refused = AtomicBool::new(false);
            let outcomes = side_by_side("mounting", &depth, at_a_time(), |place| {
                self.unmount_place(place, force, &is_refused)
            });
            let mut refusal = Ok(());
            for (unmounted, outcome) in outcomes {
                gone.extend(unmounted);
                refusal = refusal.and(outcome);
            }
            if let Err(failure) = refusal {
                self.mount_again(&gone);
                return Err(failure);
            }
        }
        Ok(gone)
    }

    /// Unmounts what lies at one place, the last one first, unless another is refused meanwhile; says which went.
    fn unmount_place(
        &self,
        place: &[Mounted],
        force: Force,
        is_refused: &AtomicBool,
    ) -> (Vec<Mounted>, Result<(), Failure>) {
        let mut gone = Vec::new();
        for mount in place {
            if is_refused.load(Ordering::Relaxed) {
                break;
            }
            if let Err(reason) = self.mounts().unmount(&mount.dataset, force) {
                is_refused.store(true, Ordering::Relaxed);
                let failure = framed("unmount", &mount.path.to_string_lossy(), reason);
                return (gone, Err(failure));
            }
            gone.push(mount.clone());
        }
        (gone, Ok(()))
    }

    /// Puts mounts back where they were, as far as their datasets are still there.
    pub(super) fn mount_again(&self, mounts: &[Mounted]) {
        for mount in mounts.iter().rev() {
            let Ok(head) = self.dsl.head(&mount.dataset) else {
                continue;
            };
            if let Ok(mut mountable) = self.mountable(&head, MountFlags::default()) {
                mountable.request.path.clone_from(&mount.path);
                // It was mounted a moment ago; if it is not to be had now, `zfs mount` will tell.
                let _mounted = self.mounts().mount(&mountable.request);
            }
        }
    }

    /// Unmounts one file system because someone asked for it.
    pub(super) fn unmount_one(&self, dataset: &str, force: Force) -> Result<(), Failure> {
        let head = self.head("open", dataset)?;
        let mounted = self.mounted_below(dataset);
        let Some(own) = mounted
            .iter()
            .find(|mount| mount.dataset == dataset)
            .cloned()
        else {
            if self.mountpoint(&head, dataset)? == Mountpoint::Legacy {
                let reason = Failure::new(FailureKind::Invalid, "legacy mountpoint")
                    .advise("use umount(8) to unmount this filesystem");
                return Err(framed("unmount", dataset, reason));
            }
            let kind = FailureKind::Missing;
            return Err(Failure::cannot(
                kind,
                "unmount",
                dataset,
                "not currently mounted",
            ));
        };
        // Mounts inside it, whatever dataset they are of, go first.
        let inside: Vec<Mounted> = self.mounts_inside(&own);
        self.check_held(&inside, force)?;
        for (at, mount) in inside.iter().enumerate() {
            if let Err(reason) = self.mounts().unmount(&mount.dataset, force) {
                self.mount_again(&inside[..at]);
                return Err(framed("unmount", &mount.path.to_string_lossy(), reason));
            }
        }
        Ok(())
    }

    /// What `-f` of a command of `zfs` means. A suspended pool's file systems are waited for, not used.
    pub(super) fn force(&self, is_asked: bool) -> Force {
        match (is_asked, self.pool.suspended()) {
            (false, _) => Force::None,
            (true, None) => Force::Copies,
            (true, Some(_)) => Force::All,
        }
    }

    /// Without force, nothing is unmounted that somebody else has a copy of.
    fn check_held(&self, mounts: &[Mounted], force: Force) -> Result<(), Failure> {
        match force {
            Force::Copies | Force::All => return Ok(()),
            Force::None => {}
        }
        self.mounts().check_held(mounts).map_err(|held| {
            let (mount, reason) = *held;
            framed("unmount", &mount.path.to_string_lossy(), reason)
        })
    }

    /// A mount and those inside of it, the innermost first. Others at the very same place do not belong to it.
    fn mounts_inside(&self, outer: &Mounted) -> Vec<Mounted> {
        let mut found: Vec<Mounted> = self
            .mounts()
            .mounted()
            .into_iter()
            .filter(|mount| mount.path.starts_with(&outer.path))
            .filter(|mount| mount.path != outer.path || mount.dataset == outer.dataset)
            .collect();
        found.sort_by(|a, b| mount_order(&b.path, &a.path));
        found
    }

    /// Unmounts everything of the pool, children first.
    pub(super) fn unmount_all(&self, force: Force) -> Result<Vec<Mounted>, Failure> {
        self.unmount_below(&self.dsl.pool_name(), force)
    }

    /// After a change of properties: mounted file systems get their new options, and move where
    /// their mount points say now.
    pub(super) fn refresh_mounts(&self, dataset: &str, reporter: &mut Reporter<'_>) {
        for mount in self.mounted_below(dataset) {
            let Ok(head) = self.dsl.head(&mount.dataset) else {
                continue;
            };
            let options = match self.mount_options(&head) {
                Ok(options) => options,
                Err(failure) => {
                    reporter.warn(failure);
                    continue;
                }
            };
            if let Err(reason) = self.mounts().set_options(&mount.dataset, &options) {
                let text = "property may be set but unable to remount filesystem";
                let warning = Failure::new(reason.kind, text).because(reason.message);
                reporter.warn(reason.advice.into_iter().fold(warning, Failure::advise));
            }
        }
    }

    /// Where every mounted file system below a dataset would be now.
    pub(super) fn places_below(
        &self,
        dataset: &str,
    ) -> Result<Vec<(Mounted, Option<PathBuf>)>, Failure> {
        let mut found = Vec::new();
        for mount in self.mounted_below(dataset) {
            let head = self.head("open", &mount.dataset)?;
            let place = match self.mountpoint(&head, &mount.dataset)? {
                Mountpoint::Path(path) => Some(path),
                Mountpoint::Legacy | Mountpoint::None => None,
            };
            found.push((mount, place));
        }
        Ok(found)
    }
}

fn is_on(head: &Dataset, property: Property<bool>) -> Result<bool, Failure> {
    Ok(head.get(property).map_err(unreadable)?.value)
}

/// A reason from the mounts in its frame.
pub(super) fn framed(verb: &str, name: &str, reason: Failure) -> Failure {
    let mut failure = Failure::cannot(reason.kind, verb, name, &reason.message);
    failure.advice = reason.advice;
    failure.reasons = reason.reasons;
    failure
}
