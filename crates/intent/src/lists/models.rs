//! The lists under the model checker.

use super::*;
use base::sync::{check, thread};
use std::sync::Arc;

const FILE: ObjectId = ObjectId(7);
const OPEN: Txg = Txg(5);

fn record(number: u8) -> Entry {
    Entry::Record(vec![number])
}

fn numbers(items: &[Item]) -> Vec<u8> {
    let number = |item: &Item| match &item.entry {
        Entry::Record(bytes) => bytes[0],
        Entry::Write(_) => 0,
    };
    items.iter().map(number).collect()
}

/// Whoever makes a file durable has its records, also while another thread's change of names takes them along.
#[test]
fn a_commit_misses_no_record_of_its_object() {
    check(|| {
        let lists = Arc::new(Lists::new());
        lists.append(OPEN, Scope::Object(FILE), vec![record(1)]);
        let other = {
            let lists = Arc::clone(&lists);
            thread::spawn(move || lists.append(OPEN, Scope::NamespaceAfter(FILE), vec![record(2)]))
        };
        let taken = numbers(&lists.take(&[FILE], Txg(0)));
        assert!(taken.contains(&1), "{taken:?}");
        other.join().expect("no thread fails");
        let rest = numbers(&lists.take(&[FILE], Txg(0)));
        assert_eq!([taken, rest].concat(), [1, 2]);
    });
}

/// What one operation recorded goes together: no commit of another file has a part of it.
#[test]
fn a_commit_has_all_of_an_operation_or_nothing() {
    check(|| {
        let lists = Arc::new(Lists::new());
        lists.append(OPEN, Scope::Object(FILE), vec![record(1)]);
        let other = {
            let lists = Arc::clone(&lists);
            let scope = Scope::NamespaceAfter(FILE);
            thread::spawn(move || lists.append(OPEN, scope, vec![record(2), record(3)]))
        };
        let taken = numbers(&lists.take(&[ObjectId(8)], Txg(0)));
        assert!(taken.is_empty() || taken == [1, 2, 3], "{taken:?}");
        other.join().expect("no thread fails");
    });
}
