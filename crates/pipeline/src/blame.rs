//! What follows from bytes that are not those of a block: whose fault it is, and who may write over them.
//!
//! Nothing is locked while a block is read. By the time that its place is read, the block may have been freed and its
//! place given to another, or a later pass of the sync may be rewriting it: then other bytes are there, on one side of
//! a mirror and not yet on the other, in one copy and not yet in the next, and each is as it should be. So a device is
//! to blame only if the place is certainly still the block's, and the block is on disk.

use std::sync::Arc;

use base::Txg;
use format::block_pointer::BlockPointer;
use vdev::{BlockRange, LeafFailure, ReadOutcome, Top, VdevError};

use crate::{Attempt, AttemptFailure, Pipeline, ReadRequest, RepairPermit, Repairs};

impl Pipeline {
    /// Whether the places that a block had when its pointer was taken are certainly still its, and on disk.
    pub(crate) fn is_settled(&self, block: &BlockPointer, request: &ReadRequest) -> bool {
        if request.seen == Txg(0) {
            // Who does not say when he took the pointer keeps the block as it is, or knows that it may not be there.
            return request.promised;
        }
        let permit = |repairs: &Arc<dyn Repairs>| {
            let permit = repairs.permit(request.seen, block.physical_birth());
            permit.is_some()
        };
        self.repairs().is_none_or(permit)
    }

    /// Leave to write over bad copies of a block that was read.
    pub(crate) fn permit(
        &self,
        block: &BlockPointer,
        request: &ReadRequest,
    ) -> Option<RepairPermit> {
        if !self.heals() || request.seen == Txg(0) {
            return None;
        }
        let permit = self.repairs()?.permit(request.seen, block.physical_birth());
        if permit.is_none() {
            self.counters.repairs_refused.increment();
        }
        permit
    }

    /// What follows for the leaves of a vdev that had other bytes than the one that was believed: it counts against
    /// them, and they are given the right ones, as far as that is allowed.
    pub(crate) fn repair(
        &self,
        top: &Top,
        outcome: &ReadOutcome,
        range: BlockRange,
        (block, request): (&BlockPointer, &ReadRequest),
    ) {
        if outcome.lacking.is_empty() {
            return;
        }
        let permit = self.permit(block, request);
        if permit.is_some() || self.is_settled(block, request) {
            top.blame(&outcome.failures, range.birth);
        }
        if permit.is_some() {
            top.repair_read(outcome, range);
        }
        drop(permit);
    }

    /// What follows for the leaves of a vdev none of which had a copy: it counts against them if it was promised that
    /// they have it. Else whoever reads another copy knows more.
    pub(crate) fn none_had(
        &self,
        top: &Top,
        error: &VdevError,
        (block, request): (&BlockPointer, &ReadRequest),
    ) {
        if request.promised && self.is_settled(block, request) {
            top.blame(wrong_of(error), block.physical_birth());
        }
    }

    /// Counts copies that were met before the right one against their devices, where [`Self::none_had`] could not.
    pub(crate) fn blame_copies(
        &self,
        block: &BlockPointer,
        attempts: &[Attempt],
        request: &ReadRequest,
    ) {
        if attempts.is_empty() || request.promised || !self.is_settled(block, request) {
            return;
        }
        for attempt in attempts {
            let error = match &attempt.failure {
                AttemptFailure::Checksum(mismatch) => &mismatch.source,
                AttemptFailure::Device(error) => error,
                AttemptFailure::Pointer(_)
                | AttemptFailure::Decompression(_)
                | AttemptFailure::GangHeader(_)
                | AttemptFailure::GangMember(_)
                | AttemptFailure::GangSize { .. }
                | AttemptFailure::Sealed(_)
                | AttemptFailure::GangDepth => continue,
            };
            if let Ok(top) = self.vdevs.top(attempt.dva.vdev) {
                top.blame(wrong_of(error), block.physical_birth());
            }
        }
    }
}

/// What the leaves said in a read that failed.
fn wrong_of(error: &VdevError) -> &[LeafFailure] {
    if let VdevError::ReadFailed { failures, .. } = error {
        failures
    } else {
        &[]
    }
}

#[cfg(test)]
mod tests;
