use super::*;

fn names(words: &str) -> Vec<String> {
    words.split_whitespace().map(str::to_owned).collect()
}

#[test]
fn names_and_ranges() {
    let all = names("a b c d e");
    let chosen = |specs| select(&all, &names(specs)).map(|found| found.join(" "));
    assert_eq!(chosen("c").as_deref(), Ok("c"));
    assert_eq!(chosen("b%d").as_deref(), Ok("b c d"));
    assert_eq!(chosen("%b d%").as_deref(), Ok("a b d e"));
    assert_eq!(chosen("%").as_deref(), Ok("a b c d e"));
    assert_eq!(chosen("nope").as_deref(), Ok(""));
    assert_eq!(chosen("e a e").as_deref(), Ok("a e"));
    assert_eq!(chosen("b%b").as_deref(), Ok("b"));
    assert_eq!(chosen("x%b"), Err(SpecError::NoEnd("x".into())));
    assert_eq!(
        chosen("d%b"),
        Err(SpecError::Backwards("d".into(), "b".into()))
    );
    assert_eq!(select(&[], &names("%")), Ok(Vec::new()));
    assert_eq!(select(&all, &[String::new()]), Err(SpecError::Empty));
}
