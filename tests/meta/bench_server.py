#!/usr/bin/env python3
"""`kvconform bench server` as somebody uses it, against the mock: what it measures, when it says that a run is
not valid, and what it leaves behind.

usage: bench_server.py KVCONFORM STAND_IN_DRIVER [TEST…]
"""
import json
import os
import pathlib
import pty
import re
import signal
import socket
import subprocess
import sys
import tempfile
import termios
import threading
import time
import unittest
import urllib.request

from leftovers import segments

PROGRAM, DRIVER = os.path.abspath(sys.argv[1]), os.path.abspath(sys.argv[2])
LIMIT = 60
SHAPE = "(2,64,16,2,8):float16:2"  # 2 chunks of 512 tokens: 64 KiB a request
MLA = "(1,64,16,1,16):bfloat16:2"
GROUPS = "(1,64,16,1,16):float16:2;(2,64,16,2,8):float16:3"
# Mode, and what the mock has to be for it: the three paths.
PATHS = {"engine_driven": ("engine_driven", []), "engine_driven_inline": ("engine_driven", ["--no-pool"]),
         "lmcache_driven": ("lmcache_driven", [])}
MADE = {  # what each workload makes of each operation, for 20 requests
    "pair": {"cold_lookup": 20, "cold_store": 20, "warm_lookup": 20, "warm_retrieve": 20},
    "store": {"cold_store": 20},
    "retrieve": {"warm_lookup": 20, "warm_retrieve": 20},
    "lookup": {"cold_lookup": 10, "warm_lookup": 10},
    "prefix": {"warm_lookup": 20, "warm_retrieve": 20, "cold_store": 20},
}
LOADS = ([], ["--clients", 3, "--workload", "prefix"], ["--rate", 50, "--clients", 2],
         ["--transfer-mode", "lmcache_driven"], ["--transfer-mode", "lmcache_driven", "--clients", 4, "--tp-size", 2],
         ["--ramp", "warm_lookup.p50<=1s", "--ramp-step", 0.1, "--rate", 200])
OPERATIONS = ("cold_lookup", "cold_store", "warm_lookup", "warm_retrieve")
PARTS = {"encode", "wait", "gather", "scatter", "fill", "verify", "settle", "rest", "other"}


class BenchServer(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def mock(self, *options):
        """A strict one: it says what a client does wrong."""
        mock = subprocess.Popen([PROGRAM, "mock", "--bind", "tcp://127.0.0.1:0", "--http", "127.0.0.1:0",
                                 "--strict", *options], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        # Asked, not killed: it removes its pool. One that a failed test has left stopped goes on first.
        self.addCleanup(lambda: (mock.terminate(), mock.send_signal(signal.SIGCONT), mock.communicate()))
        mock.url, mock.http = mock.stdout.readline().strip(), mock.stdout.readline().strip()
        return mock

    def command(self, mock, *options, shape=SHAPE):
        return [PROGRAM, "bench", "server", "--mode", "cpu", "--rpc-url", mock.url, "--url", mock.http,
                "--dialect", "0.5.6", "--kvcache-shape-spec", shape, "--interval", "0", *map(str, options)]

    def bench(self, mock, *options, status=0, shape=SHAPE, env=None):
        """The JSON report of a run that ends with this status; its other report is in self.text."""
        file = self.folder / "report.json"
        done = subprocess.run([*self.command(mock, *options, shape=shape), "--format", "json", "--output", file],
                              capture_output=True, text=True, timeout=LIMIT, env={**os.environ, **(env or {})})
        self.assertEqual(done.returncode, status, done.stdout[-3000:] + done.stderr[-2000:])
        self.assertEqual(done.stdout, file.read_text())
        self.stderr = done.stderr
        return json.loads(done.stdout)

    def test_nobody_at_the_default_addresses(self):
        """With a server elsewhere, the HTTP address is only a guess; with none, the message says whose it was."""
        mock = self.mock("--no-http")
        done = subprocess.run([PROGRAM, "bench", "server", "--rpc-url", mock.url, "--mode", "cpu", "-q", "--end", "1",
                               "--interval", "0", "--kvcache-shape-spec", SHAPE], capture_output=True, text=True,
                              timeout=LIMIT)
        self.assertEqual(done.returncode, 0, done.stderr)
        with socket.socket() as taken:
            try:
                taken.bind(("127.0.0.1", 5555))
            except OSError:
                self.skipTest("somebody is at port 5555")
        done = subprocess.run([PROGRAM, "bench", "server", "--mode", "cpu"], capture_output=True, text=True,
                              timeout=LIMIT)
        self.assertEqual(done.returncode, 3, done.stderr)
        for words in ("tcp://localhost:5555", "--rpc-url", "--launch", "kvconform mock"):
            self.assertIn(words, done.stderr)

    def expect_clean(self, mock):
        """Nobody is registered any more, and the client did nothing wrong."""
        status = json.load(urllib.request.urlopen(mock.http + "/status", timeout=10))
        self.assertNotIn("kvconform-bench", json.dumps(status))
        mock.terminate()
        complaints = mock.communicate(timeout=10)[1]
        self.assertEqual(complaints, "")

    def expect_consistent(self, report):
        """The parts of a report are about the same samples."""
        measured, metrics = report["measured"], report["metrics"]
        for operation in OPERATIONS:
            if operation not in metrics:
                self.assertNotIn(operation, measured["histograms"])
                continue
            figures = {name.removeprefix(operation + "_"): value for name, value in metrics[operation].items()}
            buckets = measured["histograms"][operation]
            self.assertEqual([bound for bound, _ in buckets], sorted({bound for bound, _ in buckets}))
            self.assertEqual(sum(count for _, count in buckets), figures["count"])
            seconds = [second.get(operation, {"count": 0}) for second in measured["time_series"]]
            self.assertEqual(sum(cell["count"] for cell in seconds), figures["count"])
            samples = sorted(bound for bound, count in buckets for _ in range(count))
            for name, share in (("p50", 500), ("p90", 900), ("p95", 950), ("p99", 990), ("p99.9", 999)):
                rank = (len(samples) * share + 999) // 1000
                self.assertAlmostEqual(figures[name], min(samples[rank - 1] / 1e6, figures["max"]), delta=0.001)
            self.assertLessEqual(figures["min"], figures["mean"])
            self.assertLessEqual(figures["mean"], figures["max"])
        self.assertEqual([second["second"] for second in measured["time_series"]],
                         list(range(len(measured["time_series"]))))
        spent = dict(measured["time_spent"])
        whole = spent.pop("whole")
        self.assertEqual(set(spent), PARTS)
        self.assertAlmostEqual(sum(spent.values()), whole, delta=1e-6)
        self.assertGreaterEqual(spent["other"], 0)
        self.assertLess(spent["other"], 0.1 * whole + 0.02)

    # ---- workloads and paths ----

    def test_every_workload_on_every_path(self):
        for path, (mode, options) in PATHS.items():
            for workload, made in MADE.items():
                with self.subTest(path=path, workload=workload):
                    mock = self.mock(*options)
                    report = self.bench(mock, "--transfer-mode", mode, "--workload", workload, "--clients", 3,
                                        "--end", 20, "--warmup", 4)
                    results = report["metrics"]["results"]
                    self.assertEqual(report["metrics"]["config"]["transfer_path"], path)
                    self.assertTrue(results["valid"])
                    self.assertTrue(results["server_answers"])
                    self.assertEqual(results["total_requests"], 20)
                    self.assertEqual({o: report["metrics"][o][o + "_count"] for o in OPERATIONS
                                      if o in report["metrics"]}, made)
                    self.assertGreater(results["bytes_verified"], 0)
                    self.assertEqual(results["read_back"] > 0, workload in ("store", "lookup", "prefix"))
                    self.expect_consistent(report)
                    self.expect_clean(mock)

    def test_shapes_and_ranks(self):
        for mode, shape, options in (("engine_driven", MLA, ["--tp-size", 2]), ("lmcache_driven", MLA, ["--tp-size", 2]),
                                     ("engine_driven", SHAPE, ["--tp-size", 2]),
                                     ("lmcache_driven", SHAPE, ["--tp-size", 2]),
                                     ("engine_driven", SHAPE, ["--tp-size", 2, "--use-mla"]),
                                     ("lmcache_driven", GROUPS, [])):
            for workload in ("pair", "prefix"):
                with self.subTest(mode=mode, shape=shape, options=options, workload=workload):
                    mock = self.mock()
                    report = self.bench(mock, "--transfer-mode", mode, "--workload", workload, "--clients", 2,
                                        "--end", 8, *options, shape=shape)
                    self.assertTrue(report["metrics"]["results"]["valid"])
                    self.expect_clean(mock)

    def test_caches_on_a_gpu(self):
        """With a driver library that stands in for NVIDIA's, and says so."""
        os.environ["KVCONFORM_CUDA_DRIVER"] = DRIVER
        self.addCleanup(os.environ.pop, "KVCONFORM_CUDA_DRIVER")
        for path, (mode, options) in PATHS.items():
            for workload in ("pair", "prefix", "store"):
                with self.subTest(path=path, workload=workload):
                    report = self.bench(self.mock(*options), "--mode", "gpu", "--transfer-mode", mode, "--workload",
                                        workload, "--clients", 2, "--end", 6)
                    config = report["metrics"]["config"]
                    self.assertEqual((config["device"], config["transfer_path"]), ("stand-in driver, no GPU", path))
        report = self.bench(self.mock("--defect", "kv-swapped"), "--mode", "gpu", "--end", 2, status=1)
        self.assertEqual(report["metrics"]["results"]["checksum_fail"], 2)

    def test_no_gpu(self):
        done = subprocess.run([PROGRAM, "bench", "server", "--end", "1"], capture_output=True, text=True,
                              timeout=LIMIT, env={**os.environ, "KVCONFORM_CUDA_DRIVER": "/nowhere.so"})
        self.assertEqual((done.returncode, done.stdout), (2, ""))
        self.assertIn("--mode cpu needs no GPU", done.stderr)

    def test_bytes_and_tokens(self):
        """Two ranks of 4 layers x 2 x 512 tokens x 16 elements of 2 bytes."""
        report = self.bench(self.mock(), "--tp-size", 2, "--end", 5, shape="(2,64,16,2,8):float16:4")
        measured, metrics = report["measured"], report["metrics"]
        self.assertEqual(measured["request_bytes"], 2 * 4 * 2 * 512 * 16 * 2)
        self.assertEqual(metrics["results"]["bytes_verified"], 5 * measured["request_bytes"])
        store = metrics["cold_store"]
        self.assertAlmostEqual(store["cold_store_tokens_per_second"] * measured["seconds"], 5 * 512, delta=1)
        self.assertAlmostEqual(store["cold_store_gigabytes_per_second"] * measured["seconds"] * 1e9,
                               5 * measured["request_bytes"], delta=1)
        self.assertAlmostEqual(store["cold_store_speed"] * store["cold_store_mean"] * 1e6,
                               measured["request_bytes"], delta=0.02 * measured["request_bytes"])
        self.assertAlmostEqual(store["cold_store_memcpy_share"] * measured["memcpy_gigabytes_per_second"],
                               store["cold_store_speed"], delta=1e-6)

    def test_a_mix(self):
        mock = self.mock()
        report = self.bench(mock, "--workload", "store:1,retrieve:4", "--clients", 2, "--end", 100)
        stored = report["metrics"]["cold_store"]["cold_store_count"]
        self.assertEqual(stored + report["metrics"]["warm_retrieve"]["warm_retrieve_count"], 100)
        self.assertTrue(8 <= stored <= 35, stored)
        self.expect_clean(mock)

    def test_the_same_seed_makes_the_same_tokens(self):
        mock = self.mock()
        self.bench(mock, "--seed", 5, "--end", 2)
        report = self.bench(mock, "--seed", 5, "--end", 2, status=1)
        self.assertEqual(report["metrics"]["results"]["cold_hits"], 2)
        self.assertTrue(self.bench(mock, "--seed", 6, "--end", 2)["metrics"]["results"]["valid"])

    # ---- open loop ----

    def test_a_rate_is_kept(self):
        mock = self.mock()
        report = self.bench(mock, "--workload", "lookup", "--rate", 100, "--duration", 2, "--clients", 2)
        measured = report["measured"]
        self.assertEqual(measured["requests"], 200)
        self.assertAlmostEqual(measured["rate_reached"], 100, delta=10)
        self.assertEqual(sum(count for _, count in measured["histograms"]["lateness"]), 200)
        self.assertTrue(2 <= len(measured["time_series"]) <= 4)
        self.expect_consistent(report)
        self.expect_clean(mock)

    def stall(self, mock, after, seconds):
        """Stops the mock for a while: what a server does that stalls."""
        def stop():
            time.sleep(after)
            mock.send_signal(signal.SIGSTOP)
            time.sleep(seconds)
            mock.send_signal(signal.SIGCONT)
        thread = threading.Thread(target=stop)
        thread.start()
        self.addCleanup(thread.join)

    def slow(self, report, operation="warm_lookup"):
        """Operations that took 100 ms or longer."""
        return sum(count for bound, count in report["measured"]["histograms"][operation] if bound >= 100e6)

    def test_latency_counts_from_when_a_request_was_due(self):
        """100 requests a second, one client: a stall of 1 s delays about 90 of them by 100 ms and more. In
        closed loop only one request meets it."""
        options = ["--workload", "retrieve", "--timeout", "10"]
        mock = self.mock()
        self.stall(mock, 0.7, 1)
        report = self.bench(mock, *options, "--rate", 100, "--duration", 3)
        self.assertGreater(self.slow(report), 60)
        self.assertGreater(self.slow(report, "warm_retrieve"), 60)
        self.assertGreater(report["metrics"]["warm_lookup"]["warm_lookup_p90"], 100)
        mock = self.mock()
        self.stall(mock, 0.7, 1)
        report = self.bench(mock, *options, "--interval", "0.01", "--duration", 3)
        self.assertLessEqual(self.slow(report) + self.slow(report, "warm_retrieve"), 20)

    def test_a_rate_beyond_the_server(self):
        report = self.bench(self.mock(), "--workload", "lookup", "--rate", 1e6, "--duration", 0.3, status=1)
        results = report["metrics"]["results"]
        self.assertGreater(results["unserved"], 0)
        self.assertIn("never sent", results["verdict"])
        self.assertNotIn("warm_lookup", report["metrics"])
        self.assertNotIn("measured", report)

    def test_a_ramp(self):
        mock = self.mock()
        report = self.bench(mock, "--workload", "lookup", "--ramp", "warm_lookup.p50<=1s", "--ramp-step", 0.1,
                            "--rate", 1000, "--clients", 2)
        ramp = report["ramp"]
        decided = [step for step in ramp["steps"] if step["decided"]]
        met = [step["rate_asked"] for step in decided if step["met"]]
        others = [step["rate_asked"] for step in decided if not step["met"]]
        self.assertEqual(max(met), ramp["highest_rate"])
        self.assertGreater(min(others), max(met))
        self.assertLess(min(others), 1.06 * max(met))
        self.assertTrue(all(step["reason"] for step in ramp["steps"] if not step["met"]))
        self.expect_tries(ramp["steps"])
        self.assertEqual(report["measured"]["rate_asked"], ramp["highest_rate"])
        self.assertIn("meets the limit", self.stderr)
        self.expect_consistent(report)
        self.expect_clean(mock)

    def expect_tries(self, steps):
        """A rate is tried until one try met the limit before any did not, or until two agree."""
        while steps:
            tries = [step for step in steps if step["rate_asked"] == steps[0]["rate_asked"]]
            self.assertEqual([step["try"] for step in tries], list(range(1, len(tries) + 1)))
            self.assertEqual([step["decided"] for step in tries], [False] * (len(tries) - 1) + [True])
            last = tries[-1]["met"]
            self.assertEqual(sum(step["met"] == last for step in tries), 1 if len(tries) == 1 else 2)
            self.assertTrue(last or len(tries) > 1)
            steps = steps[len(tries):]

    def test_a_neighbour_during_a_ramp(self):
        """What stalls the server once does not decide. The rest of the search is not waited for."""
        mock, file = self.mock(), self.folder / "report.json"
        bench = subprocess.Popen([*self.command(mock, "--workload", "lookup", "--ramp", "warm_lookup.max<=300ms",
                                                "--ramp-step", 2, "--rate", 20, "--timeout", 10),
                                  "--format", "json", "--output", file], stdout=subprocess.DEVNULL,
                                 stderr=subprocess.PIPE, text=True)
        self.stall(mock, 1.2, 0.6)
        while "reached" not in (line := bench.stderr.readline()):
            self.assertNotEqual(line, "")
        self.assertIn("once more", line)
        self.assertIn("meets the limit; once more", bench.stderr.readline())
        bench.send_signal(signal.SIGINT)
        bench.communicate(timeout=LIMIT)
        self.assertEqual(bench.returncode, 130)
        steps = json.loads(file.read_text())["ramp"]["steps"][:2]
        self.assertEqual([(step["rate_asked"], step["try"], step["met"], step["decided"]) for step in steps],
                         [(20, 1, False, False), (20, 2, True, False)])

    def test_a_ramp_that_finds_nothing(self):
        report = self.bench(self.mock(), "--workload", "lookup", "--ramp", "warm_lookup.p50<=0.1us", "--ramp-step",
                            0.05, "--rate", 20000, status=1)
        self.assertNotIn("highest_rate", report["ramp"])
        self.assertNotIn("warm_lookup", report["metrics"])
        self.assertIn("no rate", report["metrics"]["results"]["verdict"])

    # ---- runs that are not valid ----

    def test_bytes_that_differ(self):
        for defect, mode in (("kv-swapped", "lmcache_driven"), ("layers-swapped", "lmcache_driven"),
                             ("blocks-rotated", "lmcache_driven"), ("last-layer-lost", "lmcache_driven"),
                             ("slots-reversed", "engine_driven")):
            for workload in ("pair", "retrieve", "store", "lookup"):
                with self.subTest(defect=defect, workload=workload):
                    report = self.bench(self.mock("--defect", defect), "--transfer-mode", mode, "--workload",
                                        workload, "--clients", 2, "--end", 4, status=1)
                    results = report["metrics"]["results"]
                    self.assertGreater(results["checksum_fail"], 0)
                    self.assertIn("CHECKSUM MISMATCH", results["first_problem"])
                    self.assertFalse(results["valid"])
                    self.assertNotIn("measured", report)
                    self.assertFalse(set(OPERATIONS) & set(report["metrics"]))

    def test_what_is_stored_is_lost(self):
        for workload, count in (("pair", "warm_misses"), ("store", "read_back_evicted")):
            with self.subTest(workload=workload):
                report = self.bench(self.mock("--defect", "store-lost"), "--transfer-mode", "lmcache_driven",
                                    "--workload", workload, "--end", 1, status=1)
                self.assertGreater(report["metrics"]["results"][count], 0)
                self.assertNotIn("measured", report)

    def test_a_cache_that_is_too_small(self):
        """1 MiB holds 16 of the 60 requests."""
        report = self.bench(self.mock("--pool-size", "1M"), "--workload", "retrieve", "--prepared", 60, "--end", 200,
                            status=1)
        self.assertIn("--prepared", report["metrics"]["results"]["first_problem"])
        report = self.bench(self.mock("--pool-size", "1M"), "--workload", "store", "--end", 60)
        results = report["metrics"]["results"]
        self.assertEqual(results["read_back"] + results["read_back_evicted"], 60)
        self.assertGreater(results["read_back"], 0)
        self.assertGreater(results["read_back_evicted"], 0)

    def test_hits_that_cannot_be(self):
        for workload in ("pair", "lookup", "prefix"):
            with self.subTest(workload=workload):
                report = self.bench(self.mock("--defect", "lookup-all-hits"), "--workload", workload, "--end", 4,
                                    status=1)
                results = report["metrics"]["results"]
                self.assertGreater(results["cold_hits"] + results["warm_misses"], 0)
                self.assertIn("never stored", results["first_problem"])

    def test_replies_that_nobody_asked_for(self):
        for defect in ("reply-twice", "transfer-reply-twice", "stray-reply"):
            report = self.bench(self.mock("--defect", defect), "--clients", 2, "--end", 4, status=1)
            results = report["metrics"]["results"]
            self.assertGreater(results["strays"], 0)
            self.assertEqual((results["errors"], results["verdict"]),
                             (0, "not valid: replies came twice, or to nothing"))
            self.assertNotIn("measured", report)

    def test_ranks_that_cannot_leave(self):
        report = self.bench(self.mock("--defect", "unregister-nil"), "--tp-size", 2, "--end", 1, status=1)
        self.assertEqual(report["metrics"]["results"]["errors"], 2)
        self.assertIn("UNREGISTER", report["metrics"]["results"]["first_problem"])

    def test_a_server_that_dies(self):
        """Killed in the middle of whatever there is: lost, no figures, nothing of the bench's left."""
        for options in LOADS:
            with self.subTest(options=options):
                mock, file = self.mock(), self.folder / "report.json"
                bench = subprocess.Popen([*self.command(mock, *options), "--format", "json", "--output", file],
                                         stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
                time.sleep(0.7)
                mock.kill()
                err = bench.communicate(timeout=LIMIT)[1]
                self.assertEqual(bench.returncode, 3, err)
                self.assertIn("does not answer any more", err)
                self.expect_no_segments_of(bench)
                report = json.loads(file.read_text())
                results = report["metrics"]["results"]
                self.assertEqual((results["lost"], results["valid"], results["server_answers"]), (True, False, False))
                self.assertFalse(set(OPERATIONS) & set(report["metrics"]))
                self.assertNotIn("measured", report)

    def test_a_server_that_dies_in_words(self):
        mock = self.mock()
        bench = subprocess.Popen(self.command(mock), stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        time.sleep(0.5)
        mock.kill()
        out, _ = bench.communicate(timeout=LIMIT)
        self.assertIn("No figures", out)
        self.assertTrue(out.rstrip().endswith("NO"), out)

    def test_nobody_there(self):
        done = subprocess.run([PROGRAM, "bench", "server", "--mode", "cpu", "--rpc-url", "tcp://127.0.0.1:9"],
                              capture_output=True, text=True, timeout=LIMIT)
        self.assertEqual((done.returncode, done.stdout), (3, ""))
        self.assertIn("127.0.0.1:9", done.stderr)

    # ---- interruptions ----

    def interrupt(self, mock, number, *options):
        file = self.folder / "report.json"
        bench = subprocess.Popen([*self.command(mock, *options), "-q", "--format", "json", "--output", file],
                                 stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        time.sleep(0.7)
        bench.send_signal(number)
        out, err = bench.communicate(timeout=LIMIT)
        self.assertEqual((bench.returncode, out, err), (128 + number, "", ""))
        self.expect_no_segments_of(bench)
        return json.loads(file.read_text())

    def expect_no_segments_of(self, bench):
        self.assertEqual([name for name in segments() if "-%d-" % bench.pid in name], [])

    def test_interrupted(self):
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            for options in LOADS:
                with self.subTest(number=number, options=options):
                    mock = self.mock()
                    report = self.interrupt(mock, number, *options)
                    results = report["metrics"]["results"]
                    self.assertEqual((results["interrupted"], results["valid"]), (True, False))
                    self.assertIn("interrupted", results["verdict"])
                    if "ramp" not in report:  # which may not have found a rate yet
                        self.assertGreater(report["measured"]["requests"], 0)
                    self.expect_consistent(report)
                    self.expect_clean(mock)

    def test_goes_on_below_nohup(self):
        mock = self.mock()
        bench = subprocess.Popen([*self.command(mock, "--end", 4), "--interval", "0.2", "-q"],
                                 preexec_fn=lambda: signal.signal(signal.SIGHUP, signal.SIG_IGN))
        time.sleep(0.5)
        bench.send_signal(signal.SIGHUP)
        self.assertEqual(bench.wait(LIMIT), 0)

    def test_interrupted_while_the_server_is_stuck(self):
        """The first signal waits for the reply under way, the second one does not."""
        mock = self.mock()
        bench = subprocess.Popen(self.command(mock, "--timeout", 50), stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                 text=True)
        time.sleep(0.4)
        mock.send_signal(signal.SIGSTOP)
        time.sleep(0.2)
        bench.send_signal(signal.SIGINT)
        time.sleep(0.5)
        self.assertIsNone(bench.poll())
        bench.send_signal(signal.SIGINT)
        out, err = bench.communicate(timeout=10)
        self.assertEqual(bench.returncode, 130, out + err)
        self.assertIn("not valid: interrupted", out)
        mock.send_signal(signal.SIGCONT)

    # ---- the command line ----

    def test_flags_of_the_reference_client(self):
        """Every flag of `lmcache bench server` is taken."""
        mock = self.mock()
        report = self.bench(mock, "--transfer-mode", "auto", "--tp-size", "1", "--use-mla", "--num-tokens", "300",
                            "--num-blocks", "64", "--block-size", "16", "--start", "3", "--end", "5", "--flamegraph",
                            "off", "--flamegraph-mode", "gil", "--flamegraph-scripts-dir", "/nowhere",
                            shape="(2,0,0,2,8):float16:2")
        self.assertEqual(report["metrics"]["results"]["total_requests"], 2)
        self.assertIn("[seq=4] CHECKSUM MATCH OK", self.stderr)

    def test_wrong_usage(self):
        for options, says in ((["--workload", "stores"], "--workload"), (["--workload", "store:0"], "--workload"),
                              (["--clients", "0"], "--clients"), (["--clients", "257"], "--clients"),
                              (["--rate", "0"], "--rate"), (["--rate", "nan"], "--rate"),
                              (["--ramp", "p99<20"], "--ramp"), (["--ramp", "cold_stores.p99<=20"], "cold_store"),
                              (["--ramp", "warm_retrieve.p99<=20", "--workload", "store"], "--ramp"),
                              (["--ramp", "cold_store.p99<=20", "--end", "3"], "--end"),
                              (["--ramp", "cold_store.p99<=20", "--duration", "3"], "--duration"),
                              (["--end", "0"], "--end"), (["--prepared", "0"], "--prepared"),
                              (["--flamegraph", "yes"], "--flamegraph")):
            with self.subTest(options=options):
                done = subprocess.run([PROGRAM, "bench", "server", "--mode", "cpu", *options], capture_output=True,
                                      text=True, timeout=LIMIT)
                self.assertEqual((done.returncode, done.stdout), (2, ""))
                self.assertEqual(len(done.stderr.splitlines()), 1, done.stderr)
                self.assertIn(says.lower(), done.stderr.lower())

    def test_groups_that_a_mode_does_not_carry(self):
        done = subprocess.run(self.command(self.mock(), "--end", 1, shape=GROUPS), capture_output=True, text=True,
                              timeout=LIMIT)
        self.assertEqual((done.returncode, done.stdout), (2, ""))
        self.assertIn("--transfer-mode lmcache_driven", done.stderr)

    def test_requests_too_short_to_share(self):
        done = subprocess.run(self.command(self.mock(), "--workload", "prefix", "--num-tokens", 300, "--end", 1),
                              capture_output=True, text=True, timeout=LIMIT)
        self.assertEqual(done.returncode, 2)
        self.assertIn("--shared-tokens", done.stderr)

    def test_quiet(self):
        done = subprocess.run(self.command(self.mock(), "--end", 1, "-q"), capture_output=True, text=True,
                              timeout=LIMIT)
        self.assertEqual((done.returncode, done.stdout, done.stderr), (0, "", ""))

    def test_a_report_names_no_machine(self):
        report = self.bench(self.mock(), "--end", 1, env={"KVC_SECRET": "xyzzy-secret"})
        text = json.dumps(report)
        self.assertNotIn("xyzzy-secret", text)
        self.assertNotIn(os.uname().nodename, text)
        machine = report["machine"]
        self.assertEqual(machine["cores"], len(os.sched_getaffinity(0)))
        self.assertIn(os.uname().release, machine["kernel"])
        memory = int(re.search(r"MemTotal:\s+(\d+)", pathlib.Path("/proc/meminfo").read_text())[1]) * 1024
        self.assertAlmostEqual(machine["memory_bytes"], memory, delta=0.02 * memory)

    def test_a_terminal(self):
        """One line, written again and again, and gone at the end."""
        mock = self.mock()
        ours, theirs = pty.openpty()
        termios.tcsetwinsize(theirs, (24, 120))
        bench = subprocess.Popen(self.command(mock, "--duration", 1), stdout=subprocess.PIPE, stderr=theirs,
                                 text=True)
        os.close(theirs)
        text = b""
        try:
            while data := os.read(ours, 4096):
                text += data
        except OSError:  # the other side is closed
            pass
        os.close(ours)
        out, _ = bench.communicate(timeout=LIMIT)
        self.assertEqual(bench.returncode, 0, out)
        text = text.decode()
        self.assertGreater(text.count("\r\x1b[K"), 3)
        self.assertIn("measuring", text)
        self.assertIn("warm_retrieve", text)
        self.assertNotIn("[seq=", text)
        self.assertTrue(all(len(line) < 120 for line in text.split("\r\x1b[K")[1:]))
        self.assertTrue(text.endswith("\r\x1b[K"), text[-200:])


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], *sys.argv[3:]])
