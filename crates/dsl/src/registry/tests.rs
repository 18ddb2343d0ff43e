use super::*;
use base::lock::rank;

static TABLE: LockClass = LockClass::new("dsl.registry_test", rank::LAST);

#[test]
fn what_may_have_changed_is_not_entered() {
    let registry = Registry::new(&TABLE);
    let id = ObjectId(7);
    let first = registry.enter(id, Arc::new("first"), || true).unwrap();
    // A copy that is alive is the one, whoever else was slower.
    let second = registry.enter(id, Arc::new("second"), || false).unwrap();
    assert!(Arc::ptr_eq(&first, &second));
    registry.forget(id);
    // Loaded before it was forgotten: it is nobody's copy.
    assert!(registry.enter(id, Arc::new("stale"), || false).is_none());
    assert!(registry.get(id).is_none());
    let now = registry.enter(id, Arc::new("now"), || true).unwrap();
    assert_eq!(*now, "now");
    assert!(Arc::ptr_eq(&registry.get(id).unwrap(), &now));
}
