use super::*;

const KEY: BlockKey = BlockKey {
    vdev: 0,
    offset: 4096,
    birth: 3,
};

#[test]
fn a_removed_block_gives_its_memory_back_at_once() {
    let index = Index::new();
    let block = Arc::new([0_u8; 4096]);
    let held = Arc::new(Held::new(Arc::clone(&block)));
    index.insert(KEY, Arc::clone(&held));
    assert!(index.get(&KEY).is_some() && index.contains(&KEY));
    // A reader that found the entry before it was removed and looks into it after.
    let reader = index.map.pin_owned();
    let found = reader.get(&KEY).unwrap();
    index.remove(&KEY, &held);
    drop(held);
    assert!(found.take_reference().is_none() && index.get(&KEY).is_none());
    assert_eq!(Arc::strong_count(&block), 1);
}

#[test]
fn an_entry_that_is_read_while_it_is_removed_is_not_waited_for() {
    let index = Index::new();
    let held = Arc::new(Held::new(7));
    index.insert(KEY, Arc::clone(&held));
    let reading = held.value.try_read();
    index.remove(&KEY, &held);
    drop(reading);
    assert_eq!(index.get(&KEY), None);
}

#[test]
fn uses_are_counted_up_to_a_bound_and_can_be_lowered() {
    let held = Held::new(());
    (0..10).for_each(|_| held.take_reference().unwrap());
    assert_eq!(held.uses(), USES_MAX);
    held.set_uses(1);
    assert_eq!(held.uses(), 1);
}
