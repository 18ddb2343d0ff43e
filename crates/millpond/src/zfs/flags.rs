//! Flags that several commands of `zfs` have.

use crate::grammar::{Flag, option, switch};

pub(super) const RECURSIVE: Flag = switch("r", "include descendants");
pub(super) const DEPTH: Flag = option("d", "depth", "include so many levels of descendants");
pub(super) const PROPERTY: Flag = option(
    "o",
    "property=value",
    "an initial property; may be repeated",
);
pub(super) const PARENTS: Flag = switch("p", "create missing parents");
pub(super) const UNMOUNTED: Flag = switch("u", "do not mount it");
pub(super) const DATASET: &str = "missing dataset argument";
