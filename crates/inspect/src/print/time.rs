//! Points in time, in UTC.

const WEEKDAYS: [&str; 7] = ["Thu", "Fri", "Sat", "Sun", "Mon", "Tue", "Wed"];
const MONTHS: [&str; 12] = [
    "Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec",
];
const DAY_SECONDS: i64 = 86_400;

/// A point in time as calendar and clock say it.
struct Civil {
    year: i64,
    month: usize,
    day: i64,
    weekday: &'static str,
    hour: i64,
    minute: i64,
    second: i64,
}

/// From seconds since 1970, by counting years from March so that the leap day is the last.
fn civil(seconds: u64) -> Civil {
    let seconds = seconds.cast_signed();
    let (days, rest) = (
        seconds.div_euclid(DAY_SECONDS),
        seconds.rem_euclid(DAY_SECONDS),
    );
    let shifted = days + 719_468;
    let era = shifted.div_euclid(146_097);
    let day_of_era = shifted.rem_euclid(146_097);
    let year_of_era =
        (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let march_month = (5 * day_of_year + 2) / 153;
    let month = (march_month + 2) % 12;
    Civil {
        year: year_of_era + era * 400 + i64::from(month < 2),
        month: month as usize,
        day: day_of_year - (153 * march_month + 2) / 5 + 1,
        weekday: WEEKDAYS[days.rem_euclid(7) as usize],
        hour: rest / 3600,
        minute: rest / 60 % 60,
        second: rest % 60,
    }
}

/// As `ctime` writes it: `Fri Nov 20 10:19:27 2026`.
pub(crate) fn calendar(seconds: u64) -> String {
    let Civil {
        year,
        month,
        day,
        weekday,
        hour,
        minute,
        second,
    } = civil(seconds);
    let month = MONTHS[month];
    format!("{weekday} {month} {day:>2} {hour:02}:{minute:02}:{second:02} {year}")
}

/// As histories write it: `2026-11-20.10:19:27`.
pub(crate) fn stamp(seconds: u64) -> String {
    let Civil {
        year,
        month,
        day,
        hour,
        minute,
        second,
        ..
    } = civil(seconds);
    format!(
        "{year}-{:02}-{day:02}.{hour:02}:{minute:02}:{second:02}",
        month + 1
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_points() {
        for (seconds, text) in [
            (0, "Thu Jan  1 00:00:00 1970"),
            (1_795_169_967, "Fri Nov 20 10:19:27 2026"),
            (951_782_400, "Tue Feb 29 00:00:00 2000"),
            (981_173_106, "Sat Feb  3 04:05:06 2001"),
            ((-2_i64).cast_unsigned(), "Wed Dec 31 23:59:58 1969"),
        ] {
            assert_eq!(calendar(seconds), text);
        }
        assert_eq!(stamp(1_795_169_967), "2026-11-20.10:19:27");
    }
}
