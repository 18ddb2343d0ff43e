use admin::ReceiveNaming;

use super::named;

fn full(target: &str, naming: ReceiveNaming, top: &str, dataset: &str) -> String {
    let named = named((target, naming), top, (dataset, "s")).unwrap();
    format!("{}@{}", named.path, named.snapshot)
}

#[test]
fn names_follow_the_flags() {
    use ReceiveNaming::{LastPart, Target, WithoutPool};
    assert_eq!(full("b/x", Target, "p/a", "p/a"), "b/x@s");
    assert_eq!(full("b/x@t", Target, "p/a", "p/a"), "b/x@t");
    assert_eq!(full("b/x", Target, "p/a", "p/a/c/d"), "b/x/c/d@s");
    assert_eq!(full("b/x", WithoutPool, "p/a", "p/a/c"), "b/x/a/c@s");
    assert_eq!(full("b/x", WithoutPool, "p", "p"), "b/x@s");
    assert_eq!(full("b/x", LastPart, "p/q/a", "p/q/a"), "b/x/a@s");
    assert_eq!(full("b/x", LastPart, "p/q/a", "p/q/a/c"), "b/x/a/c@s");
    assert_eq!(full("b", LastPart, "p", "p/c"), "b/p/c@s");
}

#[test]
fn a_name_that_cannot_be_is_refused() {
    let bad = |dataset, snapshot| {
        named(
            ("b/x", ReceiveNaming::WithoutPool),
            "p",
            (dataset, snapshot),
        )
    };
    assert!(bad("p/../etc", "s").is_err());
    assert!(bad("p/%recv", "s").is_err());
    assert!(bad("p//c", "s").is_err());
    assert!(bad("p/c", "").is_err());
    assert!(bad("p/c", "s/t").is_err());
    assert!(bad("p/c", "s\nt").is_err());
}
