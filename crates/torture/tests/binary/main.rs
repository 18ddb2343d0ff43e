//! The real binary, used as a user would: pools are made, mounted, filled, damaged, exported, and judged by OpenZFS's
//! zdb and by the manifests of golden pools. Needs `MILLPOND_BIN` (cargo xtask sets it) and /dev/fuse.

mod answering;
mod busy;
mod copied_out;
mod copies;
mod delegation;
mod details;
mod differences;
mod disks;
mod encryption;
mod events;
mod gathered;
mod golden_pools;
mod key_memory;
mod killed;
mod lifecycle;
mod limits;
mod log_devices;
mod make_image;
mod many;
mod metrics;
mod model;
mod mounting;
mod owners;
mod packages;
mod progress;
mod projects;
mod receiving;
mod register;
mod sending;
mod session;
mod stopped;
mod suspension;
mod trims;
mod verbs;
mod waiting;
