//! Where a file says that its data and holes are, against its bytes.

/// Walks from each piece of data to the hole behind it, and on: a hole has nothing but zeros, and there is an end. Of a
/// position, `data` says where the next data are (none: nowhere), and `hole` where the next hole is.
///
/// # Errors
/// What `data` and `hole` said.
///
/// # Panics
/// If it is otherwise; `about` says of which file.
pub fn check<E>(
    contents: &[u8],
    about: &str,
    data: impl Fn(u64) -> Result<Option<u64>, E>,
    hole: impl Fn(u64) -> Result<u64, E>,
) -> Result<(), E> {
    let mut at = 0;
    while at < contents.len() {
        let data = data(at as u64)?.map_or(contents.len(), |data| data as usize);
        assert!(
            contents[at..data].iter().all(|byte| *byte == 0),
            "{about}: data between {at} and {data} are shown as a hole"
        );
        if data == contents.len() {
            break;
        }
        at = hole(data as u64)? as usize;
        assert!(at > data, "{about}: a hole at {at} where there are data");
    }
    Ok(())
}
