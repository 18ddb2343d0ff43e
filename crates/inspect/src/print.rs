//! What is found, as text: close to what OpenZFS's zdb prints, since people and scripts know it.

// What is printed of a damaged pool is any number at all.
#![warn(clippy::arithmetic_side_effects)]

mod contents;
mod damage;
mod features;
mod fields;
mod history;
mod labels;
mod lists;
mod log;
mod numbers;
mod objects;
mod space;
#[allow(
    clippy::arithmetic_side_effects,
    reason = "parts of a number of seconds, divided first"
)]
mod time;
mod verify;

pub(crate) use features::print_features;
pub(crate) use history::print_history;
pub(crate) use labels::{print_labels, print_uberblock};
pub(crate) use lists::print_list;
pub(crate) use log::print_log;
pub(crate) use numbers::{Numbers, nice};
pub(crate) use objects::{ObjectOptions, print_dataset, print_mos};
pub(crate) use space::print_space_maps;
pub(crate) use time::{calendar, stamp};
pub(crate) use verify::{
    describe_bad_copy, describe_miscount, print_kinds, print_report, print_report_json,
};
