//! Accounts that do not match, which nothing but a fault of our own makes.

use crate::harness::{Harness, create};

/// The first broken invariant after blocks were charged differently each time somebody looked.
fn found(of_a_head: bool) -> Option<&'static str> {
    let mut harness = Harness::new(77, &[]);
    harness.run(create("tank/a")).unwrap();
    harness.check();
    if of_a_head {
        harness.write("tank/a", 200, 0, 1, 4096);
    } else {
        harness.touch_mos();
    }
    *harness.memory.mischarged.lock().unwrap() = Some(0);
    harness.with_pass(1, |pass| harness.dsl.sync(pass).unwrap());
    let first = harness.engine.findings().first();
    if let Some(first) = first {
        let own = first.finding.contains("the pool's own objects");
        assert_eq!(own, !of_a_head, "{first}");
    }
    first.map(|first| first.name)
}

#[test]
fn a_head_that_is_charged_with_other_than_its_blocks_is_a_broken_invariant() {
    assert_eq!(found(true), Some("dsl.blocks"));
}

#[test]
fn a_wrong_charge_of_the_pools_own_objects_is_a_broken_invariant() {
    assert_eq!(found(false), Some("dsl.blocks"));
}
