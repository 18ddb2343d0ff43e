//! Livelists of destroyed clones are freed in slices, and what was freed stays freed.

use crate::harness::{Harness, clone, create, destroy_head, snapshot};
use crate::walk::deleted_blocks;
use millpond_dsl::tunables::{LIVELIST_KEPT_ENTRIES, PART_ENTRIES};

#[test]
fn a_livelist_is_freed_in_slices() {
    // As the harness sets it for all.
    const SLICE: usize = 7;
    // Several parts, each of several shares. Harmless to other tests of this program.
    PART_ENTRIES.set(40);
    LIVELIST_KEPT_ENTRIES.set(16);
    let mut harness = Harness::new(7, &[]);
    harness.run(create("tank/a")).unwrap();
    for block in 0..600 {
        harness.write("tank/a", 5, block, block as u8, 4096);
    }
    harness.run(snapshot("tank/a@one")).unwrap();
    harness.run(clone("tank/a@one", "tank/c")).unwrap();
    for round in 0..5 {
        for block in 0..30 {
            harness.write("tank/c", 5, round * 20 + block, 7 + round as u8, 4096);
        }
        harness.sync();
        harness.check();
    }
    let head = harness.dsl.directory("tank/c").unwrap();
    assert!(head.livelist().unwrap().is_some());
    drop(head);
    harness.run(destroy_head("tank/c")).unwrap();
    let mut left = deleted_blocks(&harness.dsl).len();
    assert!(left > 100 - SLICE);
    let mut txgs = 0;
    while harness.dsl.has_background_frees().unwrap() {
        if txgs % 4 == 3 {
            // Everything in hand is forgotten; that syncs as well.
            harness.reopen();
        } else {
            harness.sync();
        }
        harness.check();
        let now = deleted_blocks(&harness.dsl).len();
        assert!(left - now <= SLICE, "{} blocks in one txg", left - now);
        left = now;
        txgs += 1;
        assert!(txgs < 200, "{left} blocks are never freed");
    }
    assert_eq!(left, 0);
    harness.drain();
    harness.check();
    PART_ENTRIES.reset();
    LIVELIST_KEPT_ENTRIES.reset();
}
