//! The library as programs use it: nothing but what is public, on image files.

mod library {
    mod datasets;
    mod examples;
    mod files;
    mod images;
    mod streams;

    use millpond::{CreateOptions, Error, Pool};
    use std::error::Error as _;
    use std::io;
    use std::path::Path;
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

    /// Where a file cannot be made is no damage, and a program is told why.
    #[test]
    fn a_file_that_cannot_be_made_is_no_damage() {
        let folder = tempfile::tempdir().unwrap();
        let create = |path: &Path| {
            let options = CreateOptions::new("pond").file(path).file_size(96 << 20);
            Pool::create(&options).unwrap_err()
        };
        let kind_behind = |error: &Error| {
            let behind = error.cause().source().unwrap();
            behind.downcast_ref::<io::Error>().unwrap().kind()
        };
        let error = create(&folder.path().join("nowhere/pond.img"));
        assert!(matches!(error, Error::NotFound(_)), "{error:?}");
        assert_eq!(kind_behind(&error), io::ErrorKind::NotFound);
        // Nobody makes files there, not even root.
        let error = create(Path::new("/sys/pond.img"));
        if !matches!(error, Error::ReadOnly(_)) {
            assert!(matches!(error, Error::Permission(_)), "{error:?}");
            assert_eq!(kind_behind(&error), io::ErrorKind::PermissionDenied);
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
