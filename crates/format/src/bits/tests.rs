#![allow(unreachable_pub, dead_code)]

use super::*;

bits! {
    /// A word.
    pub struct Sample [64] {
        /// Low.
        low: 3 = 0,
        /// High.
        #[doc(alias = "s_high")]
        high: 1 = 63,
    }
}

bits! {
    /// One field that is all of a word.
    pub struct Whole [64] {
        /// All.
        all: 64 = 0,
    }
}

#[test]
fn fields_are_set_beside_each_other() {
    let at = Sample::AT;
    let word = at.high.set(at.low.set(0, 0xF), 1);
    assert_eq!(word, 1 << 63 | 7);
    assert_eq!((at.low.get(word), at.high.get(word)), (7, 1));
    assert_eq!(at.low.set(word, 0), 1 << 63);
    assert_eq!(Whole::AT.all.set(1, u64::MAX), u64::MAX);
    assert_eq!(Whole::AT.all.get(u64::MAX), u64::MAX);
}

#[test]
fn a_declaration_keeps_names_and_comments() {
    let layout = Sample::LAYOUT;
    assert_eq!((layout.name, layout.text.trim()), ("Sample", "A word."));
    let names: Vec<_> = layout
        .fields
        .iter()
        .map(|field| (field.name, field.usual))
        .collect();
    assert_eq!(names, [("low", ""), ("high", "s_high")]);
}

#[test]
fn fields_that_overlap_or_pass_the_end_are_unsound() {
    let field = |low, width| BitField {
        name: "",
        usual: "",
        bits: Bits { low, width },
        text: "",
    };
    assert!(bits_are_sound(&[field(0, 4), field(4, 60)], 64));
    assert!(!bits_are_sound(&[field(0, 4), field(3, 4)], 64));
    assert!(!bits_are_sound(&[field(8, 9)], 16));
    assert!(!bits_are_sound(&[field(0, 0)], 16));
}
