//! Making file systems and volumes.

use std::sync::Arc;

use admin::changes::{Create, VolumeSpec};
use admin::{Assignments, Failure, FailureKind, Permission, Types, Value, name};
use dmu::{ObjectSet, Tx};
use dsl::property::dataset::{
    COPIES, KEYLOCATION, REFRESERVATION, RESERVATION, VOLBLOCKSIZE, find,
};
use dsl::property::{Home, Requirement, Row};
use dsl::tasks::{CreateDataset, CreateEncrypted, Populate};
use dsl::{Actor, Dataset, DslError, NewEncryption, PropertyValue, SpaceClass, volume};
use format::ObjectSetKind;
use format::features::ENCRYPTION;
use format::version::UNIQUE_ACCURATE;

use super::pool_change::{PoolChange, Recorded, Turn, WhileSuspended};
use crate::service::Service;
use crate::service::assignments::{InsideValues, split_inside, stored};
use crate::service::contents::clock;
use crate::service::new_keys;
use crate::service::refusal::{refused, unreadable};
use crate::service::reporter::Reporter;
use crate::service::rules::{Target, volume_reservation};

impl PoolChange for Create {
    /// Parents are looked at where they are found.
    fn authorize(&self, service: &Service, actor: &Actor) -> Result<(), Failure> {
        service.authorize_new(actor, &self.name, &self.properties)
    }

    fn while_suspended(&self) -> WhileSuspended<'_> {
        WhileSuspended::REFUSED
    }

    fn turn(&self) -> Turn {
        Turn::Alone
    }

    fn recorded(&self) -> Recorded {
        Recorded::After
    }

    fn apply(&self, service: &Service, reporter: &mut Reporter<'_>) -> Result<(), Failure> {
        let (name, properties) = (self.name.as_str(), &self.properties);
        if !service.prepare(name, self.parents, self.unmounted, reporter)? {
            return Ok(());
        }
        let kind = if self.volume.is_some() {
            Types::VOLUME
        } else {
            Types::FILESYSTEM
        };
        let target = Target {
            kind,
            creating: true,
        };
        let (encryption, properties) = new_keys::chosen(name, properties, self.key.as_ref())?;
        let properties = &properties;
        service.check_created(name, target, properties, &encryption)?;
        let task = match self.volume {
            None => service.new_file_system(name, properties)?,
            Some(spec) => new_volume(name, spec, properties, service.reserves_by())?,
        };
        service.check_reservations(name, &task.properties)?;
        let task = CreateEncrypted {
            create: task,
            encryption,
        };
        let has_key = self.key.is_some();
        let head = service
            .run(task)
            .map_err(|error| not_created(name, has_key, &error))?;
        service.mount_created(&head, self.unmounted, reporter)
    }
}

/// Why a dataset was not made, `has_key` of its own or not.
fn not_created(name: &str, has_key: bool, error: &DslError) -> Failure {
    let cannot = |kind, text| Failure::cannot(kind, "create", name, text);
    if let DslError::KeyUnloaded { .. } = error {
        let text = "encryption root's key is not loaded or provided";
        return cannot(FailureKind::Permission, text);
    }
    let DslError::NotEncrypted { .. } = error else {
        return refused("create", name, error);
    };
    // The parent is not, whose cipher or key was to be taken.
    let text = if has_key {
        "Encryption must be turned on to set encryption properties."
    } else {
        "Keyformat required for new encryption root."
    };
    cannot(FailureKind::Invalid, text)
}

impl Service {
    /// Checks that a dataset can be made here, and makes missing parents if it may.
    pub(super) fn prepare(
        &self,
        name: &str,
        parents: bool,
        unmounted: bool,
        reporter: &mut Reporter<'_>,
    ) -> Result<bool, Failure> {
        let refuse = |kind, reason: &str| Err(Failure::cannot(kind, "create", name, reason));
        if let Err(error) = name::check_dataset(name) {
            return refuse(FailureKind::Invalid, &error.to_string());
        }
        let Some(parent) = name::parent_of(name) else {
            return refuse(FailureKind::Invalid, "missing dataset name");
        };
        if self.dsl.head(name).is_ok() {
            return if parents {
                Ok(false)
            } else {
                refuse(FailureKind::Exists, "dataset already exists")
            };
        }
        if parents {
            self.make_parents(parent, unmounted, reporter)?;
        }
        let Ok(head) = self.dsl.head(parent) else {
            return refuse(FailureKind::Missing, "parent does not exist");
        };
        if self.dataset_index().kind_of(&head)? != Types::FILESYSTEM {
            return refuse(FailureKind::Invalid, "parent is not a filesystem");
        }
        self.require(
            &self.actor(),
            parent,
            &[Permission::CREATE, Permission::MOUNT],
            || Failure::cannot(FailureKind::Permission, "create", name, "permission denied"),
        )?;
        Ok(true)
    }

    pub(in crate::service) fn make_parents(
        &self,
        parent: &str,
        unmounted: bool,
        reporter: &mut Reporter<'_>,
    ) -> Result<(), Failure> {
        let ends = parent
            .match_indices('/')
            .map(|(at, _)| at)
            .chain([parent.len()]);
        for end in ends {
            let name = &parent[..end];
            if self.dsl.head(name).is_err() {
                let create = Create {
                    name: name.to_owned(),
                    volume: None,
                    properties: Assignments::new(),
                    parents: false,
                    unmounted: unmounted || !self.actor().privileged,
                    key: None,
                };
                create.apply(self, reporter)?;
            }
        }
        Ok(())
    }

    /// Refuses properties of a new dataset, or its encryption.
    fn check_created(
        &self,
        name: &str,
        target: Target,
        properties: &Assignments,
        encryption: &NewEncryption,
    ) -> Result<(), Failure> {
        let asks = matches!(
            encryption,
            NewEncryption::Suite(_) | NewEncryption::Root(..)
        );
        if asks && !self.feature_enabled(&ENCRYPTION) {
            let text = "Encryption feature not enabled.";
            return Err(Failure::cannot(
                FailureKind::Unsupported,
                "create",
                name,
                text,
            ));
        }
        // A location was looked at with its key.
        let mut checked = properties.clone();
        checked.retain(|(property, _)| !KEYLOCATION.is(property));
        self.check_properties("create", name, target, &checked)
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
        let number = |row: &Row| {
            let found = properties.iter().find(|(property, _)| row.is(property));
            found.and_then(|(_, value)| value.number()).unwrap_or(0)
        };
        let asked = number(&RESERVATION).max(number(&REFRESERVATION));
        if asked <= left {
            return Ok(());
        }
        let failure = Failure::cannot(FailureKind::Space, "create", name, "out of space");
        Err(failure.advise(format!(
            "it would reserve {} and {} is left; make it smaller, or a volume sparse with '-s'",
            admin::human_bytes(asked),
            admin::human_bytes(left)
        )))
    }

    pub(super) fn mount_created(
        &self,
        head: &Arc<Dataset>,
        unmounted: bool,
        reporter: &mut Reporter<'_>,
    ) -> Result<(), Failure> {
        if unmounted {
            return Ok(());
        }
        if !self.actor().privileged {
            let text = "filesystem successfully created, but it may only be mounted by root";
            return Err(Failure::new(FailureKind::Permission, text));
        }
        if self.mount_new(head, reporter) {
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
            populate: Some(shape.populate_task(clock())),
        })
    }

    /// The property that keeps room for what a volume may hold.
    fn reserves_by(&self) -> &'static Row {
        let since = Requirement::Version(UNIQUE_ACCURATE);
        match self.has(since) {
            true => REFRESERVATION.row(),
            false => RESERVATION.row(),
        }
    }

    /// What is kept inside a new file system: as asked, else as its parent has it.
    fn inside_values(&self, parent: &str, asked: &Assignments) -> Result<InsideValues, Failure> {
        let parent = self.dsl.head(parent).map_err(unreadable)?;
        let set = parent.object_set().ok();
        let inherited = |name: &str| posix::stored_number(set.as_ref()?, name);
        Ok(InsideValues::new(asked, &inherited, &|needed| {
            self.has(needed)
        }))
    }
}

fn new_volume(
    name: &str,
    spec: VolumeSpec,
    properties: &Assignments,
    reserves_by: &'static Row,
) -> Result<CreateDataset, Failure> {
    let number = |row: &Row, default: u64| {
        let found = properties.iter().find(|(name, _)| row.is(name));
        found
            .and_then(|(_, value)| value.number())
            .unwrap_or(default)
    };
    let block_size = number(&VOLBLOCKSIZE, VOLBLOCKSIZE.default_number());
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
        .filter(|(name, _)| find(name).is_none_or(|row| row.home != Home::Volume))
        .cloned()
        .collect();
    let given = outside.iter().any(|(name, _)| reserves_by.is(name));
    if !spec.sparse && !given {
        let reservation = volume_reservation(
            spec.size,
            block_size,
            number(&COPIES, COPIES.default_number()),
        );
        outside.push((reserves_by.name.to_owned(), Value::Number(reservation)));
    }
    let populate: Populate = Box::new(move |set: &Arc<ObjectSet>, tx: &Tx| {
        volume::populate(set, tx, spec.size, block_size).map_err(|error| error.to_string())
    });
    Ok(CreateDataset {
        path: name.to_owned(),
        kind: ObjectSetKind::Volume,
        properties: stored(&outside)?,
        case_insensitive: false,
        populate: Some(populate),
    })
}
