//! From what was done to the record's bytes.

use base::{ByteOrder, Txg};

use super::{Acl, Change, Create, Created, NewObject, Renamed, SetAttributes, Written};
use crate::block_pointer::BlockPointer;
use crate::intent_log::record::{
    AclFields, CloneRangeFields, CreateAclFields, CreateFields, DirectoryFields, LinkFields,
    ObjectAndSlots, OldAclFields, RecordHeader, RenameFields, SetAttributesFields, SetXattrFields,
    TruncateFields, WhiteoutFields, WriteFields, kind,
};
use crate::record::{Plain, put_at};
use base::ObjectId;

/// A record that grows from front to back.
struct Growing {
    bytes: Vec<u8>,
    order: ByteOrder,
}

impl Growing {
    fn new(fields: &[u8], order: ByteOrder) -> Self {
        Self {
            bytes: fields.to_vec(),
            order,
        }
    }

    fn name(&mut self, name: &[u8]) {
        self.bytes.extend_from_slice(name);
        self.bytes.push(0);
    }

    fn names(&mut self, names: &[&[u8]]) {
        names.iter().for_each(|name| self.name(name));
    }

    fn align(&mut self) {
        self.bytes.resize(self.bytes.len().next_multiple_of(8), 0);
    }

    fn acl(&mut self, acl: &Acl<'_>) {
        self.bytes.extend_from_slice(acl.aces);
        self.align();
        for id in &acl.fuids {
            self.bytes.extend_from_slice(&self.order.u64_bytes(*id));
        }
    }

    fn finish(mut self, kind: u64) -> Vec<u8> {
        self.align();
        let header = RecordHeader {
            kind,
            length: self.bytes.len() as u64,
            txg: Txg(0),
            sequence: 0,
        };
        header.encode(&mut self.bytes, self.order);
        self.bytes
    }
}

fn object_and_slots(new: &NewObject) -> u64 {
    ObjectAndSlots::AT
        .slots
        .set(new.object.0, new.slots.saturating_sub(1).into())
}

pub(super) fn encode(change: &Change<'_>, order: ByteOrder) -> Vec<u8> {
    match change {
        Change::Create(create) => encode_create(create, order),
        &Change::Remove {
            directory,
            name,
            is_directory,
        } => {
            let number = if is_directory {
                kind::REMOVE_DIRECTORY
            } else {
                kind::REMOVE
            };
            named(
                &DirectoryFields { directory }.to_bytes(order),
                name,
                number,
                order,
            )
        }
        &Change::Link {
            directory,
            object,
            name,
        } => {
            let fields = LinkFields { directory, object };
            named(&fields.to_bytes(order), name, kind::LINK, order)
        }
        Change::Rename { renamed, from, to } => encode_rename(renamed, *from, *to, order),
        &Change::Write {
            object,
            offset,
            length,
            data,
        } => encode_write((object, offset, length), data, order),
        &Change::Truncate {
            object,
            offset,
            length,
        } => {
            let fields = TruncateFields {
                object,
                offset,
                length,
            };
            Growing::new(&fields.to_bytes(order), order).finish(kind::TRUNCATE)
        }
        Change::SetAttributes(set) => encode_attributes(set, order),
        Change::SetAcl {
            object,
            acl,
            domains,
            is_old,
        } => encode_acl(*object, acl, domains, *is_old, order),
        &Change::SetXattr {
            object,
            name,
            value,
        } => encode_xattr(object, name, value.unwrap_or_default(), order),
        Change::CloneRange {
            object,
            offset,
            length,
            block_size,
            pointers,
        } => encode_clone((*object, *offset, *length), *block_size, pointers, order),
    }
}

fn named(fields: &[u8], name: &[u8], number: u64, order: ByteOrder) -> Vec<u8> {
    let mut record = Growing::new(fields, order);
    record.name(name);
    record.finish(number)
}

fn encode_xattr(object: ObjectId, name: &[u8], value: &[u8], order: ByteOrder) -> Vec<u8> {
    let value_size = value.len() as u64;
    let fields = SetXattrFields { object, value_size };
    let mut record = Growing::new(&fields.to_bytes(order), order);
    record.name(name);
    record.bytes.extend_from_slice(value);
    record.finish(kind::SET_XATTR)
}

fn encode_clone(
    (object, offset, length): (ObjectId, u64, u64),
    block_size: u64,
    pointers: &[BlockPointer],
    order: ByteOrder,
) -> Vec<u8> {
    let fields = CloneRangeFields {
        object,
        offset,
        length,
        block_size,
        pointer_count: pointers.len() as u64,
    };
    let mut record = Growing::new(&fields.to_bytes(order), order);
    for pointer in pointers {
        let at = record.bytes.len();
        record.bytes.resize(at + BlockPointer::WIDTH, 0);
        put_at(&mut record.bytes, at, pointer, order);
    }
    record.finish(kind::CLONE_RANGE)
}

fn encode_create(create: &Create<'_>, order: ByteOrder) -> Vec<u8> {
    let new = &create.new;
    let fields = CreateFields {
        directory: create.directory,
        object_and_slots: object_and_slots(new),
        mode: new.mode,
        uid: new.uid,
        gid: new.gid,
        generation: new.generation,
        creation_time: new.creation_time,
        device: new.device,
    };
    let mut record = Growing::new(&fields.to_bytes(order), order);
    if let Some(acl) = &create.acl {
        record.bytes.resize(CreateAclFields::SIZE, 0);
        let fields = CreateAclFields {
            ace_count: acl.ace_count,
            domain_count: create.domains.len() as u64,
            fuid_count: acl.fuids.len() as u64,
            acl_bytes: acl.aces.len() as u64,
            acl_flags: acl.flags,
        };
        fields.encode(&mut record.bytes, order);
    }
    if let Some(attributes) = &create.attributes {
        record.bytes.extend_from_slice(&attributes.to_bytes(order));
    }
    if let Some(acl) = &create.acl {
        record.acl(acl);
    }
    record.names(&create.domains);
    record.name(create.name);
    if let Created::Symlink(target) = create.created {
        record.name(target);
    }
    record.finish(create_kind(create))
}

fn create_kind(create: &Create<'_>) -> u64 {
    let with = (create.acl.is_some(), create.attributes.is_some());
    match (create.created, with) {
        (Created::XattrDirectory, _) => kind::MAKE_XATTR_DIRECTORY,
        (Created::Symlink(_), _) => kind::SYMLINK,
        (Created::File, (false, false)) => kind::CREATE,
        (Created::File, (true, false)) => kind::CREATE_ACL,
        (Created::File, (false, true)) => kind::CREATE_ATTRIBUTES,
        (Created::File, (true, true)) => kind::CREATE_ACL_ATTRIBUTES,
        (Created::Directory, (false, false)) => kind::MAKE_DIRECTORY,
        (Created::Directory, (true, false)) => kind::MAKE_DIRECTORY_ACL,
        (Created::Directory, (false, true)) => kind::MAKE_DIRECTORY_ATTRIBUTES,
        (Created::Directory, (true, true)) => kind::MAKE_DIRECTORY_ACL_ATTRIBUTES,
    }
}

fn encode_rename(
    renamed: &Renamed,
    from: (ObjectId, &[u8]),
    to: (ObjectId, &[u8]),
    order: ByteOrder,
) -> Vec<u8> {
    let (source, target) = (from.0, to.0);
    let plain = RenameFields { source, target }.to_bytes(order);
    let (mut record, number) = match renamed {
        Renamed::Replacing => (Growing::new(&plain, order), kind::RENAME),
        Renamed::Exchanged => (Growing::new(&plain, order), kind::RENAME_EXCHANGE),
        Renamed::LeavingWhiteout(new) => {
            let fields = WhiteoutFields {
                source,
                target,
                object_and_slots: object_and_slots(new),
                mode: new.mode,
                uid: new.uid,
                gid: new.gid,
                generation: new.generation,
                creation_time: new.creation_time,
                device: new.device,
            };
            let record = Growing::new(&fields.to_bytes(order), order);
            (record, kind::RENAME_WHITEOUT)
        }
    };
    record.names(&[from.1, to.1]);
    record.finish(number)
}

fn encode_write(
    (object, offset, length): (ObjectId, u64, u64),
    data: Written<'_>,
    order: ByteOrder,
) -> Vec<u8> {
    let pointer = match data {
        Written::Block(pointer) => pointer,
        Written::Here(_) | Written::Before => BlockPointer::HOLE,
    };
    let fields = WriteFields {
        object,
        offset,
        length,
        pointer,
    };
    let mut record = Growing::new(&fields.to_bytes(order), order);
    if let Written::Here(bytes) = data {
        record.bytes.extend_from_slice(bytes);
    }
    record.finish(match data {
        Written::Before => kind::WRITE_SIZE_ONLY,
        Written::Here(_) | Written::Block(_) => kind::WRITE,
    })
}

fn encode_attributes(set: &SetAttributes<'_>, order: ByteOrder) -> Vec<u8> {
    let fields = SetAttributesFields {
        object: set.object,
        mask: set.mask,
        mode: set.mode,
        uid: set.uid,
        gid: set.gid,
        size: set.size,
        access_time: set.access_time,
        modification_time: set.modification_time,
    };
    let mut record = Growing::new(&fields.to_bytes(order), order);
    if let Some(extended) = &set.extended {
        record.bytes.extend_from_slice(&extended.to_bytes(order));
    }
    record.names(&set.domains);
    record.finish(kind::SET_ATTRIBUTES)
}

fn encode_acl(
    object: ObjectId,
    acl: &Acl<'_>,
    domains: &[&[u8]],
    is_old: bool,
    order: ByteOrder,
) -> Vec<u8> {
    if is_old {
        let fields = OldAclFields {
            object,
            ace_count: acl.ace_count,
        };
        let mut record = Growing::new(&fields.to_bytes(order), order);
        record.bytes.extend_from_slice(acl.aces);
        return record.finish(kind::OLD_ACL);
    }
    let fields = AclFields {
        object,
        ace_count: acl.ace_count,
        domain_count: domains.len() as u64,
        fuid_count: acl.fuids.len() as u64,
        acl_bytes: acl.aces.len() as u64,
        acl_flags: acl.flags,
    };
    let mut record = Growing::new(&fields.to_bytes(order), order);
    record.acl(acl);
    record.names(domains);
    record.finish(kind::ACL)
}
