//! Executes requests on one pool. The daemon owns one and calls it from any thread.
//!
//! Invariant: every request ends in exactly one `Done` or `Failed`; a change that fails has changed
//! nothing beyond what its text says. Front ends never reach below this.

mod answers;
mod assignments;
mod cache_file;
mod changes;
pub(crate) mod contents;
mod dataset_index;
mod delegation;
mod diff;
mod errors;
mod events;
mod history;
mod inside;
mod instruments;
mod key_roots;
mod mounting;
mod mountpoint;
mod new_keys;
pub(crate) mod open;
mod open_heads;
mod open_volumes;
mod owner_space;
mod owners;
mod plan;
mod pool_facts;
mod property_checks;
mod property_source;
mod recorder;
mod redactions;
pub(crate) mod refusal;
mod register;
mod reporter;
mod resume;
mod rules;
pub(crate) mod side_by_side;
mod snapshots;
mod source;
mod status;
mod stored;
mod streams;
mod take_back;
mod vdev_facts;
mod walk;

use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use admin::changes::Export;
use admin::queries::{
    ClearEvents, Diff, Events, History, Holds, IoStatistics, Metrics, MountedDatasets, OwnerSpace,
    Status,
};
use admin::{
    Caller, Change, Failure, FailureKind, Handler, HoldRecord, OpenRequest, OwnerKind, Permission,
    Request, Response, Sink, Types,
};
use base::clock::monotonic_ns;
use base::lock::{LockClass, Mutex, rank};
use base::random::Rng;
use dsl::{Actor, Dataset, Dsl};
use pool::Pool;
use sys::{Client, PassedDescriptor};

use crate::Mounts;

use answers::{Ended, Pages, paged, whole};
use dataset_index::{Kinds, PoolDatasetIndex};
use mountpoint::MountFlags;
use property_source::PropertySource;
use recorder::Recorder;
use refusal::{refused, unreadable};
use reporter::Reporter;

pub use cache_file::cached_devices;
pub use open::Opened;
pub use open_volumes::OpenVolume;
pub use refusal::kind_of_device;
pub use source::{FileSource, SnapshotRecord};

static CACHE_FILE: LockClass = LockClass::new("control.cache_file", rank::FRONT_END + 1);
static ACTING: LockClass = LockClass::new("control.acting", rank::FRONT_END + 2);
static CHANGES: LockClass = LockClass::new("control.changes", rank::FRONT_END).watched();
/// How many records of history or holds go into one part of an answer.
const PAGE: usize = 256;

/// The admin service of one pool.
pub struct Service {
    pool: Arc<Pool>,
    dsl: Arc<Dsl>,
    heads: Arc<open_heads::OpenHeads>,
    volumes: Arc<open_volumes::OpenVolumes>,
    mounts: Arc<dyn Mounts>,
    altroot: Option<PathBuf>,
    /// Why the pool may be a stranger's.
    of_stranger: Option<String>,
    readonly: bool,
    load_guid: u64,
    kinds: Kinds,
    begin: open::Begin,
    mount_words: Vec<String>,
    /// Held by the change under way.
    changes: Mutex<()>,
    /// On whose behalf it is made.
    acting: Mutex<Actor>,
    /// The cache file that lists the pool, when it was told to be in one.
    cache_file: Mutex<Option<PathBuf>>,
    register: register::Register,
    finished: AtomicBool,
    opened_ns: u64,
    /// What is sent and received.
    streams: streams::Streams,
    redactions: redactions::Redactions,
    _recorder: Arc<Recorder>,
}

impl Service {
    /// Creates or imports the pool. Called in the daemon, once.
    pub fn open(request: &OpenRequest) -> Result<Opened, Failure> {
        open::open(request)
    }

    /// Takes charge of the pool.
    #[must_use]
    pub fn new(opened: Opened, mounts: Arc<dyn Mounts>) -> Arc<Self> {
        let Opened {
            pool,
            heads,
            volumes,
            altroot,
            begin,
        } = opened;
        Arc::new(Self {
            dsl: Arc::clone(pool.dsl()),
            readonly: pool.is_read_only(),
            pool,
            heads,
            volumes,
            mounts,
            altroot,
            load_guid: sys::SystemRng.nonzero_u64(),
            kinds: Kinds::new(),
            mount_words: begin.mount_words.clone(),
            of_stranger: begin.of_stranger.clone(),
            begin,
            changes: Mutex::new(&CHANGES, ()),
            acting: Mutex::new(&ACTING, Actor::administrator()),
            cache_file: Mutex::new(&CACHE_FILE, None),
            register: register::Register::default(),
            finished: AtomicBool::new(false),
            opened_ns: monotonic_ns(),
            streams: streams::Streams::new(),
            redactions: redactions::Redactions::new(),
            _recorder: Recorder::start(),
        })
    }

    /// Whether nothing in the pool can be changed.
    #[must_use]
    pub fn is_read_only(&self) -> bool {
        self.readonly
    }

    /// What remains to be done once the pool is served: first properties, history, mounts.
    pub fn begin(&self, sink: Sink<'_>) -> io::Result<()> {
        let mut reporter = Reporter::new(sink);
        for line in &self.begin.lines {
            reporter.line(line.clone());
        }
        if let Some(notice) = &self.begin.notice {
            reporter.notice(notice.clone());
        }
        let _one_at_a_time = self.changes.lock();
        if !self.readonly {
            if let Err(failure) = self.set_pool(&self.begin.properties) {
                reporter.warn(failure);
            }
            let caller = Caller {
                uid: sys::user_id(),
                gid: sys::group_id(),
                pid: 0,
            };
            self.record(&caller, &self.begin.command);
        }
        if !self.begin.unmounted {
            self.mount_below(&self.dsl.pool_name(), MountFlags::default(), &mut reporter);
        }
        Ok(())
    }

    /// On whose behalf the change under way is made.
    fn actor(&self) -> Actor {
        self.acting.lock().clone()
    }

    /// Runs a task on behalf of who asked for the change under way.
    fn run<T: dsl::Task + 'static>(&self, task: T) -> dsl::Result<T::Output> {
        self.dsl.run_as(&self.actor(), task)
    }

    fn mounts(&self) -> &dyn Mounts {
        &*self.mounts
    }

    fn dataset_index(&self) -> PoolDatasetIndex<'_> {
        PoolDatasetIndex {
            dsl: &self.dsl,
            mounts: &*self.mounts,
            altroot: self.altroot.as_deref(),
            kinds: &self.kinds,
        }
    }

    /// A head by its path.
    fn head(&self, verb: &str, path: &str) -> Result<Arc<Dataset>, Failure> {
        self.dsl
            .head(path)
            .map_err(|error| refused(verb, path, &error))
    }

    /// A file system or snapshot of one, whichever of the two is allowed.
    fn file_system(&self, name: &str, allowed: Types) -> Result<Arc<Dataset>, Failure> {
        let not_this_kind = || {
            let text = "operation not applicable to datasets of this type";
            Failure::cannot(FailureKind::Invalid, "open", name, text)
        };
        if admin::kind_of(name) == admin::NameKind::Bookmark {
            return Err(not_this_kind());
        }
        let found = self.dsl.dataset(name);
        let dataset = found.map_err(|error| refused("open", name, &error))?;
        let dataset_index = self.dataset_index();
        let owner = dataset_index.head(name.to_owned(), Arc::clone(&dataset))?;
        if !owner.kind().intersects(allowed) || owner.head_kind() != Types::FILESYSTEM {
            return Err(not_this_kind());
        }
        Ok(dataset)
    }

    /// How many files of a file system have no name and are not freed yet; none while nobody can
    /// free them.
    fn delete_queue(&self, name: &str) -> Result<u64, Failure> {
        self.file_system(name, Types::FILESYSTEM)?;
        match self.mounts.file_system(name) {
            Some(files) => files.unlinked().map_err(unreadable),
            None => Ok(0),
        }
    }

    fn finish(&self) {
        self.finished.store(true, Ordering::Release);
    }

    fn history(&self, asked: &History, pages: &mut Pages<'_, History>) -> Result<(), Ended> {
        let records = self.pool.history().map_err(|error| {
            let name = self.pool.name();
            let text = format!("cannot show history for pool '{name}': {error}");
            Failure::new(FailureKind::Medium, text)
        })?;
        let wanted = records.iter().filter_map(history::record).filter(|record| {
            asked.internal || matches!(record.event, admin::HistoryEvent::Command(_))
        });
        let mut page = Vec::new();
        for record in wanted {
            page.push(record);
            if page.len() == PAGE {
                pages.page(std::mem::take(&mut page))?;
            }
        }
        Ok(pages.page(page)?)
    }

    fn events(&self, asked: &Events, pages: &mut Pages<'_, Events>) -> Result<(), Ended> {
        let mut left = self.pool.events(asked.after).into_iter();
        loop {
            let page: Vec<_> = left.by_ref().take(PAGE).map(events::record).collect();
            if page.is_empty() {
                return Ok(());
            }
            pages.page(page)?;
        }
    }

    fn clear_events(&self, caller: &Caller) -> Result<u64, Failure> {
        self.may_read_all(caller, "clear events")?;
        Ok(self.pool.clear_events() as u64)
    }

    fn holds(&self, asked: &Holds) -> Result<Vec<HoldRecord>, Failure> {
        let mut found = Vec::new();
        for name in self.snapshots_named(&walk::distinct(&asked.snapshots), asked.recursive)? {
            let snapshot = self
                .dsl
                .dataset(&name)
                .map_err(|error| refused("open", &name, &error))?;
            for hold in snapshot.holds().map_err(unreadable)? {
                found.push(HoldRecord {
                    snapshot: name.clone(),
                    tag: hold.tag,
                    time: hold.time,
                });
            }
        }
        Ok(found)
    }
}

/// What it takes to see what owners use and may use.
fn owner_permissions(kinds: &[OwnerKind]) -> Vec<Permission<'static>> {
    let of = |kind: &OwnerKind| match kind {
        OwnerKind::User => [Permission::USERUSED, Permission::USERQUOTA],
        OwnerKind::Group => [Permission::GROUPUSED, Permission::GROUPQUOTA],
        OwnerKind::Project => [Permission::PROJECTUSED, Permission::PROJECTQUOTA],
    };
    kinds.iter().flat_map(of).collect()
}

impl Handler for Service {
    fn identity(&self) -> (String, u64) {
        (self.pool.name(), self.pool.guid().0)
    }

    fn handle(&self, request: &Request, caller: &Caller, sink: Sink<'_>) -> io::Result<()> {
        match request {
            Request::Hello => {
                sink(Response::Hello {
                    pool: self.pool.name(),
                    guid: self.pool.guid().0,
                    pid: std::process::id(),
                    version: env!("CARGO_PKG_VERSION").to_owned(),
                })?;
                sink(Response::Done)
            }
            Request::Pool(asked) => whole(asked, self.report(&asked.0), sink),
            Request::Vdevs(asked) => {
                whole(asked, self.vdev_rows(&asked.names, &asked.properties), sink)
            }
            Request::Status => whole(&Status, self.status(caller).map(Box::new), sink),
            Request::History(asked) => {
                let what = format!("show history for pool '{}'", self.pool.name());
                let list = |pages: &mut Pages<'_, History>| {
                    self.may_read_all(caller, &what)?;
                    self.history(asked, pages)
                };
                paged(asked, list, sink)
            }
            Request::Events(asked) => {
                let list = |pages: &mut Pages<'_, Events>| {
                    self.may_read_all(caller, "get event")?;
                    self.events(asked, pages)
                };
                paged(asked, list, sink)
            }
            Request::ClearEvents => whole(&ClearEvents, self.clear_events(caller), sink),
            Request::Datasets(asked) => walk::answer(&self.dataset_index(), asked, sink),
            Request::Holds(asked) => whole(asked, self.holds(asked), sink),
            Request::Grants(asked) => whole(asked, self.grants(&asked.name), sink),
            Request::OwnerSpace(asked) => {
                let what = format!("get used/quota for {}", asked.name);
                let list = |pages: &mut Pages<'_, OwnerSpace>| {
                    let permissions = owner_permissions(&asked.kinds);
                    self.may_read(caller, &asked.name, &permissions, &what)?;
                    self.owner_space(asked, pages)
                };
                paged(asked, list, sink)
            }
            Request::Diff(asked) => {
                let list = |pages: &mut Pages<'_, Diff>| {
                    self.may_diff(caller, asked)?;
                    self.diff(asked, pages)
                };
                paged(asked, list, sink)
            }
            Request::DeleteQueue(asked) => whole(asked, self.delete_queue(&asked.name), sink),
            Request::KeyRoots(asked) => whole(asked, self.key_roots(asked), sink),
            Request::Mounted => whole(&MountedDatasets, Ok(self.mounts.mounted()), sink),
            Request::Metrics => whole(&Metrics, Ok(self.metrics()), sink),
            Request::IoStatistics => whole(&IoStatistics, self.io_statistics().map(Box::new), sink),
            Request::SendProgress(asked) => {
                whole(asked, Ok(self.streams.progress(asked.number)), sink)
            }
            Request::Stream(request) => self.stream(request, caller, None, sink),
            Request::Change { .. } => self.handle_for(request, caller, Client::own(), sink),
        }
    }

    fn handle_for(
        &self,
        request: &Request,
        caller: &Caller,
        client: Client,
        sink: Sink<'_>,
    ) -> io::Result<()> {
        let Request::Change { change, command } = request else {
            return self.handle(request, caller, sink);
        };
        let mut reporter = Reporter::to(client, sink);
        match self.execute(change, caller, command, &mut reporter) {
            Ok(()) => sink(Response::Done),
            Err(failure) => sink(Response::Failed(failure)),
        }
    }

    fn handle_with(
        &self,
        request: &Request,
        caller: &Caller,
        data: PassedDescriptor,
        sink: Sink<'_>,
    ) -> io::Result<()> {
        if let Request::Stream(request) = request {
            self.stream(request, caller, Some(data), sink)
        } else {
            drop(data);
            self.handle(request, caller, sink)
        }
    }

    fn finished(&self) -> bool {
        self.finished.load(Ordering::Acquire)
    }

    fn shut_down(&self) -> Result<(), Failure> {
        let mut nobody = |_: Response| Ok(());
        let change = Change::Export(Export { force: true });
        let caller = Caller {
            uid: sys::user_id(),
            gid: sys::group_id(),
            pid: 0,
        };
        let suspended = self.pool.suspended();
        self.comes_back();
        let outcome = self.execute(&change, &caller, "", &mut Reporter::new(&mut nobody));
        // It may be the export that finds out that nothing can be written.
        match suspended.or_else(|| self.pool.suspended()) {
            Some(reason) => outcome.and_then(|()| {
                let name = self.pool.name();
                let text = "it is suspended: its last changes are lost";
                Err(Failure::cannot(FailureKind::Medium, "export", &name, text).because(reason))
            }),
            None => outcome,
        }
    }
}
