//! What `cp -r`, `cat`, `ls` and `tree` take out of pools that OpenZFS made is what was in them.

mod damage;
mod random;

use std::path::{Path, PathBuf};

use golden::GoldenPool;
use millpond_inspect::{CopyOptions, Image, KeyRing, ListOptions, TreeOptions, cat, cp, ls, tree};

/// Words of a command line: images, and a place in their pool.
fn words(images: &[PathBuf], place: &str) -> Vec<String> {
    let mut words: Vec<String> = images
        .iter()
        .map(|image| image.display().to_string())
        .collect();
    let last = words.last_mut().expect("an image");
    *last = format!("{last}:{place}");
    words
}

const RECURSIVE: CopyOptions = CopyOptions {
    recursive: true,
    // Each dataset is compared with its own manifest.
    one_file_system: true,
    force: false,
    trusted: true,
    audience: millpond_inspect::Audience::Nobody,
    keys: KeyRing::NONE,
};

#[test]
fn a_volume_is_a_raw_file() {
    let Some(pool) = golden::pool("vol") else {
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    let options = CopyOptions {
        recursive: true,
        ..CopyOptions::default()
    };
    let images = pool.images();
    let name = pool.pool_name();
    let volume = words(&images, &format!("{name}/v"));
    cp(&volume, &folder.path().join("alone"), &options).unwrap();
    let copied = cp(&words(&images, ""), &folder.path().join("all"), &options).unwrap();
    assert_eq!(copied.problems.lines().count(), 0);
    let snapshot = words(&images, &format!("{name}/v@s"));
    cp(&snapshot, folder.path(), &options).unwrap();
    let wanted = pool.lines("vol.sha256").concat();
    let wanted = wanted.split_whitespace().next().unwrap().to_owned();
    for copy in ["alone", "all/v", "v@s"] {
        let bytes = std::fs::read(folder.path().join(copy)).unwrap();
        let found = <sha2::Sha256 as sha2::Digest>::digest(&bytes);
        let found: String = found.iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(found, wanted, "{copy}");
    }
    // What is there is not written over unasked.
    let again = cp(&volume, &folder.path().join("alone"), &options).unwrap();
    assert_eq!(again.problems.lines().count(), 1);
}

#[test]
fn of_several_pools_the_named_one_is_opened() {
    let pools = [golden::pool("default"), golden::pool("nofeat")];
    let [Some(one), Some(other)] = pools else {
        return;
    };
    let listed = |images: &[PathBuf], place: &str| {
        let mut out = Vec::new();
        let problems = ls(&words(images, place), &ListOptions::default(), &mut out).unwrap();
        let problems: Vec<String> = problems.lines().collect();
        (String::from_utf8(out).unwrap(), problems)
    };
    let both = [one.images(), other.images()].concat();
    for pool in [one, other] {
        let name = pool.pool_name();
        let alone = listed(&pool.images(), &name);
        assert_eq!(alone.1, Vec::<String>::new());
        assert_eq!(listed(&both, &name), alone);
    }
    let (_, problems) = listed(&both, "");
    assert!(problems[0].contains("several pools found"), "{problems:?}");
    let (_, problems) = listed(&both, "nobody/x");
    assert!(problems[0].contains("nobody"), "{problems:?}");
}

fn is_root() -> bool {
    sys::user_id() == 0
}

/// Copies each dataset that has a manifest, from the given images only.
fn compare(pool: &GoldenPool, images: &[PathBuf]) {
    compare_with(pool, images, &RECURSIVE);
}

fn compare_with(pool: &GoldenPool, images: &[PathBuf], options: &CopyOptions) {
    if !is_root() {
        println!("skipped: owners and device nodes are restored by root only");
        return;
    }
    let datasets = pool.lines("list.tsv");
    for (name, wanted) in pool.manifests() {
        let folder = tempfile::tempdir().unwrap();
        let out = folder.path().join("out");
        let copied = cp(&words(images, &name), &out, options).unwrap();
        let problems: Vec<String> = copied.problems.lines().collect();
        // A file system may not keep names as long as ZFS does.
        let (long, other): (Vec<_>, Vec<_>) = problems
            .into_iter()
            .partition(|line| line.contains("name too long"));
        assert_eq!(other, Vec::<String>::new(), "{name}");
        let mut differences = wanted.differences(&golden::describe_tree(&out));
        differences.retain(|line| {
            let path = line.split_once(": ").map_or(&line[..], |(path, _)| path);
            let child = format!("{name}/{path}\t");
            let is_mount_point = datasets.iter().any(|dataset| dataset.starts_with(&child));
            let is_long = path.rsplit('/').next().is_some_and(|name| name.len() > 255);
            !is_mount_point && (!is_long || long.is_empty())
        });
        assert_eq!(differences, Vec::<String>::new(), "{name}");
    }
}

fn compare_all(pool: &str) {
    if let Some(pool) = golden::pool(pool) {
        compare(&pool, &pool.images());
    }
}

#[test]
fn default() {
    compare_all("default");
}

#[test]
fn removed() {
    compare_all("removed");
}

#[test]
fn codecs() {
    compare_all("codecs");
}

#[test]
fn encrypted_with_its_keys() {
    let Some(pool) = golden::pool("enc") else {
        return;
    };
    let hex = std::fs::read(pool.folder.join("hex.key")).unwrap();
    let asked = std::sync::Arc::new(std::sync::Mutex::new(Vec::new()));
    let names = std::sync::Arc::clone(&asked);
    let keys = KeyRing::asking(move |question| {
        names.lock().unwrap().push(question.name.clone());
        let given: &[u8] = match &question.name[..] {
            "genc/pass" => b"correct horse battery",
            _ => &hex,
        };
        let key = crypto::WrappingKey::from_material(given, question.material);
        key.map_err(|error| error.to_string())
    });
    let options = CopyOptions {
        keys: keys.clone(),
        ..RECURSIVE
    };
    compare_with(&pool, &pool.images(), &options);
    asked.lock().unwrap().clear();
    let folder = tempfile::tempdir().unwrap();
    let all = CopyOptions {
        one_file_system: false,
        ..options
    };
    let copied = cp(&words(&pool.images(), ""), folder.path(), &all).unwrap();
    let problems: Vec<String> = copied.problems.lines().collect();
    assert!(
        !problems.iter().any(|line| line.contains("encrypted")),
        "{problems:?}"
    );
    assert_eq!(
        *asked.lock().unwrap(),
        ["genc/hex", "genc/pass"],
        "once for each root"
    );
}

#[test]
fn encrypted_without_a_key_or_with_another() {
    let Some(pool) = golden::pool("enc") else {
        return;
    };
    let place = words(&pool.images(), "genc/pass/child");
    let said = |keys: KeyRing| {
        let options = ListOptions {
            keys,
            ..ListOptions::default()
        };
        let mut out = Vec::new();
        let problems = ls(&place, &options, &mut out).unwrap();
        assert!(out.is_empty());
        problems.lines().collect::<Vec<_>>().concat()
    };
    assert!(said(KeyRing::NONE).ends_with("it is encrypted, and no key was given"));
    let wrong = KeyRing::asking(|question| {
        crypto::WrappingKey::from_material(b"wrong horse battery", question.material)
            .map_err(|error| error.to_string())
    });
    let text = said(wrong);
    assert!(
        text.ends_with("incorrect key provided for 'genc/pass'"),
        "{text}"
    );
}

#[test]
fn mirror_with_both_sides_and_with_either() {
    if let Some(pool) = golden::pool("mirror") {
        let images = pool.images();
        compare(&pool, &images);
        compare(&pool, &images[..1]);
        compare(&pool, &images[1..]);
    }
}

#[test]
fn raidz_with_all_devices_and_without_as_many_as_may_fail() {
    for (name, parity) in [("raidz1", 1), ("raidz2", 2), ("raidz3", 3)] {
        if let Some(pool) = golden::pool(name) {
            let images = pool.images();
            compare(&pool, &images);
            compare(&pool, &images[parity..]);
            compare(&pool, &images[..images.len() - parity]);
        }
    }
}

#[test]
fn old_file_systems() {
    compare_all("old");
}

#[test]
fn v28() {
    compare_all("v28");
}

#[test]
fn nofeat() {
    compare_all("nofeat");
}

#[test]
fn grub2() {
    compare_all("grub2");
}

#[test]
fn gang() {
    compare_all("gang");
}

#[test]
fn checkpoint() {
    compare_all("checkpoint");
}

#[test]
fn streams() {
    compare_all("streams");
}

#[test]
fn vol() {
    compare_all("vol");
}

#[test]
fn classes() {
    compare_all("classes");
}

#[test]
fn a_folder_of_images_is_as_good_as_the_images() {
    if let Some(pool) = golden::pool("default") {
        let mut out = Vec::new();
        let place = words(std::slice::from_ref(&pool.folder), "");
        let problems = ls(&place, &ListOptions::default(), &mut out).unwrap();
        assert!(
            problems.is_empty(),
            "{:?}",
            problems.lines().collect::<Vec<_>>()
        );
    }
}

#[test]
fn many_datasets_are_drawn_and_some_copied() {
    let Some(pool) = golden::pool("many") else {
        return;
    };
    let images = pool.images();
    let mut out = Vec::new();
    let problems = tree(&words(&images, ""), &TreeOptions::default(), &mut out).unwrap();
    assert!(
        problems.is_empty(),
        "{:?}",
        problems.lines().collect::<Vec<_>>()
    );
    let text = String::from_utf8(out).unwrap();
    let datasets = pool.lines("list.tsv");
    let snapshots = datasets.iter().filter(|line| line.contains('@')).count();
    assert_eq!(
        text.lines().filter(|line| line.contains("── @")).count(),
        snapshots
    );
    let children = text
        .lines()
        .filter(|line| line.ends_with(" (dataset)"))
        .count();
    assert_eq!(children + 1 + snapshots, datasets.len());
    for line in datasets.iter().step_by(datasets.len() / 5) {
        let name = line.split('\t').next().unwrap();
        let folder = tempfile::tempdir().unwrap();
        let copied = cp(
            &words(&images, name),
            &folder.path().join("out"),
            &RECURSIVE,
        )
        .unwrap();
        assert!(copied.problems.is_empty(), "{name}");
    }
}

#[test]
fn what_is_not_there_or_encrypted_is_refused_by_name() {
    for (name, place, wanted) in [
        ("enc", "genc/hex", "encrypted"),
        ("vol", "gvol/nosuch", "no such file"),
        ("vol", "gvol/v", "volume"),
        ("default", "nopool/x", "say gdefault/..."),
        ("default", "gdefault@nosuch", "gdefault@nosuch"),
        ("default", "/no/such/file", "no such file"),
    ] {
        let Some(pool) = golden::pool(name) else {
            continue;
        };
        let mut out = Vec::new();
        let problems = ls(
            &words(&pool.images(), place),
            &ListOptions::default(),
            &mut out,
        )
        .unwrap();
        let lines: Vec<String> = problems.lines().collect();
        assert_eq!(lines.len(), 1, "{name}: {lines:?}");
        assert!(lines[0].contains(wanted), "{name}: {lines:?}");
        assert!(out.is_empty());
    }
}

/// Blocks of an encrypted dataset that were stored as they are, and those that were compressed, are errors that say so.
#[test]
fn what_only_a_key_opens_is_nobodys_contents() {
    let Some(pool) = golden::pool("enc") else {
        return;
    };
    let image = Image::open(&pool.images(), None, None).unwrap();
    let mut refused = 0;
    for block in image.blocks(None).unwrap() {
        let block = block.unwrap();
        let pointer = block.pointer();
        let is_sealed =
            pointer.is_encrypted() && pointer.level() == 0 && pointer.object_type().is_encrypted();
        match block.read() {
            Ok(_) => assert!(!is_sealed, "{:?}", block.place()),
            Err(error) => {
                assert!(is_sealed, "{:?}: {error}", block.place());
                assert!(error.to_string().contains("encrypted"), "{error}");
                refused += 1;
            }
        }
    }
    assert!(refused > 0);
}

#[test]
fn pools_of_the_other_byte_order_are_read() {
    let Some(pool) = golden::pool("ztest-be") else {
        return;
    };
    let mut out = Vec::new();
    let options = TreeOptions::default();
    let problems = tree(&words(&pool.images(), ""), &options, &mut out).unwrap();
    println!("{:?}", problems.lines().collect::<Vec<_>>());
    println!("{}", String::from_utf8_lossy(&out));
}

#[test]
fn cat_gives_the_bytes_and_ls_the_entries_of_the_manifest() {
    use sha2::{Digest, Sha256};
    let Some(pool) = golden::pool("codecs") else {
        return;
    };
    let images = pool.images();
    let (name, manifest) = pool
        .manifests()
        .into_iter()
        .find(|(name, _)| name.ends_with("c-lz4"))
        .unwrap();
    let files = manifest.entries.values().filter(|entry| entry.kind == "f");
    for entry in files.filter(|entry| entry.path.is_ascii() && !entry.path.contains("//")) {
        let mut out = Vec::new();
        let place = format!("{name}/{}", entry.path);
        let problems = cat(&words(&images, &place), &KeyRing::NONE, &mut out).unwrap();
        assert!(
            problems.is_empty(),
            "{place}: {:?}",
            problems.lines().collect::<Vec<_>>()
        );
        let hash: String = Sha256::digest(&out)
            .iter()
            .map(|byte| format!("{byte:02x}"))
            .collect();
        assert_eq!(Some(hash), entry.sha256, "{place}");
    }
    let options = ListOptions {
        recursive: true,
        json: true,
        ..ListOptions::default()
    };
    let mut out = Vec::new();
    let problems = ls(&words(&images, &name), &options, &mut out).unwrap();
    assert!(problems.is_empty());
    let listed: Vec<serde_json::Value> = serde_json::from_slice(&out).unwrap();
    assert_eq!(listed.len() + 1, manifest.entries.len());
}

#[test]
fn nothing_is_overwritten_unasked() {
    let Some(pool) = golden::pool("default") else {
        return;
    };
    let images = pool.images();
    let (name, manifest) = pool
        .manifests()
        .into_iter()
        .find(|(name, _)| name.ends_with("alice@two"))
        .unwrap();
    let file = manifest
        .entries
        .values()
        .find(|entry| entry.kind == "f")
        .unwrap();
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("out");
    std::fs::write(&out, "mine").unwrap();
    let place = words(&images, &format!("{name}//{}", file.path));
    let options = CopyOptions::default();
    let copied = cp(&place, &out, &options).unwrap();
    assert_eq!(copied.problems.count(), 1);
    assert_eq!(std::fs::read(&out).unwrap(), b"mine");
    let force = CopyOptions {
        force: true,
        ..options.clone()
    };
    let copied = cp(&place, &out, &force).unwrap();
    assert!(copied.problems.is_empty());
    assert_eq!(std::fs::metadata(&out).unwrap().len(), file.size.unwrap());
    // A link in the destination is replaced, never written through.
    let victim = folder.path().join("victim");
    std::fs::write(&victim, "mine").unwrap();
    std::fs::remove_file(&out).unwrap();
    std::os::unix::fs::symlink(&victim, &out).unwrap();
    assert_eq!(cp(&place, &out, &options).unwrap().problems.count(), 1);
    assert!(cp(&place, &out, &force).unwrap().problems.is_empty());
    assert_eq!(std::fs::read(&victim).unwrap(), b"mine");
    assert!(!Path::new(&out).is_symlink());
}
