use super::*;

#[test]
fn what_the_helper_says_is_told() {
    let error = MountError::Helper {
        path: "/home/ann/mnt/tank".into(),
        message: "failed to open /etc/mtab: No such file or directory".to_owned(),
    };
    assert!(!error.is_busy());
    let failure = not_unmounted(&error);
    assert_ne!(failure.kind, FailureKind::Busy);
    assert!(failure.to_string().contains("/etc/mtab"), "{failure}");
    let advice = "root makes it with 'ln -s /proc/self/mounts /etc/mtab'";
    assert!(failure.to_string().ends_with(advice), "{failure}");
}
