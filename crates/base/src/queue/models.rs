//! The queue under the model checker: a lost wake-up is a deadlock.

use super::Bounded;
use crate::sync::{check, thread};
use std::sync::Arc;

/// What is put in comes out, once each, whoever waits for room or for items; closing lets everybody go.
#[test]
fn everything_comes_out_and_everybody_goes() {
    check(|| {
        let queue = Arc::new(Bounded::new("model", 1));
        let producers = [10, 20].map(|first| {
            let queue = Arc::clone(&queue);
            thread::spawn(move || {
                for item in first..first + 2 {
                    queue.push_wait(item).expect("it is open");
                }
            })
        });
        let consumers = [(); 2].map(|()| {
            let queue = Arc::clone(&queue);
            thread::spawn(move || std::iter::from_fn(|| queue.pop()).collect::<Vec<_>>())
        });
        for producer in producers {
            producer.join().expect("no thread fails");
        }
        queue.close();
        let mut all: Vec<i32> = Vec::new();
        for consumer in consumers {
            all.extend(consumer.join().expect("no thread fails"));
        }
        all.sort_unstable();
        assert_eq!(all, [10, 11, 20, 21]);
    });
}

/// Who waits for room when the queue closes gets its item back.
#[test]
fn closing_lets_producers_go() {
    check(|| {
        let queue = Arc::new(Bounded::new("model", 1));
        let producers = [1, 2].map(|item| {
            let queue = Arc::clone(&queue);
            thread::spawn(move || queue.push_wait(item).is_ok())
        });
        queue.close();
        let accepted = producers.map(|producer| producer.join().expect("no thread fails"));
        let left = std::iter::from_fn(|| queue.try_pop()).count();
        assert_eq!(accepted.iter().filter(|accepted| **accepted).count(), left);
    });
}
