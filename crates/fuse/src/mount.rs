//! A session at a place: mounting, unmounting, and what is left of a server that died.

mod lingering;

use crate::dead_mounts::remove_dead_mounts;
use crate::session::{Session, SessionError, SessionOptions};
use crate::tree::Tree;
use crate::tunables::{BUSY_WAIT_MS, WRITE_BACK_BYTES};
use base::clock::real_now;
use base::lock::{Condvar, LockClass, Mutex, rank};
use base::notice;
use base::thread;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};
use sys::{FuseMountOptions, MountDirectory, MountError, UnmountMode};

/// The part of the mount's type after `fuse.`: tools that know ZFS by its type find it there.
const SUBTYPE: &str = "zfs";
/// The whole type of a mount in the mount table.
pub const MOUNT_KIND: &[u8] = b"fuse.zfs";
/// How long the end of a session may take: the last data are written out.
const END_WAIT: Duration = Duration::from_secs(60);
/// How long the end of a session is waited for whose mount is not there any more.
const GONE_WAIT: Duration = Duration::from_secs(2);

/// How a tree is mounted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MountOptions {
    /// The mount's source in the mount table: the dataset's name.
    pub source: String,
    /// No writing.
    pub read_only: bool,
    /// No programs are run from it.
    pub no_exec: bool,
    /// Set-id bits do nothing. Always so for ordinary users.
    pub no_suid: bool,
    /// Device nodes do nothing. Always so for ordinary users.
    pub no_devices: bool,
    /// Access times are not kept.
    pub no_atime: bool,
    /// They are kept of each access, not only relative to changes.
    pub strict_atime: bool,
    /// How the connection is served.
    pub session: SessionOptions,
}

impl MountOptions {
    fn for_kernel(&self) -> FuseMountOptions {
        FuseMountOptions {
            source: self.source.clone(),
            subtype: SUBTYPE.into(),
            allow_other: sys::user_id() == 0,
            default_permissions: true,
            read_only: self.read_only,
            no_exec: self.no_exec,
            no_suid: self.no_suid,
            no_devices: self.no_devices,
            no_atime: self.no_atime,
            strict_atime: self.strict_atime,
        }
    }
}

/// Why something could not be mounted or unmounted.
#[derive(Debug, thiserror::Error)]
pub enum MountFailure {
    /// Mounting or unmounting itself.
    #[error(transparent)]
    Mount(#[from] MountError),
    /// The connection.
    #[error(transparent)]
    Session(#[from] SessionError),
}

/// Where a mount is in its life.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MountState {
    /// Serves.
    Serving,
    /// Unmounted, by us or by somebody else; all requests are done.
    Ended,
}

/// A mounted tree.
pub struct Mount {
    path: PathBuf,
    /// The number of the mounted file system; none where the kernel did not say.
    device: Option<(u32, u32)>,
    session: Session,
    writing_back: Arc<WritingBack>,
}

static WRITING_BACK_CLASS: LockClass = LockClass::new("fuse.writing_back", rank::FRONT_END + 7);

/// Whether a thread has the kernel write back.
struct WritingBack {
    is_at_it: Mutex<bool>,
    ended: Condvar,
}

impl WritingBack {
    fn new() -> Self {
        Self {
            is_at_it: Mutex::new(&WRITING_BACK_CLASS, false),
            ended: Condvar::new(),
        }
    }

    /// False when one is at it already.
    fn begin(&self) -> bool {
        !std::mem::replace(&mut *self.is_at_it.lock(), true)
    }

    fn end(&self) {
        *self.is_at_it.lock() = false;
        self.ended.notify_all();
    }

    /// Waits for the end; false when it did not come in time.
    fn wait(&self, deadline: Option<Instant>) -> bool {
        let mut is_at_it = self.is_at_it.lock();
        while *is_at_it {
            match deadline {
                Some(deadline) if self.ended.wait_until(&mut is_at_it, deadline) => break,
                Some(_) => {}
                None => self.ended.wait(&mut is_at_it),
            }
        }
        !*is_at_it
    }
}

/// The kernel did not write what it has of a mount in the time given.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("what programs wrote to it lately is not written back yet")]
pub struct NotWrittenBack;

/// Has the kernel keep few unwritten bytes of the mount at a path; how many it may have, if that could be done.
fn gathered_bytes(path: &Path) -> Option<u64> {
    let device = sys::mount_device(path)?;
    sys::limit_dirty(device, WRITE_BACK_BYTES.get()).ok()
}

impl Mount {
    /// Mounts `tree` at `path`. A dead mount that a server left there is removed first.
    ///
    /// Root's mounts are open to all users, and the kernel checks permissions; an ordinary user's
    /// mount is open to that user alone.
    ///
    /// # Errors
    /// See [`MountFailure`].
    pub fn start(
        path: &Path,
        tree: Arc<dyn Tree>,
        options: &MountOptions,
    ) -> Result<Self, MountFailure> {
        remove_dead_mounts(path);
        Self::start_on(path, None, tree, options)
    }

    /// [`Self::start`] on a directory that was found before.
    ///
    /// # Errors
    /// See [`MountFailure`].
    pub fn start_on(
        path: &Path,
        directory: Option<&MountDirectory>,
        tree: Arc<dyn Tree>,
        options: &MountOptions,
    ) -> Result<Self, MountFailure> {
        let kernel_options = options.for_kernel();
        let device = sys::mount_fuse_on(path, directory, &kernel_options)?;
        let gathers = options.session.writeback_cache
            && gathered_bytes(path).is_some_and(|bytes| tree.gathers_writes(bytes));
        let session_options = SessionOptions {
            writeback_cache: gathers,
            ..options.session.clone()
        };
        match Session::start(device, Arc::clone(&tree), &session_options) {
            Ok(session) => {
                if gathers && !session.gathers_writes() {
                    let _as_before = tree.gathers_writes(0);
                }
                Ok(Self {
                    device: sys::mount_device(path),
                    path: path.to_owned(),
                    session,
                    writing_back: Arc::new(WritingBack::new()),
                })
            }
            Err(error) => {
                // The session's error is the one to tell.
                drop(sys::unmount_fuse(path, UnmountMode::Detach));
                Err(error.into())
            }
        }
    }

    /// Where it is mounted.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The number of the mounted file system; none where the kernel did not say.
    #[must_use]
    pub fn device(&self) -> Option<(u32, u32)> {
        self.device
    }

    /// What somebody has mounted over it, by which it cannot be reached any more.
    #[must_use]
    pub fn covered_by(&self) -> Option<String> {
        sys::mounted_over(&self.path, self.device?)
    }

    /// The connection.
    #[must_use]
    pub fn session(&self) -> &Session {
        &self.session
    }

    /// Whether it still serves.
    #[must_use]
    pub fn state(&self) -> MountState {
        if self.session.has_ended() {
            MountState::Ended
        } else {
            MountState::Serving
        }
    }

    /// Changes the flags of the mount; the rest of `options` stays as it was.
    ///
    /// # Errors
    /// See [`MountError`]: ordinary users may not.
    pub fn change_flags(&self, options: &MountOptions) -> Result<(), MountError> {
        sys::change_mount_flags(&self.path, &options.for_kernel())
    }

    /// Unmounts; a mount that somebody else has unmounted is left alone, also if that is under way: the kernel takes a
    /// mount away when what it lies on becomes something else, as a rollback does it.
    ///
    /// [`UnmountMode::IfIdle`] returns when all requests are done. After the others, open files
    /// may keep the session serving; [`Session::wait_ended`] tells.
    ///
    /// # Errors
    /// See [`MountError`]: in use, mostly.
    pub fn unmount(&self, mode: UnmountMode) -> Result<(), MountError> {
        if self.session.has_ended() {
            return Ok(());
        }
        let attempt = || match sys::unmount_fuse(&self.path, mode) {
            Err(error) if error.is_not_mounted() && self.session.wait_ended(GONE_WAIT) => Ok(()),
            outcome => outcome,
        };
        if mode != UnmountMode::IfIdle {
            return attempt();
        }
        let device = sys::mount_device(&self.path);
        while_busy(MountError::is_busy, attempt)?;
        self.wait_idle(device);
        Ok(())
    }

    /// As [`Mount::unmount`] of an idle mount, whoever else has a copy of it: only those who use this one count.
    /// [`Mount::end_soon`] is to follow.
    ///
    /// # Errors
    /// See [`MountError`]: in use, mostly.
    pub fn unmount_here(&self) -> Result<(), MountError> {
        while_busy(MountError::is_busy, || {
            match sys::unmount_fuse(&self.path, UnmountMode::IfIdle) {
                Err(error) if error.is_not_mounted() && self.session.wait_ended(GONE_WAIT) => {
                    Ok(())
                }
                outcome => outcome,
            }
        })
    }

    /// After an unmount: ends the connection if somebody keeps it for longer than a moment, so that nobody waits for
    /// an answer, and nothing of it stays.
    pub fn end_soon(&self) {
        if let Some(device) = self.device {
            lingering::end_soon(&self.session, device);
        }
    }

    /// Has the kernel write what programs wrote before, as far as it has that still: contents, and where it gathers
    /// writes times as well. It is waited for on another thread. Never to be called from an operation of the tree, nor
    /// with a lock that one needs.
    ///
    /// # Errors
    /// It was not done in so much time; it goes on.
    pub fn write_back(&self, wait: Duration) -> Result<(), NotWrittenBack> {
        let nodes: BTreeSet<u64> = self.session.nodes_maybe_dirty().into_iter().collect();
        if nodes.is_empty() {
            return Ok(());
        }
        let deadline = real_now().checked_add(wait);
        while !self.writing_back.begin() {
            if !self.writing_back.wait(deadline) {
                return Err(NotWrittenBack);
            }
        }
        let (session, path, device) = (self.session.clone(), self.path.clone(), self.device);
        let writing_back = Arc::clone(&self.writing_back);
        let thread = thread::named("fuse-write-back", sys::thread::ANSWERS).spawn(move || {
            write_back(&session, (&path, device), nodes);
            writing_back.end();
        });
        if thread.is_err() {
            self.writing_back.end();
            return Err(NotWrittenBack);
        }
        match self.writing_back.wait(deadline) {
            true => Ok(()),
            false => Err(NotWrittenBack),
        }
    }

    /// The kernel drops the connection with the last reference to the superblock, which a process in passing may
    /// hold a moment longer. A copy in another mount namespace may hold it for ever: that is not waited for.
    fn wait_idle(&self, device: Option<(u32, u32)>) {
        let busy_wait = Duration::from_millis(BUSY_WAIT_MS.get());
        if self.session.wait_ended(busy_wait) {
            return;
        }
        let copies = device.map(|device| sys::mount_copies(device, 1));
        match copies.unwrap_or_default().first() {
            None => drop(self.session.wait_ended(END_WAIT)),
            Some(copy) => notice::say(&format_args!(
                "millpond: {} was unmounted, but it is {copy}, where its files are gone now",
                self.path.display()
            )),
        }
    }
}

/// By its name a file's times are written as well.
fn write_back(
    session: &Session,
    (path, device): (&Path, Option<(u32, u32)>),
    nodes: BTreeSet<u64>,
) {
    let root = session
        .gathers_writes()
        .then(|| sys::MountRoot::open(path, device?).ok())
        .flatten();
    for node in nodes {
        let named = root
            .as_ref()
            .and_then(|root| Some((root, session.path_of(node)?)));
        if named.is_none_or(|(root, (path, inode))| root.write_back(&path, inode).is_err()) {
            session.invalidate_node(node);
        }
    }
}

/// Tries again and again, in growing steps up to [`BUSY_WAIT_MS`] altogether, what is refused because somebody uses
/// something.
///
/// # Errors
/// What the last attempt said.
pub fn while_busy<T, E>(
    is_busy: impl Fn(&E) -> bool,
    mut attempt: impl FnMut() -> Result<T, E>,
) -> Result<T, E> {
    let deadline = real_now().checked_add(Duration::from_millis(BUSY_WAIT_MS.get()));
    let mut step = Duration::from_millis(5);
    loop {
        let left = deadline.map_or(Duration::ZERO, |end| {
            end.saturating_duration_since(real_now())
        });
        match attempt() {
            Err(error) if is_busy(&error) && !left.is_zero() => {
                std::thread::sleep(step.min(left));
                step = (step * 2).min(Duration::from_millis(100));
            }
            outcome => return outcome,
        }
    }
}
