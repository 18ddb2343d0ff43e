//! OpenZFS pools without the kernel module: the library face.
