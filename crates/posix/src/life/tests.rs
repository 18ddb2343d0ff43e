use super::*;

#[test]
fn a_file_in_use_that_is_freed_is_a_broken_invariant() {
    let found = |users, is_freed| {
        let findings = Findings::default();
        check_unused(&findings, ObjectId(5), users, is_freed);
        findings.first().map(|first| first.name)
    };
    assert_eq!(found((0, 0), false), None);
    assert_eq!(found((1, 0), false), Some("posix.freed"));
    assert_eq!(found((0, 2), false), Some("posix.freed"));
    assert_eq!(found((0, 0), true), Some("posix.freed"));
}
