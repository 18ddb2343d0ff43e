use super::may_close;
use std::cell::Cell;

#[test]
fn what_a_user_wrote_who_leaves_meanwhile_is_not_closed() {
    // After the first look the user writes, and leaves.
    let looks = Cell::new(0);
    let look = || looks.replace(looks.get() + 1);
    let is_used = || look() == 0;
    let is_dirty = || look() != 0;
    assert!(!may_close(is_used, is_dirty));
}

#[test]
fn what_nobody_uses_and_is_clean_is_closed() {
    assert!(may_close(|| false, || false));
    assert!(!may_close(|| false, || true));
}
