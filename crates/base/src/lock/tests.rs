use super::*;

static OUTER: LockClass = LockClass::new("test.outer", 1);
static INNER: LockClass = LockClass::new("test.inner", 2);
static NEST: LockClass = LockClass::nesting("test.nest", 3);
static WATCHED: LockClass = LockClass::new("test.watched", 5).watched();
static SAMPLED: LockClass = LockClass::new("test.sampled", 6);
static COUNT: LockClass = LockClass::new("test.count", 4);

#[test]
fn ranks_may_only_rise() {
    let outer = Mutex::new(&OUTER, 1);
    let inner = RwLock::new(&INNER, 2);
    {
        let _a = outer.lock();
        let _b = inner.read();
    }
    let _b = inner.write();
    assert!(outer.try_lock().is_some(), "trying is exempt");
    if cfg!(debug_assertions) {
        let wrong = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            let _a = outer.lock();
        }));
        assert!(wrong.is_err());
    }
}

#[test]
fn a_nesting_class_may_be_held_twice() {
    let (a, b) = (Mutex::new(&NEST, ()), Mutex::new(&NEST, ()));
    let _first = a.lock();
    let _second = b.lock();
}

#[test]
fn acquisitions_and_waits_are_counted() {
    let lock = std::sync::Arc::new(Mutex::new(&COUNT, 0));
    let guard = lock.lock();
    let waiter = {
        let lock = std::sync::Arc::clone(&lock);
        std::thread::spawn(move || {
            *lock.lock() += 1;
            OwnWaits::now()
        })
    };
    while COUNT.counts().contended == 0 {
        std::thread::yield_now();
    }
    drop(guard);
    let waits = waiter.join().unwrap();
    assert_eq!((waits.count, waits.last), (1, Some(COUNT.name)));
    assert_eq!(OwnWaits::now().count, 0, "it was the other thread");
    assert_eq!(*lock.lock(), 1);
    assert_eq!(
        COUNT.counts(),
        LockCounts {
            acquisitions: 3,
            contended: 1
        }
    );
    assert_eq!(COUNT.wait_histogram().count(), 1);
}

#[test]
fn hold_times_are_measured_always_or_of_a_sample() {
    let (watched, sampled) = (Mutex::new(&WATCHED, ()), Mutex::new(&SAMPLED, ()));
    for _ in 0..64 {
        drop(watched.lock());
        drop(sampled.lock());
    }
    assert_eq!(WATCHED.hold_histogram().count(), 64);
    assert_eq!(SAMPLED.hold_histogram().count(), 1);
    let guard = watched.lock();
    std::thread::sleep(std::time::Duration::from_millis(5));
    drop(guard);
    assert!(WATCHED.hold_histogram().max >= 5_000_000);
}

#[test]
fn waiting_for_a_condition_is_no_holding() {
    static CLASS: LockClass = LockClass::new("test.waiting", 7).watched();
    let (lock, never) = (Mutex::new(&CLASS, ()), Condvar::new());
    let mut guard = lock.lock();
    let timed_out = never.wait_for(&mut guard, std::time::Duration::from_millis(300));
    drop(guard);
    assert!(timed_out);
    let holds = CLASS.hold_histogram();
    assert_eq!(holds.count(), 2);
    assert!(holds.max < 300_000_000, "{}", holds.max);
}
