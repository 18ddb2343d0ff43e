"""Packages, and properties."""

import re, subprocess

from cases import case
from pools import SIDES, fail, say
from sources import VOLUMES, WITH_FILES, fill, fill_more


@case
def properties(t):
    """-p, -h, receive -h, -o, -x, -u; then what was set here against what was received"""
    t.arrives("-p %/src/odd@2", f"{t.place}/p", "", "%/src/odd")
    t.arrives("-p -h %/src/gz@2", f"{t.place}/held")
    t.arrives("-h %/src/gz@2", f"{t.place}/only_held")
    t.arrives("-p -h %/src/gz@2", f"{t.place}/not_held", "-h")
    t.arrives("-p %/src/zs@2", f"{t.place}/set", "-u -o compression=gzip-9 -o my:own=here -x my:text -x checksum")
    for side in SIDES:
        if side.value("mounted", f"{t.place}/set") != "no":
            fail("FAILED", f"properties from {t.source}: {side} mounted what was received with -u")
        side.zfs(f"mount {t.place}/set")
        for words in ("inherit -S compression", "set checksum=skein", "inherit my:text", "set my:note=mine", "inherit -S checksum"):
            side.zfs(f"{words} {t.place}/set")
    t.same(f"{t.place}/set", "%/src/zs", "2")
    t.agree(f"{t.place}/set")
    # An existing file system that never received properties.
    t.arrives("%/src/odd@1", f"{t.place}/plain")
    for side in SIDES:
        side.zfs(f"set my:own=mine {t.place}/plain")
        side.zfs(f"set compression=zstd {t.place}/plain")
    t.arrives("-p -i @1 %/src/odd@2", f"{t.place}/plain", "", "%/src/odd")
    for name in ("p", "plain"):
        told = [side.zfs(f"get -Hp -o property,value,source userquota@77,groupquota@88 {t.place}/{name}") for side in SIDES]
        if told[0] != told[1]:
            fail("DIFFERENT", f"properties from {t.source}: quotas of {name}: {told}")


@case
def packages(t):
    """-R, received into a new name, -d, -e, -F, -u, -o, -x, -n -v; -b of what was received; -X, -s, -D"""
    stream = t.sent("-R %/src@2")
    for side in SIDES:
        done = side.receives(f"-n -v {t.place}/rep", stream)
        say(f"    {side}, -n: {done.returncode}, {len(done.stdout.splitlines())} lines, {done.stderr.decode().strip()}")
    for side in SIDES:
        for name in ("d", "e", "over"):
            side.zfs(f"create {t.place}/{name}")
        (side.root(f"{t.place}/over") / "old").write_bytes(b"is replaced")
    for into, words in (("rep", "rep"), ("d", "-d -u -o compression=gzip-9 -o my:own=there -x my:text -x quota {}d"), ("e", "-e {}e"), ("over", "-F {}over")):
        t.receive(stream, words.replace("{}", t.place + "/") if "{}" in words else f"{t.place}/{words}")
        t.agree(f"{t.place}/{into}")
    for name in WITH_FILES + ["src/clone"]:
        t.same(f"{t.place}/rep{name[3:]}", f"%/{name}", "12" if name != "src/clone" else "2", lists=True)
        if name in ("src", "src/odd", "src/clone"):
            t.same(f"{t.place}/e/{name}", f"%/{name}", lists=True)
            t.same(f"{t.place}/over{name[3:]}", f"%/{name}", lists=True)
    for side in SIDES:
        side.run("zfs", "mount -a")
    t.same(f"{t.place}/d/src/zs", "%/src/zs", "2")
    for name in VOLUMES:
        t.same_volume(f"{t.place}/rep{name[3:]}", f"%/{name}")
    t.arrives("-R -h %/src/gz@2", f"{t.place}/rep_held")
    t.arrives("-R -D %/src/zs@2", f"{t.place}/rep_d", "", "%/src/zs")
    t.arrives("-R -X %/src/gz,%/src/clone -X %/src/vol,%/src/volclone %/src@2", f"{t.place}/without", "-u")
    t.arrives("-R -L -e -c %/src@2", f"{t.place}/rep_flags", "", "%/src")
    t.source.zfs("create %/late")
    t.source.zfs("create %/late/a")
    t.source.zfs("snapshot -r %/late@1")
    t.source.zfs("create %/late/b")
    t.source.zfs("snapshot -r %/late@2")
    # What was made after the snapshot is left out; one whose snapshot was destroyed is missing.
    t.arrives("-R %/late@1", f"{t.place}/late", "-u")
    t.source.zfs("destroy %/late/a@2")
    if t.source.run("zfs", "send -R %/late@2", stdout=subprocess.DEVNULL).returncode == 0:
        fail("FAILED", f"packages from {t.source}: sends what has not that snapshot")
    t.arrives("-R -s %/late@2", f"{t.place}/late2", "-u")
    t.source.zfs("destroy -r %/late")


@case
def backups(t):
    """-b: what was received is sent on, what was set here is not"""
    other = t.other
    received = f"%/from_{other}/d/src"
    t.arrives(f"-b {received}/zs@2", f"{t.place}/b", "-u")
    t.arrives(f"-R -b {received}@2", f"{t.place}/rep_b", "-u")
    t.arrives(f"-R -p {received}@2", f"{t.place}/rep_p", "-u")


@case
def changed_trees(t):
    """-R -I and -R -i after renames, promotions, destroyed snapshots and file systems; received with -F, -F -d, -F -e"""
    side = t.source
    for words in (
        "release -r keep %/src@2", "release other %/src/gz@1", "rename %/src/zs %/src/zs2", "rename %/src/large %/src/zs", "rename %/src/zs2 %/src/odd/zs",
        "destroy -r %/src/thin", "rename %/src/small@1 %/src/small@first", "destroy %/src/odd@1", "promote %/src/clone",
        "create -o my:text=new %/src/large", "inherit my:text %/src", "set compression=gzip %/src", "set my:late=late %/src/gz",
        "set quota=250M %/src/zs", "destroy %/src@3",
    ):
        side.zfs(words)
    fill(side.root("%/src/large"), "new large")
    fill_more(side.root("%/src"), 7)
    fill_more(side.root("%/src/odd"), 8)
    fill_more(side.root("%/src/odd/zs"), 9)
    with side.volume("%/src/vol") as volume:
        volume.write(0, b"third" * 3000)
    side.zfs("snapshot -r %/src@4")
    side.zfs("hold last %/src@4")
    for into, words, flags in (("rep", "-R -I @2 %/src@4", f"-F -v {t.place}/rep"), ("e/src", "-R -i @2 %/src@4", f"-F -e {t.place}/e"), ("d/src", "-h -R -I @2 %/src@4", f"-F -d {t.place}/d")):
        done = t.receive(t.sent(words), flags)
        told = []
        for one, answer in zip(SIDES, done):
            lines = [line for line in answer.stdout.decode().splitlines() if not line.startswith("received ")]
            told.append(sorted(re.sub(r"recv-\d+-\d+", "recv", line.replace(one.pool + "/from", "%/from")) for line in lines))
        if told[0] != told[1]:
            say(f"    told differently of {words}: {[line for line in told[0] if line not in told[1]]} / {[line for line in told[1] if line not in told[0]]}")
        t.agree(f"{t.place}/{into}")
    for one in SIDES:
        done = one.run("zfs", "mount -a")
        if done.returncode:
            say(f"    {one} mount -a: {done.stderr.decode().strip()}")
    for into in ("rep", "e/src", "d/src"):
        for name in ("", "/gz", "/odd", "/odd/zs", "/zs", "/large", "/small", "/clone") if into == "rep" else ("", "/odd/zs", "/large"):
            t.same(f"{t.place}/{into}{name}", f"%/src{name}", "24" if into == "rep" and name == "/odd/zs" else "4", lists=into == "rep")
        t.same_volume(f"{t.place}/{into}/vol", "%/src/vol")
