//! Vdevs as they are typed to be made: words into a tree, and the tree as it is shown.

use std::fs::File;
use std::io::{Seek, SeekFrom};
use std::path::{Path, PathBuf};

use admin::redundancy::mismatch_among;
use admin::rows::pool::ASHIFT;
use admin::{Failure, FailureKind, Value, VdevClass, VdevNaming, VdevReport, VdevShape, VdevSpec};
use format::config::{DraidName, VdevType};

use crate::arguments::assign_pool;
use crate::grammar::Invocation;
use crate::output::{Stop, usage};
use crate::render::lines;

/// Disks that are sold as of one size differ by no more.
const SIZE_DIFFERENCE_MAX: u64 = 16 << 20;

/// The vdev grammar: single files and disks, `mirror A B …`, `raidz2 A B C …` and `draid2:4d A B …`, for data; after
/// `log`, `special` or `dedup` for that, after `cache` devices for copies, after `spare` devices that wait for the
/// place of others.
pub(super) fn vdevs(words: &[String]) -> Result<Vec<VdevSpec>, Failure> {
    let invalid = |reason: &str| {
        Failure::new(
            FailureKind::Invalid,
            format!("invalid vdev specification: {reason}"),
        )
    };
    let mut found = Vec::new();
    let mut class = VdevClass::Normal;
    let mut group: Option<Group> = None;
    // The last word of a class.
    let mut opened: Option<&String> = None;
    let filled = |opened: Option<&String>, class, found: &[VdevSpec]| match opened {
        Some(word) if found.last().is_none_or(|vdev| vdev.class != class) => {
            Err(invalid(&format!("'{word}' requires at least 1 device")))
        }
        Some(_) | None => Ok(()),
    };
    let close = |(class, opened): (VdevClass, Option<&String>),
                 group: Option<Group>,
                 found: &mut Vec<VdevSpec>| {
        if let Some(group) = group {
            let only_mirrors = match class {
                VdevClass::Log | VdevClass::Special | VdevClass::Dedup => true,
                VdevClass::Normal | VdevClass::Cache | VdevClass::Spare => false,
            };
            let striped = match group.kind {
                GroupKind::Mirror => None,
                GroupKind::RaidZ(_) => Some(VdevType::RaidZ.name()),
                GroupKind::Draid(_) => Some(VdevType::Draid.name()),
            };
            if let (true, Some(kind), Some(word)) = (only_mirrors, striped, opened) {
                return Err(invalid(&format!("unsupported '{word}' device: {kind}")));
            }
            if let VdevClass::Spare | VdevClass::Cache = class {
                let word = opened.map_or("", String::as_str);
                return Err(invalid(&format!(
                    "unsupported '{word}' device: it must be a file or disk"
                )));
            }
            let shape = group.shape().map_err(|reason| invalid(&reason))?;
            found.push(VdevSpec { class, shape });
        }
        Ok(())
    };
    for word in words {
        if let Some(next) = Group::named(word).map_err(|reason| invalid(&reason))? {
            close((class, opened), group.take(), &mut found)?;
            group = Some(next);
        } else if let Some(next) = class_word(word) {
            close((class, opened), group.take(), &mut found)?;
            filled(opened, class, &found)?;
            let once = matches!(next, VdevClass::Log | VdevClass::Spare | VdevClass::Cache);
            if once && found.iter().any(|vdev| vdev.class == next) {
                return Err(invalid(&format!("'{word}' can be specified only once")));
            }
            (class, opened) = (next, Some(word));
        } else {
            let path = device_path(word);
            match &mut group {
                Some(group) => group.paths.push(path),
                None => {
                    let shape = VdevShape::Leaf(path);
                    found.push(VdevSpec { class, shape });
                }
            }
        }
    }
    close((class, opened), group.take(), &mut found)?;
    filled(opened, class, &found)?;
    check_distinct(&found).map_err(|reason| invalid(&reason))?;
    Ok(found)
}

/// Refuses a device that is there twice.
fn check_distinct(found: &[VdevSpec]) -> Result<(), String> {
    let mut all: Vec<&PathBuf> = found.iter().flat_map(VdevSpec::leaves).collect();
    all.sort();
    let twice = all.windows(2).find(|pair| pair[0] == pair[1]);
    twice.map_or(Ok(()), |pair| {
        let path = pair[0].display();
        Err(format!(
            "one or more vdevs refer to the same device ({path})"
        ))
    })
}

/// How devices make up a vdev together.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum GroupKind {
    Mirror,
    RaidZ(u64),
    Draid(DraidWords),
}

/// The words with which groups begin, but for those of a dRAID, which say more. No pool may be called like one.
pub(super) const GROUP_WORDS: [(&str, GroupKind); 5] = [
    ("mirror", GroupKind::Mirror),
    ("raidz", GroupKind::RaidZ(1)),
    ("raidz1", GroupKind::RaidZ(1)),
    ("raidz2", GroupKind::RaidZ(2)),
    ("raidz3", GroupKind::RaidZ(3)),
];

/// What was said of a dRAID.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct DraidWords {
    parity: u64,
    data: Option<u64>,
    children: Option<u64>,
    spares: u64,
}

/// Devices that make up a vdev together.
struct Group {
    kind: GroupKind,
    paths: Vec<PathBuf>,
}

/// There are no wider vdevs.
const DEVICES_MAX: usize = 255;
const PARITY_MAX: u64 = 3;

impl Group {
    /// What begins with this word, if a group does.
    fn named(word: &str) -> Result<Option<Self>, String> {
        let known = GROUP_WORDS.iter().find(|(known, _)| *known == word);
        let kind = match (known, DraidWords::parse(word)) {
            (Some((_, kind)), _) => *kind,
            (None, Some(words)) => GroupKind::Draid(words?),
            (None, None) => return Ok(None),
        };
        Ok(Some(Self {
            kind,
            paths: Vec::new(),
        }))
    }

    /// The vdev, if it has as many devices as it needs.
    fn shape(self) -> Result<VdevShape, String> {
        match self.kind {
            GroupKind::Mirror if self.paths.len() < 2 => {
                Err("mirror requires at least 2 devices".to_owned())
            }
            GroupKind::Mirror => Ok(VdevShape::Mirror(self.paths)),
            GroupKind::RaidZ(parity) => {
                check_count(&format!("raidz{parity}"), parity + 1, self.paths.len())?;
                Ok(VdevShape::RaidZ(parity, self.paths))
            }
            GroupKind::Draid(words) => words.shape(self.paths),
        }
    }
}

fn check_count(name: &str, least: u64, count: usize) -> Result<(), String> {
    if (count as u64) < least {
        return Err(format!("{name} requires at least {least} devices"));
    }
    if count > DEVICES_MAX {
        return Err(format!(
            "{name} supports no more than {DEVICES_MAX} devices"
        ));
    }
    Ok(())
}

impl DraidWords {
    /// `draid[PARITY][:DATAd][:CHILDRENc][:SPARESs]`, in any order; none if it is another word.
    fn parse(word: &str) -> Option<Result<Self, String>> {
        let mut parts = word.strip_prefix("draid")?.split(':');
        let parity = match parts.next()? {
            "" => 1,
            digits => match digits.parse() {
                Ok(parity) => parity,
                // A file or disk of such a name.
                Err(_) => return None,
            },
        };
        Some(Self::parse_rest(parity, parts))
    }

    fn parse_rest<'a>(parity: u64, parts: impl Iterator<Item = &'a str>) -> Result<Self, String> {
        if !(1..=PARITY_MAX).contains(&parity) {
            return Err(format!(
                "invalid dRAID parity level {parity}; must be between 1 and {PARITY_MAX}"
            ));
        }
        let mut found = Self {
            parity,
            data: None,
            children: None,
            spares: 0,
        };
        for part in parts {
            let split = part
                .char_indices()
                .next_back()
                .map(|(at, _)| part.split_at(at));
            let number = split.and_then(|(number, unit)| Some((number.parse::<u64>().ok()?, unit)));
            match number {
                Some((data, "d")) if data > 0 => found.data = Some(data),
                Some((children, "c")) => found.children = Some(children),
                Some((spares, "s")) => found.spares = spares,
                Some(_) | None => return Err(format!("invalid dRAID configuration '{part}'")),
            }
        }
        Ok(found)
    }

    fn shape(self, paths: Vec<PathBuf>) -> Result<VdevShape, String> {
        /// Columns of data where nobody says, if there are as many devices.
        const DATA_DEFAULT: u64 = 8;
        /// There are no more distributed spares in a vdev.
        const SPARES_MAX: u64 = 100;
        let (parity, spares, count) = (self.parity, self.spares, paths.len() as u64);
        check_count(&format!("draid{parity}"), parity + 1, paths.len())?;
        if let Some(children) = self.children.filter(|children| *children != count) {
            return Err(format!(
                "invalid number of dRAID children; {children} required but {count} provided"
            ));
        }
        if spares > SPARES_MAX {
            return Err(format!(
                "invalid number of dRAID spares {spares}; must not be more than {SPARES_MAX}"
            ));
        }
        // What a stripe needs at least is there, and one device for each spare.
        let most = (count - parity).saturating_sub(spares);
        if most == 0 {
            return Err(format!(
                "invalid number of dRAID spares {spares}; additional disks would be required"
            ));
        }
        let data = self.data.unwrap_or_else(|| most.min(DATA_DEFAULT));
        if data > most {
            return Err(format!(
                "requested number of dRAID data disks per group {data} is too high, at most {most} disks are \
                 available for data"
            ));
        }
        Ok(VdevShape::Draid {
            parity,
            data,
            spares,
            paths,
        })
    }
}

/// Whether a word is the name of a distributed spare, `draid2-0-1`: of its parity, its vdev and its number.
fn is_distributed_spare(word: &str) -> bool {
    let Some(rest) = word.strip_prefix("draid") else {
        return false;
    };
    let mut numbers = rest.split('-');
    let is_number = |part: &str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
    numbers.clone().count() == 3 && numbers.all(is_number)
}

/// The device that is to come beside another one: a file or disk that is there, or a distributed spare by its name.
pub(super) fn new_device(word: &str) -> Result<PathBuf, Failure> {
    if is_distributed_spare(word) {
        return Ok(PathBuf::from(word));
    }
    let path = device_path(word);
    check_device(&path)?;
    Ok(path)
}

/// The words that say what the vdevs after them are for.
const CLASS_WORDS: [(&str, VdevClass); 5] = [
    ("log", VdevClass::Log),
    ("special", VdevClass::Special),
    ("dedup", VdevClass::Dedup),
    ("spare", VdevClass::Spare),
    ("cache", VdevClass::Cache),
];

/// What the vdevs after a word are for.
fn class_word(word: &str) -> Option<VdevClass> {
    let found = CLASS_WORDS.iter().find(|(known, _)| *known == word);
    found.map(|(_, class)| *class)
}

/// A bare word is a disk in /dev, unless a file of that name is here.
pub(super) fn device_path(word: &str) -> PathBuf {
    let path = Path::new(word);
    if path.is_absolute() || control::is_remote(path) {
        return path.to_owned();
    }
    let device = Path::new("/dev").join(path);
    if !word.contains('/') && !path.exists() && device.exists() {
        return device;
    }
    control::absolute(path)
}

/// Refuses files that are neither there nor to be made.
pub(super) fn check_files(vdevs: &[VdevSpec], file_size: Option<u64>) -> Result<(), Failure> {
    for path in vdevs.iter().flat_map(VdevSpec::leaves) {
        // Who opens it finds out.
        if control::is_remote(path) {
            continue;
        }
        let shown = path.display();
        match std::fs::metadata(path) {
            Ok(found) if found.is_dir() => {
                let text = format!("cannot use '{shown}': must be a block device or regular file");
                return Err(Failure::new(FailureKind::Invalid, text));
            }
            Ok(_) => {}
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                if file_size.is_none() && !control::device_exists(path) {
                    let text = format!("cannot open '{shown}': no such file or device");
                    return Err(Failure::new(FailureKind::Missing, text)
                        .advise("use '--size SIZE' to have a file made"));
                }
            }
            Err(error) => {
                let text = format!("cannot open '{shown}': {error}");
                return Err(Failure::new(FailureKind::Permission, text));
            }
        }
    }
    Ok(())
}

/// Refuses vdevs that can lose less or more devices than others of the pool that is to be made of them.
pub(super) fn check_redundancy(vdevs: &[VdevSpec]) -> Result<(), Failure> {
    match mismatch_among(vdevs) {
        None => Ok(()),
        Some(text) => Err(Failure::unless_forced(
            FailureKind::Invalid,
            format!("mismatched replication level: {text}"),
        )),
    }
}

/// Refuses vdevs of devices that are not of one size: the smallest counts, and the rest of the others is lost.
pub(super) fn check_sizes(vdevs: &[VdevSpec]) -> Result<(), Failure> {
    for vdev in vdevs {
        let kind = match &vdev.shape {
            VdevShape::Leaf(_) => continue,
            VdevShape::Mirror(_) => VdevType::Mirror.name(),
            VdevShape::RaidZ(..) => VdevType::RaidZ.name(),
            VdevShape::Draid { .. } => VdevType::Draid.name(),
        };
        // Those that are not there yet are all made of one size.
        let sizes = vdev.leaves().iter().filter_map(|path| size_of(path).ok());
        let (least, most) = sizes.fold((u64::MAX, 0), |(least, most), size| {
            (least.min(size), most.max(size))
        });
        if most.saturating_sub(least) > SIZE_DIFFERENCE_MAX {
            return Err(Failure::unless_forced(
                FailureKind::Invalid,
                format!("{kind} contains devices of different sizes"),
            ));
        }
    }
    Ok(())
}

/// Bytes of a file or disk.
fn size_of(path: &Path) -> std::io::Result<u64> {
    File::open(path)?.seek(SeekFrom::End(0))
}

/// Refuses what is no device, or not there.
fn check_device(path: &Path) -> Result<(), Failure> {
    let shape = VdevShape::Leaf(path.to_owned());
    let class = VdevClass::Normal;
    check_files(&[VdevSpec { class, shape }], None).map_err(|mut failure| {
        // Nothing is made here.
        failure.advice.clear();
        failure.reasons.clear();
        failure
    })
}

/// The sector size of `-o ashift=`, as a power of two; none if that is automatic.
pub(super) fn asked_ashift(call: &Invocation) -> Result<Option<u32>, Stop> {
    let mut ashift = None;
    for text in call.values("o") {
        let mut assigned = Vec::new();
        assign_pool(&mut assigned, text).map_err(|error| usage(error.to_string()))?;
        for (property, value) in assigned {
            match value {
                Value::Number(number) if ASHIFT.is(&property) => {
                    ashift = u32::try_from(number).ok().filter(|number| *number != 0);
                }
                Value::Number(_) | Value::Text(_) | Value::Absent => {
                    return Err(usage("only the property 'ashift' can be given"));
                }
            }
        }
    }
    Ok(ashift)
}

/// The size of files that are to be made.
pub(crate) fn file_size(call: &Invocation) -> Result<Option<u64>, Stop> {
    let parse = |text: &str| {
        admin::parse_size(text).map_err(|error| usage(format!("bad size '{text}': {error}")))
    };
    call.value("size").map(parse).transpose()
}

/// A vdev over others as a part of a tree.
fn group_of(name: &str, paths: &[PathBuf]) -> String {
    let lines = paths
        .iter()
        .map(|path| format!("\t    {}\n", path.display()));
    format!("\t  {name}\n") + &lines.collect::<String>()
}

/// Vdevs as a tree, those of other classes under a heading.
pub(super) fn tree(vdevs: &[VdevSpec]) -> String {
    tree_with(&[], vdevs)
}

/// The same after those that a pool has.
pub(super) fn tree_with(there: &[VdevReport], vdevs: &[VdevSpec]) -> String {
    const HEADS: [(VdevClass, &str); 6] = [
        (VdevClass::Normal, ""),
        (VdevClass::Dedup, "\tdedup\n"),
        (VdevClass::Special, "\tspecial\n"),
        (VdevClass::Log, "\tlogs\n"),
        (VdevClass::Cache, "\tcache\n"),
        (VdevClass::Spare, "\tspares\n"),
    ];
    let mut out = String::new();
    for (class, head) in HEADS {
        let mut group = vdevs.iter().filter(|vdev| vdev.class == class).peekable();
        let lines = lines(there, class);
        if group.peek().is_some() || !lines.is_empty() {
            out += head;
        }
        for line in lines {
            let name = VdevNaming::default().name(line.vdev);
            out += &format!("\t{}{name}\n", "  ".repeat(line.depth));
        }
        for vdev in group {
            match &vdev.shape {
                VdevShape::Leaf(path) => out += &format!("\t  {}\n", path.display()),
                VdevShape::Mirror(paths) => out += &group_of("mirror", paths),
                VdevShape::RaidZ(parity, paths) => {
                    out += &group_of(&format!("raidz{parity}"), paths);
                }
                VdevShape::Draid {
                    parity,
                    data,
                    spares,
                    paths,
                } => {
                    let name = DraidName {
                        parity: *parity,
                        data: *data,
                        children: paths.len(),
                        spares: *spares,
                    };
                    out += &group_of(&name.to_string(), paths);
                }
            }
        }
    }
    out
}
