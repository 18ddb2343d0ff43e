use super::{Failure, Ran, run};
use crate::clock::{Clock, SystemClock, monotonic_ns, real_now, since};
use crate::lock::{Condvar, LockClass, Mutex, RwLock, rank};
use crate::queue::Bounded;
use crate::thread::{self, Role};
use crate::thread_pool::ThreadPool;
use std::cell::RefCell;
use std::sync::Arc;
use std::time::{Duration, Instant};

static LIST: LockClass = LockClass::new("test.list", rank::LAST);
static FIRST: LockClass = LockClass::nesting("test.first", rank::LAST + 1);
static TABLE: LockClass = LockClass::new("test.table", rank::LAST + 2);

fn part() -> thread::Start {
    thread::named("part", Role::PART)
}

/// In which order four threads come to a list.
fn orders(seed: u64) -> Ran<Vec<usize>> {
    let ran = run(seed, || {
        let list = Mutex::new(&LIST, Vec::new());
        thread::scope(|scope| {
            for thread in 0..4 {
                let list = &list;
                let body = move || (0..20).for_each(|_| list.lock().push(thread));
                part().spawn_scoped(scope, body).expect("a thread");
            }
        });
        list.into_inner()
    });
    ran.expect("it ends")
}

#[test]
fn a_seed_is_an_order() {
    for seed in 0..20 {
        let (one, again) = (orders(seed), orders(seed));
        assert_eq!(one, again, "seed {seed}");
        assert_eq!(one.value.len(), 80);
    }
    let mut different: Vec<_> = (0..20).map(|seed| orders(seed).value).collect();
    different.sort();
    different.dedup();
    assert!(different.len() > 15, "{} of 20 orders", different.len());
}

#[test]
fn time_passes_when_all_wait() {
    const HOUR: Duration = Duration::from_secs(3600);
    let begun = Instant::now();
    let ran = run(1, || {
        let (since_ns, moment, day) = (monotonic_ns(), real_now(), SystemClock.now());
        let sleeper = part().spawn(|| thread::sleep(HOUR)).expect("a thread");
        let lock = Mutex::new(&LIST, ());
        assert!(Condvar::new().wait_for(&mut lock.lock(), HOUR / 2));
        let until = real_now() + HOUR / 4;
        assert!(Condvar::new().wait_until(&mut lock.lock(), until));
        assert!(since(moment) >= HOUR / 4 * 3 && since(moment) < HOUR);
        sleeper.join().expect("it sleeps");
        assert!(monotonic_ns() - since_ns >= 3_600_000_000_000);
        assert!(SystemClock.now() - day >= 3_600_000_000_000);
    });
    assert!(ran.expect("it ends").virtual_ns < 3_601_000_000_000);
    assert!(begun.elapsed() < HOUR / 60);
}

#[test]
fn a_lock_is_one_threads() {
    for seed in 0..10 {
        let ran = run(seed, || {
            let count = RwLock::new(&TABLE, 0);
            thread::scope(|scope| {
                for _ in 0..4 {
                    let body = || {
                        for _ in 0..10 {
                            let mut guard = count.write();
                            let before = *guard;
                            thread::sleep(Duration::from_millis(1));
                            *guard = before + 1;
                        }
                        assert!(*count.read() >= 10);
                    };
                    part().spawn_scoped(scope, body).expect("a thread");
                }
            });
            count.into_inner()
        });
        assert_eq!(ran.expect("it ends").value, 40, "seed {seed}");
    }
}

#[test]
fn queues_and_thread_pools_take_turns() {
    for seed in 0..10 {
        let ran = run(seed, || {
            let pool = ThreadPool::new(("pool", Role::PART), 3, Bounded::new("test", 8));
            let results = Arc::new(Bounded::new("results", 2));
            for number in 0..8 {
                let results = Arc::clone(&results);
                let job = Box::new(move || results.push_wait(number).expect("it is open"));
                assert!(pool.run(job).is_ok());
            }
            (0..8).filter_map(|_| results.pop()).sum::<i32>()
        });
        assert_eq!(ran.expect("it ends").value, 28, "seed {seed}");
    }
}

/// Two threads that take two locks in opposite orders: some seeds let both have their first.
#[test]
fn a_deadlock_says_what_everybody_waits_for() {
    let outcomes: Vec<_> = (0..40)
        .map(|seed| {
            let ran = run(seed, || {
                let locks = Arc::new([Mutex::new(&FIRST, ()), Mutex::new(&FIRST, ())]);
                let threads = [0, 1].map(|first| {
                    let locks = Arc::clone(&locks);
                    let body = move || {
                        let _one = locks[first].lock();
                        let _other = locks[1 - first].lock();
                    };
                    thread::named(format!("from{first}"), Role::PART).spawn(body)
                });
                for thread in threads {
                    thread.expect("a thread").join().expect("no thread fails");
                }
            });
            ran.map(drop)
        })
        .collect();
    let deadlocks = outcomes.iter().filter_map(|outcome| outcome.as_ref().err());
    let deadlocks: Vec<_> = deadlocks.map(ToString::to_string).collect();
    println!("{}", deadlocks[0]);
    assert!(deadlocks.len() < outcomes.len());
    for report in deadlocks {
        assert!(report.contains("(from0) waits for a lock test.first"));
        assert!(report.contains("(from1) waits for a lock test.first"));
        assert!(report.contains("(first) waits for the end of thread 1 (from0)"));
    }
}

#[test]
fn a_lost_notification_is_a_deadlock() {
    let ran = run(3, || {
        let lock = Mutex::new(&LIST, ());
        Condvar::new().wait(&mut lock.lock());
    });
    let Err(Failure::Deadlock(report)) = ran else {
        panic!("{ran:?}");
    };
    assert!(report.contains("waits to be told"), "{report}");
    assert!(report.contains("with a lock test.list"), "{report}");
}

#[test]
fn threads_that_nobody_ends_are_told() {
    let ran = run(3, || {
        let body = || {
            loop {
                thread::sleep(Duration::from_secs(1));
            }
        };
        part().spawn(body).expect("a thread");
    });
    let Err(Failure::Deadlock(report)) = ran else {
        panic!("{ran:?}");
    };
    assert!(report.starts_with("nobody ends these threads"), "{report}");
}

#[test]
fn a_panic_is_told() {
    let ran = run(3, || panic!("on {}", "purpose"));
    assert_eq!(ran, Err(Failure::Panicked("on purpose".to_owned())));
}

/// Also where it leaves somebody behind who waits for ever.
#[test]
fn a_panic_is_told_before_what_it_left_undone() {
    let ran = run(3, || {
        let body = || {
            let lock = Mutex::new(&LIST, ());
            Condvar::new().wait(&mut lock.lock());
        };
        part().spawn(body).expect("a thread");
        panic!("first");
    });
    let ran: Result<Ran<()>, _> = ran;
    assert_eq!(ran, Err(Failure::Panicked("first".to_owned())));
}

/// What a thread leaves behind is dropped in its last turn, and who waits for its end comes after.
#[test]
fn thread_local_values_go_in_turn() {
    struct Told(Arc<Mutex<Vec<usize>>>, usize);
    impl Drop for Told {
        fn drop(&mut self) {
            self.0.lock().push(self.1);
        }
    }
    thread_local! {
        static OWN: RefCell<Option<Told>> = const { RefCell::new(None) };
    }
    for seed in 0..20 {
        let ran = run(seed, || {
            let list = Arc::new(Mutex::new(&LIST, Vec::new()));
            for number in 0..5 {
                let list = Arc::clone(&list);
                let body = move || OWN.set(Some(Told(list, number)));
                let thread = part().spawn(body).expect("a thread");
                thread.join().expect("no thread fails");
            }
            list.lock().clone()
        });
        assert_eq!(ran.expect("it ends").value, [0, 1, 2, 3, 4], "seed {seed}");
    }
}

/// Threads outside keep their own clock, and use locks as ever, while there is a schedule.
#[test]
fn threads_outside_are_left_alone() {
    let list = Arc::new(Mutex::new(&LIST, 0));
    let outside = {
        let list = Arc::clone(&list);
        std::thread::spawn(move || {
            for _ in 0..1000 {
                *list.lock() += 1;
            }
            monotonic_ns()
        })
    };
    let ran = run(5, || thread::sleep(Duration::from_secs(100_000_000)));
    ran.expect("it ends");
    assert!(outside.join().expect("it ends") < 100_000_000_000_000_000);
    assert_eq!(*list.lock(), 1000);
}
