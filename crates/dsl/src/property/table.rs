//! The tables of properties: of datasets, of pools, of vdevs.
//!
//! A row stands here once, as a typed constant. The order of a table is the order of `get all`.

pub mod dataset;
pub mod pool;
pub mod vdev;

#[cfg(test)]
mod tests;

use super::facts::{Default, Kind, Number, Range, TextRule, Word};
use super::row::Row;

/// Declares a table: each property's constant, type and row, and after `=>` its figure if one is
/// measured for it.
macro_rules! table {
    (
        $(#[$doc:meta])* $table:ident;
        $(#[$figures_doc:meta])* $figures:ident as $kind:ident;
        $($constant:ident: $type:ty = $row:expr $(=> $figure:ident)?;)*
    ) => {
        $(
            #[doc = concat!("The property of the row `", stringify!($constant), "`.")]
            pub const $constant: $crate::property::Property<$type> = {
                const ROW: $crate::property::Row =
                    $row $(.measured($crate::property::Measured::$kind($figures::$figure)))?;
                $crate::property::Property::new(&ROW)
            };
        )*

        $(#[$doc])*
        pub static $table: &[&$crate::property::Row] = &[$($constant.row()),*];

        $(#[$figures_doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
        pub enum $figures {
            $($(
                #[doc = concat!("Of `", stringify!($constant), "`.")]
                $figure,
            )?)*
        }

        /// The row of a name.
        #[must_use]
        pub fn find(name: &str) -> Option<&'static $crate::property::Row> {
            $table.iter().copied().find(|row| row.is(name))
        }

        /// The words that the types of the rows know.
        #[cfg(test)]
        pub(super) static WORDS: &[&[$crate::property::Word]] =
            &[$(<$type as $crate::property::PropertyType>::WORDS),*];
    };
}

use table;

/// A measured number.
const fn number(
    name: &'static str,
    column: &'static str,
    format: Number,
    values: &'static str,
) -> Row {
    within(name, column, format, Range::Any, values)
}

/// A number of which not every value may be set.
const fn within(
    name: &'static str,
    column: &'static str,
    format: Number,
    range: Range,
    values: &'static str,
) -> Row {
    Row::new(name, column, Kind::Number(format, range)).values(values)
}

/// Text that is not set by anyone.
const fn text(name: &'static str, column: &'static str, values: &'static str) -> Row {
    ruled(name, column, TextRule::Any, values)
}

/// Text that must have a form.
const fn ruled(
    name: &'static str,
    column: &'static str,
    rule: TextRule,
    values: &'static str,
) -> Row {
    Row::new(name, column, Kind::Text(rule)).values(values)
}

/// An enumeration that children inherit.
pub(super) const fn index(
    name: &'static str,
    column: &'static str,
    words: &'static [Word],
    default: u64,
) -> Row {
    Row::new(name, column, Kind::Index(words))
        .settable(Default::Number(default))
        .inherited()
}
