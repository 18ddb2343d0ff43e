//! The adaptive cache of verified blocks.
