//! Block devices: the trait, files and disks.
