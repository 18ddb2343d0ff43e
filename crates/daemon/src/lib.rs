//! The serving process of one pool: its start, its socket, its mounts, its end.
//!
//! | module | what |
//! |---|---|
//! | `start` | from the command to the daemon: the request goes down, the outcome comes back |
//! | `names` | the claim of a pool's name |
//! | `runtime` | the directory of sockets, locks and logs |
//! | `server` | the socket: one thread a connection; [`Server`] |
//! | `endpoint`, `prometheus` | the instruments over HTTP, and their text |
//! | `supervisor` | what systemd is told |
//! | `mounts`, `mount_point` | the mounts of the pool, by `fuse`; [`DaemonMounts`] |
//!
//! A command starts it with [`start`]: this very program again, with [`CHILD_ARGUMENT`]. The
//! request travels over the child's standard input, the outcome back over its standard output;
//! then the child leaves the terminal and serves. It ends when the pool is exported or destroyed,
//! or by SIGTERM or SIGINT, which unmount and export first. What is left when it is killed (a
//! socket nobody listens on, dead mounts) is recognised and removed by the next one.

#![cfg_attr(not(test), warn(clippy::disallowed_methods))]
#![cfg_attr(not(test), warn(clippy::print_stderr, clippy::print_stdout))]
#![cfg_attr(not(test), warn(clippy::wildcard_enum_match_arm))]

mod endpoint;
mod mount_point;
mod mounts;
mod names;
mod prometheus;
mod runtime;
mod server;
mod signals;
mod start;
mod supervisor;
#[cfg(test)]
mod tests;

pub use endpoint::Endpoint;
pub use fuse::{MOUNT_KIND, remove_dead_mounts_of};
pub use mounts::DaemonMounts;
pub use prometheus::{Buckets, Readings, prometheus};
pub use start::{CHILD_ARGUMENT, child, serve, start};
