//! The pool's vdevs: opened, made, released, and what each of them missed.

pub(crate) mod caches;
pub(crate) mod changes;
pub(crate) mod device_lists;
pub(crate) mod devices;
pub(crate) mod diagnosis;
pub(crate) mod disks;
pub(crate) mod dtl;
pub(crate) mod expand;
mod first_metaslabs;
mod free;
mod grow;
mod last_log;
pub(crate) mod new;
pub(crate) mod objects;
pub(crate) mod regroup;
pub(crate) mod remote;
mod requests;
pub(crate) mod spare_rooms;
pub(crate) mod spares;
pub(crate) mod split;
