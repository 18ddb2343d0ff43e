//! Commands that wait until something in a pool has ended.

use std::time::Duration;

use admin::client::{self, Connection};
use admin::{Failure, FailureKind};

use crate::output::{Outcome, Stop};

/// The pause between two requests.
pub(crate) const PAUSE: Duration = Duration::from_millis(100);
/// So many requests in a row may fail: a pool that is being exported has 5 s to go.
const FAILURES_MAX: u32 = 50;

/// Asks the pool's daemon again and again, until the answer is that nothing is left to wait for, or
/// the pool is gone: exported or destroyed.
pub(crate) fn until_idle(
    mut connection: Connection,
    is_idle: &mut dyn FnMut(&mut Connection) -> Result<bool, Stop>,
) -> Outcome {
    let (pool, guid) = (connection.pool().to_owned(), connection.guid());
    let mut failures = 0;
    loop {
        match is_idle(&mut connection) {
            Ok(true) => return Ok(()),
            Ok(false) => failures = 0,
            Err(Stop::Failure(failure)) if may_pass(&failure) && failures < FAILURES_MAX => {
                failures += 1;
                match client::connect(&pool)? {
                    Some(found) if found.guid() == guid => connection = found,
                    _ => return Ok(()),
                }
            }
            Err(stop) => return Err(stop),
        }
        std::thread::sleep(PAUSE);
    }
}

/// True for failures that a pool on its way out causes.
fn may_pass(failure: &Failure) -> bool {
    matches!(failure.kind, FailureKind::Service | FailureKind::Medium)
}
