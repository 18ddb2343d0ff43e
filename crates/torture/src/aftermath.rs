//! What must hold when the work is over, whatever it was: nothing is owed in memory, each file is one object with as
//! many names as it counts, and on the devices each block has one owner and each allocated one is somebody's.

use crate::test_pool::{POOL, TestPool};
use base::ObjectId;
use base::clock::{real_now, since};
use format::{ObjectSetKind, ObjectType};
use inspect::{Checks, Image};
use posix::{Credentials, FileSystem, FileType, Visit};
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

/// What is owed longer than this is owed for ever.
const PATIENCE: Duration = Duration::from_secs(60);

/// Exports the pool after its history and looks at what that left: see the module.
///
/// # Panics
/// If anything does not hold.
pub fn export(test_pool: TestPool, folder: &Path) {
    leave(test_pool);
    on_devices(folder);
}

/// The same without a look at the devices, which may come later.
///
/// # Panics
/// If anything does not hold.
pub fn leave(test_pool: TestPool) {
    let mut found = objects(&test_pool);
    test_pool.close_all();
    found.extend(owed(&test_pool));
    found.extend(blamed(&test_pool));
    assert!(found.is_empty(), "afterwards:\n{}", found.join("\n"));
    test_pool.export().expect("the pool is exported");
}

/// Checks the pool whose devices are in a folder, and that nobody has open.
///
/// # Panics
/// If anything is wrong with it.
pub fn on_devices(folder: &Path) {
    let image = Image::open(&[folder.to_owned()], Some(POOL), None).expect("the pool is found");
    let checks = Checks {
        data: true,
        space: true,
    };
    let checked = image
        .check(checks, &|_, _| {})
        .expect("the pool is checked");
    assert!(checked.is_clean, "on the devices: {checked:#?}");
}

/// What is still reserved, dirty, promised or held while nobody works.
///
/// # Panics
/// If the pool does not sync.
#[must_use]
pub fn owed(test_pool: &TestPool) -> Vec<String> {
    let pool = &test_pool.pool;
    let Some(engine) = pool.engine() else {
        return Vec::new();
    };
    let begun = real_now();
    loop {
        pool.sync().expect("the pool syncs");
        let dirty = engine.dirty_counts();
        let owed = [
            ("bytes reserved or dirty", i128::from(dirty.total_bytes)),
            ("bytes not synced", i128::from(dirty.unsynced_bytes)),
            ("bytes promised", i128::from(pool.dsl().promised_bytes())),
            ("states held", pool.states_held() as i128),
        ];
        let owed: Vec<String> = owed
            .iter()
            .filter(|(_, count)| *count != 0)
            .map(|(what, count)| format!("{count} {what}"))
            .collect();
        // Promises end with the txgs that they are for, and the pool frees in the background.
        if owed.is_empty() || since(begun) > PATIENCE {
            return owed;
        }
    }
}

/// Devices that are said to have given wrong bytes. Those that kept what was written are never blamed: also not for a
/// block that had been freed or rewritten by the time that it was read, or whose write a crash cut off.
///
/// # Panics
/// If there is no status.
#[must_use]
pub fn blamed(test_pool: &TestPool) -> Vec<String> {
    let root = test_pool.pool.status().expect("the pool has a status").root;
    let errors = root.errors.checksum;
    let line = (errors > 0).then(|| format!("{errors} checksum errors of devices that kept all"));
    Vec::from_iter(line)
}

/// Files whose objects and names do not fit together, in all file systems.
///
/// # Panics
/// If datasets cannot be read.
#[must_use]
pub fn objects(test_pool: &TestPool) -> Vec<String> {
    let dsl = Arc::clone(test_pool.pool.dsl());
    let root = dsl.root_directory().expect("there is a root");
    let mut found = Vec::new();
    for head in dsl.heads_under(&root).expect("datasets are read") {
        let path = head.name().expect("a name");
        // A volume has no files.
        if head.object_set().expect("an object set").kind() == ObjectSetKind::Volume {
            continue;
        }
        let system = test_pool.system(&path);
        let set = head.object_set().expect("an object set");
        let lines = objects_of(&system, &set);
        found.extend(lines.into_iter().map(|line| format!("{path}: {line}")));
    }
    found
}

fn objects_of(system: &FileSystem, set: &dmu::ObjectSet) -> Vec<String> {
    let mut names = BTreeMap::from([(system.root(), 1)]);
    count_names(system, system.root(), &mut names);
    let (mut lines, mut nameless) = (Vec::new(), 0);
    let mut next = ObjectId(0);
    while let Some(object) = set.next_object(next).expect("objects are listed") {
        next = object;
        let is_file = set.object(object).map(|object| {
            let kind = object.info().object_type;
            kind == ObjectType::PLAIN_FILE || kind == ObjectType::DIRECTORY
        });
        match is_file {
            Ok(true) => {}
            Ok(false) => continue,
            Err(error) => {
                lines.push(format!("object {}: {error}", object.0));
                continue;
            }
        }
        let count = names.remove(&object);
        if count.is_none() && system.is_extended_attribute(object).unwrap_or(false) {
            continue;
        }
        let Some(count) = count else {
            nameless += 1;
            continue;
        };
        match system.getattr(object) {
            Ok(found) if found.file_type == FileType::Directory || found.links == count => {}
            Ok(found) => lines.push(format!(
                "object {} has {count} names and counts {}",
                object.0, found.links
            )),
            Err(error) => lines.push(format!("object {}: {error}", object.0)),
        }
    }
    let known = system.unlinked().expect("the list is read");
    if nameless != known {
        lines.push(format!(
            "{nameless} objects without a name, of which {known} are known"
        ));
    }
    lines.extend(
        names
            .keys()
            .map(|object| format!("a name of object {}, which there is not", object.0)),
    );
    lines
}

/// How many names each object below a directory has.
fn count_names(system: &FileSystem, directory: ObjectId, names: &mut BTreeMap<ObjectId, u32>) {
    let mut below = Vec::new();
    let listed = system.readdir(&Credentials::root(), directory, 0, &mut |entry| {
        if entry.name != b"." && entry.name != b".." {
            below.push((entry.object, entry.file_type));
        }
        Visit::Continue
    });
    listed.expect("directories are read");
    for (object, kind) in below {
        let count = names.entry(object).or_insert(0);
        *count += 1;
        if kind == Some(FileType::Directory) {
            assert!(*count == 1, "directory {} has two names", object.0);
            count_names(system, object, names);
        }
    }
}
