use super::*;

static OUTER: LockClass = LockClass::new("test.outer", 1);
static INNER: LockClass = LockClass::new("test.inner", 2);
static NEST: LockClass = LockClass::nesting("test.nest", 3);
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
        std::thread::spawn(move || *lock.lock() += 1)
    };
    while COUNT.counts().contended == 0 {
        std::thread::yield_now();
    }
    drop(guard);
    waiter.join().unwrap();
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
