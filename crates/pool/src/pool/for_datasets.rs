//! What the dataset layer asks of the pool, and what becomes of it when a task is done or forgotten.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use base::clock::Clock;
use base::random::Rng;
use base::{ObjectId, Txg};
use dmu::{BlockStore, Tx};
use dsl::{HistoryEvent, Services, SpaceClass, Succession};
use format::BlockPointer;
use format::features::Feature;
use format::intent_log::LogHeader;

use crate::pool::services::PoolServices;
use crate::sync::task_effects::Waiting;

impl Services for PoolServices {
    fn stopped(&self, head: &dsl::StoppedHead) {
        self.events.stopped(&head.name, &head.reason);
    }

    fn store(&self) -> Arc<dyn BlockStore> {
        Arc::clone(&self.store) as Arc<dyn BlockStore>
    }

    fn clock(&self) -> &dyn Clock {
        self.clock.as_ref()
    }

    fn rng(&self) -> &dyn Rng {
        self.rng.as_ref()
    }

    fn version(&self) -> u64 {
        self.version.load(Ordering::Relaxed)
    }

    fn raise_version(&self, tx: &Tx, version: u64) -> dmu::Result<()> {
        self.raise_pool_version(tx, version)
    }

    fn is_writable(&self) -> bool {
        self.writable.load(Ordering::Relaxed)
    }

    fn is_enabled(&self, feature: &Feature) -> bool {
        self.features.is_enabled(feature)
    }

    fn references(&self, feature: &Feature) -> u64 {
        self.features.references(feature).unwrap_or(0)
    }

    fn change_references(&self, tx: &Tx, feature: &Feature, change: i64) -> dmu::Result<()> {
        self.change_feature(tx, feature, change)
    }

    fn usable_bytes(&self, class: SpaceClass) -> u64 {
        self.limits.usable_bytes(class)
    }

    fn charge_overhead(&self) -> u64 {
        self.limits.charge_overhead()
    }

    fn awaited_bytes(&self) -> u64 {
        // What txgs freed that were written for ageing alone nobody is to wait for.
        if self.ageing.owed() == 0 {
            return 0;
        }
        let deferred = self.limits.figures().deferred;
        if deferred > 0 {
            self.ageing.want();
        }
        deferred
    }

    fn free(&self, txg: Txg, pointer: &BlockPointer) {
        if !self.task.frees(pointer) {
            self.frees.free(txg, pointer);
        }
    }

    fn begin_task(&self) {
        self.begin_effects();
    }

    fn end_task(&self, txg: Txg, done: bool) {
        self.end_effects(txg, done);
    }

    fn frees_later(&self, pointer: &BlockPointer) -> bool {
        pointer.is_gang() || pointer.is_dedup() || self.references.may_be_shared(pointer)
    }

    fn shares(&self, pointer: &BlockPointer) {
        // What a dedup table counts it has counted when it was written.
        if pointer.is_dedup() {
            return;
        }
        if !self.task.shares(pointer) {
            self.references.added(pointer);
        }
    }

    fn end_intent_log(&self, txg: Txg, head: ObjectId, header: &LogHeader) {
        if let Some(logs) = &self.logs
            && !self.task.ends_log(head, header)
        {
            let free = logs.end(txg, head, header);
            free.iter().for_each(|pointer| self.free(txg, pointer));
        }
    }

    fn keeps_intent_log(&self, head: ObjectId) -> bool {
        self.logs.as_ref().is_some_and(|logs| logs.keeps(head))
    }

    fn succeeded(&self, tx: &Tx, succession: Succession) -> dmu::Result<()> {
        match succession {
            Succession::Gone { head } => {
                self.forget_errors(tx, head)?;
                self.forget_boot_file_system(tx, head)?;
            }
            Succession::Merged { snapshot, .. } => self.forget_boot_file_system(tx, snapshot)?,
            Succession::Taken { .. } | Succession::Exchanged { .. } => {}
        }
        if self.scrub_follows(succession) {
            self.store_scan(tx)?;
        }
        Ok(())
    }

    fn record_history(&self, tx: &Tx, event: &HistoryEvent<'_>) -> dmu::Result<()> {
        let dataset =
            (event.dataset_id != ObjectId(0)).then_some((event.dataset, event.dataset_id));
        self.history
            .internal(tx, event.name, event.text, dataset, self.clock.now_s())
    }
}

impl PoolServices {
    fn begin_effects(&self) {
        self.events.begin_task();
        self.task.begin(self.features.counts());
    }

    fn end_effects(&self, txg: Txg, done: bool) {
        let waiting = self.task.end();
        self.events.end_task(done);
        if !done {
            return self.undo_effects(waiting);
        }
        waiting
            .shared
            .iter()
            .for_each(|pointer| self.shares(pointer));
        for (head, header) in &waiting.logs {
            self.end_intent_log(txg, *head, header);
        }
        waiting
            .freed
            .iter()
            .for_each(|pointer| self.free(txg, pointer));
    }

    fn undo_effects(&self, waiting: Waiting) {
        if let Some(counts) = waiting.counts
            && self.features.restore(counts)
        {
            self.update_label_features();
        }
        if let (Some(way), Some(scrub)) = (waiting.scrub, &self.scrub) {
            scrub.go_back(way);
        }
    }

    /// A log that is claimed in `txg`, before anything is freed, refers to a block from one more place.
    pub(crate) fn refer_from_log(&self, txg: Txg, pointer: &BlockPointer) {
        // What no dedup table counts (any more) is a block as others are.
        if !(pointer.is_dedup() && self.dedup.refer_again(pointer)) {
            self.references.expect(txg, pointer);
            self.references.added(pointer);
        }
    }

    /// The scrub follows a change of the datasets; whether there is one.
    fn scrub_follows(&self, succession: Succession) -> bool {
        let Some(scrub) = &self.scrub else {
            return false;
        };
        self.task.comes_from(scrub);
        scrub.follow(succession)
    }
}

#[cfg(test)]
mod tests;
