#!/usr/bin/env python3
"""`bench l2` as somebody uses it: what it says, what it leaves, and its exit status.

usage: l2.py KVCONFORM
"""
import json
import os
import pathlib
import resource
import signal
import subprocess
import sys
import tempfile
import unittest

PROGRAM = sys.argv[1]
SMALL = ["--num-keys", "4", "--data-size-kb", "4"]


class L2(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.store = self.folder / "store"
        self.fs = json.dumps({"type": "fs", "base_path": str(self.store)})

    def bench(self, *arguments, adapter=None, environment=None, **more):
        command = [PROGRAM, "bench", "l2", *arguments]
        if environment is None:
            command += ["--l2-adapter", adapter or self.fs]
        return subprocess.run(command, capture_output=True, text=True, timeout=60,
                              env={**os.environ, **(environment or {})}, **more)

    def report(self, *arguments, status=0, **more):
        done = self.bench("--format", "json", *arguments, **more)
        self.assertEqual(done.returncode, status, done.stderr + done.stdout)
        return json.loads(done.stdout)["metrics"]

    def files(self):
        return sorted(path.name for path in self.store.iterdir())

    def expect_usage(self, *arguments, words, **more):
        done = self.bench(*arguments, **more)
        self.assertEqual(done.returncode, 2, done.stderr)
        self.assertEqual(done.stderr.count("\n"), 1, done.stderr)
        for word in words:
            self.assertIn(word, done.stderr)

    # ---- good runs ----

    def test_all_operations(self):
        metrics = self.report(*SMALL, "--in-flight", "2", "--rounds", "3", "--no-skip-verify",
                              "--lookup-max-hit-rate", "0.75")
        operations = [metrics[f"op_{i}"] for i in range(3)]
        self.assertEqual([o["operation"] for o in operations], ["Store", "Lookup", "Load"])
        self.assertEqual([o["total_success"] for o in operations], [24, 18, 24])
        self.assertEqual(operations[1]["expected_hit_count"], 18)
        self.assertEqual(operations[2]["keys_verified"], 32)
        self.assertTrue(metrics["results"]["valid"])
        self.assertEqual(len(self.files()), 32)
        self.assertEqual(self.files()[1],
                         "bench-model@0x00000001@0@00000000000000000000000000000001.data")

    def test_what_one_run_stores_another_finds(self):
        self.report(*SMALL, "--only", "store")
        self.assertEqual(self.report(*SMALL, "--only", "lookup", "--lookup-max-hit-rate", "1")
                         ["op_0"]["total_success"], 4)
        loaded = self.report(*SMALL, "--only", "load", "--no-skip-verify")["op_0"]
        self.assertEqual(loaded["keys_verified"], 8)

    def test_the_environment_and_the_first_of_several(self):
        metrics = self.report(*SMALL, environment={"L2_ADAPTER_JSON": self.fs})
        self.assertEqual(metrics["config"]["l2_adapter_json"], self.fs)
        metrics = self.report(*SMALL, "--l2-adapter", self.fs, adapter='{"type":"none"}')
        self.assertEqual(metrics["config"]["adapter"], "FSL2Adapter")

    def test_the_terminal_report_and_its_file(self):
        done = self.bench(*SMALL, "--output", str(self.folder / "report"))
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual((self.folder / "report").read_text(), done.stdout)
        for words in ["L2 Adapter Benchmark Result", "- Store -", "- Load -",
                      "Throughput avg (MB/s):", "Avg latency / key (ms):"]:
            self.assertIn(words, done.stdout)
        self.assertIn("[Store] Running 1 warmup + 1 measurement rounds...", done.stderr)
        self.assertIn("success_keys=4/4", done.stderr)
        self.assertEqual(self.bench(*SMALL, "-q").stderr, "")

    def test_fill_is_what_the_reference_client_writes(self):
        self.report(*SMALL, "--payload", "fill")
        for name in self.files():
            index = int(name.split("@")[1], 16)
            self.assertEqual((self.store / name).read_bytes(), bytes([index % 4]) * 4096)

    # ---- runs that are not valid: status 1, no figures ----

    def expect_invalid(self, *arguments, problem, **more):
        metrics = self.report(*SMALL, *arguments, status=1, **more)
        self.assertFalse(metrics["results"]["valid"])
        self.assertIn(problem, metrics["results"]["first_problem"])
        for section in metrics.values():
            self.assertNotIn("throughput_avg_mbps", section)
        return metrics

    def test_nothing_to_load(self):
        self.expect_invalid("--only", "load", problem="key 0 is not there")

    def test_a_wrong_object_says_which_it_is(self):
        self.report(*SMALL, "--only", "store")
        names = self.files()
        (self.store / names[5]).write_bytes((self.store / names[2]).read_bytes())
        metrics = self.expect_invalid("--only", "load", "--no-skip-verify",
                                      problem="expected key 5, byte 0; got key 2, byte 0")
        self.assertEqual(metrics["op_0"]["keys_wrong"], 1)

    def test_an_object_that_was_cut_short(self):
        self.report(*SMALL, "--only", "store")
        os.truncate(self.store / self.files()[1], 4095)
        self.expect_invalid("--only", "load", problem="4095 bytes, not 4096")

    def test_no_room(self):
        def limit():
            signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
            resource.setrlimit(resource.RLIMIT_FSIZE, (2048, 2048))
        metrics = self.expect_invalid("--only", "store", problem="File too large",
                                      preexec_fn=limit)
        self.assertEqual(metrics["op_0"]["total_success"], 0)
        self.assertEqual(self.files(), [])

    def test_failures_of_the_mock(self):
        adapter = {"type": "mock", "max_size_gb": 1, "mock_bandwidth_gb": 10,
                   "mock_failure_rate": 0.5}
        self.expect_invalid("--rounds", "8", adapter=json.dumps(adapter),
                            problem="mock_failure_rate")

    def test_a_round_that_takes_too_long(self):
        adapter = {"type": "mock", "max_size_gb": 1, "mock_bandwidth_gb": 1,
                   "mock_latency_ms": 5000}
        metrics = self.expect_invalid("--timeout", "0.2", "--warmup-rounds", "0",
                                      adapter=json.dumps(adapter), problem="within 0.2 s")
        self.assertEqual(metrics["op_0"]["rounds_timed_out"], 1)

    def test_a_store_that_cannot_be_opened(self):
        done = self.bench(adapter='{"type":"fs","base_path":"/dev/null/x"}')
        self.assertEqual(done.returncode, 1)
        self.assertIn("cannot make the folder '/dev/null/x'", done.stderr)

    def test_an_interrupted_run(self):
        adapter = {"type": "mock", "max_size_gb": 1, "mock_bandwidth_gb": 1,
                   "mock_latency_ms": 200}
        run = subprocess.Popen([PROGRAM, "bench", "l2", "--l2-adapter", json.dumps(adapter),
                                "--rounds", "1000", "--format", "json"],
                               stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.assertIn("Creating", run.stderr.readline())
        run.stderr.readline()
        run.send_signal(signal.SIGINT)
        stdout, _ = run.communicate(timeout=20)
        self.assertEqual(run.returncode, 130)
        self.assertEqual(json.loads(stdout)["metrics"]["results"]["run"], "not valid: interrupted")

    # ---- wrong usage ----

    def test_usage(self):
        for arguments, words in [
                (["--num-keys", "0"], ["--num-keys", "at least 1"]),
                (["--lookup-max-hit-rate", "1.5"], ["--lookup-max-hit-rate", "from 0 to 1"]),
                (["--lookup-max-hit-rate", "nan"], ["--lookup-max-hit-rate", "from 0 to 1"]),
                (["--only", "remove"], ["lookup, store or load"]),
                (["--data-size-kb", "3", "--l1-align-bytes", "2048"], ["--l1-align-bytes"]),
                (["--num-keys", "1000000000", "--in-flight", "1000000000"], ["--num-keys"]),
                (["--skip-verify", "--no-skip-verify"], ["not both"]),
                (["--output", "/dev/null/x"], ["--output"])]:
            with self.subTest(arguments=arguments):
                self.expect_usage(*arguments, words=words)

    def test_adapters_that_are_none(self):
        for adapter, words in [
                ("{", ["--l2-adapter", "no JSON"]),
                ('{"type":"fs"}', ["--l2-adapter: base_path", "a folder"]),
                ('{"type":"fs","base_path":"/x","basepath":1}', ["basepath", "use_odirect"]),
                ('{"type":"fs","base_path":"/x","use_odirect":2}', ["true or false"])]:
            with self.subTest(adapter=adapter):
                self.expect_usage(words=words, adapter=adapter)
        self.expect_usage(words=["--l2-adapter", "L2_ADAPTER_JSON"], environment={})


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
