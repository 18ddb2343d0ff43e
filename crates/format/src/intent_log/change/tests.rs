use base::ByteOrder;
use proptest::prelude::*;

use super::*;
use crate::intent_log::{Records, kind};
use crate::record::put_at;

/// Records of a log that OpenZFS 2.3.9 left, as 64-bit words.
const FROM_OPENZFS: &[&[u64]] = &[
    // Create of `fsynced`.
    &[
        1,
        112,
        17,
        3,
        34,
        4,
        0o100_644,
        0,
        0,
        17,
        0x6b00_2275,
        0x39b2_8200,
        0,
        0x0064_6563_6e79_7366,
    ],
    // mkdir of `newdir`.
    &[
        2,
        112,
        19,
        9,
        34,
        0x81,
        0o40_755,
        0,
        0,
        19,
        0x6b00_2276,
        0x00b7_1b00,
        0,
        0x7269_6477_656e,
    ],
    // Symbolic link `sym` to `renamed`.
    &[
        4,
        120,
        21,
        16,
        34,
        0x84,
        0o120_777,
        0,
        0,
        21,
        0x6b00_2276,
        0x0393_8700,
        0,
        0x616e_6572_006d_7973,
        0x0064_656d,
    ],
    // Removal of `gone`.
    &[5, 48, 21, 15, 34, 0x656e_6f67],
    // Link `hard`.
    &[7, 56, 21, 17, 34, 128, 0x6472_6168],
    // Rename of `fsynced` to `renamed`.
    &[
        8,
        64,
        20,
        12,
        34,
        34,
        0x0064_6563_6e79_7366,
        0x0064_656d_616e_6572,
    ],
    // chmod 600.
    &[
        11,
        112,
        21,
        18,
        2,
        0x41,
        0o100_600,
        0,
        0,
        0,
        0x6b00_2276,
        0x040d_9900,
        0x6b00_2276,
        0x040d_9900,
    ],
    // ftruncate to 1000.
    &[
        11,
        112,
        21,
        21,
        128,
        8,
        0,
        0,
        0,
        1000,
        0x6b00_2276,
        0x040d_9900,
        0x6b00_2276,
        0x040d_9900,
    ],
    // The attribute `user.z` becomes `1`.
    &[21, 56, 21, 19, 2, 1, 0x3100_7a2e_7265_7375],
];

fn parsed(bytes: &[u8], order: ByteOrder) -> Change<'_> {
    let record = Records::new(bytes, order).next().unwrap().unwrap();
    Change::parse(&record).unwrap()
}

#[test]
fn records_of_openzfs_are_understood_and_made_the_same() {
    for words in FROM_OPENZFS {
        let mut bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        let made = parsed(&bytes, ByteOrder::Little).encode(ByteOrder::Little);
        bytes[16..32].fill(0);
        assert_eq!(made, bytes, "kind {}", words[0]);
    }
    let bytes: Vec<u8> = FROM_OPENZFS[7]
        .iter()
        .flat_map(|word| word.to_le_bytes())
        .collect();
    let Change::SetAttributes(set) = parsed(&bytes, ByteOrder::Little) else {
        panic!("a setattr");
    };
    assert_eq!((set.mask, set.size), (attribute::SIZE, 1000));
    assert_eq!(set.modification_time, [0x6b00_2276, 68_000_000]);
}

fn name() -> impl Strategy<Value = Vec<u8>> {
    proptest::collection::vec(1u8.., 0..40)
}

/// Owned parts of which a change borrows.
#[derive(Clone, Debug)]
struct Parts {
    names: [Vec<u8>; 2],
    domains: [Vec<u8>; 2],
    bytes: Vec<u8>,
    numbers: [u64; 8],
    fuids: Vec<u64>,
    flags: [bool; 2],
}

fn parts() -> impl Strategy<Value = Parts> {
    (
        [name(), name()],
        [name(), name()],
        proptest::collection::vec(any::<u8>(), 1..100),
        any::<[u64; 8]>(),
        proptest::collection::vec(any::<u64>(), 0..4),
        any::<[bool; 2]>(),
    )
        .prop_map(|(names, domains, bytes, numbers, fuids, flags)| Parts {
            names,
            domains,
            bytes,
            numbers,
            fuids,
            flags,
        })
}

impl Parts {
    fn new_object(&self, uid: u64) -> NewObject {
        let [object, mode, gid, generation, one, two, device, slots] = self.numbers;
        NewObject {
            object: ObjectId(object >> 16),
            slots: (slots % 32) as u8 + 1,
            mode,
            uid,
            gid: gid >> 40,
            generation,
            creation_time: [one, two],
            device,
        }
    }

    fn attributes(&self) -> ExtendedAttributes {
        let [one, two, three, ..] = self.numbers;
        ExtendedAttributes {
            word_count: 3,
            requested: [one as u32, two as u32, three as u32],
            values: one,
            creation_time: [two, three],
            scan_stamp: [7; 32],
        }
    }

    fn acl(&self) -> Acl<'_> {
        Acl {
            ace_count: self.numbers[0],
            flags: self.numbers[1],
            aces: &self.bytes,
            fuids: self.fuids.clone(),
        }
    }

    fn create(&self, created: Created<'_>) -> Change<'_> {
        let acl = self.flags[0].then(|| self.acl());
        let plain = matches!(created, Created::File | Created::Directory);
        let created = match created {
            Created::Symlink(_) => Created::Symlink(&self.names[1]),
            Created::File => Created::File,
            Created::Directory => Created::Directory,
            Created::XattrDirectory => Created::XattrDirectory,
        };
        // An owner of the first domain: as many domains follow as the ids say.
        let domains = match (&acl, plain) {
            (Some(_), true) => vec![&self.domains[0][..], &self.domains[1][..]],
            (None, true) => vec![&self.domains[0][..]],
            _ => Vec::new(),
        };
        let uid = if domains.is_empty() { 5 } else { 1 << 32 | 5 };
        Change::Create(Create {
            created,
            directory: ObjectId(self.numbers[0]),
            new: self.new_object(uid),
            name: &self.names[0],
            acl: acl.filter(|_| plain),
            attributes: (self.flags[1] && plain).then(|| self.attributes()),
            domains,
        })
    }

    fn changes(&self) -> Vec<Change<'_>> {
        let [object, offset, length, block_size, ..] = self.numbers;
        let object = ObjectId(object);
        let from = (ObjectId(offset), &self.names[0][..]);
        let to = (ObjectId(length), &self.names[1][..]);
        let (name, value) = (from.1, Some(&self.bytes[..]));
        let mut pointer = BlockPointer::HOLE;
        pointer.words = std::array::from_fn(|at| self.numbers[at % 8]);
        let rename = |renamed| Change::Rename { renamed, from, to };
        let write = |length, data| Change::Write {
            object,
            offset,
            length,
            data,
        };
        vec![
            self.create(Created::File),
            self.create(Created::Directory),
            self.create(Created::XattrDirectory),
            self.create(Created::Symlink(&[])),
            Change::Remove {
                directory: object,
                name,
                is_directory: self.flags[0],
            },
            Change::Link {
                directory: object,
                object,
                name,
            },
            rename(Renamed::Replacing),
            rename(Renamed::Exchanged),
            rename(Renamed::LeavingWhiteout(self.new_object(9))),
            write(self.bytes.len() as u64, Written::Here(&self.bytes)),
            write(length, Written::Block(pointer)),
            write(length, Written::Before),
            Change::Truncate {
                object,
                offset,
                length,
            },
            self.set_attributes(),
            Change::SetAcl {
                object,
                acl: self.acl(),
                domains: vec![&self.domains[0], &self.domains[1]],
                is_old: false,
            },
            Change::SetXattr {
                object,
                name,
                value,
            },
            Change::SetXattr {
                object,
                name,
                value: None,
            },
            Change::CloneRange {
                object,
                offset,
                length,
                block_size,
                pointers: vec![pointer; self.fuids.len()],
            },
        ]
    }

    fn set_attributes(&self) -> Change<'_> {
        let [object, mask, mode, size, one, two, ..] = self.numbers;
        let extended = self.flags[0].then(|| self.attributes());
        let bit = if extended.is_some() {
            attribute::EXTENDED
        } else {
            0
        };
        Change::SetAttributes(SetAttributes {
            object: ObjectId(object),
            mask: mask & !attribute::EXTENDED | bit,
            mode,
            uid: 1 << 32 | 7,
            gid: 2 << 32 | 8,
            size,
            access_time: [one, two],
            modification_time: [two, one],
            extended,
            domains: vec![&self.domains[0], &self.domains[1]],
        })
    }
}

proptest! {
    #[test]
    fn what_is_encoded_is_parsed_again(parts in parts()) {
        for order in [ByteOrder::Little, ByteOrder::Big] {
            for change in parts.changes() {
                let bytes = change.encode(order);
                prop_assert!(bytes.len().is_multiple_of(8));
                prop_assert_eq!(&parsed(&bytes, order), &change);
            }
        }
    }

    #[test]
    fn damaged_records_are_refused_not_believed(
        parts in parts(),
        at in any::<prop::sample::Index>(),
        value in any::<u64>(),
        cut in any::<prop::sample::Index>(),
    ) {
        for change in parts.changes() {
            let mut bytes = change.encode(ByteOrder::Little);
            let words = bytes.len() / 8;
            put_at(&mut bytes, at.index(words) * 8, &value, ByteOrder::Little);
            let keep = cut.index(words) * 8;
            put_at(&mut bytes, 8, &(keep as u64), ByteOrder::Little);
            for record in Records::new(&bytes, ByteOrder::Little).flatten() {
                let _ = Change::parse(&record);
            }
        }
    }

    #[test]
    fn every_kind_parses_without_panic(
        number in 0u64..30,
        mut bytes in proptest::collection::vec(any::<u8>(), 0..400),
    ) {
        let length = bytes.len() / 8 * 8;
        bytes.truncate(length);
        put_at(&mut bytes, 0, &number, ByteOrder::Big);
        put_at(&mut bytes, 8, &(length as u64), ByteOrder::Big);
        for record in Records::new(&bytes, ByteOrder::Big).flatten() {
            let _ = Change::parse(&record).map(|change| change.object());
        }
    }
}

#[test]
fn old_lists_have_entries_of_twelve_bytes() {
    let change = Change::SetAcl {
        object: ObjectId(3),
        acl: Acl {
            ace_count: 2,
            flags: 0,
            aces: &[9; 24],
            fuids: Vec::new(),
        },
        domains: Vec::new(),
        is_old: true,
    };
    let bytes = change.encode(ByteOrder::Little);
    assert_eq!(parsed(&bytes, ByteOrder::Little), change);
    assert_eq!(bytes[0], kind::OLD_ACL as u8);
}
