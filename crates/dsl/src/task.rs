//! Sync tasks: every change of the tree of datasets.
//!
//! A task is queued in the open txg and runs when that txg syncs: first its check, which changes
//! nothing and may refuse, then its change, which must succeed. Tasks of one txg run one after the
//! other, each seeing what those before it did. The caller waits until the txg is on disk.

use std::sync::Arc;

use base::Txg;
use base::lock::{LockClass, Mutex, rank};
use dmu::Tx;

use crate::delegation::Actor;
use crate::error::{DslError, Result};
use crate::layer::Dsl;
use crate::services::{HistoryEvent, SpaceClass, SyncPass};

static TASKS: LockClass = LockClass::new("dsl.tasks", rank::LAST + 3);
static ANSWER: LockClass = LockClass::new("dsl.task_answer", rank::LAST + 4);

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

    /// Makes the change.
    ///
    /// # Errors
    /// Only what makes the txg impossible to write.
    fn apply(&mut self, context: &TaskContext<'_>) -> Result<Self::Output>;

    /// How far into the last space it may go.
    fn space(&self) -> SpaceClass {
        SpaceClass::Reserved
    }
}

/// How a task ended.
enum Ended<T: Task> {
    /// With this result.
    Done(Result<T::Output>),
    /// Not yet: it belongs into a later txg.
    Again(T),
}

type Answer<T> = Arc<Mutex<Option<Ended<T>>>>;

struct Queued<T: Task> {
    task: Option<T>,
    actor: Actor,
    answer: Answer<T>,
}

trait AnyTask: Send {
    fn run(&mut self, context: &TaskContext<'_>) -> Result<()>;
}

impl<T: Task> AnyTask for Queued<T> {
    fn run(&mut self, context: &TaskContext<'_>) -> Result<()> {
        let Some(mut task) = self.task.take() else {
            return Ok(());
        };
        let context = &TaskContext {
            actor: &self.actor,
            ..*context
        };
        let possible = context
            .dsl
            .admit(task.space())
            .and_then(|()| task.check(context));
        let ended = match possible {
            Err(DslError::Again { .. }) => Ended::Again(task),
            Err(refusal) => Ended::Done(Err(refusal)),
            Ok(()) => {
                let done = task.apply(context)?;
                context.dsl.new_stamp();
                Ended::Done(Ok(done))
            }
        };
        *self.answer.lock() = Some(ended);
        Ok(())
    }
}

/// The tasks of the txgs in flight.
pub(crate) struct TaskQueue {
    slots: Mutex<[Vec<Box<dyn AnyTask>>; Txg::SLOTS]>,
}

impl TaskQueue {
    pub(crate) fn new() -> Self {
        Self {
            slots: Mutex::new(&TASKS, Default::default()),
        }
    }

    pub(crate) fn is_empty(&self, txg: Txg) -> bool {
        self.slots.lock()[txg.slot()].is_empty()
    }
}

impl Dsl {
    /// Runs a task and waits until its txg is on disk. The caller must not hold a transaction.
    ///
    /// # Errors
    /// Why the task is not possible, or the engine ended.
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
        let mut task = task;
        loop {
            let answer: Answer<T> = Arc::new(Mutex::new(&ANSWER, None));
            let hold = engine.hold()?;
            let txg = hold.txg();
            let queued = Queued {
                task: Some(task),
                actor: actor.clone(),
                answer: Arc::clone(&answer),
            };
            self.tasks.slots.lock()[txg.slot()].push(Box::new(queued));
            drop(hold);
            engine.wait_synced(Some(txg))?;
            let ended = answer.lock().take();
            match ended {
                Some(Ended::Done(result)) => return result,
                Some(Ended::Again(later)) => task = later,
                None => return Err(DslError::ReadOnly),
            }
        }
    }

    /// Runs the tasks of the pass's txg. Called once a txg, after heads and the pool's own object
    /// set were written; true when there were any.
    ///
    /// # Errors
    /// A task broke off: the txg must not complete.
    pub(crate) fn run_tasks(self: &Arc<Self>, pass: &SyncPass<'_>) -> Result<bool> {
        let tasks = std::mem::take(&mut self.tasks.slots.lock()[pass.txg.slot()]);
        let any = !tasks.is_empty();
        let tx = Tx::syncing(pass.txg);
        let actor = Actor::administrator();
        let context = TaskContext {
            dsl: self,
            tx: &tx,
            pass,
            actor: &actor,
        };
        for mut task in tasks {
            let _tree = self.tree.write();
            task.run(&context)?;
        }
        Ok(any)
    }

    /// Runs one task at once, in a txg that is being synced: for whoever builds a pool.
    ///
    /// # Errors
    /// The task is not possible, or broke off.
    pub fn run_now<T: Task>(
        self: &Arc<Self>,
        mut task: T,
        pass: &SyncPass<'_>,
    ) -> Result<T::Output> {
        let tx = Tx::syncing(pass.txg);
        let actor = Actor::administrator();
        let context = TaskContext {
            dsl: self,
            tx: &tx,
            pass,
            actor: &actor,
        };
        task.check(&context)?;
        let done = task.apply(&context)?;
        self.new_stamp();
        Ok(done)
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
