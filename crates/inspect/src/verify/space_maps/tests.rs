use super::*;

#[test]
fn a_configuration_cannot_make_a_vdev_larger_than_its_devices() {
    let device = 64 << 20;
    assert_eq!(room(60 << 20, &[device]), 60 << 20);
    assert_eq!(room(1 << 62, &[device, 32 << 20]), device);
    assert_eq!(room(u64::MAX, &[]), MISSING_ROOM_MAX);
    // Two bits for each sector of that have room in memory.
    let set = SectorSet::new(room(u64::MAX, &[]), 9);
    assert_eq!(set.insert(MISSING_ROOM_MAX - 512, 512), Ok(0));
    assert!(set.insert(MISSING_ROOM_MAX, 512).is_err());
}
