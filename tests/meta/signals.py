#!/usr/bin/env python3
"""Signals: whatever is interrupted or killed, no process and no segment stays behind (after SIGKILL:
at the next run).

Runs in a /dev/shm of its own where the system allows that; else what was there before is left out.

usage: signals.py KVCONFORM_MADE
"""
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import time
import unittest

from leftovers import enter_private_shm, processes, segments, until

PROGRAM = sys.argv[1]


def children(pid):
    tasks = pathlib.Path(f"/proc/{pid}/task/{pid}/children")
    return [int(child) for child in tasks.read_text().split()] if tasks.exists() else []


class Signals(unittest.TestCase):
    counter = 0

    def run_program(self, *arguments):
        """Starts a run whose processes can all be found by a mark in their environment."""
        Signals.counter += 1
        name, value = "KVC_SIGNALS_TEST", f"{os.getpid()}-{Signals.counter}"
        self.marker = f"{name}={value}".encode()
        self.before = segments()
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.cleanup = pathlib.Path(self.folder.name) / "cleanup"
        self.run_ = subprocess.Popen([PROGRAM, "run", "--color", "never", *arguments],
                                     stderr=subprocess.PIPE, text=True,
                                     env={**os.environ, name: value,
                                          "KVC_MADE_CLEANUP": str(self.cleanup)},
                                     preexec_fn=lambda: signal.signal(signal.SIGHUP,
                                                                      signal.SIG_DFL))

    def start(self, *arguments):
        """A run whose checks hold a segment each; returns once they do."""
        self.run_program("--select", "slow", *arguments)
        # Two checks with a segment each, and the pool of the server.
        self.assertTrue(until(lambda: len(segments() - self.before) >= 3), "nothing started")

    def finish(self):
        stderr = self.run_.communicate(timeout=20)[1]
        return self.run_.returncode, stderr

    def expect_nothing_left(self):
        self.assertTrue(until(lambda: not processes(self.marker)), processes(self.marker))
        self.assertEqual(segments() - self.before, set())

    def expect_interrupted(self, number, status):
        self.start()
        self.run_.send_signal(number)
        code, stderr = self.finish()
        self.assertEqual(code, status)
        self.assertIn("interrupted", stderr)
        self.assertIn("2 not run", stderr)
        self.assertTrue(self.cleanup.exists(), "the checks' cleanups did not run")
        self.expect_nothing_left()

    def test_sigint(self):
        self.expect_interrupted(signal.SIGINT, 130)

    def test_sigterm(self):
        self.expect_interrupted(signal.SIGTERM, 143)

    def test_sighup(self):
        self.expect_interrupted(signal.SIGHUP, 129)

    def test_sigterm_twice(self):
        self.start()
        self.run_.send_signal(signal.SIGTERM)
        self.run_.send_signal(signal.SIGTERM)
        self.assertEqual(self.finish()[0], 143)
        self.expect_nothing_left()

    def test_sigterm_while_starting(self):
        self.run_program("--launch", "sleep 100 # {rpc_port}")
        self.assertTrue(until(lambda: len(processes(self.marker)) >= 3))
        self.run_.send_signal(signal.SIGTERM)
        self.assertEqual(self.finish()[0], 143)
        self.expect_nothing_left()

    def test_sigkill_of_the_runner(self):
        self.start()
        time.sleep(0.5)  # until the checks sleep: they would not notice that the server is gone
        self.run_.kill()
        self.finish()
        self.assertTrue(until(lambda: not processes(self.marker)), processes(self.marker))
        subprocess.run([PROGRAM, "run", "-q", "--select", "made/pass"], check=True,
                       capture_output=True)
        self.assertEqual(segments() - self.before, set())

    def test_sigkill_of_the_runner_with_a_launched_server(self):
        self.start("--launch", f"{PROGRAM} mock --bind tcp://127.0.0.1:{{rpc_port}} --no-http "
                               "--pool-size 4M")
        self.run_.kill()
        self.finish()
        self.assertTrue(until(lambda: not processes(self.marker)), processes(self.marker))
        subprocess.run([PROGRAM, "run", "-q", "--select", "made/pass"], check=True,
                       capture_output=True)
        self.assertEqual(segments() - self.before, set())

    def test_sigkill_of_a_check(self):
        self.start()
        mock, *checks = children(self.run_.pid)
        os.kill(checks[0], signal.SIGKILL)
        time.sleep(0.2)
        self.run_.send_signal(signal.SIGINT)
        code, stderr = self.finish()
        self.assertIn("CRASH slow/linger", stderr)
        self.assertEqual(code, 130)
        self.expect_nothing_left()

    def test_sigkill_of_the_mock(self):
        self.start("--timeout", "1")
        mock = children(self.run_.pid)[0]
        os.kill(mock, signal.SIGKILL)
        self.run_.send_signal(signal.SIGINT)
        self.finish()
        self.expect_nothing_left()


if __name__ == "__main__":
    enter_private_shm()
    unittest.main(argv=sys.argv[1:])
