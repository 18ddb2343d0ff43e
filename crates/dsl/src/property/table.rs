//! The tables of properties: of datasets, of pools, of vdevs.
//!
//! A row stands here once, as a typed constant. The order of a table is the order of `get all`.

pub mod dataset;
pub mod pool;
pub mod vdev;

#[cfg(test)]
mod tests;

/// Declares a table: each property's constant, type and row, and after `=>` its figure
/// ([`figure`](crate::property)) if one is measured for it.
macro_rules! table {
    (
        $(#[$doc:meta])* $table:ident;
        $figures:ident as $kind:ident;
        $($constant:ident: $type:ty = $row:expr $(=> $figure:ident)?;)*
    ) => {
        $(
            #[doc = concat!("The property of the row `", stringify!($constant), "`.")]
            pub const $constant: $crate::property::Property<$type> = {
                const ROW: $crate::property::Row =
                    $row $(.measured(
                        $crate::property::Measured::$kind($crate::property::$figures::$figure)
                    ))?;
                $crate::property::Property::new(&ROW)
            };
        )*

        $(#[$doc])*
        pub static $table: &[&$crate::property::Row] = &[$($constant.row()),*];

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
