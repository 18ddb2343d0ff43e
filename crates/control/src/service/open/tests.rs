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
