//! Who lists datasets while others are made and destroyed sees each as it is, or not at all.

use super::session::{Running, Session, path};
use std::fs;
use std::process::Stdio;
use std::time::{Duration, Instant};

/// How long it is looked, at least.
const LOOKS: Duration = Duration::from_secs(8);

#[test]
fn lists_beside_destroys_are_whole() {
    let Some(mut session) = Session::new() else {
        return;
    };
    session.create("tank", 128, &[]);
    session.ok(&["zfs", "create", "tank/a"]);
    session.ok(&["zfs", "snapshot", "tank/a@kept"]);
    let script = session.images().join("script.lua");
    let text = "
        for i = 1, 100000 do
            zfs.sync.snapshot('tank/a@s' .. i)
            if i > 2 then zfs.sync.destroy('tank/a@s' .. (i - 2)) end
        end
    ";
    fs::write(&script, text).expect("written");
    let limit = ["zfs", "program", "-t", "100000000", "tank"];
    let mut command = session.command(&[&limit[..], &[path(&script)]].concat());
    let program = Running(command.stderr(Stdio::null()).spawn().expect("it runs"));
    let begun = Instant::now();
    let mut looks = 0;
    while begun.elapsed() < LOOKS || looks < 20 {
        looks += 1;
        let all = session.ok(&[
            "zfs", "get", "-Hpr", "-t", "all", "-o", "name", "all", "tank",
        ]);
        assert!(all.contains("tank/a@kept"), "{all}");
        let list = session.ok(&[
            "zfs",
            "list",
            "-Hpr",
            "-t",
            "all",
            "-o",
            "name,used",
            "tank",
        ]);
        assert!(list.contains("tank/a@kept"), "{list}");
        let folder = session.mount("tank/a").join(".zfs/snapshot");
        let names = fs::read_dir(folder).expect("snapshots are listed");
        let names: Vec<_> = names.map(|entry| entry.unwrap().file_name()).collect();
        assert!(names.iter().any(|name| name == "kept"), "{names:?}");
        assert!(begun.elapsed() < 10 * LOOKS, "{looks} looks");
    }
    drop(program);
    session.export_clean("tank");
}
