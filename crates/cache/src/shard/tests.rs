use proptest::prelude::*;

use super::*;

fn key(number: u64) -> BlockKey {
    BlockKey {
        vdev: 0,
        offset: number << 12,
        birth: 7,
    }
}

fn shard<V: Clone>(limit_bytes: usize, passing_bytes_max: usize) -> Shard<V> {
    Shard::new(limit_bytes, passing_bytes_max, Arc::new(Index::new()))
}

#[test]
fn a_pass_over_many_blocks_leaves_the_used_ones() {
    let block = 1000;
    let mut shard = shard(100 * (block + ENTRY_BYTES), 0);
    for number in 0..40 {
        shard.insert(key(number), number, block, Stay::Long);
        assert_eq!(shard.index.get(&key(number)), Some(number));
    }
    for number in 1000..5000 {
        shard.insert(key(number), number, block, Stay::Long);
    }
    let kept = (0..40)
        .filter(|&number| shard.index.contains(&key(number)))
        .count();
    assert_eq!(kept, 40);
    assert!(shard.evictions() > 3000);
}

#[test]
fn passing_blocks_leave_although_there_is_room() {
    let block = 1000;
    let mut shard = shard(1000 * block, 10 * (block + ENTRY_BYTES));
    shard.insert(key(1), 1, block, Stay::Long);
    shard.insert(key(2), 2, block, Stay::Short);
    assert_eq!(shard.index.get(&key(2)), Some(2));
    for number in 1000..1010 {
        shard.insert(key(number), number, block, Stay::Short);
    }
    assert!(shard.index.contains(&key(1)), "not one of them");
    assert!(
        !shard.index.contains(&key(2)),
        "its parts were asked for, no more"
    );
    shard.insert(key(2), 2, block, Stay::Short);
    for number in 1010..1500 {
        shard.insert(key(number), number, block, Stay::Short);
    }
    assert!(shard.index.contains(&key(2)), "it came back");
    assert_eq!(shard.len(), 12);
    assert!(shard.index.contains(&key(1499)));
}

#[test]
fn a_block_too_large_for_the_shard_is_not_held() {
    let mut shard = shard(10_000, 0);
    shard.insert(key(1), 1, 2000, Stay::Long);
    shard.insert(key(1), 2, 9000, Stay::Long);
    assert_eq!(
        shard.index.get(&key(1)),
        None,
        "the value that it replaces must go too"
    );
    assert_eq!(shard.bytes(), 0);
}

proptest! {
    #[test]
    fn what_it_holds_is_what_was_put_last_and_within_the_limit(
        steps in prop::collection::vec((0_u64..60, 0_u8..10, 0_usize..3000), 1..400),
    ) {
        let mut shard = shard(40_000, 10_000);
        let mut model = HashMap::new();
        for (step, (number, action, bytes)) in steps.into_iter().enumerate() {
            match action {
                0 => {
                    shard.remove(&key(number));
                    model.remove(&number);
                }
                1 => shard.set_limit(30_000 + bytes, 4 * bytes),
                2 => {
                    let was_brief = shard.briefly_here(&key(number)).is_some();
                    shard.end_brief_stay(&key(number));
                    if was_brief {
                        model.remove(&number);
                    }
                }
                3..5 => {
                    if let Some(value) = shard.index.get(&key(number)) {
                        prop_assert_eq!(Some(&value), model.get(&number));
                    }
                }
                _ => {
                    let stay = match action {
                        ..7 => Stay::Long,
                        7 => Stay::Short,
                        8 => Stay::Brief,
                        _ => Stay::InUse,
                    };
                    shard.insert(key(number), step, bytes, stay);
                    model.insert(number, step);
                }
            }
            prop_assert!(shard.bytes() <= shard.limit_bytes);
            let live = shard.slab.iter().filter(|entry| entry.held.is_some());
            prop_assert_eq!(live.clone().map(|entry| entry.bytes).sum::<usize>(), shard.bytes());
            prop_assert_eq!(live.count(), shard.len());
            prop_assert!(shard.ghosts.len() <= tunables::GHOSTS_MAX.count());
        }
        shard.set_limit(0, 0);
        prop_assert_eq!((shard.len(), shard.bytes()), (0, 0));
    }
}
