//! Virtual devices: leaves, mirrors, labels and their I/O queues.
