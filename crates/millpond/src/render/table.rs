//! Columns of text: two spaces between, or single tabs for scripts.

#[cfg(test)]
mod tests;

/// One column of a table.
#[derive(Debug, Clone)]
pub(crate) struct Column {
    /// The header.
    pub(crate) header: String,
    /// Numbers stand at the right.
    pub(crate) right: bool,
    /// At least so wide, however short the entries are.
    pub(crate) width_min: usize,
}

impl Column {
    /// A left-aligned column as wide as its entries.
    #[must_use]
    pub(crate) fn left(header: &str) -> Self {
        Self {
            header: header.to_owned(),
            right: false,
            width_min: 0,
        }
    }

    /// A right-aligned column at least five wide.
    #[must_use]
    pub(crate) fn right(header: &str) -> Self {
        Self {
            header: header.to_owned(),
            right: true,
            width_min: 5,
        }
    }
}

/// The rows with single tabs between the entries, for scripts.
#[must_use]
pub(crate) fn scripted(rows: &[Vec<String>]) -> String {
    let mut out = String::new();
    for row in rows {
        out.push_str(&row.join("\t"));
        out.push('\n');
    }
    out
}

/// The header and the rows in aligned columns. The last column is not padded when left-aligned.
#[must_use]
pub(crate) fn aligned(columns: &[Column], rows: &[Vec<String>]) -> String {
    let widths: Vec<usize> = columns
        .iter()
        .enumerate()
        .map(|(at, column)| {
            let longest = rows
                .iter()
                .filter_map(|row| row.get(at))
                .map(|text| width(text))
                .max();
            longest
                .unwrap_or(0)
                .max(width(&column.header))
                .max(column.width_min)
        })
        .collect();
    let header: Vec<String> = columns.iter().map(|column| column.header.clone()).collect();
    let mut out = String::new();
    for row in std::iter::once(&header).chain(rows) {
        for (at, text) in row.iter().enumerate() {
            let (Some(column), Some(&wide)) = (columns.get(at), widths.get(at)) else {
                break;
            };
            if at > 0 {
                out.push_str("  ");
            }
            let padding = wide.saturating_sub(width(text));
            if column.right {
                out.extend(std::iter::repeat_n(' ', padding));
            }
            out.push_str(text);
            if !column.right && at + 1 < columns.len() {
                out.extend(std::iter::repeat_n(' ', padding));
            }
        }
        out.push('\n');
    }
    out
}

fn width(text: &str) -> usize {
    text.chars().count()
}
