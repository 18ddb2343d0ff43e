//! The properties of file systems, volumes, snapshots and bookmarks.

use format::{features, version};

use super::table;
use crate::property::facts::{
    Default, Effect, Home, MountOption, Need, Number, Range, Requirement, Shown, Support, TextRule,
    Types, Unsupported, Values,
};
use crate::property::key_location::KeyLocation;
use crate::property::row::{index, number, ruled, text, within};
use crate::property::typed::SWITCH;
use crate::property::words::{
    self, AclInherit, AclMode, AclType, CachePolicy, CanMount, CaseRule, DirectPolicy, LogBias,
    RedundantMetadata, SnapshotDevices, SnapshotDirectory, SyncPolicy, VolumeMode, XattrPolicy,
};

const F: Types = Types::FILESYSTEM;
const V: Types = Types::VOLUME;
const S: Types = Types::SNAPSHOT;
const FV: Types = Types::HEADS;
const FS: Types = F.union(S);
const FVS: Types = FV.union(S);

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

const fn need(values: Values, feature: &'static features::Feature) -> Need {
    Need {
        values,
        requirement: Requirement::Feature(feature),
    }
}

const fn since(values: Values, version: u64) -> Need {
    Need {
        values,
        requirement: Requirement::Version(version),
    }
}

const COMPRESSION_NEEDS: &[Need] = &[
    need(Values::Low(15), &features::LZ4_COMPRESS),
    need(Values::Low(16), &features::ZSTD_COMPRESS),
    since(Values::Within(5, 13), version::GZIP),
    since(Values::Is(14), version::ZLE),
];
/// In the property dedup, beside a checksum.
const VERIFY: u64 = 256;
const CHECKSUM_NEEDS: &[Need] = &[
    need(Values::Is(11), &features::SHA512),
    need(Values::Is(12), &features::SKEIN),
    need(Values::Is(13), &features::EDONR),
    need(Values::Is(14), &features::BLAKE3),
];
const DEDUP_OFF: u64 = 2;
const DEDUP_NEEDS: &[Need] = &[
    need(Values::Is(11), &features::SHA512),
    need(Values::Is(11 | VERIFY), &features::SHA512),
    need(Values::Is(12), &features::SKEIN),
    need(Values::Is(12 | VERIFY), &features::SKEIN),
    need(Values::Is(13 | VERIFY), &features::EDONR),
    need(Values::Is(14), &features::BLAKE3),
    need(Values::Is(14 | VERIFY), &features::BLAKE3),
    since(Values::IsNot(DEDUP_OFF), version::DEDUP),
];
const LARGE_BLOCKS_NEEDED: &[Need] = &[need(Values::Above(128 << 10), &features::LARGE_BLOCKS)];
const LIMITS_NEEDED: &[Need] = &[need(Values::All, &features::FILESYSTEM_LIMITS)];

table! {
    /// Every dataset property.
    DATASET_PROPERTIES;
    Figure as Dataset;

    NAME: String = text("name", "NAME", "<dataset>").hidden();
    TYPE: String = text("type", "TYPE", "filesystem | volume | snapshot | bookmark");
    CREATION: u64 = number("creation", "CREATION", Number::Date, "<date>") => Creation;
    USED: u64 = number("used", "USED", Number::Bytes, "<size>").types(FVS) => Used;
    AVAILABLE: u64 = number("available", "AVAIL", Number::Bytes, "<size>").types(FV) => Available;
    REFERENCED: u64 = number("referenced", "REFER", Number::Bytes, "<size>") => Referenced;
    COMPRESSRATIO: u64 = number(
        "compressratio",
        "RATIO",
        Number::Ratio,
        "<1.00x or higher if compressed>",
    ) => CompressRatio;
    MOUNTED: bool = index("mounted", "MOUNTED", words::YES_NO, 0).types(F).read_only() => Mounted;
    ORIGIN: String = text("origin", "ORIGIN", "<snapshot>").types(FV) => Origin;
    QUOTA: u64 = number("quota", "QUOTA", Number::Quota, "<size> | none")
        .types(F)
        .settable(ZERO)
        .effects(&[Effect::Quota, Effect::MayFreeSpace]) => Quota;
    RESERVATION: u64 = number("reservation", "RESERV", Number::Reservation, "<size> | none")
        .types(FV)
        .settable(ZERO)
        .effects(&[Effect::Reservation, Effect::MayFreeSpace]) => Reservation;
    VOLSIZE: u64 = number("volsize", "VOLSIZE", Number::Bytes, "<size>")
        .types(V.union(S))
        .settable(ZERO)
        .inside(Home::Volume) => VolumeSize;
    VOLBLOCKSIZE: u64 = within(
        "volblocksize",
        "VOLBLOCK",
        Number::Bytes,
        Range::BlockSize,
        "512 to 16M, power of 2",
    )
        .types(V)
        .at_creation()
        .default(Default::Number(16 << 10))
        .inside(Home::Volume)
        .needs(LARGE_BLOCKS_NEEDED)
        .shown(Shown::PlainOrDefault) => VolumeBlockSize;
    RECORDSIZE: u64 = within(
        "recordsize",
        "RECSIZE",
        Number::Bytes,
        Range::BlockSize,
        "512 to 16M, power of 2",
    )
        .types(F)
        .settable(Default::Number(131_072))
        .inherited()
        .needs(LARGE_BLOCKS_NEEDED)
        .effects(&[Effect::Remount]);
    MOUNTPOINT: String = ruled(
        "mountpoint",
        "MOUNTPOINT",
        TextRule::MountPoint,
        "<path> | legacy | none",
    )
        .types(F)
        .settable(Default::Nothing)
        .inherited()
        .effects(&[Effect::Move]);
    SHARENFS: String = text("sharenfs", "SHARENFS", "on | off | NFS share options")
        .types(F)
        .settable(OFF)
        .inherited()
        .stored();
    CHECKSUM: u64 = index("checksum", "CHECKSUM", words::CHECKSUM, 1)
        .types(FV)
        .values(CHECKSUM_VALUES)
        .needs(CHECKSUM_NEEDS)
        .effects(&[Effect::ActivateFeature]);
    COMPRESSION: u64 = index("compression", "COMPRESS", words::COMPRESSION, 1)
        .types(FV)
        .values(COMPRESSION_VALUES)
        .needs(COMPRESSION_NEEDS)
        .effects(&[Effect::ActivateFeature, Effect::MayFreeSpace]);
    ATIME: bool = index("atime", "ATIME", SWITCH, 1)
        .types(F)
        .effects(&[Effect::Remount])
        .mount(MountOption::AccessTimes);
    DEVICES: bool = index("devices", "DEVICES", SWITCH, 1)
        .types(FS)
        .effects(&[Effect::Remount])
        .mount(MountOption::Devices);
    EXEC: bool = index("exec", "EXEC", SWITCH, 1)
        .types(FS)
        .effects(&[Effect::Remount])
        .mount(MountOption::Execute);
    SETUID: bool = index("setuid", "SETUID", SWITCH, 1)
        .types(FS)
        .effects(&[Effect::Remount])
        .mount(MountOption::SetUserId);
    READONLY: bool = index("readonly", "RDONLY", SWITCH, 0)
        .types(FV)
        .effects(&[Effect::Remount])
        .mount(MountOption::ReadOnly);
    ZONED: bool = index("zoned", "ZONED", SWITCH, 0).types(F);
    SNAPDIR: SnapshotDirectory = SnapshotDirectory::row(
        "snapdir",
        "SNAPDIR",
        SnapshotDirectory::Hidden,
    )
        .types(F)
        .effects(&[Effect::Remount])
        .stand_in(2, 0);
    ACLMODE: AclMode = AclMode::row("aclmode", "ACLMODE", AclMode::Discard)
        .types(F)
        .stored();
    ACLINHERIT: AclInherit = AclInherit::row("aclinherit", "ACLINHERIT", AclInherit::Restricted)
        .types(F)
        .needs(&[since(Values::Is(5), version::PASSTHROUGH_X)])
        .stored();
    CREATETXG: u64 = number("createtxg", "CREATETXG", Number::Exact, "<uint64>") => CreationTxg;
    CANMOUNT: CanMount = CanMount::row("canmount", "CANMOUNT", CanMount::On)
        .types(F)
        .values("on | off | noauto")
        .own()
        .effects(&[Effect::Move]);
    XATTR: XattrPolicy = XattrPolicy::row("xattr", "XATTR", XattrPolicy::SystemAttribute)
        .types(FS)
        .values("on | off | dir | sa")
        .effects(&[Effect::Remount]);
    COPIES: u64 = index("copies", "COPIES", words::COPIES, 1)
        .types(FV)
        .needs(&[since(Values::IsNot(1), version::COPIES)]);
    VERSION: u64 = index("version", "VERSION", words::VERSION, 5)
        .types(FS)
        .own()
        .needs(&[
            since(Values::Is(3), version::UNIQUE_ACCURATE),
            since(Values::Is(4), version::OWNER_ACCOUNTING),
            since(Values::Is(5), version::SYSTEM_ATTRIBUTES),
        ])
        .inside(Home::FileSystem) => Version;
    UTF8ONLY: bool = index("utf8only", "UTF8ONLY", SWITCH, 0)
        .types(FS)
        .at_creation()
        .needs(&[since(Values::IsNot(0), version::UNIQUE_ACCURATE)])
        .inside(Home::FileSystem) => Utf8Only;
    NORMALIZATION: u64 = index("normalization", "NORMALIZATION", words::NORMALIZATION, 0)
        .types(FS)
        .at_creation()
        .needs(&[since(Values::IsNot(0), version::UNIQUE_ACCURATE)])
        .inside(Home::FileSystem) => Normalization;
    CASESENSITIVITY: CaseRule = CaseRule::row("casesensitivity", "CASE", CaseRule::Sensitive)
        .types(FS)
        .at_creation()
        .needs(&[since(Values::IsNot(0), version::UNIQUE_ACCURATE)])
        .inside(Home::FileSystem) => CaseSensitivity;
    VSCAN: bool = index("vscan", "VSCAN", SWITCH, 0).types(F).stored();
    NBMAND: bool = index("nbmand", "NBMAND", SWITCH, 0).types(FS).stored();
    SHARESMB: String = text("sharesmb", "SHARESMB", "on | off | SMB share options")
        .types(F)
        .settable(OFF)
        .inherited()
        .stored();
    REFQUOTA: u64 = number("refquota", "REFQUOTA", Number::Quota, "<size> | none")
        .types(F)
        .settable(ZERO)
        .needs(&[since(Values::IsNot(0), version::UNIQUE_ACCURATE)])
        .effects(&[Effect::RefQuota, Effect::MayFreeSpace]);
    REFRESERVATION: u64 = number(
        "refreservation",
        "REFRESERV",
        Number::AutoReservation,
        "<size> | none",
    )
        .types(FV)
        .settable(ZERO)
        .needs(&[since(Values::IsNot(0), version::UNIQUE_ACCURATE)])
        .effects(&[Effect::RefReservation, Effect::MayFreeSpace]);
    GUID: u64 = number("guid", "GUID", Number::Exact, "<uint64>") => Guid;
    PRIMARYCACHE: CachePolicy = CachePolicy::row("primarycache", "PRIMARYCACHE", CachePolicy::All)
        .types(FVS)
        .values(CACHE_VALUES)
        .effects(&[Effect::Caching]);
    SECONDARYCACHE: CachePolicy = CachePolicy::row(
        "secondarycache",
        "SECONDARYCACHE",
        CachePolicy::All,
    )
        .types(FVS)
        .values(CACHE_VALUES);
    USEDBYSNAPSHOTS: u64 = number("usedbysnapshots", "USEDSNAP", Number::Bytes, "<size>")
        .types(FV) => UsedBySnapshots;
    USEDBYDATASET: u64 = number("usedbydataset", "USEDDS", Number::Bytes, "<size>")
        .types(FV) => UsedByDataset;
    USEDBYCHILDREN: u64 = number("usedbychildren", "USEDCHILD", Number::Bytes, "<size>")
        .types(FV) => UsedByChildren;
    USEDBYREFRESERVATION: u64 = number(
        "usedbyrefreservation",
        "USEDREFRESERV",
        Number::Bytes,
        "<size>",
    )
        .types(FV) => UsedByRefReservation;
    DEFER_DESTROY: bool = index("defer_destroy", "DEFER_DESTROY", SWITCH, 0)
        .types(S)
        .read_only() => DeferDestroy;
    USERREFS: u64 = number("userrefs", "USERREFS", Number::Exact, "<count>")
        .types(S) => UserReferences;
    LOGBIAS: LogBias = LogBias::row("logbias", "LOGBIAS", LogBias::Latency).types(FV);
    OBJSETID: u64 = number("objsetid", "OBJSETID", Number::Exact, "<uint64>")
        .types(FVS) => ObjectSetId;
    DEDUP: u64 = index("dedup", "DEDUP", words::DEDUP, 2)
        .types(FV)
        .values(DEDUP_VALUES)
        .needs(DEDUP_NEEDS)
        .effects(&[Effect::ActivateFeature]);
    MLSLABEL: String = text("mlslabel", "MLSLABEL", "<sensitivity label>")
        .types(FVS)
        .settable(NONE)
        .inherited()
        .support(Support::DefaultOnly(Unsupported::Labels));
    SYNC: SyncPolicy = SyncPolicy::row("sync", "SYNC", SyncPolicy::Standard)
        .types(FV)
        .effects(&[Effect::Remount]);
    DNODESIZE: u64 = index("dnodesize", "DNSIZE", words::DNODE_SIZE, 0)
        .types(F)
        .needs(&[need(Values::IsNot(0), &features::LARGE_DNODE)])
        .effects(&[Effect::Remount]);
    REFCOMPRESSRATIO: u64 = number(
        "refcompressratio",
        "REFRATIO",
        Number::Ratio,
        "<1.00x or higher if compressed>",
    )
        .types(FVS) => RefCompressRatio;
    WRITTEN: u64 = number("written", "WRITTEN", Number::Count, "<size>").types(FVS) => Written;
    CLONES: String = text("clones", "CLONES", "<dataset>[,...]").types(S) => Clones;
    LOGICALUSED: u64 = number("logicalused", "LUSED", Number::Bytes, "<size>")
        .types(FV) => LogicalUsed;
    LOGICALREFERENCED: u64 = number("logicalreferenced", "LREFER", Number::Bytes, "<size>")
        => LogicalReferenced;
    VOLMODE: VolumeMode = VolumeMode::row("volmode", "VOLMODE", VolumeMode::Default)
        .types(FV)
        .stored();
    FILESYSTEM_LIMIT: u64 = number("filesystem_limit", "FSLIMIT", Number::Limit, "<count> | none")
        .types(F)
        .settable(NO_LIMIT)
        .needs(LIMITS_NEEDED)
        .effects(&[Effect::CountBelow]);
    SNAPSHOT_LIMIT: u64 = number("snapshot_limit", "SSLIMIT", Number::Limit, "<count> | none")
        .types(FV)
        .settable(NO_LIMIT)
        .needs(LIMITS_NEEDED)
        .effects(&[Effect::CountBelow]);
    FILESYSTEM_COUNT: u64 = number("filesystem_count", "FSCOUNT", Number::Limit, "<count>")
        .types(F)
        .default(NO_LIMIT)
        .shown(Shown::Counted) => FileSystemCount;
    SNAPSHOT_COUNT: u64 = number("snapshot_count", "SSCOUNT", Number::Limit, "<count>")
        .types(FV)
        .default(NO_LIMIT)
        .shown(Shown::Counted) => SnapshotCount;
    SNAPDEV: SnapshotDevices = SnapshotDevices::row("snapdev", "SNAPDEV", SnapshotDevices::Hidden)
        .types(FV)
        .stored();
    ACLTYPE: AclType = AclType::row("acltype", "ACLTYPE", AclType::Off)
        .types(FS)
        .values("off | nfsv4 | posix")
        .effects(&[Effect::Remount]);
    CONTEXT: String = text("context", "CONTEXT", "<selinux context>")
        .types(FVS)
        .settable(NONE)
        .stored();
    FSCONTEXT: String = text("fscontext", "FSCONTEXT", "<selinux fscontext>")
        .types(FVS)
        .settable(NONE)
        .stored();
    DEFCONTEXT: String = text("defcontext", "DEFCONTEXT", "<selinux defcontext>")
        .types(FVS)
        .settable(NONE)
        .stored();
    ROOTCONTEXT: String = text("rootcontext", "ROOTCONTEXT", "<selinux rootcontext>")
        .types(FVS)
        .settable(NONE)
        .stored();
    RELATIME: bool = index(
        "relatime",
        "RELATIME",
        SWITCH,
        1).types(F).effects(&[Effect::Remount],
    );
    REDUNDANT_METADATA: RedundantMetadata = RedundantMetadata::row(
        "redundant_metadata",
        "REDUND_MD",
        RedundantMetadata::All,
    )
        .types(FV)
        .stand_in(2, 0);
    OVERLAY: bool = index("overlay", "OVERLAY", SWITCH, 1).types(F);
    RECEIVE_RESUME_TOKEN: String = text("receive_resume_token", "RESUMETOK", "<string token>")
        .types(FV) => ResumeToken;
    ENCRYPTION: u64 = index("encryption", "ENCRYPTION", words::ENCRYPTION, 2)
        .types(FVS)
        .values(ENCRYPTION_VALUES)
        .at_creation()
        .support(Support::Never(Unsupported::OnlyNew))
        .shown(Shown::OrDefault) => Encryption;
    KEYLOCATION: String = text("keylocation", "KEYLOCATION", KeyLocation::WORDS)
        .types(FV)
        .settable(NONE)
        .support(Support::DefaultOnly(Unsupported::NoKey));
    KEYFORMAT: u64 = index("keyformat", "KEYFORMAT", words::KEY_FORMAT, 0)
        .types(FV)
        .own()
        .at_creation()
        .support(Support::Never(Unsupported::OnlyNew))
        .shown(Shown::OrDefault) => KeyFormat;
    PBKDF2ITERS: u64 = within(
        "pbkdf2iters",
        "PBKDF2ITERS",
        Number::Exact,
        Range::AtLeast(100_000),
        "<iters>",
    )
        .types(FV)
        .settable(ZERO)
        .at_creation()
        .support(Support::Never(Unsupported::OnlyNew))
        .shown(Shown::OrDefault) => KeyIterations;
    ENCRYPTIONROOT: String = text("encryptionroot", "ENCROOT", "<filesystem | volume>")
        .types(FVS) => EncryptionRoot;
    KEYSTATUS: u64 = index("keystatus", "KEYSTATUS", words::KEY_STATUS, 0)
        .types(FVS)
        .read_only() => KeyStatus;
    SPECIAL_SMALL_BLOCKS: u64 = within(
        "special_small_blocks",
        "SPECIAL_SMALL_BLOCKS",
        Number::Count,
        Range::BlockSizeOrZero,
        "0 to 16M, power of 2",
    )
        .types(F)
        .settable(ZERO)
        .inherited();
    REDACT_SNAPS: String = text("redact_snaps", "RSNAPS", "<snapshot>[,...]")
        .types(FVS.union(Types::BOOKMARK)) => RedactSnapshots;
    SNAPSHOTS_CHANGED: u64 = number(
        "snapshots_changed",
        "SNAPSHOTS_CHANGED",
        Number::Moment,
        "<date>",
    )
        .types(FV) => SnapshotsChanged;
    PREFETCH: CachePolicy = CachePolicy::row("prefetch", "PREFETCH", CachePolicy::All)
        .types(FVS)
        .effects(&[Effect::Remount]);
    VOLTHREADING: bool = index("volthreading", "VOLTHREAD", SWITCH, 1).types(V).own();
    DIRECT: DirectPolicy = DirectPolicy::row("direct", "DIRECT", DirectPolicy::Standard)
        .types(F)
        .stored();
    LONGNAME: bool = index("longname", "LONGNAME", SWITCH, 0)
        .types(F)
        .needs(&[need(Values::Is(1), &features::LONGNAME)])
        .effects(&[Effect::Remount]);
    NUMCLONES: u64 = number("numclones", "NUMCLONES", Number::Exact, "<count>")
        .types(S)
        .hidden() => CloneCount;
    UNIQUE: u64 = number("unique", "UNIQUE", Number::Bytes, "<size>").types(FVS).hidden() => Unique;
    INCONSISTENT: bool = index("inconsistent", "INCONSISTENT", words::YES_NO, 0)
        .types(FVS)
        .read_only()
        .hidden() => Inconsistent;
    USERACCOUNTING: u64 = number("useraccounting", "USERACCOUNTING", Number::Exact, "")
        .types(FVS)
        .hidden();
}
