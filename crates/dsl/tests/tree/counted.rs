//! Features that datasets are counted for.

use format::features::LONGNAME;
use millpond_dsl::{DatasetFeature, DslError};

use crate::harness::{Harness, create};

#[test]
fn a_feature_that_is_not_enabled_is_not_counted() {
    let mut harness = Harness::new(91, &[LONGNAME.guid]);
    harness.run(create("tank/a")).unwrap();
    let head = harness.dsl.head("tank/a").unwrap();
    let refused = head.note_feature(DatasetFeature::LongName);
    let Err(DslError::FeatureDisabled { feature }) = refused else {
        panic!("{refused:?}");
    };
    assert_eq!(feature, LONGNAME.name);
    for _ in 0..2 {
        head.note_feature(DatasetFeature::LargeDnode).unwrap();
    }
    harness.write("tank/a", 200, 0, 1, 4096);
    harness.sync();
    let counted = head.features().unwrap();
    assert!(counted.contains(&DatasetFeature::LargeDnode));
    assert!(!counted.contains(&DatasetFeature::LongName));
    assert_eq!(harness.memory.count(&LONGNAME), 0);
    harness.check();
}
