//! From a pool's configuration to the tree that lists show: names, classes, states.

use admin::{VdevCause, VdevClass, VdevReport, VdevState};
use format::config::{VdevType, keys};
use pool::VdevConfig;

#[cfg(test)]
mod tests;

/// What is known of a leaf besides its configuration.
#[derive(Debug, Clone)]
pub(crate) struct LeafFacts {
    pub(crate) state: VdevState,
    pub(crate) cause: Option<VdevCause>,
    /// Where it was found, if elsewhere than the configuration says.
    pub(crate) path: Option<String>,
    pub(crate) read_errors: u64,
    pub(crate) write_errors: u64,
    pub(crate) checksum_errors: u64,
    pub(crate) size: u64,
}

impl LeafFacts {
    /// A leaf that works.
    pub(crate) const fn online() -> Self {
        Self {
            state: VdevState::Online,
            cause: None,
            path: None,
            read_errors: 0,
            write_errors: 0,
            checksum_errors: 0,
            size: 0,
        }
    }

    /// A leaf whose device has less room than the pool keeps on it.
    pub(crate) fn too_small() -> Self {
        Self {
            state: VdevState::Unavailable,
            cause: Some(VdevCause::InvalidLabel),
            ..Self::online()
        }
    }

    /// A leaf whose device was not found.
    pub(crate) fn missing() -> Self {
        Self {
            state: VdevState::Unavailable,
            cause: Some(VdevCause::CannotOpen),
            ..Self::online()
        }
    }
}

/// The top-level vdevs of a configuration; `leaf` tells what is known of each leaf, `class` what a
/// top-level vdev is for (labels know it of logs only).
pub(crate) fn tree(
    root: &VdevConfig,
    class: &dyn Fn(&VdevConfig) -> VdevClass,
    leaf: &dyn Fn(&VdevConfig) -> LeafFacts,
) -> Vec<VdevReport> {
    root.children
        .iter()
        .map(|top| report(top, class(top), leaf))
        .collect()
}

/// What a top-level vdev is for, as far as its label knows.
pub(crate) fn class_in_label(top: &VdevConfig) -> VdevClass {
    if top.flag(keys::IS_LOG) {
        VdevClass::Log
    } else {
        VdevClass::Normal
    }
}

fn report(
    config: &VdevConfig,
    class: VdevClass,
    leaf: &dyn Fn(&VdevConfig) -> LeafFacts,
) -> VdevReport {
    let children: Vec<VdevReport> = config
        .children
        .iter()
        .map(|child| report(child, class, leaf))
        .collect();
    let mut found = VdevReport {
        id: config.id().0,
        path: config.path().map(str::to_owned),
        class,
        activity: config.flag(keys::REMOVING).then(|| "removing".to_owned()),
        size: config.asize(),
        children,
        ..VdevReport::healthy(&config.shown_kind(), config.guid().0)
    };
    if config.is_leaf() {
        let facts = leaf(config);
        // Only what was not found has no name of its own.
        found.absent =
            facts.state == VdevState::Unavailable && facts.cause == Some(VdevCause::CannotOpen);
        found.state = facts.state;
        found.cause = facts.cause;
        found.path = facts.path.or(found.path);
        found.read_errors = facts.read_errors;
        found.write_errors = facts.write_errors;
        found.checksum_errors = facts.checksum_errors;
        found.size = if facts.size > 0 {
            facts.size
        } else {
            found.size
        };
    } else if config.vdev_type() == Some(VdevType::Missing) {
        found.state = VdevState::Unavailable;
        found.cause = Some(VdevCause::MissingDevice);
    } else {
        (found.state, found.cause) = interior(&found.children, config.tolerance());
    }
    found
}

/// The state of what is made of children.
pub(crate) fn interior(
    children: &[VdevReport],
    redundancy: usize,
) -> (VdevState, Option<VdevCause>) {
    let works = |state| matches!(state, VdevState::Online | VdevState::Degraded);
    let failed = children.iter().filter(|child| !works(child.state)).count();
    if failed > redundancy {
        return (
            VdevState::Unavailable,
            Some(VdevCause::InsufficientReplicas),
        );
    }
    let whole = children
        .iter()
        .all(|child| child.state == VdevState::Online);
    (
        if whole {
            VdevState::Online
        } else {
            VdevState::Degraded
        },
        None,
    )
}

/// The state of a pool: every top-level vdev is needed, logs and caches are not.
pub(crate) fn pool_state(tops: &[VdevReport]) -> VdevState {
    let needed: Vec<VdevReport> = tops
        .iter()
        .filter(|top| {
            !matches!(
                top.class,
                VdevClass::Log | VdevClass::Cache | VdevClass::Spare
            )
        })
        .cloned()
        .collect();
    let state = interior(&needed, 0).0;
    if state == VdevState::Online && tops.iter().any(|top| top.state != VdevState::Online) {
        VdevState::Degraded
    } else {
        state
    }
}
