//! Which stored blocks a copy may refer to: asked when it is made, so that its sync has no reason to refuse.

use std::sync::{Arc, Weak};

use base::{ObjectId, ObjectSetId};
use dmu::{BlockKind, ReferenceRules};
use dsl::Dsl;
use format::features;
use vdev::VdevTree;

use super::references::BlockReferenceTable;
use super::rules::WriteRules;
use crate::mos::features::Features;
use crate::vdevs::dtl::leaves;

/// What decides whether blocks may be shared. It keeps nothing that reads by the store that it is part of.
pub(crate) struct Sharing {
    pub(crate) features: Weak<Features>,
    pub(crate) references: Weak<BlockReferenceTable>,
    pub(crate) dsl: Weak<Dsl>,
    pub(crate) vdevs: Arc<VdevTree>,
    /// The rules of the pool's own object set.
    pub(crate) meta: WriteRules,
}

impl Sharing {
    /// Who counts references, if there is the feature.
    pub(crate) fn counter(&self) -> Option<Arc<BlockReferenceTable>> {
        let shares = self
            .features
            .upgrade()?
            .is_enabled(&features::BLOCK_CLONING);
        self.references.upgrade().filter(|_| shares)
    }

    /// Which blocks new ones of a head may be references to; none: no blocks at all.
    pub(crate) fn rules(&self, set: ObjectSetId, kind: &BlockKind) -> Option<ReferenceRules> {
        self.counter()?;
        if !all_are_whole(&self.vdevs) {
            return None;
        }
        let head = self.dsl.upgrade()?.open_head(ObjectId(set.0))?;
        let policy = head.directory().storage_policy().ok()?;
        let policy = WriteRules::dataset(&policy, self.meta).policy(kind);
        Some(ReferenceRules {
            checksum: policy.checksum.id(),
            copies: usize::from(policy.copies),
        })
    }
}

/// Whether no device has missed a txg. A resilver sees a block where it finds it, and who shares one may have been
/// passed when the other lets it go: then nothing is shared.
pub(crate) fn all_are_whole(vdevs: &VdevTree) -> bool {
    leaves(vdevs).iter().all(|leaf| leaf.missing().is_empty())
}
