//! Mounts that somebody uses: who it is, and those who end in a moment.

use crate::patience::PATIENCE;
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

/// A process in a mount namespace of its own, with copies of all mounts that are there now; none where there are none
/// to be had.
fn apart(session: &Session, propagation: &str) -> Option<Holder> {
    let ready = session.images().join(format!("ready-{propagation}"));
    let script = format!(
        "{}; touch {}; exec sleep 600",
        session.let_go_of_others(),
        path(&ready)
    );
    let program = [
        "unshare",
        "-m",
        "--propagation",
        propagation,
        "sh",
        "-c",
        &script,
    ];
    let _making = Session::making_a_namespace();
    let mut apart = Holder::start(&program, &session.images());
    // The file is there before the shell has become what a refusal names.
    let name = format!("/proc/{}/comm", apart.0.id());
    let is_named = || std::fs::read_to_string(&name).is_ok_and(|name| name == "sleep\n");
    while !(ready.exists() && is_named()) {
        if apart.0.try_wait().expect("asked").is_some() {
            println!("skipped: no mount namespace can be made");
            return None;
        }
        std::thread::yield_now();
    }
    Some(apart)
}

/// What would be destroyed is looked at whole before anything of it goes.
#[test]
fn a_destroy_that_cannot_go_to_its_end_destroys_nothing() {
    let Some(mut session) = Session::new() else {
        return;
    };
    session.limit("fuse.busy_wait_ms=50");
    session.create("tank", 96, &[]);
    for words in [
        &["zfs", "create", "-p", "tank/a/first"][..],
        &["zfs", "create", "-s", "-V", "8M", "tank/a/volume"],
        &["zfs", "snapshot", "-r", "tank/a@s"],
        &["zfs", "clone", "tank/a@s", "tank/clone"],
        &["zfs", "snapshot", "tank/clone@kept"],
    ] {
        session.ok(words);
    }
    std::fs::write(session.mount("tank/a/first").join("file"), "there").expect("written");
    let all = ["zfs", "list", "-t", "all", "-Ho", "name,mounted"];
    let before = session.ok(&all);
    let refuse = |force: &[&str], reason: &str| {
        let destroy = [&["zfs", "destroy"], force, &["-R", "tank/a"]].concat();
        let said = session.refused(&destroy);
        assert!(said.contains(reason), "{said}");
        assert_eq!(session.ok(&all), before, "{reason}");
        let file = session.mount("tank/a/first").join("file");
        assert_eq!(std::fs::read_to_string(file).expect("read"), "there");
    };
    session.ok(&["zfs", "hold", "tag", "tank/clone@kept"]);
    let held = "cannot destroy snapshot tank/clone@kept: it's being held. \
                Run 'zfs holds -r tank/clone@kept' to see holders.";
    refuse(&[], held);
    session.ok(&["zfs", "release", "tag", "tank/clone@kept"]);
    // The clone is destroyed before what it was made of, and unmounted after it.
    let user = Holder::start(&["sleep", "1000"], &session.mount("tank/clone"));
    refuse(&[], &user.named());
    refuse(&["-f"], &user.named());
    drop(user);
    let user = Holder::start(&["sleep", "1000"], &session.mount("tank/a"));
    refuse(&[], &user.named());
    drop(user);
    session.ok(&["zfs", "destroy", "-R", "tank/a"]);
    assert_eq!(session.ok(&all), "tank\tyes\n");
    assert!(!session.mount("tank/clone").exists());
    session.export_clean("tank");
}

/// Whoever has a copy that would stay is named before anything is unmounted; with force, nobody is waited for.
#[test]
fn a_copy_in_another_mount_namespace_is_named_and_force_does_not_wait_for_it() {
    let Some(mut session) = Session::new() else {
        return;
    };
    session.create("tank", 96, &[]);
    for name in ["tank/a", "tank/a/b", "tank/c"] {
        session.ok(&["zfs", "create", name]);
    }
    let Some(apart) = apart(&session, "private") else {
        return;
    };
    let holder = format!(
        "mounted too in the mount namespace of sleep (pid {})",
        apart.0.id()
    );
    for arguments in [
        &["zfs", "unmount", "tank/a"][..],
        &["zfs", "destroy", "-r", "tank/a"],
        &["zpool", "export", "tank"],
        &["zpool", "destroy", "tank"],
    ] {
        let said = busy(&session.run(arguments));
        assert!(said.contains(&holder), "{arguments:?}: {said}");
        assert_eq!(
            session.ok(&["zfs", "mount"]).lines().count(),
            4,
            "{arguments:?}"
        );
    }
    session.ok(&["zfs", "unmount", "-f", "tank/c"]);
    let begin = std::time::Instant::now();
    session.ok(&["zpool", "export", "-f", "tank"]);
    // So long would a process in passing be waited for.
    assert!(begin.elapsed() < std::time::Duration::from_secs(60));
    session.import("tank", &[]);
    drop(apart);
    session.export_clean("tank");
}

/// What hears of the unmount goes with it: a service with mounts of its own is no holder.
#[test]
fn a_copy_that_follows_holds_nothing_up() {
    let Some(mut session) = Session::new() else {
        return;
    };
    let mounts = session.mounts();
    let script = format!(
        "mount --bind {0} {0} && mount --make-shared {0}",
        path(&mounts)
    );
    if !session.shell(&script, &[]).status.success() {
        println!("skipped: nothing can be mounted here");
        return;
    }
    session.create("tank", 96, &[]);
    session.ok(&["zfs", "create", "tank/a"]);
    let follower = apart(&session, "slave");
    session.export_clean("tank");
    drop(follower);
    let unmounted = session.shell(&format!("umount {}", path(&mounts)), &[]);
    assert!(unmounted.status.success(), "{unmounted:?}");
}

#[test]
fn a_bind_of_a_mount_is_named() {
    let Some(mut session) = Session::new() else {
        return;
    };
    session.create("tank", 96, &[]);
    let other = session.images().join("other");
    std::fs::create_dir(&other).expect("made");
    let script = format!(
        "mount --bind {} {}",
        path(&session.mount("tank")),
        path(&other)
    );
    if !session.shell(&script, &[]).status.success() {
        println!("skipped: nothing can be mounted here");
        return;
    }
    let said = busy(&session.run(&["zpool", "export", "tank"]));
    assert!(
        said.contains(&format!("mounted too at {}", path(&other))),
        "{said}"
    );
    let unmounted = session.shell(&format!("umount {}", path(&other)), &[]);
    assert!(unmounted.status.success(), "{unmounted:?}");
    session.export_clean("tank");
}

/// The one below cannot be unmounted without the one above; nothing waits, and both go in their order.
#[test]
fn of_two_file_systems_at_one_place_the_upper_one_goes_first() {
    let Some(mut session) = Session::new() else {
        return;
    };
    session.create("tank", 96, &[]);
    session.ok(&["zfs", "create", "-o", "mountpoint=/stack", "tank/lower"]);
    session.ok(&["zfs", "create", "-o", "mountpoint=/stack", "tank/upper"]);
    let said = busy(&session.run(&["zfs", "unmount", "tank/lower"]));
    assert!(said.contains("'tank/upper' is mounted over it"), "{said}");
    assert_eq!(session.ok(&["zfs", "mount"]).lines().count(), 3);
    session.ok(&["zfs", "unmount", "tank/upper"]);
    session.ok(&["zfs", "unmount", "tank/lower"]);
    session.ok(&["zfs", "mount", "-a"]);
    assert_eq!(session.ok(&["zfs", "mount"]).lines().count(), 3);
    session.export_clean("tank");
}

/// It says how the file system is mounted from the next time on.
#[test]
fn a_file_system_in_use_is_told_not_to_be_mounted_by_itself() {
    let Some(mut session) = Session::new() else {
        return;
    };
    session.limit("fuse.busy_wait_ms=50");
    session.create("tank", 96, &[]);
    session.ok(&["zfs", "create", "tank/a"]);
    let holder = Holder::start(&["sleep", "600"], &session.mount("tank/a"));
    session.ok(&["zfs", "set", "canmount=noauto", "tank/a"]);
    assert_eq!(session.ok(&["zfs", "mount"]).lines().count(), 2);
    busy(&session.run(&["zfs", "set", "canmount=off", "tank/a"]));
    drop(holder);
    session.export("tank");
    session.import("tank", &[]);
    assert_eq!(session.ok(&["zfs", "mount"]).lines().count(), 1);
    session.export_clean("tank");
}

/// As OpenZFS on Linux does it: whoever uses a file system is not robbed of it by the `-f` of `zfs`.
#[test]
fn force_takes_nothing_away_from_who_uses_it_here_but_with_the_pool() {
    let Some(mut session) = Session::new() else {
        return;
    };
    session.limit("fuse.busy_wait_ms=50");
    session.create("tank", 96, &[]);
    session.ok(&["zfs", "create", "tank/a"]);
    let inside = session.mount("tank/a");
    let holder = Holder::start(&["sleep", "600"], &inside);
    for arguments in [
        &["zfs", "unmount", "-f", "tank/a"][..],
        &["zfs", "unmount", "-fa"],
        &["zfs", "destroy", "-f", "tank/a"],
        &["zfs", "rename", "-f", "tank/a", "tank/b"],
    ] {
        let said = busy(&session.run(arguments));
        assert!(said.contains(&holder.named()), "{arguments:?}: {said}");
        std::fs::write(inside.join("file"), "kept").expect("it is there");
    }
    session.ok(&["zpool", "export", "-f", "tank"]);
    drop(holder);
    session.import("tank", &[]);
    assert!(inside.join("file").exists());
    session.export_clean("tank");
}

/// Nobody waits for a server that has let go, and nothing of the mount stays.
#[test]
fn copies_elsewhere_end_with_what_force_unmounts() {
    let Some(mut session) = Session::new() else {
        return;
    };
    session.create("tank", 96, &[]);
    for name in ["tank/a", "tank/b", "tank/c"] {
        session.ok(&["zfs", "create", name]);
        std::fs::write(session.mount(name).join("file"), name).expect("written");
    }
    let Some(apart) = apart(&session, "private") else {
        return;
    };
    let ends = |name: &str| {
        let place = session.mount(name);
        let asks = format!("nsenter -t {} -m stat -f {}", apart.0.id(), path(&place));
        let begin = std::time::Instant::now();
        loop {
            let asked = session.shell(&asks, &[]);
            let said = String::from_utf8_lossy(&asked.stderr).into_owned();
            if said.contains("Transport endpoint is not connected") {
                return;
            }
            assert!(begin.elapsed() < PATIENCE, "{name}: {asked:?}");
            std::thread::sleep(std::time::Duration::from_millis(50));
        }
    };
    session.ok(&["zfs", "unmount", "-f", "tank/a"]);
    ends("tank/a");
    // With its directory, the kernel takes the copies of this one away by itself.
    session.ok(&["zfs", "destroy", "-f", "tank/b"]);
    session.ok(&["zfs", "mount", "tank/a"]);
    let file = session.mount("tank/a").join("file");
    assert_eq!(std::fs::read_to_string(file).expect("read"), "tank/a");
    session.ok(&["zpool", "export", "-f", "tank"]);
    session.import("tank", &[]);
    drop(apart);
    session.export_clean("tank");
}
