//! What is listed of a pool is what OpenZFS's zdb lists.

use std::path::Path;
use std::process::Command;

use golden::Zdb;
use millpond_inspect::Inspection;

/// Of a pool, or of a dataset by its full name.
fn inspect(folder: &Path, name: &str, more: impl FnOnce(&mut Inspection)) -> String {
    let mut inspection = Inspection::of(vec![folder.to_owned()]);
    inspection.pool = name.split('/').next().map(str::to_owned);
    inspection.dataset = name.contains('/').then(|| name.to_owned());
    more(&mut inspection);
    let mut out = Vec::new();
    let status = inspection.print(&mut out).unwrap();
    let text = String::from_utf8_lossy(&out).into_owned();
    assert_eq!(status, 0, "{inspection:?}: {text}");
    text
}

#[test]
fn a_big_endian_pool_lists_the_datasets_that_zdb_listed() {
    let Some(pool) = golden::pool("ztest-be") else {
        return;
    };
    let wanted = |line: &&String| line.starts_with("Dataset ");
    let theirs = pool.lines("zdb-d.txt");
    let theirs: Vec<String> = theirs.iter().filter(wanted).cloned().collect();
    assert!(!theirs.is_empty());
    let ours = inspect(&pool.folder, &pool.pool_name(), |all| all.datasets = 1);
    let ours: Vec<String> = ours.lines().map(str::to_owned).collect();
    let ours: Vec<String> = ours.iter().filter(wanted).cloned().collect();
    assert_eq!(ours, theirs);
}

#[test]
fn uberblock_configuration_history_and_logs_are_the_same_text() {
    let Some(zdb) = Zdb::from_environment() else {
        return;
    };
    for name in ["default", "old", "zil"] {
        let Some(pool) = golden::pool(name) else {
            continue;
        };
        type More = fn(&mut Inspection);
        let options: [(&str, More); 3] = [
            ("-u", |all| all.uberblock = 1),
            ("-C", |all| all.config = 1),
            ("-h", |all| all.history = 1),
        ];
        for (option, more) in options {
            let ours = inspect(&pool.folder, &pool.pool_name(), more);
            let theirs = zdb.run(&pool.folder, &[option], &[&pool.pool_name()]);
            assert_eq!(
                ours,
                String::from_utf8_lossy(&theirs.stdout),
                "{name} {option}"
            );
        }
    }
}

#[test]
fn labels_are_the_same_text() {
    let Some(zdb) = std::env::var_os("MILLPOND_ZDB") else {
        return;
    };
    for name in ["default", "mirror", "raidz2"] {
        let Some(pool) = golden::pool(name) else {
            continue;
        };
        for image in pool.images() {
            let theirs = Command::new(&zdb)
                .arg("-lu")
                .arg(&image)
                .output()
                .expect("zdb runs");
            let mut ours = Vec::new();
            let mut labels = Inspection::of(vec![image]);
            (labels.labels, labels.uberblock) = (1, 1);
            assert_eq!(labels.print(&mut ours).unwrap(), 0);
            assert_eq!(
                String::from_utf8_lossy(&ours),
                String::from_utf8_lossy(&theirs.stdout)
            );
        }
    }
}

/// Lines of zdb's that describe the shape of a ZAP rather than its content are not printed here.
fn comparable(text: &str) -> Vec<String> {
    let shape = [
        "Fat ZAP",
        "Pointer table",
        "zt_",
        "ZAP entries",
        "Leaf blocks",
        "Total blocks",
    ];
    let shape = shape
        .iter()
        .chain(&["zap_", "Leafs with", "Blocks ", "Entries with", "Buckets"]);
    let shape: Vec<&str> = shape.copied().collect();
    text.lines()
        .filter(|line| !line.trim().is_empty() && !line.starts_with("Verified"))
        .filter(|line| {
            !shape
                .iter()
                .any(|start| line.trim_start().starts_with(start))
        })
        .filter(|line| !line.ends_with('*') && !line.ends_with(" elements"))
        // Bars of histograms, details of deadlists, and parts of the table of dnodes.
        .filter(|line| !(line.starts_with("\t\t\t") && line.contains(": ")))
        .filter(|line| !line.contains("mintxg") && !line.contains("#mark"))
        .filter(|line| {
            !line.starts_with("\t0:")
                && !line.starts_with("\tEMBEDDED")
                && !line.contains("segment [")
        })
        .map(str::to_owned)
        .collect()
}

#[test]
fn objects_are_described_as_zdb_describes_them() {
    let Some(zdb) = Zdb::from_environment() else {
        return;
    };
    let Some(pool) = golden::pool("default") else {
        return;
    };
    let name = pool.pool_name();
    for dataset in ["home", "home/alice"] {
        let dataset = format!("{name}/{dataset}");
        let ours = inspect(&pool.folder, &dataset, |all| all.datasets = 5);
        let theirs = zdb.run(&pool.folder, &["-ddddd"], &[&dataset]);
        let theirs = String::from_utf8_lossy(&theirs.stdout).into_owned();
        let (ours, theirs) = (comparable(&ours), comparable(&theirs));
        for (ours, theirs) in ours.iter().zip(&theirs) {
            assert_eq!(ours, theirs, "{dataset}");
        }
        assert_eq!(ours.len(), theirs.len(), "{dataset}");
    }
}
