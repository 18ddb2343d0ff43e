//! Datasets and snapshots: directories, dead lists, properties, space accounting.
