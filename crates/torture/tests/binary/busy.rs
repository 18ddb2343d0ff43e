//! Mounts that somebody uses: who it is, and those who end in a moment.

use crate::session::{Session, path};
use std::path::Path;
use std::process::{Child, Command, Output};

/// A process that is ended when it goes away.
struct Holder(Child);

impl Holder {
    fn start(program: &[&str], folder: &Path) -> Self {
        let mut command = Command::new(program[0]);
        command.args(&program[1..]).current_dir(folder);
        Self(command.spawn().expect("the program starts"))
    }

    fn named(&self) -> String {
        format!("in use by: sleep (pid {})", self.0.id())
    }
}

impl Drop for Holder {
    fn drop(&mut self) {
        let _ended = self.0.kill();
        let _reaped = self.0.wait();
    }
}

fn busy(output: &Output) -> String {
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    assert!(output.stdout.is_empty(), "{output:?}");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(said.contains("pool or dataset is busy"), "{said}");
    said
}

#[test]
fn a_refusal_names_who_uses_the_mount() {
    let Some(mut session) = Session::new() else {
        return;
    };
    session.limit("fuse.busy_wait_ms=50");
    session.create("tank", 96, &[]);
    session.ok(&["zfs", "create", "tank/a"]);
    let inside = session.mount("tank/a");
    let folder = inside.join("folder");
    std::fs::create_dir(&folder).expect("a folder");
    let holder = Holder::start(&["sleep", "600"], &folder);
    for arguments in [
        &["zfs", "unmount", "tank/a"][..],
        &["zfs", "destroy", "tank/a"],
        &["zfs", "rename", "tank/a", "tank/b"],
        &["zfs", "set", "mountpoint=/elsewhere", "tank/a"],
        &["zpool", "export", "tank"],
        &["zpool", "destroy", "tank"],
    ] {
        let said = busy(&session.run(arguments));
        assert!(said.contains(&holder.named()), "{arguments:?}: {said}");
        assert!(folder.exists(), "{arguments:?}");
    }
    let another = Holder::start(&["sleep", "600"], &inside);
    let said = busy(&session.run(&["zpool", "export", "tank"]));
    assert!(said.contains(&holder.named()), "{said}");
    assert!(said.contains(&another.named()), "{said}");
    drop(another);
    drop(holder);
    session.export_clean("tank");
}

#[test]
fn who_has_a_file_open_or_mapped_is_named_and_many_are_counted() {
    let Some(mut session) = Session::new() else {
        return;
    };
    session.limit("fuse.busy_wait_ms=50");
    session.create("tank", 96, &[]);
    let top = session.mount("tank");
    let program = top.join("sleep");
    let found = session.shell("command -v sleep", &[]);
    let found = String::from_utf8(found.stdout).expect("a path");
    std::fs::copy(found.trim(), &program).expect("copied");
    let outside = session.images();
    let runs = Holder::start(&[path(&program), "600"], &outside);
    let said = busy(&session.run(&["zpool", "export", "tank"]));
    assert!(said.contains(&runs.named()), "{said}");
    drop(runs);

    let script = format!("exec sleep 600 3>{}", path(&top.join("file")));
    let open = Holder::start(&["sh", "-c", &script], &outside);
    while !top.join("file").exists() {
        std::thread::yield_now();
    }
    let said = busy(&session.run(&["zpool", "export", "tank"]));
    assert!(said.contains(&format!("(pid {})", open.0.id())), "{said}");
    let _many: Vec<Holder> = (0..5)
        .map(|_| Holder::start(&["sleep", "600"], &top))
        .collect();
    let said = busy(&session.run(&["zpool", "export", "tank"]));
    assert_eq!(said.matches("(pid ").count(), 4, "{said}");
    assert!(said.contains("in use by others, too"), "{said}");
}

#[test]
fn a_process_in_passing_is_waited_for() {
    let Some(mut session) = Session::new() else {
        return;
    };
    session.limit("fuse.busy_wait_ms=60000");
    session.create("tank", 96, &[]);
    let _passing = Holder::start(&["sleep", "0.2"], &session.mount("tank"));
    session.export_clean("tank");
}

/// A copy in another mount namespace does not keep the pool, and is not waited for.
#[test]
fn a_copy_in_another_mount_namespace_does_not_hold_an_export_up() {
    let Some(mut session) = Session::new() else {
        return;
    };
    session.limit("fuse.busy_wait_ms=50");
    session.create("tank", 96, &[]);
    let ready = session.images().join("ready");
    let script = format!("touch {}; exec sleep 600", path(&ready));
    let program = [
        "unshare",
        "-m",
        "--propagation",
        "private",
        "sh",
        "-c",
        &script,
    ];
    let mut apart = Holder::start(&program, &session.images());
    while !ready.exists() {
        if apart.0.try_wait().expect("asked").is_some() {
            println!("skipped: no mount namespace can be made");
            return;
        }
        std::thread::yield_now();
    }
    session.export_clean("tank");
}
