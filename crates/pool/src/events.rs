//! What happened to the pool lately: a ring in memory, in the classes and fields of OpenZFS's events.
//!
//! Nothing waits for a reader: when the ring is full, the oldest event goes. Error reports are
//! limited to a number a second, so that a failing device does not push everything else out.
//! Devices are compared with how they were last seen after each txg and whenever somebody reads.

use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use base::clock::Clock;
use base::lock::{LockClass, Mutex, rank};
use base::{Guid, ObjectId};
use format::label::PoolState;
use vdev::{Condition, ErrorCounts, Leaf, VdevAux, VdevState, VdevTree};

use crate::mos::data_error::DataError;
use crate::scan::phys::{FUNCTION_RESILVER, ScanPhys};
use crate::tunables;
use crate::vdevs::dtl;

static RING: LockClass = LockClass::new("pool.events", rank::LAST - 12);
static SEEN: LockClass = LockClass::new("pool.events_seen", rank::LAST - 14);
static TASK: LockClass = LockClass::new("pool.events_task", rank::LAST - 13);

/// Bytes of a text that are kept.
const TEXT_MAX: usize = 4096;

/// The value of a field.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EventValue {
    /// A number.
    Number(u64),
    /// A number with its name.
    Named(&'static str, u64),
    /// A moment: seconds since 1970, and nanoseconds.
    Time(u64, u64),
    /// A text.
    Text(String),
    /// Fields of its own.
    List(Vec<(&'static str, EventValue)>),
}

/// Something that happened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    /// Its number, from 1 on, since the pool was opened.
    pub id: u64,
    /// When: nanoseconds since 1970.
    pub time_ns: u64,
    /// What, as `sysevent.fs.zfs.pool_import`.
    pub class: String,
    /// The particulars, in the order in which they are shown.
    pub fields: Vec<(&'static str, EventValue)>,
}

#[derive(Default)]
struct Ring {
    last_id: u64,
    kept: VecDeque<Event>,
    /// The second that reports are counted in, and how many there were.
    reports: (u64, u32),
}

/// The events of a pool.
pub(crate) struct Events {
    pool: String,
    guid: AtomicU64,
    clock: Arc<dyn Clock>,
    ring: Mutex<Ring>,
    /// Leaves as they were last seen.
    seen: Mutex<BTreeMap<Guid, (Condition, ErrorCounts)>>,
    /// Whether the pool was last suspended because a file system that holds one of its devices is full.
    is_for_room: AtomicBool,
    /// Whom to tell that a device failed, or is not there.
    failed: OnceLock<Box<dyn Fn() + Send + Sync>>,
    /// What the task under way did, until it is done. Its thread is the only one that writes history.
    task: Mutex<Option<Vec<Fields>>>,
}

type Fields = Vec<(&'static str, EventValue)>;

impl Events {
    pub(crate) fn new(pool: &str, guid: Guid, clock: Arc<dyn Clock>) -> Arc<Self> {
        Arc::new(Self {
            pool: pool.to_owned(),
            guid: AtomicU64::new(guid.0),
            clock,
            ring: Mutex::new(&RING, Ring::default()),
            seen: Mutex::new(&SEEN, BTreeMap::new()),
            is_for_room: AtomicBool::new(false),
            failed: OnceLock::new(),
            task: Mutex::new(&TASK, None),
        })
    }

    /// From now on `failed` is called when a device fails; from the thread that found it.
    pub(crate) fn on_failed(&self, failed: Box<dyn Fn() + Send + Sync>) {
        // The first stays: a pool is told once who it is.
        let _ = self.failed.set(failed);
    }

    /// The pool has another guid.
    pub(crate) fn set_pool_guid(&self, guid: Guid) {
        self.guid.store(guid.0, Ordering::Relaxed);
    }

    fn pool_guid(&self) -> EventValue {
        EventValue::Number(self.guid.load(Ordering::Relaxed))
    }

    /// The events after one, oldest first.
    pub(crate) fn after(&self, id: u64) -> Vec<Event> {
        let ring = self.ring.lock();
        let kept = ring.kept.iter();
        kept.filter(|event| event.id > id).cloned().collect()
    }

    /// Forgets all events; how many there were.
    pub(crate) fn clear(&self) -> usize {
        std::mem::take(&mut self.ring.lock().kept).len()
    }

    /// `sysevent.fs.zfs.NAME`.
    pub(crate) fn system(&self, name: &str, fields: Fields) {
        self.post_versioned(format!("sysevent.fs.zfs.{name}"), fields);
    }

    /// An internal event of the history.
    pub(crate) fn history(&self, record: &HistoryFields<'_>) {
        let mut fields = vec![("history_hostname", text(record.host))];
        fields.extend(
            record
                .dataset
                .map(|(name, _)| ("history_dsname", text(name))),
        );
        fields.push(("history_internal_str", text(record.text)));
        fields.push(("history_internal_name", text(record.name)));
        let id = |(_, id): (&str, ObjectId)| ("history_dsid", EventValue::Number(id.0));
        fields.extend(record.dataset.map(id));
        fields.push(("history_txg", EventValue::Number(record.txg)));
        fields.push(("history_time", EventValue::Number(record.time_s)));
        match &mut *self.task.lock() {
            Some(waiting) => waiting.push(fields),
            None => self.system("history_event", fields),
        }
    }

    /// A task begins: what it does is told when it is done.
    pub(crate) fn begin_task(&self) {
        *self.task.lock() = Some(Vec::new());
    }

    /// The task is done, or was undone: then nothing of it happened.
    pub(crate) fn end_task(&self, done: bool) {
        let waiting = self.task.lock().take().filter(|_| done);
        for fields in waiting.into_iter().flatten() {
            self.system("history_event", fields);
        }
    }

    /// A vdev came, went or was cleared.
    pub(crate) fn vdev(&self, name: &str, guid: Guid) {
        self.system(name, vec![("vdev_guid", EventValue::Number(guid.0))]);
    }

    /// A scan did something: `start`, `finish`, `abort`, `paused`, `resume`.
    pub(crate) fn scan(&self, scan: &ScanPhys, what: &str) {
        if scan.function == FUNCTION_RESILVER {
            let kind = ("resilver_type", text("healing"));
            self.system(&format!("resilver_{what}"), vec![kind]);
        } else {
            self.system(&format!("scrub_{what}"), Vec::new());
        }
    }

    /// A sequential rebuild of a top-level vdev began or ended.
    pub(crate) fn rebuild(&self, what: &str, vdev: Guid) {
        let kind = ("resilver_type", text("sequential"));
        let vdev = ("vdev_guid", EventValue::Number(vdev.0));
        self.system(&format!("resilver_{what}"), vec![kind, vdev]);
    }

    /// A block of which no copy can be read.
    pub(crate) fn unreadable(&self, error: &DataError) {
        let fields = vec![
            ("zio_objset", EventValue::Number(error.dataset.0)),
            ("zio_object", EventValue::Number(error.object.0)),
            ("zio_level", EventValue::Number(error.level.cast_unsigned())),
            ("zio_blkid", EventValue::Number(error.block)),
        ];
        self.report("data", None, fields);
    }

    /// A file system was taken out of service, because it cannot be written.
    pub(crate) fn stopped(&self, dataset: &str, reason: &str) {
        let fields = vec![("dataset", text(dataset)), ("reason", text(reason))];
        self.report("dataset_stopped", None, fields);
    }

    /// The pool's devices failed it; `is_for_room`: for lack of room on a file system that holds one.
    pub(crate) fn suspended(&self, is_for_room: bool) {
        self.is_for_room.store(is_for_room, Ordering::Relaxed);
        self.report("io_failure", None, Vec::new());
    }

    /// Whether the pool was last suspended because a file system that holds one of its devices is full.
    pub(crate) fn is_for_room(&self) -> bool {
        self.is_for_room.load(Ordering::Relaxed)
    }

    /// Says what changed with the leaves since they were last looked at.
    pub(crate) fn observe(&self, vdevs: &VdevTree) {
        let mut has_failed = false;
        for leaf in dtl::leaves(vdevs) {
            let now = (leaf.condition(), leaf.errors());
            let before = self.seen.lock().insert(leaf.guid(), now);
            if before == Some(now) {
                continue;
            }
            self.leaf_errors(&leaf, before.map(|(_, errors)| errors), now.1);
            let condition = before.map(|(condition, _)| condition);
            self.leaf_state(&leaf, condition, now.0);
            has_failed |= is_failed(now.0) && condition != Some(now.0);
        }
        if has_failed && let Some(failed) = self.failed.get() {
            failed();
        }
    }

    fn leaf_errors(&self, leaf: &Leaf, before: Option<ErrorCounts>, now: ErrorCounts) {
        let before = before.unwrap_or_default();
        let kinds = [
            ("io", now.read > before.read || now.write > before.write),
            ("checksum", now.checksum > before.checksum),
            ("delay", now.slow > before.slow),
        ];
        for (kind, _) in kinds.into_iter().filter(|(_, grew)| *grew) {
            self.report(kind, Some(leaf), Vec::new());
        }
    }

    fn leaf_state(&self, leaf: &Leaf, before: Option<Condition>, now: Condition) {
        let last = before.unwrap_or(Condition::HEALTHY);
        if last == now {
            return;
        }
        if matches!(now.state, VdevState::CantOpen) {
            let reason = format!("vdev.{}", reason(now.aux));
            self.report(&reason, Some(leaf), Vec::new());
        }
        let named = |condition: Condition| {
            let name = condition.state.name(condition.aux);
            EventValue::Named(name, condition.state as u64)
        };
        let mut fields = vec![
            ("vdev_guid", EventValue::Number(leaf.guid().0)),
            ("vdev_state", named(now)),
            ("vdev_path", text(&leaf.path())),
        ];
        // How it was before it was first looked at nobody knows.
        fields.extend(before.map(|before| ("vdev_laststate", named(before))));
        self.post_versioned("resource.fs.zfs.statechange".to_owned(), fields);
    }

    /// `ereport.fs.zfs.NAME`, unless there were too many this second.
    fn report(&self, name: &str, leaf: Option<&Leaf>, more: Fields) {
        let second = self.clock.now_s();
        {
            let mut ring = self.ring.lock();
            if ring.reports.0 != second {
                ring.reports = (second, 0);
            }
            ring.reports.1 += 1;
            if u64::from(ring.reports.1) > tunables::REPORTS_MAX.get() {
                return;
            }
        }
        let mut detector = vec![
            ("version", EventValue::Number(0)),
            ("scheme", text("zfs")),
            ("pool", self.pool_guid()),
        ];
        detector.extend(leaf.map(|leaf| ("vdev", EventValue::Number(leaf.guid().0))));
        let class = format!("ereport.fs.zfs.{name}");
        let mut fields = vec![
            ("class", text(&class)),
            ("detector", EventValue::List(detector)),
        ];
        fields.extend(self.identity());
        if let Some(leaf) = leaf {
            let errors = leaf.errors();
            fields.extend([
                ("vdev_guid", EventValue::Number(leaf.guid().0)),
                ("vdev_path", text(&leaf.path())),
                ("vdev_ashift", EventValue::Number(leaf.ashift().into())),
                ("vdev_read_errors", EventValue::Number(errors.read)),
                ("vdev_write_errors", EventValue::Number(errors.write)),
                ("vdev_cksum_errors", EventValue::Number(errors.checksum)),
                ("vdev_delays", EventValue::Number(errors.slow)),
            ]);
        }
        fields.extend(more);
        self.post(class, fields);
    }

    fn identity(&self) -> [(&'static str, EventValue); 4] {
        [
            ("pool", text(&self.pool)),
            ("pool_guid", self.pool_guid()),
            ("pool_state", EventValue::Number(PoolState::Active.number())),
            ("pool_context", EventValue::Number(0)),
        ]
    }

    fn post_versioned(&self, class: String, more: Fields) {
        let mut fields = vec![("version", EventValue::Number(0)), ("class", text(&class))];
        fields.extend(self.identity());
        fields.extend(more);
        self.post(class, fields);
    }

    fn post(&self, class: String, mut fields: Fields) {
        let mut ring = self.ring.lock();
        let time_ns = self.clock.now();
        ring.last_id += 1;
        let id = ring.last_id;
        let time = EventValue::Time(time_ns / 1_000_000_000, time_ns % 1_000_000_000);
        fields.extend([("time", time), ("eid", EventValue::Number(id))]);
        while ring.kept.len() >= tunables::EVENTS_MAX.count() {
            ring.kept.pop_front();
        }
        ring.kept.push_back(Event {
            id,
            time_ns,
            class,
            fields,
        });
    }
}

/// An internal event of the history, before it is a record.
pub(crate) struct HistoryFields<'a> {
    pub(crate) host: &'a str,
    pub(crate) name: &'a str,
    pub(crate) text: &'a str,
    pub(crate) dataset: Option<(&'a str, ObjectId)>,
    pub(crate) txg: u64,
    pub(crate) time_s: u64,
}

/// A text, cut to what is kept.
fn text(whole: &str) -> EventValue {
    EventValue::Text(whole[..whole.floor_char_boundary(TEXT_MAX)].to_owned())
}

/// Whether a device failed, or fails too often: by itself, not by the operator's word to be offline.
pub(crate) const fn is_failed(condition: Condition) -> bool {
    match condition.state {
        VdevState::Faulted | VdevState::CantOpen | VdevState::Removed => true,
        // In use, but with so many errors that another one is to stand in.
        VdevState::Degraded => matches!(condition.aux, VdevAux::ErrorsExceeded),
        VdevState::Unknown | VdevState::Closed | VdevState::Offline | VdevState::Healthy => false,
    }
}

/// Why a vdev cannot be opened, as the end of a class.
const fn reason(aux: VdevAux) -> &'static str {
    match aux {
        VdevAux::OpenFailed => "open_failed",
        VdevAux::CorruptData => "corrupt_data",
        VdevAux::NoReplicas => "no_replicas",
        VdevAux::BadGuidSum => "bad_guid_sum",
        VdevAux::TooSmall => "too_small",
        VdevAux::BadLabel => "bad_label",
        VdevAux::BadAshift => "bad_ashift",
        VdevAux::None
        | VdevAux::VersionNewer
        | VdevAux::VersionOlder
        | VdevAux::UnsupportedFeature
        | VdevAux::Spared
        | VdevAux::ErrorsExceeded
        | VdevAux::IoFailure
        | VdevAux::BadLog
        | VdevAux::External
        | VdevAux::SplitPool
        | VdevAux::ExternalPersist
        | VdevAux::Active
        | VdevAux::ChildrenOffline
        | VdevAux::AshiftTooBig => "unknown",
    }
}

#[cfg(test)]
mod tests;
