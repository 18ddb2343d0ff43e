"""The two pools and their commands; what can be said of their contents."""

import contextlib, hashlib, os, pathlib, re, shlex, socket, stat, struct, subprocess, sys, time

KINDS = {
    stat.S_IFREG: "file", stat.S_IFDIR: "directory", stat.S_IFLNK: "link", stat.S_IFIFO: "fifo",
    stat.S_IFSOCK: "socket", stat.S_IFBLK: "block device", stat.S_IFCHR: "character device",
}
# What is measured, and need not be the same in another pool.
MEASURED = set(
    "used available referenced compressratio createtxg objsetid usedbysnapshots usedbydataset usedbychildren usedbyrefreservation "
    "refcompressratio written logicalused logicalreferenced mounted snapshots_changed filesystem_count snapshot_count "
    "receive_resume_token defer_destroy".split()
)
# What is below cannot be seen.
MOUNTED = {"type": "mounted"}
SIDES = []
SIZE = "1200M"
failed = 0


def say(*words):
    print(f"{time.monotonic():7.0f}", *words, flush=True)


def fail(kind, *words):
    """Notes a difference (`kind` is DIFFERENT) or something that did not work (FAILED)."""
    global failed
    failed += 1
    print(kind + ":", *words, flush=True)


class Refused(Exception):
    """A command that was to succeed did not."""


class Side:
    """A pool, and the commands that it is used with. In their words `%` stands for the pool."""

    def __init__(self, pool, folder, zfs, zpool, is_module):
        self.pool, self.folder, self.is_module = pool, folder, is_module
        self.commands = {"zfs": zfs, "zpool": zpool}

    def __str__(self):
        return self.pool

    def named(self, text):
        return text.replace("%", self.pool)

    def run(self, command, words, stdin=None, stdout=subprocess.PIPE, given=None, within=600):
        """What became of a command. `given` is written to its standard input."""
        line = self.commands[command] + shlex.split(self.named(words))
        given = given.encode() if given is not None else None
        options = {"input": given} if given is not None else {"stdin": stdin or subprocess.DEVNULL}
        return subprocess.run(line, stdout=stdout, stderr=subprocess.PIPE, timeout=within, check=False, **options)

    def did(self, command, words, **options):
        """What a command says that is to succeed."""
        done = self.run(command, words, **options)
        if done.returncode != 0:
            raise Refused(f"{self}: {command} {self.named(words)}: {done.stderr.decode().strip()}")
        return (done.stdout or b"").decode()

    def zfs(self, words, **options):
        return self.did("zfs", words, **options)

    def zpool(self, words, **options):
        return self.did("zpool", words, **options)

    def value(self, property_name, name):
        return self.zfs(f"get -Hp -o value {property_name} {name}").strip()

    def root(self, name):
        """Where a file system is mounted."""
        return self.folder / "mnt" / self.named(name)

    def send(self, words, into, **options):
        with open(into, "wb") as file:
            self.zfs(f"send {words}", stdout=file, **options)
        return into

    def receive(self, words, stream, **options):
        with open(stream, "rb") as file:
            return self.zfs(f"receive {words}", stdin=file, **options)

    def receives(self, words, stream):
        """What becomes of a receive that may fail."""
        with open(stream, "rb") as file:
            return self.run("zfs", f"receive {words}", stdin=file)

    @contextlib.contextmanager
    def snapshot(self, name):
        """Where the contents of a snapshot are to be seen; of a mounted file system."""
        head, short = self.named(name).split("@")
        if not self.is_module:
            yield self.root(head) / ".zfs/snapshot" / short
            return
        place = self.folder / "snapshot"
        place.mkdir(exist_ok=True)
        subprocess.run(["mount", "-t", "zfs", "-o", "ro", f"{head}@{short}", place], check=True)
        try:
            yield place
        finally:
            subprocess.run(["umount", place], check=True)

    @contextlib.contextmanager
    def volume(self, name):
        """A volume, with `read(offset, count)` and `write(offset, data)`."""
        name = self.named(name)
        if self.is_module:
            device = pathlib.Path("/dev/zvol") / name
            awaited(device.exists, f"{device} to appear")
            with open(device, "r+b", buffering=0) as file:
                yield Device(file.fileno())
                os.fsync(file.fileno())
            return
        place = self.folder / "nbd"
        place.unlink(missing_ok=True)
        with subprocess.Popen(self.commands["zfs"][:-1] + ["nbd", "--socket", place, name], stdout=subprocess.PIPE) as server:
            server.stdout.readline()
            client = Client(place, name)
            try:
                yield client
                client.flush()
            finally:
                client.socket.close()
                server.terminate()


def awaited(holds, what):
    for _ in range(600):
        if holds():
            return
        time.sleep(0.05)
    raise Refused(f"waited in vain for {what}")


class Device:
    def __init__(self, descriptor):
        self.descriptor = descriptor

    def read(self, offset, count):
        return os.pread(self.descriptor, count, offset)

    def write(self, offset, data):
        os.pwrite(self.descriptor, data, offset)


class Client:
    """As much of an NBD client as is needed to read and write."""

    def __init__(self, place, name):
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.connect(str(place))
        self.take(18)
        self.socket.sendall(struct.pack(">I", 1) + struct.pack(">QII", 0x49484156454F5054, 1, len(name)) + name.encode())
        self.take(10 + 124)

    def take(self, count):
        found = b""
        while len(found) < count:
            more = self.socket.recv(count - len(found))
            if not more:
                raise Refused("the NBD server went away")
            found += more
        return found

    def ask(self, kind, offset, count, data=b""):
        self.socket.sendall(struct.pack(">IHHQQI", 0x25609513, 0, kind, 1, offset, count) + data)
        _, error, _ = struct.unpack(">IIQ", self.take(16))
        if error:
            raise Refused(f"NBD request {kind} at {offset}: error {error}")

    def read(self, offset, count):
        self.ask(0, offset, count)
        return self.take(count)

    def write(self, offset, data):
        self.ask(1, offset, len(data), data)

    def flush(self):
        self.ask(3, 0, 0)


def contents(path, size):
    """A sum of all bytes of a file that are not in blocks of zeroes, and where there is data; `error` where it cannot be read."""
    digest, ranges, errors, total = hashlib.sha256(), [], [], 0
    with open(path, "rb", buffering=0) as file:
        at = 0
        while at < size:
            try:
                begin = os.lseek(file.fileno(), at, os.SEEK_DATA)
            except OSError:
                break
            at = os.lseek(file.fileno(), begin, os.SEEK_HOLE)
            total += at - begin
            if total > 64 << 20:
                return {"sha256": f"more than 64 MiB of data of {size} bytes"}
            ranges.append((begin, at))
            for offset in range(begin, at, 4096):
                try:
                    block = os.pread(file.fileno(), 4096, offset)
                except OSError as error:
                    errors.append((offset, error.errno))
                    continue
                if block.strip(b"\0"):
                    digest.update(b"%d" % offset + block)
    found = {"sha256": digest.hexdigest()[:24], "data": ranges}
    if errors:
        found["error"] = (errors[0], errors[-1], len(errors))
    return found


def entry(path):
    status = os.lstat(path)
    kind = KINDS[stat.S_IFMT(status.st_mode)]
    found = {
        "type": kind, "mode": oct(stat.S_IMODE(status.st_mode)), "uid": status.st_uid, "gid": status.st_gid,
        "links": status.st_nlink, "atime": status.st_atime_ns, "mtime": status.st_mtime_ns, "ctime": status.st_ctime_ns,
    }
    if kind in ("file", "link"):
        found["size"] = status.st_size
    if kind.endswith("device"):
        found["device"] = (os.major(status.st_rdev), os.minor(status.st_rdev))
    if kind == "link":
        found["target"] = os.readlink(path)
    if kind == "file":
        found |= contents(path, status.st_size)
    with contextlib.suppress(OSError):
        for name in sorted(os.listxattr(path, follow_symlinks=False)):
            value = os.getxattr(path, name, follow_symlinks=False)
            found["attribute " + name] = hashlib.sha256(value).hexdigest()[:16]
    return found, (status.st_ino if status.st_nlink > 1 and kind != "directory" else None)


def tree(root):
    """All below a directory, by path. Names of the same file name the first of them."""
    root = os.fsencode(root)
    found, linked, todo = {}, {}, [b"."]
    while todo:
        path = todo.pop()
        place = os.path.join(root, path)
        told, inode = entry(place)
        if path == b".":
            told.pop("links")  # `.zfs` counts where it is visible
        elif os.path.ismount(place):
            found[path] = MOUNTED
            continue
        found[path] = told
        if inode is not None:
            linked.setdefault(inode, []).append(path)
        if told["type"] == "directory":
            todo += [path + b"/" + name for name in os.listdir(place) if (path, name) != (b".", b".zfs")]
    for paths in linked.values():
        for path in paths:
            found[path]["the same as"] = min(paths)
    return found


def compare(what, one, other):
    """Tells how two descriptions differ."""
    lines = []
    for key in sorted(one.keys() | other.keys()):
        first, second = one.get(key), other.get(key)
        if first == second or MOUNTED in (first, second):
            continue
        if isinstance(first, dict) and isinstance(second, dict):
            parts = [part for part in first.keys() | second.keys() if first.get(part) != second.get(part)]
            lines += [f"{key}: {part}: {first.get(part)} / {second.get(part)}" for part in sorted(parts)]
        else:
            lines.append(f"{key}: {first} / {second}")
    if lines:
        fail("DIFFERENT", what, f"({len(lines)})")
        for line in lines[:12]:
            print("    " + line[:400], flush=True)
    return not lines


def facts(side, name):
    """What `get`, `list` and `holds` say of a dataset and all below it, without what is measured; without the pool's name."""
    plain = lambda text: re.sub(rf"\b{side.pool}(?=[/@#]|$)", "%", text)
    found = {}
    words = "get -Hpr -t filesystem,volume,snapshot,bookmark -o name,property,value,received,source all"
    for line in side.zfs(f"{words} {name}").splitlines():
        dataset, key, value, received, source = line.split("\t")
        is_own = key in ("guid", "creation") and "@" not in dataset and "#" not in dataset
        if key in MEASURED or is_own or (key == "referenced" and "#" in dataset):
            continue
        if key == "mountpoint":
            value = value.replace(str(side.folder), "")
        # A clone is of that snapshot with its origin's guid which is found first, of several here: those elsewhere do not count.
        if key == "clones":
            value = ",".join(sorted(clone for clone in value.split(",") if clone.startswith(side.named(name) + "/")))
        # Known: at clones of a package the module sets `encryption=off`.
        if (key, value) == ("encryption", "off"):
            source = "-"
        found[plain(dataset), key] = tuple(plain(text) for text in (value, received, source))
    snapshots = sorted({f"{side.pool}{dataset[1:]}" for dataset, _ in found if "@" in dataset})
    if snapshots:
        for line in side.zfs(f"holds -H {' '.join(snapshots)}").splitlines():
            dataset, tag = line.split("\t")[:2]
            found[plain(dataset), "held by " + tag] = True
    return found


def make_pool(side, suffix="", size=SIZE):
    image = side.folder / f"{side.pool}{suffix}.img"
    with open(image, "wb") as file:
        file.truncate(int(size[:-1]) << 20)
    side.zpool(f"create -f -O atime=off -R {side.folder}/mnt %{suffix} {image}")


def import_pool(side, suffix="", options=""):
    side.zpool(f"import {options} -d {side.folder}/{side.pool}{suffix}.img -R {side.folder}/mnt %{suffix}")
