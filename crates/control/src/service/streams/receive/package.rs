//! Packages: several streams, and what the list at their head says of their datasets.

use admin::{Failure, FailureKind, name};
use base::Guid;
use dsl::tasks::AdoptKey;
use replication::receive::{Head, Incoming, Piece};
use stream::{PackageList, PackageSystem, StreamError, begin_name, decode_list};

use super::failures::Context;
use super::naming::named;
use super::{Receiving, turn};
use crate::service::refusal::{refused, unreadable};

/// The head of a package.
pub(super) struct Package {
    /// The topmost dataset where it was sent from.
    pub(super) top: String,
    /// What is in it; none of one that has only snapshots of one dataset.
    pub(super) list: Option<PackageList>,
}

impl Package {
    /// What a package's BEGIN says.
    pub(super) fn of(begin: &Piece) -> Result<Self, StreamError> {
        let list = decode_list(&begin.payload)?;
        let list = list.as_ref().map(PackageList::of).transpose()?;
        let name = begin.item.record.begin().map_or(&[][..], begin_name);
        let name = std::str::from_utf8(name).ok();
        let top = name.and_then(|name| name.split_once('@'));
        match (top, &list) {
            (None, Some(_)) => Err(StreamError::BadPackage("it is of no snapshot")),
            (top, _) => Ok(Self {
                top: top.map_or_else(String::new, |(top, _)| top.to_owned()),
                list,
            }),
        }
    }

    /// The list of a package with all below its topmost dataset that continues an earlier one.
    pub(super) fn continues(&self) -> Option<(&PackageList, &str)> {
        let list = self.list.as_ref().filter(|list| list.is_recursive)?;
        Some((list, list.from.as_deref()?))
    }
}

impl Receiving<'_, '_> {
    /// A package, whose BEGIN was read.
    pub(super) fn package(
        &mut self,
        incoming: &mut Incoming,
        package: &Package,
    ) -> Result<(), Failure> {
        let is_recursive = package.list.as_ref().is_some_and(|list| list.is_recursive);
        if is_recursive && self.request.target.contains('@') {
            let text = "cannot specify snapshot name for multi-snapshot stream";
            return Err(Context::Any.failure(FailureKind::Invalid, text));
        }
        self.streams(incoming, package)?;
        if self.request.corrective {
            return Ok(());
        }
        // What had to wait for its origin or its place has it now.
        self.follow(package)?;
        self.adopt_keys(package)
    }

    /// What had its key from a dataset above where it was sent from has it from there here, if both came just now: each
    /// came as a root of its own.
    fn adopt_keys(&mut self, package: &Package) -> Result<(), Failure> {
        let Some(list) = package.list.as_ref().filter(|list| list.is_raw) else {
            return Ok(());
        };
        let service = self.service;
        let is_new = |id| self.made.iter().any(|made| made.directory().id() == id);
        let mut adopted = Vec::new();
        for head in &self.made {
            let directory = head.directory();
            let above = directory.parent().map(|parent| parent.key_record());
            let above = above.transpose().map_err(unreadable)?.flatten();
            let has_new_root = above
                .and_then(|above| above.root().map(|root| root.id()))
                .is_some_and(is_new);
            let Some(newest) = head.latest_snapshot().map_err(unreadable)? else {
                continue;
            };
            let system = list.system_with(newest.guid().map_err(unreadable)?);
            let was_root = system.is_none_or(|system| system.is_encryption_root);
            let is_root = service.dsl.encryption_root(&directory).is_ok();
            if is_root && !was_root && has_new_root {
                adopted.push(directory.name());
            }
        }
        let _turn = turn(service, &self.stop, &self.actor)?;
        for path in adopted {
            let task = AdoptKey { path: path.clone() };
            if let Err(error) = service.dsl.run_as(&self.actor, task) {
                self.reporter.warn(refused("change key of", &path, &error));
            }
        }
        Ok(())
    }

    /// Where a stream goes: to the dataset that continues here what it continues there, if that has another name here.
    pub(super) fn place_in_package(
        &self,
        head: &Head,
        system: &PackageSystem,
        path: String,
    ) -> Result<String, Failure> {
        let dsl = &self.service.dsl;
        if dsl.head(&path).is_ok() {
            return Ok(path);
        }
        if !head.is_full() && !head.is_clone() {
            let found = self.snapshot_with(head.from_guid, &path)?;
            return Ok(found.map_or(path, |found| name::dataset_of(&found).to_owned()));
        }
        let parent = name::parent_of(&path);
        let is_there = parent.is_some_and(|parent| dsl.head(parent).is_ok());
        if is_there || system.parent_snapshot == Guid(0) {
            return Ok(path);
        }
        let Some(above) = self.snapshot_with(system.parent_snapshot, &path)? else {
            return Ok(path);
        };
        let last = path
            .rsplit_once('/')
            .map_or(path.as_str(), |(_, last)| last);
        Ok(format!("{}/{last}", name::dataset_of(&above)))
    }

    /// Where the package's topmost dataset is here.
    pub(super) fn top_of(&self, package: &Package) -> Result<String, Failure> {
        self.path_of(package, &package.top)
    }

    /// Where a dataset of the package is to be here.
    pub(super) fn path_of(&self, package: &Package, sent: &str) -> Result<String, Failure> {
        let target = (self.request.target.as_str(), self.request.naming);
        let short = package.list.as_ref().map_or("", |list| list.to.as_str());
        Ok(named(target, &package.top, (sent, short))?.path)
    }
}
