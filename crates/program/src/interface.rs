//! The table `zfs`: what programs ask and change.

use std::cell::Cell;

use mlua::{IntoLuaMulti, Lua, MultiValue, Scope, Table, Value as LuaValue};

use crate::arguments::{Arguments, fault};
use crate::{Action, Host, Listing, Mode, Refusal};

/// Whether a program may change anything.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Rights {
    /// It may.
    Change,
    /// It may only look.
    Look,
}

/// A change as programs write it.
struct Verb {
    name: &'static str,
    /// Of `zfs.sync` and of `zfs.check`, for messages.
    full: [&'static str; 2],
    places: usize,
    names: &'static [&'static str],
    make: fn(&Arguments<'_>) -> mlua::Result<Action>,
}

macro_rules! verb {
    ($name:literal, $places:literal, $names:expr, $make:expr) => {
        Verb {
            name: $name,
            full: [concat!("zfs.sync.", $name), concat!("zfs.check.", $name)],
            places: $places,
            names: $names,
            make: $make,
        }
    };
}

const VERBS: &[Verb] = &[
    verb!("destroy", 1, &["defer"], |given| {
        Ok(Action::Destroy {
            name: given.text(0, "dataset")?,
            deferred: given.flag("defer")?,
        })
    }),
    verb!("inherit", 2, &[], |given| {
        Ok(Action::Inherit {
            name: given.text(0, "dataset")?,
            property: given.text(1, "property")?,
        })
    }),
    verb!("promote", 1, &[], |given| {
        Ok(Action::Promote {
            name: given.text(0, "dataset")?,
        })
    }),
    verb!("rollback", 1, &[], |given| {
        Ok(Action::Rollback {
            name: given.text(0, "filesystem")?,
        })
    }),
    verb!("set_prop", 3, &[], set_property),
    // As the manual page of OpenZFS calls the check.
    verb!("set_property", 3, &[], set_property),
    verb!("snapshot", 1, &[], |given| {
        Ok(Action::Snapshot {
            name: given.text(0, "dataset")?,
        })
    }),
    verb!("rename_snapshot", 3, &[], |given| {
        Ok(Action::RenameSnapshot {
            dataset: given.text(0, "dataset")?,
            from: given.text(1, "oldsnapname")?,
            to: given.text(2, "newsnapname")?,
        })
    }),
    verb!("bookmark", 2, &[], |given| {
        Ok(Action::Bookmark {
            source: given.text(0, "source")?,
            name: given.text(1, "newbookmark")?,
        })
    }),
];

fn set_property(given: &Arguments<'_>) -> mlua::Result<Action> {
    Ok(Action::SetProperty {
        name: given.text(0, "dataset")?,
        property: given.text(1, "property")?,
        value: given.text(2, "value")?,
    })
}

/// Names of lists, as programs call them and for messages.
const LISTS: &[(&str, &str, Listing)] = &[
    ("children", "zfs.list.children", Listing::Children),
    ("snapshots", "zfs.list.snapshots", Listing::Snapshots),
    ("clones", "zfs.list.clones", Listing::Clones),
    ("bookmarks", "zfs.list.bookmarks", Listing::Bookmarks),
    ("holds", "zfs.list.holds", Listing::Holds),
    ("properties", "zfs.list.properties", Listing::UserProperties),
    (
        "user_properties",
        "zfs.list.user_properties",
        Listing::UserProperties,
    ),
];

/// Makes the table.
pub(crate) fn install<'scope, 'env>(
    lua: &Lua,
    scope: &'scope Scope<'scope, 'env>,
    host: &'env dyn Host,
    rights: Rights,
) -> mlua::Result<()> {
    let zfs = lua.create_table()?;
    zfs.raw_set(
        "debug",
        scope.create_function(|lua, values| {
            let given = Arguments::new(lua, "zfs.debug", values, 1, &[])?;
            host.note(&given.text(0, "msg")?);
            Ok(())
        })?,
    )?;
    zfs.raw_set(
        "exists",
        scope.create_function(|lua, values| {
            let given = Arguments::new(lua, "zfs.exists", values, 1, &[])?;
            let name = given.text(0, "dataset")?;
            host.exists(&name).map_err(|text| fault(lua, &text))
        })?,
    )?;
    let property = scope.create_function(|lua, values| {
        let given = Arguments::new(lua, "zfs.get_prop", values, 2, &[])?;
        let (name, property) = (given.text(0, "dataset")?, given.text(1, "property")?);
        let found = host.property(&name, &property);
        match found.map_err(|text| fault(lua, &text))? {
            Some((value, source)) => (value.to_lua(lua)?, source).into_lua_multi(lua),
            None => LuaValue::Nil.into_lua_multi(lua),
        }
    })?;
    zfs.raw_set("get_prop", property)?;
    zfs.raw_set("list", lists(lua, scope, host)?)?;
    zfs.raw_set("sync", verbs(lua, scope, host, (Mode::Do, rights))?)?;
    zfs.raw_set("check", verbs(lua, scope, host, (Mode::Check, rights))?)?;
    lua.globals().raw_set("zfs", zfs)
}

fn lists<'scope, 'env>(
    lua: &Lua,
    scope: &'scope Scope<'scope, 'env>,
    host: &'env dyn Host,
) -> mlua::Result<Table> {
    let table = lua.create_table()?;
    for (name, full, listing) in LISTS {
        let list = scope.create_function(move |lua, values| {
            let given = Arguments::new(lua, full, values, 1, &[])?;
            let found = host.list(*listing, &given.text(0, "dataset")?);
            let found = found.map_err(|text| fault(lua, &text))?;
            let at = Cell::new(0_usize);
            lua.create_function(move |lua, _: MultiValue| {
                let Some(entry) = found.get(at.get()) else {
                    return LuaValue::Nil.into_lua_multi(lua);
                };
                at.set(at.get() + 1);
                let values = entry.iter().map(|value| value.to_lua(lua));
                values.collect::<mlua::Result<MultiValue>>()
            })
        })?;
        table.raw_set(*name, list)?;
    }
    let system = scope.create_function(move |lua, values| {
        let given = Arguments::new(lua, "zfs.list.system_properties", values, 1, &[])?;
        let found = host.list(Listing::SystemProperties, &given.text(0, "dataset")?);
        let found = found.map_err(|text| fault(lua, &text))?;
        let names = found.into_iter().flatten().map(|value| value.to_lua(lua));
        lua.create_sequence_from(names.collect::<mlua::Result<Vec<_>>>()?)
    })?;
    table.raw_set("system_properties", system)?;
    Ok(table)
}

fn verbs<'scope, 'env>(
    lua: &Lua,
    scope: &'scope Scope<'scope, 'env>,
    host: &'env dyn Host,
    (mode, rights): (Mode, Rights),
) -> mlua::Result<Table> {
    let table = lua.create_table()?;
    for verb in VERBS {
        let [of_sync, of_check] = verb.full;
        let full = match mode {
            Mode::Do => of_sync,
            Mode::Check => of_check,
        };
        let function = scope.create_function(move |lua, values| {
            let given = Arguments::new(lua, full, values, verb.places, verb.names)?;
            let action = (verb.make)(&given)?;
            if mode == Mode::Do && rights == Rights::Look {
                let text = format!("{full} may only be called from syncing context, not with -n");
                return Err(fault(lua, &text));
            }
            match host.act(&action, mode) {
                Ok(()) => 0_i64.into_lua_multi(lua),
                Err(Refusal { errno, details }) if details.is_empty() => errno.into_lua_multi(lua),
                Err(Refusal { errno, details }) => {
                    let details = lua.create_sequence_from(details)?;
                    (errno, details).into_lua_multi(lua)
                }
            }
        })?;
        table.raw_set(verb.name, function)?;
    }
    Ok(table)
}

/// The table of arguments of a script.
pub(crate) fn script_arguments(lua: &Lua, arguments: &[String]) -> mlua::Result<Table> {
    let table = lua.create_table()?;
    table.raw_set(
        "argv",
        lua.create_sequence_from(arguments.iter().map(String::as_str))?,
    )?;
    Ok(table)
}

/// What is returned, from no values or one.
pub(crate) fn only(values: &MultiValue) -> Result<Option<&LuaValue>, &'static str> {
    match values.len() {
        0 => Ok(None),
        1 => Ok(values.front()),
        _ => Err("Multiple return values not supported"),
    }
}
