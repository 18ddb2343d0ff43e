#!/usr/bin/env python3
"""Millpond beside its peers on this machine, in turns: the table and the chart of docs/performance.md.

Each turn makes a fresh image for each system, mounts it, runs `millpond bench` in it, and takes it away. Systems: millpond, floor (a FUSE
server that keeps nothing), ext4 and btrfs on a loop device, zfs-fuse; those that are not installed are left out, and this is said.

usage: compare.py [--turns N] [--small] [--only SYSTEM,…] [--write]
  --small   small sizes: shows that it works, measures nothing
  --write   replaces the table in docs/performance.md and docs/measurements/compare.svg; without, the table is printed
"""

import argparse, datetime, json, math, os, pathlib, platform, shutil, statistics, subprocess, sys, tempfile, time

ROOT = pathlib.Path(__file__).resolve().parent.parent
BEGIN, END = "<!-- written by cargo xtask bench compare -->", "<!-- end of what is written -->"
# In the order of the table, with their colours in the chart.
PEERS = {"floor": "#8a8a8a", "zfs-fuse": "#b5651d", "btrfs": "#2a7f62", "ext4": "#3b6ea8"}


class Row:
    """One line of the table: a figure of a phase of a scenario, and what it is held against."""

    def __init__(self, title, scenario, phase, figure, bars, less=False, enough=all):
        self.title, self.scenario, self.phase, self.figure = title, scenario, phase, figure
        # (peer, how many times as good); `enough` says whether all must be reached or any.
        self.bars, self.less, self.enough = bars, less, enough

    def ratio(self, ours, theirs):
        """How many times as good as the peer."""
        return theirs / ours if self.less else ours / theirs


def rows():
    names = [("zfs-fuse", 3.0), ("floor", 0.85)]
    bulk = [("zfs-fuse", 2.5), ("btrfs", 1.3)]
    return [
        Row("creates a second", "meta", "create", "per_second", names, enough=any),
        Row("cold stats a second", "meta", "cold stat", "per_second", names, enough=any),
        Row("renames a second", "meta", "rename", "per_second", names, enough=any),
        Row("unlinks a second", "meta", "unlink", "per_second", names, enough=any),
        Row("listings of 10,000 entries a second", "readdir", "list", "per_second", names, enough=any),
        Row("write-data, empty (s)", "write-data", "empty", "seconds", [("zfs-fuse", 2.5), ("btrfs", 1.0)], True),
        Row("write-data, again (s)", "write-data", "again", "seconds", bulk, True),
        Row("one large file written (MB/s)", "mkbig", "write", "mb_per_second", [("zfs-fuse", 2.0), ("btrfs", 1.0)]),
        Row("the same read cold (MB/s)", "rdbig", "cold read", "mb_per_second", [("zfs-fuse", 2.0), ("btrfs", 1.0)]),
        Row("8 readers of 512 bytes, in order (MB/s)", "fanread", "read", "mb_per_second", [("ext4", 0.9)]),
        Row("8 readers of 512 bytes, scattered (MB/s)", "fanread-stride", "read", "mb_per_second", [("ext4", 0.9)]),
        Row("varmail, 64 threads (operations a second)", "varmail", "operation", "per_second", [("btrfs", 1.0)]),
        Row("its fsync p99 (ms)", "varmail", "fsync", "p99_ms", [("btrfs", 1.0)], True),
        Row("fsync of one thread, p50 (ms)", "fsync", "fsync", "p50_ms", [("btrfs", 1.0)], True),
    ]


def scenarios(small):
    size = {"meta": 20_000, "readdir": 10_000, "write-data": 76_800, "mkbig": 2048, "fanread": 256, "mail": 10, "fsync": 5}
    if small:
        size = {"meta": 200, "readdir": 100, "write-data": 640, "mkbig": 16, "fanread": 4, "mail": 1, "fsync": 1}
    n = {name: str(value) for name, value in size.items()}
    return [
        ("meta", ["meta", "-n", n["meta"]]),
        ("readdir", ["readdir", "-n", n["readdir"]]),
        ("write-data", ["write-data", "-n", n["write-data"]]),
        ("mkbig", ["mkbig", "-k", "-b", n["mkbig"]]),
        ("rdbig", ["rdbig"]),
        ("fanread", ["fanread", "-b", n["fanread"]]),
        ("fanread-stride", ["fanread", "-b", n["fanread"], "--stride"]),
        ("varmail", ["varmail", "-s", n["mail"], "-n", "1000" if not small else "50"]),
        ("fsync", ["fsync", "-s", n["fsync"]]),
    ]


def run(*command, **options):
    return subprocess.run([str(word) for word in command], check=True, **options)


def try_to(*command):
    subprocess.run([str(word) for word in command], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


class System:
    """A file system that is measured. `mount` and `remount` make `place` ready; `durable` is a command or nothing.
    `unmount` takes away what is there of it, also of a mount that failed half-way."""

    durable = server = None

    def __init__(self, work, millpond):
        self.millpond, self.work = millpond, work
        self.image, self.place = work / "image", work / "mnt"

    def missing(self):
        """What has to be installed, or nothing."""

    def remount(self):
        """So that nothing of a file is in a cache of the system's own."""

    def end_server(self):
        if self.server:
            self.server.terminate()
            self.server.wait(30)


class Millpond(System):
    def mount(self):
        run(self.millpond, "zpool", "create", "--size", "12G", "-R", self.work / "mnt", "-O", "atime=off", "measured", self.image)
        self.place = self.work / "mnt" / "measured"

    def remount(self):
        run(self.millpond, "zpool", "export", "measured")
        run(self.millpond, "zpool", "import", "-d", self.work, "-R", self.work / "mnt", "measured")

    def unmount(self):
        try_to(self.millpond, "zpool", "export", "measured")


class Floor(System):
    def missing(self):
        return None if os.environ.get("FLOOR_BIN") else "FLOOR_BIN is not set"

    def mount(self):
        self.server = subprocess.Popen([os.environ["FLOOR_BIN"], self.place], start_new_session=True)
        wait(lambda: os.path.ismount(self.place))

    def unmount(self):
        try_to("umount", self.place)
        self.end_server()


class Loop(System):
    make = ()

    def missing(self):
        return None if shutil.which(self.make[0]) else f"{self.make[0]} is not installed"

    def mount(self):
        with open(self.image, "wb") as image:
            image.truncate(12 << 30)
        run(*self.make, self.image, stdout=subprocess.DEVNULL)
        run("mount", "-o", "loop,noatime", self.image, self.place)

    def remount(self):
        run("umount", self.place)
        run("mount", "-o", "loop,noatime", self.image, self.place)

    def unmount(self):
        try_to("umount", self.place)


class Ext4(Loop):
    make = ("mkfs.ext4", "-q", "-E", "lazy_itable_init=0,lazy_journal_init=0")


class Btrfs(Loop):
    make = ("mkfs.btrfs", "-q")


class ZfsFuse(System):
    # The other commands of that name may be links to Millpond.
    zpool, zfs = "/usr/sbin/zpool", "/usr/sbin/zfs"
    durable = f"{zfs} snapshot measured@at$(date +%s%N)"

    def missing(self):
        return None if shutil.which("zfs-fuse") and os.path.exists(self.zpool) else "zfs-fuse is not installed"

    def mount(self):
        for folder in ("/var/run/zfs", "/etc/zfs", "/var/lib/zfs"):
            os.makedirs(folder, exist_ok=True)
            pathlib.Path(folder, "zpool.cache").unlink(missing_ok=True)
        with open(self.image, "wb") as image:
            image.truncate(12 << 30)
        command = ["zfs-fuse", "--no-kstat-mount", "-n", "-p", self.work / "pid"]
        self.server = subprocess.Popen(command, start_new_session=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        create = [self.zpool, "create", "-O", "atime=off", "-m", self.place, "measured", self.image]
        wait(lambda: subprocess.run(create, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL).returncode == 0)

    def remount(self):
        run(self.zpool, "export", "measured")
        run(self.zpool, "import", "-d", self.work, "measured", stdout=subprocess.DEVNULL)

    def unmount(self):
        # It calls a pool busy for a while after the last file was closed.
        try_to("umount", "-l", self.place)
        try_to(self.zpool, "export", "-f", "measured")
        self.end_server()


SYSTEMS = {"millpond": Millpond, "floor": Floor, "ext4": Ext4, "btrfs": Btrfs, "zfs-fuse": ZfsFuse}


def wait(is_so):
    deadline = time.time() + 120
    while not is_so():
        if time.time() > deadline:
            sys.exit("not mounted after 120 seconds")
        time.sleep(0.1)


def turn(kind, small):
    """One turn of one system: (scenario, phase) to the phase's figures."""
    work = pathlib.Path(tempfile.mkdtemp(prefix="millpond-compare.", dir=os.environ.get("TMPDIR", "/var/tmp")))
    (work / "mnt").mkdir()
    os.environ["MILLPOND_RUN"] = str(work / "run")
    system, found = kind(work, os.environ["MILLPOND_BIN"]), {}
    try:
        system.mount()
        for name, arguments in scenarios(small):
            if name == "rdbig":
                system.remount()
            command = [system.millpond, "bench", "-j", *arguments, system.place]
            if system.durable:
                command += ["--durable", system.durable]
            done = run(*command, stdout=subprocess.PIPE, text=True, start_new_session=True)
            for phase in json.loads(done.stdout)["phases"]:
                phase["p50_ms"], phase["p99_ms"] = phase["p50_us"] / 1000, phase["p99_us"] / 1000
                found[name, phase["name"]] = phase
    finally:
        system.unmount()
        shutil.rmtree(work)
    return found


def shown(value):
    if value is None:
        return ""
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def verdict(row, medians):
    """What the row is held against and whether it is reached, of those peers that were there."""
    parts, reached = [], []
    for peer, factor in row.bars:
        if medians.get(peer) is None:
            continue
        ratio = row.ratio(medians["millpond"], medians[peer])
        parts.append(f"{ratio:.2f} of {factor:g} × {peer}")
        reached.append(ratio >= factor)
    if not parts:
        return "", ""
    return "; ".join(parts), "reached" if row.enough(reached) else "not reached"


def table(figures, said):
    peers = [peer for peer in PEERS if peer in figures]
    lines = [said, "", "| scenario | Millpond | " + " | ".join(peers) + " | ÷ bar | |", "|---" * (len(peers) + 4) + "|"]
    charted = []
    for row in rows():
        medians = {name: median(row, turns) for name, turns in figures.items()}
        if medians.get("millpond") is None:
            continue
        held, reached = verdict(row, medians)
        cells = [row.title, shown(medians["millpond"]), *(shown(medians[peer]) for peer in peers), held, reached]
        lines.append("| " + " | ".join(cells) + " |")
        charted.append((row.title, {peer: row.ratio(medians["millpond"], medians[peer]) for peer in peers if medians[peer]}))
    return "\n".join(lines) + "\n", charted


def median(row, turns):
    values = [found[row.scenario, row.phase][row.figure] for found in turns if (row.scenario, row.phase) in found]
    return statistics.median(values) if values and all(values) else None


def chart(charted):
    """How many times as good as each peer, on a logarithmic scale: a dot a peer, the line in the middle is equal."""
    left, width, step, low, high = 290, 560, 24, -5, 5
    x = lambda ratio: left + (min(max(math.log2(ratio), low), high) - low) / (high - low) * width
    height = 50 + step * len(charted) + 20
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" width="{left + width + 30}" height="{height}" font-family="sans-serif" font-size="12">',
           f'<rect width="100%" height="100%" fill="#ffffff"/>']
    for at, (peer, colour) in enumerate(PEERS.items()):
        out.append(f'<circle cx="{left + at * 110}" cy="14" r="5" fill="{colour}"/><text x="{left + 10 + at * 110}" y="18">÷ {peer}</text>')
    for power in range(low, high + 1):
        label = f"{2 ** power}" if power >= 0 else f"1/{2 ** -power}"
        bold = ' stroke-width="2"' if power == 0 else ""
        out.append(f'<line x1="{x(2.0 ** power):.0f}" y1="42" x2="{x(2.0 ** power):.0f}" y2="{height - 18}" stroke="#cccccc"{bold}/>'
                   f'<text x="{x(2.0 ** power):.0f}" y="38" text-anchor="middle" fill="#555555">{label}</text>')
    for at, (title, ratios) in enumerate(charted):
        y = 58 + at * step
        out.append(f'<text x="{left - 10}" y="{y + 4}" text-anchor="end">{title}</text>')
        out += [f'<circle cx="{x(ratio):.0f}" cy="{y}" r="5" fill="{PEERS[peer]}"/>' for peer, ratio in ratios.items()]
    return "\n".join(out) + "\n</svg>\n"


def host(turns):
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    model = next((line.split(":")[1].strip() for line in open("/proc/cpuinfo") if line.startswith("model name")), platform.machine())
    # What some models are called ends with a word that says nothing.
    model = model.removesuffix("Processor").strip()
    commit = subprocess.run(["git", "-C", ROOT, "rev-parse", "--short", "HEAD"], capture_output=True, text=True).stdout.strip()
    date = datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%d, %H:%M UTC")
    return (f"{date}, commit {commit or 'unknown'}; {os.cpu_count()} CPUs ({model}), {memory:.0f} GiB, Linux {platform.release()}, load before "
            f"{LOAD:.1f}; medians of {turns} turns. `cargo xtask bench compare --turns {turns} --write`.")


LOAD = os.getloadavg()[0]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--small", action="store_true")
    parser.add_argument("--only", default=",".join(SYSTEMS))
    parser.add_argument("--write", action="store_true")
    options = parser.parse_args()
    if not os.environ.get("MILLPOND_BIN"):
        sys.exit("MILLPOND_BIN says what is measured: cargo xtask bench compare sets it")
    if os.geteuid() != 0 or not os.path.exists("/dev/fuse"):
        print("skipped: needs root and /dev/fuse")
        return
    figures = {}
    for name in options.only.split(","):
        why = SYSTEMS[name](pathlib.Path("/nonexistent"), None).missing()
        if why:
            print(f"left out: {name}: {why}", file=sys.stderr)
        else:
            figures[name] = []
    for number in range(options.turns):
        for name, turns in figures.items():
            print(f"turn {number + 1} of {options.turns}: {name}", file=sys.stderr, flush=True)
            turns.append(turn(SYSTEMS[name], options.small))
    text, charted = table(figures, host(options.turns))
    if not options.write:
        print(text)
        return
    page = ROOT / "docs/performance.md"
    before, rest = page.read_text().split(BEGIN)
    page.write_text(f"{before}{BEGIN}\n\n{text}\n![How many times as good as each peer](measurements/compare.svg)\n\n{END}{rest.split(END)[1]}")
    (ROOT / "docs/measurements/compare.svg").write_text(chart(charted))


main()
