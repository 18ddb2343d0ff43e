//! The typed admin service that the daemon offers and the commands use.
