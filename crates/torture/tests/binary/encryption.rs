//! The pool that OpenZFS encrypted: keys are loaded and forgotten, files read and written with them, and refused
//! without.

use crate::golden_pools::read_equal;
use crate::lifecycle::kill_server;
use crate::session::{Session, path};
use golden::{GoldenPool, describe_tree};
use std::fs;
use std::path::Path;
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
    // The pool is there; who asked for its keys does not have all of them.
    assert_eq!(done.status.code(), Some(1), "{text}");

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
    let (code, text) = load("", &["-L", "https://nobody.invalid/key", "genc/hex"]);
    assert_eq!(code, Some(255), "{text}");
    assert!(text.starts_with("Key load error: "), "{text}");
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

/// The heads that are encrypted.
const HEADS: [&str; 3] = ["genc/pass", "genc/pass/child", "genc/hex"];

/// The pool in a session, to be written, with nothing mounted.
fn writable() -> Option<(Session, GoldenPool)> {
    if !rustix::process::geteuid().is_root() {
        println!("skipped: owners and device nodes can be compared by root only");
        return None;
    }
    let pool = golden::pool("enc")?;
    let mut session = Session::new()?;
    session.bring(&pool.images());
    session.import("genc", &["-N"]);
    Some((session, pool))
}

fn synced(path: &Path, bytes: &[u8]) {
    fs::write(path, bytes).unwrap();
    fs::File::open(path).unwrap().sync_all().unwrap();
}

/// Writes files of every kind of block below a mount point, all under `new`.
fn write_files(root: &Path) {
    let new = root.join("new");
    fs::create_dir(&new).unwrap();
    for name in 0..300 {
        fs::write(new.join(format!("small-{name}")), format!("{name}")).unwrap();
    }
    fs::write(new.join("packed"), b"all work and no play ".repeat(30_000)).unwrap();
    fs::write(new.join("holes"), vec![0; 1 << 20]).unwrap();
    let noise: Vec<u8> = (0..3_000_000_u32)
        .map(|at| at.wrapping_mul(0x9e37_79b9).to_le_bytes()[3])
        .collect();
    fs::write(new.join("long"), noise).unwrap();
    let value = "v".repeat(3000);
    let flags = rustix::fs::XattrFlags::empty();
    rustix::fs::setxattr(new.join("packed"), "user.spill", value.as_bytes(), flags).unwrap();
    fs::remove_file(new.join("small-7")).unwrap();
    synced(&new.join("synced"), b"synced");
}

/// Of what was not changed, all is as OpenZFS wrote it.
fn assert_rest_is_equal(session: &Session, pool: &GoldenPool) {
    for (dataset, manifest) in pool.manifests() {
        let (head, snapshot) = dataset.split_once('@').unwrap_or((&dataset, ""));
        if !HEADS.contains(&head) {
            continue;
        }
        let mut root = session.mount(head);
        if !snapshot.is_empty() {
            root = root.join(".zfs/snapshot").join(snapshot);
        }
        let mut differences = manifest.differences(&describe_tree(&root));
        if snapshot.is_empty() {
            // The new folder, and the time of the root that it is in.
            let is_new = |line: &String| line.starts_with("new") || line.starts_with("child: ");
            differences.retain(|line| {
                !is_new(line) && !line.starts_with(": ") && !line.starts_with(".: ")
            });
        }
        assert!(
            differences.is_empty(),
            "{dataset}:\n{}",
            differences.join("\n")
        );
    }
}

#[test]
fn what_is_written_with_keys_is_there_with_them_only() {
    let Some((mut session, pool)) = writable() else {
        return;
    };
    load_keys(&session, &pool);
    session.ok(&["zfs", "mount", "-a"]);
    let wanted: Vec<_> = HEADS
        .map(|head| {
            write_files(&session.mount(head));
            describe_tree(&session.mount(head))
        })
        .into();
    session.ok(&["zfs", "snapshot", "-r", "genc@new"]);
    session.ok(&["zfs", "clone", "genc/pass@new", "genc/clone"]);
    let clone = session.mount("genc/clone");
    fs::write(clone.join("new/packed"), "of the clone").unwrap();
    fs::write(session.mount("genc/pass").join("gone"), "gone").unwrap();
    session.ok(&["zfs", "rollback", "genc/pass@new"]);
    assert!(!session.mount("genc/pass").join("gone").exists());
    session.ok(&["zpool", "scrub", "-w", "genc"]);
    assert!(
        session
            .ok(&["zpool", "status", "genc"])
            .contains("with 0 errors")
    );
    session.export_clean("genc");

    // Without keys all goes on that needs none.
    session.import("genc", &["-N"]);
    session.ok(&["zpool", "scrub", "-w", "genc"]);
    assert!(
        session
            .ok(&["zpool", "status", "genc"])
            .contains("with 0 errors")
    );
    session.ok(&["zfs", "snapshot", "genc/pass@locked"]);
    session.ok(&["zfs", "rollback", "genc/pass@locked"]);
    session.ok(&["zfs", "destroy", "genc/pass@locked"]);
    session.ok(&["zfs", "clone", "genc/hex@new", "genc/short"]);
    session.ok(&["zfs", "destroy", "genc/short"]);
    let text = session.refused(&["zfs", "mount", "genc/clone"]);
    assert!(text.contains("encryption key not loaded"), "{text}");
    session.ok(&["zfs", "destroy", "genc/clone"]);
    session.export_clean("genc");

    session.import("genc", &["-N"]);
    load_keys(&session, &pool);
    session.ok(&["zfs", "mount", "-a"]);
    for (head, wanted) in HEADS.iter().zip(&wanted) {
        let mut differences = wanted.differences(&describe_tree(&session.mount(head)));
        // There was another file system mounted by now, or not yet.
        differences.retain(|line| !line.starts_with("child: "));
        assert!(
            differences.is_empty(),
            "{head}:\n{}",
            differences.join("\n")
        );
    }
    assert_rest_is_equal(&session, &pool);
    session.ok(&["zfs", "unmount", "-a"]);
    session.ok(&["zfs", "unload-key", "-a"]);
    session.export_clean("genc");
}

#[test]
fn what_was_synced_before_a_kill_waits_for_its_key() {
    let Some((mut session, pool)) = writable() else {
        return;
    };
    load_keys(&session, &pool);
    session.ok(&["zfs", "mount", "-a"]);
    let root = session.mount("genc/pass");
    for turn in 0..20 {
        synced(&root.join(format!("short-{turn}")), &[turn; 100]);
        synced(&root.join(format!("long-{turn}")), &vec![turn; 200_000]);
    }
    kill_server(&session, "enc");
    // Claimed without the key, and kept over another import without it.
    session.import("genc", &["-f", "-N"]);
    session.ok(&["zfs", "snapshot", "genc/pass@before"]);
    session.export_clean("genc");
    session.import("genc", &["-N"]);
    load_keys(&session, &pool);
    session.ok(&["zfs", "mount", "-a"]);
    for turn in 0..20 {
        let read = |name: &str| fs::read(root.join(format!("{name}-{turn}"))).unwrap();
        assert_eq!(read("short"), [turn; 100]);
        assert_eq!(read("long"), vec![turn; 200_000]);
    }
    session.export_clean("genc");
}

/// Every cipher, each kind of key, and where the key is.
const CIPHERS: [&str; 6] = [
    "aes-128-ccm",
    "aes-192-ccm",
    "aes-256-ccm",
    "aes-128-gcm",
    "aes-192-gcm",
    "aes-256-gcm",
];

/// The key of a dataset that this test makes: what is given where it is asked for.
fn key_of(format: &str) -> String {
    match format {
        "passphrase" => "correct horse battery\n".to_owned(),
        "hex" => format!("{}\n", "a7".repeat(32)),
        _ => "0123456789abcdefghijklmnopqrstuv".to_owned(),
    }
}

/// Makes a root of encryption with one key and loads it again with another.
fn create_root(session: &Session, name: &str, cipher: &str, format: &str) {
    let (cipher, keyformat) = (
        format!("encryption={cipher}"),
        format!("keyformat={format}"),
    );
    let create = ["zfs", "create", "-o", &cipher, "-o", &keyformat];
    let mut words = create.to_vec();
    if format == "passphrase" {
        words.extend(["-o", "pbkdf2iters=100000"]);
    }
    words.push(name);
    let made = session.given(&key_of(format), &words);
    assert!(made.status.success(), "{name}: {}", said(&made));
}

#[test]
fn new_datasets_of_every_cipher_and_kind_of_key_are_read_back() {
    let Some(mut session) = Session::new() else {
        return;
    };
    session.create("tank", 256, &[]);
    let formats = ["passphrase", "hex", "raw"];
    let roots = CIPHERS
        .iter()
        .flat_map(|cipher| formats.map(|format| (*cipher, format)));
    let roots: Vec<_> = roots
        .map(|(cipher, format)| (format!("tank/{cipher}-{format}"), cipher, format))
        .collect();
    for (name, cipher, format) in &roots {
        create_root(&session, name, cipher, format);
        session.ok(&["zfs", "create", &format!("{name}/child")]);
        for root in [session.mount(name), session.mount(name).join("child")] {
            fs::write(root.join("text"), format!("{name} ").repeat(20_000)).unwrap();
            synced(&root.join("synced"), name.as_bytes());
        }
        let get = |what: &str, of: &str| session.ok(&["zfs", "get", "-Ho", "value", what, of]);
        let child = format!("{name}/child");
        assert_eq!(get("encryption", name).trim_end(), *cipher);
        assert_eq!(get("encryption", &child).trim_end(), *cipher);
        assert_eq!(get("keyformat", &child).trim_end(), *format);
        assert_eq!(get("encryptionroot", &child).trim_end(), name);
        assert_eq!(get("keylocation", name).trim_end(), "prompt");
        assert_eq!(get("keylocation", &child).trim_end(), "none");
        assert_eq!(get("keystatus", &child).trim_end(), "available");
        let iterations = if *format == "passphrase" {
            "100000"
        } else {
            "0"
        };
        assert_eq!(get("pbkdf2iters", name).trim_end(), iterations);
    }
    session.ok(&["zfs", "snapshot", "-r", "tank@s"]);
    session.export_clean("tank");
    session.import("tank", &[]);
    for (name, _, format) in &roots {
        assert_eq!(status(&session, name), "unavailable");
        assert!(!session.mount(name).join("text").exists());
        let loaded = session.given(&key_of(format), &["zfs", "load-key", name]);
        assert!(loaded.status.success(), "{name}: {}", said(&loaded));
    }
    session.ok(&["zfs", "mount", "-a"]);
    for (name, ..) in &roots {
        for root in [session.mount(name), session.mount(name).join("child")] {
            for root in [root.clone(), root.join(".zfs/snapshot/s")] {
                let text = fs::read_to_string(root.join("text")).unwrap();
                assert_eq!(text, format!("{name} ").repeat(20_000));
                assert_eq!(fs::read_to_string(root.join("synced")).unwrap(), *name);
            }
        }
    }
    session.ok(&["zpool", "scrub", "-w", "tank"]);
    assert!(
        session
            .ok(&["zpool", "status", "tank"])
            .contains("with 0 errors")
    );
    for (name, ..) in &roots {
        session.ok(&["zfs", "destroy", "-r", name]);
    }
    let used = session.ok(&["zpool", "get", "-Ho", "value", "feature@encryption", "tank"]);
    assert_eq!(used.trim_end(), "enabled", "no dataset has it any more");
    session.export_clean("tank");
}

#[test]
fn images_are_looked_into_with_their_key() {
    let Some(mut session) = Session::new() else {
        return;
    };
    session.create("tank", 128, &[]);
    create_root(&session, "tank/e", "aes-192-ccm", "passphrase");
    session.ok(&["zfs", "create", "tank/e/child"]);
    fs::write(
        session.mount("tank/e/child").join("text"),
        "kept to ourselves",
    )
    .unwrap();
    session.ok(&["zfs", "snapshot", "tank/e/child@s"]);
    session.export_clean("tank");
    let image = session.images().join("tank.img");
    let place = format!("{}:tank/e/child@s/text", path(&image));
    let said = session.refused(&["cat", &place]);
    assert_eq!(
        said,
        "cat: tank/e/child@s: it is encrypted, and no key was given\n"
    );
    let given = session.given(&key_of("passphrase"), &["cat", "--keys", "prompt", &place]);
    assert_eq!(given.stdout, b"kept to ourselves", "{}", self::said(&given));
    let key = session.images().join("key");
    fs::write(&key, "another horse battery").unwrap();
    let location = format!("file://{}", path(&key));
    let said = session.refused(&["cp", "--keys", &location, &place, path(&image)]);
    let reason = "incorrect key provided for 'tank/e'";
    assert_eq!(
        said,
        format!("cp: tank/e/child@s: it is encrypted: {reason}\n")
    );
    fs::write(&key, key_of("passphrase")).unwrap();
    let tree = session.ok(&["tree", "--keys", &location, &format!("{}:", path(&image))]);
    assert!(tree.contains("text") && tree.contains("@s"), "{tree}");
}

#[test]
fn what_is_new_is_encrypted_as_asked_or_refused() {
    let Some(mut session) = Session::new() else {
        return;
    };
    session.create("tank", 128, &[]);
    create_root(&session, "tank/e", "on", "hex");
    let get = |what: &str, of: &str| session.ok(&["zfs", "get", "-Ho", "value", what, of]);
    assert_eq!(get("encryption", "tank/e").trim_end(), "aes-256-gcm");
    session.ok(&["zfs", "create", "-o", "encryption=off", "tank/e/plain"]);
    assert_eq!(get("encryption", "tank/e/plain").trim_end(), "off");
    session.ok(&[
        "zfs",
        "create",
        "-o",
        "encryption=aes-128-ccm",
        "tank/e/other",
    ]);
    assert_eq!(get("encryption", "tank/e/other").trim_end(), "aes-128-ccm");
    assert_eq!(get("encryptionroot", "tank/e/other").trim_end(), "tank/e");
    session.ok(&["zfs", "create", "-V", "8M", "tank/e/volume"]);
    assert_eq!(get("encryptionroot", "tank/e/volume").trim_end(), "tank/e");
    let refused = |options: &[&str], reason: &str| {
        let output = session.given("", &[&["zfs", "create"], options].concat());
        assert_eq!(
            said(&output),
            format!("cannot create '{}': {reason}", options[options.len() - 1])
        );
    };
    let needed = "Keyformat required for new encryption root.";
    refused(&["-o", "encryption=on", "tank/x"], needed);
    refused(
        &["-o", "encryption=on", "-o", "keylocation=prompt", "tank/x"],
        needed,
    );
    let off = "Encryption must be turned on to set encryption properties.";
    refused(&["-o", "keyformat=hex", "tank/x"], off);
    refused(
        &["-o", "encryption=off", "-o", "keyformat=hex", "tank/x"],
        off,
    );
    let hex = ["-o", "encryption=on", "-o", "keyformat=hex"];
    refused(
        &[&hex[..], &["tank/x"]].concat(),
        "Hex key too short (expected 64).",
    );
    session.ok(&["zfs", "unmount", "tank/e"]);
    session.ok(&["zfs", "unload-key", "tank/e"]);
    refused(
        &["tank/e/late"],
        "encryption root's key is not loaded or provided",
    );
    session.export_clean("tank");
}

/// Changes a key; what is given is the new one.
fn change_key(session: &Session, given: &str, words: &[&str]) -> String {
    let output = session.given(given, &[&["zfs", "change-key"], words].concat());
    assert_eq!(output.status.success(), output.stderr.is_empty());
    said(&output)
}

fn shown(session: &Session, property: &str, of: &str) -> String {
    let found = session.ok(&["zfs", "get", "-Ho", "value", property, of]);
    found.trim_end().to_owned()
}

/// Keys that nothing can have.
fn refuse_changes(session: &Session) {
    let refused = change_key(
        session,
        "short\n",
        &["-o", "keyformat=passphrase", "tank/e"],
    );
    assert_eq!(refused, "Key change error: Passphrase too short (min 8).");
    assert_eq!(
        change_key(session, "", &["-i", "tank/e"]),
        "Key change error: Parent must be encrypted."
    );
    assert_eq!(
        change_key(session, "", &["tank"]),
        "Key change error: Dataset not encrypted."
    );
}

/// Where the key of a root is may change, and not of what has its key from there.
fn set_properties(session: &Session) {
    let refused = session.refused(&["zfs", "set", "copies=3", "tank/e/a"]);
    assert_eq!(
        refused,
        "cannot set property for 'tank/e/a': encrypted datasets cannot have copies=3\n"
    );
    session.refused(&["zfs", "set", "keylocation=prompt", "tank/e/a"]);
    session.refused(&["zfs", "set", "keylocation=none", "tank/e"]);
    session.ok(&[
        "zfs",
        "set",
        "keylocation=file:///tmp/no-such-key",
        "tank/e",
    ]);
    assert_eq!(
        shown(session, "keylocation", "tank/e"),
        "file:///tmp/no-such-key"
    );
    session.ok(&["zfs", "set", "keylocation=prompt", "tank/e"]);
}

#[test]
fn other_keys_open_the_same_files() {
    let Some(mut session) = Session::new() else {
        return;
    };
    session.create("tank", 128, &[]);
    create_root(&session, "tank/e", "aes-128-gcm", "hex");
    session.ok(&["zfs", "create", "tank/e/a"]);
    session.ok(&["zfs", "create", "tank/e/a/b"]);
    let files = ["tank/e", "tank/e/a", "tank/e/a/b"];
    for file in files {
        synced(&session.mount(file).join("file"), file.as_bytes());
    }
    let passphrase = key_of("passphrase");
    let to_words = ["-o", "keyformat=passphrase", "-o", "pbkdf2iters=100000"];
    refuse_changes(&session);
    let done = change_key(
        &session,
        &passphrase,
        &[&to_words[..], &["tank/e"]].concat(),
    );
    assert_eq!(done, "");
    assert_eq!(shown(&session, "keyformat", "tank/e/a/b"), "passphrase");
    set_properties(&session);
    // A part of the tree gets a key of its own.
    let done = change_key(
        &session,
        &key_of("raw"),
        &["-o", "keyformat=raw", "tank/e/a"],
    );
    assert_eq!(done, "");
    assert_eq!(shown(&session, "encryptionroot", "tank/e/a/b"), "tank/e/a");
    assert_eq!(shown(&session, "keylocation", "tank/e/a"), "prompt");
    session.export_clean("tank");
    session.import("tank", &["-N"]);
    let load = |session: &Session, given: &str, root: &str| {
        session
            .given(given, &["zfs", "load-key", root])
            .status
            .success()
    };
    assert!(!load(&session, &key_of("hex"), "tank/e"), "the old key");
    assert!(load(&session, &passphrase, "tank/e"));
    assert_eq!(status(&session, "tank/e/a/b"), "unavailable");
    assert_eq!(
        change_key(&session, "", &["-i", "tank/e/a"]),
        "Key change error: Key must be loaded."
    );
    assert!(load(&session, &key_of("raw"), "tank/e/a"));
    assert_eq!(change_key(&session, "", &["-i", "tank/e/a"]), "");
    assert_eq!(shown(&session, "encryptionroot", "tank/e/a/b"), "tank/e");
    assert_eq!(shown(&session, "keylocation", "tank/e/a"), "none");
    session.ok(&["zfs", "mount", "-a"]);
    session.ok(&["zfs", "create", "tank/e/a/c"]);
    session.export_clean("tank");
    session.import("tank", &["-N"]);
    assert!(load(&session, &passphrase, "tank/e"));
    session.ok(&["zfs", "mount", "-a"]);
    for file in files {
        assert_eq!(
            fs::read_to_string(session.mount(file).join("file")).unwrap(),
            file
        );
    }
    session.export_clean("tank");
}

#[test]
fn what_moves_keeps_to_its_root() {
    let Some(mut session) = Session::new() else {
        return;
    };
    session.create("tank", 128, &[]);
    create_root(&session, "tank/e", "on", "hex");
    session.ok(&["zfs", "create", "tank/e/a"]);
    session.ok(&["zfs", "create", "tank/e/b"]);
    synced(&session.mount("tank/e/a").join("file"), b"a");
    let text = session.refused(&["zfs", "rename", "tank/e/a", "tank/a"]);
    assert_eq!(
        text,
        "cannot rename 'tank/e/a': cannot move encrypted child outside of its encryption root\n"
    );
    session.ok(&["zfs", "rename", "tank/e/a", "tank/e/b/a"]);
    session.ok(&["zfs", "rename", "tank/e", "tank/f"]);
    session.ok(&["zfs", "snapshot", "-r", "tank/f@s"]);
    session.ok(&["zfs", "clone", "tank/f/b/a@s", "tank/outside"]);
    let text = session.refused(&["zfs", "promote", "tank/outside"]);
    assert_eq!(
        text,
        "cannot promote 'tank/outside': cannot promote dataset outside its encryption root\n"
    );
    let text = change_key(
        &session,
        &key_of("hex"),
        &["-o", "keyformat=hex", "tank/outside"],
    );
    assert_eq!(text, "Key change error: Keys cannot be changed on clones.");
    session.ok(&["zfs", "clone", "tank/f/b/a@s", "tank/f/inside"]);
    session.ok(&["zfs", "promote", "tank/f/inside"]);
    // The root itself is promoted away: its clone is the root of all that was under it.
    session.ok(&["zfs", "clone", "tank/f@s", "tank/g"]);
    session.ok(&["zfs", "promote", "tank/g"]);
    let root = session.ok(&["zfs", "get", "-Ho", "value", "encryptionroot", "tank/f/b"]);
    assert_eq!(root.trim_end(), "tank/g");
    session.export_clean("tank");
    session.import("tank", &["-N"]);
    let loaded = session.given(&key_of("hex"), &["zfs", "load-key", "tank/g"]);
    assert!(loaded.status.success(), "{}", said(&loaded));
    session.ok(&["zfs", "mount", "-a"]);
    for place in ["tank/f/inside", "tank/f/b/a", "tank/outside"] {
        assert_eq!(
            fs::read(session.mount(place).join("file")).unwrap(),
            b"a",
            "{place}"
        );
    }
    session.export_clean("tank");
}

/// Reads from a terminal until it shows something.
fn read_until(from: &mut impl std::io::Read, wanted: &str) -> String {
    let (mut shown, mut byte) = (Vec::new(), [0]);
    while from.read(&mut byte).is_ok_and(|count| count == 1) {
        shown.push(byte[0]);
        if String::from_utf8_lossy(&shown).contains(wanted) {
            break;
        }
    }
    String::from_utf8_lossy(&shown).into_owned()
}

#[test]
fn a_prompt_that_is_interrupted_leaves_the_terminal_as_it_was() {
    use std::io::Write;
    let Some((mut session, _)) = imported() else {
        return;
    };
    if !session
        .shell("command -v script && command -v stty", &[])
        .status
        .success()
    {
        println!("skipped: there is no script(1) here");
        return;
    }
    let job =
        r#"trap : INT; "$BINARY" zfs load-key genc/pass; echo "ended $?"; stty -a; echo over"#;
    // Who runs the tests may have these ignored, as shells do for what they start in the background.
    let script =
        format!("BINARY=\"$0\" exec env --default-signal=INT,QUIT script -qefc '{job}' /dev/null");
    let mut child = session
        .shell_command(&script)
        .stdin(std::process::Stdio::piped())
        .stdout(std::process::Stdio::piped())
        .spawn()
        .expect("sh runs");
    let mut shown = child.stdout.take().expect("a pipe");
    let mut typed = child.stdin.take().expect("a pipe");
    read_until(&mut shown, "Enter passphrase for 'genc/pass': ");
    typed.write_all(b"corr\x03").expect("it is typed");
    let after = read_until(&mut shown, "over\r\n");
    drop(typed);
    child.wait().expect("it ends");
    assert!(after.contains("ended 130"), "{after}");
    let shows = |wanted: &str| after.split_whitespace().any(|word| word == wanted);
    assert!(shows("echo") && shows("isig"), "{after}");
    session.export("genc");
}
