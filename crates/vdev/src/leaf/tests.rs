use super::*;
use crate::testing::MemoryDevice;
use std::sync::atomic::Ordering;

#[test]
fn a_leaf_without_a_device_says_so() {
    let config = LeafConfig {
        guid: Guid(7),
        path: "/gone".to_owned(),
        ashift: 12,
        spare_room: None,
    };
    let leaf = Leaf::new(config, None);
    assert_eq!(leaf.condition().to_string(), "UNAVAIL");
    assert_eq!((leaf.psize(), leaf.asize()), (0, 0));
    let failure = leaf.read(0, 512, IoClass::SyncRead).unwrap_err();
    assert_eq!(
        failure,
        Failure::Unavailable(VdevState::CantOpen, VdevAux::OpenFailed)
    );
    let device = MemoryDevice::new((64 << 20) + 1000);
    leaf.set_device(Some(device));
    leaf.set_condition(Condition::HEALTHY);
    assert_eq!(leaf.psize(), 64 << 20);
    assert_eq!(leaf.asize(), (64 << 20) - 4_718_592);
    assert!(leaf.read(0, 512, IoClass::SyncRead).is_ok());
    assert!(leaf.take_changed() && !leaf.take_changed());
}

#[test]
fn a_device_that_knows_that_it_is_gone_is_removed_whatever_failed() {
    let config = LeafConfig {
        guid: Guid(7),
        path: "/gone".to_owned(),
        ashift: 12,
        spare_room: None,
    };
    let device = MemoryDevice::new(64 << 20);
    let leaf = Leaf::new(config, Some(Arc::clone(&device) as Arc<dyn BlockDevice>));
    for flag in [&device.is_gone, &device.fail_flush, &device.fail_reads] {
        flag.store(true, Ordering::Relaxed);
    }
    device.flush().unwrap_err();
    // What it says of this read could be said of a bad place.
    leaf.read(0, 512, IoClass::SyncRead).unwrap_err();
    assert_eq!(leaf.condition(), Condition::REMOVED);
}

#[test]
fn a_leaf_whose_device_is_gone_is_not_well_because_something_was_in_doubt() {
    let config = LeafConfig {
        guid: Guid(7),
        path: "/gone".to_owned(),
        ashift: 12,
        spare_room: None,
    };
    let leaf = Leaf::new(config, Some(MemoryDevice::new(64 << 20)));
    // A flush was under way when the device was closed.
    leaf.reopen(None);
    let error = leaf.handle().flush().unwrap_err();
    leaf.handle().unflushed.lock().set_doubt(&error);
    leaf.set_condition(Condition::new(VdevState::Faulted, VdevAux::IoFailure));
    leaf.clear().unwrap();
    assert_eq!(leaf.condition().state, VdevState::Faulted);
}
