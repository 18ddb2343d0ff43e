//! What a package with all below its topmost dataset has become of since the last one: datasets and snapshots that were
//! renamed, promoted or destroyed where it was sent from, are so here.
//!
//! Datasets are told by the guids of their snapshots. One change is made at a time, and then everything is looked at
//! anew, until nothing is left that can be made.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use admin::changes::{Destroy, DestroyTarget, Promote, Rename};
use admin::{Change, Failure, name};
use base::{Guid, ObjectId, Txg};
use dsl::Dataset;
use stream::{PackageList, PackageSystem};

use super::package::Package;
use super::properties::receive_of_snapshot;
use super::{Receiving, turn};
use crate::service::refusal::unreadable;
use crate::service::reporter::Reporter;

/// A dataset that is here.
struct Local {
    path: String,
    has_children: bool,
    origin: Option<Origin>,
    snapshots: Vec<LocalSnapshot>,
}

/// The snapshot that a dataset was cloned from.
struct Origin {
    id: ObjectId,
    guid: Guid,
    txg: Txg,
}

struct LocalSnapshot {
    dataset: Arc<Dataset>,
    name: String,
    guid: Guid,
    txg: Txg,
}

/// What was tried, so that nothing is tried twice.
#[derive(Default)]
struct Tried {
    /// Each by what is done and to what.
    failed: HashSet<(&'static str, String)>,
    /// The origins that a clone was promoted over.
    promoted: HashSet<Guid>,
    /// How many names were made up.
    names: u32,
}

/// What one look has come to.
#[derive(PartialEq, Eq)]
enum Outcome {
    Nothing,
    Changed,
}

impl Receiving<'_, '_> {
    /// Makes of what is here what the package says that has become of it.
    pub(super) fn follow(&mut self, package: &Package) -> Result<(), Failure> {
        let Some((list, from)) = package.continues() else {
            return Ok(());
        };
        if self.request.dry_run {
            return Ok(());
        }
        let service = self.service;
        let _turn = turn(service, &self.stop, &self.actor)?;
        let top = self.top_of(package)?;
        let mut tried = Tried::default();
        // Each change brings one thing to its place, or out of another one's way.
        let most = list.systems.len().saturating_mul(4).saturating_add(4096);
        for _ in 0..most {
            let mut outcome = Outcome::Nothing;
            let locals = self.locals(&top)?;
            let ages = ages(&locals);
            for local in &locals {
                outcome = match self.matched(list, local) {
                    Some(system) => {
                        self.bring(package, list, (system, &ages), local, &mut tried)?
                    }
                    None => self.drop_unknown((list, from), local, &locals, &mut tried),
                };
                if outcome == Outcome::Changed {
                    break;
                }
            }
            if outcome == Outcome::Nothing {
                break;
            }
        }
        Ok(())
    }

    /// What is here, those below before those above.
    fn locals(&self, top: &str) -> Result<Vec<Local>, Failure> {
        let dsl = &self.service.dsl;
        let Ok(directory) = dsl.directory(top) else {
            return Ok(Vec::new());
        };
        let mut found = Vec::new();
        for head in dsl.heads_under(&directory).map_err(unreadable)? {
            let directory = head.directory();
            let is_hidden = directory.component().starts_with(['%', '$']);
            if is_hidden || head.is_inconsistent().map_err(unreadable)? {
                continue;
            }
            let origin = match directory.origin().map_err(unreadable)? {
                Some(origin) => {
                    let phys = origin.phys().map_err(unreadable)?;
                    Some(Origin {
                        id: origin.id(),
                        guid: phys.guid,
                        txg: phys.creation_txg,
                    })
                }
                None => None,
            };
            let mut snapshots = Vec::new();
            for dataset in head.snapshots().map_err(unreadable)? {
                let phys = dataset.phys().map_err(unreadable)?;
                snapshots.push(LocalSnapshot {
                    name: dataset.snapshot_name().map_err(unreadable)?,
                    guid: phys.guid,
                    txg: phys.creation_txg,
                    dataset,
                });
            }
            found.push(Local {
                path: directory.name(),
                has_children: !directory.children().map_err(unreadable)?.is_empty(),
                origin,
                snapshots,
            });
        }
        found.reverse();
        Ok(found)
    }

    /// The dataset of the package that one here was received from.
    fn matched<'l>(&self, list: &'l PackageList, local: &Local) -> Option<&'l PackageSystem> {
        let mut newest_first = local.snapshots.iter().rev();
        newest_first.find_map(|snapshot| {
            let system = list.system_with(snapshot.guid)?;
            (list.base_of(system) == Some(snapshot.guid)).then_some(system)
        })
    }

    /// A dataset that is none of the package's was destroyed, if it was received before. It goes if the package knows
    /// nothing of it, or only snapshots that another one here has as well and that nothing here was cloned from: a
    /// promotion gave them to a clone that was not sent before.
    fn drop_unknown(
        &mut self,
        (list, from): (&PackageList, &str),
        local: &Local,
        locals: &[Local],
        tried: &mut Tried,
    ) -> Outcome {
        let was_received = local.snapshots.iter().any(|one| one.name == from);
        if !self.request.force || local.has_children || !was_received {
            return Outcome::Nothing;
        }
        let others = || locals.iter().filter(|other| other.path != local.path);
        let has_clone = |one: &LocalSnapshot| {
            let mut origins = others().filter_map(|other| other.origin.as_ref());
            origins.any(|origin| origin.id == one.dataset.id())
        };
        let is_elsewhere = |one: &LocalSnapshot| {
            others().any(|other| other.snapshots.iter().any(|copy| copy.guid == one.guid))
        };
        let is_known = |one: &LocalSnapshot| list.system_with(one.guid).is_some();
        let is_kept = |one: &LocalSnapshot| is_known(one) && (!is_elsewhere(one) || has_clone(one));
        if local.snapshots.iter().any(is_kept) {
            return Outcome::Nothing;
        }
        let change = Change::Destroy(Destroy {
            target: DestroyTarget::Dataset(local.path.clone()),
            recursive: true,
            dependents: false,
            force: false,
            deferred: false,
            dry_run: false,
        });
        let says = format!("attempting destroy {}", local.path);
        self.change(tried, ("destroy", &local.path), &change, says)
    }

    /// Brings a dataset nearer to what the package says of it.
    fn bring(
        &mut self,
        package: &Package,
        list: &PackageList,
        (system, ages): (&PackageSystem, &HashMap<Guid, Txg>),
        local: &Local,
        tried: &mut Tried,
    ) -> Result<Outcome, Failure> {
        if self.promote(system, local, ages, tried) == Outcome::Changed
            || self.bring_snapshots(list, system, local, tried)? == Outcome::Changed
        {
            return Ok(Outcome::Changed);
        }
        let wanted = self.path_of(package, &system.name)?;
        if system.name == package.top || wanted == local.path {
            return Ok(Outcome::Nothing);
        }
        let dsl = &self.service.dsl;
        let parent = name::parent_of(&wanted);
        if parent.is_none_or(|parent| dsl.head(parent).is_err()) {
            return Ok(Outcome::Nothing);
        }
        let to = if dsl.head(&wanted).is_err() {
            wanted
        } else if is_made_up(&local.path) {
            return Ok(Outcome::Nothing);
        } else {
            let parent = name::parent_of(&local.path).unwrap_or(&local.path);
            format!("{parent}/{}", tried.made_up())
        };
        Ok(self.rename(tried, &local.path, &to))
    }

    /// A clone that has become the origin of its origin: it is no clone any more, or one of an older snapshot. One that
    /// has become a clone of a newer one, of its own, had another one promoted over it, whose turn comes.
    fn promote(
        &mut self,
        system: &PackageSystem,
        local: &Local,
        ages: &HashMap<Guid, Txg>,
        tried: &mut Tried,
    ) -> Outcome {
        let Some(origin) = &local.origin else {
            return Outcome::Nothing;
        };
        let is_older = |wanted: Guid| ages.get(&wanted).is_some_and(|made| *made < origin.txg);
        // Two that are no clones there, and one of the other here, would be promoted in turns.
        if !system.origin.is_none_or(is_older) || !tried.promoted.insert(origin.guid) {
            return Outcome::Nothing;
        }
        let change = Change::Promote(Promote {
            name: local.path.clone(),
        });
        let says = format!("promoting {}", local.path);
        self.change(tried, ("promote", &local.path), &change, says)
    }

    /// Snapshots that are called otherwise, or are no more.
    fn bring_snapshots(
        &mut self,
        list: &PackageList,
        system: &PackageSystem,
        local: &Local,
        tried: &mut Tried,
    ) -> Result<Outcome, Failure> {
        for snapshot in &local.snapshots {
            let full = format!("{}@{}", local.path, snapshot.name);
            let Some(packaged) = system.snapshot(snapshot.guid) else {
                let is_known = list.system_with(snapshot.guid).is_some();
                if !is_known
                    && self.request.force
                    && self.drop_snapshot(system, local, snapshot, tried) == Outcome::Changed
                {
                    return Ok(Outcome::Changed);
                }
                continue;
            };
            let properties = &packaged.properties;
            receive_of_snapshot(
                self.service,
                &snapshot.dataset,
                &full,
                properties,
                self.reporter,
            )?;
            if packaged.name == snapshot.name {
                continue;
            }
            let is_taken = local.snapshots.iter().any(|one| one.name == packaged.name);
            let to = if !is_taken {
                packaged.name.clone()
            } else if is_made_up(&snapshot.name) {
                continue;
            } else {
                tried.made_up()
            };
            let to = format!("{}@{to}", local.path);
            if self.rename(tried, &full, &to) == Outcome::Changed {
                return Ok(Outcome::Changed);
            }
        }
        Ok(Outcome::Nothing)
    }

    /// Destroys a snapshot, or has it wait for its last user out of the way.
    fn drop_snapshot(
        &mut self,
        system: &PackageSystem,
        local: &Local,
        snapshot: &LocalSnapshot,
        tried: &mut Tried,
    ) -> Outcome {
        let full = format!("{}@{}", local.path, snapshot.name);
        let change = Change::Destroy(Destroy {
            target: DestroyTarget::Snapshots {
                dataset: local.path.clone(),
                specs: vec![snapshot.name.clone()],
            },
            recursive: false,
            dependents: false,
            force: false,
            deferred: true,
            dry_run: false,
        });
        let says = format!("attempting destroy {full}");
        let is_waiting = tried.failed.contains(&("destroy", full.clone()));
        if !is_waiting && self.change(tried, ("destroy", &full), &change, says) == Outcome::Changed
        {
            // One that waits is not waited for again.
            tried.failed.insert(("destroy", full));
            return Outcome::Changed;
        }
        let is_in_the_way = system.snapshots.iter().any(|one| one.name == snapshot.name);
        if !is_in_the_way {
            return Outcome::Nothing;
        }
        let to = format!("{}@{}", local.path, tried.made_up());
        self.rename(tried, &full, &to)
    }

    fn rename(&mut self, tried: &mut Tried, from: &str, to: &str) -> Outcome {
        let change = Change::Rename(Rename {
            from: from.to_owned(),
            to: to.to_owned(),
            parents: false,
            recursive: false,
            // What is received anew is not mounted with `-u`; what is mounted goes with its name.
            keep_mounts: false,
            force: self.request.force,
        });
        let says = format!("attempting rename {from} to {to}");
        self.change(tried, ("rename", from), &change, says)
    }

    /// Makes a change that was not tried before. One that fails is warned of.
    fn change(
        &mut self,
        tried: &mut Tried,
        (what, of): (&'static str, &str),
        change: &Change,
        says: String,
    ) -> Outcome {
        let key = (what, of.to_owned());
        if tried.failed.contains(&key) {
            return Outcome::Nothing;
        }
        if self.request.verbose {
            self.reporter.line(says);
        }
        let mut quiet = |_| Ok(());
        let mut nobody = Reporter::new(&mut quiet);
        match self.service.change_within(&self.actor, change, &mut nobody) {
            Ok(()) => {
                if self.request.verbose {
                    self.reporter.line("success");
                }
                Outcome::Changed
            }
            Err(failure) => {
                tried.failed.insert(key);
                self.reporter.warn(failure);
                Outcome::Nothing
            }
        }
    }
}

impl Tried {
    /// A name that nobody has chosen.
    fn made_up(&mut self) -> String {
        self.names += 1;
        format!("{MADE_UP}{}-{}", std::process::id(), self.names)
    }
}

/// When the snapshots that are here, and those that these were cloned from, were made.
fn ages(locals: &[Local]) -> HashMap<Guid, Txg> {
    let own = locals.iter().flat_map(|local| &local.snapshots);
    let own = own.map(|snapshot| (snapshot.guid, snapshot.txg));
    let origins = locals.iter().filter_map(|local| local.origin.as_ref());
    own.chain(origins.map(|origin| (origin.guid, origin.txg)))
        .collect()
}

/// How names begin that only get something out of the way.
const MADE_UP: &str = "recv-";

fn is_made_up(name: &str) -> bool {
    let last = name.rsplit_once('/').map_or(name, |(_, last)| last);
    last.starts_with(MADE_UP)
}
