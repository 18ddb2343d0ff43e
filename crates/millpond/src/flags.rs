//! Flags that commands of several programs have.

use crate::grammar::{Flag, switch};

pub(crate) const SCRIPTED: Flag = switch("H", "no header, tabs between columns");
pub(crate) const EXACT: Flag = switch("p", "exact numbers");
pub(crate) const JSON: Flag = switch("j", "JSON").or("json");
pub(crate) const JSON_INT: Flag = switch("json-int", "numbers as numbers in JSON");
/// What long work of `millpond`'s own tells a program.
pub(crate) const PROGRESS_JSON: Flag = switch(
    "j",
    "JSON: on standard error how far it is, once a second; at its end what was done",
)
.or("json");
