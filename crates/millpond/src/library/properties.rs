//! Properties of pools and datasets that are asked for and set: values are shown exactly, as `zfs get -p` shows them.

use admin::changes::{Inherit, Set, SetPool};
use admin::queries::PoolProperties;
use admin::rows::{Effect, dataset};
use admin::{
    Change, PropertyName, RowText, Selection, Setting, Source, Types, Value, find_dataset_property,
    find_pool_property,
};

use super::assignments::{assignment, pool_assignment};
use super::{Error, Pool, Result};

/// A property of a dataset or pool.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Property {
    /// Its name.
    pub name: String,
    /// Its value; numbers in full.
    pub value: String,
    /// Where the value comes from.
    pub source: PropertySource,
}

/// Where the value of a property comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum PropertySource {
    /// It is measured, nobody sets it.
    Measured,
    /// Nobody has set it.
    Default,
    /// Set here.
    Local,
    /// Set on the dataset of this name, above.
    Inherited(String),
    /// From a stream that was received.
    Received,
    /// Only for as long as the pool is open.
    Temporary,
}

impl From<Source> for PropertySource {
    fn from(source: Source) -> Self {
        match source {
            Source::None => Self::Measured,
            Source::Default => Self::Default,
            Source::Local => Self::Local,
            Source::Temporary => Self::Temporary,
            Source::Received => Self::Received,
            Source::Inherited(from) => Self::Inherited(from),
        }
    }
}

fn shown(find: fn(&str) -> Option<PropertyName>, name: &str, setting: Setting) -> Property {
    let value = match (find(name), &setting.value) {
        (Some(PropertyName::Native(row)), value) => row.format(value, true),
        (_, Value::Number(number)) => number.to_string(),
        (_, Value::Text(text)) => text.clone(),
        (_, Value::Absent) => "-".to_owned(),
    };
    Property {
        name: name.to_owned(),
        value,
        source: setting.source.into(),
    }
}

impl Pool {
    /// All properties of a dataset, snapshot or bookmark that apply to it.
    ///
    /// # Errors
    /// There is none of that name.
    pub fn properties(&self, name: &str) -> Result<Vec<Property>> {
        self.selected(name, Selection::All)
    }

    /// One property of a dataset, snapshot or bookmark; `written@…`, `userused@…` and the like, too.
    ///
    /// # Errors
    /// There is no such dataset or property.
    pub fn property(&self, name: &str, property: &str) -> Result<Property> {
        let Some(known) = find_dataset_property(property) else {
            let text = format!("property '{property}': there is none of that name");
            return Err(Error::Invalid(text.into()));
        };
        let wanted = known.name().to_owned();
        let found = self.selected(name, Selection::Names(vec![wanted]))?;
        found.into_iter().next().ok_or_else(|| {
            let text = format!("property '{property}' does not apply to '{name}'");
            Error::Invalid(text.into())
        })
    }

    pub(super) fn selected(&self, name: &str, properties: Selection) -> Result<Vec<Property>> {
        let query = admin::DatasetQuery {
            roots: vec![name.to_owned()],
            depth: Some(0),
            types: Types::ALL,
            properties,
        };
        let mut found = Vec::new();
        self.ask_pages(query, &mut |rows| {
            let named = rows.into_iter().filter(|row| row.name == name);
            let properties = named.flat_map(|row| row.properties);
            found.extend(properties.map(|(key, set)| shown(find_dataset_property, &key, set)));
            Ok(())
        })?;
        Ok(found)
    }

    /// Sets a property of a dataset; open file systems follow at once.
    ///
    /// # Errors
    /// There is no such dataset or property, or the value is not allowed.
    pub fn set_property(&self, name: &str, property: &str, value: &str) -> Result<()> {
        let assignment = assignment(property, value)?;
        // No mount has to follow these.
        let keep_mounts = dataset::find(&assignment.0).is_some_and(|row| row.has(Effect::Move));
        self.change(Change::Set(Set {
            names: vec![name.to_owned()],
            properties: vec![assignment],
            keep_mounts,
        }))
    }

    /// Forgets the value that was set, so that the parent's holds.
    ///
    /// # Errors
    /// There is no such dataset or property, or it is not inherited.
    pub fn inherit_property(&self, name: &str, property: &str) -> Result<()> {
        self.change(Change::Inherit(Inherit {
            names: vec![name.to_owned()],
            property: property.to_owned(),
            recursive: false,
            received: false,
        }))
    }

    /// All properties of the pool itself.
    ///
    /// # Errors
    /// They cannot be read.
    pub fn pool_properties(&self) -> Result<Vec<Property>> {
        let report = self.ask(PoolProperties(Selection::All))?;
        let all = report.properties.into_iter();
        Ok(all
            .map(|(name, set)| shown(find_pool_property, &name, set))
            .collect())
    }

    /// Sets a property of the pool itself.
    ///
    /// # Errors
    /// There is none of that name, or the value is not allowed.
    pub fn set_pool_property(&self, property: &str, value: &str) -> Result<()> {
        let properties = vec![pool_assignment(property, value)?];
        self.change(Change::SetPool(SetPool { properties }))
    }
}
