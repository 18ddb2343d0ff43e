//! What a forger makes of lists of names and values: labels' configurations, and the packed lists in the pool.

use crate::mutation::EDGES;
use format::nvlist::Value;
use format::{NvList, nvlist};
use millpond_torture::random::Random;

/// Names that nobody may follow, and texts that nobody may believe.
pub(crate) const TEXTS: [&[u8]; 8] = [
    b"",
    b".",
    b"..",
    b"../../outside/x",
    b"/",
    b"a/b",
    b"a\0b",
    b"\xff\xfe%s%n",
];
/// Before the first pair: encoding, byte order, version and flags.
const HEAD: usize = 12;

/// The bytes of a forged list, as it is packed; and in words what was changed.
pub(crate) fn forge(list: &NvList, room: usize, random: &mut Random) -> (Vec<u8>, String) {
    let mut list = list.clone();
    let mut texts = Vec::new();
    for _ in 0..=random.below(3) {
        texts.push(change(&mut list, room, random));
    }
    let mut packed = nvlist::encode_xdr(&list);
    if random.one_in(3) {
        texts.push(raw(&mut packed, random));
    }
    packed.truncate(room);
    (packed, texts.join("; "))
}

/// Changes something, in the list or in one of those in it.
pub(crate) fn change(list: &mut NvList, room: usize, random: &mut Random) -> String {
    let inner: Vec<Vec<u8>> = list
        .iter()
        .filter(|(_, value)| match value {
            Value::List(_) => true,
            Value::ListArray(lists) => !lists.is_empty(),
            _ => false,
        })
        .map(|(name, _)| name.to_vec())
        .collect();
    if inner.is_empty() || random.one_in(3) {
        return change_here(list, room, random);
    }
    let name = random.pick(&inner).clone();
    let mut value = list.get(&name).expect("it is there").clone();
    let text = match &mut value {
        Value::List(below) => change(below, room, random),
        Value::ListArray(lists) => {
            let index = random.below(lists.len());
            change(&mut lists[index], room, random)
        }
        _ => unreachable!("only those were picked"),
    };
    list.set(&name, value);
    format!("{}.{text}", String::from_utf8_lossy(&name))
}

fn change_here(list: &mut NvList, room: usize, random: &mut Random) -> String {
    let names: Vec<Vec<u8>> = list.iter().map(|(name, _)| name.to_vec()).collect();
    if names.is_empty() {
        list.set("new", u64::MAX);
        return "new".to_owned();
    }
    let name = random.pick(&names).clone();
    let what = String::from_utf8_lossy(&name).into_owned();
    let old = list.get(&name).expect("it is there").clone();
    let new = match random.below(8) {
        0 => {
            list.remove(&name);
            return format!("{what} is gone");
        }
        1 => other_type(random),
        2 => return format!("{what} {}", nested(list, &name, room, random)),
        3 => {
            let other = random.pick(&names).clone();
            let value = list.get(&other).expect("it is there").clone();
            list.set(&name, value);
            return format!("{what} is as {}", String::from_utf8_lossy(&other));
        }
        _ => forged_value(old, room, random),
    };
    let text = format!("{what} = {new:?}");
    list.set(&name, new);
    text.chars().take(200).collect()
}

/// A value of the same type.
fn forged_value(old: Value, room: usize, random: &mut Random) -> Value {
    let edge = *random.pick(&EDGES);
    match old {
        Value::Uint64(old) => Value::Uint64(match random.below(4) {
            0 => old.wrapping_add(1),
            1 => old.wrapping_sub(1),
            2 => random.below(300) as u64,
            _ => edge,
        }),
        Value::String(_) => Value::String(match random.below(3) {
            0 => vec![b'x'; random.below(room)],
            _ => random.pick(&TEXTS).to_vec(),
        }),
        Value::Uint64Array(old) => Value::Uint64Array(match random.below(3) {
            0 => Vec::new(),
            1 => old.iter().map(|_| edge).collect(),
            _ => vec![edge; random.below(room / 8)],
        }),
        Value::ListArray(mut lists) => {
            if random.one_in(3) || lists.is_empty() {
                lists.clear();
                return Value::ListArray(lists);
            }
            let size = nvlist::encode_xdr(&lists[0]).len().max(1);
            let count = 1 + random.below(room / size + 1);
            let first = lists[0].clone();
            lists.resize(count, first);
            Value::ListArray(lists)
        }
        _ => other_type(random),
    }
}

fn other_type(random: &mut Random) -> Value {
    let edge = *random.pick(&EDGES);
    match random.below(9) {
        0 => Value::Boolean,
        1 => Value::BooleanValue(true),
        2 => Value::Int64(edge.cast_signed()),
        3 => Value::Uint32(edge as u32),
        4 => Value::String(random.pick(&TEXTS).to_vec()),
        5 => Value::List(NvList::new()),
        6 => Value::ListArray(Vec::new()),
        7 => Value::Uint64Array(vec![edge; 3]),
        _ => Value::StringArray(vec![b"x".to_vec(); 100]),
    }
}

/// The value within as many lists as there is room for, or a few: as a list of its own kind, so that trees go deep.
fn nested(list: &mut NvList, name: &[u8], room: usize, random: &mut Random) -> String {
    const LEVEL_BYTES: usize = 80;
    let deepest = room / LEVEL_BYTES;
    let depth = *random.pick(&[2, 18, 25, deepest.min(1000)]);
    let value = list.get(name).expect("it is there").clone();
    let mut inner = match value {
        Value::List(inner) => inner,
        Value::ListArray(lists) => lists.into_iter().next().unwrap_or_default(),
        other => {
            let mut inner = NvList::new();
            inner.set("x", other);
            inner
        }
    };
    let is_array = random.one_in(2);
    for _ in 0..depth {
        let mut outer = NvList::new();
        if is_array {
            outer.set("type", "mirror").set("id", 0u64);
            outer.set("children", vec![inner]);
        } else {
            outer.set("x", inner);
        }
        inner = outer;
    }
    list.set(name, inner);
    format!("lies in {depth} lists")
}

/// Changes of the packed bytes: what no encoder writes.
fn raw(packed: &mut Vec<u8>, random: &mut Random) -> String {
    let words = (packed.len() - HEAD.min(packed.len())) / 4;
    if words < 4 {
        return "nothing".to_owned();
    }
    let at = HEAD + 4 * random.below(words);
    match random.below(5) {
        // A pair a second time.
        0 => {
            let size = u32::from_be_bytes(packed[HEAD..HEAD + 4].try_into().expect("four"));
            let end = (HEAD + size as usize).min(packed.len());
            let pair = packed[HEAD..end].to_vec();
            for _ in 0..*random.pick(&[1, 2, 100]) {
                packed.splice(HEAD..HEAD, pair.iter().copied());
            }
            format!("the first pair, {size} bytes, comes again")
        }
        1 => {
            packed.truncate(at);
            format!("cut off at {at}")
        }
        2 => {
            let noise = random.bytes(HEAD);
            packed[..HEAD].copy_from_slice(&noise);
            "another header".to_owned()
        }
        // A size, a type, a count, the length of a text, or a half of a number.
        _ => {
            let new = match random.below(3) {
                0 => random.below(30) as u32,
                _ => *random.pick(&EDGES) as u32,
            };
            if let Some(word) = packed.get_mut(at..at + 4) {
                word.copy_from_slice(&new.to_be_bytes());
            }
            format!("four bytes at {at} are {new}")
        }
    }
}
