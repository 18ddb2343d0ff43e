//! What is known of a pool, and the properties that it makes.

use crate::property::{
    Access, Default, POOL_PROPERTIES, Property, PropertyName, Setting, Source, Value,
    find_pool_property,
};
use crate::report::VdevState;

#[cfg(test)]
mod tests;

/// The facts about a pool. Numbers that are not known are left at 0.
#[derive(Debug, Clone)]
pub(crate) struct PoolFacts {
    pub(crate) name: String,
    pub(crate) guid: u64,
    pub(crate) load_guid: u64,
    /// 1–28, or 5000.
    pub(crate) version: u64,
    pub(crate) state: VdevState,
    pub(crate) readonly: bool,
    /// The cache file that lists it.
    pub(crate) cache_file: Option<String>,
    pub(crate) altroot: Option<String>,
    pub(crate) comment: Option<String>,
    pub(crate) compatibility: Option<String>,
    pub(crate) size: u64,
    pub(crate) allocated: u64,
    pub(crate) fragmentation: Option<u64>,
    pub(crate) expandable: u64,
    pub(crate) freeing: u64,
    pub(crate) leaked: u64,
    pub(crate) checkpoint: u64,
    /// In hundredths.
    pub(crate) dedup_ratio: u64,
    pub(crate) dedup_table_size: u64,
    pub(crate) clone_used: u64,
    pub(crate) clone_saved: u64,
    pub(crate) last_scrubbed_txg: u64,
    /// What was set, by name.
    pub(crate) stored: Vec<(String, Value)>,
    /// `name`, and `enabled`, `active` or `disabled`.
    pub(crate) features: Vec<(String, &'static str)>,
    /// Features not known here: guid, and `inactive` or `readonly`.
    pub(crate) unsupported: Vec<(String, &'static str)>,
}

impl PoolFacts {
    /// All properties, in the order of `get all`.
    pub(crate) fn all(&self) -> Vec<(String, Setting)> {
        let native = POOL_PROPERTIES.iter().filter(|property| property.visible);
        let mut found: Vec<(String, Setting)> = native
            .map(|property| (property.name.to_owned(), self.native(property)))
            .collect();
        for (name, value) in self.stored.iter().filter(|(name, _)| name.contains(':')) {
            found.push((name.clone(), Setting::from(value.clone(), Source::Local)));
        }
        for (prefix, features) in [
            ("feature@", &self.features),
            ("unsupported@", &self.unsupported),
        ] {
            for (name, state) in features {
                let value = Value::Text((*state).to_owned());
                found.push((
                    format!("{prefix}{name}"),
                    Setting::from(value, Source::Local),
                ));
            }
        }
        found
    }

    /// One property; nothing if the pool has none of this name.
    pub(crate) fn get(&self, name: &str) -> Option<Setting> {
        match find_pool_property(name)? {
            PropertyName::Native(property) => Some(self.native(property)),
            PropertyName::User(name) => {
                let value = self.stored(&name)?;
                Some(Setting::from(value.clone(), Source::Local))
            }
            PropertyName::Computed(name) => self
                .all()
                .into_iter()
                .find(|(key, _)| *key == name)
                .map(|(_, setting)| setting),
        }
    }

    fn stored(&self, name: &str) -> Option<&Value> {
        self.stored
            .iter()
            .find(|(key, _)| key == name)
            .map(|(_, value)| value)
    }

    fn native(&self, property: &Property) -> Setting {
        if let Some(value) = self.measured(property.name) {
            return Setting::measured(value);
        }
        let local = self
            .runtime(property.name)
            .or_else(|| self.stored(property.name).cloned());
        match (local, property.access, property.default) {
            (Some(value), ..) => Setting::from(value, Source::Local),
            (None, Access::Settable, _) => Setting::from(property.default_value(), Source::Default),
            (None, _, Default::Nothing | Default::Number(_) | Default::Text(_)) => {
                Setting::measured(property.default_value())
            }
        }
    }

    fn measured(&self, name: &str) -> Option<Value> {
        let percent = |part: u64, whole: u64| {
            if whole == 0 {
                0
            } else {
                (u128::from(part) * 100 / u128::from(whole)) as u64
            }
        };
        let number = match name {
            "name" => return Some(Value::Text(self.name.clone())),
            "health" => return Some(Value::Text(self.state.word().to_owned())),
            "size" => self.size,
            "allocated" => self.allocated,
            "free" => self.size.saturating_sub(self.allocated),
            "capacity" => percent(self.allocated, self.size),
            "fragmentation" => self.fragmentation.unwrap_or(u64::MAX),
            "guid" => self.guid,
            "load_guid" => self.load_guid,
            "readonly" => u64::from(self.readonly),
            "expandsize" => self.expandable,
            "freeing" => self.freeing,
            "leaked" => self.leaked,
            "checkpoint" => self.checkpoint,
            "dedupratio" => self.dedup_ratio.max(100),
            "dedup_table_size" => self.dedup_table_size,
            "bcloneused" => self.clone_used,
            "bclonesaved" => self.clone_saved,
            "bcloneratio" if self.clone_used == 0 => 100,
            "bcloneratio" => percent(self.clone_used + self.clone_saved, self.clone_used),
            "last_scrubbed_txg" => self.last_scrubbed_txg,
            _ => return None,
        };
        Some(Value::Number(number))
    }

    fn runtime(&self, name: &str) -> Option<Value> {
        let text = |text: &Option<String>| text.clone().map(Value::Text);
        match name {
            "altroot" => text(&self.altroot),
            "cachefile" if self.cache_file.is_some() => text(&self.cache_file),
            // Pools below another root are never in a cache file by themselves.
            "cachefile" if self.altroot.is_some() => Some(Value::Text("none".to_owned())),
            "comment" => text(&self.comment),
            "compatibility" => text(&self.compatibility),
            "version" if self.version < 5000 => Some(Value::Number(self.version)),
            _ => None,
        }
    }
}
