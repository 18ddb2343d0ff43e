//! Moments as OpenZFS prints them, in the local time zone of whoever asks.

use jiff::{Timestamp, Zoned, tz::TimeZone};

#[cfg(test)]
mod tests;

fn local(seconds: u64) -> Option<Zoned> {
    let timestamp = Timestamp::from_second(i64::try_from(seconds).ok()?).ok()?;
    Some(timestamp.to_zoned(TimeZone::system()))
}

fn shown(seconds: u64, format: &str) -> String {
    local(seconds).map_or_else(
        || seconds.to_string(),
        |moment| moment.strftime(format).to_string(),
    )
}

/// As `zfs get creation` and lists show it: `Sat Nov 21  7:56 2026`.
#[must_use]
pub fn creation(seconds: u64) -> String {
    shown(seconds, "%a %b %e %k:%M %Y")
}

/// As `zfs holds` shows it: `Sat Nov 21 07:56 2026`.
#[must_use]
pub fn hold(seconds: u64) -> String {
    shown(seconds, "%a %b %e %H:%M %Y")
}

/// As scan lines and refusals show it: `Sat Nov 21 07:56:40 2026`.
#[must_use]
pub fn moment(seconds: u64) -> String {
    shown(seconds, "%a %b %e %H:%M:%S %Y")
}

/// As JSON has it: `Sat Nov 21 07:56:40 UTC 2026`.
#[must_use]
pub fn zoned(seconds: u64) -> String {
    shown(seconds, "%a %b %e %H:%M:%S %Z %Y")
}

/// As history lines show it: `2026-11-21.07:56:40`.
#[must_use]
pub fn history(seconds: u64) -> String {
    shown(seconds, "%Y-%m-%d.%H:%M:%S")
}

/// As the progress of a send shows it: `07:56:40`.
#[must_use]
pub fn clock(seconds: u64) -> String {
    shown(seconds, "%H:%M:%S")
}

/// As events show it, to the nanosecond: `Nov 21 2026 22:08:15.724004289`.
#[must_use]
pub fn event(nanoseconds: u64) -> String {
    let (seconds, rest) = (nanoseconds / 1_000_000_000, nanoseconds % 1_000_000_000);
    format!("{}.{rest:09}", shown(seconds, "%b %e %Y %H:%M:%S"))
}

/// A time span: `00:01:05`, `2 days 03:04:05`.
#[must_use]
pub fn span(seconds: u64) -> String {
    let (days, rest) = (seconds / 86_400, seconds % 86_400);
    let clock = format!("{:02}:{:02}:{:02}", rest / 3600, rest / 60 % 60, rest % 60);
    if days == 0 {
        clock
    } else {
        format!("{days} days {clock}")
    }
}
