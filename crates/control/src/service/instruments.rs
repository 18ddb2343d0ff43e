//! The instruments of the daemon and what the devices did.

use std::sync::Arc;
use std::time::Duration;

use admin::{ClassIo, Distribution, Failure, IoReport, LeafIo, Metric, MetricsReport};
use base::clock::monotonic_ns;
use base::lock::{LockClass, Mutex, rank};
use base::metrics::{HistogramSnapshot, Source, Value, Windows, registry};
use base::thread;
use pool::VdevStatus;
use vdev::{ClassStatistics, LeafStatistics};

use super::Service;
use super::refusal::unreadable;

static WINDOWS: LockClass = LockClass::new("control.windows", rank::FRONT_END + 40);
const WINDOW: Duration = Duration::from_secs(1);

/// Closes a window of [`Windows`] every second for as long as the service lives.
pub(super) struct Recorder {
    windows: Mutex<Windows>,
}

impl Recorder {
    pub(super) fn start() -> Arc<Self> {
        let recorder = Arc::new(Self {
            windows: Mutex::new(&WINDOWS, Windows::new()),
        });
        registry().add_source("window", &recorder);
        let for_thread = Arc::downgrade(&recorder);
        let start = thread::named("instruments", sys::thread::ORDINARY);
        let started = start.stack_bytes(64 << 10).spawn(move || {
            loop {
                std::thread::sleep(WINDOW);
                let Some(recorder) = for_thread.upgrade() else {
                    return;
                };
                recorder.windows.lock().close();
            }
        });
        // Without the thread there are no windows; all else is as it was.
        drop(started);
        recorder
    }
}

impl Source for Recorder {
    fn collect(&self, sink: &mut dyn FnMut(&str, Value)) {
        self.windows.lock().collect(sink);
    }
}

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
        Ok(IoReport {
            name: status.name.clone(),
            guid: status.guid.0,
            uptime_ns: monotonic_ns().saturating_sub(self.opened_ns),
            size: status.space.size,
            allocated: status.space.allocated,
            vdevs: self.vdev_reports(&status),
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
