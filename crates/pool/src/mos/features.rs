//! The pool's feature tables: which features are enabled, and how many things use each.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use base::invariant;
use base::invariant::Findings;
use base::lock::{LockClass, Mutex, rank};
use base::{ObjectId, Txg};
use dmu::{CreateZap, ObjectSet, Tx, Zap};
use format::ObjectType;
use format::config::directory;
use format::features::{self, Feature, Support};
use format::zap::Value;

use crate::error::{ImportBlocker, MissingFeature, PoolError, Result};

static COUNTS: LockClass = LockClass::new("pool.features", rank::LAST - 20);

/// The ZAPs of a pool with features.
#[derive(Clone)]
struct Tables {
    read: Zap,
    write: Zap,
    descriptions: Zap,
    enabled_txg: Option<Zap>,
}

/// What the tables say, in memory.
#[derive(Clone, Default, PartialEq, Eq)]
pub(crate) struct Counts {
    /// By name on disk: 0 = enabled, more = active.
    by_guid: BTreeMap<String, u64>,
    /// Those of `features_for_read`, to tell which unknown ones forbid reading.
    for_read: Vec<String>,
    /// Those that were enabled while the pool was open: all their users were counted here.
    own: BTreeSet<String>,
}

/// The features of a pool.
pub struct Features {
    tables: Mutex<Option<Tables>>,
    counts: Mutex<Counts>,
    /// Where broken invariants of the pool are noted.
    findings: Arc<Findings>,
}

/// One row of a listing of features.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FeatureState {
    /// The feature.
    pub feature: &'static Feature,
    /// `None`: disabled; 0: enabled; otherwise active, with so many users.
    pub references: Option<u64>,
}

static TABLES: LockClass = LockClass::new("pool.feature_tables", rank::DSL + 80);

impl Features {
    /// The features of a pool before feature flags, or of one whose tables are not made yet.
    #[must_use]
    pub(crate) fn none() -> Self {
        Self {
            tables: Mutex::new(&TABLES, None),
            counts: Mutex::new(&COUNTS, Counts::default()),
            findings: Arc::default(),
        }
    }

    /// The same, with the pool's findings.
    #[must_use]
    pub(crate) fn noting_in(self, findings: &Arc<Findings>) -> Self {
        Self {
            findings: Arc::clone(findings),
            ..self
        }
    }

    /// Reads the tables that the MOS directory names. A pool without them has no features.
    pub(crate) fn open(mos: &ObjectSet, root: &Zap) -> Result<Self> {
        let zap = |key: &str| -> Result<Option<Zap>> {
            let Some(id) = root.lookup(key.as_bytes())?.filter(|id| *id != 0) else {
                return Ok(None);
            };
            Ok(Some(Zap::open(&mos.object(ObjectId(id))?)?))
        };
        let found = (
            zap(directory::FEATURES_FOR_READ)?,
            zap(directory::FEATURES_FOR_WRITE)?,
            zap(directory::FEATURE_DESCRIPTIONS)?,
        );
        let (Some(read), Some(write), Some(descriptions)) = found else {
            return Ok(Self::none());
        };
        let mut counts = Counts::default();
        for (zap, is_read) in [(&read, true), (&write, false)] {
            for entry in zap.entries()? {
                let guid = String::from_utf8_lossy(&entry.name).into_owned();
                if is_read {
                    counts.for_read.push(guid.clone());
                }
                counts.by_guid.insert(guid, entry.value);
            }
        }
        let features = Self::none();
        *features.counts.lock() = counts;
        *features.tables.lock() = Some(Tables {
            read,
            write,
            descriptions,
            enabled_txg: zap(directory::FEATURE_ENABLED_TXG)?,
        });
        Ok(features)
    }

    /// Takes over what was read from the tables of a new pool, once they are made.
    pub(crate) fn adopt(&self, made: Self) {
        *self.tables.lock() = made.tables.into_inner();
        let mut made = made.counts.into_inner();
        made.own = made.by_guid.keys().cloned().collect();
        *self.counts.lock() = made;
    }

    /// What the tables say.
    pub(crate) fn counts(&self) -> Counts {
        self.counts.lock().clone()
    }

    /// The same, with the findings of the pool's engine if it has one.
    #[must_use]
    pub(crate) fn noting_for(self, engine: Option<&txg::Engine>) -> Self {
        match engine {
            Some(engine) => self.noting_in(engine.findings()),
            None => self,
        }
    }

    /// The tables are again as they were when they said `counts`; whether that changes anything.
    pub(crate) fn restore(&self, counts: Counts) -> bool {
        let mut now = self.counts.lock();
        let changed = *now != counts;
        *now = counts;
        changed
    }

    /// How many things use a feature; `None` when it is disabled.
    #[must_use]
    pub fn references(&self, feature: &Feature) -> Option<u64> {
        self.counts.lock().by_guid.get(feature.guid).copied()
    }

    /// Whether a feature may be used.
    #[must_use]
    pub fn is_enabled(&self, feature: &Feature) -> bool {
        self.references(feature).is_some()
    }

    /// Whether something uses a feature.
    #[must_use]
    pub fn is_active(&self, feature: &Feature) -> bool {
        self.references(feature).unwrap_or(0) > 0
    }

    /// Every known feature and its state.
    #[must_use]
    pub fn all(&self) -> Vec<FeatureState> {
        let state = |feature: &&'static Feature| FeatureState {
            feature,
            references: self.references(feature),
        };
        features::ALL.iter().map(state).collect()
    }

    /// Features that new pools have, and this one does not.
    #[must_use]
    pub fn lacking(&self) -> Vec<&'static Feature> {
        let all = features::ALL.iter().copied();
        all.filter(|feature| feature.is_for_all_pools() && !self.is_enabled(feature))
            .collect()
    }

    /// Features of the pool of which nobody here knows the name, and whether something uses them.
    #[must_use]
    pub fn unsupported(&self) -> Vec<(String, bool)> {
        let counts = self.counts.lock();
        let rest = counts
            .by_guid
            .iter()
            .filter(|(guid, _)| features::by_guid(guid).is_none());
        rest.map(|(guid, count)| (guid.clone(), *count > 0))
            .collect()
    }

    /// Active features of the pool that nobody here knows, or that cannot even be read past, with whether they only
    /// matter for writing.
    #[must_use]
    pub(crate) fn unknown(&self) -> Vec<(MissingFeature, bool)> {
        let unknown: Vec<(String, bool)> = {
            let counts = self.counts.lock();
            let unknown = counts
                .by_guid
                .iter()
                .filter(|(guid, count)| **count > 0 && !is_read(guid));
            unknown
                .map(|(guid, _)| (guid.clone(), !counts.for_read.contains(guid)))
                .collect()
        };
        unknown
            .into_iter()
            .map(|(guid, write_only)| {
                let description = self.description(&guid);
                (MissingFeature { guid, description }, write_only)
            })
            .collect()
    }

    fn description(&self, guid: &str) -> String {
        let zap = {
            let tables = self.tables.lock();
            tables.as_ref().map(|tables| tables.descriptions.clone())
        };
        let value = zap.and_then(|zap| zap.lookup_value(guid.as_bytes()).ok().flatten());
        value.map_or_else(String::new, |value| {
            let bytes: Vec<u8> = value.stored().to_vec();
            String::from_utf8_lossy(&bytes)
                .trim_end_matches('\0')
                .to_owned()
        })
    }

    /// Refuses a pool that uses what is not known: at all, or (`writable`) for writing.
    pub(crate) fn check_known(&self, writable: bool) -> Result<()> {
        let unknown = self.unknown();
        let readable = unknown.iter().all(|(_, write_only)| *write_only);
        if unknown.is_empty() || (readable && !writable) {
            return Ok(());
        }
        let features = unknown.into_iter().map(|(feature, _)| feature).collect();
        Err(PoolError::UnsupportedFeatures { features, readable })
    }

    /// The first active feature that we do not maintain.
    pub(crate) fn import_blocker(&self) -> Option<ImportBlocker> {
        let active = |feature: &&&'static Feature| {
            feature.support != Support::Write && self.is_active(feature)
        };
        let feature = features::ALL.iter().find(active)?;
        Some(ImportBlocker::Feature {
            feature: feature.name.to_owned(),
        })
    }

    /// The names that labels and the MOS configuration carry.
    #[must_use]
    pub fn label_names(&self) -> Vec<&'static str> {
        let in_label =
            |feature: &&&'static Feature| feature.flags.in_label && self.is_active(feature);
        let features = features::ALL.iter().filter(in_label);
        features.map(|feature| feature.guid).collect()
    }

    /// Gives a pool that had none its tables: no feature is enabled yet.
    pub(crate) fn make_tables(&self, mos: &ObjectSet, root: &Zap, tx: &Tx) -> dmu::Result<()> {
        let make = |key: &str| -> dmu::Result<Zap> {
            let shape = CreateZap {
                object_type: ObjectType::OTN_ZAP_METADATA,
                ..CreateZap::default()
            };
            let zap = Zap::create(mos, tx, &shape)?;
            root.add(tx, key.as_bytes(), zap.object().id().0)?;
            Ok(zap)
        };
        let tables = Tables {
            read: make(directory::FEATURES_FOR_READ)?,
            write: make(directory::FEATURES_FOR_WRITE)?,
            descriptions: make(directory::FEATURE_DESCRIPTIONS)?,
            enabled_txg: None,
        };
        *self.tables.lock() = Some(tables);
        Ok(())
    }

    /// Enables a feature and what it depends on; nothing happens to one that is enabled.
    pub(crate) fn enable(
        &self,
        mos: &ObjectSet,
        root: &Zap,
        tx: &Tx,
        feature: &Feature,
    ) -> dmu::Result<()> {
        if self.is_enabled(feature) {
            return Ok(());
        }
        for needed in feature.depends_on {
            self.enable(mos, root, tx, needed)?;
        }
        let Some(tables) = self.tables.lock().clone() else {
            return Ok(());
        };
        let text = Value::string(feature.description);
        tables
            .descriptions
            .update_value(tx, feature.guid.as_bytes(), &text)?;
        let initial = u64::from(feature.flags.active_when_enabled);
        self.store(tx, feature, initial)?;
        self.counts.lock().own.insert(feature.guid.to_owned());
        if self.is_enabled(&features::ENABLED_TXG) {
            self.record_enabled_txg(mos, root, tx, feature)?;
        }
        Ok(())
    }

    /// Notes when a feature was enabled. The feature that says so counts these notes.
    fn record_enabled_txg(
        &self,
        mos: &ObjectSet,
        root: &Zap,
        tx: &Tx,
        feature: &Feature,
    ) -> dmu::Result<()> {
        let known = self
            .tables
            .lock()
            .as_ref()
            .and_then(|tables| tables.enabled_txg.clone());
        let zap = match known {
            Some(zap) => zap,
            None => {
                let options = CreateZap {
                    object_type: ObjectType::OTN_ZAP_METADATA,
                    ..CreateZap::default()
                };
                let zap = Zap::create(mos, tx, &options)?;
                root.add(
                    tx,
                    directory::FEATURE_ENABLED_TXG.as_bytes(),
                    zap.object().id().0,
                )?;
                if let Some(tables) = self.tables.lock().as_mut() {
                    tables.enabled_txg = Some(zap.clone());
                }
                zap
            }
        };
        zap.update(tx, feature.guid.as_bytes(), tx.txg().0)?;
        self.change(tx, &features::ENABLED_TXG, 1).map(|_| ())
    }

    /// Changes how many things use a feature; in syncing context. The answer is whether that
    /// changed what labels must say.
    pub(crate) fn change(&self, tx: &Tx, feature: &Feature, change: i64) -> dmu::Result<bool> {
        let before = self.references(feature).unwrap_or(0);
        let after = before.checked_add_signed(change).unwrap_or_else(|| {
            // Of another feature whoever counted before may have missed a user.
            invariant!(
                self.findings,
                !self.counts.lock().own.contains(feature.guid),
                "pool.features",
                "{} has {before} users, and {change} more",
                feature.guid
            );
            if change < 0 { 0 } else { u64::MAX }
        });
        if after == before {
            return Ok(false);
        }
        self.store(tx, feature, after)?;
        Ok(feature.flags.in_label && (before == 0) != (after == 0))
    }

    fn store(&self, tx: &Tx, feature: &Feature, count: u64) -> dmu::Result<()> {
        let Some(tables) = self.tables.lock().clone() else {
            return Ok(());
        };
        let zap = if feature.read_only_compatible {
            &tables.write
        } else {
            &tables.read
        };
        zap.update(tx, feature.guid.as_bytes(), count)?;
        let mut counts = self.counts.lock();
        counts.by_guid.insert(feature.guid.to_owned(), count);
        if !feature.read_only_compatible && !counts.for_read.iter().any(|g| g == feature.guid) {
            counts.for_read.push(feature.guid.to_owned());
        }
        Ok(())
    }

    /// The txg in which a feature was enabled, where that was noted.
    ///
    /// # Errors
    /// The table cannot be read.
    pub fn enabled_txg(&self, feature: &Feature) -> Result<Option<Txg>> {
        let tables = self.tables.lock().clone();
        let zap = tables.and_then(|tables| tables.enabled_txg);
        let Some(zap) = zap else { return Ok(None) };
        Ok(zap.lookup(feature.guid.as_bytes())?.map(Txg))
    }
}

/// Whether a pool can be read on which a feature is active.
fn is_read(guid: &str) -> bool {
    match features::by_guid(guid).map(|feature| feature.support) {
        Some(Support::Write | Support::ReadOnly) => true,
        Some(Support::None) | None => false,
    }
}

#[cfg(test)]
mod tests;
