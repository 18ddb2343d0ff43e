use super::*;

fn heard(socket: &UnixDatagram) -> String {
    let mut text = [0; 64];
    let length = socket.recv(&mut text).unwrap();
    String::from_utf8_lossy(&text[..length]).into_owned()
}

#[test]
fn a_path_and_an_abstract_name_are_told() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("notify");
    let by_path = UnixDatagram::bind(&path).unwrap();
    let supervisor = Supervisor::at(Some(path.into()));
    supervisor.ready("pool 'tank' is served");
    supervisor.stopping();
    assert_eq!(heard(&by_path), "READY=1\nSTATUS=pool 'tank' is served");
    assert_eq!(heard(&by_path), "STOPPING=1");

    let name = format!("millpond-test-{}", std::process::id());
    let address = SocketAddr::from_abstract_name(&name).unwrap();
    let by_name = UnixDatagram::bind_addr(&address).unwrap();
    Supervisor::at(Some(format!("@{name}").into())).stopping();
    assert_eq!(heard(&by_name), "STOPPING=1");

    for nobody in [
        None,
        Some(""),
        Some("@"),
        Some("relative"),
        Some("/not/there"),
    ] {
        Supervisor::at(nobody.map(OsString::from)).stopping();
    }
}
