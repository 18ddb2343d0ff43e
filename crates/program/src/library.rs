//! The functions of Lua that programs have.
//!
//! What the interpreter does within one of its own functions it does not count, so those that can take long for little
//! are counted here by what they are given, or replaced. Left out is what reaches outside, what catches errors, and
//! what the interpreter has beyond Lua 5.2.

use std::rc::Rc;

use mlua::{Error, Function, Lua, MultiValue, Table, Value};

use crate::errno;
use crate::meter::{Meter, STRIDE};
use crate::strings;

/// What programs have of the base library, beside the tables of functions.
const BASE: &[&str] = &[
    "assert",
    "error",
    "getmetatable",
    "ipairs",
    "next",
    "pairs",
    "rawequal",
    "rawget",
    "rawlen",
    "rawset",
    "select",
    "setmetatable",
    "tonumber",
    "tostring",
    "type",
    "coroutine",
    "string",
    "table",
    "_G",
];
const COROUTINE: &[&str] = &["create", "resume", "running", "status", "wrap", "yield"];
const STRING: &[&str] = &[
    "byte", "char", "format", "len", "lower", "reverse", "sub", "upper",
];
const TABLE: &[&str] = &["concat", "insert", "pack", "remove", "sort", "unpack"];
/// Of these the work goes with the length of the table.
const LONG: &[&str] = &["concat", "insert", "remove", "sort", "unpack"];

/// Makes the interpreter one for programs.
pub(crate) fn confine(lua: &Lua, meter: &Rc<Meter>) -> mlua::Result<()> {
    let globals = lua.globals();
    keep(&globals, BASE)?;
    let coroutine: Table = globals.raw_get("coroutine")?;
    keep(&coroutine, COROUTINE)?;
    for name in ["create", "wrap"] {
        counted_coroutine(lua, &coroutine, name, meter)?;
    }
    let string: Table = globals.raw_get("string")?;
    keep(&string, STRING)?;
    strings::install(lua, &string, meter)?;
    let table: Table = globals.raw_get("table")?;
    keep(&table, TABLE)?;
    for name in LONG {
        counted_table(lua, &table, name, meter)?;
    }
    careful_metatables(lua, &globals)?;
    globals.raw_set("collectgarbage", lua.create_function(collect)?)?;
    for (name, number) in errno::NAMES {
        globals.raw_set(*name, *number)?;
    }
    Ok(())
}

fn keep(table: &Table, names: &[&str]) -> mlua::Result<()> {
    for pair in table.pairs::<String, Value>() {
        let (name, _) = pair?;
        if !names.contains(&name.as_str()) {
            table.raw_set(name, Value::Nil)?;
        }
    }
    Ok(())
}

/// Each coroutine begins its instructions anew, so one that ends before the first look at the meter is counted whole.
fn counted_coroutine(
    lua: &Lua,
    coroutine: &Table,
    name: &str,
    meter: &Rc<Meter>,
) -> mlua::Result<()> {
    let original: Function = coroutine.raw_get(name)?;
    let meter = Rc::clone(meter);
    let counted = move |_: &Lua, body: Value| {
        meter.instructions(u64::from(STRIDE))?;
        original.call::<Value>(body)
    };
    coroutine.raw_set(name, lua.create_function(counted)?)
}

/// The interpreter goes by a table's length, which may be whatever a metatable says.
fn counted_table(
    lua: &Lua,
    functions: &Table,
    name: &'static str,
    meter: &Rc<Meter>,
) -> mlua::Result<()> {
    let original: Function = functions.raw_get(name)?;
    let meter = Rc::clone(meter);
    let counted = move |_: &Lua, arguments: MultiValue| {
        if let Some(Value::Table(table)) = arguments.front() {
            if let Some(metatable) = table.metatable() {
                for method in ["__index", "__len", "__newindex"] {
                    if metatable.raw_get::<Value>(method)? != Value::Nil {
                        let text = format!("'{name}' takes no table with a metamethod {method}");
                        return Err(Error::runtime(text));
                    }
                }
            }
            meter.work(table.raw_len() as u64)?;
        }
        original.call::<MultiValue>(arguments)
    };
    functions.raw_set(name, lua.create_function(counted)?)
}

/// What a finalizer does is not counted.
fn careful_metatables(lua: &Lua, globals: &Table) -> mlua::Result<()> {
    let original: Function = globals.raw_get("setmetatable")?;
    let careful = move |_: &Lua, arguments: MultiValue| {
        if let Some(Value::Table(metatable)) = arguments.get(1)
            && metatable.raw_get::<Value>("__gc")? != Value::Nil
        {
            return Err(Error::runtime("there are no finalizers (__gc)"));
        }
        original.call::<MultiValue>(arguments)
    };
    globals.raw_set("setmetatable", lua.create_function(careful)?)
}

fn collect(lua: &Lua, option: Option<String>) -> mlua::Result<i64> {
    match option.as_deref() {
        None | Some("collect") => {
            lua.gc_collect()?;
            Ok(0)
        }
        Some("count") => Ok(i64::try_from(lua.used_memory() / 1024).unwrap_or(i64::MAX)),
        // How the interpreter collects is its own business.
        Some(_) => Ok(0),
    }
}
