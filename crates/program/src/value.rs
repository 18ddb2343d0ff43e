//! What programs get and return.

use std::collections::BTreeMap;

use mlua::{Error, Lua, Table, Value as LuaValue};

/// How deep tables may lie in each other.
const DEPTH_MAX: usize = 20;
/// What an entry counts beside its text.
const ENTRY_BYTES: usize = 32;

/// A value that goes in or comes out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Value {
    /// There is none.
    Nil,
    /// True or false.
    Boolean(bool),
    /// A whole number.
    Number(i64),
    /// Text.
    Text(String),
    /// A table: keys that were numbers by their numbers, then all others by their bytes.
    Table(Vec<(String, Self)>),
}

impl Value {
    /// The same for Lua.
    pub(crate) fn to_lua(&self, lua: &Lua) -> mlua::Result<LuaValue> {
        Ok(match self {
            Self::Nil => LuaValue::Nil,
            Self::Boolean(boolean) => LuaValue::Boolean(*boolean),
            Self::Number(number) => LuaValue::Integer(*number),
            Self::Text(text) => LuaValue::String(lua.create_string(text)?),
            Self::Table(entries) => {
                let table = lua.create_table()?;
                for (key, value) in entries {
                    table.raw_set(key.as_str(), value.to_lua(lua)?)?;
                }
                LuaValue::Table(table)
            }
        })
    }

    /// What a program returned, if it takes no more than so many bytes.
    pub(crate) fn from_lua(value: &LuaValue, bytes_max: usize) -> Result<Self, Unreturnable> {
        let mut left = bytes_max;
        convert(value, 0, &mut left)
    }
}

/// Why a value cannot be returned.
#[derive(Debug)]
pub(crate) enum Unreturnable {
    /// It takes too much room.
    TooLarge,
    /// It is of no kind that can be.
    Kind(String),
    /// It could not be read.
    Lua(Error),
}

impl From<Error> for Unreturnable {
    fn from(error: Error) -> Self {
        Self::Lua(error)
    }
}

/// A key in the order in which it is shown.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
enum Key {
    Number(i64),
    Text(String),
}

fn convert(value: &LuaValue, depth: usize, left: &mut usize) -> Result<Value, Unreturnable> {
    take(left, ENTRY_BYTES)?;
    if value.is_nil() {
        return Ok(Value::Nil);
    }
    if let LuaValue::Boolean(boolean) = value {
        return Ok(Value::Boolean(*boolean));
    }
    if let LuaValue::String(text) = value {
        let text = text.to_string_lossy();
        take(left, text.len())?;
        return Ok(Value::Text(text));
    }
    if let LuaValue::Table(table) = value {
        return Ok(Value::Table(convert_table(table, depth, left)?));
    }
    match number(value) {
        Some(number) => Ok(Value::Number(number?)),
        None => Err(kind(format!("a {} cannot be returned", value.type_name()))),
    }
}

/// A number, if it is one.
fn number(value: &LuaValue) -> Option<Result<i64, Unreturnable>> {
    if let LuaValue::Integer(number) = value {
        Some(Ok(*number))
    } else if let LuaValue::Number(number) = value {
        Some(whole(*number))
    } else {
        None
    }
}

fn convert_table(
    table: &Table,
    depth: usize,
    left: &mut usize,
) -> Result<Vec<(String, Value)>, Unreturnable> {
    if depth >= DEPTH_MAX {
        let text = format!("tables are nested more than {DEPTH_MAX} deep");
        return Err(kind(text));
    }
    let mut found = BTreeMap::new();
    let mut seen = std::collections::BTreeSet::new();
    for pair in table.pairs::<LuaValue, LuaValue>() {
        let (key, value) = pair?;
        let key = if let LuaValue::String(text) = &key {
            Key::Text(text.to_string_lossy())
        } else if let LuaValue::Boolean(boolean) = &key {
            Key::Text(boolean.to_string())
        } else if let Some(number) = number(&key) {
            Key::Number(number?)
        } else {
            let text = format!("a {} as a key cannot be returned", key.type_name());
            return Err(kind(text));
        };
        let name = match &key {
            Key::Number(number) => number.to_string(),
            Key::Text(text) => text.clone(),
        };
        take(left, name.len())?;
        if !seen.insert(name.clone()) {
            return Err(kind(format!("two keys of a table are called '{name}'")));
        }
        found.insert(key, (name, convert(&value, depth + 1, left)?));
    }
    Ok(found.into_values().collect())
}

fn kind(text: String) -> Unreturnable {
    Unreturnable::Kind(text)
}

fn take(left: &mut usize, bytes: usize) -> Result<(), Unreturnable> {
    *left = left.checked_sub(bytes).ok_or(Unreturnable::TooLarge)?;
    Ok(())
}

/// A number of the kind with fractions, which come of `^` alone.
fn whole(number: f64) -> Result<i64, Unreturnable> {
    const LIMIT: f64 = 9_223_372_036_854_775_808.0;
    if number.fract() == 0.0 && (-LIMIT..LIMIT).contains(&number) {
        #[expect(clippy::cast_possible_truncation, reason = "it is whole and in range")]
        return Ok(number as i64);
    }
    Err(kind(format!("{number} is no whole number")))
}
