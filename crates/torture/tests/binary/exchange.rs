//! A random model of two pools that exchange streams: packages, increments from snapshots and bookmarks, cut ones that
//! go on, there and back, while datasets are renamed, cloned, promoted and destroyed, snapshots are held and renamed,
//! and either side's server is killed. What each snapshot had when it was taken is known by its guid, and whatever pool
//! has a snapshot of that guid must have just that.

use super::lifecycle::kill_server;
use super::session::{Session, path};
use millpond_torture::random::{Random, asked, seed};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::fs::{self, File};
use std::os::unix::fs::{FileExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// What a tree of files has, as text.
type Manifest = String;

/// A snapshot, as a pool lists it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Snapshot {
    /// The dataset, without the pool.
    dataset: String,
    name: String,
    guid: String,
    txg: u64,
}

struct Exchange {
    session: Session,
    random: Random,
    /// What is done now, for who repeats it.
    log: Vec<String>,
    contents: BTreeMap<String, Manifest>,
    /// What was compared with its contents: pool and guid.
    compared: BTreeSet<(String, String)>,
    next_name: u64,
    /// Where streams come from, and where they go.
    from: &'static str,
    to: &'static str,
    /// What was done, in numbers.
    received: u64,
    resumed: u64,
    killed: u64,
}

/// Whether packages may start from a snapshot: all datasets have it then.
fn is_base(snapshot: &str) -> bool {
    snapshot.contains("@p")
}

/// What lies below a directory: names, kinds, modes, contents.
fn manifest(root: &Path) -> Manifest {
    let mut text = String::new();
    describe(root, Path::new(""), &mut text);
    text
}

fn describe(root: &Path, below: &Path, text: &mut String) {
    let folder = root.join(below);
    let entries =
        fs::read_dir(&folder).unwrap_or_else(|error| panic!("{}: {error}", path(&folder)));
    let mut names: Vec<_> = entries
        .map(|entry| entry.expect("an entry").file_name())
        .collect();
    names.sort();
    for name in names {
        let at = below.join(&name);
        let file = root.join(&at);
        let found = fs::symlink_metadata(&file).expect("attributes");
        let mode = found.permissions().mode();
        let _ = write!(text, "{} {mode:o} ", at.display());
        if found.is_dir() {
            text.push('\n');
            describe(root, &at, text);
        } else if found.is_symlink() {
            let target = fs::read_link(&file).expect("a link");
            let _ = writeln!(text, "-> {}", target.display());
        } else {
            let bytes = fs::read(&file).unwrap_or_else(|error| panic!("{}: {error}", path(&file)));
            let sum = bytes.iter().fold(0xcbf2_9ce4_8422_2325_u64, |sum, byte| {
                (sum ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
            });
            let _ = writeln!(text, "{} {sum:x}", bytes.len());
        }
    }
}

impl Exchange {
    fn new(seed: u64) -> Option<Self> {
        let mut session = Session::new()?;
        for pool in ["one", "two"] {
            session.create(pool, 256, &["-O", "atime=off"]);
        }
        session.ok(&["zfs", "create", "one/t"]);
        Some(Self {
            session,
            random: Random::new(seed),
            log: Vec::new(),
            contents: BTreeMap::new(),
            compared: BTreeSet::new(),
            next_name: 0,
            from: "one",
            to: "two",
            received: 0,
            resumed: 0,
            killed: 0,
        })
    }

    fn fail(&self, what: &str) -> ! {
        let last = self.log.iter().rev().take(40).rev().cloned();
        panic!("{what}\nafter:\n{}", last.collect::<Vec<_>>().join("\n"));
    }

    /// A command that may be refused, but not otherwise fail.
    fn try_line(&mut self, line: &str) -> bool {
        let words: Vec<&str> = line.split(' ').collect();
        let output = self.session.run(&words);
        let errors = String::from_utf8_lossy(&output.stderr).into_owned();
        self.log
            .push(format!("{line}: {} {}", output.status, errors.trim()));
        if !matches!(output.status.code(), Some(0 | 1)) || errors.contains("panicked") {
            self.fail(line);
        }
        output.status.success()
    }

    fn shell(&mut self, script: &str) -> (bool, String) {
        let output = self.session.shell(script, &[]);
        let errors = String::from_utf8_lossy(&output.stderr).into_owned();
        self.log
            .push(format!("{script}: {} {}", output.status, errors.trim()));
        if errors.contains("panicked") {
            self.fail(script);
        }
        (output.status.success(), errors)
    }

    fn name(&mut self, kind: &str) -> String {
        self.next_name += 1;
        format!("{kind}{}", self.next_name)
    }

    /// The file systems of a pool below `t`, parents first, without the pool.
    fn datasets(&self, pool: &str) -> Vec<String> {
        let top = format!("{pool}/t");
        let output = self
            .session
            .run(&["zfs", "list", "-Hr", "-o", "name", &top]);
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let names = text.lines().filter_map(|line| line.split_once('/'));
        names.map(|(_, name)| name.to_owned()).collect()
    }

    fn snapshots(&self, pool: &str) -> Vec<Snapshot> {
        let top = format!("{pool}/t");
        let line = [
            "zfs",
            "list",
            "-Hrp",
            "-t",
            "snapshot",
            "-o",
            "name,guid,createtxg",
            &top,
        ];
        let output = self.session.run(&line);
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let parse = |line: &str| {
            let mut parts = line.split('\t');
            let (full, guid) = (parts.next()?, parts.next()?);
            let (dataset, name) = full.split_once('/')?.1.split_once('@')?;
            Some(Snapshot {
                dataset: dataset.to_owned(),
                name: name.to_owned(),
                guid: guid.to_owned(),
                txg: parts.next()?.parse().ok()?,
            })
        };
        text.lines().filter_map(parse).collect()
    }

    fn mount_point(&mut self, dataset: &str) -> PathBuf {
        let get = |session: &Session, property: &str| {
            let line = ["zfs", "get", "-Ho", "value", property, dataset];
            session.ok(&line).trim().to_owned()
        };
        if get(&self.session, "mounted") != "yes" {
            self.try_line(&format!("zfs mount {dataset}"));
        }
        PathBuf::from(get(&self.session, "mountpoint"))
    }

    /// What a snapshot shows.
    fn shown(&mut self, pool: &str, snapshot: &Snapshot) -> Manifest {
        let root = self.mount_point(&format!("{pool}/{}", snapshot.dataset));
        manifest(&root.join(".zfs/snapshot").join(&snapshot.name))
    }

    /// Notes what new snapshots of the sender have.
    fn note(&mut self) {
        let from = self.from;
        for snapshot in self.snapshots(from) {
            if !self.contents.contains_key(&snapshot.guid) {
                let shown = self.shown(from, &snapshot);
                self.contents.insert(snapshot.guid.clone(), shown);
                self.compared.insert((from.to_owned(), snapshot.guid));
            }
        }
    }

    /// Compares what a pool has with what there was.
    fn compare(&mut self, pool: &'static str) {
        for snapshot in self.snapshots(pool) {
            let key = (pool.to_owned(), snapshot.guid.clone());
            if self.compared.contains(&key) {
                continue;
            }
            let shown = self.shown(pool, &snapshot);
            match self.contents.get(&snapshot.guid) {
                None => self.fail(&format!("{pool}: nobody sent {snapshot:?}")),
                Some(wanted) if *wanted != shown => {
                    self.fail(&format!(
                        "{pool}: {snapshot:?} differs:\n{wanted}\nis:\n{shown}"
                    ));
                }
                Some(_) => {}
            }
            self.compared.insert(key);
        }
    }

    fn change_files(&mut self, dataset: &str) {
        let root = self.mount_point(dataset);
        for _ in 0..=self.random.below(12) {
            let file = root.join(format!("f{}", self.random.below(12)));
            let length = *self.random.pick(&[0_usize, 80, 3_000, 140_000, 300_000]);
            let bytes = self.random.bytes(length);
            let done = match self.random.below(7) {
                0 | 1 => fs::write(&file, bytes),
                2 => fs::remove_file(&file),
                3 => File::options()
                    .write(true)
                    .open(&file)
                    .and_then(|open| open.set_len(self.random.below(400_000) as u64)),
                4 => fs::rename(&file, root.join(format!("f{}", self.random.below(12)))),
                5 => {
                    let _ = fs::create_dir(root.join("d"));
                    fs::write(
                        root.join("d").join(format!("g{}", self.random.below(6))),
                        bytes,
                    )
                }
                _ => File::options()
                    .write(true)
                    .open(&file)
                    .and_then(|open| open.write_all_at(&bytes, self.random.below(600_000) as u64)),
            };
            if let Err(error) = done
                && error.kind() != std::io::ErrorKind::NotFound
            {
                self.fail(&format!("{}: {error}", path(&file)));
            }
        }
    }

    /// Something happens at the sender.
    fn change(&mut self) {
        let from = self.from;
        let datasets = self.datasets(from);
        let dataset = format!("{from}/{}", self.random.pick(&datasets));
        let snapshots = self.snapshots(from);
        let snapshot = (!snapshots.is_empty()).then(|| self.random.pick(&snapshots).clone());
        let snapshot = snapshot.map(|one| format!("{from}/{}@{}", one.dataset, one.name));
        let is_top = dataset == format!("{from}/t");
        match (self.random.below(16), snapshot) {
            (0..=4, _) | (_, None) => self.change_files(&dataset),
            (5, _) if datasets.len() < 8 => {
                let name = self.name("c");
                self.try_line(&format!("zfs create {dataset}/{name}"));
            }
            (6 | 7, _) => {
                let name = self.name("s");
                self.try_line(&format!("zfs snapshot {dataset}@{name}"));
                self.note();
            }
            (8, Some(snapshot)) if datasets.len() < 8 => {
                let name = self.name("k");
                self.try_line(&format!("zfs clone {snapshot} {from}/t/{name}"));
            }
            (9, _) if !is_top => {
                self.try_line(&format!("zfs promote {dataset}"));
            }
            (10, _) if !is_top => {
                let name = self.name("n");
                self.try_line(&format!("zfs rename {dataset} {from}/t/{name}"));
            }
            (11, Some(snapshot)) if !is_base(&snapshot) => {
                let name = self.name("r");
                let dataset = snapshot.split('@').next().unwrap_or("").to_owned();
                self.try_line(&format!("zfs rename {snapshot} {dataset}@{name}"));
            }
            (12, Some(snapshot)) if !is_base(&snapshot) => {
                self.try_line(&format!("zfs destroy {snapshot}"));
            }
            (13, _) if !is_top && self.random.one_in(2) => {
                self.try_line(&format!("zfs destroy -r {dataset}"));
            }
            (14, Some(snapshot)) => {
                let word = if self.random.one_in(2) {
                    "hold"
                } else {
                    "release"
                };
                self.try_line(&format!("zfs {word} mine {snapshot}"));
            }
            (15, Some(snapshot)) => {
                let name = self.name("b");
                self.try_line(&format!("zfs bookmark {snapshot} #{name}"));
            }
            (_, Some(_)) => self.change_files(&dataset),
        }
    }

    /// A server dies, and its pool is imported again.
    fn kill(&mut self, pool: &'static str) {
        self.log.push(format!("{pool} is killed"));
        kill_server(&self.session, pool);
        self.killed += 1;
        let begun = Instant::now();
        let (images, mounts) = (self.session.images(), self.session.mounts());
        let line = [
            "zpool",
            "import",
            "-f",
            "-d",
            path(&images),
            "-R",
            path(&mounts),
            pool,
        ];
        while !self.session.run(&line).status.success() {
            if begun.elapsed() > Duration::from_secs(30) {
                self.fail(&format!("{pool} is not imported"));
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        self.compared.retain(|(of, _)| of != pool);
    }

    fn options(&mut self) -> String {
        let all = ["-c", "-L", "-e"];
        let chosen = all.iter().filter(|_| self.random.one_in(2));
        chosen.copied().collect::<Vec<_>>().join(" ")
    }

    /// The newest snapshot of a package that the receiver has as well.
    fn base(&self) -> Option<Snapshot> {
        let (here, there) = (self.snapshots(self.from), self.snapshots(self.to));
        let is_common = |one: &&Snapshot| {
            one.dataset == "t"
                && one.name.starts_with('p')
                && there
                    .iter()
                    .any(|other| other.dataset == "t" && other.guid == one.guid)
        };
        let base = here.iter().filter(is_common).max_by_key(|one| one.txg);
        base.cloned()
    }

    /// A file system that is sent in full and was cloned from what is inside of it: no receiver can have either first.
    fn clone_of_what_is_below(&self) -> Option<String> {
        let (from, base) = (self.from, self.base());
        let here = self.snapshots(from);
        let is_whole = |dataset: &str| {
            let is_base = |name: &str| base.as_ref().is_some_and(|base| base.name == name);
            let mut own = here.iter().filter(|one| one.dataset == dataset);
            !own.any(|one| is_base(&one.name))
        };
        let line = ["zfs", "list", "-Hr", "-o", "name,origin"];
        let top = format!("{from}/t");
        let output = self.session.run(&[&line[..], &[&top]].concat());
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let mut pairs = text.lines().filter_map(|line| line.split_once('\t'));
        let found = pairs.find(|(name, origin)| {
            let dataset = name.split_once('/').map_or("", |(_, dataset)| dataset);
            origin.starts_with(&format!("{name}/")) && is_whole(dataset)
        });
        found.map(|(name, _)| name.to_owned())
    }

    /// All below `t`, as a package.
    fn package(&mut self) {
        let (from, to) = (self.from, self.to);
        while let Some(dataset) = self.clone_of_what_is_below()
            && self.try_line(&format!("zfs promote {dataset}"))
        {}
        let name = self.name("p");
        self.try_line(&format!("zfs snapshot -r {from}/t@{name}"));
        self.note();
        let there = self.snapshots(to);
        let base = self.base();
        let options = self.options();
        let step = match &base {
            Some(base) => format!("-I @{}", base.name),
            None => String::new(),
        };
        if base.is_none() && !there.is_empty() {
            self.try_line(&format!("zfs destroy -R {to}/t"));
        }
        let script =
            format!("$0 zfs send -R {options} {step} {from}/t@{name} | $0 zfs receive -F {to}/t");
        let (done, _) = self.shell(&script);
        if !done {
            self.fail("a package is not received");
        }
        self.received += 1;
        self.compare(to);
        self.compare_lists(base.map_or(0, |base| base.txg));
    }

    /// The receiver has what the sender has, but for older snapshots than those of the package; and no more.
    fn compare_lists(&self, since: u64) {
        let (here, there) = (self.snapshots(self.from), self.snapshots(self.to));
        let is_in = |one: &Snapshot, all: &[Snapshot]| {
            let is_same = |other: &Snapshot| {
                (&other.dataset, &other.name, &other.guid) == (&one.dataset, &one.name, &one.guid)
            };
            all.iter().any(is_same)
        };
        let lacks: Vec<_> = here
            .iter()
            .filter(|one| one.txg > since && !is_in(one, &there))
            .collect();
        // What a promotion gave to a clone that is new there stays here, too; and whoever had it, which may be gone
        // there, while others here are its clones.
        let is_gone = |one: &&Snapshot| here.iter().all(|other| other.guid != one.guid);
        let has_twice = |one: &&Snapshot| {
            let mut own = there.iter().filter(|other| other.dataset == one.dataset);
            own.any(|own| {
                let is_copy =
                    |other: &Snapshot| other.guid == own.guid && other.dataset != own.dataset;
                there.iter().any(is_copy)
            })
        };
        let is_more = |one: &&Snapshot| is_gone(one) && !has_twice(one);
        let more: Vec<_> = there.iter().filter(is_more).collect();
        if !lacks.is_empty() || !more.is_empty() {
            self.fail(&format!("{} lacks {lacks:?}, and has {more:?}", self.to));
        }
    }

    /// The next snapshot of one dataset, whole or in parts.
    fn increment(&mut self) {
        let (from, to) = (self.from, self.to);
        let there = self.snapshots(to);
        let datasets = self.datasets(from);
        let dataset = self.random.pick(&datasets).clone();
        let newest = there
            .iter()
            .filter(|one| one.dataset == dataset)
            .max_by_key(|one| one.txg);
        let Some(newest) = newest.cloned() else {
            return;
        };
        let here = self.snapshots(from);
        let is_base = |one: &&Snapshot| one.dataset == dataset && one.guid == newest.guid;
        let Some(base) = here.iter().find(is_base).cloned() else {
            return;
        };
        let mut source = format!("@{}", base.name);
        if self.random.one_in(3) {
            let name = self.name("b");
            if self.try_line(&format!(
                "zfs bookmark {from}/{dataset}@{} #{name}",
                base.name
            )) {
                source = format!("'#{name}'");
            }
        }
        self.change_files(&format!("{from}/{dataset}"));
        let name = self.name("i");
        self.try_line(&format!("zfs snapshot {from}/{dataset}@{name}"));
        self.note();
        let options = self.options();
        let sent = format!("$0 zfs send {options} -i {source} {from}/{dataset}@{name}");
        if self.random.one_in(2) {
            let (done, _) = self.shell(&format!("{sent} | $0 zfs receive -F {to}/{dataset}"));
            if !done {
                self.fail("an increment is not received");
            }
        } else {
            self.in_parts(&sent, &dataset);
        }
        self.received += 1;
        self.compare(to);
    }

    /// A stream that is cut and goes on, while servers die.
    fn in_parts(&mut self, sent: &str, dataset: &str) {
        let (from, to) = (self.from, self.to);
        let mut sent = sent.to_owned();
        for _ in 0..20 {
            let most = *self.random.pick(&[1_000_usize, 8_000, 200_000]);
            let bytes = 300 + self.random.below(most);
            let cut = if self.random.one_in(3) {
                String::new()
            } else {
                format!("| head -c {bytes}")
            };
            let (done, _) = self.shell(&format!(
                "{sent} {cut} | $0 zfs receive -s -F {to}/{dataset}"
            ));
            if done {
                return;
            }
            self.resumed += 1;
            if self.random.one_in(3) {
                let pool = if self.random.one_in(2) { from } else { to };
                self.kill(pool);
            }
            let place = format!("{to}/{dataset}");
            let line = ["zfs", "get", "-Ho", "value", "receive_resume_token", &place];
            let token = self.session.ok(&line).trim().to_owned();
            if token != "-" {
                sent = format!("$0 zfs send -t {token}");
            }
        }
        let (done, _) = self.shell(&format!("{sent} | $0 zfs receive -s -F {to}/{dataset}"));
        if !done {
            self.fail("a stream does not go on");
        }
    }

    /// What is held at the receiver would stay there.
    fn release_all(&mut self, pool: &str) {
        for snapshot in self.snapshots(pool) {
            let name = format!("{pool}/{}@{}", snapshot.dataset, snapshot.name);
            if !self.session.ok(&["zfs", "holds", "-H", &name]).is_empty() {
                self.try_line(&format!("zfs release mine {name}"));
            }
        }
    }

    fn turn(&mut self) {
        for _ in 0..=self.random.below(8) {
            self.change();
        }
        match self.random.below(6) {
            0..=2 => self.package(),
            3 | 4 => self.increment(),
            _ => {
                let pool = if self.random.one_in(2) {
                    self.from
                } else {
                    self.to
                };
                self.kill(pool);
            }
        }
        if self.random.one_in(8) {
            // From now on the other way, from what both have.
            self.package();
            std::mem::swap(&mut self.from, &mut self.to);
            let to = self.to;
            self.release_all(to);
        }
    }

    /// zdb finds nothing, and all is still there.
    fn end(&mut self) {
        for pool in ["one", "two"] {
            self.compare(pool);
            self.session.export_clean(pool);
            self.session.import(pool, &[]);
        }
        self.compared.clear();
        self.compare("one");
        self.compare("two");
    }
}

fn rounds(turns: u64, goes_on: &mut dyn FnMut() -> bool) {
    let first = seed(1);
    let mut seed = first;
    let (mut received, mut resumed, mut killed) = (0, 0, 0);
    loop {
        println!(
            "repeat with: MILLPOND_SEED={seed} MILLPOND_SECONDS=1 cargo test -p millpond-torture --test binary -- \
             --ignored many_exchanges"
        );
        let Some(mut exchange) = Exchange::new(seed) else {
            return;
        };
        for _ in 0..turns {
            exchange.turn();
        }
        exchange.end();
        received += exchange.received;
        resumed += exchange.resumed;
        killed += exchange.killed;
        seed += 1;
        if !goes_on() {
            break;
        }
    }
    println!(
        "seeds {first} to {}: {received} streams received, {resumed} times gone on, {killed} servers killed, \
         0 differences",
        seed - 1
    );
}

#[test]
fn two_pools_exchange_streams() {
    rounds(10, &mut || false);
}

/// `MILLPOND_SECONDS` (60) of rounds, from `MILLPOND_SEED` (1).
#[test]
#[ignore = "torture: rounds one after the other"]
fn many_exchanges() {
    let seconds = asked("MILLPOND_SECONDS").unwrap_or(60);
    let begun = Instant::now();
    rounds(30, &mut || begun.elapsed() < Duration::from_secs(seconds));
}
