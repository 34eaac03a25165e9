#!/usr/bin/env python3
"""`bench l2` as somebody uses it: what it says, what it leaves, and its exit status; and which of its
checks find which defect.

usage: l2.py KVCONFORM
"""
import json
import os
import pathlib
import resource
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import unittest
import xml.etree.ElementTree

PROGRAM = sys.argv[1]
SMALL = ["--num-keys", "4", "--data-size-kb", "4"]


# Each defect of the adapter "defective", the checks that must find it, and no other may fail.
ALL_THAT_LOADS = {"round-trip", "remove", "partial-failure", "interrupted-store", "hostile-key", "gone"}
FOUND_BY = {
    "lost-store": {"round-trip", "overwrite", "remove", "partial-failure", "two-writers",
                   "hostile-key", "full", "gone"},
    "phantom-hit": {"miss", "remove", "partial-failure", "interrupted-store", "full"},
    "swapped-objects": ALL_THAT_LOADS,
    "short-load": ALL_THAT_LOADS | {"overwrite", "two-writers", "full"},
    "half-overwritten": {"overwrite", "two-writers", "gone"},
    "stored-in-place": {"interrupted-store", "full"},
    "failed-as-done": {"other-size", "hostile-key", "full"},
    "failure-spreads": {"miss", "remove", "partial-failure", "full"},
    "shared-names": {"hostile-key"},
    "stays-after-remove": {"remove"},
    "never-recovers": {"other-size", "hostile-key", "full"},
}


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

    # ---- stores that cannot be opened: status 3 or 2, with --check as well ----

    def test_a_store_that_cannot_be_opened(self):
        nobody = json.dumps({"type": "resp", "host": "127.0.0.1", "port": 1})
        device = json.dumps({"type": "raw_block", "device_path": "/no/such", "slot_bytes": 8192,
                             "use_odirect": False})
        folder = json.dumps({"type": "fs", "base_path": "/dev/null/x"})
        for adapter, status, words in ((nobody, 3, "127.0.0.1:1"), (device, 2, "/no/such"),
                                       (folder, 2, "/dev/null/x")):
            for more in ([], ["--check"]):
                with self.subTest(adapter=adapter, more=more):
                    done = self.bench(*SMALL, *more, adapter=adapter)
                    self.assertEqual(done.returncode, status, done.stderr)
                    self.assertIn(words, done.stderr)
                    self.assertEqual(done.stdout, "")

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

    # ---- stores that are full or gone ----

    def test_a_full_disk(self):
        script = ('mount -t tmpfs -o size=1m none "$1" && "$2" bench l2 -q --only store '
                  '--l2-adapter "$3" --format json; status=$?; ls "$1" | grep -v "@" >&2; '
                  'exit $status')
        self.store.mkdir()
        done = subprocess.run(["unshare", "-rm", "sh", "-c", script, "sh", self.store, PROGRAM,
                               self.fs], capture_output=True, text=True, timeout=60)
        if not done.stdout:
            self.skipTest("no mount namespace: " + done.stderr)
        self.assertEqual(done.returncode, 1)
        self.assertEqual(done.stderr, "", "no unfinished file is left")
        metrics = json.loads(done.stdout)["metrics"]
        self.assertIn("No space left", metrics["results"]["first_problem"])

    def test_a_server_that_is_killed(self):
        if shutil.which("redis-server") is None:
            self.skipTest("no redis-server")
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        server = subprocess.Popen(["redis-server", "--port", str(port), "--bind", "127.0.0.1",
                                   "--save", "", "--dir", self.folder], stdout=subprocess.DEVNULL)
        self.addCleanup(server.wait)
        self.addCleanup(server.kill)
        adapter = json.dumps({"type": "resp", "host": "127.0.0.1", "port": port})
        deadline = time.monotonic() + 20
        while self.bench("-q", *SMALL, adapter=adapter).returncode != 0:
            self.assertLess(time.monotonic(), deadline)
        run = subprocess.Popen([PROGRAM, "bench", "l2", *SMALL, "--l2-adapter", adapter, "--only",
                                "store", "--rounds", "2000", "--format", "json"],
                               stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        for _ in range(6):
            run.stderr.readline()
        server.kill()
        stdout, _ = run.communicate(timeout=50)
        self.assertEqual(run.returncode, 1)
        self.assertIn(f"127.0.0.1:{port}",
                      json.loads(stdout)["metrics"]["results"]["first_problem"])

    # ---- checks ----

    def failed_checks(self, adapter):
        done = self.bench("--check", "--data-size-kb", "64", "--format", "json", adapter=adapter)
        checks = json.loads(done.stdout)["checks"]
        failed = {check["id"].removeprefix("l2/") for check in checks
                  if check["outcome"] not in ("pass", "skip")}
        self.assertEqual(done.returncode, 1 if failed else 0)
        return failed, {check["id"].removeprefix("l2/") for check in checks}

    def test_good_stores_pass(self):
        failed, checks = self.failed_checks(self.fs)
        self.assertEqual(failed, set())
        self.assertEqual(self.files(), [], "checks leave nothing")
        self.assertEqual(set().union(*FOUND_BY.values()), checks, "each check finds some defect")
        device = self.folder / "device"
        with open(device, "wb") as file:
            file.truncate(32 << 20)
        self.assertEqual(self.failed_checks(json.dumps(
            {"type": "raw_block", "device_path": str(device), "slot_bytes": 69632,
             "meta_total_bytes": 1 << 20, "use_odirect": False}))[0], set())

    def test_defects_are_found(self):
        for defect, found_by in FOUND_BY.items():
            with self.subTest(defect=defect):
                store = str(self.folder / defect)
                failed, _ = self.failed_checks(json.dumps(
                    {"type": "defective", "defect": defect,
                     "inner": {"type": "fs", "base_path": store}}))
                self.assertEqual(failed, found_by)

    # ---- flame graphs ----

    def test_a_flame_graph(self):
        """By perf itself; the rest of what there is about flame graphs is in flamegraph.py."""
        picture = self.folder / "flames.svg"
        arguments = ["-q", "--rounds", "20", "--flamegraph", "on", "--flamegraph-output",
                     str(picture)]
        if shutil.which("perf") is None:
            self.skipTest("perf is not installed")
        done = self.bench(*arguments)
        if "perf ended at once" in done.stderr or "perf may not be used" in done.stderr:
            self.skipTest(done.stderr)
        self.assertEqual(done.returncode, 0, done.stderr)
        root = xml.etree.ElementTree.parse(picture).getroot()
        self.assertTrue(root.tag.endswith("svg"))
        self.assertIn("kvconform (", picture.read_text())

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
                (["--check", "--l1-align-bytes", "24", "--data-size-kb", "3"], ["power of two"]),
                (["--output", "/dev/null/x"], ["--output"])]:
            with self.subTest(arguments=arguments):
                self.expect_usage(*arguments, words=words)

    def test_adapters_that_are_none(self):
        for adapter, words in [
                ("{", ["--l2-adapter", "no JSON"]),
                ('{"type":"fs"}', ["--l2-adapter: base_path", "a folder"]),
                ('{"type":"defective","defect":"lost-store","inner":{"type":"fs"}}',
                 ["--l2-adapter: inner: base_path"]),
                ('{"type":"defective","defect":"lost","inner":{"type":"mock","max_size_gb":1,'
                 '"mock_bandwidth_gb":1}}', ["defect", "lost-store"]),
                ('{"type":"fs","base_path":"/x","basepath":1}', ["basepath", "use_odirect"]),
                ('{"type":"fs","base_path":"/x","use_odirect":2}', ["true or false"])]:
            with self.subTest(adapter=adapter):
                self.expect_usage("-q", words=words, adapter=adapter)
        self.expect_usage(words=["--l2-adapter", "L2_ADAPTER_JSON"], environment={})


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
