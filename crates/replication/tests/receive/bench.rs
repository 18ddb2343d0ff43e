//! A pool on a file that streams are received into.

use std::io::{Cursor, Read};
use std::path::PathBuf;
use std::sync::Arc;

use base::clock::SystemClock;
use dsl::tasks::{DestroyHead, DestroySnapshots};
use golden::{GoldenPool, Manifest};
use millpond_replication::receive::{Head, Healed, Incoming, Place, ReceiveError, apply, heal};
use pool::{CreateOptions, ImportOptions, NewDevice, NewVdev, Pool, Selection};
use posix::{DatasetProperties, FileSystem, MountOptions, Source};
use stream::{Part, Record};
use tempfile::TempDir;

pub(crate) struct Bench {
    folder: TempDir,
    pub(crate) image: PathBuf,
    /// What is received goes below it.
    pub(crate) below: String,
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
        let vdev = NewVdev::Single(NewDevice::Path(image.clone()));
        let pool = Pool::create(CreateOptions::new("tank", vec![vdev])).unwrap();
        Self {
            folder,
            image,
            below: "tank".to_owned(),
            pool: Some(pool),
        }
    }

    /// A pool of OpenZFS's, copied.
    pub(crate) fn of(golden: &GoldenPool) -> Self {
        let (folder, images) = golden.copy();
        let mut options = ImportOptions::new(vec![folder.path().to_owned()], Selection::Only);
        options.force = true;
        Self {
            folder,
            image: images.into_iter().next().unwrap(),
            below: golden.pool_name(),
            pool: Some(Pool::import(&options).unwrap()),
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
                path: self.place_of(&head.dataset),
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
            let applied = apply(
                &mut incoming,
                &receiving,
                engine,
                head.substream(&place),
                &|| Ok(()),
            );
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

    /// Heals the snapshots of all streams in `bytes`, which are called as they were sent, below this pool.
    pub(crate) fn heal(&self, bytes: Vec<u8>) -> Result<Vec<Healed>, ReceiveError> {
        let mut incoming = Incoming::start(Cursor::new(bytes))?;
        let mut all = Vec::new();
        while let Some(piece) = incoming.next_piece()? {
            let (Part::Substream, Record::Begin(begin)) = (piece.item.part, &piece.item.record)
            else {
                continue;
            };
            let head = Head::of(begin, &piece.payload)?;
            let name = format!("{}@{}", self.place_of(&head.dataset), head.snapshot);
            let snapshot = self.pool().dsl().dataset(&name)?;
            assert_eq!(snapshot.guid()?, head.to_guid);
            let _held = snapshot.hold_long();
            let is_sealed = head.sealed.is_some();
            all.push(heal(&mut incoming, &snapshot, self.pool(), is_sealed)?);
        }
        Ok(all)
    }

    /// Exports the pool, lets zdb look at it, and imports it again.
    pub(crate) fn check(&mut self) {
        let pool = self.pool.take().unwrap();
        let name = pool.name();
        pool.export().unwrap();
        drop(pool);
        if let Some(zdb) = golden::Zdb::from_environment() {
            zdb.assert_clean(self.folder.path(), &name);
        }
        let paths = vec![self.folder.path().to_owned()];
        let options = ImportOptions::new(paths, Selection::Name(name));
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

    /// Below the top as it was below the pool that it was sent from.
    fn place_of(&self, sent: &str) -> String {
        let top = &self.below;
        let below = sent.split_once('/').map(|(_, below)| below);
        below.map_or_else(|| top.clone(), |below| format!("{top}/{below}"))
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
