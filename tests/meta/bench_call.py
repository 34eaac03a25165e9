#!/usr/bin/env python3
"""`kvconform bench call`: figures that hang together, exit statuses, nothing left behind.

usage: bench_call.py KVCONFORM [TEST…]
"""
import json
import os
import signal
import subprocess
import sys
import time
import unittest

PROGRAM = os.path.abspath(sys.argv[1])


def call(*arguments):
    return subprocess.run([PROGRAM, "bench", "call", *arguments], capture_output=True, text=True, timeout=60)


def children_of(pid):
    with open("/proc/%d/task/%d/children" % (pid, pid)) as file:
        return file.read().split()


class BenchCall(unittest.TestCase):
    def test_figures(self):
        done = call("--rounds", "3", "--calls", "20", "--format", "json")
        self.assertEqual(done.returncode, 0, done.stderr)
        report = json.loads(done.stdout)
        self.assertEqual((report["schema"], report["kind"], report["rounds"], report["calls"]), (1, "bench-call", 3, 20))
        for spread in (*report["microseconds"].values(), report["client_cost"], report["server_share"]):
            self.assertTrue(0 < spread["min"] <= spread["median"] <= spread["max"], spread)
        self.assertEqual(set(report["microseconds"]), {"client", "libzmq", "echo"})

    def test_ratios_of_one_round(self):
        report = json.loads(call("--rounds", "1", "--calls", "20", "--format", "json").stdout)
        lanes = {name: spread["median"] for name, spread in report["microseconds"].items()}
        self.assertAlmostEqual(report["client_cost"]["median"], lanes["client"] / lanes["libzmq"], 3)
        self.assertAlmostEqual(report["server_share"]["median"], lanes["echo"] / lanes["libzmq"], 3)

    def test_statuses(self):
        for status, says, arguments in ((3, "tcp://127.0.0.1:1", ["--rpc-url", "tcp://127.0.0.1:1", "--dialect", "0.5.6"]),
                                        (2, "--rounds", ["--rounds", "0"]), (2, "--calls", ["--calls", "2000000"]),
                                        (2, "--output", ["--output", "/nonexistent/x"])):
            with self.subTest(arguments):
                done = call(*arguments)
                self.assertEqual(done.returncode, status, done.stderr)
                self.assertEqual((done.stdout, done.stderr.count("\n")), ("", 1))
                self.assertIn(says, done.stderr)

    def test_a_wrong_answer(self):
        done = call("--defect", "noop-text")
        self.assertEqual(done.returncode, 3, done.stderr)
        self.assertEqual(done.stdout, "")

    def test_interrupted(self):
        bench = subprocess.Popen([PROGRAM, "bench", "call", "--rounds", "100000"], stdout=subprocess.PIPE,
                                 stderr=subprocess.PIPE)
        deadline = time.monotonic() + 20
        while len(children_of(bench.pid)) < 2 and time.monotonic() < deadline:
            time.sleep(0.02)
        children = children_of(bench.pid)
        self.assertEqual(len(children), 2)
        bench.send_signal(signal.SIGTERM)
        output, _ = bench.communicate(timeout=20)
        self.assertEqual((bench.returncode, output), (143, b""))
        for child in children:
            self.assertFalse(os.path.exists("/proc/" + child))


if __name__ == "__main__":
    del sys.argv[1]
    unittest.main()
