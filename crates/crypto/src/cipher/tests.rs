use aes_gcm::Aes256Gcm;
use base::random::{Rng, SeededRng};

use super::*;

fn cipher(key: &[u8; 32]) -> Cipher {
    let suite = Suite {
        mode: Mode::Gcm,
        key_size: key.len(),
    };
    Cipher::new(suite, key).unwrap()
}

/// Blocks were encrypted by one library before, and are by another now: each opens what the other sealed, whatever
/// the length, and however the bytes lie in memory.
#[test]
fn both_libraries_make_the_same_of_each_length() {
    let rng = SeededRng::new(0x6763_6d00);
    let lengths = (0..300).chain([511, 512, 4095, 4096, 131_072, 131_072 + 16, 1 << 20]);
    for length in lengths {
        let (mut key, mut iv) = ([0; 32], [0; IV_SIZE]);
        rng.fill(&mut key);
        rng.fill(&mut iv);
        let mut known = vec![0; length % 97];
        rng.fill(&mut known);
        let from = length % 16;
        let mut plain = vec![0; from + length];
        rng.fill(&mut plain);
        let ours = cipher(&key);
        let other = Aes256Gcm::new_from_slice(&key).unwrap();
        let (mut sealed, mut expected) = (plain.clone(), plain.clone());
        let mac = ours.seal(&iv, &known, &mut sealed[from..]).unwrap();
        let code = seal_with(&other, &iv, &known, &mut expected[from..]).unwrap();
        assert_eq!((&sealed, mac), (&expected, code), "{length} bytes");
        ours.open(&iv, &mac, &known, &mut sealed[from..]).unwrap();
        open_with(&other, &iv, &mac, &known, &mut expected[from..]).unwrap();
        assert_eq!((&sealed, &expected), (&plain, &plain), "{length} bytes");
    }
}

/// A bit anywhere: in the bytes, in what goes along, in the code, in the vector.
#[test]
fn a_flipped_bit_is_told() {
    let rng = SeededRng::new(0x666c_6970);
    let (key, known) = ([7; 32], [9; 40]);
    let cipher = cipher(&key);
    let plain = vec![3; 5000];
    for _ in 0..500 {
        let (mut iv, mut along, mut data) = ([1; IV_SIZE], known, plain.clone());
        let mut mac = cipher.seal(&iv, &along, &mut data).unwrap();
        let parts: [&mut [u8]; 4] = [&mut iv, &mut along, &mut data, &mut mac];
        let part = parts.into_iter().nth(rng.below(4) as usize).unwrap();
        let at = rng.below(part.len() as u64) as usize;
        part[at] ^= 1 << rng.below(8);
        let opened = cipher.open(&iv, &mac, &along, &mut data);
        assert_eq!(opened, Err(BlockFault::Forged));
    }
}
