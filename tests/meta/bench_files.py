#!/usr/bin/env python3
"""`kvconform bench server --csv --html`, as readers of tables and browsers see them.

usage: bench_files.py KVCONFORM [TEST…]
"""
import csv
import html.parser
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

import browser

PROGRAM = os.path.abspath(sys.argv[1])
SHAPE = "(2,64,16,2,8):float16:2"
COLUMNS = ("operation count mean_ms min_ms max_ms p50_ms p90_ms p95_ms p99_ms p99.9_ms tokens_per_second "
           "gigabytes_per_second speed memcpy_share valid dialect transfer_path kvcache_shape_spec num_tokens workload "
           "clients rate").split()


def bench(*options):
    return subprocess.run([PROGRAM, "bench", "server", "--mode", "cpu", "--kvcache-shape-spec", SHAPE, "--interval", "0",
                           *options], capture_output=True, text=True, timeout=100)


def against_mock(*options, defects=()):
    launch = " ".join([PROGRAM, "mock --bind tcp://127.0.0.1:{rpc_port} --http 127.0.0.1:{http_port}",
                       *("--defect " + name for name in defects)])
    return bench("--launch", launch, "--dialect", "0.5.6", *options)


class Page(html.parser.HTMLParser):
    """Its elements, whether they are nested, and what it would load."""
    VOID = {"meta", "link"}

    def __init__(self, text):
        super().__init__()
        self.open, self.elements, self.addresses = [], [], []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag, attributes):
        self.elements.append(tag)
        self.addresses += [value for name, value in attributes if name in ("href", "src")]
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attributes):
        self.elements.append(tag)

    def handle_endtag(self, tag):
        assert self.open and self.open[-1] == tag, f"</{tag}> closes {self.open[-1:]}"
        self.open.pop()


class Files(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.csv, self.html, self.json = (str(self.folder / name) for name in ("b.csv", "b.html", "b.json"))
        self.files = ["--csv", self.csv, "--html", self.html, "--format", "json", "--output", self.json, "--quiet"]

    def rows(self):
        with open(self.csv, newline="") as file:
            return list(csv.reader(file))

    def page(self):
        with open(self.html, encoding="utf-8") as file:
            return file.read()

    def test_they_say_what_the_json_says(self):
        done = against_mock("--duration", "2.5", "--clients", "2", *self.files)
        self.assertEqual((done.returncode, done.stdout), (0, ""), done.stderr)
        with open(self.json) as file:
            metrics = json.load(file)["metrics"]
        head, *rows = self.rows()
        self.assertEqual(head, COLUMNS)
        self.assertEqual([row[0] for row in rows], ["cold_lookup", "cold_store", "warm_lookup", "warm_retrieve"])
        for row in map(lambda row: dict(zip(head, row)), rows):
            figures = metrics[row["operation"]]
            for column in ("mean_ms", "min_ms", "max_ms", "p50_ms", "p99_ms", "p99.9_ms", "tokens_per_second"):
                name = row["operation"] + "_" + column.removesuffix("_ms")
                self.assertAlmostEqual(float(row[column]), figures[name], 3)
            self.assertEqual(int(row["count"]), figures[row["operation"] + "_count"])
            self.assertEqual((row["valid"], row["kvcache_shape_spec"], row["clients"]), ("true", SHAPE, "2"))
            self.assertEqual(row["speed"] == "", "lookup" in row["operation"])
        page = Page(self.page())
        self.assertEqual(page.open, [])
        self.assertNotIn("script", page.elements)
        self.assertEqual(page.addresses, ["data:,"])
        self.assertEqual(page.elements.count("figure"), 2)

    def test_a_run_that_is_not_valid_has_no_figures(self):
        done = against_mock("--end", "2", "--transfer-mode", "lmcache_driven", *self.files, defects=["kv-swapped"])
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertEqual(self.rows(), [COLUMNS])
        self.assertIn("The run is not valid", self.page())
        self.assertNotIn("<svg", self.page())

    def test_files_that_cannot_be_written(self):
        for flag in ("--csv", "--html", "--output"):
            done = bench(*self.files, flag, "/nonexistent/x", "--rpc-url", "tcp://127.0.0.1:1")
            self.assertEqual(done.returncode, 2)
            self.assertIn(flag + ": cannot write", done.stderr)
            self.assertEqual(list(self.folder.iterdir()), [])

    @unittest.skipUnless(browser.PROGRAM, "there is no chromium")
    def test_a_browser_has_nothing_to_complain_about(self):
        self.assertEqual(against_mock("--duration", "2.2", *self.files).returncode, 0)
        document, complaints = browser.opened(self.html)
        self.assertIn("</figure>", document)
        self.assertEqual(complaints, [])


if __name__ == "__main__":
    del sys.argv[1]
    unittest.main()
