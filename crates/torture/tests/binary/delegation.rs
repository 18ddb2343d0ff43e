//! `zfs allow`: what is granted, shown and enforced; and limits, which hold for who may not change
//! them.

use crate::session::{Session, path};
use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::Path;

/// An ordinary user.
const NOBODY: u32 = 65534;

/// A session that an ordinary user comes to as well; none where there is no other user.
fn session() -> Option<Session> {
    if !rustix::process::geteuid().is_root() {
        println!("skipped: only root can be another user");
        return None;
    }
    let mut session = Session::new()?;
    let images = session.images();
    for folder in [images.parent()?, &images.with_file_name("run")] {
        std::fs::set_permissions(folder, Permissions::from_mode(0o755)).expect("a folder for all");
    }
    session.create("dele", 96, &[]);
    if session
        .as_user(NOBODY, &["zpool", "list", "dele"])
        .is_none()
    {
        println!("skipped: {NOBODY} cannot run the binary");
        return None;
    }
    Some(session)
}

/// What an ordinary user is told, and whether it worked.
fn tell(session: &Session, arguments: &[&str]) -> (bool, String) {
    let output = session.as_user(NOBODY, arguments).expect("it ran before");
    let errors = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(!errors.contains("panicked"), "{arguments:?}: {errors}");
    (output.status.success(), errors)
}

fn refused(session: &Session, arguments: &[&str], text: &str) {
    let (done, errors) = tell(session, arguments);
    assert!(!done, "{arguments:?} must be refused");
    assert_eq!(errors.trim_end(), text, "{arguments:?}");
}

fn done(session: &Session, arguments: &[&str]) {
    let (done, errors) = tell(session, arguments);
    assert!(done, "{arguments:?}: {errors}");
}

/// As OpenZFS 2.3 prints the same grants.
const SHOWN: &str = "\
---- Permissions on dele/a -------------------------------------------
Permission sets:
\t@set1 compression,quota
Create time permissions:
\tdestroy
Local permissions:
\tuser root destroy
Descendent permissions:
\tuser nobody rename
Local+Descendent permissions:
\tuser daemon @set1
\tuser (unknown: 12345) create
\tuser nobody create,mount,snapshot
\tgroup games hold,send
\teveryone diff,userprop
";

#[test]
fn grants_are_shown_as_openzfs_shows_them_and_are_enforced() {
    let Some(mut session) = session() else {
        return;
    };
    session.ok(&["zfs", "create", "dele/a"]);
    for grant in [
        &["-u", "nobody", "create,mount,snapshot"][..],
        &["-u", "12345", "create"],
        &["-l", "root", "destroy"],
        &["-d", "nobody", "rename"],
        &["-g", "games", "send,hold"],
        &["-e", "userprop"],
        &["-s", "@set1", "compression,quota"],
        &["-c", "destroy"],
        &["daemon", "@set1"],
        &["everyone", "diff"],
    ] {
        let mut arguments = vec!["zfs", "allow"];
        arguments.extend(grant);
        arguments.push("dele/a");
        session.ok(&arguments);
    }
    let known = std::fs::read_to_string("/etc/passwd").unwrap_or_default();
    if known.contains("\ndaemon:x:1:") && known.contains("\nnobody:x:65534:") {
        assert_eq!(session.ok(&["zfs", "allow", "dele/a"]), SHOWN);
    }
    ordinary_user(&session);
    session.ok(&["zfs", "unallow", "-r", "nobody", "dele/a"]);
    session.ok(&["zfs", "unallow", "-s", "@set1", "quota", "dele/a"]);
    session.ok(&["zfs", "unallow", "-c", "dele/a"]);
    session.ok(&["zfs", "unallow", "-e", "dele/a"]);
    let left = session.ok(&["zfs", "allow", "dele/a"]);
    assert!(!left.contains("nobody") && !left.contains("everyone") && !left.contains("quota"));
    assert!(left.contains("@set1 compression\n"), "{left}");
    let text = "cannot create 'dele/a/z': permission denied";
    refused(&session, &["zfs", "create", "dele/a/z"], text);
    // What is granted at a dataset goes with it.
    session.ok(&["zfs", "destroy", "-r", "dele/a"]);
    session.export_clean("dele");
}

/// What is not granted, and how it is refused.
const REFUSALS: [(&str, &str); 14] = [
    (
        "zfs create dele/y",
        "cannot create 'dele/y': permission denied",
    ),
    (
        "zfs destroy dele/a@s",
        "cannot destroy snapshots: permission denied",
    ),
    (
        "zfs rollback dele/a@s",
        "cannot rollback 'dele/a': permission denied",
    ),
    ("zfs hold x dele/a@s", "cannot hold: permission denied"),
    (
        "zfs inherit compression dele/a",
        "cannot inherit compression for 'dele/a': permission denied",
    ),
    (
        "zfs bookmark dele/a@s dele/a#s",
        "cannot create bookmark 'dele/a#s': permission denied",
    ),
    (
        "zfs allow nobody destroy dele/a",
        "cannot set permissions on 'dele/a': permission denied",
    ),
    (
        "zfs unmount dele/a",
        "cannot unmount 'dele/a': permission denied",
    ),
    (
        "zpool set comment=x dele",
        "cannot set property for 'dele': permission denied",
    ),
    ("zpool scrub dele", "cannot scrub dele: permission denied"),
    (
        "zpool export dele",
        "cannot export 'dele': permission denied",
    ),
    (
        "zpool history dele",
        "cannot show history for pool 'dele': permission denied",
    ),
    ("zpool events dele", "cannot get event: permission denied"),
    (
        "zfs userspace dele",
        "cannot get used/quota for dele: permission denied",
    ),
];

fn ordinary_user(session: &Session) {
    let cannot_set = "cannot set property for 'dele/a': permission denied";
    refused(
        session,
        &["zfs", "set", "compression=off", "dele/a"],
        cannot_set,
    );
    let text = "filesystem successfully created, but it may only be mounted by root";
    refused(session, &["zfs", "create", "dele/a/mine"], text);
    let grants = session.ok(&["zfs", "allow", "dele/a/mine"]);
    assert!(
        grants.contains("Local permissions:\n\tuser nobody destroy\n"),
        "{grants}"
    );
    done(session, &["zfs", "set", "a:b=c", "dele/a/mine"]);
    done(session, &["zfs", "snapshot", "dele/a@s", "dele/a/mine@s"]);
    done(session, &["zfs", "rename", "dele/a/mine", "dele/a/ours"]);
    done(session, &["zfs", "destroy", "-r", "dele/a/ours"]);
    for (command, text) in REFUSALS {
        let arguments: Vec<&str> = command.split(' ').collect();
        refused(session, &arguments, text);
    }
    done(session, &["zfs", "diff", "dele/a@s"]);
    // What came later in a clone is for who may see the clone.
    session.ok(&["zfs", "clone", "dele/a@s", "dele/clone"]);
    let both = &["zfs", "diff", "dele/a@s", "dele/clone"];
    session.ok(both);
    refused(session, both, "cannot diff 'dele/clone': permission denied");
    session.ok(&["zfs", "destroy", "dele/clone"]);
    done(session, &["zpool", "sync", "dele"]);
    session.ok(&["zpool", "set", "delegation=off", "dele"]);
    refused(
        session,
        &["zfs", "snapshot", "dele/a@t"],
        "cannot create snapshots : permission denied",
    );
    session.ok(&["zpool", "set", "delegation=on", "dele"]);
    done(session, &["zfs", "snapshot", "dele/a@t"]);
}

/// What is asked of all pools is asked of those that one may administer, even while another's daemon does not answer.
#[test]
fn all_pools_are_those_that_one_may_administer() {
    let Some(mut session) = session() else {
        return;
    };
    let pid = session.daemons()[0].to_string();
    let signal = |name: &str| session.shell("kill \"$1\" \"$2\"", &[name, &pid]);
    for stopped in [false, true] {
        if stopped {
            signal("-STOP");
        }
        let told = [
            "zfs mount -a",
            "zfs mount -l -a",
            "zfs unmount -a",
            "zpool export -a",
            "zpool upgrade -a",
            "zpool scrub -a",
            "zpool events",
            "zpool events -c",
            "zpool history",
        ]
        .map(|line| {
            let words: Vec<&str> = line.split(' ').collect();
            (line, tell(&session, &words))
        });
        signal("-CONT");
        for (line, (done, errors)) in told {
            let expected = match line {
                "zpool history" => "no pools of your own available\n",
                _ => "",
            };
            assert!(done, "{line}: {errors}");
            assert_eq!(errors, expected, "{line}");
        }
    }
    assert!(session.mount("dele").join(".zfs").exists(), "it is mounted");
    session.export_clean("dele");
}

/// The same with a file as the standard input.
fn tell_given(session: &Session, arguments: &[&str], input: &Path) -> (bool, String) {
    let mut command = session.command(arguments);
    command.uid(NOBODY).gid(NOBODY);
    let input = std::fs::File::open(input).expect("a stream");
    let output = command.stdin(input).output().expect("it ran before");
    let errors = String::from_utf8_lossy(&output.stderr).into_owned();
    (output.status.success(), errors)
}

/// Who may send what, and how: `send` everything, `send:raw` raw streams, `send:encrypted` those of encrypted datasets.
#[test]
fn sending_raw_and_sending_what_is_encrypted_are_granted_alone() {
    let Some(mut session) = session() else {
        return;
    };
    let key = session.images().join("../key");
    std::fs::write(&key, [7; 32]).expect("a key");
    let location = format!(
        "keylocation=file://{}",
        path(&key.canonicalize().expect("there"))
    );
    for plain in ["dele/plain", "dele/mixed"] {
        session.ok(&["zfs", "create", plain]);
    }
    for sealed in ["dele/sealed", "dele/mixed/sealed"] {
        let keys = [
            "-o",
            "encryption=on",
            "-o",
            "keyformat=raw",
            "-o",
            &location,
        ];
        session.ok(&[&["zfs", "create"], &keys[..], &[sealed]].concat());
    }
    session.ok(&["zfs", "create", "dele/sealed/below"]);
    session.ok(&["zfs", "snapshot", "-r", "dele@s"]);
    session.ok(&["zfs", "snapshot", "-r", "dele@t"]);
    let sends: [(&str, [bool; 3]); 12] = [
        // With send:encrypted, send:raw, send.
        ("zfs send dele/plain@s", [false, false, true]),
        ("zfs send dele/sealed@s", [false, false, true]),
        ("zfs send -n dele/sealed@s", [false, false, true]),
        ("zfs send -c -L -e dele/sealed@s", [false, false, true]),
        ("zfs send -w dele/plain@s", [false, true, true]),
        ("zfs send -w dele/sealed@s", [true, true, true]),
        ("zfs send -n -w dele/sealed@s", [true, true, true]),
        ("zfs send -w -I @s dele/sealed@t", [true, true, true]),
        ("zfs send -w -p -i @s dele/sealed@t", [true, true, true]),
        ("zfs send -R -w dele/sealed@t", [true, true, true]),
        ("zfs send -R -w dele/mixed@t", [false, true, true]),
        ("zfs send -R -w dele@t", [false, true, true]),
    ];
    for (index, permission) in ["send:encrypted", "send:raw", "send"]
        .into_iter()
        .enumerate()
    {
        session.ok(&["zfs", "allow", "nobody", permission, "dele"]);
        for (line, expected) in sends {
            let words: Vec<&str> = line.split(' ').collect();
            let (done, errors) = tell(&session, &words);
            assert_eq!(done, expected[index], "{permission}: {line}: {errors}");
            let snapshot = words.last().expect("a snapshot");
            let told = format!("cannot send '{snapshot}': permission denied\n");
            assert!(done || errors == told, "{permission}: {line}: {errors}");
        }
        session.ok(&["zfs", "unallow", "nobody", "dele"]);
    }
    tokens_say_in_what_form_is_sent(&session);
    session.export_clean("dele");
}

/// A token of a stream that was not raw goes on with it only if it is to be raw.
fn tokens_say_in_what_form_is_sent(session: &Session) {
    let file = session.mount("dele/sealed").join("file");
    std::fs::write(file, vec![7; 1 << 20]).expect("written");
    session.ok(&["zfs", "snapshot", "dele/sealed@u"]);
    let script = "\"$0\" zfs send dele/sealed@u | head -c 500000 | \"$0\" zfs receive -s dele/part";
    // Of the sender, whose pipe is closed, and the receiver either may be the last to say why it
    // ended: the token is read where neither writes.
    session.shell(script, &[]);
    let property = "receive_resume_token";
    let token = session.ok(&["zfs", "get", "-H", "-o", "value", property, "dele/part"]);
    let token = token.trim();
    session.ok(&["zfs", "allow", "nobody", "send:raw", "dele"]);
    let text = "cannot send 'dele/sealed@u': permission denied";
    refused(session, &["zfs", "send", "-t", token], text);
    refused(session, &["zfs", "send", "-n", "-t", token], text);
    let text = "cannot send 'dele/part': permission denied";
    refused(session, &["zfs", "send", "--saved", "dele/part"], text);
    session.ok(&["zfs", "allow", "nobody", "send", "dele"]);
    done(session, &["zfs", "send", "-t", token]);
    done(session, &["zfs", "send", "--saved", "dele/part"]);
    session.ok(&["zfs", "receive", "-A", "dele/part"]);
    session.ok(&["zfs", "unallow", "nobody", "dele"]);
}

#[test]
fn receiving_more_is_granted_without_what_overwrites() {
    let Some(mut session) = session() else {
        return;
    };
    session.ok(&["zfs", "create", "dele/from"]);
    for (name, options) in [("one", ""), ("two", "-i @one"), ("three", "-i @two")] {
        let snapshot = format!("dele/from@{name}");
        std::fs::write(session.mount("dele/from").join(name), name).expect("written");
        session.ok(&["zfs", "snapshot", &snapshot]);
        let target = session.images().join(format!("../{name}"));
        let script = format!("\"$0\" zfs send {options} {snapshot} > \"$1\"");
        assert!(session.shell(&script, &[path(&target)]).status.success());
    }
    let stream = |name: &str| session.images().join(format!("../{name}"));
    let receive = |words: &str, name: &str| {
        let line = format!("zfs receive {words}");
        let words: Vec<&str> = line.split(' ').collect();
        tell_given(&session, &words, &stream(name))
    };
    let denied = |(done, errors): (bool, String), path: &str| {
        assert!(!done);
        assert_eq!(
            errors,
            format!("cannot receive '{path}': permission denied\n")
        );
    };
    let took = |(done, errors): (bool, String)| assert!(done, "{errors}");
    session.ok(&["zfs", "create", "dele/in"]);
    session.ok(&["zfs", "allow", "nobody", "receive:append", "dele/in"]);
    denied(receive("dele/in/a", "one"), "dele/in/a");
    session.ok(&["zfs", "allow", "nobody", "create,mount", "dele/in"]);
    took(receive("dele/in/a", "one"));
    took(receive("dele/in/a", "two"));
    for words in ["-F dele/in/a", "-n -F dele/in/a", "-F -d dele/in"] {
        let path = words.rsplit(' ').next().expect("a path");
        denied(receive(words, "three"), path);
    }
    // What was changed here would have to go.
    session.ok(&["zfs", "mount", "dele/in/a"]);
    std::fs::write(session.mount("dele/in/a").join("own"), "own").expect("written");
    let (done, errors) = receive("dele/in/a", "three");
    assert!(!done && errors.contains("has been modified"), "{errors}");
    denied(receive("-F dele/in/a", "three"), "dele/in/a");
    assert!(session.mount("dele/in/a").join("own").exists());
    session.ok(&["zfs", "allow", "nobody", "receive", "dele/in"]);
    took(receive("-F dele/in/a", "three"));
    assert!(!session.mount("dele/in/a").join("own").exists());
    session.ok(&["zfs", "unallow", "nobody", "dele/in"]);
    denied(receive("dele/in/b", "one"), "dele/in/b");
    session.export_clean("dele");
}

/// Nothing is shared here: who is granted it may no more than before.
#[test]
fn sharing_can_be_granted_and_permits_nothing() {
    let Some(mut session) = session() else {
        return;
    };
    session.ok(&["zfs", "create", "dele/a"]);
    session.ok(&["zfs", "allow", "-e", "share", "dele/a"]);
    let shown = session.ok(&["zfs", "allow", "dele/a"]);
    assert!(shown.contains("\teveryone share\n"), "{shown}");
    let text = "cannot set property for 'dele/a': permission denied";
    refused(&session, &["zfs", "set", "sharenfs=on", "dele/a"], text);
    session.ok(&["zfs", "allow", "-e", "sharenfs", "dele/a"]);
    done(&session, &["zfs", "set", "sharenfs=on", "dele/a"]);
    session.ok(&["zfs", "unallow", "-e", "dele/a"]);
    session.ok(&["zfs", "destroy", "dele/a"]);
    session.export_clean("dele");
}

fn figure(session: &Session, property: &str, dataset: &str) -> String {
    let text = session.ok(&["zfs", "get", "-Hp", "-o", "value", property, dataset]);
    text.trim_end().to_owned()
}

#[test]
fn limits_are_counted_and_hold_for_who_may_not_change_them() {
    let Some(mut session) = session() else {
        return;
    };
    for dataset in [
        "dele/n",
        "dele/n/a",
        "dele/n/a/b",
        "dele/other",
        "dele/other/in",
    ] {
        session.ok(&["zfs", "create", dataset]);
    }
    session.ok(&["zfs", "snapshot", "-r", "dele@one"]);
    assert_eq!(figure(&session, "filesystem_count", "dele/n"), "none");
    session.ok(&["zfs", "set", "filesystem_limit=3", "dele/n"]);
    session.ok(&["zfs", "set", "snapshot_limit=6", "dele/n"]);
    session.ok(&[
        "zfs",
        "allow",
        "-u",
        "nobody",
        "create,mount,snapshot,rename",
        "dele",
    ]);
    assert_eq!(figure(&session, "filesystem_count", "dele/n"), "2");
    assert_eq!(figure(&session, "snapshot_count", "dele/n"), "3");
    assert_eq!(figure(&session, "filesystem_count", "dele"), "none");
    let text = "cannot create 'dele/n/f2': out of space";
    done(&session, &["zfs", "create", "-u", "dele/n/f1"]);
    refused(&session, &["zfs", "create", "-u", "dele/n/f2"], text);
    assert!(!tell(&session, &["zfs", "snapshot", "-r", "dele/n@two"]).0);
    done(
        &session,
        &[
            "zfs",
            "snapshot",
            "dele/n@two",
            "dele/n/a@two",
            "dele/n/f1@two",
        ],
    );
    assert!(!tell(&session, &["zfs", "snapshot", "dele/n/a/b@two"]).0);
    // Root may change the limit, so it does not hold for root.
    session.ok(&["zfs", "create", "dele/n/f2"]);
    session.ok(&["zfs", "snapshot", "dele/n/a/b@two"]);
    session.ok(&["zfs", "rename", "dele/other", "dele/n/other"]);
    assert_eq!(figure(&session, "filesystem_count", "dele/n"), "6");
    assert_eq!(figure(&session, "snapshot_count", "dele/n"), "9");
    session.ok(&["zfs", "destroy", "dele/n@two"]);
    session.ok(&["zfs", "rename", "dele/n/other", "dele/other"]);
    assert_eq!(figure(&session, "filesystem_count", "dele/n"), "4");
    assert_eq!(figure(&session, "snapshot_count", "dele/n"), "6");
    let images = session.images();
    // zdb takes the tables of permissions for leaked objects, in pools of OpenZFS as well.
    session.ok(&["zfs", "unallow", "nobody", "dele"]);
    session.export_clean("dele");
    let mounts = session.mounts();
    session.ok(&[
        "zpool",
        "import",
        "-d",
        path(&images),
        "-R",
        path(&mounts),
        "dele",
    ]);
    assert_eq!(figure(&session, "snapshot_count", "dele/n"), "6");
    session.ok(&["zpool", "export", "dele"]);
}
