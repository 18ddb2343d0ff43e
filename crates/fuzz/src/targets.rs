//! The targets: every decoder that takes bytes from outside.

mod blocks;
mod codecs;
mod devices;
mod keys;
mod logs;
mod messages;
mod nbd;
mod objects;
mod programs;
mod streams;
mod text;
mod zaps;

use crate::target::Target;

const GROUPS: [&[Target]; 12] = [
    blocks::TARGETS,
    objects::TARGETS,
    devices::TARGETS,
    keys::TARGETS,
    zaps::TARGETS,
    logs::TARGETS,
    codecs::TARGETS,
    messages::TARGETS,
    nbd::TARGETS,
    streams::TARGETS,
    text::TARGETS,
    programs::TARGETS,
];

/// Every target.
pub fn all() -> impl Iterator<Item = &'static Target> {
    GROUPS.into_iter().flatten()
}

/// The target of this name.
#[must_use]
pub fn find(name: &str) -> Option<&'static Target> {
    all().find(|target| target.name == name)
}
