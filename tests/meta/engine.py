#!/usr/bin/env python3
"""`bench engine` as somebody uses it, against engines that are right and engines that are not.

usage: engine.py KVCONFORM [TEST…]
"""
import csv
import json
import os
import pathlib
import pty
import re
import select
import signal
import subprocess
import sys
import tempfile
import time
import unittest

from scripted_engine import Engine, count_prompt, count_tokens

PROGRAM = os.path.abspath(sys.argv[1])
CSV_COLUMNS = ["request_id", "successful", "ttft", "request_latency", "num_input_tokens",
               "num_output_tokens", "decode_speed", "submit_time", "first_token_time", "finish_time",
               "error"]
# What `lmcache bench engine` 0.5.6 writes into bench_summary.json.
JSON_CONFIG = {"engine_url", "model", "workload", "kv_cache_volume_gb", "tokens_per_gb_kvcache", "seed",
               "output_dir", "export_csv", "export_json", "quiet", "ignore_eos", "warmup_policy"}
JSON_RESULTS = {"total_requests", "successful_requests", "failed_requests", "elapsed_time",
                "mean_ttft_ms", "mean_decode_speed", "mean_request_latency_ms", "input_throughput",
                "output_throughput", "total_input_tokens", "total_output_tokens", "p50_ttft_ms",
                "p90_ttft_ms", "p99_ttft_ms", "p50_decode_speed", "p90_decode_speed",
                "p99_decode_speed", "p50_request_latency_ms", "p90_request_latency_ms",
                "p99_request_latency_ms"}
SMALL = {
    "random-prefill": ["--rp-request-length", "300", "--rp-num-requests", "6"],
    "long-doc-qa": ["--kv-cache-volume", "1.5", "--ldqa-document-length", "400",
                    "--ldqa-max-output-length", "4"],
    "multi-round-chat": ["--kv-cache-volume", "0.9", "--mrc-shared-prompt-length", "100",
                         "--mrc-chat-history-length", "200", "--mrc-user-input-length", "20",
                         "--mrc-output-length", "3", "--mrc-qps", "5", "--mrc-duration", "2"],
    "long-doc-permutator": ["--ldp-num-contexts", "3", "--ldp-context-length", "150",
                            "--ldp-system-prompt-length", "60", "--ldp-num-permutations", "6",
                            "--ldp-max-output-length", "4"],
    "prefix-suffix-tuner": ["--psf-context-length", "400", "--psf-prefix-ratio", "0.5", "--psf-thrash",
                            "1.2"],
}


class Case(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def engine(self, *arguments, **options):
        engine = Engine(*arguments, **options)
        self.addCleanup(engine.stop)
        return engine

    def run_program(self, *arguments, stdin=subprocess.DEVNULL, text=None, environment=None, limit=30):
        stdin = {"stdin": stdin} if text is None else {"input": text}
        return subprocess.run([PROGRAM, "bench", "engine", *map(str, arguments)], cwd=self.folder,
                              capture_output=True, text=True, timeout=limit,
                              env={**os.environ, **(environment or {})}, **stdin)

    def bench(self, engine, workload, *arguments, **options):
        return self.run_program("--engine-url", engine.url, "--workload", workload,
                                "--tokens-per-gb-kvcache", "1000", "--no-interactive", "--json", "-q",
                                *SMALL[workload], *arguments, **options)

    def summary(self):
        return json.loads((self.folder / "bench_summary.json").read_text())

    def rows(self):
        with open(self.folder / "bench_results.csv", newline="") as file:
            return list(csv.DictReader(file))

    def measured(self, engine, rows=None):
        """The bodies of the measured requests: the last that came."""
        count = len(self.rows()) if rows is None else rows
        return [request["body"] for request in engine.requests[-count:]]


class Workloads(Case):
    def expect_good(self, run):
        self.assertEqual(run.returncode, 0, run.stdout + run.stderr)
        self.assertEqual(run.stderr, "")

    def test_every_workload_has_the_lengths_asked_for(self):
        for workload in SMALL:
            with self.subTest(workload):
                engine = self.engine()
                self.expect_good(self.bench(engine, workload))
                results = self.summary()["results"]
                self.assertTrue(results["valid"])
                self.assertEqual(results["calibration_problem"], "")
                self.assertLess(results["prompt_deviation"] or 0, 0.02)
                for row, body in zip(self.rows(), self.measured(engine)):
                    self.assertEqual(body["model"], "org/tiny")
                    self.assertIs(body["stream"], True)
                    self.assertEqual(body["stream_options"], {"include_usage": True})
                    self.assertEqual(body["temperature"], 0)
                    self.assertEqual(int(row["num_output_tokens"]), body["max_tokens"])

    def test_the_same_seed_gives_the_same_requests(self):
        def contents(*arguments):
            engine = self.engine()
            self.expect_good(self.bench(engine, "long-doc-qa", "--ldqa-num-inflight-requests", 1,
                                        *arguments))
            # 3 of the warm-up and 6 that are measured; those before them are sent side by side.
            return [request["body"] for request in engine.requests[-9:]]
        self.assertEqual(contents("--seed", 7), contents("--seed", 7))
        self.assertNotEqual(contents("--seed", 7), contents("--seed", 8))

    def test_random_prefill(self):
        engine = self.engine(first_delay=0.3)
        self.expect_good(self.bench(engine, "random-prefill"))
        bodies = self.measured(engine)
        self.assertEqual(len(bodies), 6)
        self.assertEqual({body["max_tokens"] for body in bodies}, {1})
        self.assertEqual({count_prompt(body["messages"]) for body in bodies}, {300})
        self.assertEqual(len({body["messages"][0]["content"] for body in bodies}), 6)
        times = [request["time"] for request in engine.requests[-6:]]
        self.assertLess(max(times) - min(times), 0.3, "they do not overlap")
        self.assertEqual(sorted(row["request_id"] for row in self.rows()),
                         ["prefill_%d" % i for i in range(6)])

    def test_long_doc_qa(self):
        for policy in ["tile", "random"]:
            engine = self.engine()
            self.expect_good(self.bench(engine, "long-doc-qa", "--ldqa-shuffle-policy", policy,
                                        "--ldqa-query-per-document", 5,
                                        "--ldqa-num-inflight-requests", 1))
            bodies = self.measured(engine)
            # 1.5 GB of 1000 tokens hold 3 documents of 400.
            self.assertEqual(len(bodies), 15)
            documents = [body["messages"][0]["content"].split("\n\nQuestion ")[0] for body in bodies]
            questions = [int(re.search(r"\n\nQuestion (\d+):", body["messages"][0]["content"])[1])
                         for body in bodies]
            self.assertEqual({count_tokens(document) for document in documents}, {400})
            self.assertEqual(len(set(documents)), 3)
            self.assertEqual(len(set(zip(documents, questions))), 15)
            self.assertEqual(questions == sorted(questions), policy == "tile")
            self.assertEqual({body["max_tokens"] for body in bodies}, {4})
            warmups = [r["body"] for r in engine.requests[-18:-15]]
            self.assertEqual([w["max_tokens"] for w in warmups], [1, 1, 1])
            self.assertEqual({w["messages"][0]["content"] for w in warmups}, set(documents))

    def test_the_limit_of_requests_in_flight_holds(self):
        engine = self.engine(first_delay=0.05)
        self.expect_good(self.bench(engine, "long-doc-permutator", "--ldp-num-inflight-requests", 3,
                                    "--ldp-num-contexts", 4, "--ldp-num-permutations", 12))
        # Calibration has up to 8 of its own; of the measured ones no four overlap.
        times = sorted(request["time"] for request in engine.requests[-12:])
        for first, fourth in zip(times, times[3:]):
            self.assertGreater(fourth - first, 0.02)

    def test_long_doc_permutator(self):
        for contexts, asked, expected in [(3, 6, 6), (3, 100, 6), (4, 10, 10), (25, 3, 3)]:
            engine = self.engine()
            self.expect_good(self.bench(engine, "long-doc-permutator", "--ldp-num-contexts", contexts,
                                        "--ldp-num-permutations", asked))
            bodies = self.measured(engine)
            self.assertEqual(len(bodies), expected)
            orders = {tuple(body["messages"][1]["content"].split("\n\n")) for body in bodies}
            self.assertEqual(len(orders), expected, "permutations repeat")
            self.assertEqual(len({frozenset(order) for order in orders}), 1)
            self.assertEqual({len(order) for order in orders}, {contexts})
            self.assertEqual({count_tokens(context) for context in next(iter(orders))}, {150})
            self.assertEqual({count_tokens(body["messages"][0]["content"]) for body in bodies}, {60})
            self.assertEqual(len({body["messages"][0]["content"] for body in bodies}), 1)
        engine = self.engine()
        self.expect_good(self.bench(engine, "long-doc-permutator", "--ldp-system-prompt-length", 0))
        self.assertEqual([m["role"] for m in engine.requests[-1]["body"]["messages"]], ["user"])

    def test_prefix_suffix_tuner(self):
        engine = self.engine()
        started = time.monotonic()
        self.expect_good(self.bench(engine, "prefix-suffix-tuner"))
        # floor(1.2 * 1.05 * 1000 / 200) prefixes, and five seconds between the passes.
        self.assertEqual(len(self.rows()), 6)
        passes = [[r["body"]["messages"][0]["content"] for r in engine.requests[-12:-6]],
                  [r["body"]["messages"][0]["content"] for r in engine.requests[-6:]]]
        self.assertGreater(engine.requests[-6]["time"] - engine.requests[-7]["time"], 4.9)
        self.assertGreater(time.monotonic() - started, 5)
        for texts in passes:
            self.assertEqual([text[:15] for text in texts], ["PREFIX_%08x" % i for i in range(6)])
            self.assertEqual({count_prompt([{"content": text}]) for text in texts}, {400})
        prefixes, suffixes = set(), set()
        for first, second in zip(*passes):
            prefix = os.path.commonprefix([first, second])
            suffix = os.path.commonprefix([first[::-1], second[::-1]])[::-1]
            self.assertAlmostEqual(count_tokens(prefix), 200, delta=10)
            self.assertAlmostEqual(count_tokens(suffix), 400 - 200 - 32 - 8, delta=10)
            self.assertNotEqual(first, second, "the breaker is the same")
            prefixes.add(prefix[:60])
            suffixes.add(suffix[-60:])
        self.assertEqual(len(prefixes), 6)
        self.assertEqual(len(suffixes), 1)

    def test_multi_round_chat(self):
        engine = self.engine()
        self.expect_good(self.bench(engine, "multi-round-chat"))
        bodies = self.measured(engine)
        # 900 tokens hold 3 sessions of 300; 5 a second for two seconds.
        self.assertEqual(len(bodies), 10)
        sessions = {}
        for body in bodies:
            messages = body["messages"]
            sessions.setdefault(messages[0]["content"], []).append(messages)
            self.assertEqual([m["role"] for m in messages[:3]], ["system", "user", "assistant"])
            self.assertEqual(count_tokens(messages[0]["content"]), 100)
            self.assertEqual(count_tokens(messages[1]["content"]), 200)
            self.assertEqual(count_tokens(messages[-1]["content"]), 20)
            for question, answer in zip(messages[3:-1:2], messages[4:-1:2]):
                self.assertEqual(question["role"] + answer["role"], "userassistant")
                self.assertEqual(answer["content"], " word0 word1 word2")
        # In turn; each request holds what the one before it held, its answer, and another question.
        self.assertEqual(sorted(map(len, sessions.values())), [3, 3, 4])
        for session in sessions.values():
            for earlier, later in zip(session, session[1:]):
                self.assertEqual(later[:len(earlier)], earlier)
                self.assertEqual(len(later), len(earlier) + 2)
        times = [float(row["submit_time"]) for row in self.rows()]
        for earlier, later in zip(sorted(times), sorted(times)[1:]):
            self.assertAlmostEqual(later - earlier, 0.2, delta=0.001)

    def test_latency_counts_from_when_a_request_was_due(self):
        # One session, an answer takes 0.2 s, a question is due every 0.05 s: each waits for those before.
        engine = self.engine(first_delay=0.2)
        run = self.bench(engine, "multi-round-chat", "--kv-cache-volume", 0.1, "--mrc-qps", 20,
                         "--mrc-duration", 0.5)
        self.assertEqual(run.returncode, 0, run.stdout)
        results = self.summary()["results"]
        ttft = [float(row["ttft"]) for row in self.rows()]
        self.assertLess(len(ttft), 5)
        self.assertEqual(results["unsent_requests"], 10 - len(ttft))
        for number, value in enumerate(ttft):
            self.assertGreater(value, 0.19 + 0.14 * number)
        self.assertIn("Requests not sent", run.stdout)

    def test_no_warmup(self):
        engine = self.engine()
        self.expect_good(self.bench(engine, "prefix-suffix-tuner", "--no-warmup", "--ignore-eos"))
        summary = self.summary()
        self.assertEqual(summary["results"]["warmup_requests"], 0)
        self.assertEqual(summary["config"]["warmup_policy"], "skip")
        self.assertIs(engine.requests[-1]["body"]["ignore_eos"], True)


class Figures(Case):
    def test_files_have_the_names_of_lmcache(self):
        engine = self.engine(first_delay=0.1, delay=0.02)
        run = self.bench(engine, "long-doc-qa", "--output-dir", "a/b", "--ldqa-num-inflight-requests", 1)
        self.assertEqual(run.returncode, 0, run.stderr)
        self.folder = self.folder / "a/b"
        summary, rows = self.summary(), self.rows()
        self.assertLessEqual(JSON_CONFIG, set(summary["config"]))
        self.assertLessEqual(JSON_RESULTS, set(summary["results"]))
        self.assertEqual(list(rows[0]), CSV_COLUMNS)
        results = summary["results"]
        self.assertEqual(results["total_input_tokens"], sum(int(r["num_input_tokens"]) for r in rows))
        self.assertEqual(results["total_output_tokens"], 4 * len(rows))
        self.assertAlmostEqual(results["mean_ttft_ms"],
                               sum(1000 * float(r["ttft"]) for r in rows) / len(rows), places=3)
        for row in rows:
            self.assertEqual(row["successful"], "True")
            self.assertGreater(float(row["ttft"]), 0.1)
            self.assertGreater(float(row["request_latency"]), 0.16)
            self.assertLess(abs(float(row["finish_time"]) - time.time()), 60)
            self.assertAlmostEqual(float(row["first_token_time"]) - float(row["submit_time"]),
                                   float(row["ttft"]), places=5)
        self.expect_decode_speeds(results, rows, engine.requests[-len(rows):])
        for line in ["Mean TTFT (ms):", "P99 TTFT (ms):", "Mean decode (tok/s):", "P99 decode (tok/s):",
                     "Successful requests:", "Input throughput (tok/s):"]:
            self.assertIn(line, run.stdout)
        # The bad end: 99 of 100 were faster.
        self.assertLessEqual(results["p99_decode_speed"], results["mean_decode_speed"])

    def expect_decode_speeds(self, results, rows, requests):
        """Between bounds that hold on a machine however busy: an event is received neither before it was sent nor
        after the stream has ended. Where nothing else runs they are within a few percent of each other."""
        rows = sorted(rows, key=lambda row: float(row["submit_time"]))
        for row, request in zip(rows, requests):
            first, decode = float(row["first_token_time"]), float(row["decode_speed"])
            self.assertGreaterEqual(decode * 1.000001, 3 / (float(row["finish_time"]) - first))
            if request["last_sent"] > first:
                self.assertLessEqual(decode, 3 / (request["last_sent"] - first) * 1.000001)
        # Three gaps each, so that the mean of all is the mean of the streams' own.
        self.assertAlmostEqual(results["mean_inter_token_ms"],
                               sum(1000 / float(row["decode_speed"]) for row in rows) / len(rows), delta=0.1)
        self.assertLessEqual(results["p50_inter_token_ms"], 2 * results["mean_inter_token_ms"])

    def test_no_decode_speed_without_two_tokens_at_two_times(self):
        for behaviour, workload in [("good", "random-prefill"), ("one-event", "long-doc-qa")]:
            engine = self.engine(behaviour)
            run = self.bench(engine, workload)
            self.assertEqual(run.returncode, 0, run.stdout)
            results = self.summary()["results"]
            self.assertIsNone(results["mean_decode_speed"])
            self.assertIsNone(results["mean_inter_token_ms"])
            self.assertEqual({row["decode_speed"] for row in self.rows()}, {""})
            self.assertNotIn("Decoding Speed", run.stdout)

    def test_two_summaries_are_compared(self):
        engine = self.engine()
        for name in ("old", "new"):
            self.assertEqual(self.bench(engine, "long-doc-qa", "--output-dir", name).returncode, 0)
        done = subprocess.run([PROGRAM, "compare", "--format", "json", "old/bench_summary.json", "new/bench_summary.json"],
                              cwd=self.folder, capture_output=True, text=True)
        self.assertIn(done.returncode, (0, 1), done.stderr)
        figures = {(f["operation"], f["figure"]): f["new"]["median"] for f in json.loads(done.stdout)["figures"]}
        results = json.loads((self.folder / "new/bench_summary.json").read_text())["results"]
        for (operation, figure), member in ((("ttft", "p99"), "p99_ttft_ms"),
                                            (("request_latency", "mean"), "mean_request_latency_ms"),
                                            (("decode", "tokens_per_second_p50"), "p50_decode_speed"),
                                            (("output", "tokens_per_second"), "output_throughput")):
            self.assertAlmostEqual(figures[operation, figure] / results[member], 1, places=4)

    def test_a_stream_cut_at_every_byte(self):
        engine = self.engine(lambda number, body: "split" if body["max_tokens"] == 4 else "good")
        self.assertEqual(self.bench(engine, "long-doc-qa").returncode, 0)

    def test_json_on_stdout_and_in_a_file(self):
        engine = self.engine()
        run = self.bench(engine, "random-prefill", "--format", "json", "--output", "out.json", "--no-csv")
        self.assertEqual(json.loads(run.stdout), self.summary())
        self.assertEqual((self.folder / "out.json").read_text(), run.stdout)
        self.assertFalse((self.folder / "bench_results.csv").exists())

    def test_connections_are_kept(self):
        engine = self.engine()
        self.assertEqual(self.bench(engine, "long-doc-qa").returncode, 0)
        self.assertGreater(len(engine.requests), 20)
        self.assertLessEqual(len({request["connection"] for request in engine.requests}), 8)

    def test_a_thousand_streams_in_flight(self):
        everybody = 1000
        engine = self.engine()
        engine.hold(41, everybody)  # a length that nothing of the calibration has
        run = self.run_program("--engine-url", engine.url, "--workload", "random-prefill",
                               "--tokens-per-gb-kvcache", 1, "--no-interactive", "--json", "-q",
                               "--rp-request-length", 41, "--rp-num-requests", everybody, limit=90)
        self.assertEqual(run.returncode, 0, run.stdout[-2000:])
        self.assertGreaterEqual(engine.most_in_flight, everybody)

    def test_key_and_tls(self):
        certificate = self.folder / "engine.pem"
        subprocess.run(["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2",
                        "-subj", "/CN=127.0.0.1", "-addext", "subjectAltName=IP:127.0.0.1",
                        "-keyout", certificate, "-out", self.folder / "cert.pem"],
                       check=True, capture_output=True)
        certificate.write_text(certificate.read_text() + (self.folder / "cert.pem").read_text())
        engine = self.engine(certificate=certificate)
        trusted = {"SSL_CERT_FILE": str(self.folder / "cert.pem"), "OPENAI_API_KEY": "sk-secret"}
        run = self.bench(engine, "random-prefill", environment=trusted)
        self.assertEqual(run.returncode, 0, run.stderr)
        self.assertEqual({request["key"] for request in engine.requests}, {"Bearer sk-secret"})
        self.assertEqual(engine.gets, [("/v1/models", "Bearer sk-secret")])
        self.assertNotIn("sk-secret", run.stdout + (self.folder / "bench_summary.json").read_text())
        run = self.bench(engine, "random-prefill", environment={"SSL_CERT_FILE": ""})
        self.assertEqual(run.returncode, 3, "an unknown certificate was trusted")
        self.assertIn("certificate", run.stderr)

    def on_terminal(self, command):
        """Its exit status, and what it shows on a terminal: read while it runs, as a terminal holds little."""
        main, side = pty.openpty()
        process = subprocess.Popen(command, cwd=self.folder, stdout=subprocess.DEVNULL, stderr=side,
                                   stdin=subprocess.DEVNULL)
        os.close(side)
        shown = b""
        try:
            while piece := os.read(main, 65536):
                shown += piece
        except OSError:
            pass  # so ends what is shown on it
        os.close(main)
        return process.wait(60), shown.decode()

    def test_nothing_but_the_line_on_a_terminal(self):
        engine = self.engine(first_delay=0.5)
        status, shown = self.on_terminal([PROGRAM, "bench", "engine", "--engine-url", engine.url, "--workload",
                                          "long-doc-qa", "--tokens-per-gb-kvcache", "1000", *SMALL["long-doc-qa"]])
        self.assertEqual(status, 0)
        self.assertRegex(shown, r"warm-up: \d of 3 done")
        self.assertRegex(shown, r"\d of 6 done, 3 in flight, 0 failed")
        self.assertRegex(shown, r"\d of 6 done, \d in flight, 0 failed \| TTFT \d+\.\d ms \| decode")
        self.assertTrue(shown.endswith("\r\x1b[K"), repr(shown[-40:]))


class Failures(Case):
    BEHAVIOURS = {
        "error-500": "HTTP 500: boom",
        "too-long": "HTTP 400: maximum context length is 10 tokens",
        "redirect": "HTTP 307: redirects are not followed",
        "no-usage": "the engine sent no usage",
        "no-stream": "the answer is no event stream: its Content-Type is application/json",
        "malformed": "no JSON object",
        "not-utf8": "no JSON object",
        "halfway": "",
        "cut": "the stream ended halfway, after 1 events with text",
        "reset": "",
        "silent": "nothing came for 0.5 s, after 0 events",
        "pings": "nothing came for 0.5 s, after 0 events",
        "endless-line": "an event is longer than 1024 KiB",
        "endless": "the engine does not stop",
        "error-event": "the engine ended the stream with an error: engine died",
        "no-token": "the engine generated no token",
        "too-many-tokens": "the usage counts 1000000000 generated tokens",
        "garbage": "",
    }

    def check(self, behaviour, reason, only_measured):
        # Calibration asks for one token, as random-prefill does: its texts are shorter.
        def choose(number, body):
            return "good" if only_measured and body["max_tokens"] == 1 else behaviour
        engine = self.engine(choose)
        started = time.monotonic()
        run = self.bench(engine, "long-doc-qa", "--timeout", "0.5")
        self.assertLess(time.monotonic() - started, 20)
        self.assertEqual(run.returncode, 1, run.stdout + run.stderr)
        results = self.summary()["results"]
        self.assertFalse(results["valid"])
        self.assertEqual(results["failed_requests"], 6)
        self.assertEqual(results["successful_requests"], 0)
        for figure in ["mean_ttft_ms", "p99_request_latency_ms", "mean_decode_speed",
                       "output_throughput"]:
            self.assertIsNone(results[figure], figure)
        self.assertEqual(sum(failure["count"] for failure in results["failures"]), 6)
        for failure in results["failures"]:
            self.assertIn(reason, failure["reason"])
        for row in self.rows():
            self.assertEqual((row["successful"], row["ttft"], row["decode_speed"]), ("False", "", ""))
            self.assertIn(reason, row["error"])
        self.assertIn(reason, run.stdout)
        self.assertNotIn("\x1b", run.stdout)
        self.assertNotIn("TTFT", run.stdout)
        return results

    def test_each_failure_has_its_reason_and_no_figure(self):
        for behaviour, reason in self.BEHAVIOURS.items():
            with self.subTest(behaviour):
                results = self.check(behaviour, reason, True)
                self.assertEqual(results["failed_warmup_requests"], 0)

    def test_an_engine_that_never_works(self):
        for behaviour in ["error-500", "no-usage", "malformed", "reset"]:
            with self.subTest(behaviour):
                results = self.check(behaviour, self.BEHAVIOURS[behaviour], False)
                self.assertNotEqual(results["calibration_problem"], "")
                self.assertGreater(results["failed_warmup_requests"], 0)

    def test_some_fail(self):
        engine = self.engine(lambda number, body: "error-500"
                             if body["max_tokens"] == 4 and "Question 1" in body["messages"][0]["content"]
                             else "good")
        run = self.bench(engine, "long-doc-qa")
        self.assertEqual(run.returncode, 1)
        results = self.summary()["results"]
        self.assertEqual((results["successful_requests"], results["failed_requests"]), (3, 3))
        self.assertEqual(results["total_output_tokens"], 12)
        self.assertIn("3 x HTTP 500: boom", run.stdout)
        self.assertIn("not valid: requests failed", run.stdout)

    def test_a_failed_warm_up_fails_the_run(self):
        sizes = []

        def choose(number, body):
            sizes.append(count_prompt(body["messages"]))
            # The first of this length is calibration's last; then come the documents.
            return "error-500" if sizes[-1] == 408 and sizes.count(408) == 2 else "good"
        engine = self.engine(choose)
        run = self.bench(engine, "long-doc-qa")
        self.assertEqual(run.returncode, 1, run.stdout)
        self.assertIn("the warm-up failed", run.stdout)
        self.assertIn("warmup_doc0: HTTP 500: boom", run.stdout)

    def test_a_failed_question_leaves_the_session_usable(self):
        engine = self.engine()
        engine.behaviour = lambda number, body: ("error-500" if body["max_tokens"] == 3 and
                                                 len(body["messages"]) == 6 else "good")
        run = self.bench(engine, "multi-round-chat")
        self.assertEqual(run.returncode, 1)
        self.assertEqual(self.summary()["results"]["successful_requests"], 3)
        self.assertEqual(self.summary()["results"]["failed_requests"], 7)

    def test_a_response_that_goes_on_after_done_is_complete(self):
        engine = self.engine(lambda number, body: "never-closes" if number == 20 else "good")
        run = self.bench(engine, "long-doc-qa", "--ldqa-num-inflight-requests", 1)
        self.assertEqual(run.returncode, 0, run.stdout)

    def test_interrupted(self):
        engine = self.engine(lambda number, body: "silent" if body["max_tokens"] == 4 else "good")
        run = subprocess.Popen([PROGRAM, "bench", "engine", "--engine-url", engine.url, "--workload",
                                "long-doc-qa", "--tokens-per-gb-kvcache", "1000", "-q",
                                *SMALL["long-doc-qa"]], cwd=self.folder, stdout=subprocess.PIPE,
                               text=True)
        limit = time.monotonic() + 20
        while time.monotonic() < limit and not any(r["body"]["max_tokens"] == 4
                                                   for r in list(engine.requests)):
            time.sleep(0.02)
        run.send_signal(signal.SIGINT)
        output = run.communicate(timeout=5)[0]
        self.assertEqual(run.returncode, 130)
        self.assertIn("not valid: interrupted", output)

    def test_nobody_there(self):
        for arguments in [[], ["--model", "m"]]:
            run = self.run_program("--engine-url", "http://127.0.0.1:1", "--workload", "random-prefill",
                                   "--tokens-per-gb-kvcache", "1", "--no-interactive", *arguments)
            self.assertEqual(run.returncode, 3, run.stderr)
            self.assertEqual(run.stderr.count("\n"), 1, run.stderr)
            self.assertFalse((self.folder / "bench_results.csv").exists())
            self.assertEqual(list(self.folder.iterdir()), [])

    def test_no_tokens_per_gb(self):
        engine = self.engine()
        engine.documents["/status"] = {"cache_context_meta": {}}
        run = self.run_program("--engine-url", engine.url, "--workload", "random-prefill",
                               "--lmcache-url", engine.url, "--no-interactive")
        self.assertEqual(run.returncode, 3)
        self.assertIn("no engine is registered", run.stderr)


class Configuration(Case):
    STATUS = {"cache_context_meta": {"0": {"model_name": "org/tiny", "world_size": 2,
                                           "kv_cache_layout": {"cache_size_per_token": 81920}}}}
    # From the manual.
    MANUAL = {"model": "Qwen/Qwen3-14B", "workload": "long-doc-qa", "tokens_per_gb_kvcache": 6553,
              "kv_cache_volume": 100.0, "ldqa_document_length": 10000, "ldqa_query_per_document": 2,
              "ldqa_shuffle_policy": "random", "ldqa_num_inflight_requests": 3}

    def write(self, content):
        path = self.folder / "config.json"
        path.write_text(content if isinstance(content, str) else json.dumps(content))
        return path

    def export(self, *arguments):
        run = self.run_program(*arguments, "--export-config", "exported.json")
        self.assertEqual(run.returncode, 0, run.stderr)
        self.assertIn("Replay with: kvconform bench engine --engine-url URL --config exported.json",
                      run.stderr)
        return json.loads((self.folder / "exported.json").read_text())

    def test_export_is_resolved_and_portable(self):
        engine = self.engine()
        engine.documents["/status"] = self.STATUS
        exported = self.export("--engine-url", engine.url, "--workload", "long-doc-qa", "--lmcache-url",
                               engine.url, "--ldqa-document-length", 500)
        self.assertEqual(exported, {
            "model": "org/tiny", "workload": "long-doc-qa", "tokens_per_gb_kvcache": 6553,
            "kv_cache_volume": 100.0, "seed": 42, "ignore_eos": False, "no_warmup": False,
            "ldqa_document_length": 500, "ldqa_query_per_document": 2, "ldqa_shuffle_policy": "random",
            "ldqa_num_inflight_requests": 3, "ldqa_max_output_length": 128})
        self.assertEqual(engine.requests, [], "something was run")

    def test_defaults_are_those_of_the_manual(self):
        expected = {
            "multi-round-chat": {"mrc_shared_prompt_length": 2000, "mrc_chat_history_length": 10000,
                                 "mrc_user_input_length": 50, "mrc_output_length": 200, "mrc_qps": 1.0,
                                 "mrc_duration": 60.0},
            "long-doc-permutator": {"ldp_num_contexts": 5, "ldp_context_length": 5000,
                                    "ldp_system_prompt_length": 1000, "ldp_num_permutations": 10,
                                    "ldp_num_inflight_requests": 1},
            "prefix-suffix-tuner": {"psf_context_length": 8000, "psf_prefix_ratio": 0.8,
                                    "psf_thrash": 20.0},
            "random-prefill": {"rp_request_length": 10000, "rp_num_requests": 50},
        }
        engine = self.engine()
        for workload, settings in expected.items():
            exported = self.export("--engine-url", engine.url, "--workload", workload,
                                   "--tokens-per-gb-kvcache", 6553)
            self.assertLessEqual(settings.items(), exported.items())

    def test_a_file_is_replayed_and_flags_override_it(self):
        engine = self.engine()
        path = self.write({**self.MANUAL, "model": "org/other", "tokens_per_gb_kvcache": 1000,
                           "kv_cache_volume": 1.5, "ldqa_document_length": 400})
        run = self.run_program("--engine-url", engine.url, "--config", path, "--ldqa-query-per-document",
                               1, "--ldqa-max-output-length", 2, "-q")
        self.assertEqual(run.returncode, 0, run.stderr)
        self.assertEqual(len(self.rows()), 3)
        self.assertEqual({request["body"]["model"] for request in engine.requests}, {"org/other"})
        exported = self.export("--engine-url", engine.url, "--config", path, "--kv-cache-volume", 200)
        self.assertEqual(exported["kv_cache_volume"], 200.0)
        engine.documents["/status"] = {"cache_context_meta": {"0": {
            "model_name": "org/other", "kv_cache_layout": {"cache_size_per_token": 1 << 20}}}}
        exported = self.export("--engine-url", engine.url, "--config", path, "--lmcache-url", engine.url)
        self.assertEqual(exported["tokens_per_gb_kvcache"], 1024, "who names a server asks it")

    def expect_refused(self, words, *arguments):
        run = self.run_program(*arguments)
        self.assertEqual(run.returncode, 2, run.stdout + run.stderr)
        self.assertEqual(run.stderr.count("\n"), 1, run.stderr)
        self.assertRegex(run.stderr, words)

    def test_bad_files(self):
        base = ["--engine-url", "http://127.0.0.1:1", "--config"]
        for content, words in [
                ("{", "config.json:1: no JSON"), ("[1]", "a configuration is a JSON object"),
                ({"ldqa_documentlength": 5}, "there is no setting.*nearest: ldqa_document_length"),
                ({"rp_num_requests": "5"}, "rp_num_requests: text is not accepted here"),
                ({"rp_num_requests": 0}, "rp_num_requests: '0' is not accepted.*from 1 to 1000000"),
                ({"rp_num_requests": 1.5}, "a number is not accepted here"),
                ({"workload": "rag-qa-quality"}, "one of long-doc-qa"),
                ({"ignore_eos": 1}, "a number is not accepted here"),
                ({"kv_cache_volume": []}, "a list is not accepted here"),
                ({"workload": "random-prefill"}, "required and not given: --tokens-per-gb-kvcache"),
                ('{"seed": 1, "seed": 2}', "no JSON: duplicate object key")]:
            self.expect_refused(words, *base, self.write(content))
        self.expect_refused("cannot read", *base, self.folder / "none.json")

    def test_bad_flags(self):
        base = ["--engine-url", "http://127.0.0.1:1", "--tokens-per-gb-kvcache", "9", "--workload"]
        for arguments, words in [
                (["nonsense"], "--workload: 'nonsense' is not accepted.*one of long-doc-qa"),
                (["random-prefill", "--rp-request-length", "0"], "--rp-request-length"),
                (["random-prefill", "--rp-num-requests", "many"], "--rp-num-requests: 'many'"),
                (["multi-round-chat", "--mrc-qps", "0"], "above 0"),
                (["multi-round-chat", "--mrc-qps", "nan"], "'nan' is not accepted"),
                (["prefix-suffix-tuner", "--psf-prefix-ratio", "1"], "above 0 and below 1"),
                (["long-doc-qa", "--ldqa-shuffle-policy", "sorted"], "one of random, tile"),
                (["long-doc-qa", "--ldqa-documents", "1"], "there is no option"),
                (["long-doc-qa", "--engine-url", "ftp://x"], "is no HTTP address"),
                (["long-doc-qa", "--timeout", "x"], "--timeout")]:
            self.expect_refused(words, *base, *arguments)
        self.expect_refused("required and not given: --engine-url, --workload, --tokens-per-gb-kvcache or "
                            "--lmcache-url", "--no-interactive")
        self.expect_refused("required and not given: --engine-url", "--export-config", "x.json")

    def test_settings_that_do_not_go_together(self):
        engine = self.engine()
        base = ["--engine-url", engine.url, "--tokens-per-gb-kvcache", "1000", "--no-interactive",
                "--workload"]
        self.expect_refused("leave 68 tokens for the suffix.*at least 100", *base, "prefix-suffix-tuner",
                            "--psf-context-length", 500)
        self.expect_refused("documents: at most 10000000", *base, "long-doc-qa", "--kv-cache-volume",
                            "1e8", "--ldqa-document-length", 1)
        self.expect_refused("cannot make the folder", *base, "random-prefill", "--output-dir",
                            "/proc/nowhere/x")
        self.assertEqual(engine.requests, [])


class Interactive(Case):
    def test_plain_questions(self):
        engine = self.engine()
        answers = "\n".join([engine.url, "3", "n", "many", "1000", "configure", "", "0.3", "7", "", "y",
                             "2", "2", "100", "20", "2", "1", "3", "1"]) + "\n"
        run = self.run_program("-q", text=answers)
        self.assertEqual(run.returncode, 0, run.stderr)
        self.assertIn("[default: http://localhost:8000] >", run.stderr)
        self.assertIn("'many' is not accepted", run.stderr)
        self.assertIn("Configuration Summary", run.stderr)
        self.assertRegex(run.stderr, r"Model: +\(the engine's first\)")
        self.assertRegex(run.stderr, r"Contexts: +2\n")
        self.assertEqual(len(self.rows()), 2)
        self.assertEqual(engine.requests[-1]["body"]["max_tokens"], 3)
        self.assertIn("long-doc-permutator", run.stdout)

    def test_export_at_the_end(self):
        engine = self.engine()
        engine.documents["/status"] = Configuration.STATUS
        run = self.run_program("--workload", "random-prefill",
                               text="\n".join([engine.url, "y", engine.url, "", "", "2", "saved.json"]))
        self.assertEqual(run.returncode, 0, run.stderr)
        exported = json.loads((self.folder / "saved.json").read_text())
        self.assertEqual(exported["tokens_per_gb_kvcache"], 6553)
        self.assertNotIn("engine_url", exported)
        self.assertEqual(engine.requests, [])

    def test_going_back_and_quitting(self):
        engine = self.engine()
        run = self.run_program(text="\n".join(["http://127.0.0.1:1", "<", engine.url, "5", "n", "9", "",
                                               "", "3"]) + "\n")
        self.assertEqual(run.returncode, 0, run.stderr)
        self.assertRegex(run.stderr, "Engine URL: +" + engine.url)
        self.assertRegex(run.stderr, r"KV cache volume \(GB\): +100\.0\n")
        self.assertEqual(engine.gets, [])

    def test_the_input_ends(self):
        run = self.run_program(text="")
        self.assertEqual(run.returncode, 2)
        self.assertIn("required and not given: --engine-url", run.stderr)

    def type_keys(self, keys, *arguments):
        """Types each key when the program has stopped writing; returns what it wrote, and its status."""
        main, side = pty.openpty()
        run = subprocess.Popen([PROGRAM, "bench", "engine", *arguments], cwd=self.folder, stdin=side,
                               stderr=side, stdout=subprocess.PIPE, start_new_session=True,
                               env={**os.environ, "TERM": "xterm"})
        os.close(side)
        shown = b""
        for key in ["", *keys]:
            os.write(main, key.encode())
            while select.select([main], [], [], 0.25)[0]:
                try:
                    part = os.read(main, 65536)
                except OSError:
                    part = b""
                if not part:
                    break
                shown += part
        output = run.communicate(timeout=20)[0].decode()
        os.close(main)
        return shown.decode(), output, run.returncode

    def test_arrow_keys(self):
        engine = self.engine()
        # Two down, one up, three down; twice the defaults; start.
        shown, output, status = self.type_keys(
            ["\x1b[B", "\x1b[B", "\x1b[A", "\x1bOB", "\x1b[B", "\x1b[B", "\r", "\r", "\r", "\r"],
            "--engine-url", engine.url, "--tokens-per-gb-kvcache", "1000", "-q", "--no-csv")
        self.assertIn("Use up/down to navigate, Enter to select.", shown)
        self.assertIn("    * random-prefill", shown)
        self.assertIn("Start benchmark", shown)
        self.assertEqual(len([r for r in engine.requests if count_prompt(r["body"]["messages"]) == 10000]),
                         50, shown[-3000:] + output)
        self.assertEqual(status, 0)

    def test_control_c_while_choosing(self):
        shown, output, status = self.type_keys(["\x1b[B", "\x03"], "--engine-url", "http://127.0.0.1:1")
        self.assertEqual((output, status), ("", 130))


if __name__ == "__main__":
    sys.argv = sys.argv[:1] + sys.argv[2:]
    unittest.main()
