use super::*;

#[test]
fn the_committed_document_says_what_the_table_says() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/feature_flags.md");
    let committed = std::fs::read_to_string(path).unwrap_or_default();
    assert!(
        committed == text(),
        "docs/feature_flags.md is not what the table says: `cargo xtask features` writes it"
    );
}
