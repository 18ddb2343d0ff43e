//! The house rules hold, on every test run.

#[test]
fn house_rules_hold() {
    super::run().expect("see the faults printed above; `cargo xtask tidy` shows them too");
}
