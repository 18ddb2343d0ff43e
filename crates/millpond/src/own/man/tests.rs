use super::*;

#[test]
fn every_command_and_flag_is_there() {
    let pages = pages(&[
        &crate::own::PROGRAM,
        &crate::zfs::PROGRAM,
        &crate::zpool::PROGRAM,
    ]);
    for page in &pages {
        let text = page.text(&pages);
        for command in page.program.commands {
            assert!(
                text.contains(&format!("\n.SS {}\n", command.name)),
                "{}",
                command.name
            );
            for flag in command.flags {
                let line = format!(".B {}", plain(&spelled(flag)));
                assert!(text.contains(&line), "{} {line}", command.name);
            }
        }
        for row in page.program.properties.iter().flat_map(|table| table.rows) {
            let there = text.contains(&format!("\n.B {}", plain(row.name).trim_end()));
            assert_eq!(there, row.visible, "{}", row.name);
        }
        for (variable, _) in page.program.environment {
            assert!(
                text.contains(&format!("\n.B {}", plain(variable))),
                "{variable}"
            );
        }
        // Only requests that are meant begin with a dot.
        let known = [
            ".TH", ".SH", ".SS", ".TP", ".PP", ".B", ".BR", ".I", ".nf", ".fi",
        ];
        for line in text.lines().filter(|line| line.starts_with(['.', '\''])) {
            assert!(known.contains(&line.split(' ').next().unwrap()), "{line}");
        }
    }
}

#[test]
fn text_is_no_markup() {
    assert_eq!(plain(".a -b\n'c\\d"), "\\&.a \\-b\n\\&'c\\ed\n");
}
