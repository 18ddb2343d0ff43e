"""The file systems and volumes that are sent."""

import os, random, socket, stat, struct, subprocess

from pools import SIDES

PASSPHRASE = "correct horse battery\n"


def fill(root, seed):
    """Files of all kinds."""
    draw = random.Random(seed)
    os.makedirs(root / "dir/sub")
    write = lambda name, data: (root / name).write_bytes(data)
    write("embedded", b"a" * 300)
    write("empty", b"")
    write("one", draw.randbytes(5000))
    write("noise", draw.randbytes(400_000))
    write("text", b"".join(b"%d of many lines\n" % number for number in range(12_000)))
    with open(root / "sparse", "wb") as file:
        for offset, count in [(1 << 20, 5000), (3_000_001, 140_000), (1 << 33, 10)]:
            os.pwrite(file.fileno(), draw.randbytes(count), offset)
        file.truncate(1 << 40)
    os.link(root / "text", root / "dir/linked")
    os.link(root / "text", root / "dir/sub/linked")
    os.symlink("text", root / "short link")
    os.symlink("x/" * 600, root / "dir/long link")
    os.mkfifo(root / "fifo")
    os.mknod(root / "null", stat.S_IFCHR | 0o666, os.makedev(1, 3))
    os.mknod(root / "disk", stat.S_IFBLK | 0o640, os.makedev(259, 70_000))
    with socket.socket(socket.AF_UNIX) as made:
        here = os.getcwd()
        os.chdir(root)
        made.bind("socket")
        os.chdir(here)
    write("n" * 255, b"a long name")
    write("näme \u20ac \U0001f41f", b"a name")
    for number in range(40):
        write(f"dir/sub/{number} {'y' * 80}", b"%d" % number)
    for name, attribute, count in [("one", "user.small", 12), ("one", "user.large", 3000), ("dir", "user.own", 60), ("text", "trusted.own", 500)]:
        os.setxattr(root / name, attribute, draw.randbytes(count))
    os.chmod(root / "one", 0o6751)
    os.chmod(root / "dir", 0o1777)
    os.chown(root / "one", 77, 88)
    os.chown(root / "dir/sub", 1 << 20, 3)
    os.chown(root / "short link", 5, 6, follow_symlinks=False)
    os.utime(root / "text", ns=(10**18 + 1, 123_456_789_987_654_321))
    os.utime(root / "dir/sub", ns=(-(10**9) + 5, -(10**15) + 7))


def change(root, seed):
    """Something of everything that can become of them."""
    draw = random.Random(seed)
    for name in ["empty", "fifo", "dir/long link", "n" * 255]:
        os.unlink(root / name)
    (root / "empty").mkdir()
    (root / "empty/in it").write_bytes(b"now a directory was a file")
    for number in range(0, 40, 3):
        os.unlink(root / f"dir/sub/{number} {'y' * 80}")
    for number in range(30):
        (root / f"dir/new {number}").write_bytes(draw.randbytes(number * 40))
    with open(root / "noise", "r+b") as file:
        os.pwrite(file.fileno(), draw.randbytes(3000), 50_000)
        os.pwrite(file.fileno(), draw.randbytes(200_000), 390_000)
        os.fsync(file.fileno())
    subprocess.run(["fallocate", "--punch-hole", "-o", "131072", "-l", "131072", root / "noise"], check=True)
    with open(root / "one", "ab") as file:
        file.write(draw.randbytes(150_000))
    os.truncate(root / "text", 100_001)
    os.truncate(root / "sparse", 3_050_000)
    with open(root / "embedded", "ab") as file:
        file.write(b"b" * 20)
    os.rename(root / "dir/sub", root / "moved")
    os.unlink(root / "moved/linked")
    os.link(root / "noise", root / "another name")
    os.removexattr(root / "one", "user.large")
    os.setxattr(root / "noise", "user.late", draw.randbytes(700))
    os.setxattr(root / "dir", "user.own", draw.randbytes(2000))
    os.chmod(root / "null", 0o600)


def fill_more(root, turn):
    draw = random.Random(turn)
    (root / f"turn {turn}").write_bytes(draw.randbytes(200_000))
    os.setxattr(root / "one", "user.turn", draw.randbytes(400 * turn))
    with open(root / "noise", "r+b") as file:
        os.pwrite(file.fileno(), draw.randbytes(5000), turn * 60_000)


def grant(path):
    """An access list of a file: user 77 may read and write."""
    entries = [(1, 6, -1), (2, 6, 77), (4, 4, -1), (16, 6, -1), (32, 0, -1)]
    packed = b"".join(struct.pack("<HHi", *one) for one in entries)
    os.setxattr(path, "system.posix_acl_access", struct.pack("<I", 2) + packed)


FILE_SYSTEMS = {
    "src": "-o compression=lz4 -o my:text='some words'",
    "src/gz": "-o compression=gzip-7 -o atime=off -o copies=2",
    "src/zs": "-o compression=zstd-6 -o checksum=sha512 -o my:text=other",
    "src/large": "-o recordsize=1M -o compression=off -o quota=300M",
    "src/small": "-o recordsize=4K -o dnodesize=auto -o xattr=sa -o acltype=posix -o reservation=1M",
    "src/odd": "-o casesensitivity=insensitive -o normalization=formD -o utf8only=on -o xattr=dir -o snapdir=visible -o refquota=200M",
}
VOLUMES = {"src/vol": "-V 2M -o volblocksize=16K", "src/thin": "-s -V 4M -o volblocksize=8K -o compression=zstd"}
WITH_FILES = list(FILE_SYSTEMS)


def make_sources():
    """The tree `src` in both pools: two snapshots of all, bookmarks of the first, a clone, holds."""
    for side in SIDES:
        for name, options in FILE_SYSTEMS.items():
            side.zfs(f"create {options} %/{name}")
            fill(side.root(f"%/{name}"), name)
        for name, options in VOLUMES.items():
            side.zfs(f"create {options} %/{name}")
            with side.volume(f"%/{name}") as volume:
                volume.write(8192, random.Random(name).randbytes(100_000))
                volume.write(1 << 20, b"text " * 20_000)
        grant(side.root("%/src/small") / "one")
        side.zfs("set userquota@77=20M %/src/odd")
        side.zfs("set groupquota@88=30M %/src/odd")
        side.zfs("snapshot -r %/src@1")
        for name in ["src", "src/gz", "src/vol", "src/large"]:
            side.zfs(f"bookmark %/{name}@1 %/{name}#1")
        for name in WITH_FILES:
            change(side.root(f"%/{name}"), name + " again")
        for name in VOLUMES:
            with side.volume(f"%/{name}") as volume:
                volume.write(50_000, random.Random(name).randbytes(20_000))
                volume.write(1 << 20, bytes(32_768))
        side.zfs("clone %/src/gz@1 %/src/clone")
        (side.root("%/src/clone") / "own").write_bytes(b"of the clone")
        side.zfs("clone %/src/vol@1 %/src/volclone")
        side.zfs("snapshot -r -o my:note=snapshot %/src@2")
        side.zfs("hold -r keep %/src@2")
        side.zfs("hold other %/src/gz@1")
        for seed, name in enumerate(["src", "src/small"]):
            (side.root(f"%/{name}") / "third").write_bytes(random.Random(seed).randbytes(3000))
        side.zfs("snapshot %/src@3")
        for other in SIDES:
            side.zfs(f"create %/from_{other}")
