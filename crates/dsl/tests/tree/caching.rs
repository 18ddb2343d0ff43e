//! What the cache in memory is to keep of datasets follows the property `primarycache`, wherever they have it from.

use base::ObjectSetId;
use millpond_dsl::property::CachePolicy;
use millpond_dsl::property::dataset::PRIMARYCACHE;
use millpond_dsl::tasks::Rename;
use millpond_dsl::{PropertyChange, PropertyValue, SetProperties};
use pipeline::KeepSource;

use crate::harness::{Harness, clone, create, destroy_head, promote, snapshot};

fn value(policy: CachePolicy) -> PropertyValue {
    PropertyValue::Number(policy as u64)
}

fn change(name: &str, change: PropertyChange) -> SetProperties {
    SetProperties {
        name: name.to_owned(),
        changes: vec![(PRIMARYCACHE.name.to_owned(), change)],
    }
}

fn set(harness: &mut Harness, name: &str, policy: CachePolicy) {
    let set = change(name, PropertyChange::Set(value(policy)));
    harness.run(set).unwrap();
}

/// What is kept of a dataset, which is open.
fn kept(harness: &Harness, name: &str) -> CachePolicy {
    let dataset = harness.dsl.dataset(name).unwrap();
    let _open = dataset.object_set().unwrap();
    let set = ObjectSetId(dataset.id().0);
    match [true, false].map(|is_metadata| harness.dsl.primary_cache().keeps(set, is_metadata)) {
        [true, true] => CachePolicy::All,
        [true, false] => CachePolicy::Metadata,
        [false, false] => CachePolicy::None,
        [false, true] => panic!("data without what leads to them"),
    }
}

#[test]
fn what_is_kept_follows_the_property_of_all_who_have_it() {
    use CachePolicy::{All, Metadata, None};
    let mut harness = Harness::new(91, &[]);
    for path in ["tank/a", "tank/a/b", "tank/other"] {
        harness.run(create(path)).unwrap();
    }
    harness.run(snapshot("tank/a@one")).unwrap();
    // They stay open.
    let names = ["tank/a", "tank/a@one", "tank/a/b", "tank/other"];
    let datasets = names.map(|name| harness.dsl.dataset(name).unwrap());
    let open = datasets.map(|dataset| (dataset.object_set().unwrap(), dataset));
    let all = |harness: &Harness| names.map(|name| kept(harness, name));
    assert_eq!(all(&harness), [All; 4]);
    set(&mut harness, "tank/a", Metadata);
    assert_eq!(all(&harness), [Metadata, Metadata, Metadata, All]);
    set(&mut harness, "tank/a/b", None);
    assert_eq!(all(&harness), [Metadata, Metadata, None, All]);
    // A snapshot has its own.
    set(&mut harness, "tank/a@one", All);
    assert_eq!(all(&harness), [Metadata, All, None, All]);
    for name in ["tank/a/b", "tank/a@one"] {
        harness.run(change(name, PropertyChange::Inherit)).unwrap();
    }
    assert_eq!(all(&harness), [Metadata, Metadata, Metadata, All]);
    drop(open);
    harness.reopen();
    assert_eq!(all(&harness), [Metadata, Metadata, Metadata, All]);
    set(&mut harness, "tank/a", All);
    assert_eq!(all(&harness), [All; 4]);
    harness.check();
}

#[test]
fn what_is_kept_follows_who_moves_under_another_parent() {
    use CachePolicy::{All, Metadata, None};
    let mut harness = Harness::new(92, &[]);
    for path in ["tank/a", "tank/a/b", "tank/other"] {
        harness.run(create(path)).unwrap();
    }
    set(&mut harness, "tank/a", None);
    set(&mut harness, "tank/other", Metadata);
    harness.run(snapshot("tank/a/b@one")).unwrap();
    let [head, one] = ["tank/a/b", "tank/a/b@one"].map(|name| {
        let dataset = harness.dsl.dataset(name).unwrap();
        dataset.object_set().unwrap()
    });
    assert_eq!(kept(&harness, "tank/a/b"), None);
    harness
        .run(Rename {
            from: "tank/a/b".to_owned(),
            to: "tank/other/b".to_owned(),
        })
        .unwrap();
    assert_eq!(kept(&harness, "tank/other/b"), Metadata);
    assert_eq!(kept(&harness, "tank/other/b@one"), Metadata);
    harness
        .run(clone("tank/other/b@one", "tank/clone"))
        .unwrap();
    assert_eq!(kept(&harness, "tank/clone"), All);
    harness.run(promote("tank/clone")).unwrap();
    assert_eq!(kept(&harness, "tank/clone@one"), All);
    assert_eq!(kept(&harness, "tank/other/b"), Metadata);
    drop((head, one));
    let gone = harness.dsl.head("tank/other/b").unwrap().id();
    harness.run(destroy_head("tank/other/b")).unwrap();
    let keeps = |is_metadata| {
        let set = ObjectSetId(gone.0);
        harness.dsl.primary_cache().keeps(set, is_metadata)
    };
    assert!(keeps(false), "another may get its number");
    harness.check();
}

#[test]
fn a_new_dataset_is_kept_as_it_says() {
    let mut harness = Harness::new(93, &[]);
    let mut new = create("tank/a");
    new.properties = vec![(PRIMARYCACHE.name.to_owned(), value(CachePolicy::None))];
    harness.run(new).unwrap();
    assert_eq!(kept(&harness, "tank/a"), CachePolicy::None);
    harness.run(create("tank/a/b")).unwrap();
    assert_eq!(kept(&harness, "tank/a/b"), CachePolicy::None);
}
