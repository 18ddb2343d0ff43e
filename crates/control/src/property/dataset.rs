//! The properties of file systems, volumes, snapshots and bookmarks, in the order of `get all`.

use super::index::{
    ACL_INHERIT, ACL_MODE, ACL_TYPE, CACHE, CAN_MOUNT, CASE, CHECKSUM, COMPRESSION, COPIES, DEDUP,
    DIRECT, DNODE_SIZE, ENCRYPTION, KEY_FORMAT, KEY_STATUS, LOG_BIAS, NORMALIZATION,
    REDUNDANT_METADATA, SNAPDEV, SNAPDIR, SWITCH, SYNC, VERSION, VOLUME_MODE, XATTR, YES_NO,
};
use super::{Access, Default, Kind, Number, Property, Types};

const F: Types = Types::FILESYSTEM;
const V: Types = Types::VOLUME;
const S: Types = Types::SNAPSHOT;
const FV: Types = Types::HEADS;
const FS: Types = F.with(S);
const FVS: Types = FV.with(S);
const ALL: Types = Types::ALL;

const fn row(name: &'static str, column: &'static str, kind: Kind, types: Types) -> Property {
    Property {
        name,
        column,
        kind,
        access: Access::ReadOnly,
        inherits: false,
        default: Default::Nothing,
        values: "",
        types,
        visible: true,
    }
}

/// A measured number.
const fn number(
    name: &'static str,
    column: &'static str,
    format: Number,
    types: Types,
    values: &'static str,
) -> Property {
    Property {
        values,
        ..row(name, column, Kind::Number(format), types)
    }
}

/// Text that is not set by anyone.
const fn text(
    name: &'static str,
    column: &'static str,
    types: Types,
    values: &'static str,
) -> Property {
    Property {
        values,
        ..row(name, column, Kind::Text, types)
    }
}

/// An enumeration that children inherit.
const fn index(
    name: &'static str,
    column: &'static str,
    words: &'static [(&'static str, u64)],
    default: u64,
    types: Types,
) -> Property {
    Property {
        access: Access::Settable,
        inherits: true,
        default: Default::Number(default),
        ..row(name, column, Kind::Index(words), types)
    }
}

impl Property {
    const fn settable(self, default: Default) -> Self {
        Self {
            access: Access::Settable,
            default,
            ..self
        }
    }

    const fn inherited(self) -> Self {
        Self {
            inherits: true,
            ..self
        }
    }

    const fn own(self) -> Self {
        Self {
            inherits: false,
            ..self
        }
    }

    const fn at_creation(self) -> Self {
        Self {
            access: Access::AtCreation,
            ..self
        }
    }

    const fn measured(self) -> Self {
        Self {
            access: Access::ReadOnly,
            inherits: false,
            default: Default::Nothing,
            ..self
        }
    }

    /// What may be written, where it is not simply the words.
    const fn values(self, values: &'static str) -> Self {
        Self { values, ..self }
    }

    const fn hidden(self) -> Self {
        Self {
            visible: false,
            ..self
        }
    }
}

const ZERO: Default = Default::Number(0);
const NO_LIMIT: Default = Default::Number(u64::MAX);
const NONE: Default = Default::Text("none");
const OFF: Default = Default::Text("off");

const CHECKSUM_VALUES: &str =
    "on | off | fletcher2 | fletcher4 | sha256 | sha512 | skein | edonr | blake3";
const COMPRESSION_VALUES: &str = "on | off | lzjb | gzip | gzip-[1-9] | zle | lz4 | zstd | \
    zstd-[1-19] | zstd-fast | zstd-fast-[1-10,20,30,40,50,60,70,80,90,100,500,1000]";
const DEDUP_VALUES: &str = "on | off | verify | sha256[,verify] | sha512[,verify] | \
    skein[,verify] | edonr,verify | blake3[,verify]";
const CACHE_VALUES: &str = "all | none | metadata";
const ENCRYPTION_VALUES: &str = "on | off | aes-128-ccm | aes-192-ccm | aes-256-ccm | \
    aes-128-gcm | aes-192-gcm | aes-256-gcm";

/// Every dataset property.
#[rustfmt::skip]
pub static DATASET_PROPERTIES: &[Property] = &[
    text("name", "NAME", ALL, "<dataset>").hidden(),
    text("type", "TYPE", ALL, "filesystem | volume | snapshot | bookmark"),
    number("creation", "CREATION", Number::Date, ALL, "<date>"),
    number("used", "USED", Number::Bytes, FVS, "<size>"),
    number("available", "AVAIL", Number::Bytes, FV, "<size>"),
    number("referenced", "REFER", Number::Bytes, ALL, "<size>"),
    number("compressratio", "RATIO", Number::Ratio, ALL, "<1.00x or higher if compressed>"),
    index("mounted", "MOUNTED", YES_NO, 0, F).measured(),
    text("origin", "ORIGIN", FV, "<snapshot>"),
    number("quota", "QUOTA", Number::Quota, F, "<size> | none").settable(ZERO),
    number("reservation", "RESERV", Number::Quota, FV, "<size> | none").settable(ZERO),
    number("volsize", "VOLSIZE", Number::Bytes, V.with(S), "<size>").settable(ZERO),
    number("volblocksize", "VOLBLOCK", Number::Bytes, V, "512 to 16M, power of 2").at_creation(),
    number("recordsize", "RECSIZE", Number::Bytes, F, "512 to 16M, power of 2")
        .settable(Default::Number(131_072))
        .inherited(),
    text("mountpoint", "MOUNTPOINT", F, "<path> | legacy | none").settable(Default::Nothing).inherited(),
    text("sharenfs", "SHARENFS", F, "on | off | NFS share options").settable(OFF).inherited(),
    index("checksum", "CHECKSUM", CHECKSUM, 1, FV).values(CHECKSUM_VALUES),
    index("compression", "COMPRESS", COMPRESSION, 1, FV).values(COMPRESSION_VALUES),
    index("atime", "ATIME", SWITCH, 1, F),
    index("devices", "DEVICES", SWITCH, 1, FS),
    index("exec", "EXEC", SWITCH, 1, FS),
    index("setuid", "SETUID", SWITCH, 1, FS),
    index("readonly", "RDONLY", SWITCH, 0, FV),
    index("zoned", "ZONED", SWITCH, 0, F),
    index("snapdir", "SNAPDIR", SNAPDIR, 0, F),
    index("aclmode", "ACLMODE", ACL_MODE, 0, F),
    index("aclinherit", "ACLINHERIT", ACL_INHERIT, 4, F),
    number("createtxg", "CREATETXG", Number::Exact, ALL, "<uint64>"),
    index("canmount", "CANMOUNT", CAN_MOUNT, 1, F).values("on | off | noauto").own(),
    index("xattr", "XATTR", XATTR, 2, FS).values("on | off | dir | sa"),
    index("copies", "COPIES", COPIES, 1, FV),
    index("version", "VERSION", VERSION, 5, FS).own(),
    index("utf8only", "UTF8ONLY", SWITCH, 0, FS).at_creation(),
    index("normalization", "NORMALIZATION", NORMALIZATION, 0, FS).at_creation(),
    index("casesensitivity", "CASE", CASE, 0, FS).at_creation(),
    index("vscan", "VSCAN", SWITCH, 0, F),
    index("nbmand", "NBMAND", SWITCH, 0, FS),
    text("sharesmb", "SHARESMB", F, "on | off | SMB share options").settable(OFF).inherited(),
    number("refquota", "REFQUOTA", Number::Quota, F, "<size> | none").settable(ZERO),
    number("refreservation", "REFRESERV", Number::Quota, FV, "<size> | none").settable(ZERO),
    number("guid", "GUID", Number::Exact, ALL, "<uint64>"),
    index("primarycache", "PRIMARYCACHE", CACHE, 2, FVS).values(CACHE_VALUES),
    index("secondarycache", "SECONDARYCACHE", CACHE, 2, FVS).values(CACHE_VALUES),
    number("usedbysnapshots", "USEDSNAP", Number::Bytes, FV, "<size>"),
    number("usedbydataset", "USEDDS", Number::Bytes, FV, "<size>"),
    number("usedbychildren", "USEDCHILD", Number::Bytes, FV, "<size>"),
    number("usedbyrefreservation", "USEDREFRESERV", Number::Bytes, FV, "<size>"),
    index("defer_destroy", "DEFER_DESTROY", SWITCH, 0, S).measured(),
    number("userrefs", "USERREFS", Number::Exact, S, "<count>"),
    index("logbias", "LOGBIAS", LOG_BIAS, 0, FV),
    number("objsetid", "OBJSETID", Number::Exact, FVS, "<uint64>"),
    index("dedup", "DEDUP", DEDUP, 2, FV).values(DEDUP_VALUES),
    text("mlslabel", "MLSLABEL", FVS, "<sensitivity label>").settable(NONE).inherited(),
    index("sync", "SYNC", SYNC, 0, FV),
    index("dnodesize", "DNSIZE", DNODE_SIZE, 0, F),
    number("refcompressratio", "REFRATIO", Number::Ratio, FVS, "<1.00x or higher if compressed>"),
    number("written", "WRITTEN", Number::Count, FVS, "<size>"),
    text("clones", "CLONES", S, "<dataset>[,...]"),
    number("logicalused", "LUSED", Number::Bytes, FV, "<size>"),
    number("logicalreferenced", "LREFER", Number::Bytes, ALL, "<size>"),
    index("volmode", "VOLMODE", VOLUME_MODE, 0, FV),
    number("filesystem_limit", "FSLIMIT", Number::Limit, F, "<count> | none").settable(NO_LIMIT),
    number("snapshot_limit", "SSLIMIT", Number::Limit, FV, "<count> | none").settable(NO_LIMIT),
    Property { default: NO_LIMIT, ..number("filesystem_count", "FSCOUNT", Number::Limit, F, "<count>") },
    Property { default: NO_LIMIT, ..number("snapshot_count", "SSCOUNT", Number::Limit, FV, "<count>") },
    index("snapdev", "SNAPDEV", SNAPDEV, 0, FV),
    index("acltype", "ACLTYPE", ACL_TYPE, 0, FS).values("off | nfsv4 | posix"),
    text("context", "CONTEXT", FVS, "<selinux context>").settable(NONE),
    text("fscontext", "FSCONTEXT", FVS, "<selinux fscontext>").settable(NONE),
    text("defcontext", "DEFCONTEXT", FVS, "<selinux defcontext>").settable(NONE),
    text("rootcontext", "ROOTCONTEXT", FVS, "<selinux rootcontext>").settable(NONE),
    index("relatime", "RELATIME", SWITCH, 1, F),
    index("redundant_metadata", "REDUND_MD", REDUNDANT_METADATA, 0, FV),
    index("overlay", "OVERLAY", SWITCH, 1, F),
    text("receive_resume_token", "RESUMETOK", FV, "<string token>"),
    index("encryption", "ENCRYPTION", ENCRYPTION, 2, FVS).values(ENCRYPTION_VALUES).at_creation(),
    text("keylocation", "KEYLOCATION", FV, "prompt | <file URI> | <https URL> | <http URL>").settable(NONE),
    index("keyformat", "KEYFORMAT", KEY_FORMAT, 0, FV).own().at_creation(),
    number("pbkdf2iters", "PBKDF2ITERS", Number::Exact, FV, "<iters>").settable(ZERO).at_creation(),
    text("encryptionroot", "ENCROOT", FVS, "<filesystem | volume>"),
    index("keystatus", "KEYSTATUS", KEY_STATUS, 0, FVS).measured(),
    number("special_small_blocks", "SPECIAL_SMALL_BLOCKS", Number::Count, F, "0 to 16M, power of 2")
        .settable(ZERO)
        .inherited(),
    text("redact_snaps", "RSNAPS", ALL, "<snapshot>[,...]"),
    number("snapshots_changed", "SNAPSHOTS_CHANGED", Number::Moment, FV, "<date>"),
    index("prefetch", "PREFETCH", CACHE, 2, FVS),
    index("volthreading", "VOLTHREAD", SWITCH, 1, V).own(),
    index("direct", "DIRECT", DIRECT, 1, F),
    index("longname", "LONGNAME", SWITCH, 0, F),
    number("numclones", "NUMCLONES", Number::Exact, S, "<count>").hidden(),
    number("unique", "UNIQUE", Number::Bytes, FVS, "<size>").hidden(),
    index("inconsistent", "INCONSISTENT", YES_NO, 0, FVS).measured().hidden(),
    number("useraccounting", "USERACCOUNTING", Number::Exact, FVS, "").hidden(),
];
