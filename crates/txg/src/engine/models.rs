//! The engine under the model checker: threads that hold, reserve, wait, suspend and stop, in many orders. A lost
//! wake-up is a deadlock there. `cargo xtask ci models`; one order again: the seed that a failure prints, in
//! `MILLPOND_SEED`.

use std::sync::Arc;

use base::Txg;
use base::lock::{Condvar, LockClass, Mutex, rank};
use base::sync::atomic::{AtomicUsize, Ordering};
use base::sync::{check, thread};

use super::{Engine, SyncTarget};
use crate::Absence;
use crate::config::EngineConfig;
use crate::error::{SyncFailure, TxgError};

/// Checks that txgs sync in order, and none that somebody holds.
#[derive(Default)]
struct Watcher {
    synced: AtomicUsize,
    holders: [AtomicUsize; Txg::SLOTS],
}

impl SyncTarget for Watcher {
    fn sync(&self, txg: Txg) -> Result<(), SyncFailure> {
        assert_eq!(self.holders[txg.slot()].load(Ordering::SeqCst), 0);
        let before = self.synced.fetch_add(1, Ordering::SeqCst);
        assert_eq!(txg.0, Txg::INITIAL.0 + before as u64);
        Ok(())
    }
}

struct Model {
    engine: Arc<Engine>,
    watcher: Arc<Watcher>,
}

impl Model {
    fn start(config: EngineConfig) -> Self {
        let engine = Engine::new(config);
        let watcher = Arc::new(Watcher::default());
        engine.start(Arc::clone(&watcher) as Arc<dyn SyncTarget>);
        Self { engine, watcher }
    }

    fn spawn(
        &self,
        body: impl FnOnce(&Arc<Engine>, &Watcher) + Send + 'static,
    ) -> thread::JoinHandle<()> {
        let (engine, watcher) = (Arc::clone(&self.engine), Arc::clone(&self.watcher));
        thread::spawn(move || body(&engine, &watcher))
    }
}

static DONE: LockClass = LockClass::new("test.done", rank::LAST - 1);

/// Counts what is done, and waits for it: whoever looks again and again may keep the checker from everybody else.
struct Done {
    count: Mutex<usize>,
    changed: Condvar,
}

impl Done {
    fn new() -> Arc<Self> {
        Arc::new(Self {
            count: Mutex::new(&DONE, 0),
            changed: Condvar::new(),
        })
    }

    fn one(&self) {
        *self.count.lock() += 1;
        self.changed.notify_all();
    }

    fn wait(&self, count: usize) {
        let mut done = self.count.lock();
        while *done < count {
            self.changed.wait(&mut done);
        }
    }
}

/// Nothing closes by age.
fn untimed() -> EngineConfig {
    EngineConfig {
        timeout_ns: 3_600_000_000_000,
        ..EngineConfig::default()
    }
}

fn hold_for_a_moment(engine: &Arc<Engine>, watcher: &Watcher) {
    let Ok(hold) = engine.hold() else { return };
    let holders = &watcher.holders[hold.txg().slot()];
    holders.fetch_add(1, Ordering::SeqCst);
    holders.fetch_sub(1, Ordering::SeqCst);
    drop(hold);
}

/// The last holder of a txg that closes, or one that came too late, wakes the quiescer; whoever waits for the next
/// txg to open is woken as well.
#[test]
fn holders_and_closers_always_go_on() {
    check(|| {
        let model = Model::start(untimed());
        let holders: Vec<_> = (0..2)
            .map(|_| {
                model.spawn(|engine, watcher| {
                    hold_for_a_moment(engine, watcher);
                    hold_for_a_moment(engine, watcher);
                })
            })
            .collect();
        let closers = [1, 2].map(|times| {
            model.spawn(move |engine, _| {
                for _ in 0..times {
                    let before = engine.open_txg();
                    engine.wait_synced(None).expect("it syncs");
                    assert!(engine.synced_txg() >= before);
                }
            })
        });
        for thread in holders.into_iter().chain(closers) {
            thread.join().expect("no thread fails");
        }
        model.engine.stop();
    });
}

/// Whoever stops the engine while others hold, wait and reserve leaves nobody behind.
#[test]
fn a_stop_leaves_nobody_waiting() {
    check(|| {
        let model = Model::start(untimed());
        let threads = [
            model.spawn(hold_for_a_moment),
            model.spawn(|engine, _| {
                let _ = engine.wait_synced(None);
            }),
            model.spawn(|engine, _| {
                let _ = engine.wait_open(None);
            }),
        ];
        model.engine.stop();
        for thread in threads {
            thread.join().expect("no thread fails");
        }
        assert!(
            matches!(model.engine.hold().map(drop), Err(TxgError::Stopped))
                || !model.engine.holds.is_closed()
        );
    });
}

/// Reservations above the limit go on when what is dirty was written, and all that was reserved is returned.
#[test]
fn reservations_find_room_and_add_up() {
    const BYTES: u64 = 100;
    check(|| {
        let config = EngineConfig {
            dirty_bytes_max: BYTES + BYTES / 2,
            ..untimed()
        };
        let model = Model::start(config);
        let threads = [(); 3].map(|()| {
            model.spawn(|engine, _| {
                let mut credit = engine.reserve(BYTES).expect("there will be room");
                let hold = engine.hold().expect("it runs");
                credit.spend(hold.txg(), BYTES / 2);
            })
        });
        for thread in threads {
            thread.join().expect("no thread fails");
        }
        model.engine.wait_synced(None).expect("it syncs");
        let counts = model.engine.dirty_counts();
        assert_eq!(counts.total_bytes, 0);
        assert_eq!(counts.overrun_bytes, 0);
        assert!(counts.high_water_bytes <= counts.limit_bytes);
        model.engine.stop();
    });
}

/// Operations that leave instead of waiting all go on, whoever else reserves, and all that was reserved is returned.
#[test]
fn postponed_operations_all_go_on() {
    const BYTES: u64 = 100;
    fn change(engine: &Arc<Engine>) -> Result<(), TxgError> {
        let mut credit = engine.reserve(BYTES)?;
        let hold = engine.hold()?;
        credit.spend(hold.txg(), BYTES / 2);
        Ok(())
    }
    check(|| {
        let config = EngineConfig {
            dirty_bytes_max: BYTES + BYTES / 2,
            delay_scale_ns: 0,
            ..untimed()
        };
        let model = Model::start(config);
        let done = Done::new();
        let leaving = [(); 2].map(|()| {
            let done = Arc::clone(&done);
            model.spawn(move |engine, _| {
                let (result, postponed) = crate::without_waiting(|| change(engine));
                let Some(postponed) = postponed else {
                    result.expect("it had room");
                    done.one();
                    return;
                };
                let engine = Arc::clone(engine);
                // The thread that says so waits for nothing: others get from it what they were given.
                postponed.leave(move |admitted| {
                    thread::spawn(move || {
                        admitted.run(|| change(&engine)).expect("its turn has come");
                        done.one();
                    });
                });
            })
        });
        let waiting = model.spawn(|engine, _| change(engine).expect("there will be room"));
        for thread in leaving.into_iter().chain([waiting]) {
            thread.join().expect("no thread fails");
        }
        done.wait(2);
        model.engine.wait_synced(None).expect("it syncs");
        assert_eq!(model.engine.dirty_counts().total_bytes, 0);
        model.engine.stop();
    });
}

/// Who left when the engine ends is told.
#[test]
fn a_stop_tells_those_who_left() {
    check(|| {
        let config = EngineConfig {
            dirty_bytes_max: 100,
            delay_scale_ns: 0,
            ..untimed()
        };
        let model = Model::start(config);
        let full = model.engine.reserve(100).expect("it is idle");
        let told = Done::new();
        let leaving = {
            let told = Arc::clone(&told);
            model.spawn(move |engine, _| {
                let (result, postponed) = crate::without_waiting(|| engine.reserve(50).map(drop));
                match postponed {
                    Some(postponed) => postponed.leave(move |_| told.one()),
                    None => {
                        drop(result);
                        told.one();
                    }
                }
            })
        };
        model.engine.stop();
        leaving.join().expect("no thread fails");
        told.wait(1);
        drop(full);
    });
}

/// Who finds a device away goes on when it is back, if the engine is told so once; and that suspends nothing any more.
#[test]
fn who_finds_a_device_away_goes_on_when_it_is_back() {
    /// Reads as the pool does; on another thread again when the device is back.
    fn read(engine: &Arc<Engine>, is_away: &Arc<AtomicUsize>, done: &Arc<Done>, who: u64) {
        let (found, awaited) = crate::repeatable(|| {
            let mut before = None;
            loop {
                if is_away.load(Ordering::SeqCst) == 0 {
                    return true;
                }
                let Some(resumptions) = before.replace(engine.resumptions()) else {
                    continue;
                };
                match engine.await_devices("it is away", resumptions) {
                    Absence::Over => {}
                    Absence::Fails | Absence::Awaited { .. } => return false,
                }
            }
        });
        let Some(awaited) = awaited else {
            assert!(found, "it waits");
            done.one();
            return;
        };
        let (engine, is_away, done) = (Arc::clone(engine), Arc::clone(is_away), Arc::clone(done));
        awaited.leave(who, move || {
            thread::spawn(move || read(&engine, &is_away, &done, who));
        });
    }
    check(|| {
        let model = Model::start(untimed());
        let (is_away, done) = (Arc::new(AtomicUsize::new(1)), Done::new());
        let readers = [1, 2].map(|who| {
            let (is_away, done) = (Arc::clone(&is_away), Arc::clone(&done));
            model.spawn(move |engine, _| read(engine, &is_away, &done, who))
        });
        is_away.store(0, Ordering::SeqCst);
        model.engine.resume();
        for thread in readers {
            thread.join().expect("no thread fails");
        }
        done.wait(2);
        assert!(model.engine.suspension().is_none(), "nobody waits");
        model.engine.stop();
    });
}
