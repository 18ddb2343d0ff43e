//! How fast checksums, compression and parity are on one core: `speeds [BYTES…]` (4,096, 131,072 and 1,048,576). A line
//! each: algorithm, what is done, which data, bytes a call, GB (10^9 bytes of plain data) in a second of this thread's
//! CPU time, the best of five rounds; and the share of its size that data have once they are compressed. Parity is that
//! of eight columns (fewer if these were shorter than a sector of 4 KB), and lost columns are found again by the rows
//! that are named.
//!
//! `half4k` is 2 KB of noise, then 2 KB of blanks, and so on; `alt8` is 8 bytes of each in turn.

use std::hint::black_box;

use base::ByteOrder;
use millpond_codec::{
    Checksum, Compression, Salt, ZstdLevel, checksum, compress, decompress, generate_parity,
    reconstruct,
};

const SIZES: [usize; 3] = [4 << 10, 128 << 10, 1 << 20];
const ROUNDS: u32 = 5;
/// A round takes about so long.
const ROUND_NS: u64 = 60_000_000;

const CHECKSUMS: [(&str, Checksum); 7] = [
    ("fletcher2", Checksum::Fletcher2),
    ("fletcher4", Checksum::Fletcher4),
    ("sha256", Checksum::Sha256),
    ("sha512", Checksum::Sha512),
    ("blake3", Checksum::Blake3),
    ("skein", Checksum::Skein),
    ("edonr", Checksum::Edonr),
];

/// Noise and blanks in turn, so many bytes of each.
fn data(bytes: usize, turn: usize) -> Vec<u8> {
    let mut state = 88_172_645_463_325_252_u64;
    let word = |at: usize| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        match at / turn % 2 {
            0 => state.to_ne_bytes(),
            _ => [b' '; 8],
        }
    };
    (0..bytes).step_by(8).flat_map(word).collect()
}

fn rounds_ns(calls: u64, call: &mut dyn FnMut()) -> u64 {
    let begun = sys::thread_cpu_ns();
    (0..calls).for_each(|_| call());
    (sys::thread_cpu_ns() - begun).max(1)
}

/// GB a second.
fn speed(bytes: usize, call: &mut dyn FnMut()) -> f64 {
    let mut calls = 1;
    let one_ns = loop {
        let took = rounds_ns(calls, call);
        if took > ROUND_NS / 4 {
            break took as f64 / calls as f64;
        }
        calls *= 2;
    };
    let calls = (ROUND_NS as f64 / one_ns) as u64 + 1;
    let best = (0..ROUNDS).map(|_| rounds_ns(calls, call)).min();
    (calls as f64 * bytes as f64) / best.unwrap_or(1) as f64
}

fn report(name: &str, operation: &str, data: &str, bytes: usize, call: &mut dyn FnMut()) {
    let speed = speed(bytes, call);
    println!("{name}\t{operation}\t{data}\t{bytes}\t{speed:.3}");
}

fn checksums(bytes: usize) {
    let (plain, salt) = (data(bytes, 8), Salt([7; 32]));
    for (name, kind) in CHECKSUMS {
        let one = |operation: &str, order: ByteOrder| {
            report(name, operation, "any", bytes, &mut || {
                black_box(checksum(kind, black_box(&plain), order, &salt));
            });
        };
        one("checksum", ByteOrder::NATIVE);
        if kind == Checksum::Fletcher4 {
            let other = match ByteOrder::NATIVE {
                ByteOrder::Little => ByteOrder::Big,
                ByteOrder::Big => ByteOrder::Little,
            };
            one("checksum-byteswap", other);
        }
    }
}

fn compressions(bytes: usize) -> Result<(), Box<dyn std::error::Error>> {
    let zstd = |level| {
        ZstdLevel::from_level(level)
            .map(Compression::Zstd)
            .ok_or("a level")
    };
    let kinds = [
        ("lz4", Compression::Lz4),
        ("zstd-1", zstd(1)?),
        ("zstd-3", zstd(3)?),
        ("zstd-9", zstd(9)?),
        ("zstd-fast-10", zstd(-10)?),
        ("gzip-6", Compression::Gzip(6)),
        ("lzjb", Compression::Lzjb),
        ("zle", Compression::Zle),
    ];
    for (pattern, turn) in [("alt8", 8), ("half4k", 2048)] {
        let plain = data(bytes, turn);
        for (name, kind) in kinds {
            let (mut stored, mut back) = (vec![0; bytes], vec![0; bytes]);
            let mut len = None;
            report(name, "compress", pattern, bytes, &mut || {
                len = compress(kind, black_box(&plain), &mut stored);
            });
            let Some(len) = len else { continue };
            let mut fault = None;
            report(name, "decompress", pattern, bytes, &mut || {
                fault = decompress(kind, black_box(&stored[..len]), &mut back).err();
            });
            if let Some(fault) = fault {
                return Err(fault.into());
            }
            println!(
                "{name}\tratio\t{pattern}\t{bytes}\t{:.3}",
                len as f64 / bytes as f64
            );
        }
    }
    Ok(())
}

/// The most columns of data that have parity here, and the least length of one.
const COLUMNS_MAX: usize = 8;
const SECTOR: usize = 4096;

fn parities(bytes: usize) -> Result<(), Box<dyn std::error::Error>> {
    let (plain, len) = (data(bytes, 8), (bytes / COLUMNS_MAX).max(SECTOR));
    let columns: Vec<&[u8]> = plain.chunks_exact(len).collect();
    let mut rows = vec![vec![0; len]; 3];
    for count in 1..=rows.len() {
        let mut rooms: Vec<&mut [u8]> = rows.iter_mut().take(count).map(Vec::as_mut).collect();
        let mut fault = None;
        report(
            &format!("raidz{count}"),
            "generate",
            "any",
            bytes,
            &mut || {
                fault = generate_parity(black_box(&columns), &mut rooms).err();
            },
        );
        fault.map_or(Ok(()), Err)?;
    }
    let used = [&[0][..], &[1], &[2], &[0, 1], &[0, 2], &[1, 2], &[0, 1, 2]];
    for used in used.into_iter().filter(|used| used.len() <= columns.len()) {
        let known: Vec<_> = (columns.iter().enumerate())
            .map(|(column, bytes)| (column >= used.len()).then_some(*bytes))
            .collect();
        let there: Vec<_> = (rows.iter().enumerate())
            .map(|(row, bytes)| used.contains(&row).then_some(bytes.as_slice()))
            .collect();
        let mut found = vec![vec![0; len]; used.len()];
        let mut lost: Vec<_> = found
            .iter_mut()
            .map(Vec::as_mut_slice)
            .enumerate()
            .collect();
        let name: String = used.iter().map(|row| ["p", "q", "r"][*row]).collect();
        let mut fault = None;
        report(&name, "reconstruct", "any", bytes, &mut || {
            fault = reconstruct(black_box(&known), &there, &mut lost).err();
        });
        fault.map_or(Ok(()), Err)?;
    }
    Ok(())
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let given: Vec<usize> = std::env::args()
        .skip(1)
        .map(|text| text.parse())
        .collect::<Result<_, _>>()?;
    let sizes = match given.is_empty() {
        true => SIZES.to_vec(),
        false => given,
    };
    for bytes in sizes {
        checksums(bytes);
        compressions(bytes)?;
        parities(bytes)?;
    }
    Ok(())
}
