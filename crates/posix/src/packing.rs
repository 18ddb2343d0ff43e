//! Where a file's attributes lie in its bonus and spill block, and how to lay them out anew.
//!
//! Pure: bytes in, bytes out. Attributes that this software does not know are carried along.

use base::ByteOrder;
use format::record::put_at;
use format::sa::{self, Attribute, Header, ValueClass};

use crate::registry::Layout;

/// How many attributes are known by meaning.
pub(crate) const KNOWN: usize = Attribute::ALL.len();

/// Which block a value lies in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Block {
    Bonus,
    Spill,
}

/// Where a value lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    pub(crate) block: Block,
    pub(crate) offset: u16,
    pub(crate) length: u16,
}

/// Where each known attribute of a file lies.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Places {
    known: [Option<Place>; KNOWN],
    /// Whether a block is in the byte order of another machine; such a file is laid out anew when
    /// it is first changed.
    pub(crate) foreign: bool,
}

impl Places {
    pub(crate) const NONE: Self = Self {
        known: [None; KNOWN],
        foreign: false,
    };

    pub(crate) fn get(&self, attribute: Attribute) -> Option<Place> {
        self.known[attribute as usize]
    }
}

/// A value lifted out of its block, in host order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Value {
    pub(crate) number: u16,
    pub(crate) known: Option<Attribute>,
    pub(crate) class: ValueClass,
    /// Whether its length is a property of the file, not of the registry.
    pub(crate) variable: bool,
    pub(crate) bytes: Vec<u8>,
}

/// A block does not follow its layout.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Malformed;

/// Notes where the values of one block lie. `layout` is the one that its header names.
pub(crate) fn locate(
    places: &mut Places,
    block: Block,
    bytes: &[u8],
    header: &Header,
    layout: &Layout,
) -> Result<(), Malformed> {
    places.foreign |= header.order != ByteOrder::NATIVE;
    walk(bytes, header, layout, |entry, offset, value| {
        if let Some(attribute) = entry.known {
            let offset = u16::try_from(offset).map_err(|_| Malformed)?;
            let length = u16::try_from(value.len()).map_err(|_| Malformed)?;
            places.known[attribute as usize] = Some(Place {
                block,
                offset,
                length,
            });
        }
        Ok(())
    })
}

/// Lifts all values of one block, in storage order.
pub(crate) fn lift(
    values: &mut Vec<Value>,
    bytes: &[u8],
    header: &Header,
    layout: &Layout,
) -> Result<(), Malformed> {
    let foreign = header.order != ByteOrder::NATIVE;
    walk(bytes, header, layout, |entry, _, value| {
        let mut bytes = value.to_vec();
        if foreign {
            entry.class.swap(&mut bytes);
        }
        let variable = entry.length == 0;
        let (number, known, class) = (entry.number, entry.known, entry.class);
        values.push(Value {
            number,
            known,
            class,
            variable,
            bytes,
        });
        Ok(())
    })
}

fn walk(
    bytes: &[u8],
    header: &Header,
    layout: &Layout,
    mut visit: impl FnMut(&crate::registry::Entry, usize, &[u8]) -> Result<(), Malformed>,
) -> Result<(), Malformed> {
    let (mut offset, mut variable) = (header.size, 0);
    for entry in &layout.entries {
        let length = match entry.length {
            0 => {
                variable += 1;
                header
                    .variable_length(bytes, variable - 1)
                    .ok_or(Malformed)?
            }
            length => length,
        };
        let end = offset + usize::from(length);
        visit(entry, offset, bytes.get(offset..end).ok_or(Malformed)?)?;
        offset = end.next_multiple_of(8);
    }
    Ok(())
}

/// How values are divided between the blocks, before their layouts have numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Division {
    /// Values from this index on go to the spill block.
    pub(crate) spill_from: Option<usize>,
}

/// Divides `values` for a bonus of `capacity` bytes; `None` when they are too much for any file.
pub(crate) fn divide(values: &[Value], capacity: usize) -> Option<Division> {
    let lengths: Vec<(usize, bool)> = values
        .iter()
        .map(|value| (value.bytes.len(), value.variable))
        .collect();
    let total: usize = lengths
        .iter()
        .map(|(length, _)| length.next_multiple_of(8))
        .sum();
    let fits = lengths
        .iter()
        .all(|&(length, _)| u16::try_from(length).is_ok());
    (fits && total < sa::TOTAL_SIZE_MAX).then(|| Division {
        spill_from: sa::split(&lengths, capacity),
    })
}

/// Packs values under a header for `layout`.
pub(crate) fn pack(values: &[Value], layout: u16) -> Vec<u8> {
    let variable = values.iter().filter(|value| value.variable);
    let lengths = variable.map(|value| value.bytes.len() as u16);
    let header = sa::header_size(lengths.clone().count());
    let body: usize = values
        .iter()
        .map(|value| value.bytes.len().next_multiple_of(8))
        .sum();
    let mut out = Vec::with_capacity(header + body);
    out.resize(header, 0);
    Header::encode(&mut out, layout, lengths);
    for value in values {
        out.resize(out.len().next_multiple_of(8), 0);
        out.extend_from_slice(&value.bytes);
    }
    out
}

/// A bonus as it is built: that of an ordinary dnode needs no memory of its own.
pub(crate) const NEW_BONUS_MAX: usize = 320;

/// Packs the attributes of a new file, which all have a decoded copy but for the access list, into
/// `bonus`; the bytes used and where the values lie. `None` when they do not fit.
pub(crate) fn pack_new(
    bonus: &mut [u8; NEW_BONUS_MAX],
    layout: &Layout,
    words: impl Fn(Attribute) -> Option<[u64; 2]>,
    aces: &[u8],
) -> Option<(usize, Places)> {
    let mut places = Places::NONE;
    let mut end = sa::header_size(1);
    let aces_length = u16::try_from(aces.len()).ok()?;
    for entry in &layout.entries {
        let attribute = entry.known?;
        let offset = end.next_multiple_of(8);
        let length = if entry.length == 0 {
            aces_length
        } else {
            entry.length
        };
        end = offset + usize::from(length);
        let target = bonus.get_mut(offset..end)?;
        match words(attribute) {
            Some(words) => put_at(target, 0, &words, ByteOrder::NATIVE),
            None => target.copy_from_slice(aces),
        }
        let place = Place {
            block: Block::Bonus,
            offset: u16::try_from(offset).ok()?,
            length,
        };
        places.known[attribute as usize] = Some(place);
    }
    Header::encode(bonus, layout.number, [aces_length]);
    Some((end, places))
}
