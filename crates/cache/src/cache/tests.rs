use std::sync::Barrier;
use std::sync::atomic::AtomicU32;

use super::*;

const KEY: BlockKey = BlockKey {
    vdev: 1,
    offset: 4096,
    birth: 9,
};

#[test]
fn concurrent_misses_load_once() {
    let cache = Cache::new(1 << 20);
    let loads = AtomicU32::new(0);
    let barrier = Barrier::new(8);
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                barrier.wait();
                let value = cache.get_or_load(
                    KEY,
                    || Stay::Long,
                    || {
                        loads.fetch_add(1, Ordering::Relaxed);
                        std::thread::yield_now();
                        Ok::<_, ()>((42, 100))
                    },
                );
                assert_eq!(value, Ok(42));
            });
        }
    });
    assert_eq!(loads.load(Ordering::Relaxed), 1);
    let statistics = cache.statistics();
    assert_eq!((statistics.misses, statistics.blocks), (1, 1));
}

#[test]
fn a_failed_load_is_tried_again_by_the_next() {
    let cache = Cache::new(1 << 20);
    assert_eq!(
        cache.get_or_load(KEY, || Stay::Long, || Err("torn")),
        Err("torn")
    );
    assert_eq!(
        cache.get_or_load(KEY, || Stay::Long, || Ok::<_, &str>((1, 1))),
        Ok(1)
    );
    assert_eq!(
        cache.get_or_load(KEY, || Stay::Long, || Err("not asked")),
        Ok(1)
    );
}

#[test]
fn a_panicking_load_does_not_leave_waiters_behind() {
    let cache = Cache::<u32>::new(1 << 20);
    let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        let _ = cache.get_or_load(
            KEY,
            || Stay::Long,
            || -> Result<_, ()> { panic!("a bug elsewhere") },
        );
    }));
    assert!(result.is_err());
    assert_eq!(
        cache.get_or_load(KEY, || Stay::Long, || Ok::<_, ()>((3, 1))),
        Ok(3)
    );
}

#[test]
fn the_limit_can_shrink_to_nothing() {
    let cache = Cache::new(64 << 20);
    for number in 0..100 {
        cache.insert(
            BlockKey {
                offset: number << 17,
                ..KEY
            },
            number,
            128 << 10,
            Stay::Long,
        );
    }
    assert!(cache.statistics().bytes > 0);
    cache.set_limit(0);
    assert_eq!(
        (cache.statistics().bytes, cache.statistics().limit_bytes),
        (0, 0)
    );
}

#[test]
fn a_load_never_replaces_what_came_while_it_ran() {
    let cache = Cache::new(1 << 20);
    let loaded = cache.get_or_load(
        KEY,
        || Stay::Long,
        || {
            cache.insert(KEY, 2, 100, Stay::Long);
            Ok::<_, ()>((1, 100))
        },
    );
    assert_eq!(loaded, Ok(1), "it asked before");
    assert_eq!(cache.get(&KEY), Some(2));
}

#[test]
fn a_load_of_what_was_removed_meanwhile_leaves_nothing() {
    let cache = Cache::new(1 << 20);
    let loaded = cache.get_or_load(
        KEY,
        || Stay::Long,
        || {
            cache.remove(&KEY);
            Ok::<_, ()>((1, 100))
        },
    );
    assert_eq!((loaded, cache.get(&KEY)), (Ok(1), None));
    let loaded = cache.get_or_load(
        KEY,
        || Stay::Long,
        || {
            cache.clear();
            Ok::<_, ()>((1, 100))
        },
    );
    assert_eq!((loaded, cache.get(&KEY)), (Ok(1), None));
}

#[test]
fn who_asks_after_an_insert_gets_nothing_from_a_load_that_began_before() {
    let cache = Cache::new(1 << 20);
    let reservation = cache.reserve(KEY).unwrap();
    cache.insert(KEY, 2, 100, Stay::Long);
    // Pushed out again at once, as by others in a full cache: the load is not who to wait for.
    cache.remove(&KEY);
    let loaded = cache.get_or_load(KEY, || Stay::Long, || Ok::<_, ()>((3, 100)));
    assert_eq!(loaded, Ok(3));
    reservation.fill(1, 100, Stay::Long);
    assert_eq!(cache.get(&KEY), Some(3));
}

#[test]
fn to_forget_what_is_not_here_takes_no_lock() {
    let cache = Cache::new(1 << 20);
    let other = BlockKey {
        offset: 1 << 20,
        ..KEY
    };
    cache.insert(other, 1, 100, Stay::Long);
    let locked = cache.slot(&KEY).locked.lock();
    // One who wants the lock would wait for good.
    cache.remove(&KEY);
    drop(locked);
    assert_eq!(cache.get(&other), Some(1));
    cache.remove(&other);
    assert_eq!((cache.get(&other), cache.statistics().blocks), (None, 0));
}
