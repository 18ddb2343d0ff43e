//! Checksums, compression and other pure transforms of bytes.
