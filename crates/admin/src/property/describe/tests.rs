use super::*;
use dsl::property::dataset;

#[test]
fn the_document_is_what_the_rows_say() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/properties.md");
    let text = std::fs::read_to_string(path).unwrap_or_default();
    assert!(
        text == list(),
        "docs/properties.md is not what the rows say: `cargo xtask properties` writes it"
    );
}

#[test]
fn rows_in_words() {
    let row = dataset::RECORDSIZE.row();
    assert_eq!(short_name(row).as_deref(), Some("recsize"));
    assert_eq!(default_of(row).as_deref(), Some("128K"));
    assert_eq!(kinds_of(row), "file systems");
    assert_eq!(access_of(row), "set, inherited");
    assert_eq!(
        notes_of(row),
        [
            "More than 128K needs the feature `large_blocks`.",
            "Mounted file systems follow at once."
        ]
    );
    let zstd = "`zstd`, at every level, needs the feature `zstd_compress`.";
    assert_eq!(notes_of(dataset::COMPRESSION.row())[1], zstd);
}
