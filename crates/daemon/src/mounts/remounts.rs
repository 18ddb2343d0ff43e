//! Mounts whose options somebody changed with mount(8), past the commands: the file system follows, or where it may not
//! the mount follows the file system.

use super::{DaemonMounts, Entry, Place};
use base::lock::{LockClass, Mutex, rank};
use base::notice;
use base::thread;
use control::{MountOptions, Mounts};
use std::sync::{Arc, Weak};
use std::time::Duration;
use sys::{MountTableWatch, MountedEntry, MountedFlags};

/// The table is not read more often: it is long where there is much to mount.
const PAUSE: Duration = Duration::from_secs(1);

static TOLD_CLASS: LockClass = LockClass::new("daemon.mount_flags", rank::FRONT_END + 7);

/// What the kernel was told of a mount.
pub(super) struct Told(Mutex<State>);

#[derive(Clone, Copy, Default, PartialEq, Eq)]
struct State {
    flags: MountedFlags,
    /// Counts beginnings and ends of changes: odd while one is under way.
    changes: u64,
}

impl Default for Told {
    fn default() -> Self {
        Self(Mutex::new(&TOLD_CLASS, State::default()))
    }
}

impl Told {
    /// Mounted so.
    pub(super) fn is(&self, options: &fuse::MountOptions) {
        self.0.lock().flags = flags_of(options);
    }

    /// Changes what the kernel knows.
    pub(super) fn change<E>(
        &self,
        options: &fuse::MountOptions,
        change: impl FnOnce() -> Result<(), E>,
    ) -> Result<(), E> {
        self.0.lock().changes += 1;
        let changed = change();
        let mut state = self.0.lock();
        state.changes += 1;
        if changed.is_ok() {
            state.flags = flags_of(options);
        }
        changed
    }

    /// Whether the mount's flags keep a change of options from acting. Access times are the file system's own, which
    /// also refuses writes by itself; but nothing is written through a mount that the kernel has as read-only.
    pub(super) fn keeps_from_acting(
        &self,
        before: &fuse::MountOptions,
        now: &fuse::MountOptions,
    ) -> bool {
        let (told, before, now) = (self.0.lock().flags, flags_of(before), flags_of(now));
        let is_kept = |flag: fn(&MountedFlags) -> bool| {
            flag(&before) != flag(&now) && flag(&told) != flag(&now)
        };
        is_kept(|flags| flags.no_exec)
            || is_kept(|flags| flags.no_suid)
            || is_kept(|flags| flags.no_devices)
            || (told.read_only && is_kept(|flags| flags.read_only))
    }
}

/// What the kernel makes of options.
fn flags_of(options: &fuse::MountOptions) -> MountedFlags {
    // So it is by the helper, who mounts for ordinary users.
    let helped = sys::user_id() != 0;
    MountedFlags {
        read_only: options.read_only,
        no_exec: options.no_exec,
        no_suid: options.no_suid || helped,
        no_devices: options.no_devices || helped,
        no_atime: options.no_atime,
        relative_atime: !options.no_atime && (helped || !options.strict_atime),
    }
}

/// What somebody asked for by changing flags.
fn asked(before: MountedFlags, now: MountedFlags, present: &MountOptions) -> MountOptions {
    let mut asked = present.clone();
    if before.read_only != now.read_only {
        asked.readonly = now.read_only;
    }
    if before.no_exec != now.no_exec {
        asked.exec = !now.no_exec;
    }
    if before.no_suid != now.no_suid {
        asked.setuid = !now.no_suid;
    }
    if before.no_devices != now.no_devices {
        asked.devices = !now.no_devices;
    }
    let times = |flags: MountedFlags| (flags.no_atime, flags.relative_atime);
    if times(before) != times(now) {
        asked.atime = !now.no_atime;
        if asked.atime {
            asked.relatime = now.relative_atime;
        }
    }
    asked
}

impl DaemonMounts {
    /// Looks for remounts from the first mount on. Without a thread they are not noticed.
    pub(super) fn watch_remounts(&self) {
        self.watched.get_or_init(|| {
            let own = Weak::clone(&self.own);
            let Ok(table) = MountTableWatch::new() else {
                return;
            };
            let _started = thread::named("remounts", sys::thread::BACKGROUND)
                .spawn(move || follow(&own, &table));
        });
    }

    fn follow_remounts(&self) {
        let own: Vec<(Arc<Entry>, State)> = self
            .entries()
            .into_iter()
            .filter(|entry| matches!(entry.place, Place::Own { .. }))
            .map(|entry| {
                let state = *entry.told.0.lock();
                (entry, state)
            })
            .collect();
        // What changes from here on is told of again.
        let Ok(table) = sys::mounted_entries() else {
            return;
        };
        for (entry, told) in own {
            let Some(now) = shown(&table, &entry) else {
                continue;
            };
            let is_new = now != told.flags && told.changes.is_multiple_of(2);
            if is_new && *entry.told.0.lock() == told {
                entry.told.0.lock().flags = now;
                self.follow_remount(&entry, told.flags, now);
            }
        }
    }

    fn follow_remount(&self, entry: &Entry, before: MountedFlags, now: MountedFlags) {
        let dataset = entry.dataset.lock().clone();
        let mut options = asked(before, now, &entry.present.lock().clone());
        let stays_read_only = self.source.properties(&dataset);
        options.readonly |= stays_read_only.is_ok_and(|properties| properties.read_only);
        if let Err(failure) = self.set_options(&dataset, &options) {
            notice::say(&format_args!(
                "millpond: {dataset}: was remounted with other options: {failure}"
            ));
        }
    }
}

fn follow(mounts: &Weak<DaemonMounts>, table: &MountTableWatch) {
    while table.wait().is_ok() {
        let Some(mounts) = mounts.upgrade() else {
            return;
        };
        mounts.follow_remounts();
        drop(mounts);
        std::thread::sleep(PAUSE);
    }
}

/// How the kernel shows a mount. Of copies, the one at the place where it was mounted.
fn shown(table: &[MountedEntry], entry: &Entry) -> Option<MountedFlags> {
    let device = entry.shown().0.device()?;
    let mut all = table.iter().filter(|one| one.device == device);
    let first = all.clone().next()?;
    let found = all.find(|one| one.path == entry.path).unwrap_or(first);
    Some(found.flags)
}
