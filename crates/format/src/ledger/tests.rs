use super::*;

#[test]
fn the_committed_document_says_what_the_code_says() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/format-layouts.md");
    let committed = std::fs::read_to_string(path).unwrap();
    assert!(
        committed == text(),
        "docs/format-layouts.md is not what the declarations say: `cargo xtask layouts` writes it"
    );
}

#[test]
fn each_layout_is_listed_once() {
    let mut names: Vec<&str> = groups()
        .iter()
        .flat_map(|(_, declarations)| declarations)
        .map(|declared| match declared {
            Declared::Bytes(layout) => layout.name,
            Declared::Word(layout) => layout.name,
        })
        .collect();
    names.sort_unstable();
    let count = names.len();
    names.dedup();
    assert_eq!(names.len(), count);
}
