use super::*;

#[test]
fn uris_say_where_a_disk_is() {
    let host = |name: &str, port| Place::Host(name.to_owned(), port);
    for (text, place, export) in [
        ("nbd://host/a/b%20c", host("host", 10809), "a/b c"),
        ("nbd://host:1234", host("host", 1234), ""),
        ("nbd://[::1]:99/x", host("::1", 99), "x"),
        (
            "nbd+unix:///x?socket=/run/%6ebd",
            Place::Socket("/run/nbd".into()),
            "x",
        ),
    ] {
        let uri = Uri::parse(text).unwrap();
        assert_eq!((uri.place, &*uri.export), (place, export), "{text}");
        assert_eq!(uri.security, None);
        assert!(is_remote(Path::new(text)));
        assert_eq!(absolute(Path::new(text)), Path::new(text));
    }
    let security = |text: &str| Uri::parse(text).unwrap().security.unwrap();
    let found = security("nbds://pond/x");
    assert_eq!((&*found.host, found.certificates), ("pond", None));
    let found = security("nbds://pond/x?tls-certificates=/etc/p%6bi");
    assert_eq!(found.certificates, Some("/etc/pki".into()));
    let found = security("nbds+unix:///x?socket=/s");
    assert_eq!(found.host, "localhost");
    let found = security("nbds+unix:///x?socket=/s&tls-hostname=lake");
    assert_eq!(found.host, "lake");
    assert!(!is_remote(Path::new("/nbd://host")));
    assert!(absolute(Path::new("x")).is_absolute());
}

#[test]
fn uris_that_make_no_sense_are_refused() {
    for text in [
        "http://host/",
        "nbd:///x",
        "nbd://user@host/x",
        "nbd://host:port/x",
        "nbd://[::1/x",
        "nbd://host/%zz",
        "nbd://host/%f",
        "nbd://host/%ff",
        "nbd://host/x?socket=/s",
        "nbd://host/x?what=c",
        "nbd+unix:///x?socket=here",
        "nbd+unix:///x",
        "nbd://host/x?tls-hostname=c",
        "nbds://host/x?tls-certificates=here",
        "nbds://host/x?what=x",
        "nbd+unix://host/x?socket=/s",
        "nbd+unix:///x?socket",
    ] {
        assert!(Uri::parse(text).is_err(), "{text}");
    }
}

#[test]
fn uris_in_a_list_keep_their_colons() {
    let port = "nbd://host:1234/x";
    let address = "nbds://[fe80::1]:99/x?tls-certificates=/etc/pki";
    let socket = "nbd+unix:///x?socket=/run/nbd";
    for parts in [
        vec!["/dev", "images", "/x"],
        vec![port],
        vec![port, "/dev"],
        vec!["/dev", port, address, socket, "here"],
        vec!["nbd://host:1", "nbd://host", "/dev"],
        vec!["nbds+unix:///x?socket=/a%3ab", "nbd://[::1]:9", "9"],
        // No port: a name of digits alone would be one.
        vec!["nbd://host", "1a", "nbd://host", ""],
        vec!["nbd://[", "", "1/x"],
        vec![""],
    ] {
        let found = paths_in(&parts.join(":"));
        let wanted: Vec<PathBuf> = parts.iter().map(PathBuf::from).collect();
        assert_eq!(found, wanted);
    }
}
