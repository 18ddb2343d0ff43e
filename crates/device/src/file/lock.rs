//! Locks of writers: of a whole file, or of a part of it beside other parts.

use std::ops::Range;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use base::clock::real_now;
use sys::{Create, Errno, File, OpenMode};

use crate::DeviceError;

/// How long a device that another process has locked is waited for.
const LOCK_WAIT: Duration = Duration::from_secs(1);
const LOCK_PAUSE: Duration = Duration::from_millis(10);

/// Takes the lock of a writer, of the whole file or of these bytes; false when another keeps it. One that has just
/// answered "exported" keeps it until its process has ended, which on a busy machine takes a while: that is waited for.
pub(super) fn lock_in_time(file: &File, bytes: Option<&Range<u64>>) -> Result<bool, Errno> {
    let begin = real_now();
    loop {
        if lock(file, bytes)? {
            return Ok(true);
        }
        if begin.elapsed() >= LOCK_WAIT {
            return Ok(false);
        }
        std::thread::sleep(LOCK_PAUSE);
    }
}

/// Who uses a part shares the file with those who use others, and with nobody who uses all of it.
fn lock(file: &File, bytes: Option<&Range<u64>>) -> Result<bool, Errno> {
    match bytes {
        None => file.try_lock_exclusive(),
        Some(bytes) => Ok(file.try_lock_shared()? && file.try_lock_range(bytes)?),
    }
}

/// Locks what is behind a loop device, or a partition of one. What cannot be opened cannot be locked: another user's,
/// or a file of another mount namespace.
pub(super) fn lock_backing(device: &Path, name: &Arc<str>) -> Result<Option<File>, DeviceError> {
    let Some(backing) = sys::backing_file(device) else {
        return Ok(None);
    };
    let mode = OpenMode {
        // A lock of some bytes takes that.
        write: backing.bytes.is_some(),
        ..OpenMode::default()
    };
    let Ok(file) = File::open(&backing.path, mode, Create::Never) else {
        return Ok(None);
    };
    match lock_in_time(&file, backing.bytes.as_ref()) {
        Ok(false) => Err(DeviceError::Busy {
            device: Arc::clone(name),
        }),
        Ok(true) | Err(_) => Ok(Some(file)),
    }
}
