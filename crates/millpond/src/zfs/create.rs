//! `zfs create`.

use admin::changes::{Create, NewKey};
use admin::client::{self, Connection};
use admin::rows::Row;
use admin::rows::dataset::{ENCRYPTION, KEYFORMAT};
use admin::{Assignments, Change, Failure, FailureKind, NumberError, VolumeSpec, check_dataset};

use super::flags::{PROPERTY, UNMOUNTED};
use super::new_dataset::{properties, target};
use crate::arguments::assign_dataset;
use crate::daemons::change;
use crate::grammar::{Command, Invocation, Operands, option, switch};
use crate::key_material;
use crate::output::{Outcome, cannot, print, usage};

/// `zfs create`.
pub(super) const COMMAND: Command = Command {
    name: "create",
    aliases: &[],
    summary: "Create a file system or volume.",
    forms: &["filesystem|volume"],
    flags: &[
        switch("p", "create missing parents; succeed if it exists"),
        UNMOUNTED,
        switch("n", "only show what would be created"),
        switch("P", "the same, for scripts"),
        switch("v", "show what is created"),
        PROPERTY,
        switch("s", "no reservation for the volume"),
        option("b", "blocksize", "a volume's block size"),
        option("V", "size", "create a volume of this size"),
    ],
    operands: Operands::exactly(1, "missing filesystem argument"),
    run: create,
};

fn create(call: &Invocation) -> Outcome {
    let name = call.operand(0);
    let volume_only = ["s", "b"].iter().any(|flag| call.has(flag));
    if volume_only && !call.has("V") {
        return Err(usage(
            "'-s' and '-b' can only be used when creating a volume",
        ));
    }
    check_dataset(name).map_err(|error| cannot("create", name, error))?;
    if !name.contains('/') {
        if call.has("p") && client::connect(name)?.is_some() {
            return Ok(()); // a pool's root is there already
        }
        return Err(cannot("create", name, "missing dataset name")
            .advise(format!(
                "use 'zpool create {name}' to create a storage pool"
            ))
            .into());
    }
    let mut properties = properties(call, "create", name)?;
    let volume = match call.value("V") {
        None => None,
        Some(text) => {
            let size = admin::parse_size(text).map_err(|error| bad_size(text, &error))?;
            if let Some(block) = call.value("b") {
                assign_dataset(&mut properties, &format!("volblocksize={block}"), true)
                    .map_err(|error| cannot("create", name, error))?;
            }
            if size == 0 {
                return Err(cannot("create", name, "volume size cannot be zero").into());
            }
            Some(VolumeSpec {
                size,
                sparse: call.has("s"),
            })
        }
    };
    let mut connection = target("create", name)?;
    if call.has("n") || call.has("v") {
        print(&announcement(call, name))?;
    }
    if call.has("n") {
        return Ok(());
    }
    let key = key(&mut connection, name, &properties)?;
    let request = Change::Create(Create {
        name: name.to_owned(),
        volume,
        key,
        properties,
        parents: call.has("p"),
        unmounted: call.has("u"),
    });
    change(&mut connection, request, &call.line)
}

fn bad_size(text: &str, error: &NumberError) -> Failure {
    Failure::new(
        FailureKind::Invalid,
        format!("bad volume size '{text}': {error}"),
    )
}

/// The key of a new root of encryption. It is not asked for where the parent says that there will be no encryption.
fn key(
    connection: &mut Connection,
    name: &str,
    properties: &Assignments,
) -> Result<Option<NewKey>, Failure> {
    let is_given = |row: &Row| properties.iter().any(|(property, _)| row.is(property));
    let parent = admin::parent_of(name).unwrap_or(name);
    let inherits = is_given(KEYFORMAT.row()) && !is_given(ENCRYPTION.row());
    if inherits && super::keys::roots(connection, parent, false).is_err() {
        let text = "Encryption must be turned on to set encryption properties.";
        return Err(cannot("create", name, text));
    }
    key_material::for_new_dataset("create", name, properties)
}

fn announcement(call: &Invocation, name: &str) -> String {
    let mut out = match (call.has("P"), call.has("n")) {
        (true, _) => format!("create\t{name}\n"),
        (false, true) => format!("would create {name}\n"),
        (false, false) => format!("create {name}\n"),
    };
    for text in call.values("o") {
        let (property, value) = text.split_once('=').unwrap_or((text, ""));
        out += &if call.has("P") {
            format!("property\t{property}\t{value}\n")
        } else {
            format!("\t{property}={value}\n")
        };
    }
    out
}
