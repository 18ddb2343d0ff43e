use super::*;

const SOURCE: &str = "
macro_rules! record {
    () => {};
}

record! {
    /// A header.
    #[doc(alias = \"h_t\")]
    pub struct Header [8] {
        /// One.
        one: u64 = 0,
    }
}

pub struct Plain;

bits! {
    pub struct Word [64] {
        low: 1 = 0,
    }
}
";

#[test]
fn declarations_are_found_in_the_source() {
    assert_eq!(declarations(SOURCE), ["Header", "Word"]);
}

#[test]
fn a_declaration_that_the_list_lacks_is_a_fault_and_so_is_a_name_too_many() {
    let declared: BTreeSet<String> = declarations(SOURCE).into_iter().collect();
    let list = "# L\n\n### h_t: `Header`, 8 bytes\n\n### `Word`, 64 bits\n";
    assert_eq!(differences(&declared, list), Vec::<String>::new());
    let faults = differences(
        &declared,
        "### h_t: `Header`, 8 bytes\n\n### `Gone`, 1 bytes\n",
    );
    assert_eq!(faults.len(), 2);
    assert!(faults[0].contains("no `Word`"), "{faults:?}");
    assert!(faults[1].contains("`Gone`"), "{faults:?}");
}

#[test]
fn the_tree_itself_is_listed() {
    let root = root();
    let files = crate::tidy::tracked(&root).unwrap();
    assert_eq!(check(&root, &files).unwrap(), Vec::<String>::new());
}
