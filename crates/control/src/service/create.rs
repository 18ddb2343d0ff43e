//! Making file systems, volumes and clones.

use std::sync::Arc;

use dmu::{ObjectSet, Tx, Zap};
use dsl::tasks::{Clone as CloneTask, CreateDataset, Populate};
use dsl::{Dataset, PropertyValue, SpaceClass};
use format::ObjectSetKind;

use super::Service;
use super::refusal::{refused, unreadable};
use super::rules::{self, RuleError, Target, volume_reservation};
use super::subject::Subject;
use super::voice::Voice;
use crate::message::{Assignments, VolumeSpec};
use crate::name;
use crate::property::{PropertyError, Types, Value};
use crate::{Failure, FailureKind};

/// Properties of a file system that are kept inside it.
const INSIDE: [&str; 4] = ["version", "utf8only", "normalization", "casesensitivity"];
/// Block size of new volumes.
const VOLUME_BLOCK_SIZE: u64 = 16 << 10;

/// How to make a dataset.
#[derive(Debug, Clone, Copy)]
pub(super) struct CreateFlags {
    pub(super) parents: bool,
    pub(super) unmounted: bool,
}

impl Service {
    /// What `refreservation=auto` means for a volume.
    pub(super) fn automatic_reservation(&self, dataset: &Arc<Dataset>) -> Result<u64, Failure> {
        let catalogue = self.catalogue();
        let name = dataset.directory().name();
        let subject = catalogue.head(name, Arc::clone(dataset))?;
        let number = |key: &str| match subject.measured(key) {
            Ok(Some(Value::Number(number))) => number,
            _ => 0,
        };
        let copies = dataset
            .number_property("copies", true, 1)
            .map_err(unreadable)?;
        Ok(volume_reservation(
            number("volsize"),
            number("volblocksize"),
            copies,
        ))
    }

    fn feature_enabled(&self, feature: &format::features::Feature) -> bool {
        self.dsl.mos().services.is_enabled(feature)
    }

    /// Refuses properties that cannot be set.
    pub(super) fn check_properties(
        &self,
        verb: &str,
        name: &str,
        target: Target,
        properties: &Assignments,
    ) -> Result<(), Failure> {
        rules::check(target, properties, &|feature| self.feature_enabled(feature)).map_err(
            |error| {
                let kind = match error {
                    RuleError::Feature(_) | RuleError::NotYet(_) => FailureKind::Unsupported,
                    _ => FailureKind::Invalid,
                };
                Failure::cannot(kind, verb, name, error)
            },
        )
    }

    /// Checks that a dataset can be made here, and makes missing parents if it may.
    fn prepare(
        &self,
        name: &str,
        flags: CreateFlags,
        voice: &mut Voice<'_>,
    ) -> Result<bool, Failure> {
        let refuse = |kind, reason: &str| Err(Failure::cannot(kind, "create", name, reason));
        if let Err(error) = name::check_dataset(name) {
            return refuse(FailureKind::Invalid, &error.to_string());
        }
        let Some(parent) = name::parent_of(name) else {
            return refuse(FailureKind::Invalid, "missing dataset name");
        };
        if self.dsl.head(name).is_ok() {
            return if flags.parents {
                Ok(false)
            } else {
                refuse(FailureKind::Exists, "dataset already exists")
            };
        }
        if flags.parents {
            self.make_parents(parent, flags, voice)?;
        }
        let Ok(head) = self.dsl.head(parent) else {
            return refuse(FailureKind::Missing, "parent does not exist");
        };
        if self.catalogue().kind_of(&head)? != Types::FILESYSTEM {
            return refuse(FailureKind::Invalid, "parent is not a filesystem");
        }
        self.require(&self.actor(), parent, &["create", "mount"], || {
            Failure::cannot(FailureKind::Permission, "create", name, "permission denied")
        })?;
        Ok(true)
    }

    fn make_parents(
        &self,
        parent: &str,
        flags: CreateFlags,
        voice: &mut Voice<'_>,
    ) -> Result<(), Failure> {
        let ends = parent
            .match_indices('/')
            .map(|(at, _)| at)
            .chain([parent.len()]);
        for end in ends {
            let name = &parent[..end];
            if self.dsl.head(name).is_err() {
                let flags = CreateFlags {
                    parents: false,
                    unmounted: flags.unmounted || !self.actor().privileged,
                };
                self.create(name, None, &Assignments::new(), flags, voice)?;
            }
        }
        Ok(())
    }

    pub(super) fn create(
        &self,
        name: &str,
        volume: Option<VolumeSpec>,
        properties: &Assignments,
        flags: CreateFlags,
        voice: &mut Voice<'_>,
    ) -> Result<(), Failure> {
        if !self.prepare(name, flags, voice)? {
            return Ok(());
        }
        let kind = if volume.is_some() {
            Types::VOLUME
        } else {
            Types::FILESYSTEM
        };
        let target = Target {
            kind,
            creating: true,
        };
        self.check_properties("create", name, target, properties)?;
        let task = match volume {
            None => self.new_file_system(name, properties)?,
            Some(spec) => self.new_volume(name, spec, properties)?,
        };
        self.check_reservations(name, &task.properties)?;
        let head = self
            .run(task)
            .map_err(|error| refused("create", name, &error))?;
        self.mount_created(&head, flags, voice)
    }

    /// Refuses to reserve what the parent has not left.
    fn check_reservations(
        &self,
        name: &str,
        properties: &[(String, PropertyValue)],
    ) -> Result<(), Failure> {
        let parent = self.head("open", name::parent_of(name).unwrap_or(name))?;
        let left = parent
            .directory()
            .available(SpaceClass::Normal)
            .map_err(unreadable)?;
        let number = |key: &str| {
            let found = properties.iter().find(|(property, _)| property == key);
            found.and_then(|(_, value)| value.number()).unwrap_or(0)
        };
        let asked = number("reservation").max(number("refreservation"));
        if asked <= left {
            return Ok(());
        }
        let failure = Failure::cannot(FailureKind::Space, "create", name, "out of space");
        Err(failure.advise(format!(
            "it would reserve {} and {} is left; make it smaller, or a volume sparse with '-s'",
            crate::number::human_bytes(asked),
            crate::number::human_bytes(left)
        )))
    }

    fn mount_created(
        &self,
        head: &Arc<Dataset>,
        flags: CreateFlags,
        voice: &mut Voice<'_>,
    ) -> Result<(), Failure> {
        if flags.unmounted {
            return Ok(());
        }
        if !self.actor().privileged {
            let text = "filesystem successfully created, but it may only be mounted by root";
            return Err(Failure::new(FailureKind::Permission, text));
        }
        if self.mount_new(head, voice) {
            return Ok(());
        }
        let text = "filesystem successfully created, but not mounted";
        Err(Failure::new(FailureKind::Service, text))
    }

    fn new_file_system(
        &self,
        name: &str,
        properties: &Assignments,
    ) -> Result<CreateDataset, Failure> {
        let (inside, outside) = split_inside(properties);
        let parent = name::parent_of(name).unwrap_or(name);
        let values = self.inside_values(parent, &inside)?;
        let shape = values.shape(name)?;
        let case_insensitive = shape.is_case_insensitive();
        Ok(CreateDataset {
            path: name.to_owned(),
            kind: ObjectSetKind::FileSystem,
            properties: stored(&outside)?,
            case_insensitive,
            populate: Some(shape.populate_task(super::contents::clock())),
        })
    }

    /// What is kept inside a new file system: as asked, else as its parent has it.
    fn inside_values(&self, parent: &str, asked: &Assignments) -> Result<InsideValues, Failure> {
        let parent = self.dsl.head(parent).map_err(unreadable)?;
        let master = parent
            .object_set()
            .ok()
            .and_then(|set| set.object(base::ObjectId(1)).ok())
            .and_then(|object| Zap::open(&object).ok());
        let inherited = |name: &str| master.as_ref()?.lookup(name.as_bytes()).ok()?;
        Ok(InsideValues::new(asked, &inherited))
    }

    fn new_volume(
        &self,
        name: &str,
        spec: VolumeSpec,
        properties: &Assignments,
    ) -> Result<CreateDataset, Failure> {
        let number = |key: &str, default: u64| match properties.iter().find(|(name, _)| name == key)
        {
            Some((_, Value::Number(number))) => *number,
            _ => default,
        };
        let block_size = number("volblocksize", VOLUME_BLOCK_SIZE);
        let refuse = |reason: &str| {
            Err(Failure::cannot(
                FailureKind::Invalid,
                "create",
                name,
                reason,
            ))
        };
        if spec.size == 0 {
            return refuse("volume size cannot be zero");
        }
        if !spec.size.is_multiple_of(block_size) {
            return refuse("volume size must be a multiple of volume block size");
        }
        let mut outside: Assignments = properties
            .iter()
            .filter(|(name, _)| !matches!(name.as_str(), "volblocksize" | "volsize"))
            .cloned()
            .collect();
        let given = outside.iter().any(|(name, _)| name == "refreservation");
        if !spec.sparse && !given {
            let reservation = volume_reservation(spec.size, block_size, number("copies", 1));
            outside.push(("refreservation".to_owned(), Value::Number(reservation)));
        }
        let populate: Populate = Box::new(move |set: &Arc<ObjectSet>, tx: &Tx| {
            populate_volume(set, tx, spec.size, block_size).map_err(|error| error.to_string())
        });
        Ok(CreateDataset {
            path: name.to_owned(),
            kind: ObjectSetKind::Volume,
            properties: stored(&outside)?,
            case_insensitive: false,
            populate: Some(populate),
        })
    }

    pub(super) fn clone_snapshot(
        &self,
        snapshot: &str,
        name: &str,
        properties: &Assignments,
        flags: CreateFlags,
        voice: &mut Voice<'_>,
    ) -> Result<(), Failure> {
        let origin = self
            .dsl
            .dataset(snapshot)
            .map_err(|error| refused("open", snapshot, &error))?;
        let parent = name::parent_of(name).unwrap_or(name);
        if !flags.parents && self.dsl.head(parent).is_err() {
            let reason = format!("no such parent '{parent}'");
            return Err(Failure::cannot(
                FailureKind::Missing,
                "create",
                name,
                reason,
            ));
        }
        if !self.prepare(name, flags, voice)? {
            return Ok(());
        }
        let head = origin.directory().head().map_err(unreadable)?;
        let kind = match head {
            Some(head) => self.catalogue().kind_of(&head)?,
            None => Types::FILESYSTEM,
        };
        self.check_properties(
            "create",
            name,
            Target {
                kind,
                creating: false,
            },
            properties,
        )?;
        let task = CloneTask {
            origin: snapshot.to_owned(),
            path: name.to_owned(),
            properties: stored(properties)?,
        };
        let head = self
            .run(task)
            .map_err(|error| refused("create", name, &error))?;
        self.mount_created(&head, flags, voice)
    }
}

/// Properties that are kept inside a file system, and those that are not.
pub(super) fn split_inside(properties: &Assignments) -> (Assignments, Assignments) {
    properties
        .iter()
        .cloned()
        .partition(|(name, _)| INSIDE.contains(&name.as_str()))
}

/// What is kept inside a file system.
pub(super) struct InsideValues {
    version: u64,
    utf8_only: bool,
    utf8_asked: Option<u64>,
    normalization: u64,
    case: u64,
}

impl InsideValues {
    /// As asked, else as the parent has it, else plain.
    pub(super) fn new(asked: &Assignments, inherited: &dyn Fn(&str) -> Option<u64>) -> Self {
        let value = |name: &str| match asked.iter().find(|(key, _)| key == name) {
            Some((_, Value::Number(number))) => Some(*number),
            _ => None,
        };
        let or_parent = |name: &str| value(name).or_else(|| inherited(name)).unwrap_or(0);
        Self {
            version: value("version").unwrap_or(5),
            utf8_only: or_parent("utf8only") != 0,
            utf8_asked: value("utf8only"),
            normalization: or_parent("normalization"),
            case: or_parent("casesensitivity"),
        }
    }

    pub(super) fn shape(&self, name: &str) -> Result<super::contents::NewFileSystem, Failure> {
        if self.normalization != 0 && self.utf8_asked == Some(0) {
            let reason = "'utf8only' must be on with normalization";
            return Err(Failure::cannot(
                FailureKind::Invalid,
                "create",
                name,
                reason,
            ));
        }
        Ok(super::contents::NewFileSystem {
            version: self.version,
            utf8_only: self.utf8_only || self.normalization != 0,
            normalization: self.normalization,
            case: self.case,
            owner: (sys::user_id(), sys::group_id()),
        })
    }
}

/// A volume is two objects: its data, and a table with its size.
fn populate_volume(set: &Arc<ObjectSet>, tx: &Tx, size: u64, block_size: u64) -> dmu::Result<()> {
    super::contents::populate_volume(set, tx, size, block_size)
}

/// Assignments as the property layer stores them.
pub(super) fn stored(properties: &Assignments) -> Result<Vec<(String, PropertyValue)>, Failure> {
    let mut found = Vec::new();
    for (name, value) in properties {
        let value = match value {
            Value::Number(number) => PropertyValue::Number(*number),
            Value::Text(text) => PropertyValue::Text(text.clone()),
            Value::Absent => {
                let error = PropertyError::Unknown(name.clone());
                return Err(Failure::new(FailureKind::Invalid, error.to_string()));
            }
        };
        found.push((name.clone(), value));
    }
    Ok(found)
}
