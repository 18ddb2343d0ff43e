use super::*;

#[test]
fn names_are_taken_apart() {
    assert_eq!(parse("tank/a"), Ok(Target::Head { dataset: "tank/a" }));
    let snapshot = Target::Snapshot {
        dataset: "tank/a b",
        snapshot: "s:1.2-x_y",
    };
    assert_eq!(parse("tank/a b@s:1.2-x_y"), Ok(snapshot));
    let bookmark = Target::Bookmark {
        dataset: "tank",
        bookmark: "b",
    };
    assert_eq!(parse("tank#b"), Ok(bookmark));
}

#[test]
fn bad_names_say_why() {
    assert_eq!(parse(""), Err(NameProblem::EmptyComponent));
    assert_eq!(parse("/tank"), Err(NameProblem::LeadingSlash));
    assert_eq!(parse("tank/"), Err(NameProblem::TrailingSlash));
    assert_eq!(parse("tank//a"), Err(NameProblem::EmptyComponent));
    assert_eq!(parse("tank/.."), Err(NameProblem::DotComponent));
    assert_eq!(parse("tank/ä"), Err(NameProblem::BadCharacter('ä')));
    assert_eq!(parse("tank/%x"), Err(NameProblem::BadCharacter('%')));
    assert_eq!(parse("tank@a@b"), Err(NameProblem::MultipleDelimiters));
    assert_eq!(parse("tank@a/b"), Err(NameProblem::BadCharacter('/')));
    assert_eq!(parse("tank@"), Err(NameProblem::EmptyComponent));
    assert_eq!(parse(&"x/".repeat(200)), Err(NameProblem::TooLong));
    assert_eq!(parse(&vec!["x"; 51].join("/")), Err(NameProblem::TooDeep));
    assert_eq!(check_pool("mirror1"), Err(NameProblem::Reserved));
    assert_eq!(check_pool("log"), Err(NameProblem::Reserved));
    assert_eq!(check_pool("logs"), Ok(()));
    assert_eq!(check_pool("1tank"), Err(NameProblem::NoLetter));
    assert_eq!(check_pool("tank"), Ok(()));
}
