#!/usr/bin/env python3
"""KV caches on a GPU, with the stand-in driver: the whole family, what reports say, and what is left behind.

usage: cuda.py KVCONFORM STAND_IN_DRIVER [TEST…]
"""
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

PROGRAM, DRIVER = sys.argv[1], sys.argv[2]
STAND_IN = "cuda: stand-in driver, no GPU"


def call(*arguments, driver=DRIVER, **variables):
    environment = {**os.environ, **variables, "KVCONFORM_CUDA_DRIVER": driver}
    return subprocess.run([PROGRAM, *arguments], capture_output=True, text=True, env=environment, timeout=100)


def run(*arguments, **variables):
    return call("run", "--seed", "1", "--color", "never", *arguments, **variables)


class Family(unittest.TestCase):
    def test_passes_and_frees_everything(self):
        for release in ["0.5.1", "0.5.4", "0.5.5", "0.5.6"]:
            with self.subTest(release), tempfile.TemporaryDirectory() as folder:
                log = pathlib.Path(folder) / "log"
                done = run("--device", "cuda", "--select", "cuda", "--dialect", release,
                           KVCONFORM_STAND_IN_LOG=str(log))
                self.assertEqual(done.returncode, 0, done.stderr)
                lines = log.read_text().splitlines()
                self.assertGreater(len(lines), 20)
                self.assertEqual([line for line in lines if not line.endswith("released: all freed")], [])

    def test_cpu_is_the_default(self):
        done = run("--select", "cuda/two-groups", "--json", "-")
        self.assertEqual(done.returncode, 2)
        self.assertIn("--device cuda or all runs it", json.loads(done.stdout)["results"][0]["message"])

    def test_all_runs_both(self):
        done = run("--device", "all", "--select", "cuda/two-groups", "--select", "control/ping")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertNotIn("skipped", done.stderr.splitlines()[-1])

    def test_can_be_required(self):
        self.assertEqual(run("--device", "cuda", "--require", "cuda", "--select", "cuda/two-groups").returncode, 0)
        done = run("--device", "cuda", "--require", "cuda", "--select", "cuda/two-groups",
                   KVCONFORM_STAND_IN="none")
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("no CUDA GPU in this machine", done.stderr)

    def test_failure_can_be_repeated(self):
        done = run("--device", "cuda", "--select", "cuda/stored-after-event", "--defect", "event-not-awaited")
        self.assertEqual(done.returncode, 1)
        self.assertIn("--device cuda", done.stderr)
        self.assertIn("poison", done.stderr)


class Reports(unittest.TestCase):
    def test_all_say_stand_in(self):
        with tempfile.TemporaryDirectory() as folder:
            paths = {form: pathlib.Path(folder) / form for form in ["json", "junit", "html"]}
            flags = [text for form, path in paths.items() for text in (f"--{form}", str(path))]
            done = run("--device", "cuda", "--select", "cuda/two-groups", *flags)
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertIn(STAND_IN, done.stderr)
            self.assertEqual(json.loads(paths["json"].read_text())["run"]["device"], STAND_IN)
            self.assertIn(f'name="device" value="{STAND_IN}"', paths["junit"].read_text())
            self.assertIn(STAND_IN, paths["html"].read_text())

    def test_no_driver_is_said(self):
        done = run("--device", "cuda", "--select", "cuda/two-groups", driver="/nowhere/libcuda.so.1")
        self.assertEqual(done.returncode, 2)
        self.assertIn("no NVIDIA driver library (/nowhere/libcuda.so.1", done.stderr)


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], *sys.argv[3:]])
