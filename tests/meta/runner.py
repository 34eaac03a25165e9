#!/usr/bin/env python3
"""The runner, tested from outside: kvconform_made has a check for each way a check can end.

usage: runner.py KVCONFORM_MADE [TEST…]
"""
import contextlib
import json
import os
import pathlib
import pty
import shlex
import socket
import subprocess
import sys
import tempfile
import termios
import threading
import unittest
import urllib.request

PROGRAM = sys.argv[1]
FAST = ["--seed", "1", "--color", "never", "--timeout", "1"]


def call(*arguments, env=None, **options):
    return subprocess.run([PROGRAM, *arguments], capture_output=True, text=True, errors="replace",
                          env={**os.environ, **(env or {})}, timeout=60, **options)


class Run:
    """One run and what it reported."""

    def __init__(self, *arguments, env=None):
        done = call("run", *FAST, "--json", "-", *arguments, env=env)
        self.status, self.stderr = done.returncode, done.stderr
        self.report = json.loads(done.stdout) if done.stdout else None
        self.results = {r["id"]: r for r in self.report["results"]} if self.report else {}

    def outcome(self, check):
        return self.results[check]["outcome"]


class Outcomes(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.run_once = Run("--select", "made")

    def expect(self, check, outcome, message=None):
        result = self.run_once.results[check]
        self.assertEqual(result["outcome"], outcome, result)
        if message:
            self.assertIn(message, result["message"])
        return result

    def test_exit_status(self):
        self.assertEqual(self.run_once.status, 1)

    def test_pass(self):
        self.assertNotIn("reproduce", self.expect("made/pass", "pass"))

    def test_fail(self):
        result = self.expect("made/fail", "fail", "the answer")
        self.assertEqual((result["expected"], result["got"]), ("42", "41"))
        self.assertIn("a note", result["details"])
        self.assertIn("noop", result["details"])
        self.assertEqual(result["reproduce"],
                         shlex.quote(PROGRAM) + " run --timeout 1 --seed 1 --select made/fail")

    def test_fail_in_cleanup(self):
        self.expect("made/fail-in-cleanup", "fail", "the cleanup failed")

    def test_hostile_bytes(self):
        result = self.expect("made/fail-hostile", "fail")
        self.assertEqual(result["message"], "]]> & <b> \"quoted\" \\x01\\x1b[31m \\xff\\xfe")
        self.assertEqual((result["expected"], result["got"]), ("a\nb\tc", "é"))

    def test_long_text_is_cut(self):
        result = self.expect("made/fail-long", "fail")
        self.assertLess(len(result["expected"]), 70000)
        self.assertTrue(result["expected"].endswith("(cut)"))

    def test_skip(self):
        self.expect("made/skip", "skip", "because of this")
        self.expect("made/old", "skip", "holds in dialects up to 0.5.2")

    def test_error(self):
        self.expect("made/error", "error", "a segment: no room")

    def test_timeout(self):
        self.expect("made/timeout/asleep", "timeout", "did not end within 0.3 s")
        self.expect("made/timeout/waiting", "timeout", "a reply to nothing")

    def test_crash(self):
        self.expect("made/crash/signal", "crash", "Alarm clock")
        self.expect("made/crash/abort", "crash", "Aborted")
        self.expect("made/crash/exit", "crash", "exit status 0")

    def test_leaks(self):
        self.expect("made/leak/descriptor", "error", "/dev/null")
        self.expect("made/leak/segment", "error", "1 shared-memory segment")
        self.expect("made/leak/process", "error", "1 process")
        self.assertIn("words", self.expect("made/leak/output", "error", "output")["details"])

    def test_dependencies(self):
        self.expect("made/needs-pass", "pass")
        self.expect("made/needs-fail", "not-run", "needs made/fail")
        self.expect("made/needs-needs-fail", "not-run", "needs made/needs-fail")


class Order(unittest.TestCase):
    def test_exclusive_checks_run_alone(self):
        with tempfile.TemporaryDirectory() as folder:
            run = Run("--select", "order", "-j", "8", env={"KVC_MADE_LOCK": folder + "/lock"})
        self.assertEqual(run.status, 0, run.stderr)
        self.assertEqual(run.report["summary"]["outcomes"]["pass"], 12)

    def test_side_by_side(self):
        with tempfile.TemporaryDirectory() as folder:
            lock = {"KVC_MADE_LOCK": folder + "/lock"}
            wide = Run("--select", "order/crowd", "-j", "6", env=lock)
            narrow = Run("--select", "order/crowd", "-j", "1", env=lock)
        self.assertLess(wide.report["run"]["seconds"], narrow.report["run"]["seconds"])


class Servers(unittest.TestCase):
    def test_set_ups(self):
        run = Run("--select", "server")
        self.assertEqual(run.status, 0, run.stderr)
        self.assertEqual(run.report["summary"]["outcomes"]["pass"], 4)

    def test_dead_server_is_the_finding_of_one_check(self):
        run = Run("--select", "kill", "--defect", "unknown-op-kills", "-j", "8")
        self.assertEqual(run.status, 1)
        for check in ("kill/in-a-crowd", "kill/quietly"):
            self.assertEqual(run.outcome(check), "fail")
            self.assertTrue(run.results[check]["server_died"])
        for variant in "abc":
            self.assertEqual(run.outcome("kill/bystander/" + variant), "pass")

    @contextlib.contextmanager
    def mock(self, *arguments):
        """A mock server of somebody else; gives its two addresses."""
        mock = subprocess.Popen([PROGRAM, "mock", "--bind", "tcp://127.0.0.1:0", "--http",
                                 "127.0.0.1:0", "--pool-size", "4M", *arguments],
                                stdout=subprocess.PIPE, text=True)
        try:
            yield mock.stdout.readline().strip(), mock.stdout.readline().strip()
        finally:
            mock.terminate()
            mock.wait()
            mock.stdout.close()

    def expect_lost(self, jobs):
        with self.mock("--defect", "unknown-op-kills") as (url, _):
            run = Run("--rpc-url", url, "--dialect", "0.5.6", "--select", "kill", "-j", jobs,
                      "--destructive")
        self.assertEqual(run.status, 3)
        self.assertTrue(run.report["summary"]["target_lost"])
        self.assertEqual(run.outcome("kill/quietly"), "not-run")
        return run

    def expect_ended_servers(self, *target):
        run = Run(*target, "--select", "ended", "--select", "made/pass")
        self.assertEqual(run.status, 0, run.stderr)
        self.assertEqual(run.report["summary"]["outcomes"]["pass"], 5)

    def test_servers_that_checks_end(self):
        self.expect_ended_servers()

    def test_launched_servers_that_checks_end(self):
        self.expect_ended_servers("--launch", f"{PROGRAM} mock --bind tcp://127.0.0.1:{{rpc_port}} "
                                              "--no-http --pool-size 4M")

    def test_servers_of_others_are_not_ended(self):
        with self.mock() as (url, _):
            run = Run("--rpc-url", url, "--select", "ended", "--select", "made/pass", "--destructive")
        self.assertEqual(run.outcome("ended/and-left"), "skip")

    def expect_no_http(self, *arguments, url, words):
        """Status 3, and one line that names the address and says what happened there."""
        for command in (["run", "--select", "made/pass"], ["identify"]):
            with self.subTest(command):
                done = call(*command, *arguments, "--url", url, "--timeout", "1")
                self.assertEqual(done.returncode, 3, done.stderr)
                line = [line for line in done.stderr.splitlines() if "--url" in line]
                self.assertEqual(len(line), 1, done.stderr)
                for word in (url, *words):
                    self.assertIn(word, line[0])

    def test_an_http_address_that_was_given_must_answer(self):
        with self.mock() as (url, _), socket.create_server(("127.0.0.1", 0)) as silent:
            attached = ["--rpc-url", url]
            self.expect_no_http(*attached, url="http://127.0.0.1:9", words=["nothing answers"])
            self.expect_no_http(*attached, url="http://127.0.0.1:%d" % silent.getsockname()[1],
                                words=["nothing answers"])
            self.expect_no_http(*attached, url=url.replace("tcp:", "http:"),
                                words=["does not speak HTTP"])

    def test_an_http_address_of_a_launched_server_must_answer(self):
        launch = ["--launch", f"{PROGRAM} mock --bind tcp://127.0.0.1:{{rpc_port}} --no-http "
                              "--pool-size 4M", "--start-timeout", "1.5"]
        done = call("run", "--select", "made/pass", *launch, "--url", "http://127.0.0.1:{http_port}")
        self.assertEqual(done.returncode, 3, done.stderr)
        self.assertRegex(done.stderr, r"--url: nothing answers there: GET http://127\.0\.0\.1:\d+/")
        self.assertEqual(call("run", "--select", "made/pass", *launch).returncode, 0)

    def test_http_may_come_up_later(self):
        with self.mock() as (url, _):
            late = socket.socket()
            late.bind(("127.0.0.1", 0))
            port = late.getsockname()[1]

            def serve():
                late.listen()
                with late.accept()[0] as peer:
                    peer.recv(4096)
                    peer.sendall(b'HTTP/1.1 200 OK\r\nContent-Length: 7\r\n\r\n"0.5.6"')

            timer = threading.Timer(0.5, serve)
            timer.start()
            done = call("identify", "--rpc-url", url, "--url", f"http://127.0.0.1:{port}",
                        "--timeout", "5", "--dialect", "0.5.6")
            timer.join()
            late.close()
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("version:    0.5.6", done.stdout)

    def test_the_mock_says_that_it_is_the_release_asked_for(self):
        for release, said in (("0.5.1", "0.5.1"), ("0.5.2", "0.5.2"), (None, "0.5.6")):
            with self.subTest(release), self.mock(*(["--dialect", release] if release else [])) as (_, http):
                with urllib.request.urlopen(http + "/lmc_version", timeout=10) as answer:
                    self.assertEqual(json.load(answer), said)

    def test_lost_server(self):
        run = self.expect_lost("1")
        self.assertTrue(run.results["kill/in-a-crowd"]["server_died"])

    def test_lost_server_in_a_crowd(self):
        run = self.expect_lost("8")
        self.assertTrue(run.results["kill/in-a-crowd"]["server_died"])
        for variant in "abc":
            self.assertEqual(run.outcome("kill/bystander/" + variant), "not-run")

    def test_attached_server_is_spared(self):
        with self.mock() as (url, http):
            run = Run("--rpc-url", url, "--url", http, "--select", "kill", "--select", "server")
        self.assertIn("--destructive", run.results["kill/quietly"]["message"])
        self.assertEqual(run.outcome("server/set-up"), "skip")
        self.assertEqual(run.outcome("server/path/engine_driven"), "pass")
        self.assertEqual(run.outcome("server/path/engine_driven_inline"), "skip")
        self.assertIn("offers a shared-memory pool",
                      run.results["server/path/engine_driven_inline"]["message"])

    def test_attached_server_is_left_as_it_was(self):
        def status():
            with urllib.request.urlopen(http + "/status") as answer:
                return json.load(answer)

        with self.mock() as (url, http):
            before = status()
            run = Run("--rpc-url", url, "--url", http, "--select", "made/pass")
            self.assertEqual(run.status, 0, run.stderr)
            self.assertEqual(status(), before)

    def test_launched_server(self):
        run = Run("--launch", f"{PROGRAM} mock --bind tcp://127.0.0.1:{{rpc_port}} "
                              "--http 127.0.0.1:{http_port} --pool-size 4M --dialect 0.5.1 "
                              "--defect unknown-op-kills", "--select", "kill/quietly",
                  "--select", "made/pass", "--select", "server/path")
        self.assertEqual(run.report["run"]["target"], "launch")
        self.assertEqual(run.report["run"]["dialect"], "0.5.0")
        self.assertEqual(run.report["run"]["server_version"], "0.5.1")
        self.assertTrue(run.results["kill/quietly"]["server_died"])
        self.assertEqual(run.outcome("made/pass"), "pass")
        self.assertEqual(run.status, 1)

    def test_set_up_is_told(self):
        run = Run("--select", "set-up")
        self.assertIn("pool 3145728, leases 150 and 1200, reaping 400",
                      run.results["set-up/limits"]["message"])

    def test_launched_server_is_set_up(self):
        with tempfile.TemporaryDirectory() as folder:
            server, log = pathlib.Path(folder) / "server", pathlib.Path(folder) / "arguments"
            server.write_text(f'port=$1; shift; echo "$*" >>{log}\n'
                              f'exec {PROGRAM} mock --bind tcp://127.0.0.1:$port --no-http "$@"\n')
            arguments = ["--launch", f"sh {server} {{rpc_port}}", "--select", "set-up",
                         "--setup", "pool=--pool-size {pool_bytes}",
                         "--setup", "lease=--read-ttl {lease_seconds} --write-ttl {lease_seconds}"]
            lacking = Run(*arguments)
            self.assertEqual(lacking.outcome("set-up/limits"), "skip")
            self.assertIn("--setup", lacking.results["set-up/limits"]["message"])
            result = Run(*arguments, "--setup", "reap=--reap {reap_seconds}").results["set-up/limits"]
            self.assertIn("pool 3145728, leases 1000 and 2000, reaping 1000", result["message"])
            self.assertIn("--setup 'reap=--reap {reap_seconds}'", result["reproduce"])
            self.assertEqual(log.read_text().splitlines()[-1],
                             "--pool-size 3145728 --read-ttl 2 --write-ttl 2 --reap 1")

    def test_launch_that_ends(self):
        run = call("run", "--launch", "echo first; echo last; exit 7 # {rpc_port}")
        self.assertEqual(run.returncode, 3)
        self.assertIn("ended with status 7", run.stderr)
        self.assertIn("first | last", run.stderr)

    def test_launch_that_never_answers(self):
        run = call("run", "--launch", "sleep 60 # {rpc_port}", "--start-timeout", "1")
        self.assertEqual(run.returncode, 3)
        self.assertIn("did not answer within 1 s", run.stderr)


class Expectations(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.path = pathlib.Path(self.folder.name) / "expect.txt"

    def tearDown(self):
        self.folder.cleanup()

    def run_with(self, text, *arguments):
        self.path.write_text(text)
        return Run("--expect", str(self.path), *arguments)

    def test_known(self):
        run = self.run_with("made/fail fail # it is made so\nmade/timeout timeout # likewise\n"
                            "made/crash/* crash # likewise\n", "--select", "made/fail",
                            "--select", "made/timeout", "--select", "made/crash")
        self.assertEqual(run.status, 0, run.stderr)
        self.assertEqual(run.outcome("made/fail"), "known")
        self.assertEqual(run.results["made/fail"]["raw_outcome"], "fail")
        self.assertEqual(run.results["made/fail"]["reason"], "it is made so")
        self.assertEqual(run.outcome("made/crash/abort"), "known")

    def test_surprise(self):
        run = self.run_with("made/pass fail # long ago\n", "--select", "made/pass")
        self.assertEqual(run.status, 1)
        self.assertEqual(run.outcome("made/pass"), "surprise")
        self.assertIn(":1: 'made/pass' is expected to fail, and passed", run.stderr)

    def test_other_outcome_than_expected(self):
        run = self.run_with("made/fail timeout # no\n", "--select", "made/fail")
        self.assertEqual((run.status, run.outcome("made/fail")), (1, "fail"))
        self.assertEqual(run.results["made/fail"]["reason"], "timeout (line 1): no")

    def test_death_is_more_than_a_failure(self):
        arguments = ("--select", "kill/in-a-crowd", "--defect", "unknown-op-kills")
        run = self.run_with("kill/in-a-crowd fail # no\n", *arguments)
        self.assertEqual((run.status, run.outcome("kill/in-a-crowd")), (1, "fail"))
        run = self.run_with("kill/in-a-crowd dies # yes\n", *arguments)
        self.assertEqual((run.status, run.outcome("kill/in-a-crowd")), (0, "known"))

    def test_skip(self):
        run = self.run_with("made/fail skip # hurts\n", "--select", "made/fail",
                            "--select", "made/pass")
        self.assertEqual((run.status, run.outcome("made/fail")), (0, "skip"))
        self.assertIn("hurts", run.results["made/fail"]["message"])

    def test_line_that_matches_nothing(self):
        run = self.run_with("made/gone fail # old\n", "--select", "made/pass")
        self.assertEqual(run.status, 1)
        self.assertIn("'made/gone' matches no check", run.stderr)

    def test_line_that_was_not_selected(self):
        run = self.run_with("made/fail fail # known\n", "--select", "made/pass")
        self.assertEqual(run.status, 0, run.stderr)

    def test_bad_lines(self):
        for text, word in (("made/fail fail\n", "no reason"), ("made/fail oops # x\n", "'oops'"),
                           ("made/fail # x\n", "no outcome"), ("made/fail fail # ?\n", "no reason"),
                           ("made/fail fail # x\n\nmade/fail fail # y\n", "already in line 1")):
            run = self.run_with(text, "--select", "made/pass")
            self.assertEqual(run.status, 2, text)
            self.assertIn(word, run.stderr)
            self.assertIn(f"{self.path}:{text.count(chr(10))}:", run.stderr)

    def test_update(self):
        text = ("# head\n\nmade/pass fail # gone\nmade/gone fail # older\n"
                "made/crash timeout # why\nmade/leak fail # not run\n")
        run = self.run_with(text, "--update-expect", "--select", "made/pass", "--select",
                            "made/crash", "--select", "made/fail")
        self.assertEqual(run.status, 1)
        self.assertEqual(self.path.read_text(),
                         "# head\n\nmade/crash  crash  # why\nmade/leak fail # not run\n"
                         "made/fail  fail  # ?\n")

    def test_new_lines_are_sorted(self):
        self.run_with("", "--update-expect", "--select", "made/crash", "--select", "made/fail*", "-j", "4")
        lines = self.path.read_text().splitlines()
        self.assertGreater(len(lines), 3)
        self.assertEqual(lines, sorted(lines))


class Usage(unittest.TestCase):
    def refused(self, *arguments, words=()):
        done = call(*arguments)
        self.assertEqual(done.returncode, 2, arguments)
        self.assertEqual(done.stderr.count("\n"), 1, done.stderr)
        for word in words:
            self.assertIn(word, done.stderr)

    def test_one_line_and_status_2(self):
        for arguments, words in (
                (["rnu"], ["rnu", "run"]),
                (["run", "--selct", "x"], ["selct", "select"]),
                (["run", "--select", "no-such/*"], ["no-such/*"]),
                (["run", "--select", "made/pas"], ["made/pass"]),
                (["run", "--skip", "**"], ["nothing is selected"]),
                (["run", "--select", "@/no/such"], ["/no/such"]),
                (["run", "--jobs", "0"], ["--jobs", "at least 1"]),
                (["run", "--seed", "-1"], ["--seed"]),
                (["run", "--timeout", "soon"], ["--timeout"]),
                (["run", "--dialect", "9.9.9"], ["--dialect", "9.9.9"]),
                (["run", "--defect", "unknown-op-kils"], ["unknown-op-kills"]),
                (["run", "--defect", "unknown-op-kills", "--rpc-url", "tcp://h:1"], ["--defect"]),
                (["run", "--require", "wings"], ["wings"]),
                (["run", "--level", "may"], ["must, should or observed"]),
                (["run", "--junit", "/no/such/r.xml"], ["--junit", "/no/such/r.xml"]),
                (["run", "--json", "/"], ["--json"]),
                (["run", "--json", ""], ["--json"]),
                (["run", "--json", "-", "--junit", "-"], ["stdout"]),
                (["run", "--trace", "/no/such/folder"], ["--trace"]),
                (["run", "--trace", PROGRAM], ["--trace", "Not a directory"]),
                (["run", "--expect", "/no/such"], ["/no/such"]),
                (["run", "--expect", "/"], ["Is a directory"]),
                (["run", "--expect", "/no/such/file", "--update-expect"], ["/no/such/file"]),
                (["run", "--expect", os.devnull, "--update-expect"], [os.devnull, "no plain file"]),
                (["run", "--select", "@/"], ["--select", "Is a directory"]),
                (["run", "--select", "@" + os.devnull], ["nothing is selected"]),
                (["run", "--select", "a\nb\x1b"], ["a\\x0ab\\x1b"]),
                (["a\nb"], ["a\\x0ab"]),
                (["run", "--update-expect"], ["--expect"]),
                (["run", "--rpc-url", "http://x"], ["http://x"]),
                (["run", "--launch", "true"], ["{rpc_port}"]),
                (["run", "--setup", "pool={pool_gb}"], ["--setup", "--launch"]),
                (["run", "--launch", "{rpc_port}", "--setup", "pool=x"], ["'pool=x'", "{pool_gb}"]),
                (["run", "--launch", "{rpc_port}", "--setup", "x"], ["--setup", "'x'", "lease"]),
                (["run", "more"], ["more"]),
                (["explain"], ["missing"]),
                (["explain", "made/pas"], ["made/pass"]),
                (["explain", ""], ["no check matches"]),
                (["decode", "/no/such"], ["kvconform: /no/such: cannot be read: No such file or directory"]),
                (["replay", "/no/such", "--rpc-url", "tcp://127.0.0.1:1"], ["/no/such: cannot be read"]),
                (["record", "--rpc-url", "tcp://127.0.0.1:1", "--output", "/no/such/r"], ["--output", "/no/such/r"]),
                (["bench", "server", "--mode", "cpu", "--kvcache-shape-spec", "foo"], ["--kvcache-shape-spec"]),
                (["versoin"], ["version"]),
                (["mock", "--defect", "nonesuch"], ["nonesuch"]),
                (["mock", "--dialect", "auto"], ["--dialect", "give a release"]),
                (["mock", "--pool-size", "4X"], ["--pool-size", "64M"]),
                (["mock", "--pool-size", "99999999T"], ["--pool-size"]),
                (["mock", "--bind", "tcp://127.0.0.1:0", "--no-http", "--pool-size", "99999T"], ["--pool-size"]),
                (["run", "-X"], ["-X"]),
                (["run", "-j"], ["--jobs", "value"]),
                (["run", "--quiet=yes"], ["--quiet", "takes no value"]),
                (["run", "--se", "x"], ["--se", "select", "seed"]),
                (["list", "--select", "made/pas"], ["made/pass"]),
                (["decode", PROGRAM], [PROGRAM]),
                (["identify"], ["--rpc-url"]),
                (["run", "--rpc-url", "tcp://h:1", "--url", "https://h:1"], ["--url", "TLS"]),
                (["identify", "--rpc-url", "tcp://127.0.0.1:1", "--defect", "never-answers"], ["--defect"])):
            with self.subTest(arguments):
                self.refused(*arguments, words=words)

    def test_nothing_is_started_for_a_wrong_address(self):
        with tempfile.TemporaryDirectory() as folder:
            started = pathlib.Path(folder) / "started"
            launch = ["run", "--launch", f"touch {started} # {{rpc_port}}"]
            self.refused(*launch, "--url", "localhost:80", words=["--url", "localhost:80"])
            self.refused(*launch, "--rpc-url", "tcp://x", words=["--rpc-url", "tcp://x"])
            self.assertFalse(started.exists())

    def test_output_that_cannot_be_written(self):
        for arguments in (["--version"], ["list"], ["explain", "made/pass"],
                          ["run", "--select", "made/pass", "--json", "-"]):
            with self.subTest(arguments), open("/dev/full", "w") as full:
                done = subprocess.run([PROGRAM, *arguments], stdout=full, stderr=subprocess.PIPE,
                                      text=True)
                self.assertEqual(done.returncode, 1)
                self.assertIn("No space left", done.stderr)

    def test_nobody_reads_stderr(self):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "run.json"
            reader, writer = os.pipe()
            os.close(reader)
            done = subprocess.run([PROGRAM, "run", *FAST, "--select", "made/pass", "--json", path],
                                  stderr=writer)
            os.close(writer)
            self.assertEqual(done.returncode, 0)
            self.assertTrue(path.exists())

    def test_unreachable(self):
        done = call("run", "--rpc-url", "tcp://127.0.0.1:1")
        self.assertEqual(done.returncode, 3)
        self.assertEqual(done.stderr.count("\n"), 1, done.stderr)

    def test_nothing_could_be_run(self):
        run = Run("--select", "made/skip")
        self.assertEqual(run.status, 2)

    def test_min_checks(self):
        self.assertEqual(Run("--select", "made/pass", "--min-checks", "1").status, 0)
        run = Run("--select", "made/pass", "--select", "made/skip", "--min-checks", "2")
        self.assertEqual(run.status, 1)
        self.assertIn("only 1 were carried out", run.stderr)

    def test_require(self):
        self.assertEqual(Run("--select", "made/pass", "--require", "pool").status, 0)
        run = Run("--select", "made/pass", "--require", "no-pool")
        self.assertEqual(run.status, 1)
        self.assertIn("--require no-pool", run.stderr)

    def test_transfer(self):
        run = Run("--select", "server/path", "--transfer", "engine_driven")
        self.assertEqual(run.outcome("server/path/lmcache_driven"), "skip")
        self.assertEqual(run.outcome("server/path/engine_driven"), "pass")
        run = Run("--select", "server/path",
                  env={"LMCACHE_MP_TRANSFER_MODE": "lmcache_driven"})
        self.assertEqual(run.outcome("server/path/lmcache_driven"), "pass")
        self.assertEqual(run.outcome("server/path/engine_driven"), "skip")
        done = call("run", env={"LMCACHE_MP_TRANSFER_MODE": "carrier-pigeon"})
        self.assertEqual(done.returncode, 2)
        self.assertIn("LMCACHE_MP_TRANSFER_MODE", done.stderr)

    def test_little_room_for_segments(self):
        """As in a container, whose /dev/shm has 64 MiB."""
        script = 'mount -t tmpfs -o size=$1 none /dev/shm && "$2" run -q --select made/pass'
        for size, told in (("64m", True), ("512m", False)):
            done = subprocess.run(["unshare", "-rm", "sh", "-c", script, "sh", size, PROGRAM],
                                  capture_output=True, text=True, timeout=60)
            if done.returncode != 0 and ("unshare" in done.stderr or "mount" in done.stderr):
                self.skipTest("no file system can be mounted here: " + done.stderr.strip())
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertEqual("/dev/shm has room for 64 MiB" in done.stderr, told, done.stderr)

    def test_cuda_is_skipped_with_a_reason(self):
        run = Run("--select", "made/pass", "--device", "cuda")
        self.assertEqual((run.status, run.outcome("made/pass")), (2, "skip"))
        self.assertIn("cuda", run.results["made/pass"]["message"])

    def test_run_limit(self):
        run = Run("--select", "slow", "--run-limit", "0.5")
        self.assertEqual(run.status, 1)
        self.assertEqual(run.outcome("slow/linger/a"), "not-run")
        self.assertIn("limit of the whole run", run.stderr)

    def test_trace_can_be_decoded(self):
        with tempfile.TemporaryDirectory() as folder:
            Run("--select", "made/fail", "--trace", folder)
            done = call("decode", folder + "/made.fail.json")
        self.assertEqual(done.returncode, 0)
        self.assertIn("noop", done.stdout)

    def test_report_that_cannot_be_written_at_the_end(self):
        with open("/dev/full", "w") as full:
            done = subprocess.run([PROGRAM, "run", "--select", "made/pass", "--json", "-"],
                                  stdout=full, stderr=subprocess.PIPE, text=True)
        self.assertEqual(done.returncode, 1)
        self.assertIn("cannot write", done.stderr)

    def test_seed_decides(self):
        first, second = (call("run", "--seed", "7", "--select", "made/pass", "-v").stderr
                         for _ in range(2))
        self.assertIn("seed 7", first)
        self.assertNotIn("device:", first)
        self.assertEqual(first.split("\n")[0], second.split("\n")[0])

    def test_lists(self):
        listed = call("list").stdout.splitlines()
        self.assertEqual(listed, sorted(listed))
        self.assertIn("made/pass", [line.split()[0] for line in listed])
        self.assertIn("0.5.1", call("list", "--dialects").stdout)
        self.assertIn("It passes.", call("list", "--clauses").stdout)
        self.assertIn("made/crash/abort", call("list", "--instances").stdout.split())
        self.assertRegex(call("list", "--families").stdout, r"made +\d+ checks")
        checks = {c["id"]: c for c in json.loads(call("list", "--format", "json").stdout)["checks"]}
        self.assertEqual(checks["made/timeout"]["instances"],
                         ["made/timeout/asleep", "made/timeout/waiting"])
        self.assertEqual(checks["made/needs-pass"]["after"], "made/pass")
        explained = call("explain", "made/timeout").stdout
        self.assertIn("It does not end.", explained)
        self.assertIn("asleep, waiting", explained)

    def stderr_of_terminal(self, *arguments, env=None, columns=80):
        """What a run writes when stderr is a terminal."""
        ours, theirs = pty.openpty()
        termios.tcsetwinsize(theirs, (24, columns))
        with subprocess.Popen([PROGRAM, "run", "--select", "made/pass", *arguments],
                              stderr=theirs, env={**os.environ, **(env or {})}):
            os.close(theirs)
            text = b""
            try:
                while data := os.read(ours, 4096):
                    text += data
            except OSError:  # the other side is closed
                pass
        os.close(ours)
        return text.decode()

    def test_terminal(self):
        text = self.stderr_of_terminal(env={"NO_COLOR": ""})
        self.assertIn("[0/1]", text)
        self.assertTrue(text.split("\r\x1b[K")[-1].startswith("1 check in"), text)
        self.assertIn("\x1b[32m1 passed", text)
        for arguments, env in (([], {"NO_COLOR": "1"}), (["--color", "never"], {})):
            self.assertNotIn("\x1b[32m", self.stderr_of_terminal(*arguments, env=env))
        self.assertNotIn("[0/1]", self.stderr_of_terminal("-q"))
        for columns in (1, 6):
            text = self.stderr_of_terminal(columns=columns)
            self.assertIn("\r\x1b[K" + "[0/1]"[:columns - 1] + "\r", text)
        self.assertIn("\x1b[32m", call("run", "--select", "made/pass", "--color",
                                       "always").stderr)
        self.assertNotIn("\x1b", call("run", "--select", "made/pass").stderr)

    def test_help(self):
        version = call("--version")
        self.assertEqual(call("version").stdout, version.stdout)
        self.assertRegex(version.stdout, r"^kvconform \d+\.\d+\.\d+\n$")
        commands = ("run", "list", "explain", "mock", "bench", "identify", "decode")
        for command in commands:
            self.assertIn(f"  {command} ", call("--help").stdout)
        for command in (*commands[:4], *commands[5:]):
            done = call(command, "--help")
            self.assertEqual((done.returncode, done.stderr), (0, ""))
            self.assertTrue(done.stdout.startswith(f"usage: kvconform {command}"))
            self.assertLessEqual(max(map(len, done.stdout.splitlines())), 96)
        done = call("run", "-h")
        for word in ("--select PATTERN", "-j, --jobs N", "--rpc-url URL", "--expect FILE"):
            self.assertIn(word, done.stdout)
        self.assertEqual(call().returncode, 2)
        self.assertNotIn("mock", call("identify", "--help").stdout)

    def test_every_defect_has_a_line(self):
        lines = call("mock", "--list-defects").stdout.splitlines()
        self.assertGreaterEqual(len(lines), 25)
        self.assertIn("unknown-op-kills", [line.split()[0] for line in lines])

    def test_identify(self):
        done = call("identify", "--format", "json", "--launch",
                    f"{PROGRAM} mock --bind tcp://127.0.0.1:{{rpc_port}} --no-http "
                    "--pool-size 4M --dialect 0.5.4")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(json.loads(done.stdout)["dialect"], "0.5.3")

    def test_identify_in_words(self):
        done = call("identify", "--launch", f"{PROGRAM} mock --bind tcp://127.0.0.1:{{rpc_port}} "
                                            "--http 127.0.0.1:{http_port} --pool-size 4M")
        self.assertRegex(done.stdout, r"dialect: +0\.5\.6 \(spoken by 0\.5\.6\)\n"
                                      r"version: +0\.5\.6\nchunk size: 256 tokens\n")

    def test_identify_for_a_client(self):
        mock = f"{PROGRAM} mock --bind tcp://127.0.0.1:{{rpc_port}} --no-http --pool-size 4M --dialect 0.5.3"
        done = call("identify", "--launch", mock, "--client-dialect", "0.5.1")
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertIn("client:     0.5.1 is incompatible, first differing operation store: ", done.stdout)
        done = call("identify", "--launch", mock, "--client-dialect", "0.5.5", "--format", "json")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIs(json.loads(done.stdout)["client_works"], True)
        done = call("run", "--launch", mock, "--client-dialect", "0.5.1", "--select", "made/pass")
        self.assertEqual((done.returncode, done.stdout), (1, ""))
        self.assertIn("a client of 0.5.1 and this server, which speaks 0.5.3, are incompatible, first differing "
                      "operation store: ", done.stderr)
        self.assertNotIn(" checks in ", done.stderr)
        done = call("run", "--launch", mock, "--client-dialect", "0.5.5", "--select", "made/pass", "--json", "-")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("clients:   0.5.5 can work with it", done.stderr)
        self.assertEqual(json.loads(done.stdout)["run"]["client_dialect"], "0.5.5")
        self.assertEqual(call("run", "--client-dialect", "0.5.5a").returncode, 2)
        done = call("identify", "--launch", mock, "--client-dialect", "0.4")
        self.assertEqual(done.returncode, 2)
        self.assertRegex(done.stderr, r"--client-dialect.*'0\.4'")


if __name__ == "__main__":
    unittest.main(argv=sys.argv[1:])
