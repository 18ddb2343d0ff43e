//! A pool on a file that streams are received into.

use std::io::{Cursor, Read};
use std::sync::Arc;

use base::clock::SystemClock;
use dsl::tasks::{DestroyHead, DestroySnapshots};
use golden::Manifest;
use millpond_replication::receive::{Head, Incoming, Place, ReceiveError, apply};
use pool::{CreateOptions, ImportOptions, NewDevice, NewVdev, Pool, Selection};
use posix::{DatasetProperties, FileSystem, MountOptions, Source};
use stream::{Part, Record};
use tempfile::TempDir;

pub(crate) struct Bench {
    folder: TempDir,
    pool: Option<Arc<Pool>>,
}

impl Bench {
    pub(crate) fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let image = folder.path().join("tank.img");
        std::fs::File::create(&image)
            .unwrap()
            .set_len(256 << 20)
            .unwrap();
        let vdev = NewVdev::Single(NewDevice::Path(image));
        let pool = Pool::create(CreateOptions::new("tank", vec![vdev])).unwrap();
        Self {
            folder,
            pool: Some(pool),
        }
    }

    pub(crate) fn pool(&self) -> &Arc<Pool> {
        self.pool.as_ref().unwrap()
    }

    /// Receives all streams in `bytes` below `tank`, named as the part of the sent name after the pool.
    pub(crate) fn receive(&self, bytes: Vec<u8>, force: bool) -> Result<(), ReceiveError> {
        self.receive_from(Cursor::new(bytes), force, false)
    }

    pub(crate) fn receive_from(
        &self,
        input: impl Read + Send + 'static,
        force: bool,
        resumable: bool,
    ) -> Result<(), ReceiveError> {
        let dsl = self.pool().dsl();
        let mut incoming = Incoming::start(input)?;
        while let Some(piece) = incoming.next_piece()? {
            let (Part::Substream, Record::Begin(begin)) = (piece.item.part, &piece.item.record)
            else {
                continue;
            };
            let head = Head::of(begin, &piece.payload)?;
            head.check_features(dsl)?;
            let place = Place {
                path: place_of(&head.dataset),
                snapshot: head.snapshot.clone(),
                origin: None,
                force,
                unencrypted: false,
                resumable,
            };
            let receiving = match head.resumes_at {
                Some(at) => dsl.run(head.resume(&place.path, at))?,
                None => dsl.run(head.begin(&place))?,
            };
            let engine = self.pool().engine().unwrap();
            let applied = apply(&mut incoming, &receiving, engine, head.substream(&place));
            if let Err(error) = applied {
                receiving.end_sealed();
                if !resumable {
                    let path = receiving.directory().name();
                    drop(receiving);
                    dsl.run(DestroyHead { path })?;
                }
                return Err(error);
            }
            dsl.run(head.end(&receiving, &place))?;
        }
        Ok(())
    }

    /// Exports the pool, lets zdb look at it, and imports it again.
    pub(crate) fn check(&mut self) {
        let pool = self.pool.take().unwrap();
        pool.export().unwrap();
        drop(pool);
        if let Some(zdb) = golden::Zdb::from_environment() {
            zdb.assert_clean(self.folder.path(), "tank");
        }
        let paths = vec![self.folder.path().to_owned()];
        let options = ImportOptions::new(paths, Selection::Name("tank".to_owned()));
        self.pool = Some(Pool::import(&options).unwrap());
    }

    /// What a dataset shows.
    pub(crate) fn files(&self, name: &str) -> Manifest {
        let dataset = self.pool().dsl().dataset(name).unwrap();
        let source = Source {
            objects: dataset.object_set().unwrap(),
            engine: None,
            log: None,
            space: None,
            clock: Arc::new(SystemClock),
            identity: 0,
            properties: DatasetProperties::default(),
        };
        let mounted = FileSystem::mount(source, MountOptions::default()).unwrap();
        crate::walk::describe(&mounted)
    }

    /// Destroys a head and its snapshots.
    pub(crate) fn destroy(&self, snapshots: &[&str], head: &str) {
        let dsl = self.pool().dsl();
        let snapshots = snapshots.iter().map(|name| (*name).to_owned()).collect();
        let task = DestroySnapshots {
            names: snapshots,
            defer: false,
        };
        dsl.run(task).unwrap();
        let path = head.to_owned();
        dsl.run(DestroyHead { path }).unwrap();
    }

    /// Everything that the tree of datasets has, by name.
    pub(crate) fn names(&self) -> Vec<String> {
        let dsl = self.pool().dsl();
        let mut names = Vec::new();
        for head in dsl.heads_under(&dsl.root_directory().unwrap()).unwrap() {
            names.push(head.name().unwrap());
            let hidden = head.directory().child("%recv").unwrap();
            names.extend(hidden.map(|hidden| hidden.name()));
            for snapshot in head.snapshots().unwrap() {
                names.push(snapshot.name().unwrap());
            }
        }
        names
    }
}

/// Below `tank` as it was below the pool that it was sent from.
fn place_of(sent: &str) -> String {
    let below = sent.split_once('/').map(|(_, below)| below);
    below.map_or("tank".to_owned(), |below| format!("tank/{below}"))
}
