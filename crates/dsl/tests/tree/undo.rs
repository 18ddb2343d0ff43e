//! Tasks that are broken off at every change that they make and at every read: each time all is as it was before, and
//! the task done again succeeds.

use std::collections::BTreeMap;

use base::ObjectId;
use dmu::DmuError;
use format::config::directory;
use format::features;
use millpond_dsl::tasks::{
    CreateBookmark, DestroyBookmark, DestroySnapshots, Hold, Release, ReleaseTemporary, Rename,
    RenameSnapshot, Rollback,
};
use millpond_dsl::{
    ChangeGrants, DslError, Grant, PropertyChange, PropertyValue, Result, SetProperties,
    SpaceClass, Task, TaskContext,
};

use crate::harness::{Harness, clone, create, destroy, destroy_head, promote, snapshot};
use crate::receive;

/// How a task is broken off.
#[derive(Clone, Copy, Debug)]
enum Break {
    /// After so many changes.
    Change(u64),
    /// After so many reads.
    Read(u64),
}

/// What became of it.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Ended {
    /// It was broken off and undone.
    Undone,
    /// It was done.
    Done,
    /// It was done without what could not be read.
    Without,
}

/// A task that is broken off.
struct Broken<'a, T> {
    task: T,
    how: Break,
    memory: &'a crate::memory::Memory,
}

impl<T: Task> Task for Broken<'_, T> {
    type Output = T::Output;

    fn check(&mut self, context: &TaskContext<'_>) -> Result<()> {
        self.task.check(context)
    }

    fn apply(&mut self, context: &TaskContext<'_>) -> Result<T::Output> {
        match self.how {
            Break::Change(changes) => context.tx.interrupt_after(changes),
            Break::Read(reads) => self.memory.fail_read_after(Some(reads)),
        }
        self.task.apply(context)
    }

    fn space(&self) -> SpaceClass {
        self.task.space()
    }
}

/// All that the pool's own object set says: every object's shape, bonus and data.
fn picture(harness: &Harness) -> BTreeMap<ObjectId, String> {
    let mut all = BTreeMap::new();
    let mut after = ObjectId(0);
    while let Some(id) = harness.mos.next_object(after).unwrap() {
        let object = harness.mos.object(id).unwrap();
        let info = object.info();
        let mut data = vec![0; (info.max_block as usize + 1) * info.block_size as usize];
        object.read(0, &mut data).unwrap();
        let (kind, size, last) = (info.object_type, info.block_size, info.max_block);
        let shape = format!("{kind:?} {size} {last} {:?} ", info.bonus_type);
        let sum = |bytes: &[u8]| {
            let mixed =
                |sum: u64, byte: &u8| (sum ^ u64::from(*byte)).wrapping_mul(0x100_0000_01b3);
            bytes.iter().fold(0xcbf2_9ce4_8422_2325, mixed)
        };
        all.insert(
            id,
            format!("{shape}{:x} {:x}", sum(&object.bonus()), sum(&data)),
        );
        after = id;
    }
    all
}

/// What users see of the heads.
fn names(harness: &Harness) -> Vec<String> {
    let root = harness.dsl.root_directory().unwrap();
    let mut all = Vec::new();
    for head in harness.dsl.heads_under(&root).unwrap() {
        let (name, space) = (head.name().unwrap(), head.space().unwrap());
        let directory = head.directory();
        let origin = directory
            .origin()
            .unwrap()
            .map(|origin| origin.name().unwrap());
        all.push(format!(
            "{name} {space:?} {origin:?} {:?}",
            head.features().unwrap()
        ));
        for snapshot in head.snapshots().unwrap() {
            let holds = snapshot.holds().unwrap();
            all.push(format!("{} {holds:?}", snapshot.name().unwrap()));
        }
        all.push(format!("{:?}", head.bookmarks().unwrap()));
    }
    all
}

impl Harness {
    /// Breaks a task off in one way, or does it.
    fn breaks<T: Task>(&mut self, task: T, how: Break) -> Ended {
        let memory = self.memory.clone();
        let broken = self.with_pass(1, |pass| {
            self.dsl.sync(pass).unwrap();
            let before = (names(self), picture(self));
            let broken = Broken {
                task,
                how,
                memory: &memory,
            };
            let done = self.dsl.run_now(broken, pass);
            let failed = memory.a_read_failed();
            memory.fail_read_after(None);
            let Err(error) = done else {
                return if failed { Ended::Without } else { Ended::Done };
            };
            let expected = failed || matches!(error, DslError::Dmu(DmuError::Interrupted { .. }));
            assert!(expected, "{how:?}: {error}");
            assert_eq!(names(self), before.0, "{how:?}");
            assert_eq!(picture(self), before.1, "{how:?}");
            Ended::Undone
        });
        let (Break::Change(count) | Break::Read(count)) = how;
        // Most txgs have several attempts.
        if broken != Ended::Undone || count % 8 == 3 {
            self.finish();
            if broken != Ended::Without {
                self.check();
            }
        }
        broken
    }
}

/// Breaks a task off at each of its changes, and in another pool at each of its reads.
fn at_every_step<T: Task>(build: impl Fn() -> Harness, task: impl Fn() -> T) {
    let mut harness = build();
    let mut step = 0;
    while harness.breaks(task(), Break::Change(step)) == Ended::Undone {
        step += 1;
    }
    assert!(step > 1, "nothing was undone");
    harness.drain();
    harness.check();
    let mut harness = build();
    for step in 0.. {
        // What is in memory is not read.
        harness.reopen();
        match harness.breaks(task(), Break::Read(step)) {
            Ended::Undone => {}
            Ended::Done => break,
            // What it could not free is lost on purpose.
            Ended::Without => return,
        }
    }
    harness.drain();
    harness.check();
}

/// `tank/a` with snapshots `one` and `two`, a hold, a bookmark, a child; `tank/c` is a written clone of `two`.
fn datasets() -> Harness {
    let mut harness = Harness::new(31, &[]);
    harness.run(create("tank/a")).unwrap();
    harness.run(create("tank/a/b")).unwrap();
    harness.run(create("tank/empty")).unwrap();
    for block in 0..30 {
        harness.write("tank/a", 5, block, block as u8, 4096);
    }
    harness.run(snapshot("tank/a@one")).unwrap();
    harness.write("tank/a", 5, 3, 99, 4096);
    harness.run(snapshot("tank/a@two")).unwrap();
    harness.run(clone("tank/a@two", "tank/c")).unwrap();
    harness.write("tank/c", 5, 7, 1, 4096);
    harness.write("tank/a", 5, 9, 1, 4096);
    harness.run(hold("keep")).unwrap();
    harness.run(bookmark("tank/a#old", "tank/a@one")).unwrap();
    harness.check();
    harness
}

fn hold(tag: &str) -> Hold {
    let hold = ("tank/a@one".to_owned(), tag.to_owned());
    Hold {
        holds: vec![
            hold.clone(),
            ("tank/a@two".to_owned(), tag.to_owned()),
            hold,
        ],
    }
}

fn release() -> Release {
    Release {
        holds: hold("keep").holds,
    }
}

fn bookmark(name: &str, source: &str) -> CreateBookmark {
    CreateBookmark {
        name: name.to_owned(),
        source: source.to_owned(),
    }
}

#[test]
fn names_given_twice_are_meant_once() {
    let mut harness = datasets();
    harness.run(hold("more")).unwrap();
    assert!(matches!(
        harness.run(hold("more")),
        Err(DslError::HoldExists { .. })
    ));
    harness.run(release()).unwrap();
    assert!(matches!(
        harness.run(release()),
        Err(DslError::NoSuchHold { .. })
    ));
    harness.run(snapshot("tank/a@three")).unwrap();
    let mut twice = destroy("tank/a@three");
    twice.names.push("tank/a@three".to_owned());
    harness.run(twice).unwrap();
    harness.check();
}

#[test]
fn creating_is_undone() {
    at_every_step(datasets, || create("tank/a/new"));
    at_every_step(datasets, || clone("tank/a@one", "tank/new"));
}

#[test]
fn snapshots_are_undone() {
    let both = || millpond_dsl::tasks::Snapshot {
        names: vec!["tank/a@three".to_owned(), "tank/c@three".to_owned()],
        properties: vec![("x:y".to_owned(), PropertyValue::Text("z".to_owned()))],
    };
    at_every_step(datasets, both);
    let released = || {
        let mut harness = datasets();
        harness.run(release()).unwrap();
        harness
    };
    at_every_step(released, || destroy("tank/a@one"));
}

#[test]
fn destroying_is_undone() {
    at_every_step(datasets, || destroy_head("tank/c"));
    at_every_step(datasets, || destroy_head("tank/empty"));
    let old = || {
        let mut harness =
            Harness::new(32, &[features::ASYNC_DESTROY.guid, features::LIVELIST.guid]);
        harness.run(create("tank/a")).unwrap();
        for block in 0..30 {
            harness.write("tank/a", 5, block, block as u8, 4096);
        }
        harness.sync();
        harness
    };
    at_every_step(old, || destroy_head("tank/a"));
}

#[test]
fn promoting_and_rolling_back_are_undone() {
    at_every_step(datasets, || promote("tank/c"));
    at_every_step(datasets, || Rollback {
        path: "tank/a".to_owned(),
        snapshot: None,
    });
}

/// A receive that has come to its end.
fn all_received() -> Harness {
    let mut harness = receive::with_one();
    let one = harness.dsl.dataset("tank/a@one").unwrap().guid().unwrap();
    let begin = receive::begin("tank/a", one);
    harness.run(begin).unwrap();
    harness.write("tank/a/%recv", 5, 3, 99, 4096);
    harness.write("tank/a", 5, 4, 98, 4096);
    harness.run(snapshot("tank/a@two")).unwrap();
    harness.write("tank/a", 5, 4, 97, 4096);
    harness.sync();
    harness
}

/// A receive that ends, of whatever copy of the dataset there is by then.
struct Ending(Option<millpond_dsl::tasks::EndReceive>);

impl Task for Ending {
    type Output = ();

    fn check(&mut self, context: &TaskContext<'_>) -> Result<()> {
        let receiving = context.dsl.head("tank/a/%recv")?;
        self.0.insert(receive::end(&receiving, true)).check(context)
    }

    fn apply(&mut self, context: &TaskContext<'_>) -> Result<()> {
        let task = self.0.as_mut().expect("it was checked");
        task.apply(context).map(drop)
    }
}

#[test]
fn receiving_is_undone() {
    at_every_step(receive::with_one, || {
        receive::begin("tank/new", base::Guid(0))
    });
    // The seed is the same, and so are the guids.
    let harness = receive::with_one();
    let one = harness.dsl.dataset("tank/a@one").unwrap().guid().unwrap();
    at_every_step(receive::with_one, || receive::begin("tank/a", one));
    at_every_step(all_received, || Ending(None));
}

#[test]
fn renaming_is_undone() {
    at_every_step(datasets, || Rename {
        from: "tank/a".to_owned(),
        to: "tank/empty/d".to_owned(),
    });
    at_every_step(datasets, || RenameSnapshot {
        from: "tank/a@one".to_owned(),
        to: "first".to_owned(),
        recursive: false,
    });
}

#[test]
fn holds_bookmarks_and_properties_are_undone() {
    at_every_step(datasets, || hold("more"));
    at_every_step(datasets, release);
    at_every_step(datasets, || DestroySnapshots {
        names: vec!["tank/a@one".to_owned(), "tank/a@two".to_owned()],
        defer: true,
    });
    at_every_step(datasets, || bookmark("tank/a#new", "tank/a@two"));
    at_every_step(datasets, || DestroyBookmark {
        name: "tank/a#old".to_owned(),
    });
    let number = |name: &str, number| {
        let change = PropertyChange::Set(PropertyValue::Number(number));
        (name.to_owned(), change)
    };
    at_every_step(datasets, || SetProperties {
        name: "tank/a".to_owned(),
        changes: vec![
            number("reservation", 1 << 20),
            number("refreservation", 1 << 19),
            number("quota", 1 << 30),
            number("atime", 0),
        ],
    });
}

fn grants(grant: bool, changes: &[(&str, &[&str])]) -> ChangeGrants {
    let changes = changes.iter().map(|(key, permissions)| Grant {
        key: (*key).to_owned(),
        permissions: permissions.iter().map(|name| (*name).to_owned()).collect(),
    });
    ChangeGrants {
        path: "tank/a".to_owned(),
        grant,
        changes: changes.collect(),
    }
}

#[test]
fn grants_are_undone() {
    let first = || grants(true, &[("ul$7", &["mount", "create"]), ("gd$8", &["hold"])]);
    at_every_step(datasets, first);
    let granted = || {
        let mut harness = datasets();
        harness.run(first()).unwrap();
        harness
    };
    at_every_step(granted, || {
        grants(true, &[("ul$7", &["send"]), ("s-$@set", &["hold"])])
    });
    at_every_step(granted, || {
        grants(false, &[("ul$7", &["mount"]), ("gd$8", &["hold"])])
    });
    at_every_step(granted, || grants(false, &[("ul$7", &[]), ("gd$8", &[])]));
}

/// Makes holds of snapshots last as long as the session, as they are when another program has made them.
struct ForNow(&'static [&'static str]);

impl Task for ForNow {
    type Output = ();

    fn check(&mut self, _context: &TaskContext<'_>) -> Result<()> {
        Ok(())
    }

    fn apply(&mut self, context: &TaskContext<'_>) -> Result<()> {
        let set = &context.dsl.mos().set;
        let options = dmu::CreateZap {
            object_type: format::ObjectType::USER_REFERENCES,
            ..dmu::CreateZap::default()
        };
        let list = dmu::Zap::create(set, context.tx, &options)?;
        for name in self.0 {
            let snapshot = context.dsl.dataset(name)?.id();
            list.add(context.tx, format!("{:x}-keep", snapshot.0).as_bytes(), 1)?;
        }
        list.add(context.tx, b"7777-gone", 1)?;
        let directory = dmu::Zap::open(&set.object(directory::OBJECT)?)?;
        let key = directory::TEMPORARY_HOLDS.as_bytes();
        directory.update(context.tx, key, list.object().id().0)?;
        Ok(())
    }
}

/// A pool whose last session broke off: one snapshot goes with its last hold, the other one has a clone.
fn broken_off() -> Harness {
    let mut harness = datasets();
    let both = ["tank/a@one", "tank/a@two"];
    harness.run(ForNow(&["tank/a@one", "tank/a@two"])).unwrap();
    let names = both.map(str::to_owned).into();
    harness
        .run(DestroySnapshots { names, defer: true })
        .unwrap();
    harness
}

#[test]
fn releasing_what_was_held_for_a_session_is_undone() {
    at_every_step(broken_off, || ReleaseTemporary);
    let mut harness = broken_off();
    assert_eq!(harness.run(ReleaseTemporary).unwrap(), 2);
    assert!(harness.dsl.dataset("tank/a@one").is_err());
}

/// What cannot be read when a session begins is looked at again by the next one: no hold is left that nobody knows to
/// be one of a session.
#[test]
fn what_was_held_for_a_session_is_not_forgotten() {
    for reads in 0.. {
        let mut harness = broken_off();
        harness.reopen();
        let memory = harness.memory.clone();
        let failed = harness.with_pass(1, |pass| {
            harness.dsl.sync(pass).unwrap();
            let broken = Broken {
                task: ReleaseTemporary,
                how: Break::Read(reads),
                memory: &memory,
            };
            let _ = harness.dsl.run_now(broken, pass);
            let failed = memory.a_read_failed();
            memory.fail_read_after(None);
            failed
        });
        harness.finish();
        harness.run(ReleaseTemporary).unwrap();
        for name in ["tank/a@one", "tank/a@two"] {
            if let Ok(snapshot) = harness.dsl.dataset(name) {
                assert_eq!(snapshot.holds().unwrap(), [], "{name} after {reads} reads");
            }
        }
        if !failed {
            assert!(reads > 5, "nothing was read");
            break;
        }
    }
}
