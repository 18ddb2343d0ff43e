//! The two kinds of work on the free space of a leaf, and what they are called.

use format::config::vdev_zap;

use super::control::TrimState;

/// The names of a kind of work in the table of a leaf: state, the next byte, time.
pub(crate) type Names = [&'static str; 3];

/// What is done with free space.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// It is discarded.
    Trim,
    /// It is overwritten once, so that the device has all of its blocks.
    Initialize,
}

impl Kind {
    /// Where it is stored how work of this kind stands.
    pub(crate) const fn names(self) -> Names {
        match self {
            Self::Trim => [
                vdev_zap::TRIM_STATE,
                vdev_zap::TRIM_OFFSET,
                vdev_zap::TRIM_TIME,
            ],
            Self::Initialize => [
                vdev_zap::INITIALIZE_STATE,
                vdev_zap::INITIALIZE_OFFSET,
                vdev_zap::INITIALIZE_TIME,
            ],
        }
    }

    /// What the history calls a change to a state, and what it says after the path.
    pub(super) const fn history(self, state: TrimState) -> (&'static str, &'static str) {
        let text = match state {
            TrimState::None if matches!(self, Self::Initialize) => return ("uninitialize", ""),
            TrimState::None | TrimState::Active => " activated",
            TrimState::Cancelled => " canceled",
            TrimState::Suspended => " suspended",
            TrimState::Complete => " complete",
        };
        match self {
            Self::Trim => ("trim", text),
            Self::Initialize => ("initialize", text),
        }
    }

    /// Why work does not begin that is under way.
    pub(super) const fn under_way(self) -> &'static str {
        match self {
            Self::Trim => "currently trimming",
            Self::Initialize => "currently initializing",
        }
    }

    /// Why work does not end that is not under way.
    pub(super) const fn not_active(self) -> &'static str {
        match self {
            Self::Trim => "there is no active trim",
            Self::Initialize => "there is no active initialization",
        }
    }

    /// Events: begun, gone on with, suspended, given up, done.
    pub(super) const fn events(self) -> [&'static str; 5] {
        match self {
            Self::Trim => [
                "trim_start",
                "trim_resume",
                "trim_suspend",
                "trim_cancel",
                "trim_finish",
            ],
            Self::Initialize => [
                "initialize_start",
                "initialize_resume",
                "initialize_suspend",
                "initialize_cancel",
                "initialize_finish",
            ],
        }
    }

    /// The name of the thread.
    pub(super) const fn thread(self) -> &'static str {
        match self {
            Self::Trim => "pool-trim",
            Self::Initialize => "pool-initialize",
        }
    }
}
