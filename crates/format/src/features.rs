//! Feature flags: what a pool's structures may use, and what we can do with a pool that uses it.
//!
//! A feature is disabled (absent from its ZAP), enabled (count 0) or active (count above 0).
//! Counts of read-only compatible features are in `features_for_write`, others in
//! `features_for_read`.

pub mod document;
mod table;

pub use table::*;

/// What we can do with a pool on which a feature is active.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Support {
    /// Read and write.
    Write,
    /// Read only: we do not maintain its structures.
    ReadOnly,
    /// Known by name only.
    None,
}

/// How a feature behaves.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Flags {
    /// While active it is named in labels: it is needed to read the MOS at all.
    pub in_label: bool,
    /// Active from the moment that it is enabled.
    pub active_when_enabled: bool,
    /// Counted per dataset, in the dataset's own ZAP.
    pub per_dataset: bool,
    /// Newer than what new pools are made for: only shown where it is.
    pub later: bool,
}

/// One feature.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Feature {
    /// The name in `feature@NAME`.
    pub name: &'static str,
    /// The name on disk.
    pub guid: &'static str,
    /// Whether a reader may ignore it.
    pub read_only_compatible: bool,
    /// Its behaviour.
    pub flags: Flags,
    /// Features that must be enabled first.
    pub depends_on: &'static [&'static Feature],
    /// What we can do with it.
    pub support: Support,
    /// The sentence stored in `feature_descriptions`.
    pub description: &'static str,
}

/// A feature that we write, without more to say of it. Its short name is what the name on disk has after the colon.
const fn feature(guid: &'static str, description: &'static str) -> Feature {
    let mut colon = 0;
    let mut rest = guid.as_bytes();
    while let [byte, after @ ..] = rest
        && *byte != b':'
    {
        colon += 1;
        rest = after;
    }
    Feature {
        name: guid.split_at(colon + 1).1,
        guid,
        read_only_compatible: false,
        flags: Flags {
            in_label: false,
            active_when_enabled: false,
            per_dataset: false,
            later: false,
        },
        depends_on: &[],
        support: Support::Write,
        description,
    }
}

/// What the rows are built with, one step a fact.
impl Feature {
    const fn read_only_compatible(mut self) -> Self {
        self.read_only_compatible = true;
        self
    }

    const fn in_label(mut self) -> Self {
        self.flags.in_label = true;
        self
    }

    const fn active_when_enabled(mut self) -> Self {
        self.flags.active_when_enabled = true;
        self
    }

    const fn per_dataset(mut self) -> Self {
        self.flags.per_dataset = true;
        self
    }

    const fn later(mut self) -> Self {
        self.flags.later = true;
        self
    }

    const fn depends_on(mut self, others: &'static [&'static Self]) -> Self {
        self.depends_on = others;
        self
    }

    #[expect(dead_code, reason = "a new feature may be read before it is written")]
    const fn support(mut self, support: Support) -> Self {
        self.support = support;
        self
    }
}

impl Feature {
    /// Whether new pools have it, and those that are upgraded get it: we maintain it, and OpenZFS 2.3 knows it.
    #[must_use]
    pub fn is_for_all_pools(&self) -> bool {
        self.support == Support::Write && !self.flags.later
    }
}

/// The feature with this name on disk.
#[must_use]
pub fn by_guid(guid: &str) -> Option<&'static Feature> {
    ALL.iter().copied().find(|feature| feature.guid == guid)
}

/// The feature of `feature@NAME`.
#[must_use]
pub fn by_name(name: &str) -> Option<&'static Feature> {
    ALL.iter().copied().find(|feature| feature.name == name)
}

#[cfg(test)]
mod tests;
