//! The one binary: `millpond`, also answering to `zpool`, `zfs` and `zdb`.
fn main() {}
