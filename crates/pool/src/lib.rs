//! A pool: import, create, export, configuration, features and the sync loop.

mod allocator;
mod blocks;
mod space_store;
