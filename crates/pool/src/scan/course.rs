//! Which way a scan goes through the datasets, and how that is stored.
//!
//! First the pool's own object set, then the snapshot that everything descends from; each snapshot
//! that was gone through puts its successors into the queue, with its own txg as the one after
//! which they are to be looked at. So every block is met once, with the oldest dataset that has
//! it. OpenZFS goes the same way and stores it in the same words: each goes on with what the other
//! began. Where datasets take the place of others meanwhile, the course follows.

use std::collections::BTreeMap;

use base::{ObjectId, Txg};
use dsl::Succession;

use super::walk::Place;
use crate::scan::phys::{FLAG_AGAIN, ScanPhys};

/// An object set to be gone through.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Target {
    Meta,
    Dataset(ObjectId),
}

/// The object set under way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Leg {
    pub(crate) target: Target,
    /// Trees born up to here were met with an older dataset.
    pub(crate) after: Txg,
    /// What was born later belongs to a later dataset; none: not looked up yet.
    pub(crate) until: Option<Txg>,
    /// Where to go on.
    pub(crate) place: Place,
}

/// The way of one scan.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Course {
    leg: Option<Leg>,
    queue: BTreeMap<ObjectId, Txg>,
    /// The object set under way took the place of an older one half-way: what it has besides comes
    /// after.
    again: bool,
    /// Changes when another object set is under way.
    epoch: u64,
    /// The last place that the stored form can express, and the counts when it was reached.
    kept: (Place, ScanPhys),
}

impl Course {
    /// From the beginning.
    pub(crate) fn begin(scan: ScanPhys) -> Self {
        let leg = Leg {
            target: Target::Meta,
            after: Txg(scan.txg_min),
            until: Some(Txg(scan.txg_max)),
            place: Place::default(),
        };
        Self {
            leg: Some(leg),
            queue: BTreeMap::new(),
            again: false,
            epoch: 0,
            kept: (Place::default(), scan),
        }
    }

    /// From where a scan was when it was stored; `exists` tells whether a dataset is still there.
    pub(crate) fn resume(
        scan: ScanPhys,
        queue: BTreeMap<ObjectId, Txg>,
        exists: &dyn Fn(ObjectId) -> bool,
    ) -> Self {
        /// Of a scan whose dataset was destroyed when the queue was empty.
        const DESTROYED: u64 = u64::MAX;
        let mut course = Self::begin(scan);
        let [object_set, object, level, block] = scan.bookmark;
        let place = Place::of_bookmark(object, level.cast_signed(), block);
        if object_set == 0 {
            course.leg = course.leg.map(|leg| Leg { place, ..leg });
            course.kept.0 = place;
            return course;
        }
        course.queue = queue;
        course.queue.retain(|id, _| exists(*id));
        let id = ObjectId(object_set);
        if exists(id) {
            course.again = scan.flags & FLAG_AGAIN != 0;
            course.leg = Some(Leg {
                target: Target::Dataset(id),
                after: Txg(scan.current_min),
                until: Some(Txg(scan.current_max)),
                place,
            });
            course.kept.0 = place;
        } else if object_set == DESTROYED || !course.queue.is_empty() {
            course.leg = None;
            course.take_next(scan);
        }
        course
    }

    /// The object set under way, and the number to come back with.
    pub(crate) fn leg(&self) -> Option<(u64, Leg)> {
        self.leg.map(|leg| (self.epoch, leg))
    }

    /// Whether `target` is what is gone through in `epoch`. Another may have taken its place, which goes on in the same
    /// epoch.
    pub(crate) fn is_at(&self, epoch: u64, target: Target) -> bool {
        self.epoch == epoch && self.leg.is_some_and(|leg| leg.target == target)
    }

    /// What was born later than this belongs to later datasets.
    pub(crate) fn set_until(&mut self, epoch: u64, until: Txg) {
        if self.epoch == epoch
            && let Some(leg) = &mut self.leg
        {
            leg.until = Some(until);
        }
    }

    /// The walk came to `place`, with these counts.
    pub(crate) fn came_to(&mut self, epoch: u64, place: Place, counts: &ScanPhys) {
        if self.epoch == epoch
            && let Some(leg) = &mut self.leg
        {
            leg.place = place;
            if place.bookmark().is_some() {
                self.kept = (place, *counts);
            }
        }
    }

    /// Goes back to an earlier place; nothing that was found since counts.
    pub(crate) fn go_back(&mut self, before: Self) {
        let epoch = self.epoch.max(before.epoch) + 1;
        *self = Self { epoch, ..before };
    }

    /// The object set of `epoch` was gone through; `successors` come after it.
    pub(crate) fn finished(
        &mut self,
        epoch: u64,
        successors: &[(ObjectId, Txg)],
        counts: &ScanPhys,
    ) {
        let Some(leg) = self.leg.filter(|_| self.epoch == epoch) else {
            return;
        };
        match (self.again, leg.target) {
            (true, Target::Dataset(id)) => {
                self.again = false;
                self.queue.insert(id, leg.until.unwrap_or(leg.after));
            }
            _ => self.queue.extend(successors.iter().copied()),
        }
        self.take_next(*counts);
    }

    fn take_next(&mut self, counts: ScanPhys) {
        self.epoch += 1;
        self.kept = (Place::default(), counts);
        self.leg = self.queue.pop_first().map(|(id, after)| Leg {
            target: Target::Dataset(id),
            after: after.max(Txg(counts.txg_min)),
            until: None,
            place: Place::default(),
        });
    }

    /// Everything up to the place was looked at, with these counts. Whether the place can be stored: if not, what was
    /// stored before stays, for the counts are of more than what comes before it.
    pub(crate) fn settle(&mut self, counts: &ScanPhys) -> bool {
        let can_be_stored = self.leg.is_none_or(|leg| leg.place == self.kept.0);
        if can_be_stored {
            self.kept.1 = *counts;
        }
        can_be_stored
    }

    /// Follows a change of the datasets.
    pub(crate) fn follow(&mut self, succession: Succession) {
        match succession {
            Succession::Taken { head, snapshot } => self.replace(head, snapshot),
            Succession::Merged {
                snapshot,
                taken,
                next,
            } => {
                if self.is_under_way(snapshot) {
                    // What the next one has besides, before this place, was not met.
                    self.again = true;
                    if let Some(leg) = &mut self.leg {
                        leg.until = Some(leg.until.unwrap_or(taken).min(taken));
                    }
                }
                self.replace(snapshot, next);
            }
            Succession::Gone { head } => {
                self.queue.remove(&head);
                if self.is_under_way(head) {
                    self.again = false;
                    self.take_next(self.kept.1);
                }
            }
            Succession::Exchanged { one, other } => {
                let queued = (self.queue.remove(&one), self.queue.remove(&other));
                self.queue.extend(queued.0.map(|after| (other, after)));
                self.queue.extend(queued.1.map(|after| (one, after)));
                if let Some(leg) = &mut self.leg {
                    leg.target = match leg.target {
                        Target::Dataset(id) if id == one => Target::Dataset(other),
                        Target::Dataset(id) if id == other => Target::Dataset(one),
                        Target::Dataset(_) | Target::Meta => leg.target,
                    };
                }
            }
        }
    }

    fn is_under_way(&self, id: ObjectId) -> bool {
        self.leg
            .is_some_and(|leg| leg.target == Target::Dataset(id))
    }

    fn replace(&mut self, old: ObjectId, new: ObjectId) {
        if self.is_under_way(old)
            && let Some(leg) = &mut self.leg
        {
            leg.target = Target::Dataset(new);
        }
        if let Some(after) = self.queue.remove(&old) {
            let earlier = self.queue.get(&new).map_or(after, |txg| after.min(*txg));
            self.queue.insert(new, earlier);
        }
    }

    /// The form that is stored, and the queue; `scan` has what does not depend on the place.
    pub(crate) fn stored(&self, scan: &ScanPhys) -> (ScanPhys, BTreeMap<ObjectId, Txg>) {
        let (place, counts) = &self.kept;
        let mut stored = ScanPhys {
            examined: counts.examined,
            skipped: counts.skipped,
            processed: counts.processed,
            errors: counts.errors,
            ..*scan
        };
        let Some(leg) = &self.leg else {
            // At its end; should nobody be able to say so, it begins again.
            (stored.bookmark, stored.current_min, stored.current_max) = Default::default();
            return (stored, BTreeMap::new());
        };
        let object_set = match leg.target {
            Target::Meta => 0,
            Target::Dataset(id) => id.0,
        };
        let [object, level, block] = place.bookmark().unwrap_or_default();
        stored.bookmark = [object_set, object, level, block];
        stored.current_min = leg.after.0;
        stored.current_max = leg.until.map_or(scan.txg_max, |until| until.0);
        stored.flags &= !FLAG_AGAIN;
        stored.flags |= if self.again { FLAG_AGAIN } else { 0 };
        (stored, self.queue.clone())
    }
}

#[cfg(test)]
mod tests;
