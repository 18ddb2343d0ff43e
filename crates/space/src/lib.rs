//! Free space: range trees, metaslabs and the allocation policy.
