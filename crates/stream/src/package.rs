//! The list at the head of a package: what datasets are in it, with their properties, snapshots and relations.

use std::collections::BTreeMap;

use base::Guid;
use format::nvlist::{NvList, Value};

use crate::StreamError;

/// What a package says of all that is in it.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct PackageList {
    /// The short name of the snapshot that the receiver has.
    pub from: Option<String>,
    /// The short name of the sent snapshot.
    pub to: String,
    /// It has all below its topmost dataset.
    pub is_recursive: bool,
    /// Its encrypted datasets are sent as they are encrypted.
    pub is_raw: bool,
    /// Its datasets.
    pub systems: Vec<PackageSystem>,
    /// Of each snapshot, the dataset that has it.
    by_snapshot: BTreeMap<u64, usize>,
}

/// A dataset of a package.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct PackageSystem {
    /// Its name where it was sent from.
    pub name: String,
    /// Of the dataset above, the snapshot that the receiver has or gets; 0 of the topmost.
    pub parent_snapshot: Guid,
    /// The snapshot that it is a clone of.
    pub origin: Option<Guid>,
    /// Its properties.
    pub properties: Vec<(String, PackageValue)>,
    /// Its snapshots.
    pub snapshots: Vec<PackageSnapshot>,
    /// Its encryption key was given for it, and not for a dataset above.
    pub is_encryption_root: bool,
}

/// A snapshot of a package.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct PackageSnapshot {
    /// Its short name.
    pub name: String,
    /// Its guid.
    pub guid: Guid,
    /// Its properties.
    pub properties: Vec<(String, PackageValue)>,
    /// The names of its holds.
    pub holds: Vec<String>,
}

/// A property's value.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum PackageValue {
    /// A number.
    Number(u64),
    /// Text.
    Text(String),
}

impl PackageList {
    /// What a list says.
    ///
    /// # Errors
    /// It is not as a sender makes it.
    pub fn of(list: &NvList) -> Result<Self, StreamError> {
        let systems = list
            .list("fss")
            .ok_or(StreamError::BadPackage("it lists no datasets"))?;
        let systems: Vec<PackageSystem> = systems
            .iter()
            .map(|(_, system)| {
                let Value::List(system) = system else {
                    return Err(StreamError::BadPackage("a dataset is no list"));
                };
                PackageSystem::of(system)
            })
            .collect::<Result<_, _>>()?;
        let to = list
            .str("tosnap")
            .ok_or(StreamError::BadPackage("it is of no snapshot"))?;
        let mut by_snapshot = BTreeMap::new();
        for (place, system) in systems.iter().enumerate() {
            for snapshot in &system.snapshots {
                by_snapshot.insert(snapshot.guid.0, place);
            }
        }
        Ok(Self {
            from: list.str("fromsnap").map(str::to_owned),
            to: to.to_owned(),
            is_recursive: !list.contains("not_recursive"),
            is_raw: list.contains("raw"),
            systems,
            by_snapshot,
        })
    }

    /// The dataset that has a snapshot.
    #[must_use]
    pub fn system_with(&self, snapshot: Guid) -> Option<&PackageSystem> {
        let place = self.by_snapshot.get(&snapshot.0)?;
        self.systems.get(*place)
    }

    /// The snapshot of a dataset that the receiver has.
    #[must_use]
    pub fn base_of(&self, system: &PackageSystem) -> Option<Guid> {
        let from = self.from.as_deref()?;
        let found = system.snapshots.iter().find(|one| one.name == from);
        found.map(|found| found.guid)
    }
}

impl PackageSystem {
    fn of(list: &NvList) -> Result<Self, StreamError> {
        let name = list
            .str("name")
            .ok_or(StreamError::BadPackage("a dataset without a name"))?;
        let within = |key: &str, name: &[u8]| list.list(key).and_then(|all| all.list(name));
        let mut snapshots = Vec::new();
        for (short, guid) in list.list("snaps").into_iter().flat_map(NvList::iter) {
            let Value::Uint64(guid) = guid else {
                return Err(StreamError::BadPackage("a snapshot without a guid"));
            };
            let holds = within("snapholds", short)
                .into_iter()
                .flat_map(NvList::iter);
            snapshots.push(PackageSnapshot {
                name: text(short)?,
                guid: Guid(*guid),
                properties: properties(within("snapprops", short)),
                holds: holds.filter_map(|(tag, _)| text(tag).ok()).collect(),
            });
        }
        Ok(Self {
            name: name.to_owned(),
            parent_snapshot: Guid(list.u64("parentfromsnap").unwrap_or(0)),
            origin: list.u64("origin").filter(|guid| *guid != 0).map(Guid),
            properties: properties(list.list("props")),
            snapshots,
            is_encryption_root: list.contains("is_encroot"),
        })
    }

    /// The snapshot with a guid.
    #[must_use]
    pub fn snapshot(&self, guid: Guid) -> Option<&PackageSnapshot> {
        self.snapshots.iter().find(|one| one.guid == guid)
    }
}

/// Names and values; what is neither a number nor text is left out.
fn properties(list: Option<&NvList>) -> Vec<(String, PackageValue)> {
    let all = list.into_iter().flat_map(NvList::iter);
    all.filter_map(|(name, value)| {
        let value = if let Value::Uint64(number) = value {
            PackageValue::Number(*number)
        } else if let Value::String(bytes) = value {
            PackageValue::Text(text(bytes).ok()?)
        } else {
            return None;
        };
        Some((text(name).ok()?, value))
    })
    .collect()
}

fn text(bytes: &[u8]) -> Result<String, StreamError> {
    let text = std::str::from_utf8(bytes);
    let text = text.map_err(|_| StreamError::BadPackage("a name that is no text"))?;
    Ok(text.to_owned())
}

#[cfg(test)]
mod tests;
