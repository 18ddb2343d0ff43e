use super::*;

#[test]
fn another_host_and_the_kernel_of_this_one_are_told_apart() {
    let user = LastUser {
        host_name: "there".into(),
        host_id: 7,
        timestamp: 0,
    };
    let elsewhere = in_use("tank", &user, true).to_string();
    assert!(elsewhere.contains("another system") && elsewhere.contains("there"));
    let here = in_use("tank", &user, false).to_string();
    assert!(
        here.contains("/dev/zfs") && !here.contains("another system"),
        "{here}"
    );
}

#[test]
fn a_file_that_was_made_is_had_by_nobody_else_meanwhile() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("tank.img");
    let spec = VdevSpec {
        class: VdevClass::Normal,
        shape: VdevShape::Leaf(path.clone()),
    };
    let made = make_files("create", "tank", &[spec], Some(96 << 20)).unwrap();
    let another = FileDevice::open(&path, device::Access::ReadWrite);
    assert!(matches!(another.err(), Some(DeviceError::Busy { .. })));
    drop(made);
    FileDevice::open(&path, device::Access::ReadWrite).unwrap();
}
