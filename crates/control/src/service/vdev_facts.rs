//! The properties of vdevs: what is measured of them, and what was set.

use admin::{
    Assignments, DatasetRow, Failure, FailureKind, RowText, Selection, Setting, Source, Types,
    VDEV_PROPERTIES, Value, VdevNaming, VdevReport,
};
use base::Guid;
use dsl::property::{Access, Row, VdevFigure, vdev};
use format::config::VdevType;
use pool::{VdevConfig, VdevStatus};

use super::Service;
use super::refusal::unreadable;
use ::vdev::{IoClass, LeafStatistics};

/// The pool's own node among its vdevs.
const ROOT: &str = "root-0";
/// All of them.
const ALL: &str = "all-vdevs";

/// A vdev with what is known of it.
struct Found<'a> {
    name: String,
    parent: Option<String>,
    report: Option<&'a VdevReport>,
    status: &'a VdevStatus,
    config: &'a VdevConfig,
}

/// What leaves did, summed.
#[derive(Default)]
struct Work {
    reads: (u64, u64),
    writes: (u64, u64),
    trims: (u64, u64),
}

impl Work {
    fn below(status: &VdevStatus) -> Self {
        let mut sum = Self::default();
        if let Some(statistics) = &status.statistics {
            sum.add_leaf(statistics);
        }
        for child in &status.children {
            let below = Self::below(child);
            for (mine, theirs) in [
                (&mut sum.reads, below.reads),
                (&mut sum.writes, below.writes),
                (&mut sum.trims, below.trims),
            ] {
                *mine = (mine.0 + theirs.0, mine.1 + theirs.1);
            }
        }
        sum
    }

    fn add_leaf(&mut self, statistics: &LeafStatistics) {
        for class in &statistics.classes {
            let sum = match class.class {
                IoClass::SyncRead | IoClass::AsyncRead | IoClass::Scan => &mut self.reads,
                IoClass::SyncWrite | IoClass::AsyncWrite => &mut self.writes,
                IoClass::Trim => &mut self.trims,
            };
            let operations: u64 = class.latency_ns.buckets.iter().sum();
            *sum = (sum.0 + operations, sum.1 + class.bytes);
        }
    }
}

impl Service {
    /// The named vdevs with their properties.
    pub(super) fn vdev_rows(
        &self,
        names: &[String],
        wanted: &Selection,
    ) -> Result<Vec<DatasetRow>, Failure> {
        let status = self.pool.status().map_err(unreadable)?;
        let config = self.pool.config();
        let reports = self.vdev_reports(&status);
        let all = found(&status.root, &config.root, &reports, &self.pool.name());
        let mut rows = Vec::new();
        for name in &super::walk::distinct(names) {
            let fits = |one: &&Found<'_>| name == ALL || one.answers_to(name);
            let mut matching = all.iter().filter(fits).peekable();
            if matching.peek().is_none() {
                let pool = self.pool.name();
                let text =
                    format!("Expected a list of vdevs in \"{pool}\", but got:\n\t{name} (unknown)");
                return Err(Failure::new(FailureKind::Missing, text));
            }
            for one in matching {
                rows.push(self.vdev_row(one, wanted)?);
            }
        }
        Ok(rows)
    }

    fn vdev_row(&self, one: &Found<'_>, wanted: &Selection) -> Result<DatasetRow, Failure> {
        let stored = self.pool.vdev_properties(one.status.guid);
        let stored: Vec<(String, Value)> = stored
            .map_err(unreadable)?
            .into_iter()
            .map(|(name, value)| (name, super::dataset_index::value_of(value)))
            .collect();
        let native = |row: &Row| (row.name.to_owned(), one.setting(row, &stored));
        let users = || {
            let users = stored.iter().filter(|(name, _)| name.contains(':'));
            users.map(|(name, value)| (name.clone(), Setting::from(value.clone(), Source::Local)))
        };
        let properties = match wanted {
            Selection::All => VDEV_PROPERTIES
                .iter()
                .map(|row| native(row))
                .chain(users())
                .collect(),
            Selection::Names(names) => names
                .iter()
                .map(|name| match vdev::find(name) {
                    Some(row) => native(row),
                    None => {
                        let unset = Setting::from(Value::Absent, Source::Default);
                        let set = users().find(|(key, _)| key == name);
                        set.unwrap_or_else(|| (name.clone(), unset))
                    }
                })
                .collect(),
        };
        Ok(DatasetRow {
            name: one.name.clone(),
            kind: Types::empty(),
            created_txg: 0,
            properties,
        })
    }

    /// Sets properties of one vdev.
    pub(super) fn set_vdev(&self, vdev: &str, properties: &Assignments) -> Result<(), Failure> {
        let pool = self.pool.name();
        let status = self.pool.status().map_err(unreadable)?;
        let config = self.pool.config();
        let reports = self.vdev_reports(&status);
        let all = found(&status.root, &config.root, &reports, &pool);
        let Some(one) = all.iter().find(|one| one.answers_to(vdev)) else {
            let text = format!("cannot set property for '{pool}': no such device in pool: {vdev}");
            return Err(Failure::new(FailureKind::Missing, text));
        };
        let changes = properties.iter().map(|(name, value)| {
            let value = match value {
                Value::Number(number) => {
                    (*number != u64::MAX).then_some(dsl::PropertyValue::Number(*number))
                }
                Value::Text(text) => {
                    (!text.is_empty()).then(|| dsl::PropertyValue::Text(text.clone()))
                }
                Value::Absent => None,
            };
            (name.clone(), value)
        });
        self.pool
            .set_vdev_properties(one.status.guid, changes.collect())
            .map_err(|error| {
                let text = format!("cannot set property for {vdev} on {pool}: {error}");
                Failure::new(FailureKind::Medium, text)
            })
    }
}

/// The pool's node, then all below, parents first.
fn found<'a>(
    status: &'a VdevStatus,
    config: &'a VdevConfig,
    reports: &'a [VdevReport],
    pool: &str,
) -> Vec<Found<'a>> {
    let mut all = vec![Found {
        name: ROOT.to_owned(),
        parent: None,
        report: None,
        status,
        config,
    }];
    for child in &status.children {
        let report = reports.iter().find(|report| report.guid == child.guid.0);
        add(child, config, report, pool, &mut all);
    }
    all
}

fn add<'a>(
    status: &'a VdevStatus,
    above: &'a VdevConfig,
    report: Option<&'a VdevReport>,
    parent: &str,
    all: &mut Vec<Found<'a>>,
) {
    let config = above
        .children
        .iter()
        .find(|child| child.guid() == status.guid);
    let (Some(report), Some(config)) = (report, config) else {
        return;
    };
    if !config.vdev_type().is_none_or(VdevType::is_there) {
        return;
    }
    let name = VdevNaming::default().name(report);
    all.push(Found {
        name: name.clone(),
        parent: Some(parent.to_owned()),
        report: Some(report),
        status,
        config,
    });
    for child in &status.children {
        let below = report
            .children
            .iter()
            .find(|below| below.guid == child.guid.0);
        add(child, config, below, &name, all);
    }
}

impl Found<'_> {
    fn answers_to(&self, name: &str) -> bool {
        let Guid(guid) = self.status.guid;
        self.name == name || name.parse() == Ok(guid) || self.status.path.as_deref() == Some(name)
    }

    fn is_leaf(&self) -> bool {
        self.report.is_some() && self.status.children.is_empty()
    }

    /// Bytes of space and bytes in use; the pool's are those of its data.
    fn space(&self) -> (u64, u64) {
        if self.report.is_some() {
            return (self.status.size, self.status.allocated);
        }
        let data = self
            .status
            .children
            .iter()
            .filter(|top| top.role != pool::VdevRole::Log);
        data.fold((0, 0), |sum, top| (sum.0 + top.size, sum.1 + top.allocated))
    }

    fn setting(&self, row: &Row, stored: &[(String, Value)]) -> Setting {
        let set = stored.iter().find(|(name, _)| name == row.name);
        if let Some((_, value)) = set.filter(|_| row.access == Access::Settable) {
            return Setting::from(value.clone(), Source::Local);
        }
        if let Some(value) = row.measured.vdev().and_then(|figure| self.figure(figure)) {
            return Setting::measured(value);
        }
        if vdev::TRIM_SUPPORT.is(row.name) || (vdev::ALLOCATING.is(row.name) && self.is_leaf()) {
            return Setting::measured(Value::Absent);
        }
        Setting::from(row.default_value(), Source::Default)
    }

    fn figure(&self, figure: VdevFigure) -> Option<Value> {
        let (size, allocated) = self.space();
        let errors = &self.status.errors;
        let work = || Work::below(self.status);
        let root = self.report.is_none();
        Some(Value::Number(match figure {
            VdevFigure::Capacity => allocated.saturating_mul(100).checked_div(size).unwrap_or(0),
            VdevFigure::State => self.state(),
            VdevFigure::Guid => self.status.guid.0,
            VdevFigure::AllocatableSize | VdevFigure::Ashift if root => 0,
            VdevFigure::AllocatableSize if self.is_leaf() && self.config.asize() == 0 => self
                .status
                .device_size
                .saturating_sub(format::label::RESERVED),
            VdevFigure::AllocatableSize => self.config.asize(),
            VdevFigure::PhysicalSize => self.status.device_size,
            VdevFigure::Ashift => u64::from(self.config.ashift()),
            VdevFigure::Size => size,
            VdevFigure::Free => size.saturating_sub(allocated),
            VdevFigure::Allocated => allocated,
            VdevFigure::ExpandSize => self.status.expandable,
            VdevFigure::Parity => 0,
            VdevFigure::Fragmentation => self
                .report
                .and_then(|report| report.fragmentation)
                .unwrap_or(0),
            VdevFigure::RaidzExpanding => u64::from(self.config.is_expanding()),
            VdevFigure::ChildCount => self.status.children.len() as u64,
            VdevFigure::ReadErrors => errors.read,
            VdevFigure::WriteErrors => errors.write,
            VdevFigure::ChecksumErrors => errors.checksum,
            VdevFigure::SlowOperations => errors.slow,
            VdevFigure::ReadOperations => work().reads.0,
            VdevFigure::ReadBytes => work().reads.1,
            VdevFigure::WriteOperations => work().writes.0,
            VdevFigure::WriteBytes => work().writes.1,
            VdevFigure::TrimOperations => work().trims.0,
            VdevFigure::TrimBytes => work().trims.1,
            VdevFigure::TrimErrors => errors.trim,
            VdevFigure::InitializeErrors
            | VdevFigure::NullOperations
            | VdevFigure::NullBytes
            | VdevFigure::FreeOperations
            | VdevFigure::FreeBytes
            | VdevFigure::ClaimOperations
            | VdevFigure::ClaimBytes
            | VdevFigure::Removing => 0,
            VdevFigure::TrimSupport if self.is_leaf() => self.status.can_discard.into(),
            VdevFigure::TrimSupport => return None,
            VdevFigure::Path => return self.status.path.clone().map(Value::Text),
            VdevFigure::Parent => return self.parent.clone().map(Value::Text),
            VdevFigure::Children => return self.children().map(Value::Text),
        }))
    }

    /// The number of its state, as the format has it.
    fn state(&self) -> u64 {
        use ::vdev::VdevState as State;
        match self.status.condition.state {
            State::Healthy => 7,
            State::Degraded => 6,
            State::Faulted => 5,
            State::CantOpen | State::Unknown => 4,
            State::Removed => 3,
            State::Offline | State::Closed => 2,
        }
    }

    fn children(&self) -> Option<String> {
        let report = self.report?;
        let below = report.children.iter();
        let names: Vec<String> = below
            .map(|child| VdevNaming::default().name(child))
            .collect();
        (!names.is_empty()).then(|| names.join(","))
    }
}
