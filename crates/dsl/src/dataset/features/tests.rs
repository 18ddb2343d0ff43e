use std::collections::BTreeSet;

use format::features::{self, Support};

use super::DatasetFeature;

/// The rows that say that datasets count them, of features that we write.
fn rows_by_dataset() -> BTreeSet<&'static str> {
    let written = features::ALL
        .iter()
        .filter(|feature| feature.flags.per_dataset && feature.support == Support::Write);
    written.map(|feature| feature.name).collect()
}

#[test]
fn what_rows_say_that_datasets_count_is_what_datasets_count() {
    let counted = DatasetFeature::ALL.map(|feature| feature.feature().name);
    assert_eq!(rows_by_dataset(), BTreeSet::from(counted));
}

#[test]
fn a_counted_feature_is_found_by_its_row() {
    for feature in DatasetFeature::ALL {
        assert_eq!(DatasetFeature::of(feature.feature()), Some(feature));
    }
}
