//! How long a reservation waits for a device that failed.

use base::clock::real_now;
use std::time::{Duration, Instant};

use crate::error::TxgError;
use crate::state::State;

/// How long a reservation that has no room waits for a suspended engine to be resumed. Front ends
/// cannot take a request back, so each wait has an end.
const PATIENCE: Duration = Duration::from_secs(5);

/// How long a reservation has waited for a suspended engine.
#[derive(Default)]
pub(crate) struct Patience {
    since: Option<Instant>,
}

impl Patience {
    /// Whether to wait on.
    pub(crate) fn check(&mut self, state: &State) -> Result<(), TxgError> {
        let Err(why) = state.check_progress() else {
            self.since = None;
            return Ok(());
        };
        let since = *self.since.get_or_insert_with(real_now);
        if state.ended.is_some() || base::clock::since(since) >= PATIENCE {
            return Err(why);
        }
        Ok(())
    }
}
