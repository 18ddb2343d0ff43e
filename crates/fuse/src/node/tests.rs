use super::*;
use proptest::prelude::*;

#[test]
fn every_kind_has_its_own_ids() {
    let object = ObjectId(34);
    let nodes = [
        Node::Root,
        Node::Live { epoch: 0, object },
        Node::Live { epoch: 255, object },
        Node::Snapshot { slot: 0, object },
        Node::Snapshot {
            slot: SLOTS - 1,
            object,
        },
        Node::Control(ControlNode::Control),
        Node::Control(ControlNode::Shares),
        Node::Control(ControlNode::Snapshots),
    ];
    for node in nodes {
        assert_eq!(Node::from_id(node.id().unwrap()), Some(node));
    }
    assert_eq!(Node::Live { epoch: 0, object }.id(), Some(34));
    assert_eq!(Node::from_id(0xFFFF << 40 | 9), None);
}

#[test]
fn inode_numbers_are_those_of_openzfs() {
    assert_eq!(ControlNode::Control.inode(), 0xFFFF_FFFF_FFFF);
    assert_eq!(ControlNode::Shares.inode(), 0xFFFF_FFFF_FFFE);
    assert_eq!(ControlNode::Snapshots.inode(), 0xFFFF_FFFF_FFFD);
    assert_eq!(snapshot_root_inode(54), 0xFFFF_FFFF_FFFC - 54);
}

#[test]
fn impossible_objects_have_no_id() {
    assert_eq!(
        Node::Live {
            epoch: 0,
            object: ObjectId(1 << 40)
        }
        .id(),
        None
    );
}

proptest! {
    #[test]
    fn ids_survive(id: u64) {
        if let Some(node) = Node::from_id(id) {
            prop_assert_eq!(node.id(), Some(id));
        }
    }
}
