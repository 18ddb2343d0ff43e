use std::sync::atomic::{AtomicBool, Ordering};

use super::*;

const BLOCK: usize = 1 << 20;

fn key(number: u64) -> BlockKey {
    BlockKey {
        vdev: 0,
        offset: number << 20,
        birth: 7,
    }
}

/// One in which [`BriefStays`] may take eight blocks.
fn cache() -> Cache<u64> {
    let cache = Cache::new(64 * BLOCK);
    assert_eq!(tunables::BRIEF_SHARE.get(), 8);
    cache
}

fn there(cache: &Cache<u64>, numbers: std::ops::Range<u64>) -> Vec<u64> {
    numbers
        .filter(|&number| cache.contains(&key(number)))
        .collect()
}

#[test]
fn what_is_not_to_be_kept_leaves_in_the_order_in_which_it_came() {
    let cache = cache();
    cache.insert(key(100), 100, BLOCK, Stay::Long);
    for number in 0..20 {
        cache.insert(key(number), number, BLOCK, Stay::Brief);
        // That it is read does not keep it.
        assert_eq!(cache.get(&key(number)), Some(number));
    }
    assert_eq!(
        there(&cache, 0..200),
        (12..20).chain([100]).collect::<Vec<_>>()
    );
    // Nor that it comes back.
    cache.insert(key(0), 0, BLOCK, Stay::Brief);
    (20..28).for_each(|number| cache.insert(key(number), number, BLOCK, Stay::Brief));
    assert_eq!(
        there(&cache, 0..200),
        (20..28).chain([100]).collect::<Vec<_>>()
    );
    assert_eq!(cache.statistics().brief_stays, 29);
}

#[test]
fn the_newest_few_stay_whatever_they_weigh() {
    let cache = cache();
    for number in 0..9 {
        cache.insert(key(number), number, 4 * BLOCK, Stay::Brief);
    }
    assert_eq!(there(&cache, 0..9), [5, 6, 7, 8]);
}

#[test]
fn what_is_used_all_the_time_stays_beside_what_passes() {
    let cache = cache();
    cache.insert(key(100), 100, BLOCK, Stay::InUse);
    cache.insert(key(101), 101, BLOCK, Stay::InUse);
    for number in 0..40 {
        cache.insert(key(number), number, BLOCK, Stay::Brief);
        assert_eq!(cache.get(&key(100)), Some(100), "after {number}");
    }
    assert_eq!(cache.get(&key(101)), None);
    (40..60).for_each(|number| cache.insert(key(number), number, BLOCK, Stay::Brief));
    assert_eq!(cache.get(&key(100)), None, "it was left");
    // Uses hold nothing beyond the bound.
    for number in 0..40 {
        cache.insert(key(number), number, BLOCK, Stay::InUse);
        for number in 0..40 {
            let _ = cache.get(&key(number));
        }
    }
    assert!(there(&cache, 0..40).len() <= 8);
}

#[test]
fn what_was_read_to_its_end_leaves_at_once() {
    let cache = cache();
    for (number, stay) in [
        (1, Stay::Brief),
        (2, Stay::InUse),
        (3, Stay::Short),
        (4, Stay::Long),
    ] {
        cache.insert(key(number), number, BLOCK, stay);
        cache.end_brief_stay(&key(number));
    }
    assert_eq!(there(&cache, 0..5), [3, 4]);
    // What somebody wants to keep meanwhile is kept.
    cache.insert(key(5), 5, BLOCK, Stay::Brief);
    cache.insert(key(5), 6, BLOCK, Stay::Long);
    cache.end_brief_stay(&key(5));
    assert_eq!(cache.get(&key(5)), Some(6));
}

#[test]
fn who_waits_for_a_block_gets_it_also_where_it_does_not_stay() {
    let cache = Cache::new(0);
    let is_loading = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let loader = scope.spawn(|| {
            cache.get_or_load(
                key(1),
                || Stay::Brief,
                || {
                    is_loading.store(true, Ordering::Release);
                    while cache.statistics().shared_loads == 0 {
                        std::thread::yield_now();
                    }
                    Ok::<_, &str>((42, BLOCK))
                },
            )
        });
        while !is_loading.load(Ordering::Acquire) {
            std::thread::yield_now();
        }
        let waiter = cache.get_or_load(key(1), || Stay::Brief, || Err("loaded twice"));
        assert_eq!((waiter, loader.join().unwrap()), (Ok(42), Ok(42)));
    });
    assert_eq!(cache.get(&key(1)), None);
}
