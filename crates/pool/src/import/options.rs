//! How to import a pool.

use std::path::PathBuf;
use std::sync::Arc;

use base::clock::{Clock, SystemClock};
use base::random::Rng;
use base::{Guid, Txg};

use crate::config::host::Host;
use crate::vdevs::devices::{Between, Purpose};

/// Which of the pools that were found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Selection {
    /// The one of this name.
    Name(String),
    /// The one of this guid.
    Guid(Guid),
    /// The only one.
    Only,
}

/// How far a pool that cannot be opened may be taken back.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Rewind {
    /// Not at all.
    #[default]
    Never,
    /// To one of the last txgs, whose blocks are all still there (`-F`).
    Safe,
    /// To any txg that is still whole (`-FX`).
    Extreme,
    /// To the newest whole txg up to this one (`-T`).
    To(Txg),
}

/// What a pool becomes that is made of sides of another one.
#[derive(Clone, Debug)]
pub(crate) struct OfSplit {
    /// Its guid.
    pub(crate) guid: Guid,
    /// The sides.
    pub(crate) sides: Vec<Guid>,
    /// The pool that they are of.
    pub(crate) from: (String, Guid),
}

/// How to import a pool.
#[derive(Clone)]
pub struct ImportOptions {
    /// Devices, files, or folders of such; none: the machine's devices.
    pub paths: Vec<PathBuf>,
    /// Which pool.
    pub selection: Selection,
    /// What to call it from now on.
    pub new_name: Option<String>,
    /// Whether the new name is only for this import (`-t`).
    pub temporary_name: bool,
    /// Whether nothing may be written.
    pub read_only: bool,
    /// Whether to import a pool that another host may use (`-f`).
    pub force: bool,
    /// Whether to import a destroyed pool (`-D`).
    pub destroyed: bool,
    /// Whether it is only looked at, whoever else has it.
    pub(crate) looks_on: bool,
    /// Whether log devices may be missing (`-m`).
    pub without_logs: bool,
    /// How far to go back.
    pub rewind: Rewind,
    /// Whether to go back to the checkpoint (`--rewind-to-checkpoint`).
    pub to_checkpoint: bool,
    /// The folder below which its file systems are mounted (`-R`).
    pub altroot: Option<PathBuf>,
    /// Bytes that the block cache may hold.
    pub cache_bytes: usize,
    /// Who we are.
    pub host: Host,
    /// What time it is.
    pub clock: Arc<dyn Clock>,
    /// Chance.
    pub rng: Arc<dyn Rng>,
    /// What it becomes, where it is made of sides of another pool.
    pub(crate) of_split: Option<OfSplit>,
    /// What to put between the pool and each of its devices, if anything: also those that it opens by their paths
    /// later.
    pub between: Option<Between>,
}

impl ImportOptions {
    /// The usual: by name, writable, nothing forced.
    #[must_use]
    pub fn new(paths: Vec<PathBuf>, selection: Selection) -> Self {
        Self {
            paths,
            selection,
            new_name: None,
            temporary_name: false,
            read_only: false,
            force: false,
            destroyed: false,
            looks_on: false,
            without_logs: false,
            rewind: Rewind::Never,
            to_checkpoint: false,
            altroot: None,
            cache_bytes: cache::default_limit_bytes(),
            host: Host::current(),
            clock: Arc::new(SystemClock),
            rng: Arc::new(sys::SystemRng),
            of_split: None,
            between: None,
        }
    }

    /// What the pool's devices are opened for.
    pub(crate) const fn purpose(&self) -> Purpose {
        if self.read_only {
            Purpose::Reading
        } else {
            Purpose::Writing
        }
    }

    /// The same, without writing anything.
    #[must_use]
    pub fn read_only(mut self) -> Self {
        self.read_only = true;
        self
    }
}
