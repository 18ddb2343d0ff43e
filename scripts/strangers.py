#!/usr/bin/env python3
"""How root's daemon answers root while an ordinary user does his worst: 24 connections that send noise, lengths of 4 GiB, halves of
requests, nested arrays and a list of thousands of equal names, and five loops of `zfs list`, `zfs get`, `zpool status`, `zfs diff`
and `zpool list`. Prints how long `zpool list` of root's took, its start included, and the daemon's memory at its most.

Needs root. usage: strangers.py MILLPOND [SECONDS]; the status is 1 if an answer took 100 ms or the daemon 512 MiB.
"""

import glob, os, random, socket, statistics, struct, subprocess, sys, tempfile, threading, time

STRANGER = 65534
LONGEST_MS, MEMORY_MIB = 100, 512


def noise(choice):
    """What a connection sends."""
    return [
        lambda: random.randbytes(1 << 20),
        lambda: struct.pack("<I", 0xFFFFFFFF) + b"x" * 1000,
        lambda: struct.pack("<I", 60_000) + b'{"Datasets":{"roots":["tank"',
        lambda: struct.pack("<I", 50_000) + b"[" * 50_000,
        lambda: names(),
        lambda: b"",
    ][choice % 6]()


def names():
    roots = ",".join(['"tank"'] * 6000)
    text = '{"Datasets":{"roots":[%s],"depth":null,"types":7,"properties":"All"}}' % roots
    return struct.pack("<I", len(text)) + text.encode()


def attack(path, until):
    number = 0
    while time.time() < until:
        number += 1
        try:
            with socket.socket(socket.AF_UNIX) as connection:
                connection.settimeout(2)
                connection.connect(path)
                connection.sendall(noise(number + random.randrange(6)))
                if number % 3:
                    connection.recv(4096)
        except OSError:
            pass


def stranger(millpond, path, until):
    """In a process of the user's own: connections and commands."""
    os.setgroups([])
    os.setgid(STRANGER)
    os.setuid(STRANGER)
    threads = [threading.Thread(target=attack, args=(path, until)) for _ in range(24)]
    commands = ["zfs list -r tank", "zfs get all tank", "zpool status -v tank", "zfs diff tank@a tank", "zpool list"]
    for command in commands:
        threads.append(threading.Thread(target=again, args=([millpond, *command.split()], until)))
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def again(command, until):
    while time.time() < until:
        subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, timeout=120)


def memory_mib(process):
    with open(f"/proc/{process}/status") as status:
        fields = dict(line.split(":", 1) for line in status)
    return int(fields["VmHWM"].split()[0]) / 1024


def main():
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    millpond, seconds = os.path.abspath(sys.argv[1]), float(sys.argv[2]) if len(sys.argv) > 2 else 60.0
    if os.geteuid() != 0 or not os.path.exists("/dev/fuse"):
        print("skipped: needs root and /dev/fuse")
        return
    work = tempfile.mkdtemp(prefix="millpond-strangers.")
    os.chmod(work, 0o755)
    run = os.environ["MILLPOND_RUN"] = f"{work}/run"
    admin = lambda *words: subprocess.run([millpond, *words], check=True, stdout=subprocess.DEVNULL)
    try:
        admin("zpool", "create", "--size", "512M", "-R", f"{work}/mnt", "tank", f"{work}/image")
        for number in range(41):
            admin("zfs", "create", f"tank/{number}")
        admin("zfs", "snapshot", "tank@a")
        path = next(path for path in glob.glob(f"{run}/**", recursive=True) if os.path.exists(path) and os.path.stat.S_ISSOCK(os.stat(path).st_mode))
        peer = socket.socket(socket.AF_UNIX)
        peer.connect(path)
        process = struct.unpack("3i", peer.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))[0]
        peer.close()
        until = time.time() + seconds
        child = os.fork()
        if child == 0:
            try:
                stranger(millpond, path, until)
            finally:
                os._exit(0)
        took = []
        while time.time() < until:
            begun = time.monotonic()
            admin("zpool", "list")
            took.append((time.monotonic() - begun) * 1000)
            time.sleep(0.05)
        os.waitpid(child, 0)
        most = memory_mib(process)
    finally:
        subprocess.run([millpond, "zpool", "export", "tank"])
        subprocess.run(["rm", "-rf", work])
    took.sort()
    ninety_nine = took[min(len(took) - 1, len(took) * 99 // 100)]
    print(f"{len(took)} answers: half within {statistics.median(took):.0f} ms, 99 % within {ninety_nine:.0f} ms, the last within {took[-1]:.0f} ms; "
          f"the daemon took {most:.0f} MiB at most; load {os.getloadavg()[0]:.1f}")
    sys.exit(took[-1] >= LONGEST_MS or most >= MEMORY_MIB)


main()
