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

/// Lists with record 1 of the file, and a thread whose change of names takes it along with these records.
fn beside_a_change_of_names(numbers: &'static [u8]) -> (Arc<Lists>, thread::JoinHandle<()>) {
    let lists = Arc::new(Lists::new());
    lists.append(OPEN, Scope::Object(FILE), vec![record(1)]);
    let other = {
        let lists = Arc::clone(&lists);
        let records = numbers.iter().copied().map(record).collect();
        thread::spawn(move || lists.append(OPEN, Scope::NamespaceAfter(FILE), records))
    };
    (lists, other)
}

/// Whoever makes a file durable has its records, also while another thread's change of names takes them along.
#[test]
fn a_commit_misses_no_record_of_its_object() {
    check(|| {
        let (lists, other) = beside_a_change_of_names(&[2]);
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
        let (lists, other) = beside_a_change_of_names(&[2, 3]);
        let taken = numbers(&lists.take(&[ObjectId(8)], Txg(0)));
        assert!(taken.is_empty() || taken == [1, 2, 3], "{taken:?}");
        other.join().expect("no thread fails");
    });
}
