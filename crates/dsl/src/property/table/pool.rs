//! The properties of pools.

use super::table;
use crate::property::facts::{Access, Default, Home, Number, Range, TextRule};
use crate::property::row::{Row, index, number, ruled, text, within};
use crate::property::typed::SWITCH;
use crate::property::words::FailMode;

const fn size(name: &'static str, column: &'static str, format: Number) -> Row {
    number(name, column, format, "<size>")
}

const fn switch(name: &'static str, column: &'static str, default: u64) -> Row {
    index(name, column, SWITCH, default)
        .own()
        .values("on | off")
}

table! {
    /// Every pool property.
    POOL_PROPERTIES;
    PoolFigure as Pool;

    NAME: String = text("name", "NAME", "<pool>").hidden() => Name;
    SIZE: u64 = size("size", "SIZE", Number::Count) => Size;
    CAPACITY: u64 = number("capacity", "CAP", Number::Percent, "<percent>") => Capacity;
    ALTROOT: String = ruled("altroot", "ALTROOT", TextRule::AbsolutePath, "<path>")
        .settable(Default::Nothing)
        .inside(Home::Process) => AltRoot;
    HEALTH: String = text("health", "HEALTH", "<state>") => Health;
    GUID: u64 = number("guid", "GUID", Number::Exact, "<guid>") => Guid;
    VERSION: u64 = number("version", "VERSION", Number::Exact, "<version>")
        .settable(Default::Nothing)
        .inside(Home::Uberblock) => Version;
    BOOTFS: String = text("bootfs", "BOOTFS", "<filesystem>").settable(Default::Nothing);
    DELEGATION: bool = switch("delegation", "DELEGATION", 1);
    AUTOREPLACE: bool = switch("autoreplace", "REPLACE", 0).stored();
    CACHEFILE: String = ruled("cachefile", "CACHEFILE", TextRule::FileOrNone, "<file> | none")
        .settable(Default::Nothing)
        .inside(Home::Process) => CacheFile;
    FAILMODE: FailMode = FailMode::row("failmode", "FAILMODE", FailMode::Wait)
        .own()
        .values("wait | continue | panic");
    LISTSNAPSHOTS: bool = switch("listsnapshots", "LISTSNAPS", 0);
    AUTOEXPAND: bool = switch("autoexpand", "EXPAND", 0);
    DEDUPRATIO: u64 = number(
        "dedupratio",
        "DEDUP",
        Number::Ratio,
        "<1.00x or higher if deduped>",
    ) => DedupRatio;
    FREE: u64 = size("free", "FREE", Number::Count) => Free;
    ALLOCATED: u64 = size("allocated", "ALLOC", Number::Count) => Allocated;
    READONLY: bool = Row {
        access: Access::AtCreation,
        ..switch("readonly", "RDONLY", 0).default(Default::Nothing)
    } => ReadOnly;
    ASHIFT: u64 = within(
        "ashift",
        "ASHIFT",
        Number::Exact,
        Range::ZeroOrWithin(9, 16),
        "<ashift, 9-16, or 0=default>",
    ).settable(Default::Number(0));
    COMMENT: String = ruled("comment", "COMMENT", TextRule::Comment, "<comment-string>")
        .settable(Default::Nothing)
        .inside(Home::Labels) => Comment;
    EXPANDSIZE: u64 = size("expandsize", "EXPANDSZ", Number::BytesOrDash) => ExpandSize;
    FREEING: u64 = size("freeing", "FREEING", Number::Count) => Freeing;
    FRAGMENTATION: u64 = number("fragmentation", "FRAG", Number::Percent, "<percent>")
        => Fragmentation;
    LEAKED: u64 = size("leaked", "LEAKED", Number::Count) => Leaked;
    MULTIHOST: bool = switch("multihost", "MULTIHOST", 0);
    CHECKPOINT: u64 = size("checkpoint", "CKPOINT", Number::BytesOrDash) => Checkpoint;
    LOAD_GUID: u64 = number("load_guid", "LOAD_GUID", Number::Exact, "<load_guid>") => LoadGuid;
    AUTOTRIM: bool = switch("autotrim", "AUTOTRIM", 0);
    COMPATIBILITY: String = text("compatibility", "COMPATIBILITY", "<file[,file...]> | off | legacy")
        .settable(Default::Text("off"))
        .inside(Home::Labels) => Compatibility;
    BCLONEUSED: u64 = size("bcloneused", "BCLONE_USED", Number::Count) => CloneUsed;
    BCLONESAVED: u64 = size("bclonesaved", "BCLONE_SAVED", Number::Count) => CloneSaved;
    BCLONERATIO: u64 = number(
        "bcloneratio",
        "BCLONE_RATIO",
        Number::Ratio,
        "<1.00x or higher if cloned>",
    ) => CloneRatio;
    DEDUP_TABLE_SIZE: u64 = size("dedup_table_size", "DDTSIZE", Number::Count) => DedupTableSize;
    DEDUP_TABLE_QUOTA: u64 = size("dedup_table_quota", "DDTQUOTA", Number::AutoQuota)
        .settable(Default::Number(u64::MAX));
    LAST_SCRUBBED_TXG: u64 = number("last_scrubbed_txg", "LAST_SCRUBBED_TXG", Number::Exact, "<txg>")
        => LastScrubbedTxg;
}
