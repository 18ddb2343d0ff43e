//! The least that reads a pool on one disk (or a mirror's side): enough to test files without the
//! crates that open pools.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;

use base::{Bookmark, ByteOrder, ObjectId, ObjectSetId};
use dmu::{BlockError, BlockStore, Object, ObjectSet, OpenObjectSet, Zap};
use format::dsl::{DatasetPhys, DirectoryPhys};
use format::uberblock::Uberblock;
use format::{BlockPointer, label, swap};
use sys::{Buffer, BufferMut};

struct Disk(File);

impl Disk {
    fn load(&self, pointer: &BlockPointer) -> Result<Buffer, std::io::Error> {
        let mut data = BufferMut::zeroed(pointer.lsize() as usize);
        if pointer.is_hole() {
            return Ok(data.freeze());
        }
        let mut stored = vec![0; pointer.psize() as usize];
        if pointer.is_embedded() {
            let mut payload = [0; 112];
            let length = pointer.embedded_payload(&mut payload);
            stored.copy_from_slice(&payload[..length]);
        } else {
            let dva = pointer.dva(0).ok_or(std::io::ErrorKind::InvalidData)?;
            assert!(!dva.gang, "this reader knows no gang blocks");
            self.0
                .read_exact_at(&mut stored, dva.offset + label::DATA_START)?;
        }
        let compression = pointer.compression().map_err(std::io::Error::other)?;
        codec::decompress(compression, &stored, &mut data).map_err(std::io::Error::other)?;
        if pointer.byte_order() != ByteOrder::NATIVE {
            swap::block(pointer.object_type(), pointer.level(), &mut data);
        }
        Ok(data.freeze())
    }
}

impl BlockStore for Disk {
    fn read(&self, pointer: &BlockPointer, _: Bookmark) -> Result<Buffer, BlockError> {
        self.load(pointer).map_err(BlockError::new)
    }

    fn prefetch(&self, _: &[(BlockPointer, Bookmark)]) {}

    fn charged_bytes(&self, pointer: &BlockPointer) -> u64 {
        pointer.asize()
    }
}

/// A pool that is read through one image.
pub(crate) struct Reader {
    disk: Arc<Disk>,
    mos: Arc<ObjectSet>,
}

impl Reader {
    pub(crate) fn open(image: &Path) -> Self {
        let disk = Arc::new(Disk(File::open(image).unwrap()));
        let mut ring = vec![0; label::RING_SIZE];
        disk.0.read_exact_at(&mut ring, label::RING_OFFSET).unwrap();
        let newest = ring
            .chunks(1024)
            .filter_map(|slot| Uberblock::read(slot).ok())
            .max_by_key(|uberblock| uberblock.txg)
            .expect("no uberblock");
        let mos = open(&disk, ObjectSetId(0), &newest.root);
        Self { disk, mos }
    }

    fn zap(&self, id: ObjectId) -> Zap {
        Zap::open(&self.mos.object(id).unwrap()).unwrap()
    }

    fn directory(&self, id: ObjectId) -> DirectoryPhys {
        let object = self.mos.object(id).unwrap();
        object
            .with_bonus(|bonus| DirectoryPhys::decode(bonus, ByteOrder::NATIVE))
            .unwrap()
    }

    fn dataset(object: &Object) -> DatasetPhys {
        object
            .with_bonus(|bonus| DatasetPhys::decode(bonus, ByteOrder::NATIVE))
            .unwrap()
    }

    /// The object set of `pool/fs` or `pool/fs@snapshot`.
    pub(crate) fn object_set(&self, name: &str) -> Arc<ObjectSet> {
        let (path, snapshot) = name
            .split_once('@')
            .map_or((name, None), |(a, b)| (a, Some(b)));
        let root = self
            .zap(ObjectId(1))
            .lookup(b"root_dataset")
            .unwrap()
            .unwrap();
        let mut directory = self.directory(ObjectId(root));
        for component in path.split('/').skip(1) {
            let children = self.zap(directory.child_map);
            let child = children
                .lookup(component.as_bytes())
                .unwrap()
                .expect("no such dataset");
            directory = self.directory(ObjectId(child));
        }
        let mut id = directory.head_dataset;
        let mut phys = Self::dataset(&self.mos.object(id).unwrap());
        if let Some(snapshot) = snapshot {
            let names = self.zap(phys.snapshot_names);
            id = ObjectId(
                names
                    .lookup(snapshot.as_bytes())
                    .unwrap()
                    .expect("no such snapshot"),
            );
            phys = Self::dataset(&self.mos.object(id).unwrap());
        }
        open(&self.disk, ObjectSetId(id.0), &phys.block_pointer)
    }
}

fn open(disk: &Arc<Disk>, id: ObjectSetId, root: &BlockPointer) -> Arc<ObjectSet> {
    let store: Arc<dyn BlockStore> = disk.clone();
    let options = OpenObjectSet {
        store,
        id,
        writable: false,
        objects_max: 1000,
    };
    ObjectSet::open(options, root).unwrap()
}
