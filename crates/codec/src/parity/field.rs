//! GF(2^8) with the polynomial x^8 + x^4 + x^3 + x^2 + 1, in which 2 generates every element but zero.

/// The polynomial without its highest power.
pub(super) const POLYNOMIAL: u8 = 0x1d;

/// How many elements there are but zero: powers of two repeat after so many.
const ORDER: usize = 255;

/// The powers of two, and the logarithms of what is not zero.
struct Tables {
    power: [u8; ORDER],
    logarithm: [u8; 256],
}

const TABLES: Tables = {
    let mut tables = Tables {
        power: [0; ORDER],
        logarithm: [0; 256],
    };
    let (mut element, mut exponent) = (1_u8, 0);
    while exponent < ORDER {
        tables.power[exponent] = element;
        tables.logarithm[element as usize] = exponent as u8;
        element = double(element);
        exponent += 1;
    }
    tables
};

/// Twice an element.
#[inline(always)]
pub(super) const fn double(element: u8) -> u8 {
    (element << 1) ^ if element & 0x80 == 0 { 0 } else { POLYNOMIAL }
}

/// The product.
pub(super) const fn multiply(a: u8, b: u8) -> u8 {
    if a == 0 || b == 0 {
        return 0;
    }
    let sum = TABLES.logarithm[a as usize] as usize + TABLES.logarithm[b as usize] as usize;
    TABLES.power[sum % ORDER]
}

/// What an element is to be multiplied by to be 1; none for zero.
pub(super) const fn inverse(element: u8) -> Option<u8> {
    if element == 0 {
        return None;
    }
    Some(TABLES.power[(ORDER - TABLES.logarithm[element as usize] as usize) % ORDER])
}

/// 2^`exponent`.
pub(super) const fn power_of_two(exponent: usize) -> u8 {
    TABLES.power[exponent % ORDER]
}
