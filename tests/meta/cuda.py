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
    environment = {**os.environ, **variables, "KVCONFORM_CUDA_DRIVER": driver,
                   "KVCONFORM_STAND_IN_GPU": str(os.getpid())}
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


class Bench(unittest.TestCase):
    def test_transfer_measures_four_operations(self):
        done = call("bench", "transfer", "--device", "cuda", "--bytes", "64K", "--layers", "2", "--heads", "2x8",
                    "--chunk-tokens", "32", "--repeat", "3", "--format", "json")
        self.assertEqual(done.returncode, 0, done.stderr)
        report = json.loads(done.stdout)
        self.assertEqual(report["device_is"], "stand-in driver, no GPU")
        self.assertEqual([row["operation"] for row in report["results"]],
                         5 * ["gather", "scatter", "gather-to-host", "scatter-from-host"])

    def test_transfer_without_a_gpu_is_an_error(self):
        done = call("bench", "transfer", "--device", "cuda", KVCONFORM_STAND_IN="none")
        self.assertEqual((done.returncode, done.stderr),
                         (2, "kvconform: --device cuda: no CUDA GPU in this machine\n"))

    def test_server_in_gpu_mode(self):
        with tempfile.TemporaryDirectory() as folder:
            for mode in ["lmcache_driven", "engine_driven"]:
                log = pathlib.Path(folder) / mode
                done = call("bench", "server", "--mode", "gpu", "--transfer-mode", mode, "--end", "3",
                            "--interval", "0", "--kvcache-shape-spec", "(2,64,16,2,8):float16:2",
                            "--launch", f"{PROGRAM} mock --bind tcp://127.0.0.1:{{rpc_port}} --no-http",
                            "--format", "json", KVCONFORM_STAND_IN_LOG=str(log))
                self.assertEqual(done.returncode, 0, done.stderr)
                self.assertIn("stand-in driver, no GPU", done.stdout)
                lines = log.read_text().splitlines()
                self.assertGreater(len(lines), 0)
                self.assertEqual([line for line in lines if not line.endswith("released: all freed")], [])

    def test_server_without_a_gpu(self):
        done = call("bench", "server", "--rpc-url", "tcp://127.0.0.1:1", KVCONFORM_STAND_IN="none")
        self.assertEqual((done.returncode, done.stderr),
                         (2, "kvconform: --mode gpu: no CUDA GPU in this machine; --mode cpu needs no GPU\n"))


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], *sys.argv[3:]])
