//! Circles in small crates.

use super::*;

fn circles_of(files: &[(&str, &str)]) -> Vec<Vec<String>> {
    let texts = files.iter();
    let texts = texts.map(|(name, text)| ((*name).to_owned(), (*text).to_owned()));
    circles(&texts.collect(), "lib.rs")
}

fn names(names: &[&str]) -> Vec<String> {
    names.iter().map(|name| (*name).to_owned()).collect()
}

#[test]
fn files_that_name_each_other_are_a_circle() {
    let found = circles_of(&[
        ("lib.rs", "mod a; mod b; mod c; mod d;"),
        ("a.rs", "use crate::b::{self, B};"),
        ("b.rs", "fn f() { crate::c::g(); }"),
        ("c.rs", "use crate::{d::D, a as other};"),
        ("d.rs", "use std::sync::Arc;"),
    ]);
    assert_eq!(found, [names(&["a.rs", "b.rs", "c.rs"])]);
}

#[test]
fn what_an_index_exports_is_of_the_file_that_has_it() {
    let index = (
        "e.rs",
        "mod one; mod two; pub(crate) use one::One; pub use self::two::Two as Second;",
    );
    let lib = ("lib.rs", "mod a; mod e;");
    // `one` is below `a`, and `a` below `two`.
    let found = circles_of(&[
        lib,
        index,
        ("e/one.rs", "pub struct One;"),
        ("e/two.rs", "use crate::a::A;"),
        ("a.rs", "use crate::e::One;"),
    ]);
    assert_eq!(found, Vec::<Vec<String>>::new());
    let found = circles_of(&[
        lib,
        index,
        ("e/one.rs", "pub struct One;"),
        ("e/two.rs", "use crate::a::A;"),
        ("a.rs", "use crate::e::{One, Second};"),
    ]);
    assert_eq!(found, [names(&["a.rs", "e/two.rs"])]);
}

#[test]
fn parents_and_children_are_named_without_the_crate() {
    let found = circles_of(&[
        ("lib.rs", "mod a;"),
        ("a.rs", "mod b; mod c; fn f() { b::g(); }"),
        ("a/b.rs", "use super::c::C;"),
        ("a/c.rs", "use super::super::a::b::B;"),
    ]);
    assert_eq!(found, [names(&["a/b.rs", "a/c.rs"])]);
    let found = circles_of(&[
        ("lib.rs", "mod a;"),
        ("a.rs", "mod b; fn f() { b::g(); }"),
        ("a/b.rs", "use super::A;"),
    ]);
    assert_eq!(found, [names(&["a.rs", "a/b.rs"])]);
}

#[test]
fn comments_texts_and_tests_do_not_count() {
    let found = circles_of(&[
        ("lib.rs", "mod a; mod b;"),
        ("a.rs", "use crate::b::B;"),
        (
            "b.rs",
            "// crate::a\n/* crate::a::A */ fn f<'a>() { (\"crate::a\", '\"', r#\"\" crate::a::A\"#); }\n\
             #[cfg(test)] mod tests { use crate::a::A; }",
        ),
    ]);
    assert_eq!(found, Vec::<Vec<String>>::new());
    assert_eq!(place("crates/pool/src/a/tests.rs"), None);
    assert_eq!(place("crates/pool/src/a/tests/b.rs"), None);
    assert_eq!(place("crates/pool/tests/a.rs"), None);
    assert_eq!(place("crates/pool/src/a.rs"), Some(("pool", "a.rs")));
}

#[test]
fn a_larger_circle_is_a_fault() {
    let three = names(&["a.rs", "b.rs", "c.rs"]);
    assert_eq!(judge("pool", &three, 3), None);
    let fault = judge("pool", &three, 2).unwrap();
    assert!(fault.contains("a.rs, b.rs, c.rs"), "{fault}");
}

#[test]
fn a_program_beside_a_library_is_looked_at_by_itself() {
    let files = [
        ("lib.rs", "mod a;"),
        ("main.rs", "mod b; fn f() { b::g(); }"),
        ("a.rs", ""),
        ("b.rs", "use crate::f;"),
    ];
    let texts = files.iter();
    let texts = texts.map(|(name, text)| ((*name).to_owned(), (*text).to_owned()));
    let texts = texts.collect();
    assert_eq!(circles(&texts, "lib.rs"), Vec::<Vec<String>>::new());
    assert_eq!(circles(&texts, "main.rs"), [names(&["main.rs", "b.rs"])]);
}
