//! The row of a property: everything that is known of it, in one place.
//!
//! Whoever parses, checks, prints, lists, documents or follows properties goes by the rows. What
//! depends on the property is a field here, and an enum, so that the compiler asks for what is
//! missing where it is carried out.

mod build;

use std::marker::PhantomData;
use std::ops::Deref;

use super::facts::{
    Access, Default, Effect, Home, Kind, MountOption, Need, Requirement, Shown, Support, Types,
};
use super::figure::Measured;
use super::typed::{PropertyType, Shape};

pub(super) use build::{index, number, ruled, text, within};

/// A row of a table of properties.
#[derive(Debug, Clone, Copy)]
pub struct Row {
    /// The name.
    pub name: &'static str,
    /// The header of its column; in lower case also accepted as a name.
    pub column: &'static str,
    /// What values it has.
    pub kind: Kind,
    /// Who sets it.
    pub access: Access,
    /// True if children have their parent's value.
    pub inherits: bool,
    /// The value when nobody has set it.
    pub default: Default,
    /// What may be written, for usage texts.
    pub values: &'static str,
    /// The kinds of dataset that have it (pools and vdevs: all).
    pub types: Types,
    /// False for names that only lists ask for, not `get all`.
    pub visible: bool,
    /// Where the value is kept.
    pub home: Home,
    /// The figure that is measured for it, if one is.
    pub measured: Measured,
    /// How that is shown.
    pub shown: Shown,
    /// What values need: the first that fits counts.
    pub needs: &'static [Need],
    /// What changes with it.
    pub effects: &'static [Effect],
    /// The mount option that can differ from it.
    pub mount: Option<MountOption>,
    /// What of it is carried out.
    pub support: Support,
    /// From which value on old software does not know it, and what that reads instead.
    pub stand_in: Option<(u64, u64)>,
}

impl Row {
    /// Whether this is the name of the property.
    #[must_use]
    pub fn is(&self, name: &str) -> bool {
        self.name == name
    }

    /// Whether setting it does this.
    #[must_use]
    pub fn has(&self, effect: Effect) -> bool {
        self.effects.contains(&effect)
    }

    /// Whether mounted file systems take their options anew when it is set.
    #[must_use]
    pub const fn reaches_mounts(&self) -> bool {
        let mut effects = self.effects;
        while let [effect, rest @ ..] = effects {
            if matches!(effect, Effect::Remount) {
                return true;
            }
            effects = rest;
        }
        false
    }

    /// What a number needs.
    #[must_use]
    pub fn needed(&self, number: u64) -> Option<Requirement> {
        let need = self.needs.iter().find(|need| need.values.contain(number));
        need.map(|need| need.requirement)
    }

    /// The default of a number, 0 if there is none.
    #[must_use]
    pub const fn default_number(&self) -> u64 {
        match self.default {
            Default::Number(number) => number,
            Default::Nothing | Default::Text(_) => 0,
        }
    }

    const fn shape(&self) -> Shape {
        match self.kind {
            Kind::Number(..) => Shape::Number,
            Kind::Index(_) => Shape::Index,
            Kind::Text(_) => Shape::Text,
        }
    }
}

/// A property whose values are `T`: its row, and the type that the stored value is read as.
pub struct Property<T: 'static> {
    row: &'static Row,
    value: PhantomData<fn() -> T>,
}

impl<T> Clone for Property<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Property<T> {}

impl<T> std::fmt::Debug for Property<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Property({})", self.row.name)
    }
}

impl<T> Deref for Property<T> {
    type Target = Row;

    fn deref(&self) -> &Row {
        self.row
    }
}

impl<T: PropertyType> Property<T> {
    /// The row as values of a type. It does not compile with a type of another shape.
    pub(super) const fn new(row: &'static Row) -> Self {
        assert!(
            row.shape().holds(T::SHAPE),
            "the property's values are not of this type"
        );
        Self {
            row,
            value: PhantomData,
        }
    }
}

impl<T> Property<T> {
    /// The row.
    #[must_use]
    pub const fn row(self) -> &'static Row {
        self.row
    }
}
