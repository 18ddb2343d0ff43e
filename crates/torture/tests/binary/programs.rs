//! `zfs program`: scripts that ask about datasets and change them, and scripts that would not end.

use super::lifecycle::kill_server;
use super::session::{Running, Session, path};
use crate::patience::until;
use rustix::process::{Pid, Signal, kill_process};
use std::fs;
use std::process::Stdio;

/// A pool with a file system that is not mounted, and one below it, each with snapshots.
fn pool() -> Option<Session> {
    let mut session = Session::new()?;
    session.create("tank", 128, &[]);
    session.ok(&["zfs", "create", "-u", "tank/a"]);
    session.ok(&["zfs", "create", "-u", "tank/a/b"]);
    session.ok(&["zfs", "snapshot", "-r", "tank/a@1"]);
    session.ok(&["zfs", "snapshot", "tank@0"]);
    session.ok(&["zfs", "snapshot", "tank/a@2"]);
    Some(session)
}

/// The words of a command that runs a script, with options before and arguments behind it.
fn line(session: &Session, options: &[&str], script: &str, arguments: &[&str]) -> Vec<String> {
    let file = session.images().join("script.lua");
    fs::write(&file, script).expect("written");
    let mut line = vec!["zfs", "program"];
    line.extend(options);
    line.extend(["tank", path(&file)]);
    line.extend(arguments);
    line.into_iter().map(str::to_owned).collect()
}

fn words(line: &[String]) -> Vec<&str> {
    line.iter().map(String::as_str).collect()
}

fn result(session: &Session, options: &[&str], script: &str, arguments: &[&str]) -> String {
    session.ok(&words(&line(session, options, script, arguments)))
}

fn refused(session: &Session, options: &[&str], script: &str) -> String {
    session.refused(&words(&line(session, options, script, &[])))
}

fn returned(text: &str) -> String {
    format!("Channel program fully executed and produced output:\n    return: {text}\n")
}

/// The value of a script, as people read it.
fn value(session: &Session, script: &str) -> String {
    let text = result(session, &[], script, &[]);
    let begin = "Channel program fully executed and produced output:\n    return: ";
    let value = text.strip_prefix(begin).unwrap_or_else(|| panic!("{text}"));
    value.trim_end().to_owned()
}

fn snapshots(session: &Session) -> String {
    let told = session.ok(&["zfs", "list", "-Hr", "-t", "snapshot", "-o", "name", "tank"]);
    told.lines().collect::<Vec<_>>().join(" ")
}

/// The second example of OpenZFS's manual page.
const DESTROY: &str = r#"
succeeded = {}
failed = {}

function destroy_recursive(root)
    for child in zfs.list.children(root) do
        destroy_recursive(child)
    end
    for snap in zfs.list.snapshots(root) do
        err = zfs.sync.destroy(snap)
        if (err ~= 0) then
            failed[snap] = err
        else
            succeeded[snap] = err
        end
    end
    err = zfs.sync.destroy(root)
    if (err ~= 0) then
        failed[root] = err
    else
        succeeded[root] = err
    end
end

args = ...
argv = args["argv"]

destroy_recursive(argv[1])

results = {}
results["succeeded"] = succeeded
results["failed"] = failed
return results
"#;

#[test]
fn a_tree_is_destroyed_and_what_is_held_is_told() {
    let Some(mut session) = pool() else {
        return;
    };
    session.ok(&["zfs", "hold", "keep", "tank/a@2"]);
    let text = result(&session, &[], DESTROY, &["tank/a"]);
    let expected = [
        "Channel program fully executed and produced output:",
        "    return:",
        "        failed:",
        "            tank/a: 16",
        "            tank/a@2: 16",
        "        succeeded:",
        "            tank/a/b: 0",
        "            tank/a/b@1: 0",
        "            tank/a@1: 0",
        "",
    ];
    assert_eq!(text, expected.join("\n"));
    session.ok(&["zfs", "release", "keep", "tank/a@2"]);
    let text = result(&session, &["-j"], DESTROY, &["tank/a"]);
    let expected = r#"{"return":{"failed":{},"succeeded":{"tank/a":0,"tank/a@2":0}}}"#;
    assert_eq!(text, format!("{expected}\n"));
    assert_eq!(session.ok(&["zfs", "list", "-Ho", "name"]), "tank\n");
    let history = session.ok(&["zpool", "history", "tank"]);
    assert!(history.contains("zfs program"), "{history}");
    session.export_clean("tank");
}

#[test]
fn all_but_the_newest_snapshots_go() {
    let Some(session) = pool() else {
        return;
    };
    for number in 3..8 {
        session.ok(&["zfs", "snapshot", &format!("tank/a@{number}")]);
    }
    let script = "
        local argv = (...).argv
        local found, gone = {}, 0
        for snap in zfs.list.snapshots(argv[1]) do
            table.insert(found, {name = snap, txg = zfs.get_prop(snap, 'createtxg')})
        end
        table.sort(found, function(one, other) return one.txg < other.txg end)
        for i = 1, #found - tonumber(argv[2]) do
            assert(zfs.check.destroy(found[i].name) == 0)
            if zfs.sync.destroy(found[i].name) == 0 then gone = gone + 1 end
        end
        return gone
    ";
    let text = result(&session, &[], script, &["tank/a", "2"]);
    assert_eq!(text, returned("5"));
    assert_eq!(snapshots(&session), "tank@0 tank/a@6 tank/a@7 tank/a/b@1");
    let script = "
        local age = 3600
        for snap in zfs.list.snapshots('tank/a') do
            if zfs.get_prop(snap, 'creation') < 1000 then zfs.sync.destroy(snap) end
        end
    ";
    let text = result(&session, &[], script, &[]);
    let nothing = "Channel program fully executed with no return value.\n";
    assert_eq!(text, nothing);
    assert_eq!(snapshots(&session), "tank@0 tank/a@6 tank/a@7 tank/a/b@1");
}

/// Makes every change, each after its check, and says what came of it.
const CHANGES: &str = "
        local function both(verb, ...)
            local before = zfs.check[verb](...)
            local done = zfs.sync[verb](...)
            return before == done and done or before .. ' but ' .. done
        end
        local r = {}
        r.a_mounted = both('destroy', 'tank')
        r.b_has_clones = both('destroy', 'tank/a@2')
        r.c_has_children = both('destroy', 'tank/a')
        r.d_missing = both('destroy', 'tank/no')
        r.e_other_pool = both('destroy', 'pool/no')
        r.f_no_name = both('destroy', 'tank//no')
        r.g_snapshot = both('snapshot', 'tank/a@3')
        r.h_exists = both('snapshot', 'tank/a@3')
        r.i_no_snapshot = both('snapshot', 'tank/a')
        r.j_bookmark = both('bookmark', 'tank/a@3', 'tank/a#3')
        r.k_exists = both('bookmark', 'tank/a@3', 'tank/a#3')
        r.l_rename = both('rename_snapshot', 'tank/a', '3', 'three')
        r.m_missing = both('rename_snapshot', 'tank/a', '3', 'four')
        r.n_set = both('set_prop', 'tank/a', 'my:own', 'value')
        r.o_native = both('set_prop', 'tank/a', 'compression', 'off')
        r.p_inherit = both('inherit', 'tank/a', 'compression')
        r.q_read_only = both('inherit', 'tank/a', 'used')
        r.r_rollback = both('rollback', 'tank/a')
        r.s_nothing = both('rollback', 'tank/d')
        r.t_mounted = both('rollback', 'tank')
        local errno, names = zfs.sync.promote('tank/c')
        r.u_conflict = errno .. names[1] .. #names
        r.v_no_clone = both('promote', 'tank/a')
        r.w_destroyed = both('destroy', 'tank/c@1')
        r.x_promoted = both('promote', 'tank/c')
        r.y_deferred = zfs.sync.destroy{'tank/c@2', defer = true}
        return r
";

#[test]
fn every_change_is_made_and_checked() {
    let Some(mut session) = pool() else {
        return;
    };
    session.ok(&["zfs", "clone", "-u", "tank/a@2", "tank/c"]);
    session.ok(&["zfs", "snapshot", "tank/c@1"]);
    session.ok(&["zfs", "create", "-u", "tank/d"]);
    session.ok(&["zfs", "set", "compression=gzip", "tank/a"]);
    let text = result(&session, &["-j"], CHANGES, &[]);
    assert!(text.starts_with(r#"{"return":{"a_mounted":16,"#), "{text}");
    for part in [
        r#""b_has_clones":17"#,
        r#""c_has_children":16"#,
        r#""d_missing":2"#,
        r#""e_other_pool":18"#,
        r#""f_no_name":22"#,
        r#""g_snapshot":0"#,
        r#""h_exists":17"#,
        r#""i_no_snapshot":22"#,
        r#""j_bookmark":0"#,
        r#""k_exists":17"#,
        r#""l_rename":0"#,
        r#""m_missing":2"#,
        r#""n_set":0"#,
        r#""o_native":22"#,
        r#""p_inherit":0"#,
        r#""q_read_only":22"#,
        r#""r_rollback":0"#,
        r#""s_nothing":3"#,
        r#""t_mounted":16"#,
        r#""u_conflict":"1711""#,
        r#""v_no_clone":22"#,
        r#""w_destroyed":0"#,
        r#""x_promoted":0"#,
        r#""y_deferred":0"#,
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
    let get = |what: &[&str]| session.ok(&[&["zfs", "get", "-Ho", "value"], what].concat());
    assert_eq!(get(&["my:own,compression", "tank/a"]), "value\non\n");
    assert_eq!(get(&["origin", "tank/a"]), "tank/c@2\n");
    assert_eq!(get(&["defer_destroy", "tank/c@2"]), "on\n");
    session.export_clean("tank");
}

#[test]
fn programs_see_what_commands_show() {
    let Some(session) = pool() else {
        return;
    };
    session.ok(&["zfs", "set", "my:own=value", "tank/a"]);
    session.ok(&["zfs", "hold", "keep", "tank/a@1"]);
    session.ok(&["zfs", "bookmark", "tank/a@1", "tank/a#one"]);
    session.ok(&["zfs", "clone", "-u", "tank/a@1", "tank/c"]);
    for property in [
        "used",
        "guid",
        "compression",
        "creation",
        "recordsize",
        "quota",
        "type",
    ] {
        let shown = session.ok(&["zfs", "get", "-Hpo", "value", property, "tank/a"]);
        let script = format!("return zfs.get_prop('tank/a', '{property}')");
        let first = format!("local value = zfs.get_prop('tank/a', '{property}') return value");
        assert!(
            !session
                .run(&words(&line(&session, &[], &script, &[])))
                .status
                .success()
        );
        let found = value(&session, &first);
        let shown = shown.trim_end();
        let signed = shown.parse::<u64>().map(u64::cast_signed);
        let shown = signed.map_or_else(|_| format!("'{shown}'"), |number| number.to_string());
        assert_eq!(found, shown, "{property}");
    }
    let script = "
        local all = {}
        local function add(...) table.insert(all, table.concat({...}, ' ')) end
        for name in zfs.list.children('tank') do add(name) end
        for name in zfs.list.snapshots('tank/a') do add(name) end
        for name in zfs.list.clones('tank/a@1') do add(name) end
        for name in zfs.list.bookmarks('tank/a') do add(name) end
        for tag, time in zfs.list.holds('tank/a@1') do add(tag, tostring(time > 1000000000)) end
        for name, value, source in zfs.list.user_properties('tank/a/b') do add(name, value, source) end
        local _, local_source = zfs.get_prop('tank/a', 'my:own')
        local _, default = zfs.get_prop('tank/a', 'recordsize')
        local _, none = zfs.get_prop('tank/a', 'used')
        add(local_source, default, tostring(none), tostring(zfs.exists('tank/no')))
        add(#zfs.list.system_properties('tank/a') > 40 and 'many' or 'few')
        return table.concat(all, ',')
    ";
    let expected = "'tank/a,tank/c,tank/a@1,tank/a@2,tank/c,tank/a#one,keep true,my:own value tank/a,\
                    tank/a default nil false,many'";
    assert_eq!(value(&session, script), expected);
}

/// Options, a script, and a part of what is said of it.
const FAULTS: &[(&[&str], &str, &str)] = &[
    (
        &[],
        "x = = 1",
        "[string \"channel program\"]:1: unexpected symbol near '='",
    ),
    (
        &[],
        "\nerror('no')",
        "[string \"channel program\"]:2: no\nstack traceback:",
    ),
    (&[], "return 1, 2", "Multiple return values not supported"),
    (
        &[],
        "zfs.get_prop('tank/no', 'used')",
        "dataset 'tank/no' does not exist",
    ),
    (
        &[],
        "zfs.get_prop('tank', 'no')",
        "there is no property 'no'",
    ),
    (
        &[],
        "zfs.exists('pool/a')",
        "is not in the target pool 'tank'",
    ),
    (&["-n"], "zfs.sync.snapshot('tank@1')", "not with -n"),
    (
        &["-t", "1000"],
        "for i = 1, 2000 do end",
        "Channel program timed out.",
    ),
    (
        &["-m", "200000"],
        "return string.rep('a', 300000)",
        "Memory limit exhausted.",
    ),
    (
        &["-t", "100000001"],
        "",
        "Invalid instruction or memory limit.",
    ),
    (&[], "while true do end", "Channel program timed out."),
    (
        &[],
        "local s = 'a' while true do s = s .. s end",
        "Memory limit exhausted.",
    ),
    (
        &[],
        "string.find(string.rep('a', 9999), string.rep('a-', 30) .. 'b')",
        "timed out",
    ),
    (&[], "local t = {} t.t = t return t", "nested"),
];

#[test]
fn faults_are_told_and_the_pool_stays() {
    let Some(session) = pool() else {
        return;
    };
    let failed = |options: &[&str], script: &str, part: &str| {
        let text = refused(&session, options, script);
        let begin = "Channel program execution failed:\n";
        assert!(
            text.starts_with(begin) && text.contains(part),
            "{script}: {text}"
        );
    };
    for (options, script, part) in FAULTS {
        failed(options, script, part);
    }
    assert_eq!(snapshots(&session), "tank@0 tank/a@1 tank/a@2 tank/a/b@1");
    // What was done before stays.
    failed(&[], "zfs.sync.snapshot('tank@1') error('late')", "late");
    assert!(snapshots(&session).contains("tank@1"));
    let text = session.refused(&["zfs", "program", "no", "/dev/null"]);
    assert!(text.contains("cannot open 'no': no such pool"), "{text}");
    let text = session.refused(&["zfs", "program", "tank", "/no/such"]);
    assert!(text.contains("cannot open '/no/such'"), "{text}");
    let given = session.given("return 'in'", &["zfs", "program", "-n", "tank", "-"]);
    assert_eq!(String::from_utf8_lossy(&given.stdout), returned("'in'"));
}

/// Nothing else changes the pool meanwhile, and what is written goes on; who stops the command stops the program.
#[test]
fn a_program_that_is_stopped_lets_others_go_on() {
    let Some(session) = pool() else {
        return;
    };
    let script = "
        zfs.sync.snapshot('tank@begun')
        for i = 1, 20 do local s = string.rep('a', 4000000) for i = 1, 1000000 do local t = s .. i end end
    ";
    let line = line(
        &session,
        &["-m", "100000000", "-t", "100000000"],
        script,
        &[],
    );
    let mut command = session.command(&words(&line));
    let child = command.stderr(Stdio::piped()).spawn().expect("it runs");
    until("it began", || snapshots(&session).contains("tank@begun"));
    fs::write(session.mount("tank").join("file"), "written").expect("files are written");
    let file = fs::File::open(session.mount("tank").join("file")).expect("it is there");
    file.sync_all()
        .expect("a txg or the log gets it to the disk");
    let id = Pid::from_raw(child.id().cast_signed()).expect("a process");
    kill_process(id, Signal::TERM).expect("it runs");
    let ended = child.wait_with_output().expect("it ends");
    assert!(!ended.status.success());
    session.ok(&["zfs", "snapshot", "tank@after"]);
}

/// An instruction that joins large strings takes as long as ten thousands of others.
#[test]
fn a_program_ends_by_its_cpu_time() {
    let Some(session) = pool() else {
        return;
    };
    let script = "local s = string.rep('a', 20000000) while true do local t = s .. 'b' end";
    // Half a million instructions: an hour of this.
    let told = refused(&session, &["-m", "100000000", "-t", "500000"], script);
    assert!(told.contains("Channel program timed out."), "{told}");
}

/// What a program did before the server was killed is there, in its order, and nothing of what came behind.
#[test]
fn a_program_of_a_killed_server_was_done_up_to_somewhere() {
    let Some(mut session) = pool() else {
        return;
    };
    let script = "
        for i = 1, 100000 do
            zfs.sync.snapshot('tank/a@s' .. i)
            zfs.sync.set_prop('tank/a/b', 'at:step', tostring(i))
            if i > 2 then zfs.sync.destroy('tank/a@s' .. (i - 2)) end
        end
    ";
    let line = line(&session, &["-t", "100000000"], script, &[]);
    let mut command = session.command(&words(&line));
    let mut program = Running(command.stderr(Stdio::null()).spawn().expect("it runs"));
    let numbers = |list: &str| {
        let names = list.split(' ');
        let numbers = names.filter_map(|name| name.strip_prefix("tank/a@s"));
        let mut numbers: Vec<u64> = numbers.map(|number| number.parse().unwrap()).collect();
        numbers.sort_unstable();
        numbers
    };
    until("it made five", || {
        let made = numbers(&snapshots(&session));
        made.last().is_some_and(|last| *last >= 5)
    });
    kill_server(&session, "tank");
    assert!(!program.0.wait().expect("it ends").success());
    session.import("tank", &[]);
    let list = snapshots(&session);
    let numbers = numbers(&list);
    let step = session.ok(&["zfs", "get", "-H", "-o", "value", "at:step", "tank/a/b"]);
    let step: u64 = step.trim().parse().expect("a number");
    assert!(step >= 4, "{list}: {step}");
    // The last step may have come to its snapshot, to its property, or to its end.
    let possible = [
        vec![step - 1, step, step + 1],
        vec![step - 2, step - 1, step],
        vec![step - 1, step],
    ];
    assert!(possible.contains(&numbers), "{list}: {step}");
    session.export_clean("tank");
}
