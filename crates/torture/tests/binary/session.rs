//! A folder with images, mounts below it, and the commands.

use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output};
use std::sync::{PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

static NAMESPACES: RwLock<()> = RwLock::new(());

/// For a command that unmounts: no namespace is being made meanwhile.
fn no_new_namespaces(arguments: &[&str]) -> Option<RwLockReadGuard<'static, ()>> {
    let unmounts = matches!(
        arguments,
        ["zpool", "export" | "destroy" | "split", ..]
            | [
                "zfs",
                "unmount"
                    | "destroy"
                    | "rename"
                    | "set"
                    | "inherit"
                    | "promote"
                    | "rollback"
                    | "receive",
                ..
            ]
    );
    unmounts.then(|| NAMESPACES.read().unwrap_or_else(PoisonError::into_inner))
}

/// The binary under test with a folder of its own. Pools are exported when it goes away.
pub(crate) struct Session {
    binary: PathBuf,
    folder: tempfile::TempDir,
    pools: Vec<String>,
    limits: Option<String>,
    /// The number of the host that it plays.
    host: Option<u32>,
}

impl Session {
    /// A session, or none where the machine cannot run one; it says why.
    pub(crate) fn new() -> Option<Self> {
        let Some(binary) = std::env::var_os("MILLPOND_BIN").map(PathBuf::from) else {
            println!("skipped: MILLPOND_BIN is not set (the release binary; cargo xtask sets it)");
            return None;
        };
        if std::fs::OpenOptions::new()
            .read(true)
            .write(true)
            .open("/dev/fuse")
            .is_err()
        {
            println!("skipped: /dev/fuse cannot be opened");
            return None;
        }
        let folder = tempfile::tempdir().expect("a temporary folder");
        for name in ["images", "mounts", "run"] {
            std::fs::create_dir(folder.path().join(name)).expect("a folder");
        }
        Some(Self {
            binary,
            folder,
            pools: Vec::new(),
            limits: None,
            host: None,
        })
    }

    /// The limits of daemons that start from now on (`name=value,…`).
    pub(crate) fn limit(&mut self, tunables: &str) {
        self.limits = Some(tunables.to_owned());
    }

    /// What runs from now on takes its host to be of this number.
    pub(crate) fn on_host(&mut self, number: u32) {
        self.host = Some(number);
    }

    /// The variables that the binary runs with.
    fn environment(&self) -> Vec<(&str, std::ffi::OsString)> {
        let run = ("MILLPOND_RUN", self.folder.path().join("run").into());
        let limits = self.limits.as_ref();
        let limits = limits.map(|limits| ("MILLPOND_TUNABLES", limits.into()));
        let host = self
            .host
            .map(|host| ("ZFS_HOSTID", host.to_string().into()));
        [run].into_iter().chain(limits).chain(host).collect()
    }

    /// Where images are.
    pub(crate) fn images(&self) -> PathBuf {
        self.folder.path().join("images")
    }

    /// Below which pools are mounted.
    pub(crate) fn mounts(&self) -> PathBuf {
        self.folder.path().join("mounts")
    }

    /// The root of a mounted dataset with a default mount point.
    pub(crate) fn mount(&self, dataset: &str) -> PathBuf {
        self.mounts().join(dataset)
    }

    /// Copies images (sparse) into the session's folder.
    pub(crate) fn bring(&self, images: &[PathBuf]) {
        for image in images {
            let status = Command::new("cp")
                .args(["--sparse=always", "--no-preserve=mode"])
                .arg(image)
                .arg(self.images())
                .status()
                .expect("cp runs");
            assert!(status.success());
        }
    }

    /// The binary, to be run.
    pub(crate) fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(&self.binary);
        command.args(arguments).envs(self.environment());
        command.stdin(std::process::Stdio::null());
        command
    }

    /// Runs the binary.
    pub(crate) fn run(&self, arguments: &[&str]) -> Output {
        let _held = no_new_namespaces(arguments);
        let output = self.command(arguments).output();
        output.expect("the binary runs")
    }

    /// Runs the binary as another user; none where that cannot be.
    pub(crate) fn as_user(&self, user: u32, arguments: &[&str]) -> Option<Output> {
        Command::new(&self.binary)
            .args(arguments)
            .envs(self.environment())
            .stdin(std::process::Stdio::null())
            .uid(user)
            .gid(user)
            .output()
            .ok()
    }

    /// Lets other users come as far as the sockets; false where none can run the binary.
    pub(crate) fn open_to(&self, user: u32) -> bool {
        use std::os::unix::fs::PermissionsExt;
        for folder in [self.folder.path(), &self.folder.path().join("run")] {
            let to_all = std::fs::Permissions::from_mode(0o755);
            std::fs::set_permissions(folder, to_all).expect("a folder for all");
        }
        let runs = self.as_user(user, &["zpool", "list"]).is_some();
        if !runs {
            println!("skipped: {user} cannot run the binary");
        }
        runs
    }

    /// Starts the binary; whoever asked waits for it.
    pub(crate) fn spawn(&self, arguments: &[&str]) -> Child {
        Command::new(&self.binary)
            .args(arguments)
            .envs(self.environment())
            .stdin(std::process::Stdio::null())
            .spawn()
            .expect("the binary runs")
    }

    /// A shell script with the binary as its `$0`, to be run.
    pub(crate) fn shell_command(&self, script: &str) -> Command {
        let mut command = Command::new("sh");
        command.arg("-c").arg(script).arg(&self.binary);
        command.envs(self.environment());
        command.stdin(std::process::Stdio::null());
        command
    }

    /// Runs a shell script, with the binary as its `$0` and `arguments` after it.
    pub(crate) fn shell(&self, script: &str, arguments: &[&str]) -> Output {
        let output = self.shell_command(script).args(arguments).output();
        output.expect("sh runs")
    }

    /// Runs the binary, which must succeed; what it printed.
    pub(crate) fn ok(&self, arguments: &[&str]) -> String {
        let output = self.run(arguments);
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(
            output.status.success(),
            "{arguments:?}: {}\n{text}{errors}",
            output.status
        );
        text
    }

    /// Runs the binary, which must fail with one line on its standard error.
    pub(crate) fn refused(&self, arguments: &[&str]) -> String {
        let output = self.run(arguments);
        let errors = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(!output.status.success(), "{arguments:?} must fail");
        assert!(!errors.contains("panicked"), "{arguments:?}: {errors}");
        assert!(!errors.trim().is_empty(), "{arguments:?} must say why");
        errors
    }

    /// Runs the binary with something on its standard input.
    pub(crate) fn given(&self, input: &str, arguments: &[&str]) -> Output {
        let mut child = Command::new(&self.binary)
            .args(arguments)
            .envs(self.environment())
            .stdin(std::process::Stdio::piped())
            .stdout(std::process::Stdio::piped())
            .stderr(std::process::Stdio::piped())
            .spawn()
            .expect("the binary runs");
        let mut stdin = child.stdin.take().expect("a pipe");
        // A command that refuses at once reads nothing.
        let _ = std::io::Write::write_all(&mut stdin, input.as_bytes());
        drop(stdin);
        child.wait_with_output().expect("the binary ends")
    }

    /// A line of a shell that, in a mount namespace just made, lets go of every mount of a pool but the session's own:
    /// the copies would hold other tests' pools.
    pub(crate) fn let_go_of_others(&self) -> String {
        format!(
            "grep fuse.zfs /proc/self/mountinfo | cut -d' ' -f5 | grep -v '^{}' | tac \
             | xargs -r -n 1 umount -l 2>/dev/null",
            path(&self.mounts())
        )
    }

    /// Held while a test makes a mount namespace: until it has let go of others' mounts, it holds them.
    pub(crate) fn making_a_namespace() -> RwLockWriteGuard<'static, ()> {
        NAMESPACES.write().unwrap_or_else(PoisonError::into_inner)
    }

    /// The daemons of the session, by their processes.
    pub(crate) fn daemons(&self) -> Vec<u32> {
        let run = format!("MILLPOND_RUN={}", path(&self.folder.path().join("run")));
        let is_ours = |pid: &u32| {
            let environment = std::fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
            environment
                .split(|byte| *byte == 0)
                .any(|variable| variable == run.as_bytes())
        };
        let processes = std::fs::read_dir("/proc").expect("/proc is there");
        let pids = processes
            .flatten()
            .filter_map(|entry| entry.file_name().to_str()?.parse().ok());
        pids.filter(is_ours).collect()
    }

    /// Creates a pool in an image of that many megabytes.
    pub(crate) fn create(&mut self, pool: &str, megabytes: u32, options: &[&str]) {
        let image = self.images().join(format!("{pool}.img"));
        let size = format!("{megabytes}M");
        let mounts = self.mounts();
        let mut arguments = vec!["zpool", "create", "--size", &size, "-R", path(&mounts)];
        arguments.extend(options);
        arguments.extend([pool, path(&image)]);
        self.ok(&arguments);
        self.pools.push(pool.to_owned());
    }

    /// Creates a pool of these vdevs.
    pub(crate) fn create_of(&mut self, pool: &str, vdevs: &[&str], options: &[&str]) {
        let mounts = self.mounts();
        let mut arguments = vec!["zpool", "create", "-R", path(&mounts)];
        arguments.extend(options);
        arguments.push(pool);
        arguments.extend(vdevs);
        self.ok(&arguments);
        self.pools.push(pool.to_owned());
    }

    /// Imports a pool from the session's images.
    pub(crate) fn import(&mut self, pool: &str, options: &[&str]) {
        let (images, mounts) = (self.images(), self.mounts());
        let mut arguments = vec!["zpool", "import", "-d", path(&images), "-R", path(&mounts)];
        arguments.extend(options);
        arguments.push(pool);
        self.ok(&arguments);
        self.pools.push(pool.to_owned());
    }

    /// Exports a pool.
    pub(crate) fn export(&mut self, pool: &str) {
        self.ok(&["zpool", "export", pool]);
        self.pools.retain(|known| known != pool);
    }

    /// Exports a pool and has zdb judge it, where there is one.
    pub(crate) fn export_clean(&mut self, pool: &str) {
        self.export(pool);
        if let Some(zdb) = golden::Zdb::from_environment() {
            zdb.assert_clean(&self.images(), pool);
        }
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        for pool in std::mem::take(&mut self.pools) {
            let _ = self.run(&["zpool", "export", "-f", &pool]);
        }
    }
}

/// A command that ends with the test.
pub(crate) struct Running(pub(crate) Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A path as text; the session's paths all are.
pub(crate) fn path(path: &Path) -> &str {
    path.to_str().expect("the session's paths are text")
}
