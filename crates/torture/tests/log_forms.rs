//! Logs of other writers, built by hand: in either byte order, in the form of old pools and the newer one. They are
//! claimed and replayed as our own.

use base::{ByteOrder, ObjectId, ObjectSetId, Txg};
use codec::{Checksum, Salt, checksum};
use format::BlockPointer;
use format::embedded_checksum::MAGIC;
use format::intent_log::{
    ChainElement, CreateFields, DirectoryFields, Identity, LinkFields, LogHeader, RecordHeader,
    RenameFields, SetAttributesFields, TruncateFields, WriteFields, kind,
};
use format::record::put_at;
use millpond_torture::test_pool::{POOL, TestPool, image};
use pool::NewDevice;
use posix::{Credentials, OpenOptions};
use sys::BufferMut;
use vdev::WriteGroup;

const BLOCK: usize = 8192;
/// Past every txg that the test's pools come to.
const LATER: Txg = Txg(1_000_000);
const FILE: u64 = 400;
const FOLDER: u64 = 401;
const LINK: u64 = 402;

struct Form {
    kind: Checksum,
    order: ByteOrder,
}

impl Form {
    fn record(&self, number: u64, sequence: u64, fields: &[u8], tail: &[u8]) -> Vec<u8> {
        let mut bytes = [fields, tail].concat();
        bytes.resize(bytes.len().next_multiple_of(8), 0);
        let header = RecordHeader {
            kind: number,
            length: bytes.len() as u64,
            txg: LATER,
            sequence,
        };
        header.encode(&mut bytes, self.order);
        bytes
    }

    fn create(&self, (number, sequence): (u64, u64), id: u64, mode: u64, tail: &[u8]) -> Vec<u8> {
        let fields = CreateFields {
            directory: ObjectId(34),
            object_and_slots: id,
            mode,
            uid: 3,
            gid: 4,
            generation: LATER.0,
            creation_time: [1_000_000_000, 7],
            device: 0,
        };
        self.record(number, sequence, &fields.to_bytes(self.order), tail)
    }

    /// Records that make `folder/moved` and `link`.
    fn records(&self, root: ObjectId) -> Vec<Vec<u8>> {
        let order = self.order;
        let with_root = |mut record: Vec<u8>| {
            put_at(&mut record, 32, &root, order);
            record
        };
        let write = WriteFields {
            object: ObjectId(FILE),
            offset: 0,
            length: 12,
            pointer: BlockPointer::HOLE,
        };
        let name = LinkFields {
            directory: ObjectId(FOLDER),
            object: ObjectId(FILE),
        };
        let rename = RenameFields {
            source: root,
            target: ObjectId(FOLDER),
        };
        let truncate = TruncateFields {
            object: ObjectId(FILE),
            offset: 7,
            length: 0,
        };
        let attributes = SetAttributesFields {
            object: ObjectId(FILE),
            mask: 1,
            mode: 0o100_601,
            uid: 0,
            gid: 0,
            size: 0,
            access_time: [0; 2],
            modification_time: [0; 2],
        };
        let remove = DirectoryFields {
            directory: ObjectId(FOLDER),
        };
        vec![
            with_root(self.create((kind::CREATE, 1), FILE, 0o100_644, b"hand\0")),
            self.record(kind::WRITE, 2, &write.to_bytes(order), b"made by hand"),
            with_root(self.create((kind::MAKE_DIRECTORY, 3), FOLDER, 0o040_755, b"folder\0")),
            with_root(self.create((kind::SYMLINK, 4), LINK, 0o120_777, b"link\0there\0")),
            self.record(kind::LINK, 5, &name.to_bytes(order), b"other\0"),
            self.record(kind::RENAME, 6, &rename.to_bytes(order), b"hand\0moved\0"),
            self.record(kind::TRUNCATE, 7, &truncate.to_bytes(order), b""),
            self.record(kind::SET_ATTRIBUTES, 8, &attributes.to_bytes(order), b""),
            self.record(kind::REMOVE, 9, &remove.to_bytes(order), b"other\0"),
        ]
    }

    /// A block with these records, sealed as its writer does.
    fn seal(&self, records: &[Vec<u8>], own: &BlockPointer, next: BlockPointer) -> sys::Buffer {
        let records = records.concat();
        let is_slim = self.kind == Checksum::Zilog2;
        let (at, records_at) = if is_slim {
            (0, ChainElement::SIZE)
        } else {
            (BLOCK - ChainElement::SIZE, 0)
        };
        let used = records.len() + records_at;
        let mut block = BufferMut::zeroed(BLOCK);
        block[records_at..records_at + records.len()].copy_from_slice(&records);
        let element = ChainElement::new(next, used as u64, 0);
        element.encode(&mut block[at..], self.order);
        put_at(&mut block, at + 144, &MAGIC, self.order);
        put_at(&mut block, at + 152, &Identity::of(own).0, self.order);
        let summed = if is_slim { 4096 } else { BLOCK };
        let sum = checksum(self.kind, &block[..summed], self.order, &Salt::default());
        put_at(&mut block, at + 152, &sum.0, self.order);
        block.freeze()
    }

    /// Leaves a pool with a log of three blocks, the last one unwritten, as at a crash.
    fn leave(&self, test_pool: &TestPool, root: ObjectId) {
        let pool = &test_pool.pool;
        let head = pool.dsl().dataset(POOL).unwrap();
        let objects = head.object_set().unwrap();
        let tx = dmu::Tx::assign(pool.engine().unwrap(), &dmu::Reservation::default()).unwrap();
        let mut identity = Identity::first([3, 5], objects.id().0);
        let mut pointers = Vec::new();
        for _ in 0..3 {
            let pipeline = pool.pipeline();
            let taken =
                pipeline.allocate_log_block(BLOCK as u64, identity.0, tx.txg(), ObjectSetId(0));
            let mut pointer = taken.unwrap();
            pointer.set_checksum(self.kind, codec::ChecksumValue(identity.0));
            pointer.set_byte_order(self.order);
            pointers.push(pointer);
            identity = identity.next();
        }
        let records = self.records(root);
        let group = WriteGroup::new(tx.txg());
        for (part, pair) in records.chunks(5).zip(pointers.windows(2)) {
            let block = self.seal(part, &pair[0], pair[1]);
            let written = pool.pipeline().write_log_block(&pair[0], &block, &group);
            written.unwrap();
        }
        group.wait().unwrap();
        let header = LogHeader {
            log: pointers[0],
            ..LogHeader::EMPTY
        };
        objects.set_intent_log_header(&tx, header);
        drop(tx);
        pool.sync().unwrap();
    }
}

fn is_replayed(form: &Form) {
    let folder = tempfile::tempdir().unwrap();
    let path = image(folder.path(), "hand");
    std::fs::File::create(&path)
        .unwrap()
        .set_len(96 << 20)
        .unwrap();
    let made = TestPool::create(vec![NewDevice::Path(path)]).unwrap();
    made.export().unwrap();
    let test_pool = TestPool::import(folder.path(), true).unwrap();
    let root = test_pool.root().root();
    drop(test_pool);
    let test_pool = TestPool::import(folder.path(), false).unwrap();
    form.leave(&test_pool, root);
    // Not exported: as a crash leaves it.
    drop(test_pool);
    if let Some(zdb) = golden::Zdb::from_environment() {
        let shown = zdb.run(folder.path(), &["-ivv"], &[POOL]);
        let shown = String::from_utf8_lossy(&shown.stdout).into_owned();
        println!("{shown}");
    }
    let test_pool = TestPool::import(folder.path(), false).unwrap();
    let system = test_pool.root();
    let who = Credentials::root();
    let link = system.lookup(&who, root, b"link").unwrap();
    assert_eq!(system.readlink(link.object).unwrap(), b"there");
    assert!(system.lookup(&who, root, b"hand").is_err());
    let below = system.lookup(&who, root, b"folder").unwrap();
    assert_eq!(below.object, ObjectId(FOLDER));
    assert!(system.lookup(&who, below.object, b"other").is_err());
    let moved = system.lookup(&who, below.object, b"moved").unwrap();
    assert_eq!(
        (moved.object, moved.size, moved.links),
        (ObjectId(FILE), 7, 1)
    );
    assert_eq!((moved.mode() & 0o7777, moved.uid, moved.gid), (0o601, 3, 4));
    let options = OpenOptions {
        read: true,
        ..OpenOptions::default()
    };
    let file = system.open(&who, moved.object, options).unwrap();
    let mut bytes = [0; 20];
    let count = file.read(0, &mut bytes).unwrap();
    assert_eq!(&bytes[..count], b"made by");
    drop((file, system));
    test_pool.export().unwrap();
    if let Some(zdb) = golden::Zdb::from_environment() {
        zdb.assert_clean(folder.path(), POOL);
    }
}

#[test]
fn logs_of_either_order_and_form_are_replayed() {
    for kind in [Checksum::Zilog2, Checksum::Zilog] {
        for order in [ByteOrder::Little, ByteOrder::Big] {
            println!("{kind:?} {order:?}");
            is_replayed(&Form { kind, order });
        }
    }
}
