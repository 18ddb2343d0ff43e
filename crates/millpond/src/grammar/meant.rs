//! What somebody may have meant who mistyped a word.

/// The one word that is closest to what was typed, if it is close enough to be meant and no other is as close.
pub(crate) fn meant<'a>(typed: &str, words: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let far = if typed.chars().count() <= 4 { 1 } else { 2 };
    let mut near: Vec<(usize, &str)> = words
        .map(|word| (distance(typed, word), word))
        .filter(|(steps, _)| *steps <= far)
        .collect();
    near.sort_unstable();
    near.dedup();
    match near.as_slice() {
        [(_, only)] => Some(only),
        [(first, closest), (second, _), ..] if first < second => Some(closest),
        [..] => None,
    }
}

/// How many letters have to be put in, taken out, replaced, or exchanged with their neighbours.
fn distance(from: &str, to: &str) -> usize {
    let (from, to): (Vec<char>, Vec<char>) = (from.chars().collect(), to.chars().collect());
    let width = to.len() + 1;
    let mut table = vec![0; (from.len() + 1) * width];
    for row in 0..=from.len() {
        for column in 0..width {
            let at = |up: usize, left: usize| (row - up) * width + column - left;
            table[row * width + column] = match (row, column) {
                (0, steps) | (steps, 0) => steps,
                _ => {
                    let replaced = usize::from(from[row - 1] != to[column - 1]);
                    let single = (table[at(1, 0)] + 1)
                        .min(table[at(0, 1)] + 1)
                        .min(table[at(1, 1)] + replaced);
                    let exchanged = row > 1
                        && column > 1
                        && from[row - 1] == to[column - 2]
                        && from[row - 2] == to[column - 1];
                    if exchanged {
                        single.min(table[at(2, 2)] + 1)
                    } else {
                        single
                    }
                }
            };
        }
    }
    table.last().copied().unwrap_or_default()
}

#[cfg(test)]
mod tests;
