#!/usr/bin/env python3
"""What the program makes of servers that lie.

Each behaviour of the scripted peer is met by `identify`, `run` and `bench server` over both transfer
modes. Each command must end with a status that the behaviour allows, in bounded time and memory, not
by a signal; say in a line what is wrong if it fails; print no escape codes; leave no process and no
segment; and write nothing where it has no business.

usage: hostile.py PEER KVCONFORM [--all] [--jobs N] [-v] [PATTERN…]

A pattern is for "BEHAVIOUR: COMMAND"; with the behaviour alone it is for every command. Without any and
without --all: the sample below.
"""
import argparse
import concurrent.futures
import fnmatch
import os
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time

from leftovers import enter_private_shm, processes, segments, until

TIMEOUT = "0.4"  # for each call, seconds
MOST_SECONDS = 20
MOST_MIB = 1200  # 1 GiB is what a process that listens to a server may take
MARK = "KVC_HOSTILE_TEST"
WROTE = 3  # what the peer ends with when bytes of its decoy pool have changed

# A sample of every kind, each in front of the command that it is most likely to hurt.
SAMPLE = [
    "everything/silence: identify", "everything/nested-arrays: run",
    "everything/uid-of-next-request: bench lmcache_driven", "registering/garbage-64-mib: bench *",
    "registering/void-for-value: run", "sessions/dies: run", "sessions/surplus-frame",
    "transfers/array-of-67-million: bench *", "transfers/twice",
    "transfers/megabytes-to-nothing: bench *", "transfers/answers-and-dies: run",
    "transfers/text-with-escapes", "transfers/truncated: run", "transfers/map-without-end: run",
    "pool/with-slash: run", "pool/with-escapes", "pool/shorter-than-said: run",
    "pool/shrinks: [rb]*", "pool/is-fifo: run", "store/slots-wrapping: [rb]*",
    "store/slots-all-one: run", "retrieve/slots-half-behind-pool: run",
    "retrieve/slots-5000: run", "store/indices-repeated: run",
    "store/indices-smallest-int: run", "chunk-size/2-62", "lookup/largest",
    "inline/lists-that-double: run", "inline/larger-than-its-bytes: run",
    "inline/runs-a-command: bench engine_driven", "socket/blackhole: identify",
    "socket/speaks-http: run",
    "socket/messages-without-end: run", "http/header-of-1-gib: bench lmcache_driven",
    "http/nested-json: run", "http/drip: run",
]

# Checks that take every path, and what is asked beside it over HTTP and P2P.
CHECKS = ["control/chunk-size", "control/noop", "control/get-experimental", "lookup/stored",
          "lookup/miss", "data/round-trip", "data/partial-hit", "retrieve/window",
          "retrieve/miss-releases-locks", "slots", "store/becomes-visible",
          "chunk-indices/only-missing", "framing/transfers-answered-once",
          "inline/tensor-for-each-chunk",
          "checksum/same-after-retrieve", "locks/none-left", "locks/held-while-reading"]
BENCH = ["bench", "server", "-q", "--mode", "cpu", "--end", "1", "--interval", "0",
         "--num-tokens", "511", "--kvcache-shape-spec", "(2,64,16,2,8):float16:2"]
COMMANDS = {
    "identify": ["identify"],
    "run": ["run", "-q", "--seed", "1", "--color", "never", "-j", "8", "--check-limit", "8",
            "--run-limit", "15",
            *(word for check in CHECKS for word in ("--select", check))],
    "bench engine_driven": [*BENCH, "--transfer-mode", "engine_driven"],
    "bench lmcache_driven": [*BENCH, "--transfer-mode", "lmcache_driven"],
}

# Signs that a process of ours died of what a server said.
DEATHS = ["CRASH ", "AddressSanitizer", "LeakSanitizer", "runtime error"]
# An escape, or any other control character that is no white space.
CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")


class Peer:
    """The scripted peer, for one command."""

    def __init__(self, program, behaviour):
        self.process = subprocess.Popen([program, behaviour], stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, text=True)
        self.rpc_url = self.process.stdout.readline().strip()
        self.http_url = self.process.stdout.readline().strip()

    def stop(self):
        self.process.stdin.close()
        try:
            status = self.process.wait(timeout=10)
        except subprocess.TimeoutExpired:
            self.process.kill()
            status = self.process.wait()
        self.process.stdout.close()
        return status


class Ended:
    """How a command ended."""

    def __init__(self, arguments, mark):
        with tempfile.TemporaryFile() as output:
            start = time.monotonic()
            process = subprocess.Popen(arguments, stdin=subprocess.DEVNULL, stdout=output,
                                       stderr=subprocess.STDOUT,
                                       env={**os.environ, MARK: mark.decode().partition("=")[2]})
            self.late = False
            timer = threading.Timer(MOST_SECONDS, self.end, [process])
            timer.start()
            # The largest of the command and of all its children.
            _, status, usage = os.wait4(process.pid, 0)
            timer.cancel()
            process.returncode = os.waitstatus_to_exitcode(status)
            self.status = process.returncode
            self.seconds = time.monotonic() - start
            self.mib = usage.ru_maxrss / 1024
            output.seek(0)
            text = output.read().decode(errors="replace")
            self.lines = len(text.splitlines())
            self.has_controls = CONTROL.search(text) is not None
            self.deaths = [death for death in DEATHS if death in text]
            self.tail = text.splitlines()[-30:]

    def end(self, process):
        self.late = True
        process.send_signal(signal.SIGKILL)


def faults_of(ended, allowed, command):
    """What is wrong with the way a command ended."""
    faults = []
    if ended.late:
        faults.append(f"still running after {MOST_SECONDS} s")
    elif ended.status < 0:
        faults.append(f"died of signal {-ended.status}")
    elif str(ended.status) not in allowed:
        faults.append(f"status {ended.status}, allowed {allowed}")
    if ended.status != 0 and ended.lines == 0:
        faults.append("failed without a word")
    if ended.status != 0 and command == "identify" and ended.lines > 1:
        faults.append("more than one line for a reason")
    if ended.mib > MOST_MIB:
        faults.append(f"{ended.mib:.0f} MiB")
    if ended.has_controls:
        faults.append("control characters in the output")
    return faults + ended.deaths


class Meeting:
    """One behaviour and one command."""

    counter = 0

    def __init__(self, options, behaviour, allowed, command):
        self.name = f"{behaviour}: {command}"
        Meeting.counter += 1
        self.mark = f"{MARK}={os.getpid()}-{Meeting.counter}".encode()
        self.options, self.behaviour, self.allowed, self.command = (options, behaviour, allowed,
                                                                    command)

    def run(self):
        peer = Peer(self.options.peer, self.behaviour)
        arguments = [self.options.kvconform, *COMMANDS[self.command], "--timeout", TIMEOUT,
                     "--rpc-url", peer.rpc_url, "--url", peer.http_url]
        self.ended = Ended(arguments, self.mark)
        self.faults = faults_of(self.ended, self.allowed, self.command)
        left = processes(self.mark)
        if left:
            self.faults.append(f"left processes {left}")
        for pid in left:
            os.kill(pid, signal.SIGKILL)
        peer_status = peer.stop()
        if peer_status == WROTE:
            self.faults.append("wrote into a pool where no slot was good")
        elif peer_status != 0:
            self.faults.append(f"the peer ended with {peer_status}")
        return self

    def report(self, verbose):
        line = (f"{'FAIL' if self.faults else 'ok  '} {self.name}: status {self.ended.status}, "
                f"{self.ended.seconds:.1f} s, {self.ended.mib:.0f} MiB")
        print(line + "".join(f"; {fault}" for fault in self.faults))
        if self.faults or verbose:
            print("".join(f"    | {line[:240]}\n" for line in self.ended.tail))
        sys.stdout.flush()


def meetings_of(options):
    """What was asked for, in the order of the peer's list."""
    listed = subprocess.run([options.peer, "--list"], capture_output=True, text=True, check=True)
    rows = [line.split("\t") for line in listed.stdout.splitlines()]
    everything = [Meeting(options, name, statuses, command) for name, allowed, _ in rows
                  for command, statuses in zip(COMMANDS, allowed.split())]
    patterns = ["*"] if options.all else options.patterns or SAMPLE
    patterns = [pattern if ":" in pattern else pattern + ": *" for pattern in patterns]
    for pattern in patterns:
        if not any(fnmatch.fnmatch(meeting.name, pattern) for meeting in everything):
            sys.exit(f"hostile.py: nothing is called '{pattern}'")
    return [meeting for meeting in everything
            if any(fnmatch.fnmatch(meeting.name, pattern) for pattern in patterns)]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("peer")
    parser.add_argument("kvconform")
    parser.add_argument("patterns", nargs="*")
    parser.add_argument("--all", action="store_true")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("-v", "--verbose", action="store_true")
    options = parser.parse_args()

    before = segments()
    meetings = meetings_of(options)
    failed = []
    with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        for meeting in pool.map(Meeting.run, meetings):
            meeting.report(options.verbose)
            failed += [meeting.name] if meeting.faults else []
    # A peer that dies leaves its mock to end by itself.
    if not until(lambda: segments() <= before, 3):
        failed.append(f"segments left: {sorted(segments() - before)}")
    print(f"{len(meetings)} meetings, {len(failed)} went wrong")
    for name in failed:
        print(f"  {name}")
    return 1 if failed else 0


if __name__ == "__main__":
    enter_private_shm()
    sys.exit(main())
