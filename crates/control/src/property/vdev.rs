//! The properties of vdevs, in the order of `zpool get all POOL VDEV`.

use super::index::SWITCH;
use super::{Access, Default, Kind, Number, Property, Types};

const fn row(name: &'static str, kind: Kind, values: &'static str) -> Property {
    Property {
        name,
        column: name,
        kind,
        access: Access::ReadOnly,
        inherits: false,
        default: Default::Nothing,
        values,
        types: Types::ALL,
        visible: true,
    }
}

const fn number(name: &'static str, format: Number, values: &'static str) -> Property {
    row(name, Kind::Number(format), values)
}

const fn size(name: &'static str) -> Property {
    number(name, Number::Count, "<size>")
}

const fn count(name: &'static str, values: &'static str) -> Property {
    number(name, Number::Count, values)
}

const fn text(name: &'static str, values: &'static str) -> Property {
    row(name, Kind::Text, values)
}

const fn switch(name: &'static str) -> Property {
    row(name, Kind::Index(SWITCH), "on | off")
}

const fn set(property: Property) -> Property {
    Property {
        access: Access::Settable,
        ..property
    }
}

/// Every vdev property.
#[rustfmt::skip]
pub static VDEV_PROPERTIES: &[Property] = &[
    number("capacity", Number::Percent, "<size>"),
    number("state", Number::State, "<state>"),
    number("guid", Number::Exact, "<guid>"),
    size("asize"),
    size("psize"),
    number("ashift", Number::Exact, "<ashift>"),
    size("size"),
    size("free"),
    size("allocated"),
    set(text("comment", "<comment-string>")),
    number("expandsize", Number::BytesOrDash, "<size>"),
    number("fragmentation", Number::Share, "<percent>"),
    Property { default: Default::Number(0), ..size("bootsize") },
    number("parity", Number::Exact, "<parity>"),
    text("path", "<device-path>"),
    text("devid", "<devid>"),
    text("physpath", "<physpath>"),
    text("encpath", "<encpath>"),
    text("fru", "<fru>"),
    text("parent", "<parent>"),
    text("children", "<child[,...]>"),
    number("numchildren", Number::Exact, "<number-of-children>"),
    count("read_errors", "<errors>"),
    count("write_errors", "<errors>"),
    count("checksum_errors", "<errors>"),
    count("initialize_errors", "<errors>"),
    count("null_ops", "<operations>"),
    count("read_ops", "<operations>"),
    count("write_ops", "<operations>"),
    count("free_ops", "<operations>"),
    count("claim_ops", "<operations>"),
    count("trim_ops", "<operations>"),
    count("null_bytes", "<bytes>"),
    count("read_bytes", "<bytes>"),
    count("write_bytes", "<bytes>"),
    count("free_bytes", "<bytes>"),
    count("claim_bytes", "<bytes>"),
    count("trim_bytes", "<bytes>"),
    switch("removing"),
    Property { default: Default::Number(1), ..switch("allocating") },
    Property { default: Default::Number(1), ..set(switch("failfast")) },
    set(count("checksum_n", "<events>")),
    set(count("checksum_t", "<seconds>")),
    set(count("io_n", "<events>")),
    set(count("io_t", "<seconds>")),
    set(count("slow_io_n", "<events>")),
    set(count("slow_io_t", "<seconds>")),
    switch("trim_support"),
    count("trim_errors", "<errors>"),
    count("slow_ios", "<slowios>"),
];
