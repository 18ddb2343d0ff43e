//! A first look at the directory: how much there is, how large an image it needs, and what stands for its contents.

use std::collections::HashSet;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

use admin::{Assignments, CreateRequest, Failure, FailureKind, Value};
use base::ByteOrder;
use base::host_reason;
use codec::{Checksum, Salt};
use dsl::property::Row;
use dsl::property::dataset::{COPIES, DNODESIZE, RECORDSIZE};
use dsl::property::pool::ASHIFT;

use super::request::{ImageProgress, ImageRequest, Watcher, clamped};
use super::source::{self, Found, Source};

/// What a directory's own objects take at most, while it is small.
const DIRECTORY_BYTES: u64 = 48 << 10;
/// What an entry takes beside its data: its name, its dnodes' copies, what is counted for its owner.
const ENTRY_BYTES: u64 = 2 << 10;
/// What the pool itself takes, with the space that it keeps back.
const POOL_BYTES: u64 = 256 << 20;
/// Images are a multiple of this.
const UNIT: u64 = 16 << 20;

/// What there is.
pub(super) struct Survey {
    /// The root itself.
    pub(super) root: Found,
    /// Files, directories and so on, the root included.
    pub(super) entries: u64,
    directories: u64,
    /// Bytes of files; of holes only with `--reproducible`.
    pub(super) bytes: u64,
    /// Bytes that the files' blocks take, if nothing is compressed.
    allocated: u64,
    attributes: u64,
    attribute_bytes: u64,
    /// The image's time, in seconds since 1970.
    pub(super) time_s: u64,
    /// Follows from names, attributes and options.
    pub(super) seed: u64,
}

/// What the sizes of blocks follow from.
#[derive(Clone, Copy)]
struct Geometry {
    record: u64,
    copies: u64,
    dnode: u64,
    sector: u64,
}

impl Geometry {
    fn of(pool: &CreateRequest) -> Self {
        let number = |list: &Assignments, row: &Row, default: u64| {
            let found = list.iter().find(|(name, _)| row.is(name));
            match found {
                Some((_, Value::Number(number))) if *number != 0 => *number,
                _ => default,
            }
        };
        let dataset = &pool.dataset_properties;
        Self {
            record: number(dataset, &RECORDSIZE, RECORDSIZE.default_number()).max(512),
            copies: number(dataset, &COPIES, COPIES.default_number()).clamp(1, 3),
            dnode: number(dataset, &DNODESIZE, DNODESIZE.default_number()).max(1024),
            sector: 1 << number(&pool.properties, &ASHIFT, 9).min(16),
        }
    }

    /// What a file takes, if nothing is compressed. None: more than any pool has.
    fn allocated(self, bytes: u64) -> Option<u64> {
        /// Pointers to a block, in several copies.
        const POINTERS: u64 = 512;
        if bytes <= self.record {
            let data = bytes.checked_next_multiple_of(self.sector)?;
            return (data + POINTERS).checked_mul(self.copies);
        }
        let block = self.record.next_multiple_of(self.sector) + POINTERS;
        let blocks = bytes.div_ceil(self.record);
        blocks.checked_mul(block)?.checked_mul(self.copies)
    }
}

/// What is gathered on the way.
struct Walk<'a> {
    request: &'a ImageRequest,
    source: &'a dyn Source,
    geometry: Geometry,
    survey: Survey,
    digest: [u8; 32],
    youngest_s: u64,
    linked: HashSet<(u64, u64)>,
}

impl Survey {
    /// Walks through the source. What cannot be read is passed over: the copy says so.
    pub(super) fn take(
        request: &ImageRequest,
        source: &dyn Source,
        watcher: Watcher<'_>,
    ) -> Result<Self, Failure> {
        let root_path = source.root().to_owned();
        let root = source.found(&root_path).map_err(|error| {
            let text = format!(
                "cannot open '{}': {}",
                root_path.display(),
                host_reason(&error)
            );
            Failure::new(FailureKind::Missing, text)
        })?;
        let mut walk = Walk {
            request,
            source,
            geometry: Geometry::of(&request.pool),
            survey: Self {
                root: root.clone(),
                entries: 0,
                directories: 0,
                bytes: 0,
                allocated: 0,
                attributes: 0,
                attribute_bytes: 0,
                time_s: 0,
                seed: 0,
            },
            digest: [0; 32],
            youngest_s: 0,
            linked: HashSet::new(),
        };
        walk.options();
        walk.entry(&root_path, b"", &root);
        let mut waiting: Vec<(PathBuf, std::vec::IntoIter<OsString>)> = Vec::new();
        let names = |path: &Path| source.names(path).unwrap_or_default().into_iter();
        let first = names(&root_path);
        waiting.push((root_path, first));
        while let Some((folder, rest)) = waiting.last_mut() {
            let Some(name) = rest.next() else {
                walk.mix(b"up");
                waiting.pop();
                continue;
            };
            let path = folder.join(&name);
            let Ok(found) = source.found(&path) else {
                continue;
            };
            walk.entry(&path, source::bytes(&name), &found);
            watcher(&ImageProgress {
                entries: walk.survey.entries,
                ..ImageProgress::default()
            });
            if found.is_directory() {
                let names = names(&path);
                waiting.push((path, names));
            }
        }
        Ok(walk.end())
    }

    /// How much there is, before anything is copied.
    pub(super) fn totals(&self) -> ImageProgress {
        ImageProgress {
            entries_total: self.entries,
            bytes_total: self.bytes,
            ..ImageProgress::default()
        }
    }

    /// How large an image all this needs, generously: it is sparse. None: larger than any file.
    pub(super) fn image_size(&self, pool: &CreateRequest) -> Option<u64> {
        let Geometry { dnode, sector, .. } = Geometry::of(pool);
        let mut total = self.allocated;
        let each = [
            (self.entries, ENTRY_BYTES + 3 * dnode),
            (self.directories, DIRECTORY_BYTES + 4 * sector),
            (self.attributes, 2 * ENTRY_BYTES + 3 * sector),
            (self.attribute_bytes, 3),
        ];
        for (count, bytes) in each {
            total = total.checked_add(count.checked_mul(bytes)?)?;
        }
        let total = total.checked_add(total / 4)?.checked_add(POOL_BYTES)?;
        let size = total.checked_next_multiple_of(UNIT)?;
        (size <= i64::MAX as u64).then_some(size)
    }
}

impl Walk<'_> {
    /// Goes into the seed.
    fn mix(&mut self, bytes: &[u8]) {
        if self.request.reproducible.is_none() {
            return;
        }
        let length = (bytes.len() as u64).to_le_bytes();
        let all = [&self.digest[..], &length[..], bytes].concat();
        let salt = Salt([0; 32]);
        let hash = codec::checksum(Checksum::Sha256, &all, ByteOrder::Little, &salt);
        for (to, word) in self.digest.chunks_exact_mut(8).zip(hash.0) {
            to.copy_from_slice(&word.to_le_bytes());
        }
    }

    fn options(&mut self) {
        let pool = &self.request.pool;
        let text = format!(
            "{:?}",
            (
                &pool.name,
                &pool.properties,
                &pool.features,
                pool.without_features,
                &pool.dataset_properties,
                pool.file_size,
                self.request.reproducible.and_then(|how| how.epoch_s),
            )
        );
        self.mix(text.as_bytes());
    }

    fn entry(&mut self, path: &Path, name: &[u8], found: &Found) {
        self.survey.entries += 1;
        let portable = self.request.reproducible.is_some();
        let attributes = self.source.attributes(path, portable).list;
        if portable {
            let text = format!(
                "{:?}",
                (
                    (found.file_type, found.permissions),
                    (found.uid, found.gid, found.device),
                    clamped(self.request.reproducible, found.modified),
                    if found.is_regular() { found.size } else { 0 },
                )
            );
            self.mix(name);
            self.mix(text.as_bytes());
            if found.is_symlink() {
                let target = self.source.target(path).unwrap_or_default();
                self.mix(&target);
            }
        }
        for (name, value) in attributes {
            self.mix(&name);
            self.mix(&value);
            self.survey.attributes += 1;
            self.survey.attribute_bytes += (name.len() + value.len()) as u64;
        }
        let time_s = u64::try_from(found.modified.seconds).unwrap_or(0);
        self.youngest_s = self.youngest_s.max(time_s);
        if found.is_directory() {
            self.survey.directories += 1;
        }
        let again = found
            .identity
            .is_some_and(|identity| !self.linked.insert(identity));
        if found.is_regular() && !again {
            let bytes = match portable {
                // What is a hole here may be zeros elsewhere.
                true => found.size,
                false => data_bytes(self.source, path, found.size, self.geometry.record),
            };
            let allocated = self.geometry.allocated(bytes).unwrap_or(u64::MAX);
            let survey = &mut self.survey;
            survey.bytes = survey.bytes.saturating_add(bytes);
            survey.allocated = survey.allocated.saturating_add(allocated);
        }
    }

    fn end(self) -> Survey {
        let mut survey = self.survey;
        let epoch_s = self.request.reproducible.and_then(|how| how.epoch_s);
        survey.time_s = epoch_s.unwrap_or(self.youngest_s);
        let mut seed = [0; 8];
        seed.copy_from_slice(&self.digest[..8]);
        survey.seed = u64::from_le_bytes(seed);
        survey
    }
}

/// Bytes of a file in records that are not holes.
fn data_bytes(source: &dyn Source, path: &Path, size: u64, record: u64) -> u64 {
    let Ok(file) = source.open(path) else {
        return 0;
    };
    let (mut at, mut bytes) = (0, 0);
    while let Ok(Some((start, end))) = source::next_records(&*file, at, size, record) {
        bytes += end - start;
        at = end;
    }
    bytes
}
