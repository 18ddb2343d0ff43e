//! What there is of a schedule where there is none.

use std::time::{Duration, Instant};

pub(crate) const fn is_scheduled() -> bool {
    false
}

pub(crate) const fn now() -> Option<Instant> {
    None
}

pub(crate) const fn elapsed_ns() -> Option<u64> {
    None
}

pub(crate) const fn random() -> Option<u64> {
    None
}

/// False: nobody slept.
pub(crate) const fn sleep(_: Duration) -> bool {
    false
}

#[derive(Clone, Debug)]
pub(crate) struct Claim;

impl Claim {
    pub(crate) const fn new(_: &str, _: usize) -> Self {
        Self
    }

    pub(crate) const fn none() -> Self {
        Self
    }

    pub(crate) const fn started(&self) {}

    pub(crate) const fn failed(&self) {}

    pub(crate) const fn enter(&self) {}

    pub(crate) const fn wait_for_end(&self) {}
}

pub(crate) struct Scoped;

impl Scoped {
    pub(crate) const fn new(_: usize) -> Self {
        Self
    }
}
