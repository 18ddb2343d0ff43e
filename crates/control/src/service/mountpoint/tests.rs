use super::*;

fn local(text: &str) -> Setting {
    Setting::from(Value::Text(text.into()), Source::Local)
}

fn inherited(text: &str, from: &str) -> Setting {
    Setting::from(Value::Text(text.into()), Source::Inherited(from.into()))
}

#[test]
fn effective_mount_points() {
    let at = |dataset, setting: Option<Setting>, root: Option<&str>| {
        Mountpoint::effective(dataset, setting.as_ref(), root.map(Path::new)).text()
    };
    assert_eq!(at("tank", None, None), "/tank");
    assert_eq!(at("tank/a", None, Some("/alt")), "/alt/tank/a");
    assert_eq!(at("tank/a", Some(local("/x/y")), None), "/x/y");
    assert_eq!(at("tank/a", Some(local("/")), Some("/alt")), "/alt");
    assert_eq!(
        at("tank/a/b/c", Some(inherited("/x", "tank/a")), Some("/g")),
        "/g/x/b/c"
    );
    assert_eq!(at("tank/a", Some(inherited("none", "tank")), None), "none");
    assert_eq!(at("tank/a", Some(local("legacy")), Some("/g")), "legacy");
}

#[test]
fn parents_come_first() {
    let mut paths = ["/t/a-b", "/t/a/c", "/t", "/t/a"].map(PathBuf::from);
    paths.sort_by(|a, b| mount_order(a, b));
    assert_eq!(paths, ["/t", "/t/a", "/t/a/c", "/t/a-b"].map(PathBuf::from));
}

#[test]
fn words_of_options() {
    let mut options = MountOptions::default();
    apply_words(&mut options, &["ro,noatime".into(), "nosuid".into()]).unwrap();
    assert!(options.readonly && !options.atime && !options.setuid && options.exec);
    assert_eq!(
        apply_words(&mut options, &["sideways".into()]),
        Err("sideways".into())
    );
}
