//! What the rows are built with: a row of each kind, and steps that say one fact more each.

use super::Row;
use crate::property::facts::{
    Access, Default, Effect, Home, Kind, MountOption, Need, Number, Range, Shown, Support,
    TextRule, Types, Word,
};
use crate::property::figure::Measured;

/// A measured number.
pub(in crate::property) const fn number(
    name: &'static str,
    column: &'static str,
    format: Number,
    values: &'static str,
) -> Row {
    within(name, column, format, Range::Any, values)
}

/// A number of which not every value may be set.
pub(in crate::property) const fn within(
    name: &'static str,
    column: &'static str,
    format: Number,
    range: Range,
    values: &'static str,
) -> Row {
    Row::new(name, column, Kind::Number(format, range)).values(values)
}

/// Text that is not set by anyone.
pub(in crate::property) const fn text(
    name: &'static str,
    column: &'static str,
    values: &'static str,
) -> Row {
    ruled(name, column, TextRule::Any, values)
}

/// Text that must have a form.
pub(in crate::property) const fn ruled(
    name: &'static str,
    column: &'static str,
    rule: TextRule,
    values: &'static str,
) -> Row {
    Row::new(name, column, Kind::Text(rule)).values(values)
}

/// An enumeration that children inherit.
pub(in crate::property) const fn index(
    name: &'static str,
    column: &'static str,
    words: &'static [Word],
    default: u64,
) -> Row {
    Row::new(name, column, Kind::Index(words))
        .settable(Default::Number(default))
        .inherited()
}

impl Row {
    /// A row of which nothing is known but what it must have.
    pub(in crate::property) const fn new(
        name: &'static str,
        column: &'static str,
        kind: Kind,
    ) -> Self {
        Self {
            name,
            column,
            kind,
            access: Access::ReadOnly,
            inherits: false,
            default: Default::Nothing,
            values: "",
            types: Types::ALL,
            visible: true,
            home: Home::Table,
            measured: Measured::No,
            shown: Shown::Plain,
            needs: &[],
            effects: &[],
            mount: None,
            support: Support::Full,
            stand_in: None,
        }
    }

    pub(in crate::property) const fn settable(self, default: Default) -> Self {
        Self {
            access: Access::Settable,
            default,
            ..self
        }
    }

    pub(in crate::property) const fn inherited(self) -> Self {
        Self {
            inherits: true,
            ..self
        }
    }

    pub(in crate::property) const fn own(self) -> Self {
        Self {
            inherits: false,
            ..self
        }
    }

    pub(in crate::property) const fn at_creation(self) -> Self {
        Self {
            access: Access::AtCreation,
            ..self
        }
    }

    /// Set by nobody.
    pub(in crate::property) const fn read_only(self) -> Self {
        Self {
            access: Access::ReadOnly,
            inherits: false,
            default: Default::Nothing,
            ..self
        }
    }

    /// What may be written, where it is not simply the words.
    pub(in crate::property) const fn values(self, values: &'static str) -> Self {
        Self { values, ..self }
    }

    pub(in crate::property) const fn types(self, types: Types) -> Self {
        Self { types, ..self }
    }

    pub(in crate::property) const fn hidden(self) -> Self {
        Self {
            visible: false,
            ..self
        }
    }

    pub(in crate::property) const fn inside(self, home: Home) -> Self {
        Self { home, ..self }
    }

    pub(in crate::property) const fn default(self, default: Default) -> Self {
        Self { default, ..self }
    }

    pub(in crate::property) const fn measured(self, measured: Measured) -> Self {
        Self { measured, ..self }
    }

    pub(in crate::property) const fn shown(self, shown: Shown) -> Self {
        Self { shown, ..self }
    }

    pub(in crate::property) const fn needs(self, needs: &'static [Need]) -> Self {
        Self { needs, ..self }
    }

    pub(in crate::property) const fn effects(self, effects: &'static [Effect]) -> Self {
        Self { effects, ..self }
    }

    pub(in crate::property) const fn mount(self, option: MountOption) -> Self {
        Self {
            mount: Some(option),
            ..self
        }
    }

    /// Nothing here goes by it.
    pub(in crate::property) const fn stored(self) -> Self {
        self.support(Support::Stored)
    }

    pub(in crate::property) const fn support(self, support: Support) -> Self {
        Self { support, ..self }
    }

    /// Numbers from `from` on are stored as `instead`, with the true one beside it.
    pub(in crate::property) const fn stand_in(self, from: u64, instead: u64) -> Self {
        Self {
            stand_in: Some((from, instead)),
            ..self
        }
    }
}
