//! `zfs load-key` and `zfs unload-key`.

use admin::changes::{ChangeKey, LoadKey, UnloadKey};
use admin::client::Connection;
use admin::queries::KeyRoots;
use admin::rows::dataset::{KEYFORMAT, KEYLOCATION, PBKDF2ITERS};
use admin::rows::{KeyLocation, Row};
use admin::{Assignments, Change, Failure, FailureKind, KeyRoot, Secret, Value};

use crate::arguments::assign_dataset;
use crate::daemons::{change, pool_of, running};
use crate::grammar::{Command, Invocation, Operands, option, switch};
use crate::key_material;
use crate::output::{MINUS_ONE, Outcome, Stop, complain, print, usage};

/// `zfs load-key`.
pub(super) const LOAD: Command = Command {
    name: "load-key",
    aliases: &[],
    summary: "Load the keys of encrypted datasets.",
    forms: &["-a", "filesystem|volume"],
    flags: &[
        switch("a", "of all pools"),
        switch("n", "only check whether the keys are correct"),
        switch("r", "include descendants"),
        option(
            "L",
            "keylocation",
            "use this key location instead of the stored one: prompt, file:///path or https://address",
        ),
    ],
    operands: Operands::between(0, 1, ""),
    run: load,
};

/// `zfs unload-key`.
pub(super) const UNLOAD: Command = Command {
    name: "unload-key",
    aliases: &[],
    summary: "Unload the keys of encrypted datasets.",
    forms: &["-a", "filesystem|volume"],
    flags: &[
        switch("a", "of all pools"),
        switch("r", "include descendants"),
    ],
    operands: Operands::between(0, 1, ""),
    run: unload,
};

/// `zfs change-key`.
pub(super) const CHANGE: Command = Command {
    name: "change-key",
    aliases: &[],
    summary: "Give an encrypted dataset another key, or its parent's.",
    forms: &["filesystem|volume"],
    flags: &[
        switch("l", "load the present key first"),
        switch("i", "take the parent's key"),
        option(
            "o",
            "property=value",
            "keyformat, keylocation or pbkdf2iters; may be repeated",
        ),
    ],
    operands: Operands::exactly(1, "Missing dataset argument"),
    run: change_key,
};

/// How often a key may be typed.
const ATTEMPTS: usize = 3;

fn load(call: &Invocation) -> Outcome {
    let dry_run = call.has("n");
    let done = if dry_run { "verified" } else { "loaded" };
    let location = call.value("L");
    each(call, done, &mut |connection, root| {
        load_one(connection, root, location, dry_run)
    })
}

fn change_key(call: &Invocation) -> Outcome {
    let name = call.operand(0);
    let properties = key_properties(call)?;
    let mut connection = pool_of(name)?;
    if call.has("l") {
        load_missing(&mut connection, Some(name), false)?;
    }
    let mut request = ChangeKey {
        name: name.to_owned(),
        properties,
        key: None,
    };
    if !call.has("i") {
        own_key(&mut connection, &mut request)?;
    }
    change(&mut connection, Change::ChangeKey(request), &call.line)
}

fn not_changed(text: impl std::fmt::Display) -> Failure {
    Failure::new(FailureKind::Invalid, format!("Key change error: {text}"))
}

/// What the new key is to be.
fn key_properties(call: &Invocation) -> Result<Assignments, Stop> {
    let mut properties = Assignments::new();
    for text in call.values("o") {
        assign_dataset(&mut properties, text, true).map_err(not_changed)?;
    }
    if call.has("i") && !properties.is_empty() {
        return Err(usage("Properties not permitted for inheriting"));
    }
    let known = [KEYFORMAT.row(), KEYLOCATION.row(), PBKDF2ITERS.row()];
    let is_known = |name: &str| known.iter().any(|row| row.is(name));
    if let Some((name, _)) = properties.iter().find(|(name, _)| !is_known(name)) {
        return Err(not_changed(format!("'{name}' says nothing of a key")).into());
    }
    Ok(properties)
}

/// Asks for a dataset's own key. What nobody says of it is as it was, where it had one.
fn own_key(connection: &mut Connection, request: &mut ChangeKey) -> Result<(), Failure> {
    let name = request.name.clone();
    let found = roots(connection, &name, false);
    let found = found.map_err(|_| not_changed("Dataset not encrypted."))?;
    let root = found.into_iter().next();
    let root = root.ok_or_else(|| not_changed("Dataset not encrypted."))?;
    if !root.loaded {
        return Err(not_changed("Key must be loaded."));
    }
    let own = (root.name == name).then_some(&root);
    let find = |row: &Row| request.properties.iter().find(|(name, _)| row.is(name));
    let number = |row: &Row| find(row).and_then(|(_, value)| value.number());
    let format = number(KEYFORMAT.row()).or(own.map(|root| root.format));
    let format =
        format.ok_or_else(|| not_changed("Keyformat required for new encryption root."))?;
    let location = find(KEYLOCATION.row()).and_then(|(_, value)| value.text());
    let location = location.or(own.map(|root| root.location.as_str()));
    let place = (
        location.unwrap_or(KeyLocation::DEFAULT),
        Some(name.as_str()),
    );
    let key = key_material::new_key(format, number(PBKDF2ITERS.row()), place);
    let key = key.map_err(not_changed)?;
    request.properties.retain(|(name, _)| !KEYFORMAT.is(name));
    let stated = (KEYFORMAT.name.to_owned(), Value::Number(format));
    request.properties.push(stated);
    request.key = Some(key);
    Ok(())
}

fn unload(call: &Invocation) -> Outcome {
    if let (Some(name), false, false) = (call.operands().first(), call.has("a"), call.has("r")) {
        return forget(&mut pool_of(name)?, name).map_err(|stop| match stop {
            Stop::Failure(failure) => {
                complain(&failure);
                Stop::Quiet(MINUS_ONE)
            }
            other @ (Stop::Usage(_) | Stop::Quiet(_)) => other,
        });
    }
    each(call, "unloaded", &mut |connection, root| {
        forget(connection, &root.name)
    })
}

/// Does something with the roots that a command names, going on after failures.
fn each(
    call: &Invocation,
    done: &str,
    act: &mut dyn FnMut(&mut Connection, &KeyRoot) -> Outcome,
) -> Outcome {
    let several = call.has("a") || call.has("r");
    let (connections, complete) = match (call.has("a"), call.operands().first()) {
        (true, Some(_)) => return Err(usage("too many arguments")),
        (true, None) => running()?,
        (false, Some(name)) => (vec![pool_of(name)?], true),
        (false, None) => return Err(usage("Missing dataset argument or -a option")),
    };
    let name = call.operands().first().map_or("", String::as_str);
    let (mut tried, mut succeeded) = (0_usize, 0_usize);
    for mut connection in connections {
        let roots = if several {
            let wanted = |root: &KeyRoot| root.loaded == (done == "unloaded") || call.has("n");
            let mut roots = roots(&mut connection, name, true)?;
            roots.retain(wanted);
            roots
        } else {
            vec![named(&mut connection, name)?]
        };
        for root in roots {
            tried += 1;
            match act(&mut connection, &root) {
                Ok(()) => succeeded += 1,
                Err(Stop::Failure(failure)) => complain(&failure),
                Err(_) => {}
            }
        }
    }
    if several || call.has("n") {
        print(&format!(
            "{succeeded} / {tried} key(s) successfully {done}\n"
        ))?;
    }
    if complete && succeeded == tried {
        Ok(())
    } else {
        Err(Stop::Quiet(MINUS_ONE))
    }
}

/// What a pool says of its roots of encryption.
pub(crate) fn roots(
    connection: &mut Connection,
    name: &str,
    below: bool,
) -> Result<Vec<KeyRoot>, Failure> {
    let name = name.to_owned();
    connection.ask(KeyRoots { name, below })
}

/// The root of a name; where that has its key from another, the daemon is left to say so.
fn named(connection: &mut Connection, name: &str) -> Result<KeyRoot, Stop> {
    let found = roots(connection, name, false).map_err(|failure| {
        complain(&failure);
        Stop::Quiet(MINUS_ONE)
    })?;
    let root = found.into_iter().next();
    let root = root.ok_or_else(|| usage("Missing dataset argument or -a option"))?;
    if root.name == name {
        return Ok(root);
    }
    let text = format!(
        "Keys must be loaded for encryption root of '{name}' ({}).",
        root.name
    );
    complain(&key_material::refused(admin::FailureKind::Invalid, text));
    Err(Stop::Quiet(MINUS_ONE))
}

/// Loads the key of a root, or tries it.
pub(crate) fn load_one(
    connection: &mut Connection,
    root: &KeyRoot,
    location: Option<&str>,
    dry_run: bool,
) -> Outcome {
    if root.loaded && !dry_run {
        let text = format!("Key already loaded for '{}'.", root.name);
        return Err(key_material::refused(admin::FailureKind::Exists, text).into());
    }
    let location = location.unwrap_or(&root.location);
    let attempts = if key_material::is_typed(location) {
        ATTEMPTS
    } else {
        1
    };
    let mut last = Ok(());
    for attempt in 1..=attempts {
        last = key_material::of_root(root, location)
            .map_err(Stop::from)
            .and_then(|key| {
                let load = LoadKey {
                    name: root.name.clone(),
                    key: Secret::new(key.to_hex()),
                    dry_run,
                };
                change(connection, Change::LoadKey(load), "")
            });
        match &last {
            Err(Stop::Failure(failure)) if attempt < attempts => complain(failure),
            Err(_) | Ok(()) => break,
        }
    }
    last
}

/// Forgets the key of a root.
pub(crate) fn forget(connection: &mut Connection, name: &str) -> Outcome {
    let name = name.to_owned();
    change(connection, Change::UnloadKey(UnloadKey { name }), "")
}

/// Loads what is missing for a dataset, or for all of a pool: what a mount with `-l` does first.
pub(crate) fn load_missing(
    connection: &mut Connection,
    name: Option<&str>,
    below: bool,
) -> Outcome {
    let mut wanted = Vec::new();
    match name {
        Some(name) => {
            // A dataset that is not encrypted needs none.
            wanted.extend(roots(connection, name, false).unwrap_or_default());
            if below {
                wanted.extend(roots(connection, name, true)?);
            }
        }
        None => wanted.extend(roots(connection, "", true)?),
    }
    wanted.sort_by(|one, other| one.name.cmp(&other.name));
    wanted.dedup_by(|one, other| one.name == other.name);
    let mut complete = true;
    for root in wanted.iter().filter(|root| !root.loaded) {
        match load_one(connection, root, None, false) {
            Ok(()) => {}
            Err(Stop::Failure(failure)) => {
                complain(&failure);
                complete = false;
            }
            Err(other) => return Err(other),
        }
    }
    crate::daemons::ended(complete)
}
