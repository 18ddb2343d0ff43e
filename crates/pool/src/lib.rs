//! A pool: import, create, export, configuration, features and the sync loop.
