//! A session at a place: mounting, unmounting, and what is left of a server that died.

use crate::session::{Session, SessionError, SessionOptions};
use crate::tree::Tree;
use crate::tunables::BUSY_WAIT_MS;
use base::clock::real_now;
use base::notice;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use sys::{FuseMountOptions, MountError, UnmountMode};

/// The part of the mount's type after `fuse.`: tools that know ZFS by its type find it there.
const SUBTYPE: &str = "zfs";
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
        let kernel_options = options.for_kernel();
        let device = sys::mount_fuse(path, &kernel_options)?;
        match Session::start(device, tree, &options.session) {
            Ok(session) => Ok(Self {
                device: sys::mount_device(path),
                path: path.to_owned(),
                session,
            }),
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

/// Removes mounts at `path` whose server has died: they say ENOTCONN to everyone.
pub fn remove_dead_mounts(path: &Path) {
    // One lies upon the other when several servers died; the limit is for a mount that does not
    // go, which the mounting that follows reports.
    for _ in 0..16 {
        if !sys::is_dead_mount(path) || sys::unmount_fuse(path, UnmountMode::Detach).is_err() {
            return;
        }
    }
}
