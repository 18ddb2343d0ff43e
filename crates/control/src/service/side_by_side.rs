//! The same done with many things by several threads.

use std::sync::atomic::{AtomicUsize, Ordering};

use base::thread;

/// What `work` makes of each item, in their order; up to so many at a time. The calling thread is one of those that
/// work, and the only one where the system gives no others; those have this name.
pub(crate) fn side_by_side<T: Sync, R: Send>(
    name: &'static str,
    items: &[T],
    width: usize,
    work: impl Fn(&T) -> R + Sync,
) -> Vec<R> {
    let next = AtomicUsize::new(0);
    let part = || {
        let mut done = Vec::new();
        loop {
            let at = next.fetch_add(1, Ordering::Relaxed);
            let Some(item) = items.get(at) else {
                return done;
            };
            done.push((at, work(item)));
        }
    };
    let mut done = thread::scope(|scope| {
        let others = width.min(items.len()).saturating_sub(1);
        let others: Vec<_> = (0..others)
            .map_while(|_| {
                let start = thread::named(name, thread::Role::PART);
                start.spawn_scoped(scope, part).ok()
            })
            .collect();
        let mut done = part();
        for other in others {
            match other.join() {
                Ok(part) => done.extend(part),
                Err(panic) => std::panic::resume_unwind(panic),
            }
        }
        done
    });
    done.sort_unstable_by_key(|(at, _)| *at);
    done.into_iter().map(|(_, result)| result).collect()
}

#[cfg(test)]
mod tests {
    use super::side_by_side;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::time::Duration;

    #[test]
    fn results_are_in_order_and_no_more_work_than_may() {
        let items: Vec<u64> = (0..100).collect();
        let (now, most) = (AtomicUsize::new(0), AtomicUsize::new(0));
        let work = |item: &u64| {
            let here = now.fetch_add(1, Ordering::SeqCst) + 1;
            most.fetch_max(here, Ordering::SeqCst);
            std::thread::sleep(Duration::from_micros(200 * (item % 7)));
            now.fetch_sub(1, Ordering::SeqCst);
            item * 2
        };
        let doubled = side_by_side("test", &items, 4, work);
        assert_eq!(doubled, (0..100).map(|item| item * 2).collect::<Vec<_>>());
        assert!((2..=4).contains(&most.load(Ordering::SeqCst)));
        most.store(0, Ordering::SeqCst);
        side_by_side("test", &items[..10], 1, work);
        assert_eq!(most.load(Ordering::SeqCst), 1);
        assert!(side_by_side("test", &items[..0], 4, work).is_empty());
    }
}
