#!/usr/bin/env python3
"""`kvconform compare` as somebody uses it: exit statuses, what is a regression, and what is refused.

usage: compare.py KVCONFORM [TEST…]
"""
import json
import os
import subprocess
import sys
import tempfile
import unittest

PROGRAM = os.path.abspath(sys.argv[1])


def bench(p50=10.0, p99=20.0, shape="(2,64,16,2,8):float16:2", **config):
    """A report of `bench server` with one operation."""
    return {"title": "Server Bench Result", "schema_version": 1, "suite_version": "0.1.0", "metrics": {
        "config": {"rpc_url": "tcp://h:1", "kvcache_shape_spec": shape, "transfer_path": "engine_driven",
                   "dialect": "0.5.6", "num_tokens": 512, "seed": 7, **config},
        "results": {"total_requests": 3, "valid": True, "interrupted": False, "first_problem": ""},
        "warm_retrieve": {"warm_retrieve_count": 3, "warm_retrieve_p50": p50, "warm_retrieve_p99": p99}}}


def transfer(*ratios, interrupted=False, **members):
    """A report of `bench transfer`: gather by one thread, by two, …"""
    return {"schema": 1, "kind": "bench-transfer", "device": "cpu", "device_is": "", "clock": "cpu", "repeat": 9,
            "interrupted": interrupted, "results": [
                {"layout": "nhd", "dtype": "float16", "num_heads": 8, "head_size": 128, "block_size": 16,
                 "num_layers": 32, "chunk_tokens": 256, "chunks": 2, "bytes": 67108864, "threads": 1 + i,
                 "block_order": "shuffled", "operation": "gather", "version": "fast", "baseline": "memcpy",
                 "gigabytes_per_second": 10 * ratio, "baseline_gigabytes_per_second": 10.0, "ratio": ratio,
                 "ratios": [ratio], "ratio_min": ratio, **members} for i, ratio in enumerate(ratios)]}


def engine(ttft=10.0, decode=50.0, valid=True, **settings):
    """A report of `bench engine` with a few of its figures."""
    return {"title": "Engine Benchmark Result", "schema_version": 1, "suite_version": "0.1.0",
            "config": {"engine_url": "http://h:1", "model": "m", "workload": "long-doc-qa", "seed": 42, "output_dir": ".",
                       "export_csv": True, "settings": {"seed": 42, "ldqa_document_length": 400, **settings}},
            "results": {"valid": valid, "run": "valid" if valid else "not valid: requests failed",
                        "failures": [] if valid else [{"count": 1, "reason": "HTTP 500"}], "total_requests": 4,
                        "calibration_problem": "", "p50_ttft_ms": ttft, "p99_ttft_ms": 2 * ttft,
                        "p50_decode_speed": decode, "p50_inter_token_ms": None, "request_throughput": 2.5}}


def l2(store=10.0, load=5.0, place="/a", **config):
    """A report of `bench l2`, all three operations."""
    operations = [{"operation": name, "rounds": 3, "duration_p50_ms": ms, "duration_p99_ms": 2 * ms,
                   "throughput_avg_mbps": 0 if name == "Lookup" else 1000 / ms, "ops_per_sec_avg": 32000 / ms}
                  for name, ms in (("Store", store), ("Lookup", 1.0), ("Load", load))]
    return {"title": "L2 Adapter Benchmark Result", "schema_version": 1, "suite_version": "0.1.0", "metrics": {
        "config": {"adapter": "FSL2Adapter", "l2_adapter_json": '{"type":"fs","base_path":"%s"}' % place,
                   "num_keys": 32, **config},
        **{"op_%d" % i: operation for i, operation in enumerate(operations)},
        "results": {"run": "valid", "first_problem": "", "valid": True}}}


def run(outcomes, **members):
    """A report of `run`: {id: outcome}."""
    return {"schema": 1, "kind": "run",
            "run": {"dialect": "0.5.6", "stand_in": False, "server_version": "0.5.6", **members},
            "summary": {"interrupted": False, "target_lost": False},
            "results": [{"id": i, "outcome": o, **({"message": "it differs"} if o == "fail" else {})}
                        for i, o in outcomes.items()]}


class Compare(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)

    def file(self, name, content):
        path = os.path.join(self.folder.name, name)
        with open(path, "wb") as file:
            file.write(content if isinstance(content, bytes) else json.dumps(content).encode())
        return path

    def call(self, *arguments):
        return subprocess.run([PROGRAM, "compare", *arguments], capture_output=True, text=True, timeout=60)

    def compare(self, old, new, *options, status):
        """Compares one report with one, or lists of them."""
        arguments = []
        for side, reports in (("old", old), ("new", new)):
            for i, report in enumerate(reports if isinstance(reports, list) else [reports]):
                arguments += ["--" + side, self.file("%s%d.json" % (side, i), report)]
        done = self.call(*arguments, *options)
        self.assertEqual(done.returncode, status, done.stdout + done.stderr)
        return done

    def refused(self, *arguments, status=2, says=()):
        done = self.call(*arguments)
        self.assertEqual(done.returncode, status, done.stdout + done.stderr)
        self.assertEqual(done.stderr.count("\n"), 1, done.stderr)
        self.assertEqual(done.stdout, "")
        for text in says:
            self.assertIn(text, done.stderr)


class Usage(Compare):
    def test_sides(self):
        a = self.file("a.json", bench())
        self.refused(says=["which reports"])
        self.refused(a, says=["which reports"])
        self.refused(a, a, a)
        self.refused("--old", a, says=["no --new"])
        self.refused("--new", a, says=["no --old"])
        self.refused("--old", a, "--new", a, a, says=["either"])
        self.refused(*["--old", a] * 33, "--new", a, says=["at most 32"])
        self.assertEqual(self.call(a, a).returncode, 0)

    def test_fail_if(self):
        a = self.file("a.json", bench())
        self.refused(a, a, "--fail-if", "warm_retrieve.p99", says=["--fail-if 'warm_retrieve.p99', character 18"])
        self.refused(a, a, "--fail-if", "warm_retreive.p99 > 1", says=["nearest: warm_retrieve.p99"])
        self.refused(a, a, "--fail-if", "*.p51 > 1", says=["no figure '*.p51'"])

    def test_output_that_cannot_be(self):
        a = self.file("a.json", bench())
        done = self.call(a, a, "--output", "/nonexistent/x")
        self.assertEqual(done.returncode, 2)
        self.assertIn("--output: cannot write", done.stderr)


class Files(Compare):
    def test_what_is_no_report(self):
        good = self.file("good.json", bench())
        whole = json.dumps(bench()).encode()
        for name, content, says in (
                ("empty", b"", "line 1: is not JSON"),
                ("truncated", whole[:len(whole) // 2], "is not JSON"),
                ("text", b"hello\n", "is not JSON"),
                ("binary", bytes(range(256)), "is not JSON"),
                ("two", whole + whole, "is not JSON"),
                ("deep", b"[" * 100000, "is not JSON"),
                ("twice", b'{"a": 1, "a": 2}', "is not JSON"),
                ("list", b"[]", "is no report"),
                ("other", b'{"kind": "list", "schema": 1}', "is no report"),
                ("reference client's", b'{"title": "Server Bench Result", "metrics": {}}', "is no report"),
                ("huge", b" " * (33 << 20), "is larger than 32 MiB"),
                ("newer", b'{"kind": "run", "schema": 99}', "version 99"),
                ("newer bench", b'{"title": "Server Bench Result", "schema_version": 99}', "version 99"),
                ("hollow", b'{"title": "Server Bench Result", "schema_version": 1}', "metrics: is missing"),
                ("hollow transfer", b'{"kind": "bench-transfer", "schema": 1}', "results: is missing"),
                ("hollow run", b'{"kind": "run", "schema": 1}', "run.dialect: is missing")):
            with self.subTest(name):
                bad = self.file("bad.json", content)
                self.refused(bad, bad, says=["bad.json", says])
                if not name.endswith("run"):
                    self.refused(good, bad, says=["bad.json", says])
        self.refused(good, "/nonexistent", says=["/nonexistent: cannot be read"])
        self.refused(good, "/", says=["/: cannot be read"])

    def test_members_of_another_type(self):
        good = self.file("good.json", bench())
        for place, value in ((("metrics",), []), (("metrics", "config"), "x"), (("metrics", "results"), 1),
                             (("metrics", "results", "valid"), "yes")):
            with self.subTest(place):
                report = bench()
                member = report
                for name in place[:-1]:
                    member = member[name]
                member[place[-1]] = value
                self.refused(good, self.file("bad.json", report), says=["bad.json: metrics"])
        for result, says in (({"outcome": "pass"}, "results[0].id"), ({"id": "a"}, "results[0].outcome"),
                             ({"id": "a", "outcome": "splendid"}, "results[0].outcome"), (3, "results[0].id")):
            report = run({})
            report["results"] = [result]
            bad = self.file("bad.json", report)
            self.refused(bad, bad, says=["bad.json: " + says])

    def test_hostile_texts(self):
        hostile = "a\x1b[31m|\n\u009b"
        done = self.compare(run({hostile: "pass"}), run({hostile: "fail"}), status=1)
        self.assertNotIn("\x1b", done.stdout)
        self.assertIn("\\x1b[31m|", done.stdout)
        report = bench(path=hostile)
        report["metrics"][hostile] = {hostile + "_p50": 1}
        done = self.compare(bench(), report, "--force", status=0)
        self.assertNotIn("\x1b", done.stdout)


class Benches(Compare):
    def test_one_run_each(self):
        done = self.compare(bench(), bench(p50=10.9, p99=100), status=0)
        self.assertIn("unknown", done.stdout)
        self.assertIn("No regression", done.stdout)
        done = self.compare(bench(), bench(p50=11.1), status=1)
        self.assertIn("REGRESSION: *.p50 > 1.10", done.stdout)

    def test_limits(self):
        for limit, ratio, status in (("> 1.1", 1.1, 0), (">= 1.1", 1.1, 1), ("> 1.1", 1.2, 1), ("> 1.1", 0.5, 0),
                                     ("< 0.9", 0.8, 1), ("< 0.9", 0.9, 0), ("<= 0.9", 0.9, 1), ("< 0.9", 1.5, 0)):
            with self.subTest(limit=limit, ratio=ratio):
                self.compare(bench(p99=20), bench(p99=20 * ratio), "--fail-if", "warm_retrieve.p99 " + limit,
                             status=status)
        self.compare(bench(p50=1), bench(p50=9), "--fail-if", "warm_retrieve.p99 > 1.1", status=0)
        self.compare(bench(p50=1), bench(p50=9), "--fail-if", "*.p99 > 1.1", "--fail-if", "*.p50 > 1.1", status=1)

    def test_from_nothing(self):
        self.compare(bench(p50=0), bench(p50=0), status=0)
        done = self.compare(bench(p50=0), bench(p50=1), "--format", "json", status=1)
        self.assertIsNone(json.loads(done.stdout)["figures"][0]["ratio"])

    def sides(self, old, new, **options):
        return self.compare([bench(p50=x) for x in old], [bench(p50=x) for x in new], **options)

    def test_noise(self):
        # Medians 11 and 13.5 (1.23), and the runs reach into each other: 2 of 20 deals by chance.
        done = self.sides([10, 11, 13], [12, 13.5, 15], status=0)
        self.assertIn("within noise", done.stdout)
        self.assertIn("10.0 %", done.stdout)
        # The same medians, apart: 1 of 20.
        done = self.sides([10, 11, 12], [13, 13.5, 15], status=1)
        self.assertIn("5.0 %", done.stdout)
        # Apart, and by less than the limit.
        done = self.sides([10, 10.1, 10.2], [10.3, 10.4, 10.5], status=0)
        self.assertIn("worse", done.stdout)
        done = self.sides([10.3, 10.4, 10.5], [10, 10.1, 10.2], status=0)
        self.assertIn("better", done.stdout)
        # Two each have to be apart.
        self.sides([10, 11], [12, 13], status=1)
        self.sides([10, 12.5], [12, 15], status=0)

    def test_a_limit_on_what_shrinks(self):
        for new, status in (([5, 6, 7], 1), ([5, 6, 10.5], 0)):
            self.compare([bench(p50=x) for x in (10, 11, 12)], [bench(p50=x) for x in new],
                         "--fail-if", "*.p50 < 0.9", status=status)

    def test_figures_that_should_grow(self):
        slow, fast = bench(), bench()
        for report, speed in ((slow, 1.0), (fast, 2.0)):
            for name in ("tokens_per_second", "gigabytes_per_second", "speed", "memcpy_share"):
                report["metrics"]["warm_retrieve"]["warm_retrieve_" + name] = speed
        self.assertEqual(self.compare([slow] * 3, [fast] * 3, status=0).stdout.count("better"), 4)
        self.assertEqual(self.compare([fast] * 3, [slow] * 3, status=0).stdout.count("worse"), 4)

    def test_another_machine(self):
        old, new = bench(), bench()
        old["machine"], new["machine"] = {"cpu": "A"}, {"cpu": "B"}
        self.assertIn("processor: A, now B", self.compare(old, new, status=0).stdout)

    def test_invalid_runs(self):
        broken = bench()
        broken["metrics"]["results"].update(valid=False, first_problem="seq 3, STORE: no reply")
        del broken["metrics"]["warm_retrieve"]
        done = self.compare(bench(), broken, status=1)
        self.assertIn("new0.json: the run is not valid: seq 3, STORE: no reply", done.stderr)
        self.assertEqual(done.stdout, "")
        self.compare(broken, bench(), status=1)
        cut = bench()
        cut["metrics"]["results"].update(valid=False, verdict="not valid: interrupted")
        self.assertIn("the run is not valid: interrupted; --force", self.compare(bench(), cut, status=1).stderr)
        done = self.compare(bench(), broken, "--force", status=1)
        self.assertIn("no new run was valid", done.stderr)
        done = self.compare([bench(), broken], bench(), "--force", status=0)
        self.assertIn("left out: ", done.stdout)
        self.assertIn("old: 1 run", done.stdout)

    def test_what_was_measured_differently(self):
        for name, other in (("kvcache_shape_spec", bench(shape="(2,64,16,2,8):float16:4")),
                            ("transfer_path", bench(transfer_path="lmcache_driven")),
                            ("dialect", bench(dialect="0.5.1")), ("num_tokens", bench(num_tokens=768)),
                            ("clients", bench(clients=4))):
            with self.subTest(name):
                done = self.compare(bench(), other, status=2)
                self.assertIn("new0.json: metrics.config.%s: is not what" % name, done.stderr)
                self.compare(other, bench(), status=2)
                self.compare([bench(), other], bench(), status=2)
                done = self.compare(bench(), other, "--force", status=0)
                self.assertIn("metrics.config.%s differs" % name, done.stdout)
        self.compare(bench(), bench(seed=8, rpc_url="tcp://h:2", transfer_mode="auto"), status=0)

    def test_other_operations(self):
        more = bench()
        more["metrics"]["cold_store"] = {"cold_store_p50": 1}
        self.assertIn("has no 'cold_store'", self.compare(more, bench(), status=2).stderr)
        self.assertIn("has no 'cold_store'", self.compare(bench(), more, status=2).stderr)
        self.compare(bench(), more, "--force", status=0)

    def test_json(self):
        done = self.compare([bench(p50=x) for x in (10, 11, 12)], [bench(p50=x) for x in (13, 13.5, 15)],
                            "--format", "json", status=1)
        report = json.loads(done.stdout)
        self.assertEqual((report["schema"], report["kind"], report["of"], report["regressions"]),
                         (1, "comparison", "bench", 1))
        self.assertEqual((report["old"]["runs"], len(report["new"]["files"])), (3, 3))
        figure = report["figures"][0]
        self.assertEqual((figure["operation"], figure["figure"], figure["unit"]), ("warm_retrieve", "p50", "ms"))
        self.assertEqual(figure["old"], {"median": 11, "min": 10, "max": 12})
        self.assertEqual(figure["new"], {"median": 13.5, "min": 13, "max": 15})
        self.assertAlmostEqual(figure["ratio"], 13.5 / 11, 4)
        self.assertAlmostEqual(figure["chance"], 0.05)
        self.assertEqual((figure["verdict"], figure["limit"]), ("regression", "*.p50 > 1.10"))
        self.assertEqual(report["figures"][1]["verdict"], "same")

    def test_markdown_and_output(self):
        a = self.file("a.json", bench())
        path = os.path.join(self.folder.name, "report.md")
        done = self.call(a, a, "--format", "markdown", "--output", path)
        self.assertEqual(done.returncode, 0)
        self.assertIn("| warm_retrieve | p50 | ms | 10.00 | 10.00 | 1.000 | - | same |", done.stdout)
        with open(path) as file:
            self.assertEqual(file.read(), done.stdout)


class Transfers(Compare):
    name = "gather/fast/nhd/float16/8/128/67108864/1"

    def test_figures(self):
        done = self.compare([transfer(x, 2) for x in (1, 1.1, 1.2)], [transfer(x, 2) for x in (0.5, 0.6, 0.7)],
                            "--format", "json", status=1)
        report = json.loads(done.stdout)
        self.assertEqual((report["of"], report["regressions"]), ("bench", 1))
        figures = {(f["operation"], f["figure"]): f for f in report["figures"]}
        self.assertEqual({figure for operation, figure in figures if operation == self.name},
                         {"ratio", "gigabytes_per_second", "baseline_gigabytes_per_second"})
        self.assertEqual((figures[self.name, "ratio"]["verdict"], figures[self.name, "ratio"]["limit"]),
                         ("regression", "*.ratio < 0.90"))
        self.assertEqual(figures[self.name, "gigabytes_per_second"]["verdict"], "worse")
        self.assertEqual(figures[self.name, "gigabytes_per_second"]["unit"], "GB/s")
        self.assertEqual(figures[self.name[:-1] + "2", "ratio"]["verdict"], "same")

    def test_limits(self):
        for limit, status in (("gather/*.ratio < 0.9", 1), ("gather/fast/nhd/*/2.ratio < 0.9", 0),
                              ("*/1.gigabytes_per_second < 0.9", 1), ("*.ratio > 1.1", 0)):
            self.compare(transfer(1, 1), transfer(0.5, 1), "--fail-if", limit, status=status)
        a = self.file("a.json", transfer(1))
        self.refused(a, a, "--fail-if", "scatter/*.ratio < 1", says=["no figure 'scatter/*.ratio'"])

    def test_refused(self):
        for members, says in (({"chunk_tokens": 512}, "chunk_tokens: is not what"),
                              ({"block_order": "sequential"}, "block_order"), ({"dtype": "uint8"}, "has no 'gather")):
            self.assertIn(says, self.compare(transfer(1), transfer(1, **members), status=2).stderr)
        self.compare(transfer(1), bench(), status=2)
        self.assertIn("interrupted", self.compare(transfer(1), transfer(1, interrupted=True), status=1).stderr)
        self.assertIn("no results", self.compare(transfer(1), transfer(), status=1).stderr)
        for row, says in (({"threads": 1.5}, "results[0].threads"), ({"operation": None}, "results[0].operation")):
            bad = self.file("bad.json", transfer(1, **row))
            self.refused(bad, bad, says=["bad.json: " + says])
        twice = transfer(1, 1, threads=1)
        bad = self.file("bad.json", twice)
        self.refused(bad, bad, says=["results[1].operation", "before"])


class OtherBenches(Compare):
    """`bench engine` and `bench l2`: what differs from `bench server` is what their reports look like."""

    def test_engine(self):
        self.compare(engine(), engine(ttft=10.9, decode=100), status=0)
        done = self.compare(engine(), engine(ttft=11.1), status=1)
        self.assertRegex(done.stdout, r"ttft +p50 +ms +10.00 +11.10 +1.110 .* REGRESSION: \*.p50 > 1.10")
        limit = "decode.tokens_per_second_p50 < 0.9"
        done = self.compare([engine(decode=x) for x in (50, 51, 52)], [engine(decode=x) for x in (30, 31, 32)],
                            "--fail-if", limit, status=1)
        self.assertRegex(done.stdout, r"decode +tokens_per_second_p50 +tokens/s .* REGRESSION: " + limit)
        self.assertRegex(done.stdout, r"requests +requests_per_second +requests/s ")
        self.assertNotIn("inter_token", done.stdout)

    def test_what_an_engine_was_asked(self):
        elsewhere = engine(seed=7)
        elsewhere["config"].update(engine_url="http://g:2", seed=7, output_dir="/x", export_csv=False)
        self.compare(engine(), elsewhere, status=0)
        done = self.compare(engine(), engine(ldqa_document_length=500), status=2)
        self.assertIn("new0.json: config.settings.ldqa_document_length: is not what", done.stderr)
        loose = engine()
        loose["results"]["calibration_problem"] = "the engine counts no tokens"
        self.assertIn("results.calibration_problem", self.compare(engine(), loose, status=2).stderr)
        done = self.compare(engine(), engine(valid=False), status=1)
        self.assertIn("the run is not valid: requests failed: HTTP 500", done.stderr)
        other = engine()
        other["results"]["p50_decode_speed"] = None
        self.assertIn("has no 'decode'", self.compare(engine(), other, status=2).stderr)

    def test_l2(self):
        done = self.compare(l2(), l2(load=6, place="/b"), status=1)
        self.assertRegex(done.stdout, r"load +p50 +ms +5.000 +6.000 +1.200 .* REGRESSION")
        self.assertRegex(done.stdout, r"store +megabytes_per_second +MB/s +100.0 +100.0 +1.000 .* same")
        self.assertRegex(done.stdout, r"lookup +keys_per_second +keys/s")
        self.assertNotRegex(done.stdout, r"lookup +megabytes_per_second")
        self.assertIn('L2 adapter: {"type":"fs","base_path":"/a"}, now {"type":"fs","base_path":"/b"}', done.stdout)
        self.assertIn("metrics.config.num_keys", self.compare(l2(), l2(num_keys=8), status=2).stderr)
        self.assertIn("metrics.config.adapter", self.compare(l2(), l2(adapter="S3L2Adapter"), status=2).stderr)
        few = l2()
        del few["metrics"]["op_2"]
        self.assertIn("has no 'load'", self.compare(l2(), few, status=2).stderr)
        failed = l2()
        failed["metrics"]["results"].update(valid=False, run="not valid", first_problem="round 1: no answer")
        self.assertIn("the run is not valid: round 1: no answer", self.compare(l2(), failed, status=1).stderr)

    def test_each_with_its_own(self):
        self.assertIn("another command", self.compare(engine(), l2(), status=2).stderr)
        for report in (engine(), l2()):
            self.assertEqual(json.loads(self.compare(report, report, "--format", "json", status=0).stdout)["of"], "bench")

    def test_hollow(self):
        for title in ("Engine Benchmark Result", "L2 Adapter Benchmark Result"):
            bad = self.file("bad.json", {"title": title, "schema_version": 1})
            self.refused(bad, bad, says=["bad.json: ", ": is missing"])


class Runs(Compare):
    def test_same(self):
        done = self.compare(run({"a/b": "pass", "a/c": "fail"}), run({"a/c": "fail", "a/b": "pass"}), status=0)
        self.assertRegex(done.stdout, r"\)\n\n2 checks as before, 0 not\. No regression\.\n$")

    def test_changes(self):
        for old, new, change, status in (
                ("pass", "fail", "worse", 1), ("pass", "timeout", "worse", 1), ("known", "surprise", "worse", 1),
                ("skip", "crash", "worse", 1), ("pass", "skip", "worse", 1), ("pass", "not-run", "worse", 1),
                ("fail", "pass", "better", 0), ("fail", "known", "better", 0), ("fail", "crash", "changed", 0),
                ("pass", "known", "changed", 0), ("skip", "pass", "changed", 0), ("known", "skip", "changed", 0),
                ("pass", None, "vanished", 1), ("fail", None, "vanished", 0), ("skip", None, "vanished", 0),
                (None, "pass", "appeared", 0), (None, "skip", "appeared", 0), (None, "fail", "appeared", 1)):
            with self.subTest(old=old, new=new):
                done = self.compare(run({"a/b": old} if old else {}), run({"a/b": new} if new else {}),
                                    "--format", "json", status=status)
                report = json.loads(done.stdout)
                self.assertEqual(report["checks"], [{"id": "a/b", "change": change, "regression": status == 1,
                                                     "old": [old] if old else [], "new": [new] if new else [],
                                                     **({"message": "it differs"} if new == "fail" else {})}])

    def test_several_runs_each(self):
        """A check that failed now and then before is not a regression when it does so again."""
        good, bad = run({"a/b": "pass"}), run({"a/b": "fail"})
        self.compare([good, bad], [bad, good], status=0)
        self.compare([good, bad], [bad], status=0)
        self.assertIn("pass, fail", self.compare([good, good], [good, bad], status=1).stdout)

    def test_regressions_first(self):
        done = self.compare(run({"a": "fail", "b": "pass", "z": "pass"}), run({"a": "pass", "c": "pass", "z": "fail"}),
                            status=1)
        rows = [line.replace(" (REGRESSION)", "!").split()[:2] for line in done.stdout.splitlines()[4:8]]
        self.assertEqual(rows, [["worse!", "z"], ["vanished!", "b"], ["better", "a"], ["appeared", "c"]])

    def test_refused(self):
        self.assertIn("run.dialect", self.compare(run({}), run({}, dialect="0.5.1"), status=2).stderr)
        self.assertIn("run.stand_in", self.compare(run({}), run({}, stand_in=True), status=2).stderr)
        self.compare(run({}), run({}, dialect="0.5.1"), "--force", status=0)
        for member in ("interrupted", "target_lost"):
            cut = run({"a": "pass"})
            cut["summary"][member] = True
            self.compare(run({"a": "pass"}), cut, status=1)
            self.compare(run({"a": "pass"}), cut, "--force", status=0)
        self.assertIn("another command", self.compare(run({}), bench(), status=2).stderr)
        self.assertIn("has no figures", self.compare(run({}), run({}), "--fail-if", "a.b > 1", status=2).stderr)

    def test_notes(self):
        done = self.compare(run({}), run({}, server_version="0.5.7"), status=0)
        self.assertIn("version of the server: 0.5.6, now 0.5.7", done.stdout)


class OwnReports(Compare):
    """What the program writes is what it reads."""

    def test_run(self):
        path = os.path.join(self.folder.name, "run.json")
        subprocess.run([PROGRAM, "run", "--select", "control/noop*", "--json", path], capture_output=True, check=True)
        self.assertEqual(self.call(path, path).returncode, 0)

    def test_bench(self):
        path = os.path.join(self.folder.name, "bench.json")
        for defect, status in (([], 0), (["--defect", "kv-swapped"], 1)):
            subprocess.run([PROGRAM, "bench", "server", "--mode", "cpu", "--transfer-mode", "lmcache_driven",
                            "--kvcache-shape-spec", "(2,64,16,2,8):float16:2", "--end", "3", "--interval", "0", "-q",
                            "--format", "json", "--output", path, "--launch",
                            PROGRAM + " mock --bind tcp://127.0.0.1:{rpc_port} --http 127.0.0.1:{http_port} " +
                            " ".join(defect)], capture_output=True)
            self.assertEqual(self.call(path, path).returncode, status)

    def test_l2(self):
        path = os.path.join(self.folder.name, "l2.json")
        subprocess.run([PROGRAM, "bench", "l2", "-q", "--num-keys", "2", "--data-size-kb", "4", "--format", "json",
                        "--output", path, "--l2-adapter",
                        json.dumps({"type": "fs", "base_path": os.path.join(self.folder.name, "store")})],
                       stdout=subprocess.DEVNULL, check=True)
        done = self.call(path, path)
        self.assertEqual(done.returncode, 0, done.stderr)
        for operation in ("store", "lookup", "load"):
            self.assertRegex(done.stdout, operation + r" +p50 +ms +\S+ +\S+ +1.000 .* same")

    def test_transfer(self):
        path = os.path.join(self.folder.name, "transfer.json")
        subprocess.run([PROGRAM, "bench", "transfer", "--bytes", "1MiB", "--layers", "1", "--repeat", "1", "--format", "json",
                        "--output", path], capture_output=True, check=True)
        self.assertEqual(self.call(path, path).returncode, 0)


if __name__ == "__main__":
    del sys.argv[1]
    unittest.main()
