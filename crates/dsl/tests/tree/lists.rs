//! Lists of dead blocks that come to lie in each other.

use dmu::Tx;
use format::bpobj::BpobjPhys;
use format::{BlockPointer, ObjectType};
use millpond_dsl::Bpobj;

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

/// A snapshot that goes hands its deadlist over to the next one's, and nobody reads it again: until the txg syncs there
/// may be hundreds of these.
#[test]
fn of_a_deadlist_that_goes_away_the_cache_keeps_nothing() {
    let mut harness = Harness::new(12, &[]);
    harness.run(create("tank/a")).unwrap();
    for index in 0..6 {
        harness.write("tank/a", 5, 0, index, 4096);
        harness.run(snapshot(&format!("tank/a@{index}"))).unwrap();
    }
    harness.reopen();
    let head = harness.dsl.head("tank/a").unwrap();
    let deadlist = |name| {
        head.snapshot(name)
            .unwrap()
            .unwrap()
            .phys()
            .unwrap()
            .deadlist
    };
    let (gone, next) = (deadlist("3"), deadlist("4"));
    harness.memory.kept.lock().unwrap().clear();
    harness.with_pass(1, |pass| {
        harness.dsl.sync(pass).unwrap();
        harness.dsl.run_now(destroy("tank/a@3"), pass).unwrap();
    });
    let kept = harness.memory.kept.lock().unwrap().clone();
    let has = |id| kept.values().any(|(object, _)| *object == id);
    assert!(has(next), "nothing was read: {kept:?}");
    assert!(!has(gone), "{gone} stays");
    // Nor of the lists that another has taken over.
    let mut lists = kept.values().filter(|(_, kind)| *kind == ObjectType::BPOBJ);
    let stays = lists.find(|(list, _)| harness.mos.object(*list).is_err());
    assert_eq!(stays, None);
    harness.finish();
    drop(head);
    harness.check();
}

/// What a forged header says of lengths is not reckoned with.
#[test]
fn a_list_that_says_that_it_is_longer_than_any_is_damaged() {
    let harness = Harness::new(13, &[]);
    let mos = harness.dsl.mos();
    harness.with_pass(1, |pass| {
        let tx = Tx::syncing(pass.txg);
        let list = Bpobj::create(mos, &tx, BpobjPhys::BLOCK_SIZE).unwrap();
        let object = harness.mos.object(list.id()).unwrap();
        let forge = |bonus: &mut [u8]| bonus[..8].fill(0xFF);
        object.modify_bonus(&tx, forge).unwrap();
        let taken = list.take(&tx, 10, &mut |_| ());
        assert!(taken.is_err_and(|error| error.is_damage()));
        let appended = list.append(&tx, &[BlockPointer::HOLE], false);
        assert!(appended.is_err_and(|error| error.is_damage()));
        let opened = Bpobj::open(mos, list.id());
        assert!(opened.is_err_and(|error| error.is_damage()));
    });
}
