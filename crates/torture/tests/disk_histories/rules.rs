//! Which requests about devices are refused, and why: told from how the devices stand, by rules of this test's own.

use crate::view::{NO_DISK, View, Whole};
use base::Guid;
use pool::{Fill, OutOfUse, VdevRole};
use std::path::PathBuf;

/// A request about the devices of a pool.
#[derive(Clone, Debug)]
pub(crate) enum Request {
    Attach(Guid, Fill),
    Replace(Guid, Fill),
    /// A spare takes a place by the operator's word.
    Spare(Guid, PathBuf),
    Detach(Guid),
    Offline(Guid, OutOfUse),
    Online(Guid),
    /// Rows of parity (none: copies), devices.
    Add(VdevRole, Option<usize>, usize),
    AddSpare,
    Remove(Guid),
    CancelRemoval,
    RemoveLog(Guid),
    RemoveSpare(Guid),
    Expand(Guid),
    Scrub,
    PauseScrub,
    StopScrub,
    Resilver,
    Trim(Vec<Guid>),
    CancelTrim(Vec<Guid>),
    Initialize(Vec<Guid>),
    CancelInitializing(Vec<Guid>),
    TakeCheckpoint,
    DiscardCheckpoint,
    Reguid,
    Clear,
    Reopen,
}

/// What may come of a request: refused for certain if there are `sure` reasons; `possible` ones depend on how far
/// something has come that goes on by itself.
#[derive(Debug, Default)]
pub(crate) struct Reasons {
    pub(crate) sure: Vec<&'static str>,
    pub(crate) possible: Vec<&'static str>,
}

const CHECKPOINT: [&str; 2] = ["checkpoint exists", "discarding checkpoint"];
const REMOVING: &str = "device removal in progress";
const NOT_A_SIDE: &str = "can only attach to mirrors and top-level disks";
const REPLACED: &str = "already in replacing/spare config";
const NO_REPLICAS: &str = "no valid replicas";
const NOT_DETACHABLE: &str = "only applicable to mirror and replacing vdevs";
const LOG_STAYS: &str = "log devices have nothing to be moved";
const SHAPES: &str = "all top-level vdevs must have the same sector size and not be raidz";
const NO_PARITY: &str = "does not support adding raidz";
const SECTORS: &str = "sectors of another size";
const IN_PROGRESS: &str = "raidz expansion in progress";
const UNAVAILABLE: &str = "currently unavailable";
const RESILVERING: &str = "currently resilvering";
const REBUILDING: &str = "currently sequentially resilvering";
const NOT_IN_SEQUENCE: &str = "only mirror and dRAID vdevs support sequential";
const IN_USE: &str = "device is in use";
const PART_OF_POOL: &str = "is part of active pool";
const NO_SUCH: &str = "no such device in pool";
const BUSY: &str = "busy";
const NO_SPACE: &str = "out of space";

const NO_REMOVAL: &str = "no removal in progress";
const NO_CHECKPOINT: &str = "checkpoint does not exist";
const ITS_OWN: &str = "devices of its own dRAID only";
const NOT_REMOVABLE: &str = "dRAID spares cannot be removed";
const NOT_SUPPORTED: &str = "operation not supported on this type of pool";
const FOR_DATA: &str = "spares stand in for devices with data only";

/// Adds a reason if it holds.
fn if_so(holds: bool, reason: &'static str, to: &mut Vec<&'static str>) {
    if holds {
        to.push(reason);
    }
}

/// What a device is refused for that is to be filled so, beside the other way.
fn not_beside(fill: Fill) -> &'static str {
    match fill {
        Fill::Healing => REBUILDING,
        Fill::Sequential => RESILVERING,
    }
}

/// The sector size of all vdevs that a history adds is that of its pool.
impl View {
    pub(crate) fn reasons(&self, request: &Request) -> Reasons {
        let mut reasons = Reasons::default();
        let Reasons { sure, possible } = &mut reasons;
        if self.has_checkpoint && request.needs_no_checkpoint() {
            sure.extend(CHECKPOINT);
        }
        match request {
            Request::Attach(leaf, _) | Request::Replace(leaf, _) | Request::Spare(leaf, _) => {
                possible.extend(request.possible_against_another());
                self.reasons_against_another(request, *leaf, sure);
            }
            Request::Detach(leaf) => {
                possible.extend([NO_SUCH, NO_REPLICAS]);
                self.reasons_against_a_detachment(*leaf, sure);
            }
            Request::Offline(leaf, how) => {
                possible.extend([NO_SUCH, NO_REPLICAS]);
                let is_alone = self.top_of(*leaf).is_some_and(Whole::has_one);
                let is_room = self.side(*leaf).is_some_and(|side| side.disk == NO_DISK);
                if_so(is_room, NOT_SUPPORTED, sure);
                if_so(!how.faulted && is_alone, NO_REPLICAS, sure);
            }
            Request::Online(_)
            | Request::Trim(_)
            | Request::CancelTrim(_)
            | Request::Initialize(_)
            | Request::CancelInitializing(_) => possible.push(NO_SUCH),
            Request::Add(_, parity, _) => {
                let was_removed = |top: &Whole| top.kind == "indirect" || top.is_removing;
                let is_any = self.tops.iter().any(was_removed);
                if_so(parity.is_some() && is_any, NO_PARITY, sure);
                possible.push(SECTORS);
            }
            Request::Remove(top) => self.reasons_to_stay(*top, sure, possible),
            Request::CancelRemoval => {
                if_so(!self.is_removing, NO_REMOVAL, sure);
                possible.push(NO_REMOVAL);
            }
            Request::RemoveLog(_) => possible.push(BUSY),
            Request::RemoveSpare(guid) => {
                let is_used = self.sides().any(|(_, side)| side.guid == *guid);
                let spare = self.spares.iter().find(|spare| spare.guid == *guid);
                let is_room = spare.is_some_and(|spare| spare.kind == "dspare");
                if_so(is_room, NOT_REMOVABLE, sure);
                if_so(is_used && !is_room, IN_USE, sure);
                possible.extend([IN_USE, NO_SUCH]);
            }
            Request::Expand(top) => {
                if_so(self.is_expanding, IN_PROGRESS, sure);
                let top = self.there().find(|one| one.guid == *top);
                if_so(top.is_some_and(|top| top.kind != "raidz"), NOT_A_SIDE, sure);
                possible.extend([UNAVAILABLE, RESILVERING, "too many devices"]);
            }
            Request::Scrub => possible.extend([RESILVERING, "currently scrubbing"]),
            Request::PauseScrub => {
                possible.extend(["no active scrub", "scrub is paused", RESILVERING])
            }
            Request::StopScrub => possible.extend(["no active scrub", RESILVERING]),
            Request::AddSpare | Request::Resilver | Request::Clear | Request::Reopen => {}
            Request::TakeCheckpoint => {
                if_so(self.is_expanding, IN_PROGRESS, sure);
                if_so(self.is_removing, REMOVING, sure);
                possible.push(NO_SPACE);
            }
            Request::DiscardCheckpoint => {
                if_so(!self.has_checkpoint, NO_CHECKPOINT, sure);
                possible.extend([NO_CHECKPOINT, "discarding checkpoint"]);
            }
            Request::Reguid => possible.push(UNAVAILABLE),
        }
        reasons
    }

    fn reasons_against_a_detachment(&self, leaf: Guid, sure: &mut Vec<&'static str>) {
        let leaves = self.top_of(leaf).is_some_and(|top| top.is_removing);
        if_so(leaves, REMOVING, sure);
        let above = self.side(leaf).map(|side| side.above.as_str());
        let is_part = |above: &str| ["mirror", "replacing", "spare"].contains(&above);
        let is_none = above.is_some_and(|above| !is_part(above));
        if_so(is_none, NOT_DETACHABLE, sure);
    }

    /// Why no device comes beside a leaf, or in its place.
    fn reasons_against_another(&self, request: &Request, leaf: Guid, sure: &mut Vec<&'static str>) {
        if_so(self.is_removing, REMOVING, sure);
        let Some(side) = self.side(leaf) else { return };
        let is_attached = matches!(request, Request::Attach(..));
        let is_alone = ["root", "mirror"].contains(&side.above.as_str());
        if_so(is_attached && !is_alone, NOT_A_SIDE, sure);
        let is_spare = matches!(request, Request::Spare(..));
        let for_good = matches!(request, Request::Replace(..));
        let is_taken =
            side.above == "replacing" || (side.above == "spare" && (side.stands_in || !for_good));
        let is_spare_itself = is_spare && side.stands_in;
        if_so(!is_attached && is_taken || is_spare_itself, REPLACED, sure);
        let is_for_data = self
            .top_of(leaf)
            .is_some_and(|top| top.role == VdevRole::Data);
        if_so(is_spare && !is_for_data, FOR_DATA, sure);
        let is_raidz = self.top_of(leaf).is_some_and(|top| top.kind == "raidz");
        let in_sequence = request.fill() == Fill::Sequential;
        if_so(is_raidz && in_sequence, NOT_IN_SEQUENCE, sure);
    }

    /// Why a top-level vdev is not removed.
    fn reasons_to_stay(
        &self,
        top: Guid,
        sure: &mut Vec<&'static str>,
        possible: &mut Vec<&'static str>,
    ) {
        // Another removal may have ended by then.
        if_so(self.is_removing, BUSY, possible);
        let Some(removed) = self.there().find(|one| one.guid == top) else {
            possible.push(NO_SUCH);
            return;
        };
        if removed.role == VdevRole::Log {
            sure.push(LOG_STAYS);
            return;
        }
        let is_odd = |one: &Whole| {
            ["raidz", "draid"].contains(&one.kind.as_str())
                || !one.is_flat
                || one.ashift != removed.ashift
        };
        let mut others = self.there().filter(|one| one.role != VdevRole::Log);
        if_so(others.any(is_odd), SHAPES, sure);
        possible.extend([BUSY, NO_SPACE, SHAPES]);
    }
}

impl Whole {
    fn has_one(&self) -> bool {
        self.sides.len() == 1
    }
}

impl Request {
    /// How a device that comes gets what the others have.
    fn fill(&self) -> Fill {
        match self {
            Self::Attach(_, fill) | Self::Replace(_, fill) => *fill,
            _ => Fill::Healing,
        }
    }

    /// What may be so when another device is to come.
    fn possible_against_another(&self) -> impl Iterator<Item = &'static str> {
        // A spare that steps in by itself in that moment.
        let is_spare = matches!(self, Self::Spare(..));
        let always = [NO_SUCH, ITS_OWN, not_beside(self.fill())];
        always.into_iter().chain(is_spare.then_some(PART_OF_POOL))
    }

    /// Whether that is so once the request is done, whatever was before.
    pub(crate) fn brings(&self, reason: &str) -> bool {
        matches!(self, Self::Expand(_)) && reason == IN_PROGRESS
    }

    const fn needs_no_checkpoint(&self) -> bool {
        match self {
            Self::Attach(..)
            | Self::Replace(..)
            | Self::Spare(..)
            | Self::Detach(_)
            | Self::Remove(_)
            | Self::RemoveLog(_)
            | Self::Expand(_)
            | Self::Reguid
            | Self::TakeCheckpoint => true,
            Self::Offline(..)
            | Self::Online(_)
            | Self::Add(..)
            | Self::AddSpare
            | Self::CancelRemoval
            | Self::RemoveSpare(_)
            | Self::Scrub
            | Self::PauseScrub
            | Self::StopScrub
            | Self::Resilver
            | Self::Trim(_)
            | Self::CancelTrim(_)
            | Self::Initialize(_)
            | Self::CancelInitializing(_)
            | Self::DiscardCheckpoint
            | Self::Clear
            | Self::Reopen => false,
        }
    }
}
