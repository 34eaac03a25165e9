#!/usr/bin/env python3
"""The reports of a fixed run: against golden files, and read back by other readers.

usage: reports.py FIXED_REPORTS [--update] [TEST…]
"""
import html.parser
import json
import pathlib
import subprocess
import sys
import tempfile
import unittest
import xml.etree.ElementTree

import browser

PROGRAM = sys.argv[1]
UPDATE = "--update" in sys.argv
HERE = pathlib.Path(__file__).parent
GOLDEN = {"console": "console.txt", "console-quiet": "console-quiet.txt",
          "console-verbose": "console-verbose.txt", "junit": "junit.xml", "json": "report.json",
          "html": "report.html"}
# What fixed_reports.c puts into every text of one result, after cleaning.
HOSTILE = ("]]> <tag a=\"b\"> & ' \\x01\\x1b[31mred\\x7f \\xff\\xc0\\x80 \\xed\\xa0\\x80 "
           "\\xef\\xbf\\xbe \\xc2\\x9b \u00e9\u20ac\U0001f600")


def report(form):
    return subprocess.run([PROGRAM, form], stdout=subprocess.PIPE, check=True).stdout


class Golden(unittest.TestCase):
    maxDiff = None

    def test_golden(self):
        for form, name in GOLDEN.items():
            with self.subTest(form):
                path = HERE / "golden" / name
                if UPDATE:
                    path.write_bytes(report(form))
                self.assertEqual(report(form).decode(), path.read_bytes().decode())


class Junit(unittest.TestCase):
    def setUp(self):
        self.bytes = report("junit")
        self.root = xml.etree.ElementTree.fromstring(self.bytes)

    def case(self, family, name):
        return self.root.find(f"./testsuite[@name='{family}']/testcase[@name='{name}']")

    def test_schema(self):
        done = subprocess.run(["xmllint", "--noout", "--schema", HERE / "junit.xsd", "-"],
                              input=self.bytes, capture_output=True)
        self.assertEqual(done.returncode, 0, done.stderr.decode())

    def test_counts(self):
        for suite in self.root:
            cases = suite.findall("testcase")
            self.assertEqual(int(suite.get("tests")), len(cases))
            for element, count in (("failure", "failures"), ("error", "errors"),
                                   ("skipped", "skipped")):
                self.assertEqual(int(suite.get(count)), len(suite.findall("testcase/" + element)))
        self.assertEqual(self.root.get("tests"), "12")
        self.assertEqual((self.root.get("failures"), self.root.get("errors")), ("5", "2"))

    def test_kinds(self):
        self.assertEqual(len(self.case("alpha", "plain")), 0)
        for family, name, element in (("alpha", "axes/nhd/f16/engine_driven", "skipped"),
                                      ("alpha", "axes/hnd/f16/engine_driven", "failure"),
                                      ("alpha", "axes/mla/f16/engine_driven", "skipped"),
                                      ("beta", "long-words/a", "failure"),
                                      ("beta", "long-words/b", "error"),
                                      ("beta", "long-words/c", "error"),
                                      ("beta", "long-words/d", "skipped")):
            case = self.case(family, name)
            self.assertEqual(case[0].tag, element, name)
            self.assertEqual(case.get("classname"), "kvconform." + family)

    def test_hostile_bytes(self):
        case = self.case("beta", "hostile")
        failure = case.find("failure")
        self.assertEqual(failure.get("message"), HOSTILE)
        self.assertIn("expected: " + HOSTILE, failure.text)
        self.assertEqual(case.find("system-out").text, HOSTILE + "\nsecond line\n\tindented\n")

    def test_properties(self):
        properties = {p.get("name"): p.get("value")
                      for p in self.root.findall("./testsuite[@name='beta']/properties/property")}
        self.assertEqual(properties["seed"], "18446744073709551615")
        self.assertEqual(properties["server.version"], "0.5.6<&>")
        self.assertEqual(properties["beta/hostile.clause"],
                         "\"Quotes\" and 'ticks' ]]> survive.")
        self.assertEqual(properties["beta/hostile.level"], "should")


class Page(html.parser.HTMLParser):
    """What a browser would make of the page: its text, its elements, and whether they are nested."""
    VOID = {"meta", "link"}

    def __init__(self, text):
        super().__init__()
        self.open, self.elements, self.text, self.attributes = [], [], [], []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag, attributes):
        self.elements.append(tag)
        self.attributes += attributes
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open and self.open[-1] == tag, f"</{tag}> closes {self.open[-1:]}"
        self.open.pop()

    def handle_data(self, data):
        self.text.append(data)


class Html(unittest.TestCase):
    def setUp(self):
        self.source = report("html").decode()
        self.page = Page(self.source)
        self.text = "".join(self.page.text)

    def test_well_formed(self):
        self.assertEqual(self.page.open, [])

    def test_self_contained(self):
        self.assertNotIn("script", self.page.elements)
        addresses = [value for name, value in self.page.attributes if name in ("href", "src")]
        self.assertEqual(addresses, ["data:,"])

    @unittest.skipUnless(browser.PROGRAM, "there is no chromium")
    def test_a_browser_has_nothing_to_complain_about(self):
        with tempfile.NamedTemporaryFile("w", suffix=".html", encoding="utf-8") as file:
            file.write(self.source)
            file.flush()
            document, complaints = browser.opened(file.name)
        self.assertIn("</table>", document)
        self.assertEqual(complaints, [])

    def test_hostile_bytes(self):
        self.assertNotIn("tag", self.page.elements)
        self.assertIn(HOSTILE, self.text)

    def test_what_a_reader_needs(self):
        for text in ("This says nothing about a real server", "beta/hostile",
                     "\"Quotes\" and 'ticks' ]]> survive.", "uid-cut", "18446744073709551615",
                     "needs alpha/plain, which did not pass"):
            self.assertIn(text, self.text)

    def test_matrix(self):
        rows = self.source.split("<tbody>")[1].split("</tbody>")[0].strip().splitlines()
        self.assertEqual(len(rows), 2)
        # alpha: of its instances one passed; one surprise, one known failure; one was skipped.
        self.assertTrue(rows[0].startswith('<tr><th>alpha</th><td class="bad">1/3</td>'), rows[0])


class Json(unittest.TestCase):
    def setUp(self):
        self.root = json.loads(report("json"))
        self.results = {result["id"]: result for result in self.root["results"]}

    def test_head(self):
        self.assertEqual((self.root["schema"], self.root["kind"]), (1, "run"))
        self.assertEqual(self.root["run"]["seed"], "18446744073709551615")
        self.assertEqual(self.root["run"]["defects"], ["uid-cut"])

    def test_sorted(self):
        self.assertEqual(list(self.results), sorted(self.results))

    def test_counts(self):
        counts = self.root["summary"]["outcomes"]
        self.assertEqual(counts, {"pass": 1, "fail": 1, "skip": 2, "known": 1, "surprise": 1,
                                  "timeout": 1, "crash": 1, "error": 1, "not-run": 1})
        self.assertEqual(self.root["summary"]["total"], len(self.results))

    def test_hostile_bytes(self):
        result = self.results["beta/hostile"]
        for name in ("message", "expected", "got"):
            self.assertEqual(result[name], HOSTILE)

    def test_server_died(self):
        self.assertTrue(self.results["beta/long-words/a"]["server_died"])
        self.assertNotIn("server_died", self.results["beta/hostile"])


class Console(unittest.TestCase):
    def test_no_byte_that_a_terminal_obeys(self):
        for form in ("console", "console-quiet"):
            for byte in report(form):
                self.assertTrue(byte >= 0x20 and byte != 0x7f or byte in b"\n\t", hex(byte))


if __name__ == "__main__":
    unittest.main(argv=[arg for arg in sys.argv[1:] if arg != "--update"])
