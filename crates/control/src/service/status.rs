//! What the pool says of itself: facts, health, vdevs.

use admin::{
    Caller, Failure, LeafReport, POOL_PROPERTIES, PoolNote, PoolReport, PoolStatus, ScanKind,
    ScanReport, ScanState, Selection, StoppedReport, Value, VdevCause, VdevClass, VdevReport,
    VdevState,
};
use dsl::property::Access;
use dsl::property::pool::{BOOTFS, COMMENT, COMPATIBILITY};
use format::config::VdevType;
use pool::{CacheStatus, ScanPhys, SpareStatus, VdevRole, VdevStatus};
use vdev::{Condition, VdevAux};

use super::Service;
use super::pool_facts::PoolFacts;
use super::refusal::unreadable;
use super::stored;

impl Service {
    /// The pool's properties.
    pub(super) fn report(&self, selection: &Selection) -> Result<PoolReport, Failure> {
        let status = self.pool.status().map_err(unreadable)?;
        let facts = self.facts(&status);
        let properties = match selection {
            Selection::All => facts.all(),
            Selection::Names(names) => names
                .iter()
                .filter_map(|name| Some((name.clone(), facts.get(name)?)))
                .collect(),
        };
        Ok(PoolReport {
            name: status.name.clone(),
            guid: status.guid.0,
            txg: self.synced_txg(),
            properties,
            vdevs: self.vdevs_and_spares(&status),
        })
    }

    fn stopped(&self) -> Option<StoppedReport> {
        let reason = self.pool.stopped()?;
        let (txg, time) = self.pool.on_disk()?;
        Some(StoppedReport {
            reason,
            txg: txg.0,
            time,
        })
    }

    fn synced_txg(&self) -> u64 {
        self.pool.engine().map_or_else(
            || self.pool.config().txg().0,
            |engine| engine.synced_txg().0,
        )
    }

    fn facts(&self, status: &pool::PoolStatus) -> PoolFacts {
        let config = self.pool.config();
        let text = |key: &str| config.list.str(key).map(str::to_owned);
        let features = self.pool.features();
        let kept = self.pool.facts();
        let (dedup, clones) = (kept.dedup(), kept.clones());
        let state = |references: Option<u64>| match references {
            None => "disabled",
            Some(0) => "enabled",
            Some(_) => "active",
        };
        PoolFacts {
            name: status.name.clone(),
            guid: status.guid.0,
            load_guid: self.load_guid,
            version: self.pool.version(),
            state: pool_state(status),
            readonly: status.read_only,
            altroot: self
                .altroot
                .as_ref()
                .map(|root| root.to_string_lossy().into_owned()),
            cache_file: self.cache_file_text(),
            comment: text(COMMENT.name),
            compatibility: text(COMPATIBILITY.name),
            size: status.space.size,
            allocated: status.space.allocated,
            fragmentation: kept.fragmentation(status),
            expandable: status
                .root
                .children
                .iter()
                .filter(|top| top.role == pool::VdevRole::Data)
                .map(|top| top.expandable)
                .sum(),
            freeing: self.hidden_bytes(format::dsl::hidden::FREE),
            leaked: self.hidden_bytes(format::dsl::hidden::LEAK),
            checkpoint: kept
                .checkpoint()
                .map_or(0, |checkpoint| checkpoint.consumes),
            dedup_ratio: dedup.ratio(),
            dedup_table_size: dedup.disk_bytes,
            clone_used: clones.used,
            clone_saved: clones.saved,
            last_scrubbed_txg: kept.last_scrubbed_txg(),
            stored: self.stored_properties(),
            features: features
                .all()
                .into_iter()
                .filter(|found| {
                    // Newer than what new pools are made for: shown where they are.
                    found.references.is_some() || !found.feature.flags.later
                })
                .map(|found| (found.feature.name.to_owned(), state(found.references)))
                .collect(),
            unsupported: features
                .unsupported()
                .into_iter()
                .map(|(guid, is_active)| {
                    // What is active and not known here was no reason not to read.
                    (guid, if is_active { "readonly" } else { "inactive" })
                })
                .collect(),
        }
    }

    fn stored_properties(&self) -> Vec<(String, Value)> {
        let settable = POOL_PROPERTIES
            .iter()
            .filter(|row| row.access == Access::Settable);
        let found = settable.filter_map(|row| {
            let value = self.pool.stored_property(row).ok()??;
            let value = super::dataset_index::value_of(value);
            let value = match value {
                Value::Number(id) if BOOTFS.is(row.name) => Value::Text(self.dataset_name(id)?),
                value @ (Value::Absent | Value::Number(_) | Value::Text(_)) => value,
            };
            Some((row.name.to_owned(), value))
        });
        let users = self.pool.user_properties().unwrap_or_default().into_iter();
        let users = users.map(|(name, value)| (name, super::dataset_index::value_of(value)));
        found.chain(users).collect()
    }

    /// The name of a dataset that is still there.
    fn dataset_name(&self, id: u64) -> Option<String> {
        let id = base::ObjectId(id);
        let dataset = self.dsl.dataset_by_id(id).ok().filter(|_| id.0 != 0)?;
        dataset.name().ok()
    }

    /// What a hidden directory is charged with.
    fn hidden_bytes(&self, name: &str) -> u64 {
        let path = format!("{}/{name}", self.pool.name());
        let phys = self.dsl.directory(&path).and_then(|found| found.phys());
        phys.map_or(0, |phys| phys.used_bytes)
    }

    /// The pool's health. Names of files are for those who may look into all of them.
    pub(super) fn status(&self, caller: &Caller) -> Result<PoolStatus, Failure> {
        let status = self.pool.status().map_err(unreadable)?;
        let scan = status.scan.as_ref().and_then(scan_report);
        let kept = self.pool.facts();
        let mut errors = self.data_errors(&status.errors);
        errors.count += status.stopped.len() as u64;
        let stopped = status.stopped.iter();
        errors.files.extend(stopped.map(|head| {
            let (name, txg) = (&head.name, head.synced);
            format!("{name}: read-only as of txg {txg}, later changes cannot be written until the next import")
        }));
        if self.may_read_all(caller, "list files").is_err() {
            errors.files.clear();
        }
        let mut vdevs = self.vdevs_and_spares(&status);
        for vdev in &mut vdevs {
            stored::note_leaves(&kept, vdev);
        }
        Ok(PoolStatus {
            name: status.name.clone(),
            guid: status.guid.0,
            txg: self.synced_txg(),
            version: self.pool.version(),
            state: pool_state(&status),
            root_state: state_of(status.condition).0,
            fails_at_once: self.pool.fails_at_once(),
            stopped: self.stopped(),
            note: self.note(),
            scan,
            rebuilds: kept
                .rebuilds()
                .into_iter()
                .filter_map(stored::rebuild)
                .collect(),
            removal: kept.removal().map(stored::removal),
            expansion: kept.expansion().map(stored::expansion),
            checkpoint: kept.checkpoint().map(stored::checkpoint),
            vdevs,
            dedup: stored::dedup(kept.dedup()),
            error_count: errors.count,
            error_files: errors.files,
        })
    }

    fn note(&self) -> Option<PoolNote> {
        if self.pool.is_multihost_overdue() {
            return Some(PoolNote::MultihostOverdue);
        }
        if self.pool.waits_for_room() {
            return Some(PoolNote::HostFull);
        }
        if self.pool.version() < 5000 {
            return Some(PoolNote::LegacyVersion);
        }
        // Lists of features that cannot be read here say nothing of what is lacking.
        let limit = self.compatibility().ok()?;
        let lacking = limit.allows_any(&self.pool.features().lacking());
        lacking.then_some(PoolNote::FeaturesDisabled)
    }

    pub(super) fn vdev_reports(&self, status: &pool::PoolStatus) -> Vec<VdevReport> {
        let (config, kept) = (self.pool.config(), self.pool.facts());
        status
            .root
            .children
            .iter()
            .map(|top| {
                let names = |guid: base::Guid| {
                    let mut name = None;
                    config.root.walk(&mut |node| {
                        if node.guid() == guid {
                            name = Some(node.shown_kind());
                        }
                    });
                    name
                };
                let fragmented = |guid: base::Guid| kept.vdev_fragmentation(guid);
                report(top, class_of(top.role), true, &names, &fragmented)
            })
            .collect()
    }

    /// The same, and the devices for a cache.
    pub(super) fn vdevs_and_caches(&self, status: &pool::PoolStatus) -> Vec<VdevReport> {
        let mut vdevs = self.vdev_reports(status);
        let caches = self.pool.caches();
        vdevs.extend(caches.iter().map(cache_report));
        vdevs
    }

    /// The same, and the hot spares.
    fn vdevs_and_spares(&self, status: &pool::PoolStatus) -> Vec<VdevReport> {
        let mut vdevs = self.vdevs_and_caches(status);
        vdevs.extend(self.pool.spares().iter().map(spare_report));
        vdevs
    }
}

fn cache_report(cache: &CacheStatus) -> VdevReport {
    let (state, cause) = match (cache.is_faulted(), cache.is_there) {
        (true, _) => (VdevState::Faulted, Some(VdevCause::TooManyErrors)),
        (false, true) => (VdevState::Online, None),
        (false, false) => (VdevState::Unavailable, Some(VdevCause::CannotOpen)),
    };
    let report = VdevReport {
        path: Some(cache.path.clone()),
        class: VdevClass::Cache,
        state,
        cause,
        ..VdevReport::healthy(&cache.kind, cache.guid.0)
    };
    let Some(found) = &cache.statistics else {
        // A pool that is not written does not use it.
        return VdevReport {
            activity: cache.is_there.then(|| "unused".to_owned()),
            ..report
        };
    };
    VdevReport {
        read_errors: found.read_errors,
        write_errors: found.write_errors,
        checksum_errors: found.checksum_errors,
        size: found.room_bytes,
        allocated: Some(found.in_use_bytes),
        fragmentation: Some(0),
        ..report
    }
}

fn spare_report(spare: &SpareStatus) -> VdevReport {
    let (state, cause) = match (spare.is_used, spare.is_there) {
        (true, _) => (VdevState::InUse, Some(VdevCause::InUse)),
        (false, true) => (VdevState::Available, None),
        (false, false) => (VdevState::Unavailable, Some(VdevCause::CannotOpen)),
    };
    VdevReport {
        path: Some(spare.path.clone()),
        class: VdevClass::Spare,
        state,
        cause,
        ..VdevReport::healthy(&spare.kind, spare.guid.0)
    }
}

fn class_of(role: VdevRole) -> VdevClass {
    match role {
        VdevRole::Data => VdevClass::Normal,
        VdevRole::Log => VdevClass::Log,
        VdevRole::Special => VdevClass::Special,
        VdevRole::Dedup => VdevClass::Dedup,
    }
}

/// What is done with a device that is there and missed txgs.
fn activity(vdev: &VdevStatus) -> Option<&'static str> {
    let lacks = vdev.outdated && vdev.condition.state.is_usable();
    lacks.then_some(match vdev.deferred {
        true => "awaiting resilver",
        false => "resilvering",
    })
}

fn report(
    vdev: &VdevStatus,
    class: VdevClass,
    top: bool,
    name_of: &dyn Fn(base::Guid) -> Option<String>,
    fragmented: &dyn Fn(base::Guid) -> Option<u64>,
) -> VdevReport {
    let (state, cause) = state_of(vdev.condition);
    VdevReport {
        kind: name_of(vdev.guid).unwrap_or_else(|| vdev.kind.clone()),
        id: vdev.id,
        guid: vdev.guid.0,
        path: vdev.path.clone(),
        class,
        state,
        cause,
        absent: state == VdevState::Unavailable
            && vdev.path.is_some()
            && vdev.vdev_type != Some(VdevType::DistributedSpare),
        read_errors: vdev.errors.read,
        write_errors: vdev.errors.write,
        checksum_errors: vdev.errors.checksum,
        leaf: LeafReport {
            slow: vdev.errors.slow,
            resilver_deferred: vdev.deferred,
            ..LeafReport::default()
        },
        activity: activity(vdev).map(str::to_owned),
        size: vdev.size,
        device_size: vdev.device_size,
        allocated: top.then_some(vdev.allocated),
        fragmentation: fragmented(vdev.guid).filter(|_| top),
        expandable: vdev.expandable,
        children: vdev
            .children
            .iter()
            .map(|child| report(child, class, false, name_of, fragmented))
            .collect(),
    }
}

fn state_of(condition: Condition) -> (VdevState, Option<VdevCause>) {
    use vdev::VdevState as Stored;
    let state = match condition.state {
        Stored::Healthy => VdevState::Online,
        Stored::Degraded => VdevState::Degraded,
        Stored::Faulted => VdevState::Faulted,
        Stored::Offline | Stored::Closed => VdevState::Offline,
        Stored::Removed => VdevState::Removed,
        Stored::CantOpen | Stored::Unknown => match condition.aux {
            VdevAux::CorruptData | VdevAux::BadLog => VdevState::Faulted,
            VdevAux::None
            | VdevAux::OpenFailed
            | VdevAux::NoReplicas
            | VdevAux::BadGuidSum
            | VdevAux::TooSmall
            | VdevAux::BadLabel
            | VdevAux::VersionNewer
            | VdevAux::VersionOlder
            | VdevAux::UnsupportedFeature
            | VdevAux::Spared
            | VdevAux::ErrorsExceeded
            | VdevAux::IoFailure
            | VdevAux::External
            | VdevAux::SplitPool
            | VdevAux::BadAshift
            | VdevAux::ExternalPersist
            | VdevAux::Active
            | VdevAux::ChildrenOffline
            | VdevAux::AshiftTooBig => VdevState::Unavailable,
        },
    };
    (state, cause_of(condition.aux))
}

const fn cause_of(aux: VdevAux) -> Option<VdevCause> {
    Some(match aux {
        VdevAux::None => return None,
        VdevAux::OpenFailed => VdevCause::CannotOpen,
        VdevAux::BadGuidSum => VdevCause::MissingDevice,
        VdevAux::NoReplicas => VdevCause::InsufficientReplicas,
        VdevAux::VersionNewer => VdevCause::NewerVersion,
        VdevAux::UnsupportedFeature => VdevCause::UnsupportedFeatures,
        VdevAux::AshiftTooBig => VdevCause::UnsupportedBlockSize,
        VdevAux::Spared | VdevAux::Active => VdevCause::InUse,
        VdevAux::ErrorsExceeded => VdevCause::TooManyErrors,
        VdevAux::IoFailure => VdevCause::IoFailures,
        VdevAux::BadLog => VdevCause::BadLog,
        VdevAux::External | VdevAux::ExternalPersist => VdevCause::External,
        VdevAux::SplitPool => VdevCause::Split,
        VdevAux::ChildrenOffline => VdevCause::ChildrenOffline,
        VdevAux::BadLabel => VdevCause::InvalidLabel,
        VdevAux::CorruptData | VdevAux::TooSmall | VdevAux::VersionOlder | VdevAux::BadAshift => {
            VdevCause::CorruptData
        }
    })
}

fn pool_state(status: &pool::PoolStatus) -> VdevState {
    if status.suspended.is_some() {
        return VdevState::Suspended;
    }
    state_of(status.condition).0
}

fn scan_report(scan: &ScanPhys) -> Option<ScanReport> {
    const SCRUB: u64 = 1;
    const RESILVER: u64 = 2;
    const PAUSED: u64 = 2;
    let kind = match scan.function {
        SCRUB => ScanKind::Scrub,
        RESILVER => ScanKind::Resilver,
        _ => return None,
    };
    let state = match scan.state {
        1 if scan.flags & PAUSED != 0 => ScanState::Paused,
        1 => ScanState::Running,
        2 => ScanState::Finished,
        3 => ScanState::Canceled,
        _ => return None,
    };
    Some(ScanReport {
        kind,
        state,
        started: scan.started,
        ended: scan.ended,
        elapsed: scan.ended.saturating_sub(scan.started),
        errors: scan.errors,
        repaired: scan.processed,
        to_examine: scan.to_examine,
        scanned: scan.examined,
        issued: scan.examined,
    })
}
