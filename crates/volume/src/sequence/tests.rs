//! What is read ahead, and what is not.

use super::Sequences;

#[test]
fn a_reader_that_goes_on_is_read_ahead_for_once() {
    let readers = Sequences::new();
    assert!(readers.note(&(0..100), 1000).is_empty());
    assert_eq!(readers.note(&(100..200), 1000), 200..1200);
    // More than half of that is left.
    assert!(readers.note(&(200..300), 1000).is_empty());
    assert!(readers.note(&(300..600), 1000).is_empty());
    assert_eq!(readers.note(&(600..800), 1000), 1200..1800);
}

#[test]
fn readers_here_and_there_do_not_hide_one_that_goes_on() {
    let readers = Sequences::new();
    let _first = readers.note(&(0..100), 1000);
    for other in 1..7 {
        assert!(
            readers
                .note(&(other * 10_000..other * 10_000 + 1), 1000)
                .is_empty()
        );
    }
    assert_eq!(readers.note(&(100..200), 1000), 200..1200);
}

#[test]
fn nothing_is_read_ahead_where_none_is_wanted() {
    let readers = Sequences::new();
    for at in 0..20 {
        assert!(readers.note(&(at * 10..at * 10 + 10), 0).is_empty());
    }
}
