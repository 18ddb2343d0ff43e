//! Datasets, snapshots and properties, and what becomes of open files meanwhile.

use super::Fixture;
use millpond::{
    CreateOptions, DatasetKind, DestroyOptions, DifferenceKind, Error, FileOptions, ListOptions,
    OpenOptions, Pool, PropertySource, RollbackOptions, ScrubState,
};
use std::io::ErrorKind;

fn names(pool: &Pool, options: ListOptions) -> Vec<String> {
    let found = pool.datasets("pond", options).unwrap();
    found.into_iter().map(|info| info.name).collect()
}

#[test]
fn datasets_are_made_listed_renamed_and_destroyed() {
    let fixture = Fixture::new();
    let pool = &fixture.pool;
    pool.create_dataset("pond/a", &[("compression", "off")])
        .unwrap();
    pool.create_dataset("pond/a/b", &[]).unwrap();
    pool.snapshot_recursive("pond/a@s").unwrap();
    assert_eq!(
        names(pool, ListOptions::new()),
        ["pond", "pond/a", "pond/a/b"]
    );
    assert_eq!(
        names(pool, ListOptions::new().all().depth(2)),
        ["pond", "pond/a", "pond/a@s", "pond/a/b"]
    );
    let snapshots = pool.snapshots("pond/a").unwrap();
    assert_eq!(snapshots.len(), 1);
    assert_eq!(snapshots[0].kind, DatasetKind::Snapshot);

    let files = pool.file_system("pond/a/b").unwrap();
    files.write("f", b"x").unwrap();
    pool.rename("pond/a", "pond/c").unwrap();
    assert_eq!(files.name(), "pond/c/b");
    assert_eq!(files.read("f").unwrap(), b"x");

    let busy = pool.destroy("pond/c/b", DestroyOptions::new().recursive());
    assert!(matches!(busy, Err(Error::Busy(_))), "{busy:?}");
    drop(files);
    let kept = pool.destroy("pond/c", DestroyOptions::new());
    assert!(kept.is_err());
    pool.destroy("pond/c", DestroyOptions::new().recursive())
        .unwrap();
    assert_eq!(names(pool, ListOptions::new().all()), ["pond"]);
}

#[test]
fn a_rollback_makes_open_files_stale_and_not_the_file_system() {
    let fixture = Fixture::new();
    let pool = &fixture.pool;
    let files = pool.file_system("pond").unwrap();
    files.write("f", b"old").unwrap();
    pool.snapshot(&["pond@one"]).unwrap();
    files.write("f", b"newer").unwrap();
    let open = files
        .open("f", &FileOptions::new().read(true).write(true))
        .unwrap();
    pool.snapshot(&["pond@two"]).unwrap();

    let alone = RollbackOptions::new();
    assert!(pool.rollback("pond@one", alone).is_err());
    assert_eq!(files.read("f").unwrap(), b"newer");
    pool.rollback("pond@one", alone.destroy_newer()).unwrap();
    assert_eq!(files.read("f").unwrap(), b"old");
    let error = open.read_all().unwrap_err();
    assert!(matches!(error, Error::Stale(_)), "{error}");
    assert!(matches!(open.set_len(0), Err(Error::Stale(_))));
    files.write("f", b"again").unwrap();
    assert_eq!(files.read("f").unwrap(), b"again");
}

#[test]
fn clones_are_promoted_and_snapshots_held() {
    let fixture = Fixture::new();
    let pool = &fixture.pool;
    pool.create_dataset("pond/a", &[]).unwrap();
    let files = pool.file_system("pond/a").unwrap();
    files.write("f", b"x").unwrap();
    pool.snapshot(&["pond/a@s"]).unwrap();
    pool.hold("pond/a@s", "kept").unwrap();
    assert!(pool.destroy("pond/a@s", DestroyOptions::new()).is_err());
    pool.release("pond/a@s", "kept").unwrap();
    pool.clone_snapshot("pond/a@s", "pond/b", &[("readonly", "on")])
        .unwrap();
    let copy = pool.file_system("pond/b").unwrap();
    assert_eq!(copy.read("f").unwrap(), b"x");
    assert!(matches!(copy.write("f", b""), Err(Error::ReadOnly(_))));
    pool.promote("pond/b").unwrap();
    drop(files);
    pool.destroy("pond/a", DestroyOptions::new()).unwrap();
    assert_eq!(pool.snapshots("pond/b").unwrap()[0].name, "pond/b@s");
}

#[test]
fn a_snapshot_is_read_and_stale_once_destroyed() {
    let fixture = Fixture::new();
    let pool = &fixture.pool;
    let files = pool.file_system("pond").unwrap();
    files.write("f", b"x").unwrap();
    pool.snapshot(&["pond@s"]).unwrap();
    files.remove_file("f").unwrap();
    let snapshot = pool.file_system("pond@s").unwrap();
    assert_eq!(snapshot.read("f").unwrap(), b"x");
    assert!(matches!(snapshot.write("f", b""), Err(Error::ReadOnly(_))));
    pool.destroy("pond@s", DestroyOptions::new()).unwrap();
    assert!(matches!(snapshot.read("f"), Err(Error::Stale(_))));
    assert!(matches!(
        pool.file_system("pond@s"),
        Err(Error::NotFound(_))
    ));
}

#[test]
fn properties_are_set_inherited_and_obeyed_at_once() {
    let fixture = Fixture::new();
    let pool = &fixture.pool;
    pool.create_dataset("pond/a", &[]).unwrap();
    let files = pool.file_system("pond/a").unwrap();
    pool.set_property("pond", "readonly", "on").unwrap();
    let found = pool.property("pond/a", "readonly").unwrap();
    assert_eq!(found.value, "on");
    assert_eq!(found.source, PropertySource::Inherited("pond".to_owned()));
    assert!(matches!(files.write("f", b""), Err(Error::ReadOnly(_))));
    pool.inherit_property("pond", "readonly").unwrap();
    files.write("f", b"x").unwrap();

    pool.set_property("pond/a", "quota", "10M").unwrap();
    assert_eq!(pool.property("pond/a", "quota").unwrap().value, "10485760");
    pool.set_property("pond/a", "mountpoint", "/elsewhere")
        .unwrap();
    pool.set_property("pond/a", "own:note", "text").unwrap();
    let all = pool.properties("pond/a").unwrap();
    assert!(
        all.iter()
            .any(|found| found.name == "own:note" && found.value == "text")
    );
    let error = pool.set_property("pond/a", "nonsense", "1").unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidInput);
    assert!(pool.set_property("pond/a", "compression", "none").is_err());

    pool.set_pool_property("comment", "a note").unwrap();
    let all = pool.pool_properties().unwrap();
    assert!(
        all.iter()
            .any(|found| found.name == "comment" && found.value == "a note")
    );
}

#[test]
fn a_pool_that_is_open_is_busy_and_its_handles_end_with_it() {
    let fixture = Fixture::new();
    let image = fixture.image();
    let Fixture { folder, pool } = fixture;
    let again = Pool::open(&OpenOptions::new().path(&image));
    assert!(matches!(again, Err(Error::Busy(_))), "{again:?}");
    let files = pool.file_system("pond").unwrap();
    let file = files.create("open and without a name").unwrap();
    files.remove_file("open and without a name").unwrap();
    pool.clone().export().unwrap();
    assert!(matches!(file.read_all(), Err(Error::Stale(_))));
    assert!(matches!(files.read("f"), Err(Error::Stale(_))));
    assert!(matches!(pool.sync(), Err(Error::Stale(_))));
    let guid = pool.guid();
    drop((file, files, pool));

    // The last handle exports.
    let again = Pool::open(&OpenOptions::new().path(folder.path())).unwrap();
    assert_eq!(again.guid(), guid);
    let files = again.file_system("pond").unwrap();
    drop(again);
    files.write("last", b"x").unwrap();
    drop(files);
    let options = OpenOptions::new().path(&image).rename("lake");
    let again = Pool::open(&options).unwrap();
    assert_eq!(again.name(), "lake");
    assert_eq!(
        again.file_system("lake").unwrap().read("last").unwrap(),
        b"x"
    );
}

#[test]
fn pools_that_cannot_be_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let image = folder.path().join("x.img");
    let none = Pool::create(&CreateOptions::new("x")).unwrap_err();
    assert_eq!(none.kind(), ErrorKind::InvalidInput);
    let bad = CreateOptions::new("1/2").file(&image).file_size(64 << 20);
    assert_eq!(
        Pool::create(&bad).unwrap_err().kind(),
        ErrorKind::InvalidInput
    );
    let missing = CreateOptions::new("x").file(&image);
    assert!(Pool::create(&missing).is_err());
    let nowhere = Pool::open(&OpenOptions::new().path(folder.path())).unwrap_err();
    assert_eq!(nowhere.kind(), ErrorKind::NotFound);
    assert!(!image.exists());
}

#[test]
fn differences_between_states_are_visited() {
    let fixture = Fixture::new();
    let pool = &fixture.pool;
    let files = pool.file_system("pond").unwrap();
    for name in ["gone", "changed", "moved", "same"] {
        files.write(name, b"first").unwrap();
    }
    pool.snapshot(&["pond@one"]).unwrap();
    files.remove_file("gone").unwrap();
    files.write("changed", b"second").unwrap();
    files.rename("moved", "there").unwrap();
    files.write("new", b"third").unwrap();
    let mut found = Vec::new();
    pool.diff("pond@one", "pond", &mut |difference| {
        let name = difference.path.file_name().unwrap_or_default().to_owned();
        found.push((name.into_string().unwrap(), difference.kind));
        Ok(())
    })
    .unwrap();
    found.sort_by(|one, other| one.0.cmp(&other.0));
    let kinds: Vec<_> = found.iter().map(|(name, kind)| (&name[..], kind)).collect();
    assert!(
        matches!(
            kinds[..],
            [
                ("changed", DifferenceKind::Modified),
                ("gone", DifferenceKind::Removed),
                ("moved", DifferenceKind::Renamed(to)),
                ("new", DifferenceKind::Created),
                ("pond", DifferenceKind::Modified),
            ] if to.ends_with("there")
        ),
        "{kinds:?}"
    );
    let stopped = pool.diff("pond@one", "pond", &mut |_| {
        Err(Error::Busy("enough".into()))
    });
    assert!(matches!(stopped, Err(Error::Busy(_))), "{stopped:?}");
    let missing = pool.diff("pond@two", "pond", &mut |_| Ok(()));
    assert!(matches!(missing, Err(Error::NotFound(_))), "{missing:?}");
}

#[test]
fn a_scrub_and_a_bookmark() {
    let fixture = Fixture::new();
    let pool = &fixture.pool;
    assert_eq!(pool.scrub_report().unwrap(), None);
    pool.file_system("pond")
        .unwrap()
        .write("f", &[7; 300_000])
        .unwrap();
    pool.snapshot(&["pond@one"]).unwrap();
    pool.bookmark("pond@one", "pond#mark").unwrap();
    assert!(pool.bookmark("pond@one", "pond#mark").is_err());
    assert!(names(pool, ListOptions::new().all()).contains(&"pond#mark".to_owned()));
    pool.start_scrub().unwrap();
    let found = pool.wait_for_scrub().unwrap().unwrap();
    assert_eq!(
        (found.state, found.errors, found.repaired),
        (ScrubState::Finished, 0, 0)
    );
    assert!(found.examined > 0 && found.to_examine > 0);
    assert!(pool.stop_scrub().is_err(), "none runs");
    pool.destroy("pond#mark", DestroyOptions::new()).unwrap();
}

#[test]
fn errors_name_the_thing_and_the_cause_and_advise_no_command() {
    let fixture = Fixture::new();
    let missing = fixture.pool.snapshot(&["pond/none@s"]).unwrap_err();
    assert_eq!(missing.cause().name(), Some("pond/none"), "{missing:?}");
    fixture.pool.snapshot(&["pond@a", "pond@b"][..1]).unwrap();
    fixture.pool.snapshot(&["pond@b"]).unwrap();
    let newer = fixture
        .pool
        .rollback("pond@a", RollbackOptions::new())
        .unwrap_err();
    let text = newer.to_string();
    assert!(text.contains("more recent snapshots"), "{text}");
    assert!(text.ends_with(": pond@b") && !text.contains("-r"), "{text}");
}
