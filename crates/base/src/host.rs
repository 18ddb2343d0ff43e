//! What the host says of an error.

/// What an error of the host says, without its number.
#[must_use]
pub fn host_reason(error: &std::io::Error) -> String {
    let text = error.to_string();
    text.split(" (os error").next().unwrap_or(&text).to_owned()
}
