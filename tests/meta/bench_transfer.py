#!/usr/bin/env python3
"""`bench transfer` as a program: its reports, its limits, its refusals. No figure is judged.

usage: bench_transfer.py KVCONFORM
"""
import csv
import io
import json
import pathlib
import signal
import statistics
import subprocess
import sys
import tempfile
import time
import unittest

PROGRAM = sys.argv[1]
SMALL = ["--layers", "2", "--heads", "2x8", "--chunk-tokens", "32", "--repeat", "3"]
OPERATIONS = ["gather", "gather", "scatter", "scatter", "fill", "check", "digest"]


def bench(*arguments):
    return subprocess.run([PROGRAM, "bench", "transfer", *arguments], capture_output=True,
                          text=True, timeout=60, check=False)


class Reports(unittest.TestCase):
    def test_json_has_every_case_and_its_ratios(self):
        run = bench(*SMALL, "--bytes", "4096,64K", "--dtype", "f16,bf16,u8", "--format", "json")
        self.assertEqual((run.returncode, run.stderr), (0, ""))
        report = json.loads(run.stdout)
        self.assertEqual(report["kind"], "bench-transfer")
        self.assertEqual((report["clock"], report["device"]), ("wall", "cpu"))
        self.assertFalse(report["interrupted"])
        rows = report["results"]
        self.assertEqual(len(rows), 5 * 3 * 2 * len(OPERATIONS))
        self.assertEqual([row["operation"] for row in rows[:len(OPERATIONS)]], OPERATIONS)
        for row in rows:
            self.assertEqual(len(row["ratios"]), 3)
            self.assertAlmostEqual(row["ratio"], statistics.median(row["ratios"]), 4)
            self.assertGreater(row["gigabytes_per_second"], 0)
            heads = (1 if row["layout"] == "mla" else 2) * 2 * 2 * 8
            element = {"float16": 2, "bfloat16": 2, "uint8": 1}[row["dtype"]]
            self.assertEqual(row["bytes"], row["chunks"] * 32 * heads * element)

    def test_csv_has_a_row_a_measure(self):
        run = bench(*SMALL, "--bytes", "8K", "--threads", "1,2", "--layout", "hnd", "--format", "csv")
        self.assertEqual(run.returncode, 0, run.stderr)
        rows = list(csv.DictReader(io.StringIO(run.stdout, newline="")))
        self.assertEqual([row["operation"] for row in rows], 2 * OPERATIONS)
        self.assertEqual([row["threads"] for row in rows], ["1"] * 7 + ["2"] * 7)

    def test_only_what_was_asked_for_is_measured(self):
        run = bench(*SMALL, "--bytes", "8K", "--layout", "mla", "--operation", "check",
                    "--block-order", "sequential", "--clock", "cpu")
        self.assertEqual(run.returncode, 0, run.stderr)
        self.assertIn(", cpu time\n", run.stdout)
        self.assertIn("blocks of 16 sequential, 1 thread\n", run.stdout)
        self.assertEqual([line.split()[0] for line in run.stdout.splitlines()[2:]], ["check"])

    def test_the_report_goes_to_a_file_as_well(self):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "report.json"
            run = bench(*SMALL, "--bytes", "8K", "--format", "json", "--output", str(path))
            self.assertEqual(run.returncode, 0, run.stderr)
            self.assertEqual(path.read_text(), run.stdout)


class Limits(unittest.TestCase):
    def test_a_ratio_below_its_limit_is_1(self):
        run = bench(*SMALL, "--bytes", "8K", "--layout", "nhd", "--min-ratio", "check=100000")
        self.assertEqual(run.returncode, 1)
        self.assertRegex(run.stderr, r"^kvconform: check of nhd 2x8 float16, 8192 bytes, threads 1: "
                                     r"[0-9.]+ x memcmp is below 100000\n$")

    def test_a_ratio_above_its_limit_is_0(self):
        run = bench(*SMALL, "--bytes", "8K", "--layout", "nhd", "--min-ratio",
                    "check=0.00001,gather=0.00001")
        self.assertEqual((run.returncode, run.stderr), (0, ""))

    def test_a_limit_about_nothing_is_2(self):
        run = bench(*SMALL, "--bytes", "8K", "--operation", "check", "--min-ratio", "gather=0.5")
        self.assertEqual(run.returncode, 2)
        self.assertIn("gather is not measured", run.stderr)

    def test_an_interrupted_run_says_so(self):
        run = subprocess.Popen([PROGRAM, "bench", "transfer", "--repeat", "1000", "--bytes", "32M"],
                               stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        time.sleep(0.5)
        run.send_signal(signal.SIGINT)
        out, err = run.communicate(timeout=30)
        self.assertEqual((run.returncode, err), (130, ""))
        self.assertTrue(out.endswith("interrupted: what was under way is left out\n"), out)


REFUSED = [
    (["--layout", "foo"], "--layout: 'foo' is not accepted: give nhd"),
    (["--layout", "nhd,"], "--layout: '' is not accepted"),
    (["--dtype", "f17"], "--dtype: 'f17' is not accepted: give one of f16,"),
    (["--heads", "8"], "--heads: '8' is not accepted"),
    (["--heads", "8x0"], "--heads: '8x0' is not accepted"),
    (["--heads", "1048576x1048576"], "no machine can hold"),
    (["--bytes", "1"], "--bytes: 1 bytes hold 0 chunks of 33554432 bytes"),
    (["--bytes", "64MiB,64Q"], "--bytes: '64Q' is not accepted"),
    (["--bytes", "9000000T"], "--bytes: "),
    (["--bytes", "900G", "--layers", "1"], "--bytes: 966367641600 bytes need 3 times"),
    (["--threads", "3"], "--bytes: 67108864 bytes hold 2 chunks"),
    (["--threads", "1,0"], "--threads: '0' is not accepted"),
    (["--operation", "copy"], "--operation: 'copy' is not accepted"),
    (["--min-ratio", "gather"], "--min-ratio: 'gather' is not accepted"),
    (["--min-ratio", "gather=x"], "--min-ratio: 'gather=x' is not accepted"),
    (["--min-ratio", "copy=1"], "--min-ratio: 'copy=1' is not accepted"),
    (["--device", "tpu"], "--device 'tpu' is not accepted: give one of cpu"),
    (["--chunk-tokens", "100"], "--chunk-tokens 100: not a multiple"),
    (["--repeat", "1001"], "--repeat 1001: at most 1000"),
    (["--block-order", "any"], "--block-order"),
    (["--threads", ",".join(["1"] * 17)], "--threads: at most 16"),
    (["--output", "/nowhere/at/all"], "--output: "),
    (["--format", "xml"], "--format"),
    (["nhd"], "nhd"),
]


class Refusals(unittest.TestCase):
    def test_each_gets_one_line_and_2(self):
        for arguments, line in REFUSED:
            with self.subTest(arguments=arguments):
                run = bench(*arguments)
                self.assertEqual((run.returncode, run.stdout), (2, ""))
                self.assertIn(line, run.stderr)
                self.assertEqual(run.stderr.count("\n"), 1, run.stderr)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
