use super::*;

/// Kinds as `pool` shows them: the plain type, or with what else there is to say of it.
#[test]
fn the_type_of_a_vdev_is_that_of_its_kind() {
    for (kind, expected) in [
        ("mirror", Some(VdevType::Mirror)),
        ("raidz2", Some(VdevType::RaidZ)),
        ("draid1:4d:8c:1s", Some(VdevType::Draid)),
        ("dspare", Some(VdevType::DistributedSpare)),
        ("hole", Some(VdevType::Hole)),
        ("draidx", None),
        ("", None),
        ("2", None),
    ] {
        let vdev = VdevReport::healthy(kind, 1);
        assert_eq!(vdev.vdev_type(), expected, "{kind}");
    }
    for vdev_type in VdevType::ALL {
        let vdev = VdevReport::healthy(vdev_type.name(), 1);
        assert_eq!(vdev.vdev_type(), Some(vdev_type));
        assert_eq!(vdev.is_leaf(), vdev_type.is_leaf(), "{vdev_type:?}");
        assert_eq!(vdev.is_there(), vdev_type.is_there(), "{vdev_type:?}");
    }
    // What a newer one made is shown, and is a device if it has a path.
    let mut vdev = VdevReport::healthy("newer", 1);
    assert!(vdev.is_there() && !vdev.is_leaf());
    vdev.path = Some("/x".to_owned());
    assert!(vdev.is_leaf());
}

#[test]
fn a_device_that_is_replaced_is_no_fault_of_the_pool() {
    let failed = VdevReport {
        read_errors: 1,
        ..VdevReport::healthy("file", 3)
    };
    let below = |kind: &str| {
        let top = VdevReport {
            children: vec![failed.clone()],
            ..VdevReport::healthy(kind, 2)
        };
        let mut status = PoolStatus::healthy("tank", 1);
        status.vdevs = vec![top];
        status.leaf_errors()
    };
    assert!(below("mirror"));
    assert!(!below("replacing"));
}
