//! Flags that several commands of `zfs` have.

use crate::grammar::{Flag, option, switch};

pub(super) const RECURSIVE: Flag = switch("r", "what is below, too");
pub(super) const DEPTH: Flag = option("d", "depth", "so many levels below, too");
pub(super) const PROPERTY: Flag =
    option("o", "property=value", "a first property; may be repeated");
pub(super) const PARENTS: Flag = switch("p", "make missing parents");
pub(super) const UNMOUNTED: Flag = switch("u", "do not mount it");
pub(super) const DATASET: &str = "missing dataset argument";
