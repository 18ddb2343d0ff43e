use super::*;
use crate::testing::MemoryDevice;

#[test]
fn a_leaf_without_a_device_says_so() {
    let config = LeafConfig {
        guid: Guid(7),
        path: "/gone".to_owned(),
        ashift: 12,
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
