//! What the service must know of each change of a pool.
//!
//! A change is a type of [`admin::changes`], as it travels. It has a file of its own here, or one
//! that a family shares, which says who may make it, what becomes of it on a suspended pool,
//! whether the history records it, and what it does.

mod abort_receive;
mod bookmark;
mod checkpoint;
mod clear;
mod clone;
mod create;
mod delegate;
pub(super) mod destroy;
mod devices;
mod disks;
mod end;
mod hold;
mod initialize;
mod keys;
mod mount;
mod pool_change;
mod pool_properties;
mod program;
mod promote;
mod properties;
mod redact;
mod rename;
mod reopen;
mod rollback;
mod scrub;
mod snapshot;
mod split;
mod sync;
mod tables;
#[cfg(test)]
mod tests;
mod trim;
mod upgrade;
mod vdev_properties;

use admin::{Caller, Change, Failure, FailureKind};
use base::lock::MutexGuard;
use dsl::Actor;

use super::Service;
use super::delegation::actor_of;
use super::reporter::Reporter;
use pool_change::{PoolChange, Recorded, Turn, WhileSuspended};

/// The change as the service sees it: the only place that tells them apart.
fn as_pool_change(change: &Change) -> &dyn PoolChange {
    match change {
        Change::Create(change) => change,
        Change::Destroy(change) => change,
        Change::Snapshot(change) => change,
        Change::Rollback(change) => change,
        Change::Clone(change) => change,
        Change::Promote(change) => change,
        Change::Rename(change) => change,
        Change::Set(change) => change,
        Change::Inherit(change) => change,
        Change::Mount(change) => change,
        Change::Unmount(change) => change,
        Change::LoadKey(change) => change,
        Change::UnloadKey(change) => change,
        Change::ChangeKey(change) => change,
        Change::Hold(change) => change,
        Change::Release(change) => change,
        Change::Bookmark(change) => change,
        Change::Redact(change) => change,
        Change::AbortReceive(change) => change,
        Change::Delegate(change) => change,
        Change::SetPool(change) => change,
        Change::SetVdev(change) => change,
        Change::Upgrade(change) => change,
        Change::Scrub(change) => change,
        Change::WaitScrub => &scrub::WaitScrub,
        Change::Trim(change) => change,
        Change::WaitTrim(change) => change,
        Change::Initialize(change) => change,
        Change::WaitInitialize(change) => change,
        Change::Sync => &sync::SyncPool,
        Change::Clear(change) => change,
        Change::AddVdevs(change) => change,
        Change::CheckVdevs(change) => change,
        Change::RemoveVdevs(change) => change,
        Change::AttachDevice(change) => change,
        Change::DetachDevice(change) => change,
        Change::Split(change) => change,
        Change::OfflineDevices(change) => change,
        Change::OnlineDevices(change) => change,
        Change::ReopenDevices(change) => change,
        Change::PruneDedup(change) => change,
        Change::PrefetchTables(change) => change,
        Change::RestartResilver => &reopen::RestartResilver,
        Change::Reguid(change) => change,
        Change::Checkpoint(change) => change,
        Change::Program(change) => change,
        Change::Export(change) => change,
        Change::DestroyPool(change) => change,
    }
}

impl Service {
    /// Does a change; what it says goes to `reporter`.
    pub(super) fn execute(
        &self,
        change: &Change,
        caller: &Caller,
        command: &str,
        reporter: &mut Reporter<'_>,
    ) -> Result<(), Failure> {
        let change = as_pool_change(change);
        let actor = actor_of(caller);
        self.authorize(&actor, change)?;
        self.check_running(change.while_suspended())?;
        let (_one_at_a_time, _running) = match change.turn() {
            Turn::Beside => (None, None),
            Turn::Alone => {
                let turn = self.changes.lock();
                // What is granted, and what it is granted for, may have changed meanwhile.
                self.authorize(&actor, change)?;
                *self.acting.lock() = actor;
                (Some(turn), None)
            }
            Turn::InSteps(what) => {
                reporter.set_actor(actor);
                (None, Some(self.streams.begin(what, reporter.stop())?))
            }
        };
        let recorded = change.recorded();
        if recorded == Recorded::Before {
            self.record(caller, command);
        }
        change.apply(self, reporter)?;
        self.update_register();
        if recorded == Recorded::After {
            self.record(caller, command);
        }
        Ok(())
    }

    /// Does a change as a part of another request, which has its turn and records itself.
    pub(super) fn change_within(
        &self,
        actor: &Actor,
        change: &Change,
        reporter: &mut Reporter<'_>,
    ) -> Result<(), Failure> {
        let change = as_pool_change(change);
        self.authorize(actor, change)?;
        change.apply(self, reporter)
    }

    /// Takes a turn of a change that goes in steps: waits for it as long as its client is there, and the pool is not
    /// about to be closed.
    fn turn_of(
        &self,
        change: &dyn PoolChange,
        reporter: &Reporter<'_>,
    ) -> Result<MutexGuard<'_, ()>, Failure> {
        let turn = self.turn_while(reporter.actor(), &mut || reporter.check());
        let turn = turn.map_err(|ended| Failure::new(FailureKind::Busy, ended.to_string()))?;
        self.authorize(reporter.actor(), change)?;
        Ok(turn)
    }

    /// Refuses what the caller may not. Root and the daemon's own user may everything, others what
    /// is granted to them.
    fn authorize(&self, actor: &Actor, change: &dyn PoolChange) -> Result<(), Failure> {
        if actor.privileged {
            return Ok(());
        }
        change.authorize(self, actor)
    }

    /// Refuses what is no change of its own while the pool is suspended.
    pub(super) fn refuse_suspended(&self, verb: &'static str, name: &str) -> Result<(), Failure> {
        let name = Some(name);
        self.check_running(WhileSuspended::Refused { verb, name })
    }

    /// Refuses at once what a suspended pool could only wait for.
    fn check_running(&self, change: WhileSuspended<'_>) -> Result<(), Failure> {
        let pool = self.dsl.pool_name();
        let (verb, name) = match change {
            WhileSuspended::Goes => return Ok(()),
            WhileSuspended::Refused { verb, name } => (verb, name.unwrap_or(&pool)),
            WhileSuspended::ForcedOnly { verb } => (verb, pool.as_str()),
        };
        let Some(reason) = self.pool.suspended() else {
            return Ok(());
        };
        if self.pool.stopped().is_some() {
            let text = "the pool has stopped";
            let failure = Failure::cannot(FailureKind::Medium, verb, name, text).because(reason);
            return Err(failure.advise(format!(
                "see 'zpool status {pool}': copy what is newer than what is on disk, then run 'zpool export -f {pool}' \
                 and import the pool"
            )));
        }
        let text = "pool I/O is currently suspended";
        let failure = Failure::cannot(FailureKind::Medium, verb, name, text).because(reason);
        Err(match change {
            WhileSuspended::ForcedOnly { verb } => failure.advise(format!(
                "repair the devices and run 'zpool clear {pool}', or give up what is not on disk: \
                 'zpool {verb} -f {pool}'"
            )),
            WhileSuspended::Goes | WhileSuspended::Refused { .. } => {
                failure.advise(format!("repair the devices, then run 'zpool clear {pool}'"))
            }
        })
    }

    /// Notes a command line in the pool's history.
    pub(super) fn record(&self, caller: &Caller, command: &str) {
        if command.is_empty() {
            return;
        }
        let host_name = pool::Host::current().name;
        self.pool.log_history(
            command,
            &pool::Actor {
                user_id: u64::from(caller.uid),
                host_name,
            },
        );
    }
}
