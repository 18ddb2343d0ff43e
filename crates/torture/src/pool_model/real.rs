//! The same changes to a real pool, and what differs between it and the model.

use super::choose::is_inherited;
use super::{Change, Head, PoolModel};
use crate::real;
use crate::test_pool::{TestPool, mount};
use base::clock::SystemClock;
use dsl::property::Requirement;
use dsl::property::dataset::{self, VERSION};
use dsl::tasks::{
    Clone, CreateBookmark, CreateDataset, DestroyBookmark, DestroyHead, DestroySnapshots, Hold,
    Promote, Release, Rename, RenameSnapshot, Rollback, Snapshot,
};
use dsl::{Dataset, PropertyChange, PropertyValue, SetProperties};
use format::uberblock::VERSION_FEATURES;
use format::{ObjectSetKind, version};
use std::sync::Arc;

type Outcome<T = ()> = dsl::Result<T>;

/// Fills a new file system.
#[must_use]
pub fn populate() -> dsl::tasks::Populate {
    populate_in(VERSION_FEATURES)
}

/// The same in a pool of a version: of the newest version that it can be there.
#[must_use]
pub fn populate_in(pool_version: u64) -> dsl::tasks::Populate {
    let fits = |version: &u64| match VERSION.needed(*version) {
        Some(Requirement::Version(since)) => since <= pool_version,
        Some(Requirement::Feature(_)) | None => true,
    };
    let newest = (1..=VERSION.default_number()).rev().find(fits);
    Box::new(move |objects, tx| {
        let new = posix::NewFileSystem {
            version: newest.unwrap_or(1),
            ..posix::NewFileSystem::default()
        };
        posix::create_file_system(tx, objects, &SystemClock, &new)
            .map(drop)
            .map_err(|error| error.to_string())
    })
}

/// Does to the pool what the change says.
///
/// # Errors
/// The pool's.
pub fn apply(test_pool: &TestPool, change: &Change) -> Outcome {
    match change {
        // The contents are exchanged, or go: nobody may have them open.
        Change::Rollback(path, _) | Change::Destroy(path) => test_pool.close(path),
        Change::Rename(..) => test_pool.close_all(),
        _ => {}
    }
    let dsl = Arc::clone(test_pool.pool.dsl());
    match change {
        Change::Create(path) => dsl
            .run(CreateDataset {
                path: path.clone(),
                kind: ObjectSetKind::FileSystem,
                properties: Vec::new(),
                case_insensitive: false,
                populate: Some(populate_in(test_pool.pool.version())),
            })
            .map(drop),
        Change::Clone(origin, path) => dsl
            .run(Clone {
                origin: origin.clone(),
                path: path.clone(),
                properties: Vec::new(),
            })
            .map(drop),
        Change::Destroy(path) => dsl.run(DestroyHead { path: path.clone() }),
        Change::DestroySnapshots(names, defer) => dsl.run(DestroySnapshots {
            names: names.clone(),
            defer: *defer,
        }),
        Change::Snapshot(names) => dsl
            .run(Snapshot {
                names: names.clone(),
                properties: Vec::new(),
            })
            .map(drop),
        Change::Rollback(path, short) => dsl
            .run(Rollback {
                path: path.clone(),
                snapshot: Some(short.clone()),
            })
            .map(drop),
        Change::Promote(path) => dsl.run(Promote { path: path.clone() }),
        Change::Rename(from, to) => dsl.run(Rename {
            from: from.clone(),
            to: to.clone(),
        }),
        _ => apply_small(test_pool, change),
    }
}

fn apply_small(test_pool: &TestPool, change: &Change) -> Outcome {
    let dsl = test_pool.pool.dsl();
    let pair = |name: &String, tag: &String| vec![(name.clone(), tag.clone())];
    let set = |name: &String, property: &String, change| {
        let (name, changes) = (name.clone(), vec![(property.clone(), change)]);
        dsl.run(SetProperties { name, changes })?;
        test_pool.renew_properties()
    };
    match change {
        Change::RenameSnapshot(from, to) => dsl.run(RenameSnapshot {
            from: from.clone(),
            to: super::split(to, '@').1.to_owned(),
            recursive: false,
        }),
        Change::Hold(name, tag) => dsl.run(Hold {
            holds: pair(name, tag),
        }),
        Change::Release(name, tag) => dsl.run(Release {
            holds: pair(name, tag),
        }),
        Change::Bookmark(name, source) => dsl.run(CreateBookmark {
            name: name.clone(),
            source: source.clone(),
        }),
        Change::DestroyBookmark(name) => dsl.run(DestroyBookmark { name: name.clone() }),
        Change::Set(path, name, value) => set(path, name, PropertyChange::Set(value.clone())),
        Change::Inherit(path, name) => set(path, name, PropertyChange::Inherit),
        _ => unreachable!("handled by the caller"),
    }
}

/// Whether the pool knows such changes: older ones lack some.
#[must_use]
pub fn is_known(test_pool: &TestPool, change: &Change) -> bool {
    let version = test_pool.pool.version();
    match change {
        Change::Set(_, name, PropertyValue::Number(value)) => {
            match dataset::find(name).and_then(|row| row.needed(*value)) {
                Some(Requirement::Version(since)) => version >= since,
                Some(Requirement::Feature(_)) => version >= VERSION_FEATURES,
                None => true,
            }
        }
        Change::Hold(..) | Change::DestroySnapshots(_, true) => version >= version::HOLDS,
        Change::Bookmark(..) => version >= VERSION_FEATURES,
        _ => true,
    }
}

/// Every difference between the model and the pool, a line each.
///
/// # Errors
/// A dataset cannot be read.
pub fn differences(pool_model: &PoolModel, test_pool: &TestPool) -> Outcome<Vec<String>> {
    let mut found = dataset_differences(pool_model, test_pool)?;
    if !found.is_empty() {
        return Ok(found);
    }
    for (path, head) in pool_model.heads() {
        let files = real::differences(&head.tree, &test_pool.system(path));
        found.extend(files.into_iter().map(|line| format!("{path}: {line}")));
    }
    Ok(found)
}

/// The same without the files of heads.
///
/// # Errors
/// A dataset cannot be read.
pub fn dataset_differences(pool_model: &PoolModel, test_pool: &TestPool) -> Outcome<Vec<String>> {
    let dsl = Arc::clone(test_pool.pool.dsl());
    let mut found = Vec::new();
    let heads = dsl.heads_under(&dsl.root_directory()?)?;
    let real: Vec<String> = heads
        .iter()
        .map(|head| head.name())
        .collect::<Outcome<_>>()?;
    let wanted: Vec<&String> = pool_model.heads().keys().collect();
    let mut sorted: Vec<&String> = real.iter().collect();
    sorted.sort();
    if sorted != wanted {
        found.push(format!("heads: {sorted:?}, not {wanted:?}"));
        return Ok(found);
    }
    for (path, head) in pool_model.heads() {
        let dataset = dsl.head(path)?;
        compare(pool_model, path, head, &dataset, &mut found)?;
        if !found.is_empty() {
            continue;
        }
        for snapshot in &head.snapshots {
            let name = format!("{path}@{}", snapshot.name);
            let files = real::differences(&snapshot.tree, &mount(&test_pool.pool, &name, true));
            found.extend(files.into_iter().map(|line| format!("{name}: {line}")));
        }
    }
    Ok(found)
}

fn compare(
    pool_model: &PoolModel,
    path: &str,
    head: &Head,
    dataset: &Arc<Dataset>,
    found: &mut Vec<String>,
) -> Outcome {
    let mut check = |what: &str, wanted: String, real: String| {
        if wanted != real {
            found.push(format!("{path}: {what}: {real}, not {wanted}"));
        }
    };
    let wanted: Vec<_> = head.snapshots.iter().map(|one| one.name.clone()).collect();
    let snapshots = dataset.snapshots()?;
    let real: Vec<_> = snapshots
        .iter()
        .map(|one| one.snapshot_name())
        .collect::<Outcome<_>>()?;
    check("snapshots", format!("{wanted:?}"), format!("{real:?}"));
    for (one, snapshot) in head.snapshots.iter().zip(&snapshots) {
        let mut real: Vec<_> = snapshot.holds()?.into_iter().map(|hold| hold.tag).collect();
        real.sort();
        let wanted: Vec<_> = one.holds.iter().cloned().collect();
        check(&one.name, format!("{wanted:?}"), format!("{real:?}"));
    }
    let wanted = head
        .origin
        .and_then(|origin| pool_model.snapshot_name(origin));
    let real = dataset
        .directory()
        .origin()?
        .map(|origin| origin.name())
        .transpose()?;
    check("origin", format!("{wanted:?}"), format!("{real:?}"));
    let wanted: Vec<_> = head.bookmarks.keys().cloned().collect();
    let mut real: Vec<_> = dataset
        .bookmarks()?
        .into_iter()
        .map(|one| one.name)
        .collect();
    real.sort();
    check("bookmarks", format!("{wanted:?}"), format!("{real:?}"));
    for other in pool_model.heads().values() {
        for property in other.properties.keys() {
            let inherited = is_inherited(property);
            let wanted = if inherited {
                pool_model.effective(path, property)
            } else {
                head.properties.get(property)
            };
            let row = dsl::property::dataset::find(property);
            let real = match row {
                Some(row) => dataset.effective(row)?,
                None => dataset.user_property(property)?,
            };
            let real = real.map(|(value, _)| value);
            check(
                property,
                format!("{wanted:?}"),
                format!("{:?}", real.as_ref()),
            );
        }
    }
    Ok(())
}
