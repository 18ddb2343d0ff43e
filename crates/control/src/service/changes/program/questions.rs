//! What programs are told of a pool.

use std::cell::Cell;
use std::sync::Arc;

use admin::{
    DATASET_PROPERTIES, Failure, PropertyName, Setting, Source, Value as Stored,
    find_dataset_property, name,
};
use dsl::{Dataset, DslError};
use program::{Action, Entry, Host, Listing, Mode, Refusal, Value};

use super::actions::act;
use crate::service::Service;
use crate::service::dataset_index::PoolDatasetIndex;
use crate::service::property_source::{PropertySource, applies, named};
use crate::service::walk::DatasetIndex;

/// How many notes of a program are kept, and how long one is.
const NOTES_MAX: usize = 256;
const NOTE_LENGTH_MAX: usize = 1024;

/// The pool as a program sees it.
pub(super) struct PoolHost<'a> {
    service: &'a Service,
    dataset_index: PoolDatasetIndex<'a>,
    notes: Cell<usize>,
}

impl<'a> PoolHost<'a> {
    pub(super) fn new(service: &'a Service) -> Self {
        Self {
            service,
            dataset_index: service.dataset_index(),
            notes: Cell::new(0),
        }
    }

    /// Refuses what is no name, or of another pool.
    fn check(&self, full_name: &str) -> Result<(), String> {
        name::check(full_name).map_err(|error| format!("invalid name '{full_name}': {error}"))?;
        let pool = self.service.dsl.pool_name();
        if name::pool_of(full_name) != pool {
            return Err(format!("'{full_name}' is not in the target pool '{pool}'"));
        }
        Ok(())
    }

    fn source(&self, full_name: &str) -> Result<Box<dyn PropertySource + '_>, String> {
        self.check(full_name)?;
        let found = self.dataset_index.find(full_name).map_err(said)?;
        found.ok_or_else(|| missing(full_name))
    }

    fn dataset(&self, full_name: &str, what: Kind) -> Result<Arc<Dataset>, String> {
        self.check(full_name)?;
        let found = match self.service.dsl.dataset(full_name) {
            Ok(found) => found,
            Err(DslError::NotFound { .. }) => return Err(missing(full_name)),
            Err(error) => return Err(format!("'{full_name}': {error}")),
        };
        match (what, found.is_snapshot()) {
            (Kind::Head, false) | (Kind::Snapshot, true) => Ok(found),
            (Kind::Head, true) => Err(format!("'{full_name}' is a snapshot")),
            (Kind::Snapshot, false) => Err(format!("'{full_name}' is not a snapshot")),
        }
    }
}

/// Whose lists are asked for.
#[derive(Clone, Copy)]
enum Kind {
    /// A file system or volume.
    Head,
    /// A snapshot.
    Snapshot,
}

fn said(failure: Failure) -> String {
    failure.message
}

fn missing(full_name: &str) -> String {
    format!("dataset '{full_name}' does not exist")
}

/// Lua's numbers are signed.
fn number(number: u64) -> Value {
    Value::Number(number.cast_signed())
}

fn text(text: impl Into<String>) -> Value {
    Value::Text(text.into())
}

/// A value as `zfs get -p` shows it, numbers as numbers.
fn shown(property: &PropertyName, value: &Stored) -> Value {
    match value {
        Stored::Absent => Value::Nil,
        Stored::Text(shown) => text(shown),
        Stored::Number(stored) => {
            let exact = property.format(value, true);
            match exact.parse() {
                Ok(parsed) => number(parsed),
                // `none` of quotas and limits.
                Err(_) if *stored == 0 && exact == "none" => number(0),
                Err(_) => text(exact),
            }
        }
    }
}

/// Where a value comes from: the dataset that has it.
fn origin(full_name: &str, source: &Source) -> Option<String> {
    match source {
        Source::None => None,
        Source::Default => Some("default".to_owned()),
        Source::Local | Source::Temporary | Source::Received => Some(full_name.to_owned()),
        Source::Inherited(from) => Some(from.clone()),
    }
}

impl Host for PoolHost<'_> {
    fn exists(&self, full_name: &str) -> Result<bool, String> {
        self.check(full_name)?;
        Ok(self.dataset_index.find(full_name).map_err(said)?.is_some())
    }

    fn property(
        &self,
        full_name: &str,
        property: &str,
    ) -> Result<Option<(Value, Option<String>)>, String> {
        let source = self.source(full_name)?;
        let known = find_dataset_property(property)
            .ok_or_else(|| format!("there is no property '{property}'"))?;
        let found = named(&*source, &[property.to_owned()]).map_err(said)?;
        match (found.into_iter().next(), &known) {
            (Some((_, Setting { value, source, .. })), _) => {
                Ok(Some((shown(&known, &value), origin(full_name, &source))))
            }
            (None, PropertyName::User(_)) => Ok(None),
            (None, PropertyName::Native(_) | PropertyName::Computed(_)) => {
                Err(format!("'{full_name}' has no property '{property}'"))
            }
        }
    }

    fn list(&self, what: Listing, full_name: &str) -> Result<Vec<Entry>, String> {
        let one = |name: String| vec![text(name)];
        let failed = |error: DslError| format!("'{full_name}': {error}");
        match what {
            Listing::Children => {
                self.dataset(full_name, Kind::Head)?;
                let found = self.dataset_index.children(full_name).map_err(said)?;
                Ok(found.into_iter().map(one).collect())
            }
            Listing::Snapshots => {
                let head = self.dataset(full_name, Kind::Head)?;
                let found = head.snapshots().map_err(failed)?;
                let names = found.iter().map(|snapshot| snapshot.name().map(one));
                names.collect::<dsl::Result<_>>().map_err(failed)
            }
            Listing::Clones => {
                let snapshot = self.dataset(full_name, Kind::Snapshot)?;
                let found = snapshot.clone_names().map_err(failed)?;
                Ok(found.into_iter().map(one).collect())
            }
            Listing::Bookmarks => {
                let head = self.dataset(full_name, Kind::Head)?;
                let found = head.bookmarks().map_err(failed)?.into_iter();
                Ok(found
                    .map(|found| one(format!("{full_name}#{}", found.name)))
                    .collect())
            }
            Listing::Holds => {
                let snapshot = self.dataset(full_name, Kind::Snapshot)?;
                let found = snapshot.holds().map_err(failed)?.into_iter();
                Ok(found
                    .map(|hold| vec![text(hold.tag), number(hold.time)])
                    .collect())
            }
            Listing::UserProperties => {
                let found = self.source(full_name)?.user_properties().map_err(said)?;
                let entry = |(property, setting): (String, Setting)| {
                    let value = shown(&PropertyName::User(property.clone()), &setting.value);
                    let source = origin(full_name, &setting.source);
                    vec![text(property), value, source.map_or(Value::Nil, text)]
                };
                Ok(found.into_iter().map(entry).collect())
            }
            Listing::SystemProperties => {
                let source = self.source(full_name)?;
                let rows = DATASET_PROPERTIES
                    .iter()
                    .filter(|row| row.visible && applies(row, &*source));
                Ok(rows.map(|row| one(row.name.to_owned())).collect())
            }
        }
    }

    fn act(&self, action: &Action, mode: Mode) -> Result<(), Refusal> {
        act(self.service, action, mode)
    }

    fn note(&self, note: &str) {
        let count = self.notes.get();
        if count < NOTES_MAX {
            self.notes.set(count + 1);
            let note: String = note.chars().take(NOTE_LENGTH_MAX).collect();
            base::notice::say(&format_args!("channel program: {note}"));
        }
    }
}
