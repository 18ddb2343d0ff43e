//! The one crate for system calls: files, aligned buffers, mounts, sockets.
