use super::meant;

const WORDS: [&str; 8] = [
    "create", "destroy", "list", "set", "get", "scrub", "status", "import",
];

#[test]
fn a_word_with_a_slip_is_meant() {
    for (typed, word) in [
        ("creat", "create"),
        ("craete", "create"),
        ("lst", "list"),
        ("staus", "status"),
        ("improt", "import"),
    ] {
        assert_eq!(meant(typed, WORDS.into_iter()), Some(word), "{typed}");
    }
}

#[test]
fn what_is_far_or_near_to_several_is_not_guessed() {
    for typed in ["frobnicate", "", "x", "bet", "cr"] {
        assert_eq!(meant(typed, WORDS.into_iter()), None, "{typed}");
    }
}
