//! The properties of pools, in the order of `zpool get all`.

use super::index::{FAIL_MODE, SWITCH};
use super::{Access, Default, Kind, Number, Property, Types};

const fn row(
    name: &'static str,
    column: &'static str,
    kind: Kind,
    values: &'static str,
) -> Property {
    Property {
        name,
        column,
        kind,
        access: Access::ReadOnly,
        inherits: false,
        default: Default::Nothing,
        values,
        types: Types::ALL,
        visible: true,
    }
}

const fn number(name: &'static str, column: &'static str, format: Number) -> Property {
    row(name, column, Kind::Number(format), "<size>")
}

const fn set(property: Property, default: Default) -> Property {
    Property {
        access: Access::Settable,
        default,
        ..property
    }
}

const fn switch(name: &'static str, column: &'static str, default: u64) -> Property {
    set(
        row(name, column, Kind::Index(SWITCH), "on | off"),
        Default::Number(default),
    )
}

const fn text(name: &'static str, column: &'static str, values: &'static str) -> Property {
    row(name, column, Kind::Text, values)
}

/// Every pool property.
#[rustfmt::skip]
pub static POOL_PROPERTIES: &[Property] = &[
    Property { visible: false, ..text("name", "NAME", "<pool>") },
    number("size", "SIZE", Number::Count),
    number("capacity", "CAP", Number::Percent),
    set(text("altroot", "ALTROOT", "<path>"), Default::Nothing),
    text("health", "HEALTH", "<state>"),
    number("guid", "GUID", Number::Exact),
    set(number("version", "VERSION", Number::Exact), Default::Nothing),
    set(text("bootfs", "BOOTFS", "<filesystem>"), Default::Nothing),
    switch("delegation", "DELEGATION", 1),
    switch("autoreplace", "REPLACE", 0),
    set(text("cachefile", "CACHEFILE", "<file> | none"), Default::Nothing),
    set(row("failmode", "FAILMODE", Kind::Index(FAIL_MODE), "wait | continue | panic"), Default::Number(0)),
    switch("listsnapshots", "LISTSNAPS", 0),
    switch("autoexpand", "EXPAND", 0),
    number("dedupratio", "DEDUP", Number::Ratio),
    number("free", "FREE", Number::Count),
    number("allocated", "ALLOC", Number::Count),
    Property { access: Access::AtCreation, default: Default::Nothing, ..switch("readonly", "RDONLY", 0) },
    set(row("ashift", "ASHIFT", Kind::Number(Number::Exact), "<ashift, 9-16, or 0=default>"), Default::Number(0)),
    set(text("comment", "COMMENT", "<comment-string>"), Default::Nothing),
    number("expandsize", "EXPANDSZ", Number::BytesOrDash),
    number("freeing", "FREEING", Number::Count),
    number("fragmentation", "FRAG", Number::Percent),
    number("leaked", "LEAKED", Number::Count),
    switch("multihost", "MULTIHOST", 0),
    number("checkpoint", "CKPOINT", Number::BytesOrDash),
    number("load_guid", "LOAD_GUID", Number::Exact),
    switch("autotrim", "AUTOTRIM", 0),
    set(text("compatibility", "COMPATIBILITY", "<file[,file...]> | off | legacy"), Default::Text("off")),
    number("bcloneused", "BCLONE_USED", Number::Count),
    number("bclonesaved", "BCLONE_SAVED", Number::Count),
    number("bcloneratio", "BCLONE_RATIO", Number::Ratio),
    number("dedup_table_size", "DDTSIZE", Number::Count),
    set(number("dedup_table_quota", "DDTQUOTA", Number::AutoQuota), Default::Number(u64::MAX)),
    number("last_scrubbed_txg", "LAST_SCRUBBED_TXG", Number::Exact),
];
