//! The house rules hold, on every test run.

#[test]
fn house_rules_hold() {
    super::run().expect("see the faults printed above; `cargo xtask tidy` shows them too");
}

#[test]
fn who_decodes_what_belongs_to_a_lower_layer_is_told_whom_to_ask() {
    let text =
        "let phys = ObjectSetPhys::decode(&block)?;\nlet record = Record::decode(&block)?;\n";
    let faults = super::decoders::faults_of("crates/pool/src/x.rs", text);
    assert_eq!(faults.len(), 1, "{faults:?}");
    assert!(faults[0].starts_with("crates/pool/src/x.rs:1: ObjectSetPhys"));
    let text = "let pointer: BlockPointer = get_at(bytes, 0, order);\n";
    assert!(super::decoders::faults_of("crates/pool/src/x.rs", text).is_empty());
    let faults = super::decoders::faults_of("crates/replication/src/x.rs", text);
    assert_eq!(faults.len(), 1, "{faults:?}");
}
