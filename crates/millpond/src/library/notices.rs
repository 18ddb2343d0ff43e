//! What no call of the library returns.

use std::fmt::Display;

/// Has `listener` told, from now on and for the whole process, what no call returns: records of an intent log that are
/// lost with what they change, for instance. A notice is a line or several, without the last line's end.
///
/// False: there is a listener already, and it stays. Without one, notices are lost.
pub fn listen(listener: fn(&dyn Display)) -> bool {
    base::notice::listen(listener)
}
