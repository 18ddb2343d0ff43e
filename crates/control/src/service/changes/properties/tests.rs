//! What is said of values that are refused.

use super::no_space;

#[test]
fn only_a_quota_is_less_than_what_is_used() {
    let said = |names: &[&str]| {
        let names: Vec<_> = names.iter().map(|name| (*name).to_owned()).collect();
        no_space(&names)
    };
    for quota in ["quota", "refquota"] {
        assert!(said(&[quota]).starts_with("size is less"), "{quota}");
    }
    for other in ["reservation", "refreservation", "com.example:quota"] {
        assert!(said(&[other]).starts_with("size is greater"), "{other}");
    }
}
