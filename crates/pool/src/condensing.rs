//! Shortening the mapping of a removed vdev of which much is obsolete.
//!
//! The vdev's map of what is obsolete is set aside; what becomes obsolete from then on enters a new one. What it says
//! is added to the numbers that the mapping has by entry. Then the entries that are still needed are copied to a new
//! mapping, some with each txg. The txg with the last ones puts it in the place of the old one, for readers and in the
//! configuration. Until then everybody goes by the old one, which does not change.
//!
//! The directory says which map is being applied and where the new mapping is; both are as of some txg. What is counted
//! is counted anew after an import.

mod counting;

use std::sync::{Arc, LazyLock, Weak};

use base::lock::{LockClass, Mutex, rank};
use base::metrics::{Counter, registry};
use base::{ByteOrder, ObjectId, VdevId};
use dmu::{ObjectSet, Zap};
use format::ObjectType;
use format::block_pointer::Dva;
use format::config::{directory, keys, vdev_zap};
use format::features;
use format::indirect::{Condensing, MappingEntry, MappingEntryPhys};
use format::zap::Value;
use space::PoolSpace;
use txg::Engine;
use vdev::{Mapping, MappingBuilder, Moved, VdevTree};

use crate::allocation::obsolete::ObsoleteSpace;
use crate::error::{PoolError, Result};
use crate::import::removed;
use crate::mos::mapping::MappingObject;
use crate::pool::Pool;
use crate::pool::services::PoolServices;
use crate::sync::tasks::{FirstPass, SyncTask};
use crate::tunables::{
    CONDENSE_MAP_BYTES_MAX, CONDENSE_MAPPING_BYTES_MIN, CONDENSE_OBSOLETE_PERCENT,
    CONDENSED_ENTRIES,
};
use counting::Counting;

static STATE: LockClass = LockClass::new("pool.condensing", rank::LAST - 29);

/// What can be watched here, for the whole process.
struct Meters {
    /// Mappings that were shortened.
    mappings: Arc<Counter>,
    /// Entries that these have no more.
    dropped: Arc<Counter>,
}

static METERS: LazyLock<Meters> = LazyLock::new(|| Meters {
    mappings: registry().counter("pool.mappings_condensed"),
    dropped: registry().counter("pool.mapping_entries_dropped"),
});

/// A mapping that is being shortened.
struct Running {
    vdev: VdevId,
    /// The map that is being applied.
    map: ObjectId,
    /// What is needed of the mapping, so far.
    next: MappingObject,
    /// The same, for readers.
    kept: MappingBuilder,
    counting: Counting,
    /// How many entries of the mapping were looked at.
    at: usize,
}

#[derive(Default)]
struct State {
    running: Option<Running>,
    /// The vdev whose mapping that is.
    vdev: Option<VdevId>,
    /// Something of it is damaged: none is shortened before the next import.
    is_given_up: bool,
    /// The pool closes.
    is_paused: bool,
    /// Something is to be done with the next txg.
    goes_on: bool,
}

/// See the module. One mapping at a time.
pub(crate) struct Condenser {
    state: Mutex<State>,
    obsolete: Arc<ObsoleteSpace>,
    engine: Weak<Engine>,
}

/// Whether it is the pool's fault, or that of who wrote it, and no device's.
fn is_damage(error: &PoolError) -> bool {
    if let PoolError::Object(error) = error {
        return error.is_damage();
    }
    matches!(error, PoolError::Damaged(_))
}

fn damaged(vdev: VdevId) -> PoolError {
    PoolError::Damaged(format!("vdev {vdev}: its shorter mapping is of another"))
}

impl Condenser {
    /// With what the last import left unfinished. Where that cannot be read nothing is shortened: the old mapping has
    /// everything.
    pub(crate) fn open(
        services: &PoolServices,
        obsolete: &Arc<ObsoleteSpace>,
        engine: &Arc<Engine>,
    ) -> Result<Arc<Self>> {
        let mut state = State::default();
        match Running::open(services, obsolete.vdevs()) {
            Ok(running) => state.running = running,
            Err(error) if is_damage(&error) => state.is_given_up = true,
            Err(error) => return Err(error),
        }
        state.vdev = state.running.as_ref().map(|running| running.vdev);
        Ok(Arc::new(Self {
            state: Mutex::new(&STATE, state),
            obsolete: Arc::clone(obsolete),
            engine: Arc::downgrade(engine),
        }))
    }

    /// Whether something is to be done with the txg that syncs. While there is a checkpoint nothing is: that has the
    /// old mapping, whose space would stay in use.
    fn may_work(&self, services: &PoolServices) -> bool {
        let state = self.state.lock();
        let features = &services.features;
        !state.is_given_up && !state.is_paused && !features.is_active(&features::ZPOOL_CHECKPOINT)
    }

    fn work(&self, pass: &FirstPass<'_>) -> Result<()> {
        let running = self.state.lock().running.take();
        let mut running = match running {
            Some(running) => running,
            None if self.obsolete.take_noted() => match wanted(pass)? {
                Some((vdev, map)) => Running::begin(pass, vdev, map)?,
                None => return Ok(()),
            },
            None => return Ok(()),
        };
        let vdev = running.vdev;
        let is_done = running.go_on(pass)?;
        let mut state = self.state.lock();
        state.running = Some(running).filter(|_| !is_done);
        state.vdev = Some(vdev).filter(|_| !is_done);
        drop(state);
        if is_done {
            // There may be another one.
            self.obsolete.note_again();
        }
        Ok(())
    }

    fn kick(&self) {
        if let Some(engine) = self.engine.upgrade() {
            engine.kick();
        }
    }
}

impl SyncTask for Condenser {
    fn sync(&self, pass: &FirstPass<'_>) -> Result<()> {
        if !self.may_work(pass.services) {
            self.state.lock().goes_on = false;
            return Ok(());
        }
        let result = self.work(pass);
        let mut state = self.state.lock();
        state.goes_on = state.running.is_some();
        let Err(error) = result else {
            return Ok(());
        };
        // The directory still says that it is under way: no other one may begin.
        (state.is_given_up, state.vdev) = (true, None);
        match is_damage(&error) {
            true => Ok(()),
            false => Err(error),
        }
    }

    fn finish(&self, _space: &PoolSpace) {
        let goes_on = {
            let state = self.state.lock();
            state.goes_on && !state.is_paused
        };
        if goes_on {
            self.kick();
        }
    }

    fn close(&self) {
        self.state.lock().is_paused = true;
    }

    fn stay(&self) {
        self.state.lock().is_paused = false;
        self.kick();
    }
}

/// The removed vdev whose mapping is to be shortened, and its map of what is obsolete.
///
/// Source: zfs(4), `zfs_condense_*`.
fn wanted(pass: &FirstPass<'_>) -> Result<Option<(VdevId, ObjectId)>> {
    let (services, mos) = (pass.services, &pass.services.mos);
    for top in pass.vdevs.removed() {
        let id = top.id();
        let objects = services.config.with(|config| {
            let top = config.top(id)?;
            let zap = top.object(keys::VDEV_ZAP_TOP)?;
            Some((zap, top.object(keys::INDIRECT_OBJECT)?))
        });
        let Some((zap, mapping)) = objects else {
            continue;
        };
        let zap = Zap::open(&mos.object(zap)?)?;
        let map = zap.lookup(vdev_zap::OBSOLETE_SPACE_MAP.as_bytes())?;
        let Some(map) = map.filter(|map| *map != 0).map(ObjectId) else {
            continue;
        };
        let noted = pass.maps.phys(map)?;
        let mapping = MappingObject::open(mos, mapping)?.phys();
        let bytes = mapping
            .entries
            .saturating_mul(MappingEntryPhys::SIZE as u64);
        let obsolete = u128::try_from(noted.allocated).unwrap_or(0) * 100;
        let share = u128::from(CONDENSE_OBSOLETE_PERCENT.get()) * u128::from(mapping.mapped);
        let is_worth_it = bytes > CONDENSE_MAPPING_BYTES_MIN.get() && obsolete >= share;
        if is_worth_it || noted.length >= CONDENSE_MAP_BYTES_MAX.get() {
            return Ok(Some((id, map)));
        }
    }
    Ok(None)
}

/// Refuses an object that is of another type.
fn check_type(mos: &ObjectSet, id: ObjectId, wanted: ObjectType) -> Result<()> {
    let found = mos.object(id)?.info().object_type;
    if found == wanted {
        return Ok(());
    }
    let text = format!("object {id} is of another type than what refers to it says");
    Err(PoolError::Damaged(text))
}

/// Whether a mapping has all of these entries.
fn has_all(mapping: &Mapping, kept: &MappingBuilder) -> bool {
    let place = |moved: Moved| (moved.source, moved.vdev, moved.offset, moved.len);
    let mut known = mapping.all().map(place);
    kept.all()
        .map(place)
        .all(|entry| known.any(|known| known == entry))
}

/// The mapping of a removed vdev as it is known.
fn mapping_of(vdevs: &VdevTree, vdev: VdevId) -> Result<Arc<Mapping>> {
    let mapping = vdevs.top(vdev)?.mapping().map(Arc::clone);
    mapping.ok_or_else(|| damaged(vdev))
}

impl Running {
    /// What the directory says to be under way.
    fn open(services: &PoolServices, vdevs: &VdevTree) -> Result<Option<Self>> {
        let key = directory::CONDENSING_INDIRECT.as_bytes();
        let Some(value) = services.directory.lookup_value(key)? else {
            return Ok(None);
        };
        let words = value.stored().chunks_exact(8);
        let words: Vec<u64> = words
            .map(|word| format::record::get_at(word, 0, ByteOrder::Big))
            .collect();
        let text = || PoolError::Damaged("what it says of a shorter mapping is cut off".to_owned());
        let found = Condensing::from_words(&words).ok_or_else(text)?;
        let vdev = VdevId(found.vdev);
        let config = services.config.get();
        let top = config.top(vdev).filter(|top| top.is_indirect());
        let top = top.ok_or_else(|| damaged(vdev))?;
        let (map, next) = (ObjectId(found.map), ObjectId(found.next));
        if top.object(keys::INDIRECT_OBJECT) == Some(next) {
            return Err(damaged(vdev));
        }
        // Both are freed in the end, or become what all rely on.
        check_type(&services.mos, map, ObjectType::SPACE_MAP)?;
        check_type(&services.mos, next, ObjectType::OTN_U64_METADATA)?;
        let next = MappingObject::open(&services.mos, next)?;
        let kept = removed::mapping_in(next.entries(), top, vdevs)?;
        let mapping = mapping_of(vdevs, vdev)?;
        if !has_all(&mapping, &kept) {
            return Err(damaged(vdev));
        }
        Ok(Some(Self {
            vdev,
            map,
            next,
            at: match kept.is_empty() {
                true => 0,
                false => mapping.number_behind(kept.end()),
            },
            kept,
            counting: Counting::new(),
        }))
    }

    /// What is obsolete from now on is noted in another map.
    fn begin(pass: &FirstPass<'_>, vdev: VdevId, map: ObjectId) -> Result<Self> {
        let (services, tx) = (pass.services, pass.tx);
        let config = services.config.get();
        let top = config.top(vdev).ok_or_else(|| damaged(vdev))?;
        check_type(&services.mos, map, ObjectType::SPACE_MAP)?;
        let with_counts = services.features.is_enabled(&features::OBSOLETE_COUNTS);
        let next = MappingObject::create(&services.mos, tx, with_counts)?;
        if with_counts {
            services.change_feature(tx, &features::OBSOLETE_COUNTS, 1)?;
        }
        let zap = pass.top_zap(vdev)?;
        zap.remove(tx, vdev_zap::OBSOLETE_SPACE_MAP.as_bytes())?;
        let condensing = Condensing {
            vdev: vdev.0,
            map: map.0,
            next: next.entries().id().0,
        };
        let key = directory::CONDENSING_INDIRECT.as_bytes();
        let value = Value::words(&condensing.to_words());
        services.directory.update_value(tx, key, &value)?;
        Ok(Self {
            vdev,
            map,
            next,
            kept: MappingBuilder::new(vdev, top.asize()),
            counting: Counting::new(),
            at: 0,
        })
    }

    /// The part of one txg; answers whether it was the last one.
    fn go_on(&mut self, pass: &FirstPass<'_>) -> Result<bool> {
        let mapping = mapping_of(pass.vdevs, self.vdev)?;
        let config = pass.services.config.get();
        let top = config.top(self.vdev).ok_or_else(|| damaged(self.vdev))?;
        let id = top.object(keys::INDIRECT_OBJECT);
        let old = MappingObject::open(&pass.services.mos, id.ok_or_else(|| damaged(self.vdev))?)?;
        let entries = CONDENSED_ENTRIES.count();
        if !self.counting.is_done(&mapping) {
            self.counting.count_entries(&mapping, &old, entries)?;
            return Ok(false);
        }
        if !self.counting.is_applied() {
            self.counting
                .apply_some(&mapping, (pass.maps, self.map), entries)?;
            return Ok(false);
        }
        self.copy_some(pass, &mapping, entries)?;
        if self.at < mapping.len() {
            return Ok(false);
        }
        self.end(pass, (&mapping, &old))?;
        Ok(true)
    }

    fn copy_some(&mut self, pass: &FirstPass<'_>, mapping: &Mapping, count: usize) -> Result<()> {
        let end = self.at.saturating_add(count).min(mapping.len());
        let mut needed = Vec::new();
        for number in self.at..end {
            let Some(entry) = mapping.entry(number) else {
                break;
            };
            let Some(obsolete) = self.counting.left_of(number, entry.len) else {
                METERS.dropped.increment();
                continue;
            };
            let entry = MappingEntry {
                source: entry.source,
                destination: Dva {
                    vdev: entry.vdev,
                    offset: entry.offset,
                    asize: entry.len,
                    gang: false,
                },
            };
            let known = |id| pass.vdevs.destination(id);
            let pushed = self.kept.push(&entry, &known);
            pushed.map_err(|error| PoolError::Damaged(error.to_string()))?;
            needed.push((entry, obsolete));
        }
        self.next.add(pass.tx, &needed)?;
        self.at = end;
        Ok(())
    }

    /// Puts the new mapping in the place of the old one, which goes with the map that was applied.
    fn end(
        &mut self,
        pass: &FirstPass<'_>,
        (mapping, old): (&Mapping, &MappingObject),
    ) -> Result<()> {
        let (services, tx) = (pass.services, pass.tx);
        let key = directory::CONDENSING_INDIRECT.as_bytes();
        services.directory.remove(tx, key)?;
        old.destroy(&services.mos, tx)?;
        pass.maps.destroy_map(tx, self.map)?;
        // The old mapping's numbers, and the map.
        let gone = -1 - i64::from(old.has_counts());
        services.change_feature(tx, &features::OBSOLETE_COUNTS, gone)?;
        let next = self.next.entries().id();
        services.config.change(|config| {
            if let Some(top) = config.top_mut(self.vdev) {
                top.list.set(keys::INDIRECT_OBJECT, next.0);
            }
        });
        let empty = MappingBuilder::new(self.vdev, 0);
        let kept = std::mem::replace(&mut self.kept, empty);
        pass.vdevs.set_mapping(self.vdev, mapping.shortened(kept))?;
        METERS.mappings.increment();
        Ok(())
    }
}

impl Pool {
    /// Whether the mapping of a removed vdev is being shortened.
    #[must_use]
    pub fn is_condensing(&self) -> bool {
        let writer = self.writer.as_ref();
        writer.is_some_and(|writer| writer.condenser.state.lock().vdev.is_some())
    }
}

#[cfg(test)]
pub(crate) mod tests;
