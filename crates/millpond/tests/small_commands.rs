//! The real binary with pools of its own that mount nothing: properties that are kept in odd places.

mod support;

use support::{Ran, Sandbox};

/// Lets go of the pools that a test that fails leaves.
struct Session(Sandbox);

impl Session {
    fn new() -> Self {
        Self(Sandbox::new())
    }

    fn run(&self, line: &str) -> Ran {
        self.0.run(line)
    }

    fn done(&self, line: &str) -> String {
        let ran = self.run(line);
        assert_eq!(ran.status, 0, "{line}: {ran:?}");
        ran.output
    }

    fn refused(&self, line: &str, text: &str) {
        let ran = self.run(line);
        assert_eq!(ran.status, 1, "{line}: {ran:?}");
        assert_eq!(ran.errors.lines().next(), Some(text), "{line}");
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        self.run("zpool export -a -f");
    }
}

#[test]
fn limits_of_owners_are_set_and_shown() {
    let session = Session::new();
    session.done("zpool create --size 96M -m none tank tank.img");
    session.done("zfs create tank/a");
    let get = |name: &str| session.done(&format!("zfs get -Hp -o value,source {name} tank/a"));
    assert_eq!(get("userquota@7"), "0\tlocal\n");
    session.done("zfs set userquota@7=1M groupquota@root=2M projectobjquota@3=9 tank/a");
    assert_eq!(get("userquota@7"), "1048576\tlocal\n");
    assert_eq!(get("groupquota@0"), "2097152\tlocal\n");
    assert_eq!(get("projectobjquota@3"), "9\tlocal\n");
    session.done("zfs set userquota@7=none tank/a");
    let shown = session.done("zfs get -H -o value userquota@7,groupquota@root tank/a");
    assert_eq!(shown, "none\n2M\n");
    // The root directory is an object of root's.
    assert_eq!(get("userobjused@root"), "1\tlocal\n");
    session.refused(
        "zfs set userquota@no-such-user=1M tank/a",
        "cannot set property for 'tank/a': 'userquota@no-such-user' has an invalid user/group name",
    );
    session.refused(
        "zfs set userused@7=1M tank/a",
        "cannot set property for 'tank/a': 'userused@7' is readonly",
    );
    session.done("zpool export tank");
    session.done("zpool import -d tank.img tank");
    assert_eq!(get("groupquota@0"), "2097152\tlocal\n");
}

#[test]
fn versions_go_up_and_boot_file_systems_go_with_their_datasets() {
    let session = Session::new();
    session.done("zpool create --size 96M -m none -o bootfs=tank tank tank.img");
    let boot = || session.done("zpool get -H -o value bootfs tank");
    assert_eq!(boot(), "tank\n");
    session.done("zfs create -o version=3 tank/a");
    session.refused(
        "zfs set userquota@7=1M tank/a",
        "cannot set property for 'tank/a': the file system must be upgraded to version 4 or later",
    );
    session.done("zfs set version=5 tank/a");
    assert_eq!(session.done("zfs get -H -o value version tank/a"), "5\n");
    session.done("zfs set userquota@7=1M tank/a");
    session.refused(
        "zfs set version=4 tank/a",
        "cannot set property for 'tank/a': Can not downgrade; already at version 5",
    );
    session.refused(
        "zpool set bootfs=tank/none tank",
        "cannot set property for 'tank': no such dataset 'tank/none'",
    );
    session.done("zpool set bootfs=tank/a tank");
    assert_eq!(boot(), "tank/a\n");
    session.done("zfs destroy tank/a");
    assert_eq!(boot(), "-\n");
    session.done("zpool set note:text=hello tank");
    let note = session.done("zpool get -H note:text tank");
    assert_eq!(note, "tank\tnote:text\thello\tlocal\n");
}

#[test]
fn cache_files_and_names_for_now() {
    let session = Session::new();
    let cache = session.0.path("pools.cache");
    let kept = session.0.path("kept.cache");
    let shown = cache.display();
    session.done(&format!(
        "zpool create --size 96M -m none -o cachefile={shown} tank tank.img"
    ));
    let get = session.done("zpool get -H -o value,source cachefile tank");
    assert_eq!(get, format!("{shown}\tlocal\n"));
    std::fs::copy(&cache, &kept).unwrap();
    session.done("zpool export tank");
    assert!(!cache.exists());
    let kept = kept.display();
    session.refused(
        "zpool import -c nowhere.cache tank",
        "failed to open cache file 'nowhere.cache': No such file or directory",
    );
    session.done(&format!("zpool import -c {kept} tank"));
    session.done("zpool export tank");
    session.done(&format!("zpool import -c {kept} -t tank other"));
    assert_eq!(session.done("zpool list -H -o name"), "other\n");
    session.done("zpool export other");
    // The name was for that import only.
    session.done("zpool import -d tank.img tank");
    session.done("zpool create --size 96M -m none -t now later later.img");
    assert_eq!(session.done("zpool list -H -o name"), "now\ntank\n");
    session.done("zfs create now/a");
    session.done("zpool export now");
    session.done("zpool import -d later.img later");
    assert_eq!(session.done("zfs list -H -o name later/a"), "later/a\n");
}

#[test]
fn a_file_that_cannot_be_made_is_not_left_behind() {
    let session = Session::new();
    // Longer than a file can be.
    let ran = session.run("zpool create --size 9E -m none tank tank.img");
    assert_eq!(ran.status, 1, "{ran:?}");
    assert!(!ran.errors.contains("os error"), "{ran:?}");
    assert!(!session.0.path("tank.img").exists());
}
