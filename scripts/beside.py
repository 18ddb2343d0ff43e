#!/usr/bin/env python3
"""What a mount is worth where programs compute beside it, against a FUSE server that does nothing (`floor`), in turns.

Creates, cold stats, renames, unlinks of files of one process, and a mail server of 16 threads, beside 0, 2, 8 and 32 programs, each in
a session of its own. Prints medians and ratios; the status is 1 when one is below its bar. usage: beside.py [TURNS] [PROGRAMS,…]
"""

import json, os, statistics, subprocess, sys, tempfile, time

# Rates ÷ the floor's at the same load. Beside no program the floor is only shown: figures are on docs/performance.md.
RATE_BAR = 0.9
FILES, MAIL_SECONDS = 1500, 3


def skip(why):
    print(f"skipped: {why}")
    sys.exit(0)


class Run:
    def __init__(self):
        self.millpond, self.floor = os.environ.get("MILLPOND_BIN"), os.environ.get("FLOOR_BIN")
        if not self.millpond or not self.floor:
            skip("MILLPOND_BIN and FLOOR_BIN say what is measured")
        if os.geteuid() != 0 or not os.path.exists("/dev/fuse"):
            skip("needs root and /dev/fuse")
        self.work = tempfile.mkdtemp(prefix="millpond-beside.", dir=os.environ.get("TMPDIR", "/tmp"))
        for name in ("floor", "run", "mounts"):
            os.mkdir(f"{self.work}/{name}")
        os.environ["MILLPOND_RUN"] = f"{self.work}/run"
        self.server = subprocess.Popen([self.floor, f"{self.work}/floor"], start_new_session=True)
        self.admin("zpool", "create", "--size", "2G", "-R", f"{self.work}/mounts", "-O", "atime=off", "beside",
                   f"{self.work}/image")
        deadline = time.time() + 30
        while not os.path.ismount(f"{self.work}/floor"):
            if time.time() > deadline or self.server.poll() is not None:
                sys.exit("the floor is not mounted")
            time.sleep(0.05)

    def admin(self, *arguments):
        subprocess.run([self.millpond, *arguments], check=True)

    def end(self):
        subprocess.run([self.millpond, "zpool", "export", "beside"])
        subprocess.run(["umount", f"{self.work}/floor"])
        self.server.wait(30)
        subprocess.run(["rm", "-rf", self.work])

    def measure(self, place, programs):
        """The figures of one turn: name to value."""
        figures = {}
        for scenario in (["meta", "-n", str(FILES)], ["varmail", "-t", "16", "-n", "500", "-s", str(MAIL_SECONDS)]):
            command = [self.millpond, "bench", "-j", "--beside", str(programs), *scenario[1:], scenario[0], place]
            done = subprocess.run(command, check=True, capture_output=True, text=True, start_new_session=True)
            for phase in json.loads(done.stdout)["phases"]:
                if phase["name"] == "prepare":
                    continue
                if phase["name"] == "fsync":
                    figures["fsync p99 (us)"] = phase["p99_us"]
                else:
                    figures[f"{phase['name']} a second"] = phase["per_second"]
        return figures


def main():
    turns = int(sys.argv[1]) if len(sys.argv) > 1 else 5
    loads = [int(one) for one in (sys.argv[2] if len(sys.argv) > 2 else "0,2,8,32").split(",")]
    run, missed = Run(), []
    try:
        places = {"millpond": f"{run.work}/mounts/beside", "floor": f"{run.work}/floor"}
        for programs in loads:
            figures = {name: {} for name in places}
            for _ in range(turns):
                for name, place in places.items():
                    for what, value in run.measure(place, programs).items():
                        figures[name].setdefault(what, []).append(value)
            print(f"beside {programs} programs, medians of {turns}: millpond, floor, ratio")
            for what in figures["floor"]:
                ours, floor = (statistics.median(figures[name][what]) for name in places)
                ratio = ours / floor
                is_missed = programs > 0 and what.endswith("a second") and ratio < RATE_BAR
                missed += [(programs, what)] if is_missed else []
                print(f"  {what:22} {ours:10.0f} {floor:10.0f} {ratio:6.2f} {'MISSED' if is_missed else ''}", flush=True)
    finally:
        run.end()
    if missed:
        sys.exit(f"{len(missed)} rates are below {RATE_BAR} of the floor's")


main()
