//! Every input of every corpus, through every target: what was found once stays found.

use millpond_fuzz::{all, corpus, execute};
use std::collections::BTreeSet;

/// All corpora together.
const BYTES_MAX: u64 = 350_000;

/// One test, as the limit of memory is the process's.
#[test]
fn every_input_through_every_target() {
    let targets: BTreeSet<String> = all().map(|target| target.name.to_owned()).collect();
    let (mut files, mut bytes) = (BTreeSet::new(), 0);
    for entry in std::fs::read_dir(corpus::folder()).unwrap() {
        let entry = entry.unwrap();
        bytes += entry.metadata().unwrap().len();
        files.insert(entry.file_name().into_string().unwrap());
    }
    assert_eq!(files, targets, "a file for each target");
    assert!(bytes <= BYTES_MAX, "{bytes} bytes of inputs");
    let mut count = 0;
    for owner in &targets {
        for (index, input) in corpus::inputs(owner).into_iter().enumerate() {
            count += 1;
            for target in all() {
                let executed = std::panic::catch_unwind(|| execute(target, &input));
                assert!(
                    executed.is_ok(),
                    "{} with input {index} of {owner}",
                    target.name
                );
            }
        }
    }
    println!("{count} inputs of {bytes} bytes, {} targets", targets.len());
}
