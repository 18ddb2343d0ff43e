//! The words of enumerated properties and the numbers stored for them.

/// `off` and `on`.
pub(super) const SWITCH: &[(&str, u64)] = &[("on", 1), ("off", 0)];
/// `no` and `yes`.
pub(super) const YES_NO: &[(&str, u64)] = &[("yes", 1), ("no", 0)];

pub(super) const CHECKSUM: &[(&str, u64)] = &[
    ("on", 1),
    ("off", 2),
    ("fletcher2", 6),
    ("fletcher4", 7),
    ("sha256", 8),
    ("noparity", 10),
    ("sha512", 11),
    ("skein", 12),
    ("edonr", 13),
    ("blake3", 14),
];

const VERIFY: u64 = 256;

pub(super) const DEDUP: &[(&str, u64)] = &[
    ("on", 1),
    ("off", 2),
    ("verify", 1 | VERIFY),
    ("sha256", 8),
    ("sha256,verify", 8 | VERIFY),
    ("sha512", 11),
    ("sha512,verify", 11 | VERIFY),
    ("skein", 12),
    ("skein,verify", 12 | VERIFY),
    ("edonr,verify", 13 | VERIFY),
    ("blake3", 14),
    ("blake3,verify", 14 | VERIFY),
];

/// zstd levels sit above bit 7 of the stored number; the fast ones begin at 103.
const fn zstd(level: u64) -> u64 {
    16 + (level << 7)
}

const fn zstd_fast(index: u64) -> u64 {
    zstd(103 + index)
}

pub(super) const COMPRESSION: &[(&str, u64)] = &[
    ("on", 1),
    ("off", 2),
    ("lzjb", 3),
    ("gzip", 10),
    ("gzip-1", 5),
    ("gzip-2", 6),
    ("gzip-3", 7),
    ("gzip-4", 8),
    ("gzip-5", 9),
    ("gzip-6", 10),
    ("gzip-7", 11),
    ("gzip-8", 12),
    ("gzip-9", 13),
    ("zle", 14),
    ("lz4", 15),
    ("zstd", 16),
    ("zstd-fast", zstd_fast(0)),
    ("zstd-1", zstd(1)),
    ("zstd-2", zstd(2)),
    ("zstd-3", zstd(3)),
    ("zstd-4", zstd(4)),
    ("zstd-5", zstd(5)),
    ("zstd-6", zstd(6)),
    ("zstd-7", zstd(7)),
    ("zstd-8", zstd(8)),
    ("zstd-9", zstd(9)),
    ("zstd-10", zstd(10)),
    ("zstd-11", zstd(11)),
    ("zstd-12", zstd(12)),
    ("zstd-13", zstd(13)),
    ("zstd-14", zstd(14)),
    ("zstd-15", zstd(15)),
    ("zstd-16", zstd(16)),
    ("zstd-17", zstd(17)),
    ("zstd-18", zstd(18)),
    ("zstd-19", zstd(19)),
    ("zstd-fast-1", zstd_fast(0)),
    ("zstd-fast-2", zstd_fast(1)),
    ("zstd-fast-3", zstd_fast(2)),
    ("zstd-fast-4", zstd_fast(3)),
    ("zstd-fast-5", zstd_fast(4)),
    ("zstd-fast-6", zstd_fast(5)),
    ("zstd-fast-7", zstd_fast(6)),
    ("zstd-fast-8", zstd_fast(7)),
    ("zstd-fast-9", zstd_fast(8)),
    ("zstd-fast-10", zstd_fast(9)),
    ("zstd-fast-20", zstd_fast(10)),
    ("zstd-fast-30", zstd_fast(11)),
    ("zstd-fast-40", zstd_fast(12)),
    ("zstd-fast-50", zstd_fast(13)),
    ("zstd-fast-60", zstd_fast(14)),
    ("zstd-fast-70", zstd_fast(15)),
    ("zstd-fast-80", zstd_fast(16)),
    ("zstd-fast-90", zstd_fast(17)),
    ("zstd-fast-100", zstd_fast(18)),
    ("zstd-fast-500", zstd_fast(19)),
    ("zstd-fast-1000", zstd_fast(20)),
];

pub(super) const ENCRYPTION: &[(&str, u64)] = &[
    ("off", 2),
    ("on", 1),
    ("aes-128-ccm", 3),
    ("aes-192-ccm", 4),
    ("aes-256-ccm", 5),
    ("aes-128-gcm", 6),
    ("aes-192-gcm", 7),
    ("aes-256-gcm", 8),
];
pub(super) const KEY_FORMAT: &[(&str, u64)] =
    &[("none", 0), ("raw", 1), ("hex", 2), ("passphrase", 3)];
pub(super) const KEY_STATUS: &[(&str, u64)] = &[("none", 0), ("unavailable", 1), ("available", 2)];

pub(super) const SYNC: &[(&str, u64)] = &[("standard", 0), ("always", 1), ("disabled", 2)];
pub(super) const LOG_BIAS: &[(&str, u64)] = &[("latency", 0), ("throughput", 1)];
pub(super) const CACHE: &[(&str, u64)] = &[("none", 0), ("metadata", 1), ("all", 2)];
/// `on` and `sa` are one value; `on` is what is shown.
pub(super) const XATTR: &[(&str, u64)] = &[("off", 0), ("on", 2), ("sa", 2), ("dir", 1)];
pub(super) const ACL_TYPE: &[(&str, u64)] = &[
    ("off", 0),
    ("nfsv4", 2),
    ("posix", 1),
    ("disabled", 0),
    ("noacl", 0),
    ("posixacl", 1),
];
pub(super) const ACL_MODE: &[(&str, u64)] = &[
    ("discard", 0),
    ("groupmask", 2),
    ("passthrough", 3),
    ("restricted", 4),
];
pub(super) const ACL_INHERIT: &[(&str, u64)] = &[
    ("discard", 0),
    ("noallow", 1),
    ("restricted", 4),
    ("passthrough", 3),
    ("passthrough-x", 5),
];
pub(super) const SNAPDIR: &[(&str, u64)] = &[("disabled", 2), ("hidden", 0), ("visible", 1)];
pub(super) const SNAPDEV: &[(&str, u64)] = &[("hidden", 0), ("visible", 1)];
pub(super) const REDUNDANT_METADATA: &[(&str, u64)] =
    &[("all", 0), ("most", 1), ("some", 2), ("none", 3)];
pub(super) const DNODE_SIZE: &[(&str, u64)] = &[
    ("legacy", 0),
    ("auto", 1),
    ("1k", 1024),
    ("2k", 2048),
    ("4k", 4096),
    ("8k", 8192),
    ("16k", 16384),
];
pub(super) const VOLUME_MODE: &[(&str, u64)] = &[
    ("default", 0),
    ("full", 1),
    ("geom", 1),
    ("dev", 2),
    ("none", 3),
];
pub(super) const CAN_MOUNT: &[(&str, u64)] = &[("off", 0), ("on", 1), ("noauto", 2)];
pub(super) const CASE: &[(&str, u64)] = &[("sensitive", 0), ("insensitive", 1), ("mixed", 2)];
pub(super) const NORMALIZATION: &[(&str, u64)] = &[
    ("none", 0),
    ("formC", 0x50),
    ("formD", 0x10),
    ("formKC", 0x60),
    ("formKD", 0x20),
];
pub(super) const DIRECT: &[(&str, u64)] = &[("disabled", 0), ("standard", 1), ("always", 2)];
pub(super) const COPIES: &[(&str, u64)] = &[("1", 1), ("2", 2), ("3", 3)];
pub(super) const VERSION: &[(&str, u64)] = &[
    ("1", 1),
    ("2", 2),
    ("3", 3),
    ("4", 4),
    ("5", 5),
    ("current", 5),
];
pub(super) const FAIL_MODE: &[(&str, u64)] = &[("wait", 0), ("continue", 1), ("panic", 2)];
