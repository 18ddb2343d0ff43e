//! The library as programs use it: nothing but what is public, on image files.

mod library {
    mod datasets;
    mod examples;
    mod files;
    mod images;
    mod streams;

    use millpond::{CreateOptions, Pool};
    use tempfile::TempDir;

    /// A pool of 256 MiB in a folder of its own.
    pub(crate) struct Fixture {
        pub(crate) folder: TempDir,
        pub(crate) pool: Pool,
    }

    impl Fixture {
        pub(crate) fn new() -> Self {
            let folder = tempfile::tempdir().unwrap();
            let options = CreateOptions::new("pond")
                .file(folder.path().join("pond.img"))
                .file_size(256 << 20);
            let pool = Pool::create(&options).unwrap();
            Self { folder, pool }
        }

        pub(crate) fn image(&self) -> std::path::PathBuf {
            self.folder.path().join("pond.img")
        }

        /// Exports the pool, of which there is no other handle.
        pub(crate) fn close(self) -> TempDir {
            self.pool.export().unwrap();
            self.folder
        }
    }

    #[test]
    fn handles_go_between_threads() {
        fn check<T: Send + Sync>() {}
        check::<millpond::Pool>();
        check::<millpond::FileSystem>();
        check::<millpond::File>();
        check::<millpond::ReadDir>();
        check::<millpond::Image>();
        check::<millpond::Blocks<'_>>();
        check::<millpond::Block<'_>>();
        check::<millpond::Error>();
    }
}
