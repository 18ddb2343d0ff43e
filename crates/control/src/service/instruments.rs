//! The instruments of the daemon and what the devices did.

use admin::{ClassIo, Distribution, Failure, IoReport, LeafIo, Metric, MetricsReport};
use base::clock::monotonic_ns;
use base::metrics::{HistogramSnapshot, registry};
use pool::{CacheStatus, VdevStatus};
use vdev::{ClassStatistics, LeafStatistics};

use super::Service;
use super::refusal::unreadable;
/// Everything that is in the registry, now.
pub(crate) fn readings(pool: &str, opened_ns: u64) -> MetricsReport {
    let samples = registry().snapshot();
    MetricsReport {
        pool: pool.to_owned(),
        uptime_ns: monotonic_ns().saturating_sub(opened_ns),
        metrics: samples.into_iter().map(Metric::from).collect(),
    }
}

impl Service {
    pub(super) fn metrics(&self) -> MetricsReport {
        readings(&self.pool.name(), self.opened_ns)
    }

    /// What the devices did since the pool was opened.
    pub(super) fn io_statistics(&self) -> Result<IoReport, Failure> {
        let status = self.pool.status().map_err(unreadable)?;
        let mut leaves = Vec::new();
        collect_leaves(&status.root, &mut leaves);
        leaves.extend(self.pool.caches().iter().filter_map(cache));
        Ok(IoReport {
            name: status.name.clone(),
            guid: status.guid.0,
            uptime_ns: monotonic_ns().saturating_sub(self.opened_ns),
            size: status.space.size,
            allocated: status.space.allocated,
            vdevs: self.vdevs_and_caches(&status),
            leaves,
        })
    }
}

fn collect_leaves(vdev: &VdevStatus, leaves: &mut Vec<(u64, LeafIo)>) {
    if let Some(statistics) = &vdev.statistics {
        leaves.push((vdev.guid.0, leaf(statistics)));
    }
    for child in &vdev.children {
        collect_leaves(child, leaves);
    }
}

/// A cache device is read by those who wait, and written by nobody who does.
fn cache(cache: &CacheStatus) -> Option<(u64, LeafIo)> {
    let found = cache.statistics.as_ref()?;
    let io = |bytes, taken_ns: &HistogramSnapshot| ClassIo {
        bytes,
        disk_ns: Distribution::from(taken_ns),
        total_ns: Distribution::from(taken_ns),
        ..ClassIo::default()
    };
    let io = LeafIo {
        sync_read: io(found.read_bytes, &found.read_ns),
        async_write: io(found.write_bytes, &found.write_ns),
        ..LeafIo::default()
    };
    Some((cache.guid.0, io))
}

fn leaf(statistics: &LeafStatistics) -> LeafIo {
    let mut found = LeafIo::default();
    for (place, class) in found.classes_mut().into_iter().zip(&statistics.classes) {
        *place = class_io(class);
    }
    found
}

fn class_io(class: &ClassStatistics) -> ClassIo {
    let distribution = |found: &HistogramSnapshot| Distribution::from(found);
    ClassIo {
        bytes: class.bytes,
        pending: class.pending,
        active: class.active,
        disk_ns: distribution(&class.latency_ns),
        queue_ns: distribution(&class.queue_wait_ns),
        total_ns: distribution(&class.total_ns),
        single_bytes: distribution(&class.single_bytes),
        merged_bytes: distribution(&class.merged_bytes),
    }
}
