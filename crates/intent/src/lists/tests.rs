use super::*;

fn record(tag: u8) -> Entry {
    Entry::Record(vec![tag; 32])
}

fn tags(items: &[Item]) -> Vec<u8> {
    let tag = |item: &Item| match &item.entry {
        Entry::Record(bytes) => bytes[0],
        Entry::Write(_) => 0,
    };
    items.iter().map(tag).collect()
}

const X: ObjectId = ObjectId(10);
const Y: ObjectId = ObjectId(11);

#[test]
fn a_commit_takes_its_object_and_all_names_but_no_other_file() {
    let lists = Lists::new();
    lists.append(Txg(5), Scope::Namespace, vec![record(1)]);
    lists.append(Txg(5), Scope::Object(X), vec![record(2)]);
    lists.append(Txg(5), Scope::Object(Y), vec![record(3)]);
    lists.append(Txg(6), Scope::Namespace, vec![record(4)]);
    lists.append(Txg(6), Scope::Object(X), vec![record(5)]);
    assert_eq!(tags(&lists.take(&[X], Txg(4))), [1, 2, 4, 5]);
    assert_eq!(tags(&lists.take(&[X], Txg(4))), []);
    assert_eq!(tags(&lists.take_all(Txg(4))), [3]);
}

#[test]
fn data_written_before_a_rename_go_before_it() {
    let lists = Lists::new();
    lists.append(Txg(5), Scope::Object(X), vec![record(1)]);
    lists.append(Txg(6), Scope::NamespaceAfter(X), vec![record(2)]);
    assert_eq!(tags(&lists.take(&[Y], Txg(4))), [1, 2]);
}

#[test]
fn what_has_synced_is_not_taken() {
    let lists = Lists::new();
    lists.append(Txg(5), Scope::Namespace, vec![record(1)]);
    lists.append(Txg(6), Scope::Object(X), vec![record(2)]);
    lists.append(Txg(6), Scope::Object(Y), vec![record(3)]);
    lists.synced(Txg(5));
    lists.discard(Y);
    assert_eq!(tags(&lists.take_all(Txg(5))), [2]);
    lists.append(Txg(7), Scope::Object(X), vec![record(4)]);
    assert!(lists.take(&[X], Txg(7)).is_empty());
}
