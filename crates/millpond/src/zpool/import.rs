//! `zpool import`.

use std::path::{Path, PathBuf};

use admin::changes::Mount;
use admin::rows::pool::{ALTROOT, READONLY};
use admin::{
    Assignments, Change, Failure, FailureKind, ImportCandidate, ImportRequest, KnownPool,
    OpenRequest, PropertyError, VdevNaming, VdevState,
    client::{self, Connection, Silent},
};
use control::Found;

use super::create::own_directory;
use super::flags::{ALTERNATE_ROOT, altroot};
use crate::arguments::{assign_pool, bad_assignment, number};
use crate::daemons::{Pools, note};
use crate::grammar::{Command, Invocation, Operands, option, switch};
use crate::output::{Outcome, Stop, complain, print, usage};
use crate::zfs::keys::load_missing;

/// `zpool import`.
pub(super) const COMMAND: Command = Command {
    name: "import",
    aliases: &[],
    summary: "Import pools, or list those that can be imported.",
    forms: &["", "-a", "pool|id [newpool]"],
    flags: &[
        switch("a", "all pools found"),
        option(
            "d",
            "dir|device",
            "where to look, also a URI of NBD; may be repeated",
        ),
        option("c", "cachefile", "look in a cache file"),
        switch("D", "destroyed pools"),
        switch("f", "even if it was in use on another host"),
        switch("F", "go back a few transactions if necessary"),
        switch("n", "only try what -F would do"),
        switch("X", "go back as far as necessary"),
        option("T", "txg", "not beyond this transaction group"),
        switch("rewind-to-checkpoint", "go back to the checkpoint"),
        switch("m", "even without its log devices"),
        switch("N", "mount nothing"),
        switch("l", "load keys"),
        option(
            "o",
            "property=value|mntopts",
            "a pool property or mount options",
        ),
        ALTERNATE_ROOT,
        switch("s", "look in the default places, too"),
        switch("t", "the new name is temporary"),
    ],
    operands: Operands::between(0, 2, ""),
    run: import,
};

/// Words that `-o` may hold besides `property=value`.
pub(super) const MOUNT_OPTIONS: [&str; 14] = [
    "ro",
    "rw",
    "atime",
    "noatime",
    "relatime",
    "norelatime",
    "exec",
    "noexec",
    "setuid",
    "nosetuid",
    "devices",
    "nodevices",
    "writeback",
    "nowriteback",
];

fn import(call: &Invocation) -> Outcome {
    if call.has("c") && call.has("d") {
        return Err(usage("-c is incompatible with -d"));
    }
    if call.has("n") && !call.has("F") {
        return Err(usage("-n or -X only meaningful with -F"));
    }
    if call.has("a") && !call.operands().is_empty() {
        return Err(usage("too many arguments"));
    }
    let mut pools = match call.operands().first() {
        Some(wanted) => Pools::beside(wanted)?,
        None => Pools::find()?,
    };
    if call.has("c") || call.has("D") {
        pools.absent.clear();
    }
    let search = match call.value("c") {
        Some(path) => cached(path)?,
        None => places(call, &pools.absent)?,
    };
    let running = &pools.running;
    let here = |found: &Found| running.iter().any(|c| c.guid() == found.candidate.guid);
    let lists = call.operands().is_empty() && !call.has("a");
    let all = match lists {
        true => to_be_listed(call, &search, running)?,
        false => control::discover(&search)?,
    };
    let (here, mut found): (Vec<Found>, Vec<Found>) = all.into_iter().partition(here);
    found.retain(|found| found.candidate.destroyed == call.has("D"));
    if call.has("a") {
        return import_all(call, &found, &search, &pools);
    }
    let Some(wanted) = call.operands().first() else {
        if found.is_empty() && !here.is_empty() && call.has("d") {
            complain(&"no pools available to import");
            complain(&imported_already(&here, running));
            return Ok(());
        }
        return list(call, &found, &search, &pools);
    };
    if let Some(connection) = running.iter().find(|c| c.pool() == wanted)
        && !found.iter().any(|found| matches(found, wanted))
    {
        return Err(taken(connection.pool()).into());
    }
    let is_wanted = |found: &Found| matches(found, wanted);
    let runs = here.iter().any(is_wanted) && !found.iter().any(is_wanted);
    if runs || (found.is_empty() && !here.is_empty()) {
        let reason = "no such pool available";
        let failure = Failure::cannot(FailureKind::Missing, "import", wanted, reason);
        return Err(failure.advise(imported_already(&here, running)).into());
    }
    let chosen = choose(&found, wanted, &search);
    if let Some(failure) = unanswered(&pools.silent, wanted, chosen.as_ref().ok()) {
        return Err(failure.clone().into());
    }
    let chosen = chosen.map_err(|failure| with_gone(call, failure, wanted, &pools.absent))?;
    let new_name = call.operands().get(1).map(String::as_str);
    import_one(call, chosen, new_name, &search, &pools.absent)
}

/// The pools that are there; of those that are listed, it is found out whether they can be imported.
fn to_be_listed(
    call: &Invocation,
    search: &[PathBuf],
    running: &[Connection],
) -> Result<Vec<Found>, Failure> {
    let guids: Vec<u64> = running.iter().map(Connection::guid).collect();
    let wants_destroyed = call.has("D");
    let is_listed = |found: &ImportCandidate| {
        found.destroyed == wants_destroyed && !guids.contains(&found.guid)
    };
    control::discover_watching(search, &is_listed)
}

/// What is said of the daemon of the wanted pool that does not answer. A pool that is served is not looked for where it
/// was, and so may not be found.
fn unanswered<'a>(
    silent: &'a [Silent],
    wanted: &str,
    chosen: Option<&&Found>,
) -> Option<&'a Failure> {
    let serves = |silent: &&Silent| match chosen {
        Some(chosen) => silent.guid == Some(chosen.candidate.guid),
        None => {
            silent.pool.as_deref() == Some(wanted)
                || silent.guid.is_some_and(|guid| wanted.parse() == Ok(guid))
        }
    };
    silent.iter().find(serves).map(|silent| &silent.failure)
}

/// Where to look, which for a pool that was served here is where it was, unless told otherwise.
pub(crate) fn places(call: &Invocation, absent: &[KnownPool]) -> Result<Vec<PathBuf>, Failure> {
    if call.has("d") {
        return Ok(search(call));
    }
    let Some(wanted) = call.operands().first() else {
        let mut places = search(call);
        if call.has("a") {
            places.extend(absent.iter().flat_map(KnownPool::present));
        }
        return Ok(places);
    };
    let known = absent.iter().filter(|known| is_of(known, wanted));
    let known: Vec<PathBuf> = known.flat_map(KnownPool::present).collect();
    let found = match known.as_slice() {
        // No place at all would mean everywhere.
        [] => Vec::new(),
        known => control::discover(known)?,
    };
    let has_all = |found: &Found| found.candidate.state == VdevState::Online;
    if found
        .iter()
        .any(|found| matches(found, wanted) && has_all(found))
    {
        return Ok(known);
    }
    Ok(search(call).into_iter().chain(known).collect())
}

/// The devices that a cache file names, as far as they are there.
fn cached(path: &str) -> Result<Vec<PathBuf>, Failure> {
    let devices = control::cached_devices(std::path::Path::new(path)).map_err(|error| {
        let reason = base::host_reason(&error);
        let text = format!("failed to open cache file '{path}': {reason}");
        Failure::new(FailureKind::Missing, text)
    })?;
    let mut there: Vec<_> = devices
        .into_iter()
        .filter(|path| control::device_exists(path))
        .collect();
    if there.is_empty() {
        // No place at all would mean everywhere.
        there.push(PathBuf::from(path));
    }
    Ok(there)
}

/// About pools that are where somebody looks, and run.
fn imported_already(here: &[Found], running: &[Connection]) -> String {
    let named = |found: &Found| {
        let pool = &found.candidate;
        match running.iter().find(|it| it.guid() == pool.guid) {
            Some(daemon) if daemon.pool() != pool.name => {
                format!("'{}' (as '{}')", pool.name, daemon.pool())
            }
            Some(_) | None => format!("'{}'", pool.name),
        }
    };
    let names: Vec<String> = here.iter().map(named).collect();
    let verb = if names.len() == 1 { "is" } else { "are" };
    format!("{} {verb} imported already", names.join(", "))
}

fn taken(name: &str) -> Failure {
    Failure::new(
        FailureKind::Exists,
        format!("cannot import '{name}': a pool with that name is already created/imported,"),
    )
    .advise("and no additional pools with that name were found")
}

/// Where to look: `-d`, or the environment, or nowhere in particular.
pub(crate) fn search(call: &Invocation) -> Vec<PathBuf> {
    let mut places: Vec<PathBuf> = call.values("d").map(PathBuf::from).collect();
    if places.is_empty() || call.has("s") {
        match std::env::var("ZPOOL_IMPORT_PATH") {
            Ok(paths) => places.extend(control::paths_in(&paths)),
            Err(_) => places.push(PathBuf::from("/dev")),
        }
    }
    places
        .into_iter()
        .map(|place| control::absolute(&place))
        .collect()
}

fn list(call: &Invocation, found: &[Found], search: &[PathBuf], pools: &Pools) -> Outcome {
    let notes = !call.has("d") && !pools.absent.is_empty();
    if notes {
        pools.note_absent();
    }
    if found.is_empty() && notes {
        return Ok(());
    }
    if found.is_empty() {
        complain(&"no pools available to import");
        for line in hints(found, search) {
            complain(&line);
        }
        return Ok(());
    }
    let candidates = found.iter().map(|found| found.candidate.clone());
    let candidates: Vec<_> = candidates.collect();
    print(&crate::render::import_list(
        &candidates,
        VdevNaming::default(),
    ))
}

fn matches(found: &Found, wanted: &str) -> bool {
    match wanted.parse::<u64>() {
        Ok(guid) => found.candidate.guid == guid,
        Err(_) => found.candidate.name == wanted,
    }
}

pub(crate) fn choose<'a>(
    found: &'a [Found],
    wanted: &str,
    search: &[PathBuf],
) -> Result<&'a Found, Failure> {
    let mut matching = found.iter().filter(|found| matches(found, wanted));
    let Some(chosen) = matching.next() else {
        let reason = "no such pool available";
        let failure = Failure::cannot(FailureKind::Missing, "import", wanted, reason);
        return Err(hints(found, search)
            .into_iter()
            .fold(failure, Failure::advise));
    };
    if matching.next().is_some() {
        let reason = "more than one matching pool";
        return Err(
            Failure::cannot(FailureKind::Invalid, "import", wanted, reason)
                .advise("import by numeric ID instead"),
        );
    }
    Ok(chosen)
}

/// With what became of the devices of a pool that was served here and is not found.
pub(crate) fn with_gone(
    call: &Invocation,
    failure: Failure,
    wanted: &str,
    absent: &[KnownPool],
) -> Failure {
    let is_gone = |known: &&KnownPool| is_of(known, wanted) && known.present().is_empty();
    match absent.iter().find(is_gone).filter(|_| !call.has("d")) {
        // Where else it may be only the user knows: what was looked at says nothing.
        Some(gone) => Failure {
            advice: Vec::new(),
            ..failure
        }
        .advise(note(gone)),
        None => failure,
    }
}

/// Whether a pool is meant by this name or guid.
fn is_of(known: &KnownPool, wanted: &str) -> bool {
    known.name == wanted || wanted.parse() == Ok(known.guid)
}

/// What there is instead of the pool that was asked for.
fn hints(found: &[Found], search: &[PathBuf]) -> Vec<String> {
    if found.is_empty() {
        let mut lines = control::explain_nothing(search);
        if search.iter().all(|place| place == Path::new("/dev")) {
            lines.push("image files are looked for with '-d FILE' or '-d DIRECTORY'".to_owned());
        }
        return lines;
    }
    let names: Vec<&str> = found
        .iter()
        .map(|found| found.candidate.name.as_str())
        .collect();
    vec![format!("pools that are there: {}", names.join(", "))]
}

fn import_all(call: &Invocation, found: &[Found], search: &[PathBuf], pools: &Pools) -> Outcome {
    let mut status = Ok(());
    if !call.has("d") {
        let guids: Vec<u64> = found.iter().map(|found| found.candidate.guid).collect();
        for lost in pools.absent.iter().filter(|it| !guids.contains(&it.guid)) {
            complain(&note(lost));
            status = Err(Stop::Quiet(1));
        }
    }
    if found.is_empty() {
        complain(&"no pools available to import");
    }
    for pool in found {
        match import_one(call, pool, None, search, &pools.absent) {
            Err(Stop::Failure(failure)) => {
                complain(&failure);
                status = Err(Stop::Quiet(1));
            }
            Err(other) => return Err(other),
            Ok(()) => {}
        }
    }
    status
}

fn import_one(
    call: &Invocation,
    found: &Found,
    new_name: Option<&str>,
    search: &[PathBuf],
    absent: &[KnownPool],
) -> Outcome {
    let name = &found.candidate.name;
    let target = new_name.unwrap_or(name);
    admin::check_pool(target)
        .map_err(|error| Failure::cannot(FailureKind::Invalid, "import", target, error))?;
    if client::connect(target)?.is_some() {
        let reason = "a pool with that name already exists";
        return Err(
            Failure::cannot(FailureKind::Exists, "import", target, reason)
                .advise("use the form 'zpool import <pool | id> <newpool>' to give it a new name")
                .into(),
        );
    }
    let mut request = request(call, found, new_name, search)?;
    as_before(call, &mut request, absent);
    let below = request.altroot.is_some();
    let mount_later = call.has("l") && !request.unmounted;
    request.unmounted |= mount_later;
    let options = request.mount_options.clone();
    let mut lacks_keys = false;
    let started = crate::daemons::start(&OpenRequest::Import(request)).and_then(|()| {
        if !call.has("l") {
            return Ok(());
        }
        let mut connection = crate::daemons::pool(target)?;
        let loaded = load_missing(&mut connection, None, true);
        lacks_keys = loaded.is_err();
        if mount_later {
            mount_all(&mut connection, options)?;
        }
        loaded
    });
    match started {
        // The pool is there all the same.
        Err(Stop::Quiet(_)) => {
            complain(&"Import was successful, but unable to mount some datasets");
            if !rustix::process::getuid().is_root() && !below {
                let place = own_directory();
                let place = place.display();
                complain(&format_args!(
                    "export it, and import it below a directory of your own: '-R {place}'"
                ));
            }
            // Who asked for the keys is to learn that some are not there.
            match lacks_keys {
                true => Err(Stop::Quiet(1)),
                false => Ok(()),
            }
        }
        Err(Stop::Failure(failure)) if failure.kind == FailureKind::Busy => {
            let holder = found.holder().map(|holder| format!("in use by: {holder}"));
            Err(holder.into_iter().fold(failure, Failure::because).into())
        }
        started => started,
    }
}

/// Mounts the file systems of a pool that was imported without.
pub(super) fn mount_all(connection: &mut client::Connection, options: Vec<String>) -> Outcome {
    let mount = Change::Mount(Mount {
        name: None,
        at: None,
        options,
        overlay: false,
        force: false,
        recursive: false,
    });
    crate::daemons::change(connection, mount, "")
}

/// A pool that was served here comes back where it was, unless told otherwise.
pub(crate) fn as_before(call: &Invocation, request: &mut ImportRequest, absent: &[KnownPool]) {
    let known = absent.iter().find(|known| known.guid == request.guid);
    if let Some(known) = known {
        // This host may have another name now, and a stranger's pool has been written by it.
        request.of_stranger.clone_from(&known.of_stranger);
    }
    let Some(known) = known.filter(|_| !call.has("d")) else {
        return;
    };
    if request.altroot.is_none()
        && let Some(root) = &known.altroot
    {
        let (name, root) = (&known.name, root.display());
        complain(&format!(
            "{name}: below {root}, as before; '-R' for another place"
        ));
        request.altroot.clone_from(&known.altroot);
    }
    let said = call.values("o").any(|text| text.starts_with("readonly="));
    if known.readonly && !said {
        let name = &known.name;
        complain(&format!(
            "{name}: read-only, as before; '-o readonly=off' to write"
        ));
        request.readonly = true;
    }
}

pub(crate) fn request(
    call: &Invocation,
    found: &Found,
    new_name: Option<&str>,
    search: &[PathBuf],
) -> Result<ImportRequest, Stop> {
    let name = &found.candidate.name;
    let mut properties = Assignments::new();
    let mut mount_options = Vec::new();
    for text in call.values("o") {
        if text.contains('=') {
            assign_pool(&mut properties, text)
                .map_err(|error| bad_assignment("import", name, &error))?;
        } else {
            for option in text.split(',') {
                if !MOUNT_OPTIONS.contains(&option) {
                    return Err(usage(format!("invalid mount option '{option}'")));
                }
                mount_options.push(option.to_owned());
            }
        }
    }
    let readonly = properties
        .iter()
        .position(|(property, _)| READONLY.is(property))
        .map(|at| properties.remove(at).1 == admin::Value::Number(1));
    let altroot = altroot(call, &mut properties);
    if altroot.as_ref().is_some_and(|root| root.is_relative()) {
        let error = PropertyError::NotAbsolute(ALTROOT.name);
        return Err(Failure::cannot(FailureKind::Invalid, "import", name, error).into());
    }
    Ok(ImportRequest {
        guid: found.candidate.guid,
        name: name.clone(),
        new_name: new_name.map(str::to_owned),
        temporary: call.has("t"),
        search: search.to_vec(),
        readonly: readonly.unwrap_or(false),
        force: call.has("f"),
        rewind: call.has("F"),
        rewind_extreme: call.has("X"),
        to_checkpoint: call.has("rewind-to-checkpoint"),
        dry_run: call.has("n"),
        txg_max: call
            .value("T")
            .map(|text| number(text, "txg value"))
            .transpose()?,
        destroyed: call.has("D"),
        missing_log: call.has("m"),
        unmounted: call.has("N"),
        altroot,
        properties,
        of_stranger: found.of_stranger.clone(),
        mount_options,
        command: call.line.clone(),
    })
}
