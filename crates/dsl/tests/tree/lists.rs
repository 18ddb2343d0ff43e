//! Lists of dead blocks that come to lie in each other.

use crate::harness::{Harness, create, destroy, snapshot};

/// More pointers than the first block of a list holds: such a list is put into another as it is.
const MANY: u64 = 1100;

/// Two lists of many blocks become one list in another when the snapshot between goes, and go on the list of later
/// frees together. What each counts follows what it holds: nothing is taken for lost when they are freed.
#[test]
fn a_list_does_not_count_what_was_taken_out_of_it() {
    let mut harness = Harness::new(11, &[]);
    harness.run(create("tank/a")).unwrap();
    let write = |harness: &mut Harness, from: u64, seed: u8| {
        for block in from..from + MANY {
            harness.write("tank/a", 5, block, seed, 4096);
        }
    };
    write(&mut harness, 0, 1);
    write(&mut harness, MANY, 1);
    harness.run(snapshot("tank/a@one")).unwrap();
    write(&mut harness, 0, 3);
    harness.run(snapshot("tank/a@two")).unwrap();
    write(&mut harness, MANY, 5);
    harness.run(snapshot("tank/a@three")).unwrap();
    harness.run(destroy("tank/a@two")).unwrap();
    harness.check();
    harness.run(destroy("tank/a@one")).unwrap();
    harness.check();
    harness.drain();
    harness.check();
    assert!(
        harness
            .dsl
            .root_directory()
            .unwrap()
            .child("$LEAK")
            .unwrap()
            .is_none()
    );
}
