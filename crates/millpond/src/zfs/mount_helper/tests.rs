use super::*;

fn parsed(line: &str) -> Result<Words, String> {
    let words: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
    parse(&words)
}

#[test]
fn the_words_of_mount_are_understood() {
    let words = parsed("tank/home /mnt -o rw,noatime,x-systemd.automount,nofail -sv").unwrap();
    assert_eq!(words.dataset, "tank/home");
    assert_eq!(words.directory, Path::new("/mnt"));
    assert_eq!(words.options, ["rw", "noatime"]);
    assert!(!words.fake);
    let words = parsed("-fn tank /mnt -t zfs -oremount,ro -r").unwrap();
    assert_eq!(words.options, ["remount", "ro", "ro"]);
    assert!(words.fake);
}

#[test]
fn what_is_missing_is_said() {
    assert!(parsed("tank").is_err());
    assert!(parsed("tank /mnt -o").is_err());
    assert!(parsed("tank /mnt -q").is_err());
}
