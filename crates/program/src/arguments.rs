//! Arguments of the functions of the table `zfs`: by place, or in one table by number and name.

use mlua::{Error, Lua, MultiValue, Table, Value};

/// An error of who called, with the place of the call.
pub(crate) fn fault(lua: &Lua, text: &str) -> Error {
    let line = lua.inspect_stack(1, |debug| debug.current_line()).flatten();
    match line {
        Some(line) => Error::runtime(format!("[string \"channel program\"]:{line}: {text}")),
        None => Error::runtime(text),
    }
}

/// The arguments of one call.
pub(crate) struct Arguments<'a> {
    lua: &'a Lua,
    /// What is called, as programs write it.
    function: &'static str,
    places: Vec<Value>,
    named: Option<Table>,
}

impl<'a> Arguments<'a> {
    /// Those of a function that takes so many by place, and these by name.
    ///
    /// # Errors
    /// There are others.
    pub(crate) fn new(
        lua: &'a Lua,
        function: &'static str,
        values: MultiValue,
        count: usize,
        names: &[&str],
    ) -> mlua::Result<Self> {
        let refuse = |text: String| Err(fault(lua, &format!("{function}: {text}")));
        let mut places = values.into_vec();
        let mut named = None;
        if let [Value::Table(table)] = places.as_slice() {
            let table = table.clone();
            for pair in table.pairs::<Value, Value>() {
                let (key, _) = pair?;
                let is_known = if let Value::Integer(place) = &key {
                    usize::try_from(*place).is_ok_and(|place| (1..=count).contains(&place))
                } else if let Value::String(name) = &key {
                    let is = |known: &&str| name.as_bytes() == known.as_bytes();
                    names.iter().any(is)
                } else {
                    false
                };
                if !is_known {
                    return refuse(format!("unknown argument '{}'", key.to_string()?));
                }
            }
            places = (1..=count)
                .map(|place| table.raw_get(place))
                .collect::<Result<_, _>>()?;
            named = Some(table);
        }
        if places.len() > count {
            return refuse("too many arguments".to_owned());
        }
        Ok(Self {
            lua,
            function,
            places,
            named,
        })
    }

    fn refuse<T>(&self, text: &str) -> mlua::Result<T> {
        Err(fault(self.lua, &format!("{}: {text}", self.function)))
    }

    /// A text by its place, counted from 0.
    ///
    /// # Errors
    /// It is missing, or none.
    pub(crate) fn text(&self, place: usize, what: &str) -> mlua::Result<String> {
        match self.places.get(place) {
            None | Some(Value::Nil) => self.refuse(&format!("missing argument '{what}'")),
            Some(value @ (Value::String(_) | Value::Integer(_))) => match value.to_string() {
                Ok(text) if !text.contains('\0') => Ok(text),
                _ => self.refuse(&format!("'{what}' is no text")),
            },
            Some(other) => {
                let kind = other.type_name();
                self.refuse(&format!("'{what}' must be a string, not a {kind}"))
            }
        }
    }

    /// Whether an argument with a name is true; without it it is not.
    ///
    /// # Errors
    /// It is something else.
    pub(crate) fn flag(&self, name: &str) -> mlua::Result<bool> {
        let value = match &self.named {
            Some(named) => named.raw_get(name)?,
            None => Value::Nil,
        };
        if let Value::Boolean(flag) = value {
            return Ok(flag);
        }
        if value.is_nil() {
            return Ok(false);
        }
        let kind = value.type_name();
        self.refuse(&format!("'{name}' must be a boolean, not a {kind}"))
    }
}
