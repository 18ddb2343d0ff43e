use admin::changes::{
    AbortReceive, AddVdevs, AttachDevice, Bookmark, ChangeKey, CheckVdevs, Checkpoint, Clear,
    CloneSnapshot, Create, Delegate, Destroy, DestroyPool, DestroyTarget, DetachDevice, Export,
    Hold, Inherit, Initialize, InitializeAction, LoadKey, Mount, OfflineDevices, OnlineDevices,
    PrefetchTables, Program, Promote, PruneDedup, Redact, Reguid, Release, RemoveAction,
    RemoveVdevs, Rename, ReopenDevices, Rollback, ScrubAction, Set, SetPool, SetVdev, Snapshot,
    Split, Trim, TrimAction, UnloadKey, Unmount, Upgrade, VolumeSpec, WaitInitialize, WaitTrim,
};
use admin::{Request, Value, VdevClass, VdevShape, VdevSpec};

use super::*;

/// A change, its bytes to the daemon, and what it answers.
type Case = (
    Change,
    &'static str,
    WhileSuspended<'static>,
    Turn,
    Recorded,
);

const REFUSED: WhileSuspended<'static> = WhileSuspended::REFUSED;

/// Names the kinds of changes. The compiler asks for one that is missing, and then a test for its case.
macro_rules! kinds {
    ($($kind:ident)*) => {
        const KINDS: &[&str] = &[$(stringify!($kind)),*];

        const fn kind(change: &Change) -> &'static str {
            match change {
                $(Change::$kind { .. } => stringify!($kind),)*
            }
        }
    };
}

kinds! {
    Create Destroy Snapshot Rollback Clone Promote Rename Set Inherit Mount Unmount LoadKey
    UnloadKey ChangeKey Hold Release Bookmark Redact AbortReceive Delegate SetPool SetVdev Upgrade
    Scrub WaitScrub Trim WaitTrim Initialize WaitInitialize Sync Clear AddVdevs CheckVdevs RemoveVdevs
    AttachDevice DetachDevice Split OfflineDevices OnlineDevices ReopenDevices RestartResilver
    Reguid PruneDedup PrefetchTables Checkpoint Program Export DestroyPool
}

fn text(text: &str) -> String {
    text.to_owned()
}

fn note() -> (String, Value) {
    (text("a:b"), Value::Text(text("c")))
}

fn of_datasets() -> Vec<Case> {
    let create = Create {
        name: text("p/a"),
        volume: Some(VolumeSpec {
            size: 8192,
            sparse: true,
        }),
        properties: vec![note()],
        parents: true,
        unmounted: false,
        key: None,
    };
    let clone = CloneSnapshot {
        snapshot: text("p@s"),
        name: text("p/c"),
        properties: Vec::new(),
        parents: false,
        unmounted: true,
    };
    let rename = Rename {
        from: text("p/a"),
        to: text("p/b"),
        parents: true,
        recursive: false,
        keep_mounts: true,
        force: false,
    };
    let promote = Promote { name: text("p/c") };
    let alone = |change, json| (change, json, REFUSED, Turn::Alone, Recorded::After);
    vec![
        alone(
            Change::Create(create),
            concat!(
                r#"{"Create":{"name":"p/a","volume":{"size":8192,"sparse":true},"#,
                r#""properties":[["a:b",{"Text":"c"}]],"parents":true,"unmounted":false,"key":null}}"#,
            ),
        ),
        alone(
            Change::Clone(clone),
            r#"{"Clone":{"snapshot":"p@s","name":"p/c","properties":[],"parents":false,"unmounted":true}}"#,
        ),
        alone(
            Change::Rename(rename),
            concat!(
                r#"{"Rename":{"from":"p/a","to":"p/b","parents":true,"recursive":false,"#,
                r#""keep_mounts":true,"force":false}}"#,
            ),
        ),
        alone(Change::Promote(promote), r#"{"Promote":{"name":"p/c"}}"#),
    ]
}

fn of_properties() -> Vec<Case> {
    let alone = |change, json| (change, json, REFUSED, Turn::Alone, Recorded::After);
    vec![
        alone(
            Change::Set(Set {
                names: vec![text("p")],
                properties: vec![(text("atime"), Value::Number(0))],
                keep_mounts: false,
            }),
            r#"{"Set":{"names":["p"],"properties":[["atime",{"Number":0}]],"keep_mounts":false}}"#,
        ),
        alone(
            Change::Inherit(Inherit {
                names: vec![text("p")],
                property: text("atime"),
                recursive: true,
                received: false,
            }),
            r#"{"Inherit":{"names":["p"],"property":"atime","recursive":true,"received":false}}"#,
        ),
        alone(
            Change::AbortReceive(AbortReceive { dataset: text("p") }),
            r#"{"AbortReceive":{"dataset":"p"}}"#,
        ),
        alone(
            Change::Delegate(Delegate {
                name: text("p"),
                grant: true,
                recursive: false,
                changes: vec![(text("ul$7"), vec![text("hold")])],
            }),
            r#"{"Delegate":{"name":"p","grant":true,"recursive":false,"changes":[["ul$7",["hold"]]]}}"#,
        ),
    ]
}

fn destroying(dry_run: bool) -> Change {
    Change::Destroy(Destroy {
        target: DestroyTarget::Snapshots {
            dataset: text("p"),
            specs: vec![text("a%b")],
        },
        recursive: false,
        dependents: false,
        force: false,
        deferred: true,
        dry_run,
    })
}

fn of_snapshots() -> Vec<Case> {
    let alone = |change, json| (change, json, REFUSED, Turn::Alone, Recorded::After);
    let snapshots = vec![text("p@s")];
    vec![
        alone(
            destroying(false),
            concat!(
                r#"{"Destroy":{"target":{"Snapshots":{"dataset":"p","specs":["a%b"]}},"#,
                r#""recursive":false,"dependents":false,"force":false,"deferred":true,"#,
                r#""dry_run":false}}"#,
            ),
        ),
        (
            destroying(true),
            concat!(
                r#"{"Destroy":{"target":{"Snapshots":{"dataset":"p","specs":["a%b"]}},"#,
                r#""recursive":false,"dependents":false,"force":false,"deferred":true,"#,
                r#""dry_run":true}}"#,
            ),
            REFUSED,
            Turn::Alone,
            Recorded::Never,
        ),
        alone(
            Change::Snapshot(Snapshot {
                names: snapshots.clone(),
                recursive: true,
                properties: Vec::new(),
            }),
            r#"{"Snapshot":{"names":["p@s"],"recursive":true,"properties":[]}}"#,
        ),
        alone(
            Change::Rollback(Rollback {
                snapshot: text("p@s"),
                destroy_later: true,
                destroy_clones: false,
                force: false,
            }),
            r#"{"Rollback":{"snapshot":"p@s","destroy_later":true,"destroy_clones":false,"force":false}}"#,
        ),
        alone(
            Change::Hold(Hold {
                tag: text("t"),
                snapshots: snapshots.clone(),
                recursive: false,
            }),
            r#"{"Hold":{"tag":"t","snapshots":["p@s"],"recursive":false}}"#,
        ),
        alone(
            Change::Release(Release {
                tag: text("t"),
                snapshots,
                recursive: true,
            }),
            r#"{"Release":{"tag":"t","snapshots":["p@s"],"recursive":true}}"#,
        ),
    ]
}

fn of_bookmarks() -> Vec<Case> {
    let alone = |change, json| (change, json, REFUSED, Turn::Alone, Recorded::After);
    vec![
        alone(
            Change::Bookmark(Bookmark {
                source: text("p@s"),
                name: text("p#b"),
            }),
            r##"{"Bookmark":{"source":"p@s","name":"p#b"}}"##,
        ),
        (
            Change::Redact(Redact {
                source: text("p@s"),
                name: text("p#b"),
                by: vec![text("p/c@s")],
            }),
            r##"{"Redact":{"source":"p@s","name":"p#b","by":["p/c@s"]}}"##,
            REFUSED,
            Turn::InSteps("a redaction bookmark is being made"),
            Recorded::After,
        ),
    ]
}

fn of_keys() -> Vec<Case> {
    let key = admin::Secret::new(text("00ff").into());
    let load = LoadKey {
        name: text("p/e"),
        key,
        dry_run: true,
    };
    let unload = UnloadKey { name: text("p/e") };
    let inherit = ChangeKey {
        name: text("p/e"),
        properties: Vec::new(),
        key: None,
    };
    let refused = |verb| WhileSuspended::refused(verb);
    let never = |change, json, verb| (change, json, refused(verb), Turn::Alone, Recorded::Never);
    vec![
        never(
            Change::LoadKey(load),
            r#"{"LoadKey":{"name":"p/e","key":"00ff","dry_run":true}}"#,
            "load the key of",
        ),
        never(
            Change::UnloadKey(unload),
            r#"{"UnloadKey":{"name":"p/e"}}"#,
            "unload the key of",
        ),
        (
            Change::ChangeKey(inherit),
            r#"{"ChangeKey":{"name":"p/e","properties":[],"key":null}}"#,
            WhileSuspended::REFUSED,
            Turn::Alone,
            Recorded::After,
        ),
    ]
}

fn of_mounts() -> Vec<Case> {
    let mount = Mount {
        name: Some(text("p")),
        at: Some("/m".into()),
        options: vec![text("ro")],
        overlay: false,
        force: true,
        recursive: false,
    };
    let unmount = |force| Change::Unmount(Unmount { name: None, force });
    let refused = WhileSuspended::refused("unmount");
    vec![
        (
            Change::Mount(mount),
            r#"{"Mount":{"name":"p","at":"/m","options":["ro"],"overlay":false,"force":true,"recursive":false}}"#,
            REFUSED,
            Turn::Alone,
            Recorded::Never,
        ),
        (
            unmount(false),
            r#"{"Unmount":{"name":null,"force":false}}"#,
            refused,
            Turn::Alone,
            Recorded::Never,
        ),
        (
            unmount(true),
            r#"{"Unmount":{"name":null,"force":true}}"#,
            WhileSuspended::Goes,
            Turn::Alone,
            Recorded::Never,
        ),
    ]
}

fn of_the_pool() -> Vec<Case> {
    let alone = |change, json, suspended| (change, json, suspended, Turn::Alone, Recorded::After);
    let ends = |change, json, suspended| (change, json, suspended, Turn::Alone, Recorded::Before);
    let properties = vec![(text("comment"), Value::Absent)];
    let export = |force| Change::Export(Export { force });
    let destroy = Change::DestroyPool(DestroyPool { force: true });
    vec![
        alone(
            Change::SetPool(SetPool {
                properties: properties.clone(),
            }),
            r#"{"SetPool":{"properties":[["comment","Absent"]]}}"#,
            REFUSED,
        ),
        alone(
            Change::SetVdev(SetVdev {
                vdev: text("mirror-0"),
                properties,
            }),
            r#"{"SetVdev":{"vdev":"mirror-0","properties":[["comment","Absent"]]}}"#,
            REFUSED,
        ),
        alone(
            Change::Upgrade(Upgrade { version: 5000 }),
            r#"{"Upgrade":{"version":5000}}"#,
            REFUSED,
        ),
        (
            Change::Sync,
            r#""Sync""#,
            WhileSuspended::refused("sync"),
            Turn::Alone,
            Recorded::Never,
        ),
        alone(
            Change::Clear(Clear { device: None }),
            r#"{"Clear":{"device":null}}"#,
            WhileSuspended::Goes,
        ),
        ends(
            export(false),
            r#"{"Export":{"force":false}}"#,
            WhileSuspended::ForcedOnly { verb: "export" },
        ),
        ends(
            export(true),
            r#"{"Export":{"force":true}}"#,
            WhileSuspended::Goes,
        ),
        ends(
            destroy,
            r#"{"DestroyPool":{"force":true}}"#,
            WhileSuspended::refused("destroy"),
        ),
    ]
}

fn of_devices() -> Vec<Case> {
    let alone = |change, json, verb| {
        let suspended = WhileSuspended::refused(verb);
        (change, json, suspended, Turn::Alone, Recorded::After)
    };
    let waits = |change, json| {
        let suspended = WhileSuspended::Goes;
        (change, json, suspended, Turn::Beside, Recorded::Never)
    };
    let start = TrimAction::Start {
        rate: 1,
        secure: false,
    };
    let devices = vec![text("a")];
    let added = AddVdevs {
        vdevs: vec![VdevSpec {
            class: VdevClass::Normal,
            shape: VdevShape::Leaf("/f".into()),
        }],
        ashift: Some(12),
        force: false,
        file_size: None,
    };
    vec![
        alone(
            Change::Scrub(ScrubAction::Pause),
            r#"{"Scrub":"Pause"}"#,
            "scrub",
        ),
        waits(Change::WaitScrub, r#""WaitScrub""#),
        alone(
            Change::Trim(Trim {
                action: start,
                devices: devices.clone(),
            }),
            r#"{"Trim":{"action":{"Start":{"rate":1,"secure":false}},"devices":["a"]}}"#,
            "trim",
        ),
        waits(
            Change::WaitTrim(WaitTrim {
                devices: devices.clone(),
            }),
            r#"{"WaitTrim":{"devices":["a"]}}"#,
        ),
        alone(
            Change::AddVdevs(added.clone()),
            concat!(
                r#"{"AddVdevs":{"vdevs":[{"class":"Normal","shape":{"Leaf":"/f"}}],"ashift":12,"#,
                r#""force":false,"file_size":null}}"#,
            ),
            "add to",
        ),
        (
            Change::CheckVdevs(CheckVdevs { wanted: added }),
            concat!(
                r#"{"CheckVdevs":{"wanted":{"vdevs":[{"class":"Normal","shape":{"Leaf":"/f"}}],"#,
                r#""ashift":12,"force":false,"file_size":null}}}"#,
            ),
            WhileSuspended::refused("add to"),
            Turn::Alone,
            Recorded::Never,
        ),
        alone(
            Change::RemoveVdevs(RemoveVdevs {
                devices,
                action: RemoveAction::Remove,
            }),
            r#"{"RemoveVdevs":{"devices":["a"],"action":"Remove"}}"#,
            "remove from",
        ),
    ]
}

fn of_split() -> Case {
    let split = Split {
        name: text("b"),
        devices: vec![text("a")],
        properties: vec![note()],
        dry_run: false,
    };
    let json = concat!(
        r#"{"Split":{"name":"b","devices":["a"],"properties":[["a:b",{"Text":"c"}]],"#,
        r#""dry_run":false}}"#,
    );
    let refused = WhileSuspended::refused("split");
    (
        Change::Split(split),
        json,
        refused,
        Turn::Alone,
        Recorded::After,
    )
}

fn online_larger(devices: Vec<String>) -> Change {
    Change::OnlineDevices(OnlineDevices {
        devices,
        expand: true,
    })
}

fn of_single_devices() -> Vec<Case> {
    let refused = |change, json, verb| {
        let suspended = WhileSuspended::refused(verb);
        (change, json, suspended, Turn::Alone, Recorded::After)
    };
    let attach = AttachDevice {
        device: text("a"),
        new: Some("/b".into()),
        replace: false,
        ashift: None,
        force: true,
        sequential: false,
    };
    let replace = AttachDevice {
        new: None,
        replace: true,
        ..attach.clone()
    };
    let devices = vec![text("a")];
    vec![
        refused(
            Change::AttachDevice(attach),
            concat!(
                r#"{"AttachDevice":{"device":"a","new":"/b","replace":false,"ashift":null,"#,
                r#""force":true,"sequential":false}}"#,
            ),
            "attach to",
        ),
        refused(
            Change::AttachDevice(replace),
            concat!(
                r#"{"AttachDevice":{"device":"a","new":null,"replace":true,"ashift":null,"#,
                r#""force":true,"sequential":false}}"#,
            ),
            "replace devices of",
        ),
        refused(
            Change::DetachDevice(DetachDevice { device: text("a") }),
            r#"{"DetachDevice":{"device":"a"}}"#,
            "detach from",
        ),
        refused(
            Change::OfflineDevices(OfflineDevices {
                devices: devices.clone(),
                faulted: false,
                temporary: true,
            }),
            r#"{"OfflineDevices":{"devices":["a"],"faulted":false,"temporary":true}}"#,
            "offline devices of",
        ),
        refused(
            online_larger(devices),
            r#"{"OnlineDevices":{"devices":["a"],"expand":true}}"#,
            "online devices of",
        ),
        refused(
            Change::ReopenDevices(ReopenDevices { keep_scan: true }),
            r#"{"ReopenDevices":{"keep_scan":true}}"#,
            "reopen",
        ),
        refused(
            Change::RestartResilver,
            r#""RestartResilver""#,
            "restart resilver",
        ),
        refused(
            Change::Reguid(Reguid { guid: Some(5) }),
            r#"{"Reguid":{"guid":5}}"#,
            "reguid",
        ),
    ]
}

fn of_checkpoints() -> Vec<Case> {
    let alone = |discard, json, verb| {
        let (change, suspended) = (Checkpoint { discard }, WhileSuspended::refused(verb));
        let change = Change::Checkpoint(change);
        (change, json, suspended, Turn::Alone, Recorded::After)
    };
    vec![
        alone(false, r#"{"Checkpoint":{"discard":false}}"#, "checkpoint"),
        alone(
            true,
            r#"{"Checkpoint":{"discard":true}}"#,
            "discard checkpoint in",
        ),
    ]
}

fn of_programs() -> Vec<Case> {
    let program = |read_only| {
        Change::Program(Program {
            script: text("return 1"),
            arguments: vec![text("a")],
            read_only,
            instructions: 2,
            memory_bytes: 3,
        })
    };
    let suspended = WhileSuspended::refused("run a program on");
    vec![
        (
            program(false),
            concat!(
                r#"{"Program":{"script":"return 1","arguments":["a"],"read_only":false,"#,
                r#""instructions":2,"memory_bytes":3}}"#,
            ),
            suspended,
            Turn::Alone,
            Recorded::After,
        ),
        (
            program(true),
            concat!(
                r#"{"Program":{"script":"return 1","arguments":["a"],"read_only":true,"#,
                r#""instructions":2,"memory_bytes":3}}"#,
            ),
            suspended,
            Turn::Alone,
            Recorded::Never,
        ),
    ]
}

fn of_initializing() -> Vec<Case> {
    let devices = vec![text("a")];
    let initialize = Initialize {
        action: InitializeAction::Suspend,
        devices: devices.clone(),
    };
    let wait = WaitInitialize { devices };
    vec![
        (
            Change::Initialize(initialize),
            r#"{"Initialize":{"action":"Suspend","devices":["a"]}}"#,
            WhileSuspended::refused("initialize"),
            Turn::Alone,
            Recorded::After,
        ),
        (
            Change::WaitInitialize(wait),
            r#"{"WaitInitialize":{"devices":["a"]}}"#,
            WhileSuspended::Goes,
            Turn::Beside,
            Recorded::Never,
        ),
    ]
}

fn of_tables() -> Vec<Case> {
    vec![
        (
            Change::PruneDedup(PruneDedup::Days(90)),
            r#"{"PruneDedup":{"Days":90}}"#,
            WhileSuspended::refused("ddtprune"),
            Turn::Alone,
            Recorded::After,
        ),
        (
            Change::PrefetchTables(PrefetchTables::Dedup),
            r#"{"PrefetchTables":"Dedup"}"#,
            WhileSuspended::refused("prefetch"),
            Turn::Beside,
            Recorded::Never,
        ),
    ]
}

fn all() -> Vec<Case> {
    let mut all = of_datasets();
    all.extend(of_properties());
    all.extend(of_snapshots());
    all.extend(of_bookmarks());
    all.extend(of_keys());
    all.extend(of_mounts());
    all.extend(of_the_pool());
    all.extend(of_devices());
    all.extend(of_single_devices());
    all.push(of_split());
    all.extend(of_checkpoints());
    all.extend(of_programs());
    all.extend(of_initializing());
    all.extend(of_tables());
    all
}

#[test]
fn every_kind_of_change_has_a_case() {
    let all = all();
    for wanted in KINDS {
        assert!(
            all.iter().any(|(change, ..)| kind(change) == *wanted),
            "{wanted}"
        );
    }
}

#[test]
fn changes_answer_for_themselves() {
    for (change, _, suspended, turn, recorded) in all() {
        let found = as_pool_change(&change);
        let answers = (found.while_suspended(), found.turn(), found.recorded());
        assert_eq!(answers, (suspended, turn, recorded), "{change:?}");
    }
}

#[test]
fn an_unmount_is_refused_by_the_name_of_its_dataset() {
    let unmount = Unmount {
        name: Some(text("p/a")),
        force: false,
    };
    let refused = WhileSuspended::Refused {
        verb: "unmount",
        name: Some("p/a"),
    };
    assert_eq!(unmount.while_suspended(), refused);
}

#[test]
fn changes_travel_as_they_are_listed() {
    for (change, json, ..) in all() {
        let request = Request::Change {
            change,
            command: String::new(),
        };
        let bytes = format!(r#"{{"Change":{{"change":{json},"command":""}}}}"#);
        assert_eq!(serde_json::to_string(&request).unwrap(), bytes);
        assert_eq!(serde_json::from_str::<Request>(&bytes).unwrap(), request);
    }
}
