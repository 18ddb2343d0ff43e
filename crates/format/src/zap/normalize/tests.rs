use super::*;

fn fold(name: &str) -> Vec<u8> {
    normalize(
        name.as_bytes(),
        NormalizationFlags(NormalizationFlags::FOLD_UPPER),
    )
    .into_owned()
}

#[test]
fn folding_is_simple_and_of_unicode_5() {
    assert_eq!(fold("abcXYZ"), b"ABCXYZ");
    assert_eq!(fold("ärger"), "ÄRGER".as_bytes());
    assert_eq!(fold("straße"), "STRAßE".as_bytes());
    assert_eq!(fold("ᾀ"), "ᾈ".as_bytes());
    // U+0250 got its capital in 5.1; U+A7C3 and its capital came in 12.0.
    assert_eq!(fold("\u{250}"), "\u{250}".as_bytes());
    assert_eq!(fold("\u{A7C3}"), "\u{A7C3}".as_bytes());
}

#[test]
fn forms_decompose_and_compose() {
    let form =
        |name: &str, flags| normalize(name.as_bytes(), NormalizationFlags(flags)).into_owned();
    assert_eq!(
        form("\u{E9}", NormalizationFlags::FORM_D),
        "e\u{301}".as_bytes()
    );
    assert_eq!(
        form("e\u{301}", NormalizationFlags::FORM_C),
        "\u{E9}".as_bytes()
    );
    assert_eq!(form("\u{FB01}", NormalizationFlags::FORM_KD), b"fi");
    assert_eq!(
        form("\u{FB01}e\u{301}", NormalizationFlags::FORM_KC),
        "fi\u{E9}".as_bytes()
    );
    let both = NormalizationFlags::FORM_D | NormalizationFlags::FOLD_UPPER;
    assert_eq!(form("\u{E9}", both), "E\u{301}".as_bytes());
    // U+1F15A (6.0? squared) did not exist in 5.0: no compatibility decomposition.
    assert_eq!(
        form("\u{1F130}", NormalizationFlags::FORM_KD),
        "\u{1F130}".as_bytes()
    );
}

#[test]
fn bytes_that_are_no_text_pass_through() {
    let flags = NormalizationFlags(NormalizationFlags::FOLD_UPPER);
    assert_eq!(&*normalize(b"a\xFFb\xC3", flags), b"A\xFFB\xC3");
    assert!(names_match(b"ReadMe", b"README", flags));
    assert!(!names_match(b"ReadMe", b"README", flags.without_fold()));
}
