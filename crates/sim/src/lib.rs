//! Simulated disks and crash points for tests.
