//! Files of OpenZFS's streams, without a pool: they are those of the manifests; what is damaged is told, and what came
//! before it is there.

#![expect(clippy::unwrap_used, reason = "a test")]

use std::fs;
use std::path::Path;

use golden::GoldenPool;
use millpond_inspect::{
    CopyOptions, ListOptions, stream_cp, stream_diff, stream_ls, stream_verify,
};

fn file(pool: &GoldenPool, name: &str) -> String {
    let path = pool.folder.join(format!("{name}.stream"));
    path.to_str().unwrap().to_owned()
}

/// Copies all that words name, and compares it with a manifest.
fn assert_copied(pool: &GoldenPool, words: &[String], manifest: &str) {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("out");
    let options = CopyOptions {
        recursive: true,
        trusted: true,
        ..CopyOptions::default()
    };
    let copied = stream_cp(words, &out, &options).unwrap();
    let problems: Vec<String> = copied.problems.lines().collect();
    let manifests = pool.manifests();
    let (_, wanted) = manifests.iter().find(|(name, _)| name == manifest).unwrap();
    let mut differences = wanted.differences(&golden::describe_tree(&out));
    // The child was mounted there; and what only root may restore is told of.
    differences.retain(|line| {
        let path = line.split(": ").next().unwrap();
        let told = problems.iter().any(|problem| problem.contains(path));
        !line.starts_with("kid: ") && !told
    });
    assert_eq!(differences, Vec::<String>::new(), "{words:?}: {problems:?}");
}

#[test]
fn files_are_those_of_the_manifests() {
    let Some(pool) = golden::pool("streams") else {
        return;
    };
    let [full, incr, multi, package, compressed] =
        ["full", "incr", "multi", "replicate", "compressed"].map(|name| file(&pool, name));
    let words = |all: &[&str]| all.iter().map(|one| (*one).to_owned()).collect::<Vec<_>>();
    assert_copied(&pool, &words(&[&full]), "gst/src@1");
    assert_copied(&pool, &words(&[&full, &incr]), "gst/src@2");
    assert_copied(
        &pool,
        &words(&[&full, &incr, &format!("{incr}:@1")]),
        "gst/src@1",
    );
    assert_copied(&pool, &words(&[&full, &multi]), "gst/src@3");
    assert_copied(
        &pool,
        &words(&[&format!("{package}:gst/src@2")]),
        "gst/src@2",
    );
    assert_copied(
        &pool,
        &words(&[&format!("{package}:gst/src/kid")]),
        "gst/src/kid@3",
    );
    let verified = stream_verify(&words(&[&compressed])).unwrap();
    let name = verified[0].streams[0].name.clone();
    assert_copied(&pool, &words(&[&compressed]), &name);
}

#[test]
fn what_an_increment_changes_is_told() {
    let Some(pool) = golden::pool("streams") else {
        return;
    };
    let (full, incr) = (file(&pool, "full"), file(&pool, "incr"));
    let mut out = Vec::new();
    let problems = stream_diff(&[full, incr.clone()], false, &mut out).unwrap();
    assert!(problems.is_empty());
    let told = String::from_utf8(out).unwrap();
    assert!(told.contains("R\t/many/ -> /moved/\n"), "{told}");
    // Every path that differs between the manifests is told of.
    let manifests = pool.manifests();
    let of = |name: &str| &manifests.iter().find(|(found, _)| found == name).unwrap().1;
    for line in of("gst/src@1").differences(of("gst/src@2")) {
        let path = line.split(": ").next().unwrap();
        // What lies in a directory that has another name is where that is.
        let is_below = path.starts_with("many/") || path.starts_with("moved/");
        // It was one of two names.
        let is_link = path == "text.txt" && told.contains("M\t/dir/hard\t(-1)\n");
        let is_told = told.contains(path) || path == ".";
        assert!(is_told || is_below || is_link, "{line}\n{told}");
    }
    let mut out = Vec::new();
    stream_diff(&[incr], false, &mut out).unwrap();
    let told = String::from_utf8(out).unwrap();
    assert!(
        told.lines().all(|line| line.contains("\tobject ")),
        "{told}"
    );
    assert!(!told.is_empty());
}

fn listed(words: &[String]) -> (String, Vec<String>) {
    let options = ListOptions {
        recursive: true,
        ..ListOptions::default()
    };
    let mut out = Vec::new();
    match stream_ls(words, &options, &mut out) {
        Ok(problems) => {
            let text = String::from_utf8_lossy(&out).into_owned();
            (text, problems.lines().collect())
        }
        Err(error) => (String::new(), vec![error.to_string()]),
    }
}

#[test]
fn a_damaged_stream_is_told_and_read_as_far_as_it_goes() {
    let Some(pool) = golden::pool("streams") else {
        return;
    };
    let whole = fs::read(pool.folder.join("full.stream")).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("bad");
    let words = [path.to_str().unwrap().to_owned()];
    let (all, _) = {
        fs::write(&path, &whole).unwrap();
        listed(&words)
    };
    let check = |bytes: &[u8], path: &Path, at: u64| {
        fs::write(path, bytes).unwrap();
        let verified = stream_verify(&words).unwrap();
        let told = verified[0].damage.clone();
        assert!(told.is_some(), "damage at {at} is not told");
        assert!(verified[0].bytes <= at, "{told:?}");
        let (some, problems) = listed(&words);
        assert!(!problems.is_empty());
        // What is shown was there.
        assert!(some.lines().all(|line| all.contains(line)), "{some}");
    };
    for step in (1..40).step_by(6) {
        let at = whole.len() * step / 40;
        let mut bytes = whole.clone();
        bytes[at] ^= 0x10;
        check(&bytes, &path, at as u64);
        check(&whole[..at], &path, at as u64);
    }
}
