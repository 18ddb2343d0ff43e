//! The properties of vdevs.

use super::table;
use crate::property::facts::{Access, Default, Kind, Number, Range, TextRule};
use crate::property::row::{Row, number, ruled, text, within};
use crate::property::typed::SWITCH;

const fn figure(name: &'static str, format: Number, values: &'static str) -> Row {
    number(name, name, format, values)
}

const fn size(name: &'static str) -> Row {
    figure(name, Number::Count, "<size>")
}

const fn count(name: &'static str, values: &'static str) -> Row {
    figure(name, Number::Count, values)
}

const fn words(name: &'static str, values: &'static str) -> Row {
    text(name, name, values)
}

const fn switch(name: &'static str) -> Row {
    Row::new(name, name, Kind::Index(SWITCH)).values("on | off")
}

impl Row {
    /// Set by whoever may, with the default that it has.
    const fn set(self) -> Self {
        Self {
            access: Access::Settable,
            ..self
        }
    }
}

table! {
    /// Every vdev property.
    VDEV_PROPERTIES;
    VdevFigure as Vdev;

    CAPACITY: u64 = figure("capacity", Number::Percent, "<percent>") => Capacity;
    STATE: u64 = figure("state", Number::State, "<state>") => State;
    GUID: u64 = figure("guid", Number::Exact, "<guid>") => Guid;
    ASIZE: u64 = size("asize") => AllocatableSize;
    PSIZE: u64 = size("psize") => PhysicalSize;
    ASHIFT: u64 = within("ashift", "ashift", Number::Exact, Range::ZeroOrWithin(9, 16), "<ashift>")
        => Ashift;
    SIZE: u64 = size("size") => Size;
    FREE: u64 = size("free") => Free;
    ALLOCATED: u64 = size("allocated") => Allocated;
    COMMENT: String = ruled("comment", "comment", TextRule::Comment, "<comment-string>")
        .set()
        .stored();
    EXPANDSIZE: u64 = figure("expandsize", Number::BytesOrDash, "<size>") => ExpandSize;
    FRAGMENTATION: u64 = figure("fragmentation", Number::Share, "<percent>") => Fragmentation;
    BOOTSIZE: u64 = size("bootsize").default(Default::Number(0));
    PARITY: u64 = figure("parity", Number::Exact, "<parity>") => Parity;
    PATH: String = words("path", "<device-path>") => Path;
    DEVID: String = words("devid", "<devid>");
    PHYSPATH: String = words("physpath", "<physpath>");
    ENCPATH: String = words("encpath", "<encpath>");
    FRU: String = words("fru", "<fru>");
    PARENT: String = words("parent", "<parent>") => Parent;
    CHILDREN: String = words("children", "<child[,...]>") => Children;
    NUMCHILDREN: u64 = figure("numchildren", Number::Exact, "<number-of-children>") => ChildCount;
    READ_ERRORS: u64 = count("read_errors", "<errors>") => ReadErrors;
    WRITE_ERRORS: u64 = count("write_errors", "<errors>") => WriteErrors;
    CHECKSUM_ERRORS: u64 = count("checksum_errors", "<errors>") => ChecksumErrors;
    INITIALIZE_ERRORS: u64 = count("initialize_errors", "<errors>") => InitializeErrors;
    NULL_OPS: u64 = count("null_ops", "<operations>") => NullOperations;
    READ_OPS: u64 = count("read_ops", "<operations>") => ReadOperations;
    WRITE_OPS: u64 = count("write_ops", "<operations>") => WriteOperations;
    FREE_OPS: u64 = count("free_ops", "<operations>") => FreeOperations;
    CLAIM_OPS: u64 = count("claim_ops", "<operations>") => ClaimOperations;
    TRIM_OPS: u64 = count("trim_ops", "<operations>") => TrimOperations;
    NULL_BYTES: u64 = count("null_bytes", "<bytes>") => NullBytes;
    READ_BYTES: u64 = count("read_bytes", "<bytes>") => ReadBytes;
    WRITE_BYTES: u64 = count("write_bytes", "<bytes>") => WriteBytes;
    FREE_BYTES: u64 = count("free_bytes", "<bytes>") => FreeBytes;
    CLAIM_BYTES: u64 = count("claim_bytes", "<bytes>") => ClaimBytes;
    TRIM_BYTES: u64 = count("trim_bytes", "<bytes>") => TrimBytes;
    RAIDZ_EXPANDING: bool = switch("raidz_expanding") => RaidzExpanding;
    REMOVING: bool = switch("removing") => Removing;
    ALLOCATING: bool = switch("allocating").default(Default::Number(1));
    FAILFAST: bool = switch("failfast").set().default(Default::Number(1)).stored();
    CHECKSUM_N: u64 = count("checksum_n", "<events>").set();
    CHECKSUM_T: u64 = count("checksum_t", "<seconds>").set();
    IO_N: u64 = count("io_n", "<events>").set();
    IO_T: u64 = count("io_t", "<seconds>").set();
    SLOW_IO_N: u64 = count("slow_io_n", "<events>").set();
    SLOW_IO_T: u64 = count("slow_io_t", "<seconds>").set();
    TRIM_SUPPORT: bool = switch("trim_support") => TrimSupport;
    TRIM_ERRORS: u64 = count("trim_errors", "<errors>") => TrimErrors;
    SLOW_IOS: u64 = count("slow_ios", "<slowios>") => SlowOperations;
}
