"""How a kind of stream is tried, and the list of all."""

import shutil, subprocess

import pools
from pools import SIDES, compare, fail, facts, say, tree

CASES = {}
# Packages go first, while the guid of a snapshot still leads to one dataset.
ORDER = (
    "packages backups full increments clones flags volumes encrypted to_and_fro redaction resumed given_up heads long_names properties sizes "
    "changed_trees healing"
).split()
BY_BOTH = ("properties", "packages", "backups", "redaction", "changed_trees")
SEEN = {}


class Try:
    """A case in one direction: `source` sends, both receive below `%/from_SOURCE`."""

    def __init__(self, name, source):
        self.name, self.source, self.count = name, source, 0
        self.place = f"%/from_{source}"
        self.other = next(side for side in SIDES if side is not source)
        # Where facts are compared both receive.
        self.receivers = SIDES if name in BY_BOTH else [self.other]
        self.streams = source.folder / "streams"
        shutil.rmtree(self.streams, ignore_errors=True)
        self.streams.mkdir()

    def file(self):
        self.count += 1
        return self.streams / f"{self.count}.stream"

    def sent(self, words, by=None, **options):
        return (by or self.source).send(words, self.file(), **options)

    def receive(self, stream, words, whom=None):
        """All of them receive it."""
        whom = whom or self.receivers
        done = [side.receives(words, stream) for side in whom]
        for side, one in zip(whom, done):
            if one.returncode != 0:
                fail("FAILED", f"{self.name} from {self.source}: {side} receive {side.named(words)}: {one.stderr.decode().strip()}")
        return done

    def both_refuse(self, stream, words):
        for side in self.receivers:
            done = side.receives(words, stream)
            told = done.stderr.decode().strip().replace("\n", " ")
            if done.returncode == 0:
                fail("FAILED", f"{self.name} from {self.source}: {side} receives {side.named(words)}, which was to be refused")
            else:
                say(f"    {side} refuses: {told}")

    def same(self, received, sent, snapshots="2", lists=False):
        """What was received has the files of what was sent; of the last snapshot the mounted file system is compared."""
        for snapshot in snapshots:
            wanted = self.wanted(f"{sent}@{snapshot}")
            # Pieces of large blocks end elsewhere, and access lists are shown if they may be.
            shown = lambda files: {path: {key: value for key, value in told.items() if (lists or "posix_acl" not in key) and ("large" not in sent or key != "data")} for path, told in files.items()}
            for side in self.receivers:
                what = f"{self.name} from {self.source}: {side.named(received)}@{snapshot} of {side}"
                if snapshot == snapshots[-1]:
                    compare(what, shown(wanted), shown(tree(side.root(received))))
                else:
                    with side.snapshot(f"{received}@{snapshot}") as root:
                        compare(what, shown(wanted), shown(tree(root)))

    def wanted(self, name):
        key = (self.source.pool, self.source.named(name))
        if key not in SEEN:
            with self.source.snapshot(name) as root:
                SEEN[key] = tree(root)
        return SEEN[key]

    def same_volume(self, received, sent, count=2 << 20):
        """Volumes have the same bytes now."""
        with self.source.volume(sent) as volume:
            wanted = volume.read(0, count)
        for side in self.receivers:
            with side.volume(received) as volume:
                found = volume.read(0, count)
            if found != wanted:
                at = next((at for at in range(len(found)) if found[at] != wanted[at]), len(found))
                fail("DIFFERENT", f"{self.name} from {self.source}: volume {side.named(received)} of {side}, at byte {at}")

    def agree(self, received):
        """The two say the same of what they received from the same stream."""
        if len(self.receivers) == 2:
            compare(f"{self.name} from {self.source}: facts of {received}", *(facts(side, received) for side in SIDES))

    def arrives(self, words, into, flags="", sent=None, snapshots="2", **options):
        """The usual way: sent, received, compared."""
        self.receive(self.sent(words), f"{flags} {into}")
        if sent:
            self.same(into, sent, snapshots, **options)
        source = words.split()[-1]
        if "@" in source:
            told = [side.zfs(f"get -Hp -o value guid,creation {name}@{source.split('@')[1]}") for side, name in [(self.source, source.split("@")[0])] + [(side, into) for side in self.receivers if not flags.startswith("-d")]]
            if len(set(told)) != 1:
                fail("DIFFERENT", f"{self.name} from {self.source}: guids of {into}: {told}")
        self.agree(into)


def case(run):
    CASES[run.__name__] = run
    return run
