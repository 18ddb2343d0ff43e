"""Single streams: full, increments, clones, volumes, heads, long names; healing by them."""

import os, random, re, subprocess

from cases import case
from pools import SIDES, fail, import_pool, make_pool, say
from sources import change, fill


@case
def full(t):
    """full"""
    for name in ("src", "src/small", "src/large", "src/odd"):
        t.arrives(f"%/{name}@1", f"{t.place}/full_{name.replace('/', '_')}", "-o acltype=posix", f"%/{name}", "1", lists=name == "src/small")
    told = [side.zfs(f"userspace -Hpn -o type,name,objused {name}") for side, name in ((t.source, "%/src@1"), (t.other, f"{t.place}/full_src"))]
    if told[0] != told[1]:
        fail("DIFFERENT", f"full from {t.source}: objects of users: {told}")


@case
def increments(t):
    """-i from a snapshot, -i from a bookmark, -I"""
    for name in ("src/small", "src/large", "src/odd"):
        t.arrives(f"-i @1 %/{name}@2", f"{t.place}/full_{name.replace('/', '_')}", "", f"%/{name}", lists=name == "src/small")
    t.arrives("-I %/src@1 %/src@3", f"{t.place}/full_src", "", "%/src", "123")
    t.arrives("%/src/gz@1", f"{t.place}/by_bookmark", "", "%/src/gz", "1")
    t.arrives("-i #1 %/src/gz@2", f"{t.place}/by_bookmark", "", "%/src/gz")
    # What was modified is refused, and rolled back with -F.
    t.arrives("%/src@2", f"{t.place}/modified")
    (t.other.root(f"{t.place}/modified") / "mine").write_bytes(b"mine")
    t.other.zfs(f"snapshot {t.place}/modified@mine")
    stream = t.sent("-i @2 %/src@3")
    t.both_refuse(stream, f"{t.place}/modified")
    t.receive(stream, f"-F {t.place}/modified")
    t.same(f"{t.place}/modified", "%/src", "3")


@case
def clones(t):
    """a clone from its origin, and -o origin= for an increment and for a full stream"""
    t.arrives("%/src/gz@1", f"{t.place}/clone_base", "", "%/src/gz", "1")
    t.arrives("-i %/src/gz@1 %/src/clone@2", f"{t.place}/clone", "", "%/src/clone")
    base = f"-o origin={t.place}/clone_base@1"
    t.arrives("-i @1 %/src/gz@2", f"{t.place}/as_clone", base, "%/src/gz")
    t.arrives("%/src/gz@2", f"{t.place}/full_as_clone", base, "%/src/gz")
    for name, origin in (("clone", "@1"), ("as_clone", "/clone_base@1"), ("full_as_clone", "/clone_base@1")):
        if origin not in t.other.value("origin", f"{t.place}/{name}"):
            fail("DIFFERENT", f"clones from {t.source}: {name} is none")


@case
def flags(t):
    """-L, -e, -c, all of them, -w of what is not encrypted; lz4, gzip, zstd, records of 1 MiB and 4 KiB"""
    tried = {"L": ["large"], "e": ["", "small"], "c": ["gz", "zs", "small"], "Lec": ["", "zs", "large", "odd"], "w": ["gz", "large", "small"]}
    for letters, names in tried.items():
        for name in names:
            source, into = f"%/src/{name}".rstrip("/"), f"{t.place}/{letters}_{name}"
            t.arrives(f"-{letters} {source}@1", into, "-o acltype=posix" if name == "small" else "")
            if (letters, name) == ("L", "large"):
                t.both_refuse(t.sent(f"-i @1 {source}@2"), f"-F {into}")
            t.arrives(f"-{letters} -i @1 {source}@2", into, "", source, lists=name == "small")


@case
def volumes(t):
    """volumes, full and increments, thick and thin, -c, -w, a clone"""
    for name, letters in (("vol", ""), ("vol", "-c"), ("thin", "-Lec"), ("thin", "-w")):
        into = f"{t.place}/{name}{letters}"
        t.arrives(f"{letters} %/src/{name}@1", into)
        t.arrives(f"{letters} -i @1 %/src/{name}@2", into)
        t.same_volume(into, f"%/src/{name}")
    t.arrives("-p %/src/vol@2", f"{t.place}/vol_with_properties")
    t.same_volume(f"{t.place}/vol_with_properties", "%/src/vol")
    t.arrives("-i %/src/vol@1 %/src/volclone@2", f"{t.place}/volclone")


@case
def heads(t):
    """a file system without a snapshot, which nobody has mounted: whole, and since a snapshot"""
    side = t.source
    side.zfs("create %/head")
    fill(side.root("%/head"), "head")
    side.zfs("snapshot %/head@1")
    change(side.root("%/head"), "head again")
    side.zfs("unmount %/head")
    side.zfs("bookmark %/head@1 %/head#1")
    t.receive(t.sent("%/head@1"), f"{t.place}/head_inc")
    lines = {"head": "%/head", "head_inc": "-i @1 %/head"}
    streams = {}
    done = side.run("zfs", "send %/head", stdout=subprocess.DEVNULL)
    if done.returncode == 0:
        streams |= {into: t.sent(words) for into, words in lines.items()}
    else:
        say(f"    {side} sends no file system of a pool that can be written: {done.stderr.decode().strip()}")
    # Of a pool that is imported read-only.
    side.zpool("export %")
    import_pool(side, options="-N -o readonly=on")
    streams |= {into + "_read_only": t.sent(words) for into, words in lines.items()}
    side.zpool("export %")
    import_pool(side)
    t.receive(t.sent("%/head@1"), f"{t.place}/head_inc_read_only")
    for into, stream in streams.items():
        t.receive(stream, f"{t.place}/{into}@2")
        t.agree(f"{t.place}/{into}")
    side.run("zfs", "mount %/head")
    side.zfs("snapshot %/head@2")
    for into in streams:
        t.same(f"{t.place}/{into}", "%/head", "2")


@case
def long_names(t):
    """names of 700 bytes (longname), and directories whose microzap is large"""
    side = t.source
    done = side.run("zfs", "create -o longname=on %/long")
    if done.returncode:
        say(f"    {side} has no longname: {done.stderr.decode().strip()}")
        return
    root = side.root("%/long")
    for number in range(5):
        (root / (f"{number}" + "l" * (200 * number + 20))).write_bytes(b"%d" % number)
    (root / ("d" * 1000)).mkdir()
    (root / ("d" * 1000) / ("f" * 1023)).write_bytes(b"deep")
    side.zfs("snapshot %/long@1")
    os.unlink(root / ("1" + "l" * 220))
    (root / ("n" * 600)).write_bytes(b"new")
    side.zfs("snapshot %/long@2")
    t.arrives("%/long@1", f"{t.place}/long", "", "%/long", "1")
    t.arrives("-i @1 %/long@2", f"{t.place}/long", "", "%/long")
    t.arrives("-w %/long@2", f"{t.place}/long_w", "", "%/long")


@case
def healing(t):
    """receive -c: blocks that are spoilt are healed by the other's stream, on either side"""
    data = random.Random(3).randbytes(600_000)
    for side in SIDES:
        image = side.folder / f"{side.pool}_healed.img"
        image.unlink(missing_ok=True)
        make_pool(side, "_healed", "200M")
    first, second = t.source, t.other
    first.zfs("create -o compression=off %_healed/a")
    (first.root("%_healed/a") / "file").write_bytes(data)
    first.zfs("snapshot %_healed/a@1")
    second.receive("%_healed/a", first.send("%_healed/a@1", t.file()))
    streams = {first: [first.send(f"{words} %_healed/a@1", t.file()) for words in ("", "-c")]}
    for side, other in ((second, first),):
        for number, stream in enumerate(streams[other]):
            side.zpool("export %_healed")
            places = spoil(side.folder / f"{side.pool}_healed.img", data[131072 + 64 : 131072 + 128])
            import_pool(side, "_healed")
            file = side.root("%_healed/a") / "file"
            if not unreadable(file) or not places:
                fail("FAILED", f"healing at {side}: nothing was spoilt ({places} places)")
            told = side.receives("-c -v %_healed/a@1", stream)
            say(f"    {side}, {places} places, stream {number} of {other}: {told.returncode} {told.stdout.decode().strip()} {told.stderr.decode().strip()}")
            if unreadable(file) or file.read_bytes() != data:
                fail("FAILED", f"healing at {side} by stream {number} of {other}: it is still spoilt")
            side.zpool("scrub -w %_healed")
            status = side.zpool("status -v %_healed")
            if "with 0 errors" not in status or "No known data errors" not in status:
                fail("FAILED", f"healing at {side} by stream {number} of {other}: {status}")
    for side in SIDES:
        side.zpool("destroy %_healed")


def spoil(image, bytes_there):
    """Overwrites some bytes after each place where an image has these; how many places there are."""
    count = 0
    with open(image, "r+b") as file:
        at, size = 0, os.fstat(file.fileno()).st_size
        while at < size:
            try:
                at = os.lseek(file.fileno(), at, os.SEEK_DATA)
            except OSError:
                break
            block = os.pread(file.fileno(), 1 << 20, at)
            found = block.find(bytes_there)
            if found >= 0:
                os.pwrite(file.fileno(), bytes(2000), at + found)
                count += 1
                at += found + 4096
            else:
                at += max(len(block) - len(bytes_there), 1)
    return count


def unreadable(path):
    try:
        path.read_bytes()
        return False
    except OSError:
        return True
