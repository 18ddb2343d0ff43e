//! Setting and removing extended attributes.
