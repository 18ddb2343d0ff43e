//! Vdevs that can lose less than others of their pool are taken with `-f` only, as by OpenZFS 2.3.

use std::fs;

use crate::session::{Session, path};

/// Makes images of 64 MiB by their names.
fn images(session: &Session, names: &[&str]) -> Vec<String> {
    let make = |name: &&str| {
        let image = session.images().join(name);
        let file = fs::File::create(&image).expect("an image");
        file.set_len(64 << 20).expect("its size");
        path(&image).to_owned()
    };
    names.iter().map(make).collect()
}

fn mismatch(reason: &str) -> String {
    format!(
        "invalid vdev specification\nuse '-f' to override the following errors:\n\
         mismatched replication level: {reason}\n"
    )
}

#[test]
fn a_pool_of_mixed_redundancy_is_made_by_force_only() {
    let Some(mut session) = Session::new() else {
        return;
    };
    let all = images(&session, &["a", "b", "c", "d", "e", "f"]);
    let [a, b, c, d, e, f] = [0, 1, 2, 3, 4, 5].map(|index: usize| all[index].as_str());
    let mounts = session.mounts();
    let create = ["zpool", "create", "-R", path(&mounts), "tank"];
    for (words, reason) in [
        (
            vec!["mirror", a, b, "special", c],
            "both mirror and file vdevs are present",
        ),
        (
            vec!["mirror", a, b, "mirror", c, d, e],
            "both 2-way and 3-way mirror vdevs are present",
        ),
        (
            vec!["raidz2", a, b, c, d, "special", "mirror", e, f],
            "raidz and mirror vdevs with different redundancy, 2 vs. 1 (2-way) are present",
        ),
    ] {
        for dry in [&["-n"][..], &[]] {
            let words = [&create[..2], dry, &create[2..], &words].concat();
            assert_eq!(session.refused(&words), mismatch(reason), "{words:?}");
        }
    }
    session.create_of("tank", &["mirror", a, b, "log", c], &[]);
    for (words, reason) in [
        (vec![d], "pool uses mirror and new vdev is file"),
        (vec!["special", d], "pool uses mirror and new vdev is file"),
        (
            vec!["mirror", d, e, f],
            "pool uses 2-way mirror and new vdev uses 3-way mirror",
        ),
    ] {
        for dry in [&["-n"][..], &[]] {
            let words = [&["zpool", "add"], dry, &["tank"], &words[..]].concat();
            assert_eq!(session.refused(&words), mismatch(reason), "{words:?}");
        }
    }
    let used = session.refused(&["zpool", "add", "-n", "tank", "mirror", a, d]);
    let reason = format!("{a} is part of active pool 'tank'");
    assert!(used.contains(&reason), "{used}");
    let told = session.ok(&["zpool", "add", "-n", "tank", "raidz", d, e, f]);
    assert_eq!(
        told,
        format!(
            "would update 'tank' to the following configuration:\n\n\ttank\n\
             \t  mirror-0\n\t    {a}\n\t    {b}\n\
             \t  raidz1\n\t    {d}\n\t    {e}\n\t    {f}\n\
             \tlogs\n\t  {c}\n"
        )
    );
    session.ok(&["zpool", "add", "tank", "raidz", d, e, f]);
    session.export_clean("tank");
}

/// As `zfs create -p` of what is there, whatever it is.
#[test]
fn a_pool_that_is_there_is_created_with_parents() {
    let Some(mut session) = Session::new() else {
        return;
    };
    session.create("tank", 64, &[]);
    session.ok(&["zfs", "create", "-p", "-u", "tank"]);
    let refused = session.refused(&["zfs", "create", "tank"]);
    assert!(refused.contains("missing dataset name"), "{refused}");
    session.refused(&["zfs", "create", "-p", "nowhere"]);
    session.export_clean("tank");
}
