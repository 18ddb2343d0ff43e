//! The pool that OpenZFS encrypted: keys are loaded and forgotten, files read with them, and refused without.

use crate::golden_pools::read_equal;
use crate::session::{Session, path};
use golden::GoldenPool;
use std::process::Output;

const PASSPHRASE: &str = "correct horse battery\n";

/// The pool in a session, imported with nothing mounted.
fn imported() -> Option<(Session, GoldenPool)> {
    let pool = golden::pool("enc")?;
    let mut session = Session::new()?;
    session.bring(&pool.images());
    session.import("genc", &["-o", "readonly=on", "-N"]);
    Some((session, pool))
}

/// Loads the keys of the encrypted golden pool; of others nothing.
pub(crate) fn load_keys(session: &Session, pool: &GoldenPool) {
    if pool.name == "enc" {
        let loaded = session.given(PASSPHRASE, &["zfs", "load-key", "genc/pass"]);
        assert!(loaded.status.success(), "{}", said(&loaded));
        let location = location(pool);
        session.ok(&["zfs", "load-key", "-L", &location, "genc/hex"]);
    }
}

fn location(pool: &GoldenPool) -> String {
    format!("file://{}", path(&pool.folder.join("hex.key")))
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr)
        .trim_end()
        .to_owned()
}

fn status(session: &Session, dataset: &str) -> String {
    let got = session.ok(&["zfs", "get", "-Ho", "value", "keystatus", dataset]);
    got.trim_end().to_owned()
}

#[test]
fn with_their_keys_files_are_what_openzfs_showed() {
    if !rustix::process::geteuid().is_root() {
        println!("skipped: owners and device nodes can be compared by root only");
        return;
    }
    let Some((session, pool)) = imported() else {
        return;
    };
    load_keys(&session, &pool);
    session.ok(&["zfs", "mount", "-a"]);
    read_equal(session, &pool);
}

#[test]
fn an_import_and_a_mount_load_keys_first() {
    let Some(pool) = golden::pool("enc") else {
        return;
    };
    let Some(session) = Session::new() else {
        return;
    };
    session.bring(&pool.images());
    let (images, mounts) = (session.images(), session.mounts());
    let import = ["zpool", "import", "-d", path(&images), "-R", path(&mounts)];
    // One is asked for; the other is in a file that is not here, which keeps nobody from the first.
    let more = ["-o", "readonly=on", "-l", "genc"];
    let done = session.given(PASSPHRASE, &[&import[..], &more].concat());
    let mounted = session.ok(&["zfs", "mount"]);
    session.ok(&["zpool", "export", "genc"]);
    let text = said(&done);
    assert!(mounted.contains("genc/pass/child"), "{mounted}\n{text}");
    assert!(!mounted.contains("genc/hex"), "{mounted}\n{text}");
    assert!(text.contains("Failed to open key material file"), "{text}");
    assert!(done.status.success(), "{text}");

    let more = ["-o", "readonly=on", "-N", "genc"];
    session.ok(&[&import[..], &more].concat());
    let done = session.given(PASSPHRASE, &["zfs", "mount", "-l", "genc/pass"]);
    let mounted = session.ok(&["zfs", "mount"]);
    session.ok(&["zfs", "unmount", "-u", "genc/pass"]);
    let after = status(&session, "genc/pass");
    session.ok(&["zpool", "export", "genc"]);
    assert!(done.status.success(), "{}", said(&done));
    assert!(mounted.contains("genc/pass"), "{mounted}");
    assert_eq!(after, "unavailable");
}

#[test]
fn without_keys_all_else_goes_on() {
    let Some((mut session, pool)) = imported() else {
        return;
    };
    assert_eq!(status(&session, "genc/pass/child"), "unavailable");
    assert_eq!(status(&session, "genc"), "-");
    let refused = session.refused(&["zfs", "mount", "genc/pass"]);
    assert_eq!(
        refused,
        "cannot mount 'genc/pass': encryption key not loaded\n"
    );
    session.ok(&["zfs", "mount", "-a"]);
    let columns = "name,type,used,available,refer,guid,createtxg,compressratio,origin";
    let list = session.ok(&[
        "zfs", "list", "-Hp", "-t", "all", "-o", columns, "-r", "genc",
    ]);
    let lines: Vec<&str> = list.lines().collect();
    assert_eq!(lines, pool.lines("list.tsv"));
    session.export("genc");
}

#[test]
fn keys_are_refused_by_what_is_wrong_with_them() {
    let Some((mut session, pool)) = imported() else {
        return;
    };
    let load = |input: &str, options: &[&str]| {
        let output = session.given(input, &[&["zfs", "load-key"], options].concat());
        (output.status.code(), said(&output))
    };
    let failed = |text: &str| (Some(255), format!("Key load error: {text}"));
    let pass = ["genc/pass"];
    let wrong = failed("Incorrect key provided for 'genc/pass'.");
    assert_eq!(load("correct horse batterz\n", &pass), wrong);
    assert_eq!(
        load("short\n", &pass),
        failed("Passphrase too short (min 8).")
    );
    assert_eq!(load("", &["genc"]), failed("'genc' is not encrypted."));
    assert_eq!(
        load(PASSPHRASE, &["genc/pass/child"]),
        failed("Keys must be loaded for encryption root of 'genc/pass/child' (genc/pass).")
    );
    assert_eq!(
        load("", &["-L", "https://example.org/key", "genc/hex"]),
        failed("keys are not fetched from web servers by this version")
    );
    let (code, text) = load("", &["-L", "file:///no/such/file", "genc/hex"]);
    assert_eq!(code, Some(255));
    assert!(text.starts_with("Key load error: Failed to open key material file: "));
    assert_eq!(status(&session, "genc/pass"), "unavailable");

    let tried = session.given(PASSPHRASE, &["zfs", "load-key", "-n", "genc/pass"]);
    let tried = String::from_utf8_lossy(&tried.stdout).into_owned();
    assert_eq!(tried, "1 / 1 key(s) successfully verified\n");
    assert_eq!(status(&session, "genc/pass"), "unavailable");

    load_keys(&session, &pool);
    assert_eq!(status(&session, "genc/pass/child@s"), "available");
    let again = failed("Key already loaded for 'genc/pass'.");
    assert_eq!(load(PASSPHRASE, &pass), again);

    session.ok(&["zfs", "mount", "genc/pass/child"]);
    let unload = |name| session.refused(&["zfs", "unload-key", name]);
    assert_eq!(
        unload("genc/pass"),
        "Key unload error: 'genc/pass' is busy.\n"
    );
    assert_eq!(
        unload("genc"),
        "Key unload error: 'genc' is not encrypted.\n"
    );
    session.ok(&["zfs", "unmount", "genc/pass/child"]);
    let all = session.ok(&["zfs", "unload-key", "-r", "genc"]);
    assert_eq!(all, "2 / 2 key(s) successfully unloaded\n");
    let again = "Key unload error: Key already unloaded for 'genc/pass'.\n";
    assert_eq!(unload("genc/pass"), again);
    session.refused(&["zfs", "mount", "genc/pass"]);
    session.export("genc");
}
