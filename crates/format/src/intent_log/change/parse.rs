//! From a decoded record to what it says.

use base::ByteOrder;

use super::{
    Acl, Change, Create, Created, NewObject, Renamed, SetAttributes, Written, attribute,
    domain_count,
};
use crate::FormatError;
use crate::intent_log::record::{
    AclFields, Body, CloneRangeFields, CreateAclFields, CreateFields, ExtendedAttributes,
    ObjectAndSlots, OldAclFields, Record, SetAttributesFields, SetXattrFields, WhiteoutFields,
    WriteFields, kind,
};
use crate::record::{get_at, require};
use base::ObjectId;

const WHAT: &str = "log record";
/// Words of the bitmap of optional attributes that every writer has.
const BITMAP_WORDS: u32 = 3;
/// Bytes of an entry of a version-0 list.
const OLD_ACE_SIZE: usize = crate::acl::OLD_SIZE;

fn invalid(field: &'static str, value: u64) -> FormatError {
    FormatError::Invalid {
        what: WHAT,
        field,
        value,
    }
}

/// What follows the fixed fields, from front to back.
struct Tail<'a> {
    rest: &'a [u8],
    order: ByteOrder,
}

impl<'a> Tail<'a> {
    fn take(&mut self, length: usize) -> Result<&'a [u8], FormatError> {
        let Some((taken, rest)) = self.rest.split_at_checked(length) else {
            return Err(FormatError::Truncated {
                what: WHAT,
                needed: length,
                available: self.rest.len(),
            });
        };
        self.rest = rest;
        Ok(taken)
    }

    fn take_count(&mut self, count: u64, size: usize) -> Result<&'a [u8], FormatError> {
        let length = usize::try_from(count)
            .ok()
            .and_then(|count| count.checked_mul(size))
            .ok_or_else(|| invalid("count", count))?;
        self.take(length)
    }

    /// A name, without its NUL.
    fn name(&mut self) -> Result<&'a [u8], FormatError> {
        let end = self.rest.iter().position(|byte| *byte == 0);
        let name = self.take(end.ok_or_else(|| invalid("name", 0))?)?;
        self.take(1)?;
        Ok(name)
    }

    fn domains(&mut self, count: u64) -> Result<Vec<&'a [u8]>, FormatError> {
        // Each takes its NUL at least.
        let count = usize::try_from(count)
            .ok()
            .filter(|count| *count <= self.rest.len())
            .ok_or_else(|| invalid("domain count", count))?;
        (0..count).map(|_| self.name()).collect()
    }

    fn attributes(&mut self) -> Result<ExtendedAttributes, FormatError> {
        let found = ExtendedAttributes::decode(self.take(ExtendedAttributes::SIZE)?, self.order)?;
        if found.word_count == BITMAP_WORDS {
            Ok(found)
        } else {
            Err(invalid("attribute words", found.word_count.into()))
        }
    }

    fn acl(&mut self, [ace_count, fuids, bytes, flags]: [u64; 4]) -> Result<Acl<'a>, FormatError> {
        let aces = self.take_count(bytes, 1)?;
        let padding = bytes.next_multiple_of(8) - bytes;
        self.take_count(padding, 1)?;
        let ids = self.take_count(fuids, 8)?;
        Ok(Acl {
            ace_count,
            flags,
            aces,
            fuids: ids
                .chunks_exact(8)
                .map(|id| get_at(id, 0, self.order))
                .collect(),
        })
    }
}

fn slots_and_object(number: u64) -> Result<(ObjectId, u8), FormatError> {
    let object = ObjectId(ObjectAndSlots::AT.object.get(number));
    let slots = ObjectAndSlots::AT.slots.get(number) + 1;
    // A block of dnodes has 32.
    let slots = u8::try_from(slots).ok().filter(|slots| *slots <= 32);
    Ok((object, slots.ok_or_else(|| invalid("slots", number))?))
}

fn new_object(fields: &CreateFields) -> Result<NewObject, FormatError> {
    let (object, slots) = slots_and_object(fields.object_and_slots)?;
    Ok(NewObject {
        object,
        slots,
        mode: fields.mode,
        uid: fields.uid,
        gid: fields.gid,
        generation: fields.generation,
        creation_time: fields.creation_time,
        device: fields.device,
    })
}

pub(super) fn parse<'a>(record: &Record<'a>) -> Result<Change<'a>, FormatError> {
    let mut tail = Tail {
        rest: record.tail,
        order: record.order,
    };
    let tail = &mut tail;
    Ok(match &record.body {
        Body::Create(fields) => create(record.kind(), fields, None, tail)?,
        Body::CreateAcl(fields, acl) => create(record.kind(), fields, Some(acl), tail)?,
        Body::Remove(fields) => Change::Remove {
            directory: fields.directory,
            name: tail.name()?,
            is_directory: record.kind() == kind::REMOVE_DIRECTORY,
        },
        Body::Link(fields) => Change::Link {
            directory: fields.directory,
            object: fields.object,
            name: tail.name()?,
        },
        Body::Rename(fields) => Change::Rename {
            renamed: if record.kind() == kind::RENAME_EXCHANGE {
                Renamed::Exchanged
            } else {
                Renamed::Replacing
            },
            from: (fields.source, tail.name()?),
            to: (fields.target, tail.name()?),
        },
        Body::Whiteout(fields) => whiteout(fields, tail)?,
        Body::Write(fields) => write(record, fields, tail)?,
        Body::Truncate(fields) => Change::Truncate {
            object: fields.object,
            offset: fields.offset,
            length: fields.length,
        },
        Body::SetAttributes(fields) => set_attributes(fields, tail)?,
        Body::OldAcl(fields) => set_old_acl(fields, tail)?,
        Body::Acl(fields) => set_acl(fields, tail)?,
        Body::SetXattr(fields) => set_xattr(fields, tail)?,
        Body::CloneRange(fields) => clone_range(record, fields)?,
    })
}

fn whiteout<'a>(fields: &WhiteoutFields, tail: &mut Tail<'a>) -> Result<Change<'a>, FormatError> {
    let (object, slots) = slots_and_object(fields.object_and_slots)?;
    Ok(Change::Rename {
        renamed: Renamed::LeavingWhiteout(NewObject {
            object,
            slots,
            mode: fields.mode,
            uid: fields.uid,
            gid: fields.gid,
            generation: fields.generation,
            creation_time: fields.creation_time,
            device: fields.device,
        }),
        from: (fields.source, tail.name()?),
        to: (fields.target, tail.name()?),
    })
}

fn set_attributes<'a>(
    fields: &SetAttributesFields,
    tail: &mut Tail<'a>,
) -> Result<Change<'a>, FormatError> {
    let extended = (fields.mask & attribute::EXTENDED != 0)
        .then(|| tail.attributes())
        .transpose()?;
    Ok(Change::SetAttributes(SetAttributes {
        object: fields.object,
        mask: fields.mask,
        mode: fields.mode,
        uid: fields.uid,
        gid: fields.gid,
        size: fields.size,
        access_time: fields.access_time,
        modification_time: fields.modification_time,
        extended,
        domains: tail.domains(domain_count(fields.uid, fields.gid) as u64)?,
    }))
}

fn set_xattr<'a>(fields: &SetXattrFields, tail: &mut Tail<'a>) -> Result<Change<'a>, FormatError> {
    let name = tail.name()?;
    let value = match fields.value_size {
        0 => None,
        size => Some(tail.take_count(size, 1)?),
    };
    Ok(Change::SetXattr {
        object: fields.object,
        name,
        value,
    })
}

fn create<'a>(
    number: u64,
    fields: &CreateFields,
    acl: Option<&CreateAclFields>,
    tail: &mut Tail<'a>,
) -> Result<Change<'a>, FormatError> {
    let has_attributes = matches!(
        number,
        kind::CREATE_ATTRIBUTES
            | kind::CREATE_ACL_ATTRIBUTES
            | kind::MAKE_DIRECTORY_ATTRIBUTES
            | kind::MAKE_DIRECTORY_ACL_ATTRIBUTES
    );
    let attributes = has_attributes.then(|| tail.attributes()).transpose()?;
    let numbers = acl.map(|acl| [acl.ace_count, acl.fuid_count, acl.acl_bytes, acl.acl_flags]);
    let list = numbers.map(|numbers| tail.acl(numbers)).transpose()?;
    let domains = match acl {
        Some(acl) => acl.domain_count,
        None if number == kind::SYMLINK => 0,
        None => domain_count(fields.uid, fields.gid) as u64,
    };
    let domains = tail.domains(domains)?;
    let name = tail.name()?;
    let created = match number {
        kind::SYMLINK => Created::Symlink(tail.name()?),
        kind::MAKE_XATTR_DIRECTORY => Created::XattrDirectory,
        kind::CREATE | kind::CREATE_ACL | kind::CREATE_ATTRIBUTES | kind::CREATE_ACL_ATTRIBUTES => {
            Created::File
        }
        _ => Created::Directory,
    };
    Ok(Change::Create(Create {
        created,
        directory: fields.directory,
        new: new_object(fields)?,
        name,
        acl: list,
        attributes,
        domains,
    }))
}

fn write<'a>(
    record: &Record<'a>,
    fields: &WriteFields,
    tail: &mut Tail<'a>,
) -> Result<Change<'a>, FormatError> {
    let data = if record.kind() == kind::WRITE_SIZE_ONLY {
        Written::Before
    } else if record.header.length > WriteFields::SIZE as u64 {
        Written::Here(tail.take_count(fields.length, 1)?)
    } else {
        Written::Block(fields.pointer)
    };
    Ok(Change::Write {
        object: fields.object,
        offset: fields.offset,
        length: fields.length,
        data,
    })
}

fn set_old_acl<'a>(fields: &OldAclFields, tail: &mut Tail<'a>) -> Result<Change<'a>, FormatError> {
    Ok(Change::SetAcl {
        object: fields.object,
        acl: Acl {
            ace_count: fields.ace_count,
            flags: 0,
            aces: tail.take_count(fields.ace_count, OLD_ACE_SIZE)?,
            fuids: Vec::new(),
        },
        domains: Vec::new(),
        is_old: true,
    })
}

fn set_acl<'a>(fields: &AclFields, tail: &mut Tail<'a>) -> Result<Change<'a>, FormatError> {
    let numbers = [
        fields.ace_count,
        fields.fuid_count,
        fields.acl_bytes,
        fields.acl_flags,
    ];
    Ok(Change::SetAcl {
        object: fields.object,
        acl: tail.acl(numbers)?,
        domains: tail.domains(fields.domain_count)?,
        is_old: false,
    })
}

fn clone_range<'a>(
    record: &Record<'a>,
    fields: &CloneRangeFields,
) -> Result<Change<'a>, FormatError> {
    let needed = usize::try_from(fields.pointer_count)
        .ok()
        .and_then(|count| count.checked_mul(128))
        .ok_or_else(|| invalid("pointer count", fields.pointer_count))?;
    require(WHAT, record.tail, needed)?;
    Ok(Change::CloneRange {
        object: fields.object,
        offset: fields.offset,
        length: fields.length,
        block_size: fields.block_size,
        pointers: record.pointers().collect(),
    })
}
