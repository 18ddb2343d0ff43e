//! Limits of disks that servers have.

use base::tunable::Tunable;

/// Milliseconds within which a server answers each request; one that does not is taken for one that is gone.
pub(crate) static REMOTE_PATIENCE_MS: Tunable =
    Tunable::new("device.remote_patience_ms", 30_000, 100, 600_000);

/// Requests that are under way at once on the connection to a disk of a server.
pub(crate) static REMOTE_REQUESTS_MAX: Tunable =
    Tunable::new("device.remote_requests_max", 64, 1, 1024);

/// All of them.
pub const TUNABLES: &[&Tunable] = &[&REMOTE_PATIENCE_MS, &REMOTE_REQUESTS_MAX];
