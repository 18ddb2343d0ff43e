use super::*;
use crate::import::discover::discover;
use crate::{ImportOptions, Pool, PoolError, Selection};
use std::path::PathBuf;

fn contents(images: &[PathBuf]) -> Vec<Vec<u8>> {
    let read = |image: &PathBuf| std::fs::read(image).unwrap();
    images.iter().map(read).collect()
}

/// What is said of a pool.
fn said<T>(outcome: Result<T, PoolError>) -> String {
    match outcome {
        Ok(_) => "it can be imported".to_owned(),
        Err(error) => error.to_string(),
    }
}

#[test]
fn a_trial_says_what_the_import_says_and_changes_nothing() {
    for golden in golden::all_pools() {
        let (_folder, images) = golden.copy();
        let before = contents(&images);
        let found = discover(&images).unwrap().pop().unwrap();
        let trial = try_import(&found);
        assert!(before == contents(&images), "{} was written", golden.name);
        let stored = trial.config.unwrap_or_else(|| panic!("{}", golden.name));
        assert_eq!(stored.guid(), found.guid, "{}", golden.name);
        let mut options = ImportOptions::new(images, Selection::Only);
        options.force = true;
        options.cache_bytes = 16 << 20;
        let imported = Pool::import(&options).and_then(|pool| pool.export());
        let tried = said(trial.outcome);
        println!("{}: {tried}", golden.name);
        assert_eq!(tried, said(imported), "{}", golden.name);
    }
}
