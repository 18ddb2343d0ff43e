//! Properties that are kept inside a dataset and may be changed: the size of a volume, the version of a file system.

use std::sync::Arc;

use admin::{Assignments, Failure, FailureKind, Value, human_bytes};
use dmu::{Reservation, Tx};
use dsl::Dataset;
use dsl::property::{Figure, dataset as property};
use format::ObjectSetPhys;
use posix::VERSION_ACCOUNTING;

use super::Service;
use super::mounting::framed;
use super::owners::OwnerProperty;
use super::property_source::PropertySource;
use super::refusal::unreadable;
use super::rules::volume_reservation;
use super::source::PoolSource;

const VERB: &str = "set property for";

impl Service {
    /// The files of the pool's datasets.
    pub(super) fn source(&self) -> PoolSource {
        PoolSource {
            pool: Arc::clone(&self.pool),
            heads: Arc::clone(&self.heads),
            volumes: Arc::clone(&self.volumes),
        }
    }

    /// Changes what is kept inside the dataset, and answers what is to be set outside instead.
    pub(super) fn set_inside(
        &self,
        name: &str,
        dataset: &Arc<Dataset>,
        properties: &Assignments,
    ) -> Result<Assignments, Failure> {
        let mut outside = Assignments::new();
        for (property, value) in properties {
            match value.number() {
                Some(size) if property::VOLSIZE.is(property) => {
                    outside.extend(self.resize(name, dataset, size)?);
                }
                Some(version) if property::VERSION.is(property) => {
                    self.raise_version(name, dataset, version)?;
                }
                Some(value) if OwnerProperty::parse(property).is_some() => {
                    self.set_limit(name, dataset, property, value)?;
                }
                Some(_) | None => outside.push((property.clone(), value.clone())),
            }
        }
        Ok(outside)
    }

    fn figure(&self, dataset: &Arc<Dataset>, figure: Figure) -> Result<u64, Failure> {
        let dataset_index = self.dataset_index();
        let owner = dataset_index.head(dataset.directory().name(), Arc::clone(dataset))?;
        let found = owner.figure(figure)?;
        Ok(found.and_then(|value| value.number()).unwrap_or(0))
    }

    /// Gives a volume another size. A reservation that was made for the old one follows.
    fn resize(
        &self,
        name: &str,
        dataset: &Arc<Dataset>,
        size: u64,
    ) -> Result<Assignments, Failure> {
        let refuse = |text: String| Err(Failure::cannot(FailureKind::Invalid, VERB, name, text));
        let (old, block) = (
            self.figure(dataset, Figure::VolumeSize)?,
            self.figure(dataset, Figure::VolumeBlockSize)?.max(1),
        );
        if size == 0 {
            return refuse("'volsize' cannot be zero".to_owned());
        }
        if !size.is_multiple_of(block) {
            let block = human_bytes(block);
            return refuse(format!(
                "'volsize' must be a multiple of volume block size ({block})"
            ));
        }
        let copies = dataset.get(property::COPIES).map_err(unreadable)?.value;
        let reserved = dataset.ref_reservation().map_err(unreadable)?;
        let mut outside = Assignments::new();
        if reserved != 0 && reserved == volume_reservation(old, block, copies) {
            let reservation = volume_reservation(size, block, copies);
            let name = property::REFRESERVATION.name.to_owned();
            outside.push((name, Value::Number(reservation)));
            let more = reservation.saturating_sub(reserved);
            let class = dsl::SpaceClass::Normal;
            if more > dataset.directory().available(class).map_err(unreadable)? {
                return refuse("size is greater than available space".to_owned());
            }
        }
        let volume = self.source().open_volume(dataset);
        let volume = volume.map_err(|failure| framed(VERB, name, failure))?;
        volume
            .resize(size)
            .map_err(|error| Failure::cannot(FailureKind::Medium, VERB, name, error))?;
        Ok(outside)
    }

    /// Limits what a user, group or project may use; 0 lifts the limit.
    fn set_limit(
        &self,
        name: &str,
        dataset: &Arc<Dataset>,
        property: &str,
        limit: u64,
    ) -> Result<(), Failure> {
        let refuse = |kind, text: String| Failure::cannot(kind, VERB, name, text);
        let Some(property) = OwnerProperty::parse(property) else {
            return Ok(());
        };
        let id = property
            .id()
            .ok_or_else(|| refuse(FailureKind::Invalid, property.unknown_owner()))?;
        if self.figure(dataset, Figure::Version)? < VERSION_ACCOUNTING {
            let text = "the file system must be upgraded to version 4 or later";
            return Err(refuse(FailureKind::Unsupported, text.to_owned()));
        }
        let root = dataset.root().map_err(unreadable)?;
        let counts = ObjectSetPhys::FLAG_USER_ACCOUNTING;
        if root.is_some_and(|root| root.flags & counts == 0) {
            let text =
                "it was made before version 15 of the pool, and does not count whose its space is";
            return Err(refuse(FailureKind::Unsupported, text.to_owned()));
        }
        // A file system that is open knows its limits: it must be the one that changes them.
        let set = self.source().with(dataset, |files| {
            files.set_quota(property.kind, property.unit, id, limit)
        })?;
        set.map_err(|error| refuse(FailureKind::Medium, error.to_string()))?;
        self.pool
            .sync()
            .map_err(|error| refuse(FailureKind::Medium, error.to_string()))
    }

    /// A file system's version only goes up, from one to the next or further.
    fn raise_version(
        &self,
        name: &str,
        dataset: &Arc<Dataset>,
        version: u64,
    ) -> Result<(), Failure> {
        let now = self.figure(dataset, Figure::Version)?;
        if version == now {
            return Ok(());
        }
        let refuse = |kind, text: String| Err(Failure::cannot(kind, VERB, name, text));
        if version < now {
            return refuse(
                FailureKind::Invalid,
                format!("Can not downgrade; already at version {now}"),
            );
        }
        let mounted = self
            .mounts()
            .mounted()
            .iter()
            .any(|mount| mount.dataset == name);
        // A file system that is open goes by the version that it had when it was opened.
        if mounted {
            self.mounts()
                .barrier(name)
                .map_err(|failure| framed(VERB, name, failure))?;
            self.mounts().suspend(name)?;
        }
        let raised = self.store_version(dataset, version);
        if mounted {
            self.mounts().content_changed(name);
        }
        raised.map_err(|error| Failure::cannot(FailureKind::Medium, VERB, name, error))
    }

    fn store_version(&self, dataset: &Arc<Dataset>, version: u64) -> Result<(), String> {
        let text = |error: &dyn std::fmt::Display| error.to_string();
        let set = dataset.object_set().map_err(|error| text(&error))?;
        let engine = self.pool.engine().ok_or("the pool is read-only")?;
        let reservation = Reservation {
            names: 2,
            objects: 2,
            ..Reservation::default()
        };
        {
            let tx = Tx::assign(engine, &reservation).map_err(|error| text(&error))?;
            posix::raise_version(&tx, &set, version).map_err(|error| text(&error))?;
        }
        self.pool.sync().map_err(|error| text(&error))
    }
}
