//! Random changes of datasets that mostly succeed.

use super::{Change, PoolModel};
use crate::random::Random;
use dsl::PropertyValue;

/// Properties that decide how blocks are stored or counted, with values that a test may give them.
const PROPERTIES: &[(&str, &[u64])] = &[
    // off, on, lzjb, gzip-1, zle, lz4, zstd
    ("compression", &[2, 1, 3, 5, 14, 15, 16]),
    (
        "recordsize",
        &[512, 4096, 16 << 10, 128 << 10, 1 << 20, 16 << 20],
    ),
    ("copies", &[1, 2, 3]),
    // on, off, fletcher2, fletcher4, sha256, sha512, skein, blake3
    ("checksum", &[1, 2, 6, 7, 8, 11, 12, 14]),
    ("redundant_metadata", &[0, 1, 2, 3]),
    ("dnodesize", &[0, 1, 1024, 2048, 16 << 10]),
    ("xattr", &[1, 2]),
    // off, on, verify, sha512, edonr by comparison, blake3
    ("dedup", &[2, 1, 1, 257, 11, 13 | 256, 14]),
    // standard, always
    ("sync", &[0, 1]),
    ("quota", &[0, 300 << 20]),
    ("refquota", &[0, 300 << 20]),
    ("reservation", &[0, 1 << 20, 5 << 20]),
    ("refreservation", &[0, 1 << 20, 3 << 20]),
];

/// The first of these decide how blocks are stored, and nothing else.
const OF_STORAGE: usize = 8;

/// Draws how a file system stores its blocks: some of these properties, with values that a seed picks. With `verified`,
/// blocks have checksums that find damage.
#[must_use]
pub fn storage(path: &str, seed: u64, verified: bool) -> Vec<Change> {
    const OFF: u64 = 2;
    let mut random = Random::new(seed ^ 0x5704_A6E0);
    let mut changes = Vec::new();
    for (name, values) in &PROPERTIES[..OF_STORAGE] {
        let value = *random.pick(values);
        // What is equal to a damaged block would be damaged, too.
        let finds_damage = !(*name == "checksum" && value == OFF) && *name != "dedup";
        if random.one_in(2) && (finds_damage || !verified) {
            let (name, value) = ((*name).to_owned(), PropertyValue::Number(value));
            changes.push(Change::Set(path.to_owned(), name, value));
        }
    }
    changes
}

/// Properties that are not inherited.
const OWN: [&str; 4] = ["quota", "refquota", "reservation", "refreservation"];

/// Whether children inherit a property.
#[must_use]
pub fn is_inherited(property: &str) -> bool {
    !OWN.contains(&property)
}

/// Datasets are at most so many levels below the root.
const DEPTH_MAX: usize = 3;
/// Heads that a history has at most.
const HEADS_MAX: usize = 10;
/// Snapshots of one head that a history has at most.
const SNAPSHOTS_MAX: usize = 8;

/// Chooses changes of a pool model.
#[derive(Clone, Debug)]
pub struct ChangeChooser {
    random: Random,
}

impl ChangeChooser {
    /// A chooser of a seed.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        let random = Random::new(seed ^ 0xDA7A_5E75);
        Self { random }
    }

    /// Whether a chance of one in `of` came true.
    pub fn one_in(&mut self, of: usize) -> bool {
        self.random.one_in(of)
    }

    /// Any head.
    pub fn head(&mut self, pool_model: &PoolModel) -> String {
        let paths: Vec<&String> = pool_model.heads().keys().collect();
        (*self.random.pick(&paths)).clone()
    }

    /// The next change.
    pub fn next(&mut self, pool_model: &PoolModel) -> Change {
        let head = self.head(pool_model);
        match self.random.below(100) {
            0..10 if pool_model.heads().len() < HEADS_MAX => {
                Change::Create(self.new_path(pool_model))
            }
            0..10 => Change::Destroy(head),
            10..30 => self.snapshot(pool_model, &head),
            30..40 => Change::Clone(self.any_snapshot(pool_model), self.new_path(pool_model)),
            40..47 => Change::Destroy(head),
            47..57 => self.destroy_snapshots(pool_model, &head),
            57..63 => Change::Rollback(head.clone(), self.latest(pool_model, &head)),
            63..71 => Change::Promote(self.any_clone(pool_model)),
            71..76 => Change::Rename(head, self.new_path(pool_model)),
            76..79 => {
                let from = self.any_snapshot(pool_model);
                let to = format!("{}@{}", super::split(&from, '@').0, self.short());
                Change::RenameSnapshot(from, to)
            }
            79..81 => Change::Hold(self.any_snapshot(pool_model), self.tag()),
            81..84 => Change::Release(self.held(pool_model), self.tag()),
            84..87 => {
                let source = self.any_snapshot(pool_model);
                let path = if self.one_in(3) {
                    head
                } else {
                    super::split(&source, '@').0.to_owned()
                };
                Change::Bookmark(format!("{path}#{}", self.short()), source)
            }
            87..88 => Change::DestroyBookmark(format!("{head}#{}", self.short())),
            88..97 => {
                let (name, values) = *self.random.pick(PROPERTIES);
                let value = PropertyValue::Number(*self.random.pick(values));
                Change::Set(head, name.to_owned(), value)
            }
            97..98 => {
                let value = PropertyValue::Text(self.short());
                Change::Set(head, "test:word".to_owned(), value)
            }
            _ => Change::Inherit(head, self.random.pick(PROPERTIES).0.to_owned()),
        }
    }

    fn snapshot(&mut self, pool_model: &PoolModel, head: &str) -> Change {
        let short = self.short();
        if self.one_in(4) {
            let all = pool_model.heads().keys();
            return Change::Snapshot(all.map(|path| format!("{path}@{short}")).collect());
        }
        if pool_model.heads()[head].snapshots.len() >= SNAPSHOTS_MAX {
            return self.destroy_snapshots(pool_model, head);
        }
        Change::Snapshot(vec![format!("{head}@{short}")])
    }

    fn destroy_snapshots(&mut self, pool_model: &PoolModel, head: &str) -> Change {
        let all = &pool_model.heads()[head].snapshots;
        let mut names: Vec<String> = all
            .iter()
            .map(|one| format!("{head}@{}", one.name))
            .collect();
        names.retain(|_| self.random.one_in(2));
        if names.is_empty() {
            names.push(self.any_snapshot(pool_model));
        }
        Change::DestroySnapshots(names, self.one_in(3))
    }

    fn component(&mut self) -> String {
        char::from(b'a' + self.random.below(6) as u8).to_string()
    }

    fn short(&mut self) -> String {
        format!("s{}", self.random.below(12))
    }

    fn tag(&mut self) -> String {
        format!("tag{}", self.random.below(2))
    }

    fn new_path(&mut self, pool_model: &PoolModel) -> String {
        let mut parent = self.head(pool_model);
        while parent.matches('/').count() >= DEPTH_MAX {
            super::split(&parent, '/')
                .0
                .to_owned()
                .clone_into(&mut parent);
        }
        format!("{parent}/{}", self.component())
    }

    fn latest(&mut self, pool_model: &PoolModel, head: &str) -> String {
        match pool_model.heads()[head].snapshots.last() {
            Some(latest) if !self.one_in(10) => latest.name.clone(),
            _ => self.short(),
        }
    }

    fn any_snapshot(&mut self, pool_model: &PoolModel) -> String {
        let names: Vec<String> = all_snapshots(pool_model, |_| true);
        if names.is_empty() || self.one_in(20) {
            return format!("{}@{}", self.head(pool_model), self.short());
        }
        self.random.pick(&names).clone()
    }

    fn held(&mut self, pool_model: &PoolModel) -> String {
        let names = all_snapshots(pool_model, |one| !one.holds.is_empty());
        if names.is_empty() {
            return self.any_snapshot(pool_model);
        }
        self.random.pick(&names).clone()
    }

    fn any_clone(&mut self, pool_model: &PoolModel) -> String {
        let clones = pool_model.heads().iter();
        let clones: Vec<&String> = clones
            .filter(|(_, head)| head.origin.is_some())
            .map(|(path, _)| path)
            .collect();
        if clones.is_empty() || self.one_in(20) {
            return self.head(pool_model);
        }
        (*self.random.pick(&clones)).clone()
    }
}

fn all_snapshots(pool_model: &PoolModel, wanted: impl Fn(&super::Snapshot) -> bool) -> Vec<String> {
    let mut names = Vec::new();
    for (path, head) in pool_model.heads() {
        let chosen = head.snapshots.iter().filter(|one| wanted(one));
        names.extend(chosen.map(|one| format!("{path}@{}", one.name)));
    }
    names
}
