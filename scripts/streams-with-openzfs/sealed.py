"""Raw streams of encrypted file systems and volumes; redacted streams."""

import errno, os, pathlib, random, subprocess

from cases import case
from pools import SIDES, compare, fail, facts, say, tree
from sources import PASSPHRASE, change, fill, fill_more


@case
def encrypted(t):
    """raw packages of encrypted file systems and volumes, full and increments; sent plain; received below an encrypted one"""
    key = t.source.folder / "key"
    key.write_text("7f" * 32)
    side = t.source
    side.zfs("create -o encryption=aes-256-gcm -o keyformat=passphrase -o pbkdf2iters=100000 -o compression=lz4 %/enc", given=PASSPHRASE)
    side.zfs("create -o recordsize=1M %/enc/large")
    side.zfs(f"create -o encryption=aes-128-ccm -o keyformat=hex -o keylocation=file://{key} -o dnodesize=auto -o xattr=sa %/enc/hex")
    side.zfs("create -V 1M %/enc/vol")
    names = ["enc", "enc/large", "enc/hex"]
    for name in names:
        fill(side.root(f"%/{name}"), name)
    with side.volume("%/enc/vol") as volume:
        volume.write(10_000, random.Random(5).randbytes(300_000))
    side.zfs("snapshot -r %/enc@1")
    for name in names:
        change(side.root(f"%/{name}"), name + " again")
    with side.volume("%/enc/vol") as volume:
        volume.write(90_000, b"again " * 5000)
    side.zfs("snapshot -r %/enc@2")
    t.receive(t.sent("-w -R %/enc@1"), f"{t.place}/enc")
    t.receive(t.sent("-w -R -i @1 %/enc@2"), f"{t.place}/enc")
    t.receive(t.sent("-w %/enc/large@2"), f"{t.place}/enc_large")
    t.receive(t.sent("-w %/enc/vol@1"), f"{t.place}/enc_vol")
    t.receive(t.sent("-w -i @1 %/enc/vol@2"), f"{t.place}/enc_vol")
    one = t.other
    for name in ("enc", "enc_large", "enc_vol"):
        one.zfs(f"load-key {t.place}/{name}", given=PASSPHRASE)
    one.zfs(f"load-key -L file://{key} {t.place}/enc/hex")
    for name in ("enc", "enc/large", "enc/hex", "enc_large"):
        one.zfs(f"mount {t.place}/{name}")
    for name in names:
        t.same(f"{t.place}/{name}", f"%/{name}", "12")
    t.same(f"{t.place}/enc_large", "%/enc/large")
    for name in ("enc/vol", "enc_vol"):
        t.same_volume(f"{t.place}/{name}", "%/enc/vol", 1 << 20)
    wanted, found = (facts(one, name) for one, name in ((side, "%/enc"), (one, f"{t.place}/enc")))
    plain = lambda told: {(key[0].replace(t.place, "%"), key[1]): tuple(text.replace(t.place, "%") for text in value) for key, value in told.items() if value is not True and value[2] in ("-", "received")}
    compare(f"encrypted from {t.source}: facts", {key: value for key, value in plain(wanted).items() if "keylocation" not in key}, {key: value for key, value in plain(found).items() if value[2] == "-"})
    # Plain.
    t.arrives("%/enc/large@1", f"{t.place}/plain_large", "", "%/enc/large", "1")
    t.arrives("-i @1 %/enc/large@2", f"{t.place}/plain_large", "", "%/enc/large")
    # Below an encrypted file system.
    t.arrives("%/src/gz@1", f"{t.place}/enc/below", "", "%/src/gz", "1")
    # The module writes when it mounts what it received there (its own streams, too), so the increment goes back to @1.
    t.arrives("-i @1 %/src/gz@2", f"{t.place}/enc/below", "-F", "%/src/gz")
    t.arrives("-p -c %/src/zs@2", f"{t.place}/enc/with_properties", "-x encryption", "%/src/zs")
    # The module receives no embedded blocks there.
    done = t.other.receives(f"{t.place}/enc/with_embedded", t.sent("-e %/src@2"))
    say(f"    {t.other}, embedded blocks: {done.stderr.decode().strip() or 'received'}")
    if done.returncode == 0:
        t.same(f"{t.place}/enc/with_embedded", "%/src")


@case
def to_and_fro(t):
    """raw: there, back, there and back again, with changes at each stop, a new passphrase among them"""
    other = t.other
    here = f"%/fro_{t.source}"
    side, passphrase = t.source, PASSPHRASE
    side.zfs(f"create -o encryption=on -o keyformat=passphrase -o pbkdf2iters=100000 -o xattr=sa -o dnodesize=auto {here}", given=passphrase)
    fill(side.root(here), "to and fro")
    side.zfs(f"snapshot {here}@0")
    other.receive(here, side.send(f"-w {here}@0", t.file()))
    other.zfs(f"load-key {here}", given=passphrase)
    other.zfs(f"mount {here}")
    for turn in range(1, 5):
        side, other = other, side
        with other.snapshot(f"{here}@{turn - 1}") as root:
            wanted = tree(root)
        compare(f"to_and_fro from {t.source}: turn {turn}, at {side}", wanted, tree(side.root(here)))
        if turn == 1:
            change(side.root(here), "changed")
        fill_more(side.root(here), turn)
        if turn == 2:
            passphrase = "another one by far\n"
            side.zfs(f"change-key {here}", given=passphrase)
        side.zfs(f"snapshot {here}@{turn}")
        stream = side.send(f"-w -i @{turn - 1} {here}@{turn}", t.file())
        done = other.receives(here, stream)
        if done.returncode:
            say(f"    turn {turn}, {other} wants -F: {done.stderr.decode().strip()}")
            other.receive(f"-F {here}", stream)
        if turn == 2:
            other.run("zfs", f"unmount {here}")
            done = other.run("zfs", f"unload-key {here}")
            say(f"    {other} after a new passphrase: {done.stderr.decode().strip() or 'the key was loaded'}")
            other.zfs(f"load-key {here}", given=passphrase)
            other.zfs(f"mount {here}")
    with side.snapshot(f"{here}@4") as root:
        compare(f"to_and_fro from {t.source}: at the end", tree(root), tree(other.root(here)))
    compare(f"to_and_fro from {t.source}: facts", *({key: value for key, value in facts(one, here).items() if value[2] == "-"} for one in SIDES))
    for one in SIDES:
        one.zfs(f"unmount {here}")
        one.zfs(f"unload-key {here}")
        one.zfs(f"load-key {here}", given=passphrase)
        one.zfs(f"mount {here}")
    compare(f"to_and_fro from {t.source}: with the key anew", *(tree(one.root(here)) for one in SIDES))


def mount_redacted(side, name):
    """Mounts what is mounted only when that is asked for; the module wants to be told by a parameter, too."""
    if side.is_module:
        pathlib.Path("/sys/module/zfs/parameters/zfs_allow_redacted_dataset_mount").write_text("1")
    if side.value("mounted", name) != "yes":
        side.zfs(f"mount -f {name}")


@case
def redaction(t):
    """zfs redact, a redacted stream, increments from the bookmark, the clone of a redaction snapshot"""
    side = t.source
    side.zfs("create -o recordsize=4K -o compression=off %/red")
    draw = random.Random(9)
    for name in ("one", "two", "gone"):
        (side.root("%/red") / name).write_bytes(draw.randbytes(100_000))
    side.zfs("snapshot %/red@1")
    side.zfs("clone %/red@1 %/redclone")
    side.zfs("clone %/red@1 %/redclone2")
    for clone in ("%/redclone", "%/redclone2"):
        root = side.root(clone)
        with open(root / "one", "r+b") as file:
            os.pwrite(file.fileno(), b"redacted" * 1000, 16_384)
            os.pwrite(file.fileno(), b"x", 90_000)
        os.unlink(root / "gone")
    with open(side.root("%/redclone") / "two", "r+b") as file:
        os.pwrite(file.fileno(), b"of one clone alone", 8192)
    side.zfs("snapshot %/redclone@r")
    side.zfs("snapshot %/redclone2@r")
    side.zfs("redact %/red@1 book %/redclone@r %/redclone2@r")
    with open(side.root("%/red") / "two", "r+b") as file:
        os.pwrite(file.fileno(), b"second" * 3000, 40_000)
    side.zfs("snapshot %/red@2")
    t.receive(t.sent("--redact book %/red@1"), f"{t.place}/red")
    t.agree(f"{t.place}/red")
    clone_stream = t.sent("-i %/red@1 %/redclone@r")
    for one in SIDES:
        mount_redacted(one, f"{t.place}/red")
    with side.snapshot("%/red@1") as root:
        wanted = {name: (root / name).read_bytes() for name in ("one", "two", "gone")}
    found = []
    for one in SIDES:
        blocks = {}
        for name, data in wanted.items():
            with open(one.root(f"{t.place}/red") / name, "rb", buffering=0) as file:
                for offset in range(0, len(data), 4096):
                    blocks[name, offset] = "left out"
                    try:
                        block = os.pread(file.fileno(), 4096, offset)
                        if block == data[offset : offset + 4096]:
                            blocks[name, offset] = "right"
                        # The module has zeros there, Millpond says that they cannot be read.
                        elif block != bytes(len(block)) or not one.is_module:
                            fail("DIFFERENT", f"redaction from {t.source}: {name} of {one} at {offset}")
                    except OSError as error:
                        if error.errno != errno.EIO:
                            raise
        found.append(blocks)
    compare(f"redaction from {t.source}: what can be read", *found)
    say(f"    {sum(value != 'right' for value in found[0].values())} of {len(found[0])} blocks were left out")
    # The clone completes what was left out, for itself.
    t.receive(clone_stream, f"{t.place}/redclone")
    t.same(f"{t.place}/redclone", "%/redclone", "r")
    # What follows the bookmark brings what was left out.
    for name, words in (("increment", "-i #book %/red@2"), ("completed", "-i #book %/red@1")):
        stream = t.sent("--redact book %/red@1")
        t.receive(stream, f"{t.place}/{name}")
        done = side.run("zfs", f"send {words}", stdout=subprocess.DEVNULL)
        if done.returncode:
            say(f"    {side} does not send {words}: {done.stderr.decode().strip()}")
            continue
        answers = [one.receives(f"{t.place}/{name}", t.sent(words)) for one in SIDES]
        if answers[0].returncode != answers[1].returncode:
            fail("DIFFERENT", f"redaction from {t.source}: {words}: {[a.stderr.decode().strip() for a in answers]}")
        elif answers[0].returncode:
            say(f"    both refuse {words}: {answers[0].stderr.decode().strip()}")
        else:
            for one in SIDES:
                mount_redacted(one, f"{t.place}/{name}")
            t.same(f"{t.place}/{name}", "%/red", words[-1])
        t.agree(f"{t.place}/{name}")
