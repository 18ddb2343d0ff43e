//! A name is one pool's, whoever asks at once; and what is not made leaves nothing.

use crate::session::{Session, path};
use std::path::{Path, PathBuf};
use std::process::{Output, Stdio};

fn errors(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// Runs lines at the same time.
fn at_once(session: &Session, lines: &[Vec<String>]) -> Vec<Output> {
    let started = lines.iter().map(|line| {
        let words: Vec<&str> = line.iter().map(String::as_str).collect();
        let mut command = session.command(&words);
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        command.spawn().expect("it starts")
    });
    let started: Vec<_> = started.collect();
    let ended = started.into_iter();
    let ended = ended.map(|child| child.wait_with_output().expect("it ends"));
    ended.collect()
}

fn line(words: &[&str]) -> Vec<String> {
    words.iter().map(|word| (*word).to_owned()).collect()
}

fn image(session: &Session, number: u32) -> PathBuf {
    session.images().join(format!("tw{number}.img"))
}

/// The one that did it; the others said this.
fn only_winner(outputs: &[Output], said: &str) -> usize {
    let won = |at: &usize| outputs[*at].status.success();
    let winners: Vec<usize> = (0..outputs.len()).filter(won).collect();
    let [winner] = winners[..] else {
        panic!("one of them does it: {outputs:?}");
    };
    for (at, output) in outputs.iter().enumerate() {
        if at != winner {
            assert_eq!(errors(output), said);
        }
    }
    winner
}

const ADVICE: &str = "use the form 'zpool import <pool | id> <newpool>' to give it a new name";

#[test]
fn of_pools_that_are_made_at_once_one_has_the_name() {
    let Some(session) = Session::new() else {
        return;
    };
    let mounts = session.mounts();
    for round in 0..3 {
        let lines: Vec<_> = (0..4)
            .map(|number| {
                let image = image(&session, number);
                let (place, root) = (path(&image), path(&mounts));
                // By its own name, and for now.
                let named: &[&str] = match number % 2 {
                    0 => &["tw"],
                    _ => &["-t", "tw", "other"],
                };
                let create = ["zpool", "create", "--size", "96M", "-R", root];
                line(&[&create[..], named, &[place]].concat())
            })
            .collect();
        let outputs = at_once(&session, &lines);
        let said = "cannot create 'tw': pool already exists\n";
        let winner = only_winner(&outputs, said);
        assert_eq!(session.ok(&["zpool", "list", "-Ho", "name"]), "tw\n");
        for number in 0..4_u32 {
            let is_there = image(&session, number).exists();
            assert_eq!(is_there, number as usize == winner, "round {round}");
        }
        session.ok(&["zpool", "destroy", "tw"]);
        std::fs::remove_file(image(&session, winner as u32)).expect("removed");
    }
}

#[test]
fn of_pools_that_are_imported_at_once_one_has_the_name() {
    let Some(session) = Session::new() else {
        return;
    };
    let mounts = session.mounts();
    for number in 0..4 {
        // The last gets the name by its import.
        let name = if number == 3 { "other" } else { "tw" };
        let image = image(&session, number);
        let create = ["zpool", "create", "--size", "96M", "-m", "none", name];
        session.ok(&[&create[..], &[path(&image)]].concat());
        session.ok(&["zpool", "export", name]);
    }
    for _ in 0..3 {
        let lines: Vec<_> = (0..4)
            .map(|number| {
                let (image, root) = (image(&session, number), path(&mounts));
                let named: &[&str] = if number == 3 {
                    &["-t", "other", "tw"]
                } else {
                    &["tw"]
                };
                let import = ["zpool", "import", "-d", path(&image), "-R", root];
                line(&[&import[..], named].concat())
            })
            .collect();
        let outputs = at_once(&session, &lines);
        let won = outputs.iter().filter(|output| output.status.success());
        assert_eq!(won.count(), 1, "{outputs:?}");
        for output in outputs.iter().filter(|output| !output.status.success()) {
            let said = errors(output);
            let later = "cannot import 'tw': a pool with that name is already created/imported,\n\
                         and no additional pools with that name were found\n";
            let raced =
                format!("cannot import 'tw': a pool with that name already exists\n{ADVICE}\n");
            assert!(said == raced || said == later, "{said}");
        }
        assert_eq!(session.ok(&["zpool", "list", "-Ho", "name"]), "tw\n");
        session.ok(&["zpool", "export", "tw"]);
    }
}

/// Where nothing can be served, nothing is made.
#[test]
fn a_pool_is_not_made_where_its_daemon_has_no_place() {
    let Some(session) = Session::new() else {
        return;
    };
    let image = session.images().join("hh.img");
    // Nobody makes a directory there.
    let place = "/proc/nowhere/millpond";
    let create = [
        "zpool",
        "create",
        "--size",
        "96M",
        "-m",
        "none",
        "hh",
        path(&image),
    ];
    let mut command = session.command(&create);
    let output = command.env("MILLPOND_RUN", place).output();
    let output = output.expect("it runs");
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    let said = format!("cannot create 'hh': {place}: No such file or directory\n");
    assert_eq!(errors(&output), said);
    assert!(!image.exists(), "an image is left");
}

/// A pool that is on its disks and cannot be served is none that a later command finds.
#[test]
fn a_pool_whose_daemon_fails_is_taken_back() {
    let Some(mut session) = Session::new() else {
        return;
    };
    // No socket has so long a path, but a file has.
    let long = session.images().join("x".repeat(120));
    let (made, given) = (
        session.images().join("made.img"),
        session.images().join("given.img"),
    );
    let file = std::fs::File::create(&given).and_then(|file| file.set_len(96 << 20));
    file.expect("a file");
    for image in [&made, &given] {
        let create = [
            "zpool",
            "create",
            "--size",
            "96M",
            "-m",
            "none",
            "hh",
            path(image),
        ];
        let mut command = session.command(&create);
        let output = command
            .env("MILLPOND_RUN", &long)
            .output()
            .expect("it runs");
        assert!(!output.status.success(), "{output:?}");
        assert!(
            errors(&output).starts_with("cannot create 'hh': "),
            "{output:?}"
        );
    }
    assert!(!made.exists(), "an image is left");
    assert!(given.exists(), "what was there is gone");
    let listed = session.run(&["zpool", "import", "-d", path(&session.images())]);
    assert_eq!(listed.stdout, b"", "{listed:?}");
    session.create_of("hh", &[path(&given)], &[]);
}

/// Whoever makes a pool of an image that another one is in is told of that pool.
#[test]
fn an_image_in_use_is_told_by_its_pool() {
    let Some(mut session) = Session::new() else {
        return;
    };
    session.create("tank", 96, &["-m", "none"]);
    session.create("pond", 96, &["-m", "none"]);
    let image = session.images().join("tank.img");
    let image = path(&image);
    let said = |verb: &str, pool: &str| {
        format!(
            "cannot {verb} '{pool}': {image} is part of active pool 'tank'\n\
             choose another file or disk, or export 'tank' first\n"
        )
    };
    let create = ["zpool", "create", "-f", "-m", "none", "other", image];
    assert_eq!(session.refused(&create), said("create", "other"));
    let add = ["zpool", "add", "-f", "pond", image];
    assert_eq!(session.refused(&add), said("add to", "pond"));
    session.ok(&["zpool", "export", "tank"]);
    session.ok(&["zpool", "create", "-f", "-m", "none", "other", image]);
    session.ok(&["zpool", "destroy", "other"]);
}

/// A spare that is named twice is found out when the pool is there already.
#[test]
fn a_pool_whose_spares_fail_is_taken_back() {
    let Some(mut session) = Session::new() else {
        return;
    };
    let image = |name: &str| session.images().join(name).display().to_string();
    let (made, spare, again) = (image("made.img"), image("spare.img"), image("again.img"));
    let file = std::fs::File::create(&spare).and_then(|file| file.set_len(96 << 20));
    file.expect("a file");
    std::os::unix::fs::symlink(&spare, &again).expect("linked");
    let create = [
        "zpool", "create", "--size", "96M", "-m", "none", "hh", &made,
    ];
    session.refused(&[&create[..], &["spare", &spare, &again]].concat());
    assert!(!Path::new(&made).exists(), "an image is left");
    let given = image("given.img");
    std::fs::copy(&spare, &given).expect("copied");
    let create = [
        "zpool", "create", "-m", "none", "hh", &given, "spare", &spare,
    ];
    session.refused(&[&create[..], &[again.as_str()]].concat());
    let listed = session.run(&["zpool", "import", "-d", path(&session.images())]);
    assert_eq!(listed.stdout, b"", "{listed:?}");
    session.create_of("hh", &[&given, "spare", &spare], &[]);
}

/// Several pools want the same new file: who loses does not take the file from the one that has it.
#[test]
fn of_pools_that_make_the_same_file_at_once_one_has_it() {
    let Some(session) = Session::new() else {
        return;
    };
    let image = session.images().join("same.img");
    for _ in 0..4 {
        let lines: Vec<_> = (0..6)
            .map(|number| {
                let name = format!("s{number}");
                let create = ["zpool", "create", "--size", "96M", "-m", "none", &name];
                line(&[&create[..], &[path(&image)]].concat())
            })
            .collect();
        let outputs = at_once(&session, &lines);
        let won = outputs.iter().filter(|output| output.status.success());
        assert_eq!(won.count(), 1, "{outputs:?}");
        assert!(image.exists(), "the pool's file is gone");
        let pools = session.ok(&["zpool", "list", "-Ho", "name"]);
        session.ok(&["zpool", "destroy", pools.trim()]);
        std::fs::remove_file(&image).expect("removed");
    }
}

/// A pool of the administrator has its name from before its daemon has a socket; and where both have a pool of one name
/// all the same, as the administrator asks nobody, a user's commands mean the user's.
#[test]
fn a_user_gets_no_name_that_a_pool_of_root_is_about_to_have() {
    const USER: u32 = crate::register::USER;
    let Some(session) = Session::new() else {
        return;
    };
    let home = tempfile::tempdir().expect("a folder");
    if std::os::unix::fs::chown(home.path(), Some(USER), Some(USER)).is_err() {
        println!("skipped: only root becomes somebody else");
        return;
    }
    // As root's daemon does: the lock of the name first, then the pool, then the socket.
    let inside = format!(
        "{}; for place in /run /var/lib; do mount -t tmpfs none $place || exit 77; done; \
         mkdir -m 755 /run/millpond; exec 9> /run/millpond/same.name; flock -n 9 || exit 77; \
         export HOME=\"$1\"; cd \"$1\"; \
         as() {{ setpriv --reuid {USER} --regid {USER} --clear-groups \"$0\" \"$@\" 9>&-; }}; \
         as zpool create --size 96M -m none same \"$1/a.img\"; echo $?; exec 9>&-; \
         as zpool create --size 96M -m none same \"$1/a.img\" || exit 78; \
         own=$(as zpool get -Ho value guid same); \
         \"$0\" zpool create --size 96M -m none same /run/b.img || exit 79; \
         as zpool list -Ho name; \
         for turn in 1 2 3 4 5 6 7 8; do [ \"$(as zpool get -Ho value guid same)\" = $own ] || echo other; done; \
         as zpool export same; as zpool list -Ho name; \"$0\" zpool export same",
        session.let_go_of_others()
    );
    let script = "inside=$1; shift; exec unshare -m sh -c \"$inside\" \"$0\" \"$@\"";
    let _making = Session::making_a_namespace();
    let mut command = session.shell_command(script);
    let output = command
        .env_remove("MILLPOND_RUN")
        .env_remove("XDG_STATE_HOME")
        .env_remove("XDG_RUNTIME_DIR")
        .args([&inside, path(home.path())])
        .output()
        .expect("sh runs");
    let said = errors(&output);
    if said.contains("Permission denied") || output.status.code() == Some(77) {
        println!("skipped: {said}");
        return;
    }
    assert!(output.status.success(), "{output:?}");
    assert_eq!(said, "cannot create 'same': pool already exists\n");
    let listed = String::from_utf8_lossy(&output.stdout);
    assert_eq!(listed, "1\nsame\nsame\nsame\n", "{output:?}");
}
