//! How far a send is, while it goes: lines on the standard error once a second (`-v`, `-P`), the title of the process
//! (`-V`), and a line for whoever sends SIGUSR1.

use std::os::unix::process::CommandExt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use admin::client::Connection;
use admin::queries::ProgressOfSend;
use admin::{SendProgress, StreamSize, date, human_bytes};
use base::clock::{Clock, SystemClock};
use base::random::Rng;
use base::thread::{self, Role};
use sys::{AskedSignal, ProcessTitle, SystemRng};

use crate::daemons::pool_of;
use crate::output::complain;

/// How often it is told.
const INTERVAL: Duration = Duration::from_secs(1);

/// What the title of the process begins with.
const TITLE: &str = "zfs: sending";
/// The title has so much room, bytes.
const TITLE_BYTES: usize = 512;

/// What is told.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Told {
    /// Lines.
    pub(super) lines: bool,
    /// For programs.
    pub(super) parsable: bool,
    /// In the title.
    pub(super) title: bool,
}

/// Somebody who asks how far a send is, until this is dropped.
pub(super) struct Progress {
    /// The number by which the daemon knows the send; 0: nobody asks.
    pub(super) number: u64,
    ended: Arc<AtomicBool>,
}

/// What the title goes by.
struct Follower {
    told: Told,
    sizes: Vec<StreamSize>,
    title: Option<ProcessTitle>,
    /// The snapshot of which there is a heading.
    headed: String,
}

impl Progress {
    /// Asks from now on how far the send of a dataset of this pool is.
    pub(super) fn start(dataset: &str, told: Told, sizes: Vec<StreamSize>) -> Self {
        let ended = Arc::new(AtomicBool::new(false));
        let mut progress = Self {
            number: 0,
            ended: Arc::clone(&ended),
        };
        // Without the signal as data it ends the process, as it does others; without a second connection nothing is
        // told: the stream goes all the same.
        let (Ok(signal), Ok(mut daemon)) = (AskedSignal::new(), pool_of(dataset)) else {
            return progress;
        };
        let number = SystemRng.nonzero_u64();
        let mut follower = Follower {
            told,
            sizes,
            title: told.title.then(ProcessTitle::new).and_then(Result::ok),
            headed: String::new(),
        };
        let ask = move || {
            while let Ok(was_asked) = signal.wait(INTERVAL) {
                if !was_asked && !told.lines && !told.title {
                    continue;
                }
                let Some(found) = progress_of(&mut daemon, number) else {
                    continue;
                };
                if ended.load(Ordering::Acquire) {
                    return;
                }
                follower.tell(&found, was_asked);
            }
        };
        if thread::named("progress", Role::PART).spawn(ask).is_ok() {
            progress.number = number;
        }
        progress
    }
}

impl Drop for Progress {
    /// The thread ends with the process: it holds nothing, and may wait for a second.
    fn drop(&mut self) {
        self.ended.store(true, Ordering::Release);
    }
}

fn progress_of(daemon: &mut Connection, number: u64) -> Option<SendProgress> {
    daemon.ask(ProgressOfSend { number }).ok().flatten()
}

impl Follower {
    fn tell(&mut self, found: &SendProgress, was_asked: bool) {
        if let Some(title) = &self.title {
            // One that cannot be shown stops nothing.
            let _shown = title.set(&title_of(found, self.size_of(&found.name)));
        }
        if !self.told.lines && !was_asked {
            return;
        }
        if self.told.lines && !self.told.parsable && self.headed != found.name {
            complain(&format_args!("TIME        SENT   SNAPSHOT {}", found.name));
            self.headed.clone_from(&found.name);
        }
        let time = date::clock(SystemClock.now_s());
        complain(&line(&time, found, self.told.parsable));
    }

    /// How long the stream of a snapshot will be.
    fn size_of(&self, name: &str) -> u64 {
        let mut sizes = self.sizes.iter();
        let size = sizes.find(|size| size.name == name);
        size.map_or(0, |size| size.bytes)
    }
}

/// A line of the list.
fn line(time: &str, found: &SendProgress, parsable: bool) -> String {
    let SendProgress { name, bytes } = found;
    if parsable {
        format!("{time}\t{bytes}\t{name}")
    } else {
        format!("{time}   {:>5}   {name}", human_bytes(*bytes))
    }
}

/// The title of the process.
fn title_of(found: &SendProgress, size: u64) -> String {
    let SendProgress { name, bytes } = found;
    let sent = human_bytes(*bytes);
    match bytes.saturating_mul(100).checked_div(size) {
        Some(percent) => {
            let (percent, size) = (percent.min(100), human_bytes(size));
            format!("{TITLE} {name} ({percent}%: {sent}/{size})")
        }
        None => format!("{TITLE} {name} ({sent})"),
    }
}

/// The title is written over the command line, which is too short for it: the same command runs once more in this
/// process, under a name that is longer. Returns where it does already, or cannot.
pub(super) fn make_room_for_title() {
    let mut words = std::env::args_os();
    let called = words.next().unwrap_or_default();
    if called.to_string_lossy().starts_with(TITLE) {
        return;
    }
    let mut words: Vec<_> = words.collect();
    if words.first().is_none_or(|word| word != "zfs") {
        words.insert(0, "zfs".into());
    }
    if let Ok(own) = std::env::current_exe() {
        let name = format!("{TITLE:<TITLE_BYTES$}");
        let _failed = std::process::Command::new(own)
            .arg0(name)
            .args(words)
            .exec();
    }
}

#[cfg(test)]
mod tests;
