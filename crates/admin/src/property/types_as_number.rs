//! Kinds of dataset as they travel: the number of the set.

use dsl::property::Types;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

pub(crate) fn serialize<S: Serializer>(types: &Types, out: S) -> Result<S::Ok, S::Error> {
    types.bits().serialize(out)
}

pub(crate) fn deserialize<'a, D: Deserializer<'a>>(from: D) -> Result<Types, D::Error> {
    u8::deserialize(from).map(Types::from_bits_truncate)
}
