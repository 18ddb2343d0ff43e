//! The intent log.
