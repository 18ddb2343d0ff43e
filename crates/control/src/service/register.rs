//! The pool's entry in the register of known pools, by which it comes back after a crash or a reboot.

use std::path::PathBuf;

use admin::KnownPool;
use admin::register::{forget, keep};
use base::lock::{LockClass, Mutex, rank};
use base::notice;

use super::Service;
use super::contents::clock;

/// Beside the cache file's: neither is taken under the other.
static REGISTER: LockClass = LockClass::new("control.register", rank::FRONT_END + 1);

/// Where the entry is, if there is one.
pub(super) struct Register(Mutex<Option<Entry>>);

struct Entry {
    directory: PathBuf,
    /// What is written there.
    kept: KnownPool,
    /// The pool is let go, but comes back.
    comes_back: bool,
}

impl Default for Register {
    fn default() -> Self {
        Self(Mutex::new(&REGISTER, None))
    }
}

impl Service {
    /// Notes the pool in the register from now on. That it cannot be written changes nothing for the pool.
    pub fn keep_in_register(&self, directory: PathBuf) {
        let kept = self.known(clock().now_s());
        write(&directory, &kept);
        *self.register.0.lock() = Some(Entry {
            directory,
            kept,
            comes_back: false,
        });
    }

    fn known(&self, began: u64) -> KnownPool {
        let root = self.pool.config().root;
        let paths = root.leaves().into_iter().filter_map(|leaf| leaf.path());
        // Nobody is connected anywhere, the next time, because a label says so.
        let paths = paths.filter(|path| device::may_open_again(path.as_ref()));
        KnownPool {
            name: self.pool.name(),
            guid: self.pool.guid().0,
            devices: paths.map(PathBuf::from).collect(),
            altroot: self.altroot.clone(),
            readonly: self.readonly,
            of_stranger: self
                .of_stranger
                .clone()
                .filter(|_| !(self.is_asked("setuid") && self.is_asked("devices"))),
            began,
            ended: None,
        }
    }

    /// The devices may have changed.
    pub(super) fn update_register(&self) {
        let mut entry = self.register.0.lock();
        if let Some(entry) = entry.as_mut() {
            let known = self.known(entry.kept.began);
            if known != entry.kept {
                if known.guid != entry.kept.guid
                    && let Err(error) = forget(&entry.directory, entry.kept.guid)
                {
                    say(&entry.directory, &error);
                }
                write(&entry.directory, &known);
                entry.kept = known;
            }
        }
    }

    /// The process is told to end: the pool is exported, but nobody has said that it shall stay so.
    pub(super) fn comes_back(&self) {
        if let Some(entry) = self.register.0.lock().as_mut() {
            entry.comes_back = true;
        }
    }

    pub(super) fn is_coming_back(&self) -> bool {
        let entry = self.register.0.lock();
        entry.as_ref().is_some_and(|entry| entry.comes_back)
    }

    /// The pool has been let go.
    pub(super) fn leave_register(&self) {
        let Some(mut entry) = self.register.0.lock().take() else {
            return;
        };
        if entry.comes_back {
            entry.kept = self.known(entry.kept.began);
            entry.kept.ended = Some(clock().now_s());
            write(&entry.directory, &entry.kept);
        } else if let Err(error) = forget(&entry.directory, entry.kept.guid) {
            say(&entry.directory, &error);
        }
    }
}

fn write(directory: &std::path::Path, known: &KnownPool) {
    if let Err(error) = keep(directory, known) {
        say(directory, &error);
    }
}

fn say(directory: &std::path::Path, error: &std::io::Error) {
    let shown = directory.display();
    notice::say(&format_args!("the register of pools in {shown}: {error}"));
}
