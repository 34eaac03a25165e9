#!/usr/bin/env python3
"""record, replay, decode --check and mock --strict, as somebody uses them: files, exit statuses, signals, and
nothing left behind. What is found wrong with clients is tested in tests/unit/watch.

usage: watching.py KVCONFORM FRAMES_FOLDER DOCUMENT
"""
import json
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import time
import unittest

PROGRAM, FRAMES, DOCUMENT = sys.argv[1], pathlib.Path(sys.argv[2]), pathlib.Path(sys.argv[3])
LIMIT = 60
SHAPE = "(2,64,16,2,8):float16:2"
# The three ways that the bytes can take, and what the mock has to be for them.
PATHS = [("engine_driven", []), ("engine_driven", ["--no-pool"]), ("lmcache_driven", [])]


def call(*arguments):
    return subprocess.run([PROGRAM, *map(str, arguments)], capture_output=True, text=True, timeout=LIMIT)


def segments():
    return set(os.listdir("/dev/shm"))


class Watching(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.file = self.folder / "recording.json"

    def start(self, *arguments):
        """A command that prints where it listens, and runs until it is told to stop."""
        process = subprocess.Popen([PROGRAM, *map(str, arguments)], stdout=subprocess.PIPE,
                                   stderr=subprocess.PIPE, text=True)
        # Asked, not killed: it removes its pool. One that a failed test has left stopped goes on first.
        self.addCleanup(lambda: (process.terminate(), process.send_signal(signal.SIGCONT), process.communicate()))
        process.url = process.stdout.readline().strip()
        return process

    def mock(self, *options, release="0.5.6"):
        mock = self.start("mock", "--bind", "tcp://127.0.0.1:0", "--http", "127.0.0.1:0", "--dialect",
                          release, *options)
        mock.http = mock.stdout.readline().strip()
        self.assertTrue(mock.url.startswith("tcp://"), mock.url)
        return mock

    def record(self, server, *options):
        recorder = self.start("record", "--rpc-url", server.url, *options)
        self.assertTrue(recorder.url.startswith("tcp://"), recorder.url)
        return recorder

    def stop(self, process, number=signal.SIGTERM):
        process.send_signal(number)
        _, errors = process.communicate(timeout=LIMIT)
        return process.returncode, errors

    def bench(self, url, http, mode, release):
        done = call("bench", "server", "--rpc-url", url, "--url", http, "--dialect", release, "--mode",
                    "cpu", "--transfer-mode", mode, "--start", 0, "--end", 2, "--interval", 0,
                    "--kvcache-shape-spec", SHAPE, "-q")
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)

    def edited(self, name, edit):
        """A recording of fixtures/frames with its messages changed."""
        messages = edit(json.loads((FRAMES / name).read_text()))
        self.file.write_text(json.dumps(messages))
        return self.file


class Clean(Watching):
    """Our own drivers do nothing wrong, as the mock sees it and as a proxy does."""

    def check(self, release):
        for mode, options in PATHS:
            with self.subTest(mode=mode, options=options):
                mock = self.mock("--strict", *options, release=release)
                recorder = self.record(mock, "--output", self.file, "--check", "--dialect", release)
                self.bench(recorder.url, mock.http, mode, release)
                status, said = self.stop(recorder)
                self.assertEqual((status, said.splitlines()[0]), (0, "0 findings"), said)
                self.assertEqual(self.stop(mock), (0, ""))
                checked = call("decode", "--check", self.file)
                self.assertEqual((checked.returncode, checked.stdout), (0, "0 findings\n"))

    def test_first_dialect(self):
        self.check("0.5.1")

    def test_last_dialect(self):
        self.check("0.5.6")


class Record(Watching):
    def test_a_recording_plays_again(self):
        mock = self.mock()
        recorder = self.record(mock, "--output", self.file)
        self.bench(recorder.url, mock.http, "lmcache_driven", "0.5.6")
        self.assertFalse(self.file.exists(), "it is not complete yet")
        status, said = self.stop(recorder, signal.SIGINT)
        self.assertEqual(status, 0, said)
        messages = json.loads(self.file.read_text())
        self.assertIn("%d messages recorded in %s" % (len(messages), self.file), said)
        self.assertEqual({m["client"] for m in messages}, {0, 1})
        self.assertEqual([m["t"] for m in messages], sorted(m["t"] for m in messages))
        fresh = self.mock()
        done = call("replay", self.file, "--rpc-url", fresh.url, "--dialect", "0.5.6")
        self.assertEqual((done.returncode, done.stdout), (0, ""), done.stdout)

    def test_nothing_is_left_of_one_that_was_killed(self):
        recorder = self.record(self.mock(), "--output", self.file)
        recorder.kill()
        recorder.wait(LIMIT)
        self.assertFalse(self.file.exists())

    def test_nothing_recorded_is_a_recording_of_nothing(self):
        recorder = self.record(self.mock(), "--output", self.file)
        self.assertEqual(self.stop(recorder)[0], 0)
        self.assertEqual(json.loads(self.file.read_text()), [])
        self.assertEqual(call("decode", self.file).returncode, 0)
        self.assertEqual([f.name for f in self.folder.iterdir()], [self.file.name])

    def test_ends_by_itself(self):
        mock = self.mock()
        recorder = self.record(mock, "--output", self.file, "--count", 7)
        done = call("replay", FRAMES / "0.5.6-lmcache_driven.json", "--rpc-url", recorder.url,
                    "--timeout", 0.2)
        self.assertNotEqual(done.returncode, 2, done.stderr)
        self.assertEqual(recorder.wait(LIMIT), 0)
        self.assertEqual(len(json.loads(self.file.read_text())), 7)
        started = time.monotonic()
        timed = self.record(mock, "--output", self.file, "--for", 0.3)
        self.assertEqual(timed.wait(LIMIT), 0)
        self.assertGreater(time.monotonic() - started, 0.3)

    def test_findings_of_the_mock_are_status_1(self):
        mock = self.mock("--strict")
        call("bench", "server", "--rpc-url", mock.url, "--dialect", "0.5.1", "--mode", "cpu", "--end", 1,
             "--timeout", 1, "-q", "--kvcache-shape-spec", SHAPE)
        status, said = self.stop(mock)
        self.assertEqual(status, 1, said)
        self.assertIn("strict: ", said)

    def test_an_address_that_is_taken(self):
        mock = self.mock()
        done = call("record", "--rpc-url", mock.url, "--listen", mock.url, "--output", self.file)
        self.assertEqual(done.returncode, 3, done.stderr)
        self.assertEqual(done.stderr.count("\n"), 1, done.stderr)
        self.assertIn(mock.url, done.stderr)

    def test_findings_are_said_and_are_status_1(self):
        mock = self.mock()
        recorder = self.record(mock, "--check", "--dialect", "0.5.6")
        forgetful = self.edited("0.5.6-lmcache_driven-warm-hit.json", lambda messages: messages[:-2])
        self.assertEqual(call("replay", forgetful, "--rpc-url", recorder.url).returncode, 0)
        status, said = self.stop(recorder)
        self.assertEqual(status, 1)
        self.assertIn("not-unregistered: instance 1000 of test-model\n", said)
        self.assertIn("1 finding\n", said)

    def test_stdout(self):
        recorder = subprocess.Popen([PROGRAM, "record", "--rpc-url", self.mock().url, "--output", "-"],
                                    stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.assertTrue(recorder.stderr.readline().startswith("tcp://"))
        recorder.terminate()
        self.assertEqual(json.loads(recorder.communicate(timeout=LIMIT)[0]), [])

    def test_ends_when_nobody_reads_on(self):
        recorder = subprocess.Popen([PROGRAM, "record", "--rpc-url", self.mock().url, "--output", "-"],
                                    stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.addCleanup(lambda: (recorder.kill(), recorder.wait(), recorder.stderr.close()))
        url = recorder.stderr.readline().strip()
        recorder.stdout.close()
        call("replay", FRAMES / "0.5.6-lmcache_driven.json", "--rpc-url", url, "--timeout", 0.2)
        self.assertEqual(recorder.wait(LIMIT), 1)
        self.assertIn("cannot write all of '-'", recorder.stderr.read())

    def test_usage(self):
        url = "tcp://127.0.0.1:1"
        for status, arguments, text in (
                (2, [], "--rpc-url"),
                (2, ["--rpc-url", url], "--output"),
                (2, ["--rpc-url", url, "--output", self.folder], str(self.folder)),
                (2, ["--rpc-url", url, "--output", "/no/such/file"], "/no/such/file"),
                (2, ["--rpc-url", "nonsense", "--output", self.file], "nonsense"),
                (2, ["--rpc-url", url, "--check", "--dialect", "0.5.7"], "0.5.7"),
                (3, ["--rpc-url", url, "--output", self.file], url)):
            with self.subTest(arguments=arguments):
                done = call("record", *arguments)
                self.assertEqual(done.returncode, status, done.stderr)
                self.assertIn(text, done.stderr)
        self.assertEqual(list(self.folder.iterdir()), [])


class Replay(Watching):
    def test_every_recording_of_a_real_server(self):
        before = segments()
        recordings = sorted(FRAMES.glob("*.json"))
        self.assertGreater(len(recordings), 8)
        for path in recordings:
            with self.subTest(path=path.name):
                inline = path.name == "0.5.6-engine_driven.json"
                mock = self.mock(*["--no-pool"] * inline, release=path.name.split("-")[0])
                done = call("replay", path, "--rpc-url", mock.url)
                self.assertEqual((done.returncode, done.stdout), (0, ""))
                self.assertRegex(done.stderr, r"^\d+ requests played, \d+ replies compared, 0 differences$")
                self.stop(mock)
        self.assertEqual({s for s in segments() - before if "lmcache_kv_" in s}, set())

    def test_a_reply_that_differs(self):
        def edit(messages):
            messages[-1]["frames"].append("c3")
            return messages
        path = self.edited("0.5.6-lmcache_driven.json", edit)
        done = call("replay", path, "--rpc-url", self.mock().url)
        self.assertEqual(done.returncode, 1)
        self.assertEqual(done.stdout, "message %d (connection 0): unregister_kv_cache: recorded 3 frames, "
                         "now 2\n" % (len(json.loads(path.read_text())) - 1))
        self.assertIn("1 difference\n", done.stderr)

    def test_a_server_that_differs(self):
        done = call("replay", FRAMES / "0.5.6-engine_driven-pool.json", "--rpc-url",
                    self.mock("--defect", "slot-short").url)
        self.assertEqual(done.returncode, 1)
        self.assertIn("prepare_store: result.context.slots[0].length: recorded 32768, now ", done.stdout)

    def test_a_reply_that_is_missing_and_one_too_many(self):
        path = FRAMES / "0.5.6-engine_driven-pool.json"
        done = call("replay", path, "--rpc-url", self.mock(release="0.5.1").url, "--timeout", 0.2)
        self.assertEqual(done.returncode, 1)
        self.assertIn("recorded a reply, now none", done.stdout)
        path = self.edited(path.name, lambda messages: messages[:1])
        done = call("replay", path, "--rpc-url", self.mock().url)
        self.assertEqual(done.returncode, 1)
        self.assertEqual(done.stdout, "message 0 (connection 0): get_chunk_size: recorded no reply, now "
                         "there is one\n")

    def test_a_server_that_goes_away(self):
        mock = self.mock()
        replay = subprocess.Popen([PROGRAM, "replay", self.edited("0.5.6-engine_driven-pool.json", endless),
                                   "--rpc-url", mock.url, "--timeout", "30"], stdout=subprocess.PIPE,
                                  stderr=subprocess.PIPE, text=True)
        time.sleep(0.5)
        self.stop(mock)
        _, errors = replay.communicate(timeout=LIMIT)
        self.assertEqual(replay.returncode, 3, errors)

    def test_an_interruption_leaves_nothing_behind(self):
        before = segments()
        for number, status in ((signal.SIGINT, 130), (signal.SIGTERM, 143)):
            mock = self.mock()
            replay = subprocess.Popen([PROGRAM, "replay",
                                       self.edited("0.5.6-lmcache_driven.json", endless), "--rpc-url",
                                       mock.url], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            time.sleep(0.5)
            self.assertTrue(any("lmcache_kv_" in s for s in segments() - before), "it has begun")
            replay.send_signal(number)
            self.assertEqual(replay.wait(LIMIT), status)
        self.assertEqual({s for s in segments() - before if "lmcache_kv_" in s}, set())

    def test_usage(self):
        recording = FRAMES / "0.5.6-engine_driven.json"
        nonsense = self.folder / "nonsense.json"
        nonsense.write_text('[{"t": 1}]')
        for status, arguments, text in (
                (2, [], "FILE"),
                (2, [recording], "--rpc-url"),
                (2, ["/no/such", "--rpc-url", "tcp://127.0.0.1:1"], "/no/such"),
                (2, [nonsense, "--rpc-url", "tcp://127.0.0.1:1"], "message 0"),
                (2, [recording, "--rpc-url", "nonsense"], "nonsense"),
                (3, [recording, "--rpc-url", "tcp://127.0.0.1:1"], "tcp://127.0.0.1:1")):
            with self.subTest(arguments=arguments):
                done = call("replay", *arguments)
                self.assertEqual(done.returncode, status, done.stderr)
                self.assertIn(text, done.stderr)

    def test_a_segment_that_cannot_be(self):
        """A registration of more memory than there is."""
        done = call("replay", self.edited("0.5.6-lmcache_driven.json", with_huge_segment), "--rpc-url",
                    self.mock().url)
        self.assertEqual(done.returncode, 1)
        self.assertIn("no room for segment", done.stderr)


def endless(messages):
    """Most of the exchange lies behind pauses, so that it is still going on when something happens."""
    return messages[:4] + [dict(m, t=i) for i, m in enumerate(messages[4:] * 100)]


def with_huge_segment(messages):
    handles = messages[2]["frames"][3]
    huge = handles.replace("c79501", "c79901").replace("ce00010000", "cf0fffffffff000000")
    assert len(huge) > len(handles)
    messages[2]["frames"][3] = huge
    return messages


class Decode(Watching):
    def test_check(self):
        done = call("decode", "--check", FRAMES / "0.5.1-lmcache_driven-two-groups.json")
        self.assertEqual(done.returncode, 1)
        lines = done.stdout.splitlines()
        self.assertEqual(lines[0], "model-not-registered: test-model in a world of 1 (lookup, connection 0)")
        self.assertTrue(lines[1].startswith("    a lookup for a model and world that no instance serves: "))
        self.assertTrue(lines[2].startswith("        uid "))
        self.assertEqual(lines[-1], "4 findings; 3 requests were never answered")

    def test_check_without_a_chunk_size(self):
        """Windows are judged by what the recording says of chunks, or what the user does."""
        path = self.edited("0.5.6-lmcache_driven-warm-hit.json", lambda messages: messages[2:])
        self.assertEqual(call("decode", "--check", path).returncode, 0)
        done = call("decode", "--check", path, "--chunk-size", 1000)
        self.assertEqual(done.returncode, 1)
        self.assertIn("unaligned-window: [0, 512) in chunks of 1000 tokens", done.stdout)

    def test_rules_are_explained(self):
        rules = [line.split()[0] for line in call("decode", "--list-rules").stdout.splitlines()]
        self.assertGreater(len(rules), 40)
        text = DOCUMENT.read_text()
        for rule in rules:
            self.assertIn("| `%s` |" % rule, text)

    def test_usage(self):
        self.assertEqual(call("decode").returncode, 2)
        self.assertEqual(call("decode", "--check", PROGRAM).returncode, 2)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1] + sys.argv[4:])
