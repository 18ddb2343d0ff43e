//! Space and objects by user, group and project: what is used, and the limits.
//!
//! What is used is counted by the object layer when a txg syncs, so that limits act a txg late, as
//! they do in OpenZFS. Limits are tables named in the master node, made when first one is set.

use std::sync::Arc;

use base::ObjectId;
use base::lock::{LockClass, RwLock, rank};
use dmu::{CreateZap, DmuError, ObjectSet, Owner, Zap};
use format::ObjectType;

use crate::core::{Core, Plan};
use crate::inherited::Inherited;
use crate::master::{MASTER_NODE, QUOTA_KEYS};
use crate::znode::{Znode, internal_flags};
use crate::{PosixError, Result, SetAttributes, Statistics, flags};

static TABLES: LockClass = LockClass::new("posix.quota_tables", rank::POSIX + 46);

/// Whose space.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum QuotaKind {
    /// A user's.
    User,
    /// A group's.
    Group,
    /// A project's.
    Project,
}

/// What is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum QuotaUnit {
    /// Bytes of blocks and dnodes.
    Bytes,
    /// Objects.
    Objects,
}

/// One owner's use and limit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct QuotaLine {
    /// The user, group or project.
    pub id: u64,
    /// Bytes used.
    pub bytes: u64,
    /// Objects used.
    pub objects: u64,
    /// Limit of bytes; 0 = none.
    pub bytes_max: u64,
    /// Limit of objects; 0 = none.
    pub objects_max: u64,
}

/// The tables of limits, by kind and unit.
pub(crate) struct QuotaTables(RwLock<[Option<ObjectId>; 6]>);

impl QuotaKind {
    const ALL: [Self; 3] = [Self::User, Self::Group, Self::Project];

    pub(crate) fn owner(self) -> Owner {
        match self {
            Self::User => Owner::User,
            Self::Group => Owner::Group,
            Self::Project => Owner::Project,
        }
    }

    pub(crate) fn index(self, unit: QuotaUnit) -> usize {
        self as usize + if unit == QuotaUnit::Objects { 3 } else { 0 }
    }
}

impl QuotaTables {
    pub(crate) fn load(objects: &ObjectSet) -> Result<Self> {
        let master = Zap::open(&objects.object(MASTER_NODE)?)?;
        let mut tables = [None; 6];
        for (table, key) in tables.iter_mut().zip(QUOTA_KEYS) {
            *table = master.lookup(key)?.map(ObjectId);
        }
        Ok(Self(RwLock::new(&TABLES, tables)))
    }

    fn get(&self, kind: QuotaKind, unit: QuotaUnit) -> Option<ObjectId> {
        self.0.read()[kind.index(unit)]
    }

    fn is_empty(&self) -> bool {
        self.0.read().iter().all(Option::is_none)
    }
}

impl Core {
    /// The limit; 0 = none.
    pub(crate) fn quota(&self, kind: QuotaKind, unit: QuotaUnit, id: u64) -> Result<u64> {
        let Some(table) = self.quotas.get(kind, unit) else {
            return Ok(0);
        };
        Ok(Zap::open(&self.object(table)?)?
            .lookup_int(id)?
            .unwrap_or(0))
    }

    /// What is used, as last synced.
    pub(crate) fn used(&self, kind: QuotaKind, unit: QuotaUnit, id: u64) -> Result<u64> {
        let Some(object) = self.store.objects.used_object(kind.owner()) else {
            return Ok(0);
        };
        let zap = Zap::open(&object)?;
        let used = match unit {
            QuotaUnit::Bytes => zap.lookup_int(id)?,
            QuotaUnit::Objects => zap.lookup(format!("obj-{id:x}").as_bytes())?,
        };
        Ok(used.unwrap_or(0))
    }

    fn is_over(&self, kind: QuotaKind, unit: QuotaUnit, id: u64) -> Result<bool> {
        let limit = self.quota(kind, unit, id)?;
        Ok(limit != 0 && self.used(kind, unit, id)? >= limit)
    }

    fn check_owners(&self, owners: [Option<u64>; 3], units: &[QuotaUnit]) -> Result<()> {
        if self.replaying {
            return Ok(());
        }
        for (kind, id) in QuotaKind::ALL.into_iter().zip(owners) {
            let Some(id) = id else { continue };
            for &unit in units {
                if self.is_over(kind, unit, id)? {
                    return Err(PosixError::QuotaExceeded);
                }
            }
        }
        Ok(())
    }

    /// Refuses a new object whose owners have reached a limit.
    pub(crate) fn check_new_object_quota(&self, new: &Inherited) -> Result<()> {
        if self.quotas.is_empty() {
            return Ok(());
        }
        let owners = [Some(new.uid), Some(new.gid), Some(new.project)];
        self.check_owners(owners, &[QuotaUnit::Bytes, QuotaUnit::Objects])
    }

    /// Refuses more data of a file whose owners have reached a limit.
    pub(crate) fn check_space_quota(&self, znode: &Znode) -> Result<()> {
        if self.quotas.is_empty() {
            return Ok(());
        }
        let owners = {
            let state = znode.state.read();
            let project = state
                .has(internal_flags::PROJECT_ID)
                .then_some(state.project);
            [Some(state.uid), Some(state.gid), project]
        };
        self.check_owners(owners, &[QuotaUnit::Bytes])
    }

    /// Refuses to give a file to an owner that has reached a limit.
    pub(crate) fn check_new_owner_quota(
        &self,
        znode: &Znode,
        change: &SetAttributes,
    ) -> Result<()> {
        if self.quotas.is_empty() {
            return Ok(());
        }
        let owners = {
            let state = znode.state.read();
            let changed = |new: Option<u32>, old: u64| new.map(u64::from).filter(|&new| new != old);
            [
                changed(change.uid, state.uid),
                changed(change.gid, state.gid),
                changed(change.project, state.project),
            ]
        };
        self.check_owners(owners, &[QuotaUnit::Bytes, QuotaUnit::Objects])
    }

    /// Sets a limit; 0 removes it.
    pub(crate) fn set_quota(
        &self,
        kind: QuotaKind,
        unit: QuotaUnit,
        id: u64,
        limit: u64,
    ) -> Result<()> {
        let tx = self.begin(Plan {
            names: 2,
            objects: 2,
            ..Plan::default()
        })?;
        let mut tables = self.quotas.0.write();
        let slot = &mut tables[kind.index(unit)];
        let zap = match *slot {
            Some(table) => Zap::open(&self.object(table)?)?,
            None if limit == 0 => return Ok(()),
            None => {
                let object_type = ObjectType::USER_GROUP_QUOTA;
                let options = CreateZap {
                    object_type,
                    ..CreateZap::default()
                };
                let zap = Zap::create(&self.store.objects, &tx, &options)?;
                let (key, id) = (QUOTA_KEYS[kind.index(unit)], zap.object().id());
                let named = self
                    .object(MASTER_NODE)
                    .and_then(|master| Ok(Zap::open(&master)?.add(&tx, key, id.0)?));
                if let Err(error) = named {
                    // Nobody would find it.
                    self.store.objects.free(&tx, id)?;
                    return Err(error);
                }
                *slot = Some(zap.object().id());
                zap
            }
        };
        if limit != 0 {
            return Ok(zap.update_int(&tx, id, limit)?);
        }
        match zap.remove_int(&tx, id) {
            Ok(()) | Err(DmuError::NoSuchEntry { .. }) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    /// Everyone who uses something or has a limit, by id.
    pub(crate) fn quota_lines(&self, kind: QuotaKind) -> Result<Vec<QuotaLine>> {
        let mut lines = std::collections::BTreeMap::<u64, QuotaLine>::new();
        let mut note = |name: &[u8], set: &dyn Fn(&mut QuotaLine)| {
            let id = std::str::from_utf8(name)
                .ok()
                .and_then(|n| u64::from_str_radix(n, 16).ok());
            if let Some(id) = id {
                set(lines.entry(id).or_insert(QuotaLine {
                    id,
                    ..QuotaLine::default()
                }));
            }
        };
        if let Some(object) = self.store.objects.used_object(kind.owner()) {
            for entry in Zap::open(&object)?.entries()? {
                match entry.name.strip_prefix(b"obj-") {
                    Some(id) => note(id, &|line| line.objects = entry.value),
                    None => note(&entry.name, &|line| line.bytes = entry.value),
                }
            }
        }
        for unit in [QuotaUnit::Bytes, QuotaUnit::Objects] {
            let Some(table) = self.quotas.get(kind, unit) else {
                continue;
            };
            for entry in Zap::open(&self.object(table)?)?.entries()? {
                note(&entry.name, &|line| match unit {
                    QuotaUnit::Bytes => line.bytes_max = entry.value,
                    QuotaUnit::Objects => line.objects_max = entry.value,
                });
            }
        }
        Ok(lines.into_values().collect())
    }

    /// Below a directory that hands down its project, `statfs` shows that project's quota.
    pub(crate) fn limit_to_project(
        &self,
        object: ObjectId,
        statistics: &mut Statistics,
    ) -> Result<()> {
        if self.quotas.is_empty() {
            return Ok(());
        }
        let znode: Arc<Znode> = self.znode(object)?;
        let project = {
            let state = znode.state.read();
            if !state.has(flags::PROJECT_INHERIT) || !state.has(internal_flags::PROJECT_ID) {
                return Ok(());
            }
            state.project
        };
        let kind = QuotaKind::Project;
        let limit = self.quota(kind, QuotaUnit::Bytes, project)?;
        if limit != 0 {
            let used = self.used(kind, QuotaUnit::Bytes, project)?;
            let unit = u64::from(statistics.block_size);
            statistics.blocks = limit.div_ceil(unit);
            statistics.blocks_free =
                (limit.saturating_sub(used) / unit).min(statistics.blocks_free);
        }
        let limit = self.quota(kind, QuotaUnit::Objects, project)?;
        if limit != 0 {
            let used = self.used(kind, QuotaUnit::Objects, project)?;
            statistics.files = limit;
            statistics.files_free = limit.saturating_sub(used).min(statistics.files_free);
        }
        Ok(())
    }
}
