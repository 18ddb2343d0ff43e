//! The sums are those of libtest's own lines.

use super::{Run, Tally};

const OUTPUT: &str = "\
running 3 tests
test one ... ok
test two ... ok
test long ... ignored, torture: long

successes:

---- two stdout ----
repeat with: MILLPOND_SEED=1
skipped: MILLPOND_ZDB is not set
skipped: no golden pool


successes:
    one
    two

test result: ok. 2 passed; 0 failed; 1 ignored; 0 measured; 0 filtered out; finished in 0.00s

running 1 test
test bad ... FAILED

failures:

---- bad stdout ----
it broke

test result: FAILED. 0 passed; 1 failed; 0 ignored; 0 measured; 4 filtered out; finished in 1.00s";

#[test]
fn results_of_several_programs_are_summed() {
    let mut run = Run::default();
    let shown: Vec<&str> = OUTPUT.lines().filter_map(|line| run.line(line)).collect();
    let mut tally = Tally::default();
    tally.add(&run, false);
    assert_eq!(tally.to_string(), "1 passed, 1 failed, 2 skipped");
    // What failed is shown whole, what passed is not repeated, what was skipped is said once.
    assert!(shown.contains(&"it broke"));
    assert!(!shown.contains(&"repeat with: MILLPOND_SEED=1"));
    let skips = shown.iter().filter(|line| line.starts_with("skipped: "));
    assert_eq!(skips.count(), 1);
}

#[test]
fn an_ignored_test_that_a_later_run_asks_for_was_not_skipped() {
    let mut tally = Tally::default();
    let lines = [
        "test result: ok. 4 passed; 0 failed; 2 ignored; 0 measured; 0 filtered out; finished in 0.02s",
        "test result: ok. 2 passed; 0 failed; 0 ignored; 0 measured; 4 filtered out; finished in 9.02s",
    ];
    for (index, line) in lines.into_iter().enumerate() {
        let mut run = Run::default();
        run.line(line);
        tally.add(&run, index == 1);
    }
    assert_eq!(tally.to_string(), "6 passed, 0 failed, 0 skipped");
}
