use super::*;

#[test]
fn full_queue_gives_the_item_back() {
    let queue = Bounded::new("test.full", 2);
    assert_eq!(queue.push(1), Ok(()));
    assert_eq!(queue.push(2), Ok(()));
    assert_eq!(queue.push(3), Err(3));
    assert_eq!(
        (queue.depth(), queue.high_water(), queue.refused()),
        (2, 2, 1)
    );
    assert_eq!(queue.pop(), Some(1));
    queue.close();
    assert_eq!(queue.push(4), Err(4));
    assert_eq!(queue.pop(), Some(2));
    assert_eq!(queue.pop(), None);
}

#[test]
fn items_cross_threads_in_order() {
    let queue = Arc::new(Bounded::new("test.threads", 4));
    let producer = {
        let queue = Arc::clone(&queue);
        std::thread::spawn(move || {
            for i in 0..1000 {
                queue.push_wait(i).unwrap();
            }
            queue.close();
        })
    };
    let mut seen = Vec::new();
    while let Some(item) = queue.pop() {
        seen.push(item);
    }
    producer.join().unwrap();
    assert_eq!(seen, (0..1000).collect::<Vec<_>>());
    assert!(queue.high_water() <= 4);
}

#[test]
fn timed_pop_gives_up() {
    let queue: Bounded<u8> = Bounded::new("test.timed", 1);
    assert_eq!(queue.pop_for(Duration::from_millis(1)), None);
}

thread_local! {
    /// The old fault, for the negative control: this thread's pushes are never refused.
    pub(super) static UNBOUNDED: std::cell::Cell<bool> = const { std::cell::Cell::new(false) };
}

/// A producer that outruns the consumer, and whether the queue's instrument stays within what it
/// declares.
fn flood(name: &str) -> bool {
    let queue = Bounded::new(name, 16);
    let mut done_by_the_producer = 0;
    for item in 0..1000 {
        if queue.push(item).is_err() {
            done_by_the_producer += 1;
        }
    }
    assert_eq!(queue.depth() + done_by_the_producer, 1000);
    queue.high_water() <= queue.capacity()
}

#[test]
fn a_flood_stays_within_the_capacity() {
    assert!(flood("test.flood"));
}

#[test]
fn negative_control_an_unbounded_queue_is_seen() {
    UNBOUNDED.set(true);
    let within = flood("test.red_flood");
    UNBOUNDED.set(false);
    assert!(!within, "the instrument does not see the old fault");
}
