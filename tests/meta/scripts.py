#!/usr/bin/env python3
"""The scripts of the checkout say what they do when they are asked, and do nothing else then; what they do not
take is one line and status 2.

usage: scripts.py CHECKOUT
"""
import os
import pathlib
import subprocess
import sys
import unittest

CHECKOUT = pathlib.Path(sys.argv[1]).resolve()
SCRIPTS = sorted(path for folder in (CHECKOUT, CHECKOUT / "ci") for path in folder.iterdir()
                 if path.is_file() and os.access(path, os.X_OK) and path.name != "exchange.py")
WRONG = {
    "check": ["--fast"], "cuda-stand-in": ["/no/such"], "fuzz": ["soon"], "gpu-qualification": [], "lmcache": ["serve"],
    "proof": ["many"], "real-servers": ["9.9.9"], "reference-client": ["most"], "l2-interchange": ["tape"],
    "client-pairs": ["newest"],
}


def call(script, *arguments):
    return subprocess.run([script, *arguments], capture_output=True, text=True, timeout=30, cwd="/")


class Scripts(unittest.TestCase):
    def test_help(self):
        self.assertGreater(len(SCRIPTS), 10)
        for script in SCRIPTS:
            with self.subTest(script.name):
                done = call(script, "--help")
                self.assertEqual((done.returncode, done.stderr), (0, ""))
                self.assertGreater(len(done.stdout), 80)

    def test_wrong_arguments(self):
        for script in SCRIPTS:
            if script.name not in WRONG:
                continue
            with self.subTest(script.name):
                done = call(script, *WRONG[script.name])
                self.assertEqual((done.returncode, done.stdout), (2, ""))
                lines = [line for line in done.stderr.splitlines() if not line.startswith(("usage:", " "))]
                self.assertEqual(len(lines), 1, done.stderr)


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], *sys.argv[2:]])
