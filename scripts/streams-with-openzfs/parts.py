"""Streams that break off and are gone on with; what is said of their sizes."""

import re

from cases import case
from pools import SIDES, Refused, compare, fail, say, tree
from sources import PASSPHRASE


@case
def resumed(t):
    """-s, cut twice, and gone on with by -t; what a saved state sends (-S); -A"""
    kinds = [
        ("full", "%/src@2", None), ("inc", "-i @1 %/src/gz@2", "%/src/gz@1"), ("flags", "-L -e -c %/src/large@2", None),
        ("small", "-c -i @1 %/src/small@2", "-c %/src/small@1"), ("raw", "-w %/enc/large@2", None),
        ("rawinc", "-w -i @1 %/enc@2", "-w %/enc@1"), ("vol", "-c %/src/vol@2", None), ("red", "--redact book %/red@1", None),
    ]
    for kind, words, base in kinds:
        into = f"{t.place}/cut_{kind}"
        whole, side = t.sent(words).read_bytes(), t.other
        try:
            if base:
                side.receive(into, t.sent(base))
            in_pieces(t, kind, side, into, whole)
        except Refused as refused:
            fail("FAILED", f"resumed from {t.source}, {kind} at {side}: {refused}")
    for kind, source, snapshot in [("full", "src", "2"), ("inc", "src/gz", "2"), ("flags", "src/large", "2"), ("small", "src/small", "2")]:
        t.same(f"{t.place}/cut_{kind}", f"%/{source}", snapshot)
    t.same_volume(f"{t.place}/cut_vol", "%/src/vol")
    for name in ("raw", "rawinc"):
        t.other.zfs(f"load-key {t.place}/cut_{name}", given=PASSPHRASE)
        t.other.zfs(f"mount {t.place}/cut_{name}")
    t.same(f"{t.place}/cut_raw", "%/enc/large")
    t.same(f"{t.place}/cut_rawinc", "%/enc")


def cut(t, stream, part):
    place = t.file()
    place.write_bytes(stream[: int(len(stream) * part)])
    return place


def token_of(side, into):
    token = side.value("receive_resume_token", into)
    if token == "-":
        raise Refused("there is no token")
    return token


def in_pieces(t, kind, side, into, whole):
    """A stream that breaks off twice, then ends."""
    for turn, part in enumerate((0.55, 0.4)):
        done = side.receives(f"-s {into}", cut(t, whole, part))
        if done.returncode == 0:
            raise Refused("a stream that was cut was received")
        token = token_of(side, into)
        if turn == 0:
            # Both read it the same.
            told = [re.sub(r"\d+$", "", one.zfs(f"send -n -v -P -t {token}")) if one is t.source else None for one in SIDES]
            say(f"    {kind} cut at {side}:", ", ".join(line.strip() for line in (told[0] or told[1]).splitlines()[1:]))
        whole = t.sent(f"-t {token}").read_bytes()
        if turn == 0 and kind in ("full", "inc", "vol"):
            saved(t, kind, side, into)
    place = t.file()
    place.write_bytes(whole)
    side.receive(f"-s {into}", place)
    if side.value("receive_resume_token", into) != "-":
        fail("FAILED", f"resumed from {t.source}, {kind} at {side}: there is still a token")


def saved(t, kind, side, into):
    """What was received in part is sent on to both, and ended there; another one is given up."""
    stream = t.sent(f"--saved {into}", by=side)
    name = f"{t.place}/saved_{kind}"
    for one in SIDES:
        if kind == "inc":
            one.receive(name, t.sent("%/src/gz@1"))
        if one.receives(f"-s {name}", stream).returncode == 0:
            fail("FAILED", f"saved from {side}: {one} received a part as if it were whole")
        one.receive(f"-s {name}", t.sent(f"-t {token_of(one, name)}"))
    if kind == "vol":
        return
    # What the module saved of an increment lacks changes that it had received (2.3.9, its own streams, too).
    wanted = tree(SIDES[0].root(name)) if kind == "inc" and side.is_module else t.wanted({"full": "%/src@2", "inc": "%/src/gz@2"}[kind])
    for one in SIDES:
        compare(f"saved by {side}, at {one}", wanted, tree(one.root(name)))


@case
def given_up(t):
    """receive -A of a new file system, and of an increment"""
    for words, base in (("%/src@2", None), ("-i @1 %/src@2", "%/src@1")):
        into = f"{t.place}/given_up{'_inc' if base else ''}"
        part, side = cut(t, t.sent(words).read_bytes(), 0.6), t.other
        if base:
            side.receive(into, t.sent(base))
        side.receives(f"-s {into}", part)
        token_of(side, into)
        side.zfs(f"receive -A {into}")
        there = side.run("zfs", f"list {into}").returncode == 0
        if there != bool(base):
            fail("FAILED", f"given_up from {t.source}: {into} of {side}")
        if base:
            side.receive(into, t.sent(words))
    t.same(f"{t.place}/given_up_inc", "%/src")


@case
def sizes(t):
    """send -n -v, -n -v -P: both say the same of the same"""
    name = f"%/from_{t.source}/rep"
    plain = lambda side, text: text.replace(side.pool + "/from", "%/from")
    for words in (
        f"{name}@2", f"-i @1 {name}@2", f"-I @1 {name}@2", f"-R {name}@2", f"-R -I @1 {name}@2", f"-p -i @1 {name}/gz@2", f"-c {name}/zs@2",
        f"-w {name}/zs@2", f"-L -e {name}/large@2", f"-R -X {name}/gz,{name}/clone {name}@2", f"{name}/vol@2", f"-i {name}/gz@1 {name}/clone@2",
    ):
        for letters in ("-nv", "-nvP"):
            told = [plain(side, side.zfs(f"send {letters} {words}")) for side in SIDES]
            if "-R" in words:
                # The order is each pool's own, and of clones the module says what they would take if they were sent whole.
                told = ["\n".join(sorted(line for line in text.splitlines() if "clone@" not in line and not line.startswith("size"))) for text in told]
            number = r"\d+(\.\d+)?[KMGB]?$"
            shape = [[re.sub(number, "N", line) for line in text.splitlines()] for text in told]
            if shape[0] != shape[1]:
                fail("DIFFERENT", f"sizes from {t.source}: send {letters} {words}:\n{told[0]}---\n{told[1]}")
            elif letters == "-nvP":
                for said in zip(*(text.splitlines() for text in told)):
                    bytes_said = [int(line.split()[-1]) for line in said]
                    if abs(bytes_said[0] - bytes_said[1]) > 16_384 + bytes_said[0] // 20:
                        fail("DIFFERENT", f"sizes from {t.source}: send {letters} {words}: {said}")
