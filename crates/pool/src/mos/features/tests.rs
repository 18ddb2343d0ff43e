use std::collections::BTreeSet;

use format::features::document;

use super::*;
use crate::Pool;

fn active(guid: &str) -> Features {
    let features = Features::none();
    {
        let mut counts = features.counts.lock();
        counts.by_guid.insert(guid.to_owned(), 1);
        counts.for_read.push(guid.to_owned());
    }
    features
}

#[test]
fn pools_that_cannot_be_read_are_refused_by_the_name_of_the_feature() {
    let guid = "org.example:unheard_of";
    let refused = active(guid).check_known(false).unwrap_err();
    let PoolError::UnsupportedFeatures { features, readable } = refused else {
        panic!("{refused}");
    };
    assert_eq!((features[0].guid.as_str(), readable), (guid, false));
    for known in [&features::ZPOOL_CHECKPOINT, &features::DYNAMIC_GANG_HEADER] {
        let active = active(known.guid);
        active.check_known(true).unwrap();
        assert!(active.import_blocker().is_none(), "{}", known.name);
    }
}

/// OpenZFS activates what is enabled as it likes, and 2.3 opens no pool then.
#[test]
fn features_that_are_newer_than_new_pools_are_not_enabled_by_the_way() {
    let lacking = Features::none().lacking();
    let newer = |feature: &&&'static Feature| feature.flags.later;
    assert_eq!(lacking.iter().find(newer), None);
    assert_eq!(crate::default_features().iter().find(newer), None);
    assert_eq!(lacking, crate::default_features());
}

#[test]
fn features_of_which_nobody_knows_are_told_also_while_nothing_uses_them() {
    let features = active("org.example:used");
    let idle = ["org.example:idle", features::ASYNC_DESTROY.guid];
    for guid in idle {
        let mut counts = features.counts.lock();
        counts.by_guid.insert(guid.to_owned(), 0);
    }
    let told = features.unsupported();
    let expected = [("org.example:idle", false), ("org.example:used", true)];
    assert_eq!(told, expected.map(|(guid, used)| (guid.to_owned(), used)));
}

/// What OpenZFS says is active, what is read here, and what the document says.
#[test]
fn features_are_active_on_the_pools_of_openzfs_that_the_document_names() {
    for golden in golden::all_pools() {
        let printed = golden.lines("pool.tsv");
        if printed.is_empty() {
            continue;
        }
        let rows = printed.iter().filter_map(|line| {
            let mut words = line.split('\t').skip(1);
            let name = words.next()?.strip_prefix("feature@")?;
            (words.next()? == "active").then(|| name.to_owned())
        });
        let theirs: BTreeSet<String> = rows.collect();
        let named = features::ALL.iter();
        let named = named.filter(|feature| {
            let pools = document::active_on(feature);
            pools.contains(&golden.name.as_str())
        });
        let named: BTreeSet<String> = named.map(|feature| feature.name.to_owned()).collect();
        assert_eq!(named, theirs, "{}", golden.name);
        // It has an indirect vdev: a removed one.
        if golden.name == "removed" {
            continue;
        }
        let pool = Pool::open_read(&golden.images()).unwrap();
        let states = pool.features().all().into_iter();
        let ours: BTreeSet<String> = states
            .filter(|state| state.references.is_some_and(|count| count > 0))
            .map(|state| state.feature.name.to_owned())
            .collect();
        assert_eq!(ours, theirs, "{}", golden.name);
    }
}
