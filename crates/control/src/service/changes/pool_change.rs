//! The questions that every change answers.

use admin::Failure;
use dsl::Actor;

use crate::service::Service;
use crate::service::reporter::Reporter;

/// What the service must know of a change. Nothing has a default: whoever adds one answers all.
pub(super) trait PoolChange {
    /// Refuses who may not. Not asked for root and the daemon's own user, who may everything.
    fn authorize(&self, service: &Service, actor: &Actor) -> Result<(), Failure>;

    /// What becomes of it while the pool is suspended.
    fn while_suspended(&self) -> WhileSuspended<'_>;

    /// Whether it goes beside others, or one at a time.
    fn turn(&self) -> Turn;

    /// When its command line goes into the pool's history.
    fn recorded(&self) -> Recorded;

    /// Does it; what it says goes to `reporter`.
    fn apply(&self, service: &Service, reporter: &mut Reporter<'_>) -> Result<(), Failure>;
}

/// What becomes of a change while the pool is suspended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum WhileSuspended<'a> {
    /// It goes on, as it does not wait for the devices.
    Goes,
    /// It could only wait, so it is refused at once: `cannot VERB 'NAME'`, by default the pool's.
    Refused {
        verb: &'static str,
        name: Option<&'a str>,
    },
    /// Refused as above, with the advice that `zpool VERB -f` gives up what is not on disk.
    ForcedOnly { verb: &'static str },
}

impl WhileSuspended<'_> {
    /// Refused for most of what changes what is in the pool.
    pub(super) const REFUSED: Self = Self::refused("change");

    /// Refused as a change of the pool itself.
    pub(super) const fn refused(verb: &'static str) -> Self {
        Self::Refused { verb, name: None }
    }
}

/// Whether a change goes beside others.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Turn {
    /// One at a time for a pool.
    Alone,
    /// It only waits: others may change the pool, or stop what it waits for, meanwhile.
    Beside,
    /// It takes turns by itself, and goes beside others between them. It ends when its client goes, or when the pool
    /// is closed by force; until then nobody closes the pool. What it is, as whoever tries is told.
    InSteps(&'static str),
}

/// When a change's command line goes into the pool's history.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Recorded {
    /// It changes nothing that the history is about.
    Never,
    /// Once it has succeeded.
    After,
    /// Before it begins: there is no pool to write to afterwards.
    Before,
}

impl Recorded {
    /// Of a change that may only be looked at (`-n`).
    pub(super) const fn unless(dry_run: bool) -> Self {
        if dry_run { Self::Never } else { Self::After }
    }
}
