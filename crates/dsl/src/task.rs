//! Sync tasks: every change of the tree of datasets.
//!
//! A task is queued in the open txg and runs when that txg syncs: first its check, which changes
//! nothing and may refuse, then its change. Tasks of one txg run one after the other, each seeing
//! what those before it did. The caller waits until the txg is on disk.
//!
//! A change that fails is undone and nothing else: the objects that it changed, what it changed in
//! core, the blocks that it wrote; what it freed was only noted ([`Services::begin_task`](crate::Services)).
//! The txg goes on, and the caller is told.

mod blocks;
mod queue;

use std::sync::Arc;

use base::lock::{LockClass, Mutex, rank};
use dmu::Tx;

use crate::actor::Actor;
use crate::error::{DslError, Result};
use crate::layer::Dsl;
use crate::services::{HistoryEvent, SpaceClass, SyncPass};
use blocks::Written;
use queue::QueuedTask;
pub(crate) use queue::TaskQueue;

static ANSWER: LockClass = LockClass::new("dsl.task_answer", rank::LAST + 4);
static QUEUED: LockClass = LockClass::new("dsl.queued_task", rank::LAST + 11);

/// What a task works with.
pub struct TaskContext<'a> {
    /// The dataset layer.
    pub dsl: &'a Arc<Dsl>,
    /// The transaction of syncing context.
    pub tx: &'a Tx,
    /// The pass under way.
    pub pass: &'a SyncPass<'a>,
    /// On whose behalf.
    pub actor: &'a Actor,
}

impl TaskContext<'_> {
    /// Writes an internal event into the history.
    pub(crate) fn record(&self, event: &HistoryEvent<'_>) -> Result<()> {
        Ok(self.dsl.services().record_history(self.tx, event)?)
    }
}

/// A change of the tree of datasets.
pub trait Task: Send {
    /// What the caller gets.
    type Output: Send + 'static;

    /// Whether the change is possible now. Changes nothing.
    ///
    /// # Errors
    /// Why not.
    fn check(&mut self, context: &TaskContext<'_>) -> Result<()>;

    /// Makes the change, with the context's transaction alone.
    ///
    /// # Errors
    /// What cannot be read or written, and could not be foreseen: what was changed is undone.
    fn apply(&mut self, context: &TaskContext<'_>) -> Result<Self::Output>;

    /// Whether its last change was all of it. What is longer than a txg should take goes on in the next one: from its
    /// check on, if any other task ran in between; otherwise what was checked is still so, and its change goes on.
    fn is_finished(&self) -> bool {
        true
    }

    /// How far into the last space it may go.
    fn space(&self) -> SpaceClass {
        SpaceClass::Reserved
    }
}

/// How a task ended.
enum Ended<T: Task> {
    /// With this result.
    Done(Result<T::Output>),
    /// Not yet: it belongs into a later txg. With the stamp up to which its check holds, if it got so far.
    Again(T, Option<u64>),
}

type Answer<T> = Arc<Mutex<Option<Ended<T>>>>;

/// A task until it begins, or until who queued it gives it up.
type Waiting<T> = Arc<Mutex<Option<T>>>;

struct Queued<T: Task> {
    task: Waiting<T>,
    /// The stamp at which its check is known to hold.
    checked: Option<u64>,
    actor: Actor,
    answer: Answer<T>,
}

impl<T: Task> QueuedTask<Dsl> for Queued<T> {
    fn run(&mut self, dsl: &Arc<Dsl>, pass: &SyncPass<'_>) {
        let Some(mut task) = self.task.lock().take() else {
            return;
        };
        let admitted = dsl.admit(task.space());
        let done = admitted.and_then(|()| dsl.attempt(&mut task, self.checked, pass, &self.actor));
        *self.answer.lock() = Some(match done {
            Err(DslError::Again { .. }) => Ended::Again(task, None),
            Ok(_) if !task.is_finished() => Ended::Again(task, Some(dsl.stamp())),
            done => Ended::Done(done),
        });
    }
}

impl Dsl {
    /// Runs a task and waits until its txg is on disk. The caller must not hold a transaction.
    ///
    /// # Errors
    /// Why the task is not possible; or the engine ended or is suspended: then the task is not begun any more, but one
    /// whose change is made is on disk when the engine goes on.
    pub fn run<T: Task + 'static>(&self, task: T) -> Result<T::Output> {
        self.run_as(&Actor::administrator(), task)
    }

    /// Runs a task on somebody's behalf: limits hold for who may not change them, and what is
    /// granted to creators becomes theirs.
    ///
    /// # Errors
    /// As [`Dsl::run`]. Whether `actor` may do it at all is the caller's concern.
    pub fn run_as<T: Task + 'static>(&self, actor: &Actor, task: T) -> Result<T::Output> {
        self.mos.require_writable()?;
        let engine = self.engine.as_ref().ok_or(DslError::ReadOnly)?;
        let (mut task, mut checked) = (task, None);
        loop {
            let answer: Answer<T> = Arc::new(Mutex::new(&ANSWER, None));
            let waiting: Waiting<T> = Arc::new(Mutex::new(&QUEUED, Some(task)));
            let hold = engine.hold()?;
            let txg = hold.txg();
            let queued = Queued {
                task: Arc::clone(&waiting),
                checked,
                actor: actor.clone(),
                answer: Arc::clone(&answer),
            };
            self.tasks.push(txg, Box::new(queued));
            drop(hold);
            if let Err(error) = engine.wait_synced(Some(txg)) {
                // Who is told that it failed does not reckon with it later.
                drop(waiting.lock().take());
                return Err(error.into());
            }
            let ended = answer.lock().take();
            match ended {
                Some(Ended::Done(result)) => return result,
                Some(Ended::Again(later, stamp)) => (task, checked) = (later, stamp),
                None => return Err(DslError::ReadOnly),
            }
        }
    }

    /// Runs the tasks of the pass's txg. Called once a txg, after heads and the pool's own object
    /// set were written.
    pub(crate) fn run_tasks(self: &Arc<Self>, pass: &SyncPass<'_>) {
        for mut task in self.tasks.take(pass.txg) {
            let _tree = self.tree.write();
            task.run(self, pass);
        }
    }

    /// Checks a task, unless nothing changed since it was `checked`, and makes its change, or leaves all as it was.
    fn attempt<T: Task>(
        self: &Arc<Self>,
        task: &mut T,
        checked: Option<u64>,
        pass: &SyncPass<'_>,
        actor: &Actor,
    ) -> Result<T::Output> {
        let tx = Tx::staged(pass.txg, self.mos.set.id());
        let written = Written::new(pass);
        let pass = &SyncPass {
            writers: &written,
            ..*pass
        };
        let context = TaskContext {
            dsl: self,
            tx: &tx,
            pass,
            actor,
        };
        // Should a device not answer now, the task fails; if it waited for the device and went on later, nobody would
        // reckon with it any more.
        let impatient = txg::SyncContext::enter_task();
        if checked != Some(self.stamp()) {
            task.check(&context)?;
        }
        let services = self.services();
        services.begin_task();
        let done = task.apply(&context);
        drop(impatient);
        // Before live copies are forgotten, too: what was loaded until now is not entered any more.
        self.new_stamp();
        if done.is_ok() {
            tx.keep();
        } else {
            drop(tx);
            self.mos.dead_keys.forget_all();
        }
        self.new_stamp();
        self.follow_primary_cache();
        services.end_task(pass.txg, done.is_ok());
        if done.is_err() {
            written.free(services);
        }
        done
    }

    /// Runs one task at once, in a txg that is being synced: for whoever builds a pool.
    ///
    /// # Errors
    /// The task is not possible, or failed and was undone.
    pub fn run_now<T: Task>(
        self: &Arc<Self>,
        mut task: T,
        pass: &SyncPass<'_>,
    ) -> Result<T::Output> {
        let mut checked = None;
        loop {
            let done = self.attempt(&mut task, checked, pass, &Actor::administrator())?;
            if task.is_finished() {
                return Ok(done);
            }
            checked = Some(self.stamp());
        }
    }

    /// Refuses when the pool's space of a class is used up.
    fn admit(&self, class: SpaceClass) -> Result<()> {
        if class == SpaceClass::Unlimited {
            return Ok(());
        }
        let used = self.root_directory()?.phys()?.used_bytes;
        if used >= self.services().usable_bytes(class) {
            return Err(DslError::NoSpace);
        }
        Ok(())
    }
}
