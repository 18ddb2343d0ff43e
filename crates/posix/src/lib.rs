//! File semantics: names, attributes, permissions, extended attributes.
