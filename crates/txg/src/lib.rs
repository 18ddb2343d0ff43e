//! Transaction groups: open, quiesce, sync; dirty credits and the write throttle.
