//! Properties that are kept inside a dataset and may be changed: the size of a volume, the version of a file system.

use std::sync::Arc;

use base::ObjectId;
use dmu::{Reservation, Tx, Zap};
use dsl::Dataset;

use super::Service;
use super::contents::{VOLUME_DATA, VOLUME_TABLE};
use super::refusal::unreadable;
use super::rules::volume_reservation;
use super::subject::Subject;
use crate::message::Assignments;
use crate::number;
use crate::property::Value;
use crate::{Failure, FailureKind};

const VERB: &str = "set property for";

impl Service {
    /// Changes what is kept inside the dataset, and answers what is to be set outside instead.
    pub(super) fn set_inside(
        &self,
        name: &str,
        dataset: &Arc<Dataset>,
        properties: &Assignments,
    ) -> Result<Assignments, Failure> {
        let mut outside = Assignments::new();
        for (property, value) in properties {
            match (property.as_str(), value) {
                ("volsize", Value::Number(size)) => {
                    outside.extend(self.resize(name, dataset, *size)?);
                }
                ("version", Value::Number(version)) => {
                    self.keep_version(name, dataset, *version)?
                }
                _ => outside.push((property.clone(), value.clone())),
            }
        }
        Ok(outside)
    }

    fn figure(&self, dataset: &Arc<Dataset>, key: &str) -> Result<u64, Failure> {
        let catalogue = self.catalogue();
        let subject = catalogue.head(dataset.directory().name(), Arc::clone(dataset))?;
        Ok(match subject.measured(key)? {
            Some(Value::Number(number)) => number,
            _ => 0,
        })
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
            self.figure(dataset, "volsize")?,
            self.figure(dataset, "volblocksize")?.max(1),
        );
        if size == 0 {
            return refuse("'volsize' cannot be zero".to_owned());
        }
        if !size.is_multiple_of(block) {
            let block = number::human_bytes(block);
            return refuse(format!(
                "'volsize' must be a multiple of volume block size ({block})"
            ));
        }
        let copies = dataset.number_property("copies", true, 1);
        let copies = copies.map_err(unreadable)?;
        let reserved = dataset.ref_reservation().map_err(unreadable)?;
        let mut outside = Assignments::new();
        if reserved != 0 && reserved == volume_reservation(old, block, copies) {
            let reservation = volume_reservation(size, block, copies);
            outside.push(("refreservation".to_owned(), Value::Number(reservation)));
            let more = reservation.saturating_sub(reserved);
            let class = dsl::SpaceClass::Normal;
            if more > dataset.directory().available(class).map_err(unreadable)? {
                return refuse("size is greater than available space".to_owned());
            }
        }
        self.store_size(dataset, old, size)
            .map_err(|error| Failure::cannot(FailureKind::Medium, VERB, name, error))?;
        Ok(outside)
    }

    fn store_size(&self, dataset: &Arc<Dataset>, old: u64, size: u64) -> Result<(), String> {
        let text = |error: &dyn std::fmt::Display| error.to_string();
        let set = dataset.object_set().map_err(|error| text(&error))?;
        let engine = self.pool.engine().ok_or("the pool is read-only")?;
        let open = |id: ObjectId| set.object(id).map_err(|error| text(&error));
        let (data, table) = (open(VOLUME_DATA)?, open(VOLUME_TABLE)?);
        let table = Zap::open(&table).map_err(|error| text(&error))?;
        let reservation = Reservation {
            names: 1,
            objects: 1,
            net_free: size < old,
            ..Reservation::default()
        };
        let tx = Tx::assign(engine, &reservation).map_err(|error| text(&error))?;
        if size < old {
            data.free_range(&tx, size, old - size)
                .map_err(|error| text(&error))?;
        }
        table
            .update(&tx, b"size", size)
            .map_err(|error| text(&error))
    }

    /// A file system's version only goes up, and is the newest for all but very old ones.
    fn keep_version(
        &self,
        name: &str,
        dataset: &Arc<Dataset>,
        version: u64,
    ) -> Result<(), Failure> {
        let now = self.figure(dataset, "version")?;
        if version == now {
            return Ok(());
        }
        let text = if version < now {
            format!("its version is {now} and cannot be lowered")
        } else {
            format!("its version is {now}; this version of Millpond does not upgrade file systems")
        };
        let kind = FailureKind::Unsupported;
        Err(Failure::cannot(kind, VERB, name, text))
    }
}
