use super::*;
use crate::node::Children;
use crate::testing::MemoryDevice;
use crate::{Interior, InteriorKind, Leaf, LeafConfig, Node, VdevAux, VdevState};
use device::BlockDevice;

fn leaf(guid: u64) -> Arc<Leaf> {
    let device: Arc<dyn BlockDevice> = MemoryDevice::new(1 << 20);
    let config = LeafConfig {
        guid: Guid(guid),
        path: format!("/d{guid}"),
        ashift: 9,
        spare_room: None,
    };
    Leaf::new(config, Some(device))
}

/// A write on three children of which one may fail.
fn write() -> (Arc<WriteGroup>, Vec<Arc<Leaf>>, Arc<WriteCompletion>) {
    let leaves: Vec<_> = (1..=3).map(leaf).collect();
    let group = WriteGroup::new(Txg(7));
    let kept = KeptWrites::new();
    let reports = Reports {
        count: leaves.len(),
        tolerance: 1,
        members: Arc::clone(
            Children::new(&Node::Interior(Interior {
                guid: Guid(9),
                kind: InteriorKind::Mirror,
                children: leaves.iter().cloned().map(Node::Leaf).collect(),
            }))
            .members(),
        ),
    };
    let data = Buffer::zeroed(512);
    let class = IoClass::AsyncWrite;
    let completion = WriteCompletion::new(
        (&group, &kept),
        (VdevId(0), 0, Txg(4)),
        data,
        class,
        reports,
    );
    (group, leaves, completion)
}

/// The same: `failing` of them do.
fn reported(failing: usize) -> (Arc<WriteGroup>, Vec<Arc<Leaf>>) {
    let (group, leaves, completion) = write();
    for (index, leaf) in leaves.iter().enumerate() {
        assert_eq!(group.outstanding(), 1);
        let gone = Failure::Unavailable(VdevState::Offline, VdevAux::None);
        let result = if index < failing { Err(gone) } else { Ok(()) };
        completion.report(leaf.handle(), result);
    }
    assert_eq!(group.outstanding(), 0);
    (group, leaves)
}

#[test]
fn a_write_is_good_as_long_as_no_more_children_failed_than_the_layout_tolerates() {
    let (group, leaves) = reported(1);
    group.wait().unwrap();
    let misses: Vec<bool> = leaves.iter().map(|leaf| leaf.misses(Txg(7))).collect();
    assert_eq!(misses, [true, false, false]);
    // One child has it, which is not enough: the write is lost, and nobody has missed it.
    let (group, leaves) = reported(2);
    group.wait().unwrap_err();
    assert!(leaves.iter().all(|leaf| !leaf.misses(Txg(7))));
    assert_eq!(group.take_failed()[0].failures.len(), 2);
}

#[test]
fn a_leaf_that_reports_twice_is_a_broken_invariant() {
    let (group, leaves, completion) = write();
    for leaf in &leaves {
        completion.report(leaf.handle(), Ok(()));
    }
    assert_eq!(group.findings().first(), None);
    completion.report(leaves[0].handle(), Ok(()));
    assert_eq!(group.findings().first().unwrap().name, "vdev.writes");
    // Nobody hangs for it.
    assert_eq!(group.outstanding(), 0);
    group.wait().unwrap();
}

#[test]
fn a_write_that_ends_twice_is_a_broken_invariant() {
    let (group, _leaves, completion) = write();
    completion.give_up(Vec::new());
    assert_eq!(group.findings().first(), None);
    completion.give_up(Vec::new());
    assert_eq!(group.findings().first().unwrap().name, "vdev.writes");
    assert_eq!(group.outstanding(), 0);
}
