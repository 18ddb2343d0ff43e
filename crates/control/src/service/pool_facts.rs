//! What is known of a pool, and the properties that it makes.

use admin::{
    POOL_PROPERTIES, PropertyName, RowText, Setting, Source, Value, VdevState, find_pool_property,
};
use dsl::property::{Access, PoolFigure, Row};

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
        let native = POOL_PROPERTIES.iter().filter(|row| row.visible);
        let mut found: Vec<(String, Setting)> = native
            .map(|row| (row.name.to_owned(), self.native(row)))
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
            PropertyName::Native(row) => Some(self.native(row)),
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

    fn native(&self, row: &Row) -> Setting {
        let known = row.measured.pool().and_then(|figure| self.figure(figure));
        let local = match known {
            Some(value) if row.access != Access::Settable => return Setting::measured(value),
            Some(value) => Some(value),
            None => self.stored(row.name).cloned(),
        };
        match (local, row.access) {
            (Some(value), _) => Setting::from(value, Source::Local),
            (None, Access::Settable) => Setting::from(row.default_value(), Source::Default),
            (None, Access::ReadOnly | Access::AtCreation) => Setting::measured(row.default_value()),
        }
    }

    fn figure(&self, figure: PoolFigure) -> Option<Value> {
        let percent = |part: u64, whole: u64| {
            if whole == 0 {
                0
            } else {
                (u128::from(part) * 100 / u128::from(whole)) as u64
            }
        };
        let text = |text: &Option<String>| text.clone().map(Value::Text);
        let number = match figure {
            PoolFigure::Name => return Some(Value::Text(self.name.clone())),
            PoolFigure::Health => return Some(Value::Text(self.state.word().to_owned())),
            PoolFigure::Size => self.size,
            PoolFigure::Allocated => self.allocated,
            PoolFigure::Free => self.size.saturating_sub(self.allocated),
            PoolFigure::Capacity => percent(self.allocated, self.size),
            PoolFigure::Fragmentation => self.fragmentation.unwrap_or(u64::MAX),
            PoolFigure::Guid => self.guid,
            PoolFigure::LoadGuid => self.load_guid,
            PoolFigure::ReadOnly => u64::from(self.readonly),
            PoolFigure::ExpandSize => self.expandable,
            PoolFigure::Freeing => self.freeing,
            PoolFigure::Leaked => self.leaked,
            PoolFigure::Checkpoint => self.checkpoint,
            PoolFigure::DedupRatio => self.dedup_ratio.max(100),
            PoolFigure::DedupTableSize => self.dedup_table_size,
            PoolFigure::CloneUsed => self.clone_used,
            PoolFigure::CloneSaved => self.clone_saved,
            PoolFigure::CloneRatio if self.clone_used == 0 => 100,
            PoolFigure::CloneRatio => percent(self.clone_used + self.clone_saved, self.clone_used),
            PoolFigure::LastScrubbedTxg => self.last_scrubbed_txg,
            PoolFigure::AltRoot => return text(&self.altroot),
            // Pools below another root are never in a cache file by themselves.
            PoolFigure::CacheFile if self.cache_file.is_none() && self.altroot.is_some() => {
                return Some(Value::Text("none".to_owned()));
            }
            PoolFigure::CacheFile => return text(&self.cache_file),
            PoolFigure::Comment => return text(&self.comment),
            PoolFigure::Compatibility => return text(&self.compatibility),
            // Pools with features have no version to speak of.
            PoolFigure::Version if self.version >= 5000 => return None,
            PoolFigure::Version => self.version,
        };
        Some(Value::Number(number))
    }
}
