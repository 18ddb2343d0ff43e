//! The mounts of one pool.
//!
//! Two levels: this table knows which dataset is where; a [`DatasetTree`] serves one of them. For
//! root, each has a mount of its own. An ordinary user cannot mount inside of a mount of theirs:
//! what belongs there is shown by that mount itself (a [`MountMultiplexer`]), and the table calls it mounted
//! all the same. No lock is held while the kernel mounts, unmounts or writes back: requests of other mounts, and of
//! the same one, go on meanwhile.

mod remounts;
#[cfg(test)]
mod tests;

use self::remounts::Told;
use super::mount_point;
use admin::{Failure, FailureKind, Mounted};
use base::lock::{LockClass, Mutex, rank};
use base::notice;
use base::thread;
use control::{FileSource, Force, MountOptions, MountRequest, Mounts, SnapshotRecord};
use dsl::property;
use fuse::{
    DatasetTree, Mount, MountFailure, MountMultiplexer, MountState, Session, SessionOptions,
    SnapshotDirectory, SnapshotEntry, SnapshotSource, Tree, TreeTag,
};
use posix::{AccessTime, Errno, FileSystem, OwnerMap};
use std::collections::HashMap;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock, Weak};
use std::time::Duration;
use sys::{MountDirectory, MountError, MountsInside, UnmountMode};

static TABLE_CLASS: LockClass = LockClass::new("daemon.mounts", rank::FRONT_END + 2);

/// How many of those who use a mount a refusal names.
const USERS_NAMED: usize = 4;

/// One mounted dataset.
struct Entry {
    dataset: Arc<Mutex<String>>,
    path: PathBuf,
    tree: Arc<DatasetTree>,
    place: Place,
    options: posix::MountOptions,
    /// How it is mounted now: properties, and `-o` over them.
    present: Mutex<MountOptions>,
    /// What is mounted inside, while the content is being replaced.
    inside: Mutex<MountsInside>,
    /// What the kernel was told of its own mount.
    told: Told,
}

/// How the kernel sees a dataset.
enum Place {
    /// By a mount of its own, which may show others inside.
    Own {
        mount: Mount,
        multiplexer: Arc<MountMultiplexer>,
    },
    /// Inside the mount of another one.
    Inside { outermost: Arc<Entry>, tag: TreeTag },
}

impl Entry {
    /// The mount, what it shows, and which part of it this is.
    fn shown(&self) -> (&Mount, &Arc<MountMultiplexer>, TreeTag) {
        match &self.place {
            Place::Own { mount, multiplexer } => (mount, multiplexer, TreeTag::FIRST),
            Place::Inside { outermost, tag } => {
                let (mount, multiplexer, _) = outermost.shown();
                (mount, multiplexer, *tag)
            }
        }
    }

    fn session(&self) -> &Session {
        self.shown().0.session()
    }

    /// Snapshots may be gone.
    fn forget_snapshots(&self) {
        let (mount, _, tag) = self.shown();
        self.tree.snapshots_changed(mount.session(), tag.root());
    }

    /// Has the kernel write what programs wrote.
    fn write_back(&self) -> Result<(), Failure> {
        let wait = Duration::from_millis(fuse::WRITE_BACK_WAIT_MS.get());
        let written = self.shown().0.write_back(wait);
        written.map_err(|error| busy(&error.to_string()))
    }

    /// Tells the kernel of other flags. It lets nobody but root change them: that is an error where they keep what
    /// changed from acting.
    fn change_flags(
        &self,
        mount: &Mount,
        before: &fuse::MountOptions,
        now: &fuse::MountOptions,
    ) -> Result<(), Failure> {
        let changed = self.told.change(now, || mount.change_flags(now));
        let error = match changed {
            Ok(()) => return Ok(()),
            Err(error) => error,
        };
        let is_denied =
            matches!(&error, MountError::MountPoint { error, .. } if *error == sys::Errno::PERM);
        if !is_denied {
            return Err(mount_failure(&error.into()));
        }
        if !self.told.keeps_from_acting(before, now) {
            return Ok(());
        }
        let (dataset, path) = (self.dataset.lock().clone(), self.path.display());
        let again = match self.shown().1.is_host(TreeTag::FIRST) {
            true => "-a",
            false => &dataset,
        };
        let reason = format!("{path}: only root can change how it is mounted");
        let advice =
            format!("for the value to act, run 'zfs unmount {dataset}', then 'zfs mount {again}'");
        Err(Failure::new(FailureKind::Permission, reason).advise(advice))
    }

    fn is_serving(&self) -> bool {
        self.shown().0.state() == MountState::Serving
    }

    fn is_inside(&self, other: &Arc<Self>) -> bool {
        match &self.place {
            Place::Own { .. } => false,
            Place::Inside { outermost, .. } => Arc::ptr_eq(outermost, other),
        }
    }
}

static PRESENT_CLASS: LockClass = LockClass::new("daemon.mount_options", rank::FRONT_END + 5);
static INSIDE_CLASS: LockClass = LockClass::new("daemon.mounts_inside", rank::FRONT_END + 6);
static NAME_CLASS: LockClass = LockClass::new("daemon.dataset_name", rank::FRONT_END + 4);

/// The snapshots of one mounted dataset, by whatever name it has now.
struct Snapshots {
    source: Arc<FileSource>,
    dataset: Arc<Mutex<String>>,
    options: posix::MountOptions,
}

fn errno_of(failure: &Failure) -> Errno {
    match failure.kind {
        FailureKind::Missing => Errno::ESTALE,
        FailureKind::Permission => Errno::EACCES,
        FailureKind::Busy => Errno::EBUSY,
        FailureKind::Usage
        | FailureKind::Exists
        | FailureKind::Space
        | FailureKind::ReadOnly
        | FailureKind::Invalid
        | FailureKind::Unsupported
        | FailureKind::Medium
        | FailureKind::Service => Errno::EIO,
    }
}

impl SnapshotSource for Snapshots {
    fn list(&self) -> fuse::Reply<Vec<SnapshotEntry>> {
        let dataset = self.dataset.lock().clone();
        let found = self.source.snapshots(&dataset);
        let found = found.map_err(|failure| errno_of(&failure))?;
        Ok(found.into_iter().map(entry_of).collect())
    }

    fn open(&self, guid: u64) -> fuse::Reply<Arc<FileSystem>> {
        let dataset = self.dataset.lock().clone();
        let opened = self.source.open_snapshot(&dataset, guid, &self.options);
        opened.map_err(|failure| errno_of(&failure))
    }

    fn changed(&self) -> fuse::wire::Timestamp {
        let dataset = self.dataset.lock().clone();
        let (seconds, nanoseconds) = self.source.snapshots_changed_at(&dataset);
        fuse::wire::Timestamp {
            seconds,
            nanoseconds,
        }
    }
}

fn entry_of(snapshot: SnapshotRecord) -> SnapshotEntry {
    SnapshotEntry {
        name: snapshot.name.into_bytes(),
        guid: snapshot.guid,
        object_set: snapshot.object_set,
    }
}

/// How the kernel sees `.zfs`, as the property says.
const fn shown_as(property: property::SnapshotDirectory) -> SnapshotDirectory {
    match property {
        property::SnapshotDirectory::Visible => SnapshotDirectory::Visible,
        property::SnapshotDirectory::Disabled => SnapshotDirectory::Disabled,
        property::SnapshotDirectory::Hidden => SnapshotDirectory::Hidden,
    }
}

/// The mounts of one pool, by the kernel's FUSE.
pub struct DaemonMounts {
    source: Arc<FileSource>,
    table: Mutex<Table>,
    own: Weak<Self>,
    /// Set when somebody looks for remounts.
    watched: OnceLock<()>,
}

/// The entries, oldest first, and the same by name.
#[derive(Default)]
struct Table {
    all: Vec<Arc<Entry>>,
    named: HashMap<String, Arc<Entry>>,
}

impl Table {
    fn push(&mut self, entry: Arc<Entry>) {
        let name = entry.dataset.lock().clone();
        self.named.insert(name, Arc::clone(&entry));
        self.all.push(entry);
    }

    /// Takes entries out.
    fn remove(&mut self, gone: &[Arc<Entry>]) {
        let is_gone = |entry: &Arc<Entry>| gone.iter().any(|one| Arc::ptr_eq(one, entry));
        self.all.retain(|entry| !is_gone(entry));
        for entry in gone {
            let name = entry.dataset.lock().clone();
            // Another one may be mounted by now.
            if self.named.get(&name).is_some_and(is_gone) {
                self.named.remove(&name);
            }
        }
    }

    /// Names have changed.
    fn name_again(&mut self) {
        let named = self.all.iter();
        self.named = named
            .map(|entry| (entry.dataset.lock().clone(), Arc::clone(entry)))
            .collect();
    }
}

impl DaemonMounts {
    /// No mounts yet.
    #[must_use]
    pub fn new(source: FileSource) -> Arc<Self> {
        Arc::new_cyclic(|own| Self {
            source: Arc::new(source),
            table: Mutex::new(&TABLE_CLASS, Table::default()),
            own: Weak::clone(own),
            watched: OnceLock::new(),
        })
    }

    /// The live mounts; those that users unmounted are dropped from the table.
    fn entries(&self) -> Vec<Arc<Entry>> {
        let mut table = self.table.lock();
        let all = table.all.iter();
        let ended: Vec<_> = all.filter(|entry| !entry.is_serving()).cloned().collect();
        if !ended.is_empty() {
            table.remove(&ended);
        }
        let alive = table.all.clone();
        drop(table);
        drop(ended);
        alive
    }

    fn find(&self, dataset: &str) -> Option<Arc<Entry>> {
        let found = self.table.lock().named.get(dataset).cloned();
        found.filter(|entry| entry.is_serving())
    }

    /// For an ordinary user: the mounted dataset in which a path is, and the way from its root.
    fn host<'a>(&self, path: &'a Path) -> Option<(Arc<Entry>, Vec<&'a [u8]>)> {
        if sys::user_id() == 0 {
            return None;
        }
        let inside = self.entries().into_iter().filter_map(|entry| {
            let below = path.strip_prefix(&entry.path).ok()?;
            let way: Vec<&[u8]> = below.iter().map(OsStrExt::as_bytes).collect();
            (!way.is_empty()).then_some((entry, way))
        });
        inside.min_by_key(|(_, way)| way.len())
    }

    /// Whether a path lies in something that is mounted.
    fn is_inside(&self, path: &Path) -> bool {
        let mut entries = self.entries().into_iter();
        entries.any(|entry| path != entry.path && path.starts_with(&entry.path))
    }

    fn start(
        &self,
        request: &MountRequest,
        onto: Option<&MountDirectory>,
    ) -> Result<Entry, Failure> {
        let MountRequest {
            dataset,
            path,
            options,
            beneath: _,
            of_stranger: _,
        } = request;
        let file_options = file_system_options(dataset);
        let live = self.open_live(dataset, &file_options, options)?;
        let name = Arc::new(Mutex::new(&NAME_CLASS, dataset.clone()));
        let snapshots = Snapshots {
            source: Arc::clone(&self.source),
            dataset: Arc::clone(&name),
            options: posix::MountOptions {
                read_only: true,
                ..file_options.clone()
            },
        };
        let directory = match dataset.contains('@') {
            true => SnapshotDirectory::Disabled,
            false => shown_as(self.source.snapshot_directory(dataset)),
        };
        let tree = DatasetTree::new(Arc::clone(&live), Arc::new(snapshots), directory);
        let told = Told::default();
        match self.place(request, onto, &live, &tree, &told) {
            Ok(place) => Ok(Entry {
                dataset: name,
                path: path.clone(),
                tree,
                place,
                options: file_options,
                present: Mutex::new(&PRESENT_CLASS, options.clone()),
                inside: Mutex::new(&INSIDE_CLASS, MountsInside::default()),
                told,
            }),
            Err(failure) => {
                // Nothing was asked of it yet, so there is nothing to lose.
                let _written = live.unmount();
                Err(failure)
            }
        }
    }

    /// The file system of a dataset, with `-o` over its properties, and what a crash left in it
    /// removed in the background.
    fn open_live(
        &self,
        dataset: &str,
        options: &posix::MountOptions,
        present: &MountOptions,
    ) -> Result<Arc<FileSystem>, Failure> {
        let live = self.source.open(dataset, options)?;
        live.set_properties(with_options(live.properties(), present));
        if !live.is_read_only() && !live.properties().read_only {
            let for_thread = Arc::clone(&live);
            // Without a thread, or when the mount ends first, the next mount does it.
            let _started = thread::named("unlinked", sys::thread::BACKGROUND)
                .spawn(move || drop(for_thread.drain_unlinked()));
        }
        Ok(live)
    }

    /// Takes `snapdir` over. The kernel may have cached the root's listing, with or without `.zfs`.
    fn show_snapshot_directory(&self, entry: &Entry, dataset: &str) {
        if dataset.contains('@') {
            return;
        }
        entry
            .tree
            .set_snapshot_directory(shown_as(self.source.snapshot_directory(dataset)));
        let (mount, _, tag) = entry.shown();
        mount.session().invalidate_node(tag.root());
        mount.session().invalidate_name(tag.root(), b".zfs");
    }

    fn place(
        &self,
        request: &MountRequest,
        directory: Option<&MountDirectory>,
        live: &FileSystem,
        tree: &Arc<DatasetTree>,
        told: &Told,
    ) -> Result<Place, Failure> {
        let MountRequest {
            dataset,
            path,
            options,
            beneath: _,
            of_stranger: _,
        } = request;
        if let Some((host, way)) = self.host(path) {
            let (mount, multiplexer, host_tag) = host.shown();
            let added = multiplexer.add(host_tag, &way, tree.clone(), mount.session());
            let tag = added.map_err(|errno| inside_failure(path, errno))?;
            let outermost = match &host.place {
                Place::Own { .. } => host,
                Place::Inside { outermost, .. } => Arc::clone(outermost),
            };
            return Ok(Place::Inside { outermost, tag });
        }
        let read_only = live.is_read_only() || live.properties().read_only;
        let session = SessionOptions {
            posix_acl: self.source.posix_acl(dataset),
            writeback_cache: !read_only && gathers_writes(dataset, options, live)?,
            ..SessionOptions::default()
        };
        let asked_to_gather = options.write_back == Some(true) && session.writeback_cache;
        let options = kernel_options(dataset, options, read_only, session);
        let multiplexer = MountMultiplexer::new(tree.clone());
        // Root's mounts show one dataset each: no need to look for others inside.
        let shown: Arc<dyn Tree> = if sys::user_id() == 0 {
            tree.clone()
        } else {
            multiplexer.clone()
        };
        let mount = Mount::start_on(path, directory, shown, &options)
            .map_err(|error| mount_failure(&error))?;
        told.is(&options);
        if asked_to_gather && !mount.session().gathers_writes() {
            notice::say(&format_args!(
                "millpond: {dataset}: the kernel cannot gather writes here: mounted without 'writeback'"
            ));
        }
        Ok(Place::Own { mount, multiplexer })
    }
}

/// Whether the kernel is to gather the writes to a mount. Each write of `sync=always` is durable when it returns; and
/// an ordinary user may not say how much the kernel gathers.
fn gathers_writes(
    dataset: &str,
    options: &MountOptions,
    live: &FileSystem,
) -> Result<bool, Failure> {
    let by_default = fuse::WRITE_BACK.get() != 0;
    let refused = live.properties().sync_always || sys::user_id() != 0;
    if options.write_back == Some(true) && live.properties().sync_always {
        let reason = format!("'writeback' is not for '{dataset}': it has sync=always");
        return Err(Failure::new(FailureKind::Invalid, reason));
    }
    Ok(options.write_back.unwrap_or(by_default) && !refused)
}

fn inside_failure(path: &Path, errno: Errno) -> Failure {
    let reason = match errno {
        Errno::EBUSY => return busy("mountpoint or dataset is busy"),
        Errno::ENOENT => "the mount point is not in the file system that it belongs to",
        Errno::ENOSPC => "too many file systems in one mount",
        _ => "the mount point cannot be looked up",
    };
    Failure::new(
        FailureKind::Invalid,
        format!("{}: {reason}", path.display()),
    )
}

fn busy(reason: &str) -> Failure {
    Failure::new(FailureKind::Busy, reason)
}

fn file_system_options(dataset: &str) -> posix::MountOptions {
    let (uid, gid) = (sys::user_id(), sys::group_id());
    posix::MountOptions {
        read_only: dataset.contains('@'),
        kernel_checks_permissions: true,
        keeps_removed: true,
        frees_in_background: true,
        // An ordinary user's mount is that user's alone: the image's owners mean nothing here.
        owners: if uid == 0 {
            OwnerMap::Stored
        } else {
            OwnerMap::Everyone { uid, gid }
        },
        ..posix::MountOptions::default()
    }
}

/// Properties as they hold for one mount.
fn with_options(
    properties: posix::DatasetProperties,
    options: &MountOptions,
) -> posix::DatasetProperties {
    let access_time = match (options.atime, options.relatime) {
        (false, _) => AccessTime::Off,
        (true, true) => AccessTime::Relative,
        (true, false) => AccessTime::Strict,
    };
    let read_only = properties.read_only || options.readonly;
    posix::DatasetProperties {
        access_time,
        read_only,
        ..properties
    }
}

fn kernel_options(
    dataset: &str,
    options: &MountOptions,
    is_read_only: bool,
    session: SessionOptions,
) -> fuse::MountOptions {
    fuse::MountOptions {
        source: dataset.to_owned(),
        read_only: options.readonly || is_read_only,
        no_exec: !options.exec,
        no_suid: !options.setuid,
        no_devices: !options.devices,
        no_atime: !options.atime,
        strict_atime: options.atime && !options.relatime,
        session,
    }
}

fn mount_failure(failure: &MountFailure) -> Failure {
    let kind = match failure {
        MountFailure::Mount(MountError::MountPoint {
            error: sys::Errno::BUSY,
            ..
        }) => {
            return Failure::new(FailureKind::Busy, "mountpoint or dataset is busy");
        }
        MountFailure::Mount(MountError::Helper { .. }) => FailureKind::Permission,
        MountFailure::Mount(MountError::Device(_) | MountError::NoHelper(_)) => {
            FailureKind::Unsupported
        }
        MountFailure::Mount(MountError::MountPoint { .. }) | MountFailure::Session(_) => {
            FailureKind::Service
        }
    };
    Failure::new(kind, failure.to_string())
}

fn unmount_failure(entry: &Entry, error: &MountError) -> Failure {
    match error {
        busy if busy.is_busy() => in_use(entry),
        other => not_unmounted(other),
    }
}

/// What keeps something mounted that nobody uses: the helper's words, if it is the helper.
fn not_unmounted(error: &MountError) -> Failure {
    let failure = Failure::new(FailureKind::Service, error.to_string());
    match error.lacks_table() {
        true => failure.advise("root makes it with 'ln -s /proc/self/mounts /etc/mtab'"),
        false => failure,
    }
}

/// Somebody uses a mounted dataset, and who, as far as that can be seen.
fn in_use(entry: &Entry) -> Failure {
    let below = match entry.place {
        Place::Own { .. } => None,
        Place::Inside { .. } => Some(entry.path.as_path()),
    };
    named(sys::mount_users(&entry.path, below, USERS_NAMED + 1))
}

fn named(mut users: Vec<sys::MountUser>) -> Failure {
    let more = users.len() > USERS_NAMED;
    users.truncate(USERS_NAMED);
    let lines = users.iter().map(ToString::to_string);
    let lines = lines.chain(more.then(|| "in use by others, too".to_owned()));
    lines.fold(busy("pool or dataset is busy"), Failure::advise)
}

impl Mounts for DaemonMounts {
    fn mount(&self, request: &MountRequest) -> Result<(), Failure> {
        if self.find(&request.dataset).is_some() {
            return Err(Failure::new(
                FailureKind::Busy,
                "filesystem already mounted",
            ));
        }
        let is_in_pool = self.is_inside(&request.path);
        let is_new = !request.path.exists();
        let directory = mount_point::prepare(request, is_in_pool)?;
        let is_new = directory.as_ref().map_or(is_new, MountDirectory::is_new);
        let entry = self.start(request, directory.as_ref()).inspect_err(|_| {
            if is_new {
                // It was made for the mount.
                let _gone = std::fs::remove_dir(&request.path);
            }
        })?;
        self.table.lock().push(Arc::new(entry));
        self.watch_remounts();
        Ok(())
    }

    fn unmount(&self, dataset: &str, force: Force) -> Result<(), Failure> {
        let Some(entry) = self.find(dataset) else {
            return Err(Failure::new(FailureKind::Missing, "not currently mounted"));
        };
        let (mount, multiplexer, tag) = entry.shown();
        let others_inside = multiplexer.is_host(tag);
        match &entry.place {
            Place::Inside { .. } => {
                let idle = || match others_inside || entry.tree.is_busy() {
                    true => Err(()),
                    false => Ok(()),
                };
                if force != Force::All {
                    fuse::while_busy(|_| true, idle).map_err(|()| in_use(&entry))?;
                }
                multiplexer.remove(tag, mount.session());
            }
            Place::Own { mount, .. } => {
                if force != Force::All && others_inside {
                    return Err(in_use(&entry));
                }
                // To unmount its path would take the other one away.
                if let Some(other) = mount.covered_by() {
                    let text = format!("'{other}' is mounted over it");
                    return Err(busy("pool or dataset is busy").because(text));
                }
                let unmounted = match force {
                    Force::None => mount.unmount(UnmountMode::IfIdle),
                    Force::Copies => {
                        // What is not written back until then is lost with the copies.
                        let _written = entry.write_back();
                        mount.unmount_here()
                    }
                    Force::All => mount.unmount(UnmountMode::Detach),
                };
                unmounted.map_err(|error| unmount_failure(&entry, &error))?;
            }
        }
        // With a mount that was idle, this has been done at its end. Otherwise files that are still
        // open become stale now.
        let table = self.table.lock();
        let inside = table.all.iter().filter(|other| other.is_inside(&entry));
        let gone: Vec<_> = inside.cloned().chain([Arc::clone(&entry)]).collect();
        drop(table);
        gone.iter().for_each(|other| other.tree.abandon());
        if let Place::Own { mount, .. } = &entry.place {
            mount.end_soon();
        }
        self.table.lock().remove(&gone);
        Ok(())
    }

    fn check_held(&self, mounts: &[Mounted]) -> Result<(), Box<(Mounted, Failure)>> {
        let entries = self.entries();
        let own = |mounted: &Mounted| {
            let entry = entries
                .iter()
                .find(|entry| *entry.dataset.lock() == mounted.dataset)?;
            match &entry.place {
                Place::Own { mount, .. } => Some((entry.path.clone(), mount.device()?)),
                Place::Inside { .. } => None,
            }
        };
        let found = mounts.iter().filter_map(|mount| Some((mount, own(mount)?)));
        let (mounts, places): (Vec<&Mounted>, Vec<_>) = found.unzip();
        let held = sys::mount_holders(&places, USERS_NAMED + 1);
        let mut held = mounts.into_iter().zip(held);
        match held.find(|(_, holders)| !holders.is_empty()) {
            Some((mount, holders)) => Err(Box::new((mount.clone(), named(holders)))),
            None => Ok(()),
        }
    }

    fn options(&self, dataset: &str) -> Option<MountOptions> {
        Some(self.find(dataset)?.present.lock().clone())
    }

    fn file_system(&self, dataset: &str) -> Option<Arc<FileSystem>> {
        self.find(dataset)?.tree.file_system()
    }

    fn mounted(&self) -> Vec<Mounted> {
        let entries = self.entries();
        let shown = entries.iter().map(|entry| Mounted {
            dataset: entry.dataset.lock().clone(),
            path: entry.path.clone(),
        });
        shown.collect()
    }

    fn barrier(&self, dataset: &str) -> Result<(), Failure> {
        self.find(dataset)
            .map_or(Ok(()), |entry| entry.write_back())
    }

    fn suspend(&self, dataset: &str) -> Result<(), Failure> {
        let Some(entry) = self.find(dataset) else {
            return Ok(());
        };
        entry.write_back()?;
        // Before requests wait: the paths of these mounts are walked.
        if matches!(entry.place, Place::Own { .. }) {
            let inside = MountsInside::keep(&entry.path);
            *entry.inside.lock() = inside;
        }
        if entry.tree.suspend() {
            return Ok(());
        }
        // It serves on, and the mounts inside of it are where they were.
        drop(std::mem::take(&mut *entry.inside.lock()));
        Err(Failure::new(FailureKind::Busy, "pool or dataset is busy"))
    }

    fn content_changed(&self, dataset: &str) {
        let Some(entry) = self.find(dataset) else {
            return;
        };
        let present = entry.present.lock().clone();
        match self.open_live(dataset, &entry.options, &present) {
            Ok(live) => {
                let (mount, multiplexer, tag) = entry.shown();
                entry.tree.resume(live, mount.session(), tag.root());
                multiplexer.cover_again(tag, mount.session());
                let inside = std::mem::take(&mut *entry.inside.lock());
                // Else a kernel without epochs would have them mounted over what it believes to be there still, and
                // take them away when it learns better.
                for name in inside.names() {
                    let name = name.as_encoded_bytes();
                    mount.session().invalidate_name(tag.root(), name);
                }
                for path in inside.restore() {
                    let shown = path.display();
                    notice::say(&format_args!("millpond: {shown}: cannot be mounted again"));
                }
            }
            // There is nothing to show any more.
            Err(_) => {
                entry.tree.abandon();
                let _detached = self.unmount(dataset, Force::All);
            }
        }
        entry.forget_snapshots();
    }

    fn renamed(&self, from: &str, to: &str) {
        let mut table = self.table.lock();
        for entry in &table.all {
            let mut name = entry.dataset.lock();
            if let Some(rest) = name.strip_prefix(from)
                && (rest.is_empty() || rest.starts_with(['/', '@']))
            {
                *name = format!("{to}{rest}");
            }
        }
        table.name_again();
    }

    fn snapshots_changed(&self, dataset: &str) {
        if let Some(entry) = self.find(dataset) {
            entry.forget_snapshots();
            self.show_snapshot_directory(&entry, dataset);
        }
    }

    fn set_options(&self, dataset: &str, options: &MountOptions) -> Result<(), Failure> {
        let Some(entry) = self.find(dataset) else {
            return Ok(());
        };
        self.show_snapshot_directory(&entry, dataset);
        let before = entry.present.lock().clone();
        let write_back = before.write_back;
        if options.write_back.is_some() && options.write_back != write_back {
            let reason = "'writeback' and 'nowriteback' take a new mount";
            return Err(Failure::new(FailureKind::Invalid, reason));
        }
        if options.readonly {
            // What programs wrote before is stored, and nothing afterwards.
            entry.write_back()?;
        }
        *entry.present.lock() = MountOptions {
            write_back,
            ..options.clone()
        };
        let mut commits_late = false;
        if let Some(live) = entry.tree.file_system() {
            let properties = self.source.properties(dataset)?;
            commits_late = properties.sync_always && entry.session().gathers_writes();
            live.set_properties(with_options(properties, options));
        }
        let read_only = entry.options.read_only;
        let [before, now] = [&before, options]
            .map(|options| kernel_options(dataset, options, read_only, SessionOptions::default()));
        match &entry.place {
            Place::Own { mount, .. } => entry.change_flags(mount, &before, &now)?,
            // Shown by a mount whose flags are another dataset's.
            Place::Inside { .. } => {}
        }
        if commits_late {
            let reason = "the kernel gathers its writes: sync=always holds from its next mount on";
            return Err(busy(reason));
        }
        Ok(())
    }
}
