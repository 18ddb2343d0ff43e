//! Pools that are split: both halves hold everything, and zdb finds nothing wrong with either.

use std::path::Path;
use std::sync::Arc;

use base::Guid;
use device::FileDevice;
use format::config::keys;

use super::*;
use crate::churn::Churn;
use crate::create::CreateOptions;
use crate::pool::status::VdevRole;
use crate::vdevs::disks::AttachOptions;
use crate::vdevs::new::{NewDevice, NewVdev};
use crate::vdevs::regroup::OutOfUse;

const SIZE: u64 = 96 << 20;

fn files(folder: &Path, names: &str) -> Vec<NewDevice> {
    let file = |name: &str| {
        let path = folder.join(name);
        FileDevice::create(&path, SIZE).unwrap();
        NewDevice::Path(path)
    };
    names.split(' ').map(file).collect()
}

fn create(folder: &Path, mirrors: &[&str], log: Option<&str>) -> Arc<Pool> {
    let mirror = |names: &&str| NewVdev::Mirror(files(folder, names));
    let mut options = CreateOptions::new("tank", mirrors.iter().map(mirror).collect());
    if let Some(name) = log {
        let device = files(folder, name).remove(0);
        options.others = vec![(VdevRole::Log, NewVdev::Single(device))];
    }
    Pool::create(options).unwrap()
}

fn import(folder: &Path, name: &str) -> Arc<Pool> {
    let selection = Selection::Name(name.to_owned());
    Pool::import(&ImportOptions::new(vec![folder.to_owned()], selection)).unwrap()
}

fn leaf(pool: &Pool, name: &str) -> Guid {
    let config = pool.config();
    let leaves = config.root.leaves();
    let called = |leaf: &&&VdevConfig| leaf.path().unwrap().ends_with(&format!("/{name}"));
    leaves.iter().find(called).unwrap().guid()
}

fn shape(pool: &Pool) -> String {
    fn shape(node: &VdevConfig) -> String {
        if let Some(path) = node.path() {
            return path.rsplit('/').next().unwrap().to_owned();
        }
        let children: Vec<_> = node.children.iter().map(shape).collect();
        format!("{}({})", node.kind(), children.join(" "))
    }
    let config = pool.config();
    let tops: Vec<_> = config.root.children.iter().map(shape).collect();
    tops.join(" ")
}

fn split(pool: &Arc<Pool>, name: &str, sides: &[&str]) -> Result<Arc<Pool>> {
    let sides: Vec<Guid> = sides.iter().map(|name| leaf(pool, name)).collect();
    let sides = pool.sides_to_split(&sides)?;
    pool.split(name, &sides)
}

fn close(pool: Arc<Pool>, folder: &Path) {
    let name = pool.name();
    pool.export().unwrap();
    drop(pool);
    if let Some(zdb) = golden::Zdb::from_environment() {
        zdb.assert_clean(folder, &name);
    }
}

fn scrub(pool: &Arc<Pool>) {
    pool.start_scrub().unwrap();
    pool.wait_scrub().unwrap();
    let scan = pool.scan().unwrap().unwrap();
    assert_eq!((scan.errors, scan.processed), (0, 0));
}

#[test]
fn both_pools_hold_everything_and_neither_knows_the_other() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let pool = create(folder, &["a b", "c d e"], Some("log"));
    let mut churn = Churn::new(&pool, 1);
    churn.run(&pool, 4);
    let other = split(&pool, "pond", &["d"]).unwrap();
    assert_eq!(
        shape(&pool),
        "mirror(a b) mirror(c d e) log"
            .replace("mirror(a b)", "a")
            .replace(" d e", " e")
    );
    assert_eq!(shape(&other), "b d hole()");
    assert_eq!(other.name(), "pond");
    assert_ne!(other.guid(), pool.guid());
    let mut theirs = churn.as_of_now();
    theirs.check(&other);
    scrub(&other);
    // Each goes its own way.
    theirs.run(&other, 3);
    churn.run(&pool, 3);
    close(other, folder);
    close(pool, folder);
    for (name, wanted) in [("tank", &churn), ("pond", &theirs)] {
        let pool = import(folder, name);
        assert!(pool.config().list.get(keys::SPLIT_GUID).is_none());
        wanted.check(&pool);
        scrub(&pool);
        close(pool, folder);
    }
    // What was split off may be split from nothing more.
    let pool = import(folder, "pond");
    let refused = pool.sides_to_split(&[]).unwrap_err().to_string();
    assert_eq!(refused, MIRRORS_ONLY);
    // And a side that is returned is a side again.
    let tank = import(folder, "tank");
    drop(pool);
    let back = NewDevice::Path(folder.join("b"));
    let options = AttachOptions {
        force: true,
        ..AttachOptions::default()
    };
    tank.attach_device(leaf(&tank, "a"), &back, &options)
        .unwrap();
    tank.wait_scrub().unwrap();
    assert_eq!(shape(&tank), "mirror(a b) mirror(c e) log");
}

#[test]
fn a_side_that_lacks_something_is_not_split_off() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let pool = create(folder, &["a b", "c d"], None);
    let mut churn = Churn::new(&pool, 2);
    churn.run(&pool, 1);
    let refused = |sides: &[&str]| split(&pool, "pond", sides).err().unwrap().to_string();
    assert_eq!(refused(&["a", "b"]), ONE_A_MIRROR);
    let out = OutOfUse {
        faulted: false,
        temporary: true,
    };
    pool.take_out(leaf(&pool, "d"), out).unwrap();
    churn.run(&pool, 2);
    assert!(
        refused(&[]).contains("is not up to date"),
        "{}",
        refused(&[])
    );
    // The pool would be without what the other side lacks.
    assert_eq!(refused(&["c"]), NO_REPLICAS);
    pool.bring_online(leaf(&pool, "d")).unwrap();
    pool.wait_scrub().unwrap();
    pool.sync().unwrap();
    pool.take_checkpoint().unwrap();
    assert_eq!(refused(&[]), "checkpoint exists");
    pool.discard_checkpoint().unwrap();
    while pool.facts().checkpoint().is_some() {
        pool.sync().unwrap();
    }
    assert_eq!(shape(&pool), "mirror(a b) mirror(c d)");
    churn.check(&pool);
    let other = split(&pool, "pond", &["a"]).unwrap();
    assert_eq!((shape(&pool), shape(&other)), ("b c".into(), "a d".into()));
    churn.check(&other);
    close(other, folder);
    close(pool, folder);
}
