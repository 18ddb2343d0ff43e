//! Every on-disk byte of a ZFS pool, declared once.
