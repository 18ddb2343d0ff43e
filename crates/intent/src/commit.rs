//! Commits: the caller either leads a batch or waits for one that another leads.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use base::clock::monotonic_ns;
use base::{ObjectId, Txg};
use format::BlockPointer;
use format::intent_log::Identity;

use crate::batch::{Batch, BlockPlan, shape};
use crate::chain::{Link, Stage};
use crate::commit_queue::{Released, Role};
use crate::entry::SyncPolicy;
use crate::error::IntentError;
use crate::in_flight::Passage;
use crate::layout::{Planned, UNIT, place};
use crate::lists::Item;
use crate::log::Log;
use crate::waiter::{AsyncCaller, Completion, Notice, Waiter, Want};

impl Log {
    /// Makes everything durable that was recorded of `object`, and all changes of names so far.
    /// The caller holds no transaction and no lock.
    ///
    /// # Errors
    /// Neither the log nor the txg could be written: the pool has stopped.
    pub fn commit(&self, object: ObjectId) -> Result<(), IntentError> {
        self.commit_want(Want::Object(object))
    }

    /// Makes everything durable that was recorded so far.
    ///
    /// # Errors
    /// As for [`Log::commit`].
    pub fn commit_all(&self) -> Result<(), IntentError> {
        self.commit_want(Want::Everything)
    }

    /// As [`Log::commit`] for callers that have no thread to wait with: `completion` is told when the
    /// commit has ended. False, and `completion` is forgotten: this commit may have to wait for more
    /// than the log, so it is for a thread.
    pub fn commit_async(
        self: &Arc<Self>,
        object: ObjectId,
        completion: Arc<dyn Completion>,
    ) -> bool {
        if self.sync_policy() == SyncPolicy::Disabled {
            completion.committed(true);
            return true;
        }
        if self.is_unlogged() || self.has_large_writes(object) {
            return false;
        }
        self.meters.commits.increment();
        self.meters.outstanding.add(1);
        let may_lead = completion.may_lead();
        let waiter = Waiter::asynchronous(Want::Object(object), AsyncCaller::new(self, completion));
        let role = self.commit_queue.lock().arrive(Arc::clone(&waiter));
        if role == Role::Lead && (may_lead || !self.appoint(&waiter)) {
            self.lead();
        }
        true
    }

    fn commit_want(&self, want: Want) -> Result<(), IntentError> {
        if self.sync_policy() == SyncPolicy::Disabled {
            return Ok(());
        }
        let start_ns = monotonic_ns();
        self.meters.commits.increment();
        self.meters.outstanding.add(1);
        let result = self.commit_in_time(want);
        self.meters.ended(start_ns);
        result
    }

    fn commit_in_time(&self, want: Want) -> Result<(), IntentError> {
        let ceiling = self.engine.open_txg();
        let unlogged = Txg(self.unlogged.load(Ordering::Acquire));
        if unlogged > self.synced_txg() {
            self.meters.unlogged.increment();
            self.engine.wait_synced(Some(unlogged))?;
        }
        if let Want::Object(object) = want
            && self.has_large_writes(object)
            && self.is_live()
        {
            self.write_out(object);
        }
        if !self.wait_for_batch(want) {
            // Everything that the caller can mean was done in the open txg at the latest.
            self.meters.fallbacks.increment();
            self.engine.wait_synced(Some(ceiling))?;
        }
        Ok(())
    }

    /// Waits for the batch with what is wanted, leading one when it is due; whether it is durable.
    fn wait_for_batch(&self, want: Want) -> bool {
        let waiter = Waiter::parked(want);
        let role = self.commit_queue.lock().arrive(Arc::clone(&waiter));
        if role == Role::Lead {
            self.lead();
        }
        loop {
            match waiter.wait() {
                Notice::Lead => self.lead(),
                Notice::Done(durable) => return durable,
            }
        }
    }

    /// Leads a batch: plans it for those who wait, and sees it to the medium.
    pub(crate) fn lead(&self) {
        // Again only where the thread pool that leads for asynchronous callers has no room.
        while self.lead_batch() {}
    }

    /// True: the caller is to lead the next batch as well.
    fn lead_batch(&self) -> bool {
        self.meters.led.increment();
        // Until it has written there is no other leader who plans: batches are numbered in the
        // order of their records.
        let requests = self.commit_queue.lock().take();
        let Some(batch) = self.plan(requests) else {
            let next_leader = self.commit_queue.lock().leave(true);
            return next_leader.is_some_and(|next_leader| !self.appoint(&next_leader));
        };
        let durable = self.write_and_flush(&batch);
        let now_ns = monotonic_ns();
        let ((released, waits_ns), next_leader) = {
            let mut commit_queue = self.commit_queue.lock();
            let completed = commit_queue.complete(batch.number, durable, now_ns);
            (completed, commit_queue.leave(false))
        };
        if released.iter().any(|(_, durable)| *durable) {
            let blocks = batch.blocks.iter().map(|block| &block.pointer);
            self.chain
                .lock()
                .check_durable(self.engine.findings(), blocks);
        }
        // The next batch first: the device is idle.
        let again = next_leader.is_some_and(|next_leader| !self.appoint(&next_leader));
        release(released);
        for wait_ns in waits_ns {
            self.meters.wait_prefix_ns.record(wait_ns);
        }
        again
    }

    /// Has somebody lead; false: nobody can.
    fn appoint(&self, next_leader: &Arc<Waiter>) -> bool {
        match next_leader.async_caller() {
            None => {
                next_leader.tell(Notice::Lead);
                true
            }
            Some(async_caller) => self.flusher.thread_pool().run(async_caller.lead()).is_ok(),
        }
    }

    /// Takes the records that these callers want and finds places for them. No batch: the callers
    /// were answered, or wait for one that is under way.
    fn plan(&self, requests: Vec<Arc<Waiter>>) -> Option<Batch> {
        if !self.is_live() {
            self.begin_chain();
            release(requests.into_iter().map(|waiter| (waiter, false)).collect());
            return None;
        }
        let items = self.take_items(&requests);
        // Since these callers asked, something may have happened that no record describes: what was recorded after it
        // must not be replayed without it. Or records were lost, theirs among them. Who took a record, or found none
        // because it was taken, sees the mark.
        if self.is_unlogged() {
            self.meters.unlogged.increment();
            self.refuse(requests);
            return None;
        }
        if items.is_empty() {
            let released = self.commit_queue.lock().join(requests);
            release(released);
            return None;
        }
        let Some((blocks, passage)) = self.extend(&items) else {
            self.refuse(requests);
            return None;
        };
        let changed_bytes = items.iter().map(|item| item.changed_bytes).sum();
        self.meters.bytes_dirtied.add(changed_bytes);
        self.meters.batches.increment();
        self.meters.batch_waiters.record(requests.len() as u64);
        let outstanding = u64::try_from(self.meters.outstanding.get()).unwrap_or(0);
        self.meters.outstanding_then.record(outstanding);
        let now_ns = monotonic_ns();
        for request in &requests {
            let waited_ns = now_ns.saturating_sub(request.arrived_ns);
            self.meters.wait_turn_ns.record(waited_ns);
        }
        let number = self.commit_queue.lock().start_batch(requests);
        Some(Batch {
            number,
            blocks,
            items,
            _passage: passage,
        })
    }

    /// Whether something that no record describes is not on disk yet.
    pub(crate) fn is_unlogged(&self) -> bool {
        Txg(self.unlogged.load(Ordering::Acquire)) > self.synced_txg()
    }

    fn is_live(&self) -> bool {
        self.chain.lock().stage == Stage::Live && !self.commit_queue.lock().is_broken()
    }

    fn take_items(&self, requests: &[Arc<Waiter>]) -> Vec<Item> {
        let synced = self.synced_txg();
        let mut objects = Vec::with_capacity(requests.len());
        for request in requests {
            match request.want {
                Want::Everything => return self.lists.take_all(synced),
                Want::Object(object) => objects.push(object),
            }
        }
        objects.sort_unstable();
        objects.dedup();
        self.lists.take(&objects, synced)
    }

    /// The records of these callers are in no list any more: they, and who comes next, wait for their txg.
    fn refuse(&self, requests: Vec<Arc<Waiter>>) {
        self.lose_records();
        release(requests.into_iter().map(|waiter| (waiter, false)).collect());
    }

    /// Everything that was taken from the lists so far is in doubt until its txg has synced.
    fn lose_records(&self) {
        let open = self.engine.open_txg();
        self.unlogged.fetch_max(open.0, Ordering::AcqRel);
    }

    /// Places the records in the tail and in new blocks. Nothing: there is no space, or the
    /// engine has ended.
    fn extend(&self, items: &[Item]) -> Option<(Vec<BlockPlan>, Passage)> {
        let shapes: Vec<_> = items.iter().map(shape).collect();
        let (tail, next_size) = {
            let chain = self.chain.lock();
            (chain.links.back()?.pointer, chain.next_size())
        };
        let planned = place(&shapes, tail.lsize());
        let hold = self.engine.hold().ok()?;
        let passage = self.in_flight.enter(hold.txg());
        let mut pointers = vec![tail];
        let mut identity = Identity::of(&tail);
        for index in 1..=planned.len() {
            identity = identity.next();
            // The last is the new tail: what it will hold is a guess.
            let sizes = match planned.get(index) {
                Some(block) => [block.size; 2],
                None => [next_size, UNIT],
            };
            match self.allocate(sizes, identity, hold.txg()) {
                Some(pointer) => pointers.push(pointer),
                None => {
                    let mut chain = self.chain.lock();
                    chain.orphans.extend(pointers.into_iter().skip(1));
                    return None;
                }
            }
        }
        drop(hold);
        let blocks = self.link(items, planned, &pointers)?;
        Some((blocks, passage))
    }

    /// A block of the first size, or else of the second: a fragmented pool may still have room
    /// for small ones.
    fn allocate(&self, sizes: [u64; 2], identity: Identity, txg: Txg) -> Option<BlockPointer> {
        let set = self.objects.id();
        let take = |size| {
            self.pipeline
                .allocate_log_block(size, identity.0, txg, set)
                .ok()
        };
        take(sizes[0]).or_else(|| (sizes[1] < sizes[0]).then(|| take(sizes[1]))?)
    }

    /// Puts planned blocks into the chain.
    fn link(
        &self,
        items: &[Item],
        planned: Vec<Planned>,
        pointers: &[BlockPointer],
    ) -> Option<Vec<BlockPlan>> {
        let mut chain = self.chain.lock();
        if chain.stage != Stage::Live {
            chain.orphans.extend(pointers.iter().skip(1));
            return None;
        }
        let mut plans = Vec::with_capacity(planned.len());
        let mut burst = 0;
        let mut following = planned.len() as u64;
        for (block, pair) in planned.into_iter().zip(pointers.windows(2)) {
            let newest = block
                .pieces
                .iter()
                .filter_map(|piece| items.get(piece.item));
            let newest = newest.map(|item| item.txg).max().unwrap_or(Txg(0));
            if let Some(last) = chain.links.back_mut() {
                last.newest = newest;
            }
            chain.links.push_back(Link::unwritten(pair[1]));
            let first_record = chain.next_record;
            chain.next_record += block.pieces.len() as u64;
            following -= 1;
            let plan = BlockPlan {
                pointer: pair[0],
                next: pair[1],
                pieces: block.pieces,
                first_record,
                following,
            };
            burst += plan.bytes(items);
            plans.push(plan);
        }
        chain.note_burst(burst);
        Some(plans)
    }

    /// Allocates the first block of a chain: it is used from the time that the header with its
    /// pointer is on disk.
    fn begin_chain(&self) {
        if self.chain.lock().stage != Stage::None {
            return;
        }
        let Ok(hold) = self.engine.hold() else {
            return;
        };
        let random = [self.rng.next_u64(), self.rng.next_u64()];
        let identity = Identity::first(random, self.objects.id().0);
        let Some(pointer) = self.allocate([UNIT; 2], identity, hold.txg()) else {
            return;
        };
        let mut chain = self.chain.lock();
        if chain.stage != Stage::None || chain.winds_up || !self.commit_queue.lock().reset() {
            chain.orphans.push(pointer);
            return;
        }
        chain.links.push_back(Link::unwritten(pointer));
        chain.next_record = 1;
        chain.stage = Stage::Starting(hold.txg());
        drop(chain);
        (self.begins)();
    }

    /// Writes a batch and flushes; whether it is on the medium.
    fn write_and_flush(&self, batch: &Batch) -> bool {
        let start_ns = monotonic_ns();
        let count = i64::try_from(batch.blocks.len()).unwrap_or(0);
        self.meters.blocks_in_flight.add(count);
        let written = self.write(batch);
        let next_leader = self.commit_queue.lock().written();
        if let Some(next_leader) = next_leader
            && !self.appoint(&next_leader)
        {
            self.lead();
        }
        let durable = written.is_some_and(|vdevs| vdevs.into_iter().all(|vdev| self.flush(vdev)));
        self.meters.blocks_in_flight.add(-count);
        let device_ns = monotonic_ns().saturating_sub(start_ns);
        self.meters.wait_device_ns.record(device_ns);
        let mut chain = self.chain.lock();
        if durable {
            for block in &batch.blocks {
                chain.made_durable(&block.pointer);
            }
        } else {
            // Before anyone is released: who comes next must not build on these records.
            self.lose_records();
            if matches!(chain.stage, Stage::Live | Stage::Starting(_)) {
                chain.stage = Stage::Broken;
            }
        }
        durable
    }
}

/// Tells callers that they are done.
fn release(released: Released<Arc<Waiter>>) {
    for (waiter, durable) in released {
        waiter.tell(Notice::Done(durable));
    }
}
