#!/usr/bin/env python3
"""`--flamegraph on` of the benches: which profiler is asked for what, and the picture of what it saw.

The profilers are scripts here, so that what they see is known; where perf is there and may be used, it has its turn
as well (l2.py).

usage: flamegraph.py KVCONFORM [TEST…]
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
import xml.etree.ElementTree

from leftovers import until
from scripted_engine import Engine

PROGRAM = os.path.abspath(sys.argv[1])
SVG = "{http://www.w3.org/2000/svg}"
WIDTH, ROW = 1200, 17
STACKS = {"main;serve;store <K&V>": 600, "main;serve;load": 300, "main;wait": 92, "main": 7, "aside;\u00fc\u2192": 1}
# The option with the place of the recording, none: stdout; and how one sees that it has begun.
BCC = (None, "exec 9> bpf-prog")
TOOLS = {"py-spy": ("--output", "echo 'py-spy> Sampling process 200 times a second.'"),
         "offcputime-bpfcc": BCC, "wakeuptime-bpfcc": BCC, "offwaketime-bpfcc": BCC}


def layout(stacks):
    """What a flame graph of these is: {(name, weight): [(x, width, row from below)]}; a frame's children are
    by name, from left to right, and what has no child is at the right."""
    frames = []

    def place(level, x, row):
        for name in sorted(level, key=lambda name: name.encode()):
            weight, below = level[name]
            frames.append((name, weight, x, weight / total * WIDTH, row))
            place(below, x, row + 1)
            x += weight / total * WIDTH

    tree, total = {}, sum(stacks.values())
    for stack, weight in stacks.items():
        level = tree
        for name in stack.split(";"):
            entry = level.setdefault(name, [0, {}])
            entry[0] += weight
            level = entry[1]
    place(tree, 0, 0)
    return frames


class FlameGraph(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.tools = self.folder / "bin"
        self.tools.mkdir()
        self.picture = self.folder / "picture.svg"
        self.store = json.dumps({"type": "fs", "base_path": str(self.folder / "store")})

    def tool(self, name, script):
        path = self.tools / name
        path.write_text("#!/bin/sh\n" + script)
        path.chmod(0o755)

    def recorder(self, name, stacks=STACKS):
        """A profiler that writes down its call and process, and what it saw when it is told to end."""
        seen = self.folder / (name + ".seen")
        seen.write_text("".join("%s %d\n" % item for item in stacks.items()))
        option, words = TOOLS[name]
        find = ('while [ "$1" != %s ]; do shift; done; to=$2' % option) if option else "to=/dev/stdout"
        self.tool(name, 'echo "$@" >> %s/calls; echo $$ >> %s/processes\n%s\n'
                        'trap \'cat %s > "$to"; exit 0\' INT\n%s\nwhile :; do sleep 0.02; done\n'
                  % (self.folder, self.folder, find, seen, words))

    def perf(self, text):
        """The same for perf, which is asked afterwards what is in its recording."""
        (self.folder / "perf.text").write_text(text)
        self.tool("perf", 'echo "$@" >> %s/calls\nif [ $1 = script ]; then cat %s/perf.text; exit; fi\n'
                          'while [ $1 != -o ]; do shift; done; echo > $2\n'
                          'trap "exit 0" INT; exec 9> "[perf_event]"\nwhile :; do sleep 0.02; done\n' % (self.folder, self.folder))

    def calls(self):
        return (self.folder / "calls").read_text().splitlines()

    def command(self, bench, *arguments, mode=None, output=True):
        return [PROGRAM, "bench", bench, *map(str, arguments), "--flamegraph", "on",
                *([] if mode is None else ["--flamegraph-mode", mode]),
                *(["--flamegraph-output", self.picture] if output else [])]

    def environment(self, with_others=True):
        return {**os.environ, "PATH": "%s%s" % (self.tools, ":" + os.environ["PATH"] if with_others else "")}

    def run_command(self, command, status=0, with_others=True):
        done = subprocess.run(command, cwd=self.folder, capture_output=True, text=True, timeout=60,
                              stdin=subprocess.DEVNULL, env=self.environment(with_others))
        self.assertEqual(done.returncode, status, done.stdout[-2000:] + done.stderr)
        return done

    def server(self, *arguments, mode="gil", **options):
        mock = "%s mock --bind tcp://127.0.0.1:{rpc_port} --http 127.0.0.1:{http_port}" % PROGRAM
        return self.run_command(self.command(
            "server", "--mode", "cpu", "--transfer-mode", "lmcache_driven", "--kvcache-shape-spec",
            "(2,64,16,2,8):float16:2", "--end", 3, "--interval", 0, "--launch", mock, *arguments, mode=mode), **options)

    def l2(self, *arguments, mode=None, **options):
        return self.run_command(self.command("l2", "--l2-adapter", self.store, "--num-keys", 2, "--data-size-kb", 4,
                                             *arguments, mode=mode), **options)

    def engine(self, *arguments, mode=None, **options):
        engine = Engine()
        self.addCleanup(engine.stop)
        return self.run_command(self.command(
            "engine", "--engine-url", engine.url, "--workload", "random-prefill", "--tokens-per-gb-kvcache", 1000,
            "--no-interactive", "--rp-request-length", 100, "--rp-num-requests", 3, *arguments, mode=mode), **options)

    def expect_picture(self, stacks, unit, path=None):
        root = xml.etree.ElementTree.parse(path or self.picture).getroot()
        self.assertEqual(root.tag, SVG + "svg")
        height, total, drawn = int(root.get("height")), sum(stacks.values()), []
        for group in root.iter(SVG + "g"):
            title, rectangle = group.find(SVG + "title").text, group.find(SVG + "rect")
            drawn.append((title, float(rectangle.get("x")), float(rectangle.get("width")),
                          (height - int(rectangle.get("y"))) // ROW - 1))
            text = group.find(SVG + "text")
            if text is not None:
                self.assertTrue(title.startswith(text.text), (title, text.text))
                self.assertLessEqual(7 * len(text.text), float(rectangle.get("width")) + 7)
        wanted = [("%s (%d %s, %.2f %%)" % (name, weight, unit, 100 * weight / total), x, width, row)
                  for name, weight, x, width, row in layout(stacks)]
        self.assertEqual(sorted(frame[0] for frame in drawn), sorted(frame[0] for frame in wanted))
        for frame, meant in zip(sorted(drawn), sorted(wanted)):
            self.assertEqual((frame[0], frame[3]), (meant[0], meant[3]))
            self.assertAlmostEqual(frame[1], meant[1], delta=0.06)
            self.assertAlmostEqual(frame[2], meant[2], delta=0.06)
        return root

    def expect_nothing_left(self):
        for process in (self.folder / "processes").read_text().split():
            self.assertTrue(until(lambda: not pathlib.Path("/proc", process).exists()), "a profiler goes on")
        for call in self.calls():
            for word in call.split():
                if word.startswith("/tmp/kvconform-"):
                    self.assertFalse(pathlib.Path(word).parent.exists(), word)


class Pictures(FlameGraph):
    def test_a_server(self):
        """One that is launched is found below the shell; gil is LMCache's default mode."""
        self.recorder("py-spy")
        self.tool("name", 'tr "\\0" " " < /proc/$1/cmdline')
        script = (self.tools / "py-spy").read_text()
        self.tool("py-spy", 'name $3 > %s/profiled\n' % self.folder + script)
        done = self.server(mode=None)
        self.assertIn("Flame graph: %s" % self.picture, done.stderr)
        self.assertRegex((self.folder / "profiled").read_text(), r"^\S*kvconform mock ")
        self.assertRegex(self.calls()[0], r"^record --pid \d+ --rate 200 --format raw --threads --gil --nonblocking "
                                          r"--output /tmp/kvconform-\w+/recording$")
        root = self.expect_picture(STACKS, "samples")
        self.assertEqual(root.find(SVG + "text").text, "bench server, gil: 1000 samples")
        self.expect_nothing_left()

    def test_a_server_by_its_pid(self):
        self.recorder("py-spy")
        self.server("--profile-server-pid", os.getpid(), "--flamegraph-scripts-dir", "/nowhere", mode="wall")
        self.assertIn("--pid %d " % os.getpid(), self.calls()[0])
        self.assertIn(" --idle ", self.calls()[0])

    def test_an_engine(self):
        self.perf("kvd \n\t1 inner\n\t2 outer+0x4\n\nkvd \n\t3 outer+0x4\n\n")
        done = self.engine("--profile-engine-pid", os.getpid())
        self.assertIn("Flame graph: %s" % self.picture, done.stderr)
        self.assertRegex(self.calls()[0], r"^record .* -p %d$" % os.getpid())
        self.assertRegex(self.calls()[1], r"^script ")
        root = self.expect_picture({"kvd;outer+0x4;inner": 1, "kvd;outer+0x4": 1}, "samples")
        self.assertEqual(root.find(SVG + "text").text, "bench engine, on-cpu: 2 samples")

    @unittest.skipIf(os.geteuid() != 0, "bcc works for root only")
    def test_ourselves(self):
        for mode, tool in (("off-cpu", "offcputime-bpfcc"), ("wakeup", "wakeuptime-bpfcc"),
                           ("offwake", "offwaketime-bpfcc")):
            self.recorder(tool)
            self.l2("--flamegraph-dir", "/nowhere", mode=mode)
            self.assertRegex(self.calls()[-1], r"^-d?f -p \d+$")
            self.expect_picture(STACKS, "microseconds")
            self.expect_nothing_left()

    @unittest.skipIf(os.geteuid() != 0, "bcc works for root only")
    def test_several_at_once_in_their_places(self):
        self.recorder("py-spy")
        self.recorder("offcputime-bpfcc", {"a;b": 3})
        engine = Engine()
        self.addCleanup(engine.stop)
        self.run_command(self.command(
            "engine", "--engine-url", engine.url, "--workload", "random-prefill", "--tokens-per-gb-kvcache", 1000, "-q",
            "--no-interactive", "--rp-request-length", 100, "--rp-num-requests", 3, "--profile-engine-pid", os.getpid(),
            mode="gil,off-cpu,gil", output=False))
        self.assertEqual(len(self.calls()), 2)
        for tag, stacks, unit in (("gil", STACKS, "samples"), ("offcpu", {"a;b": 3}, "microseconds")):
            path = pathlib.Path("/tmp/lmcache_bench_flames/engine-pid%d.%s.svg" % (os.getpid(), tag))
            self.addCleanup(path.unlink)
            self.expect_picture(stacks, unit, path)

    def test_a_great_many_stacks(self):
        stacks = {"f%d;%s" % (i % 50, ";".join("g%d" % (i * j % 97) for j in range(i % 60))): 1 + i % 7
                  for i in range(3000)}
        self.recorder("py-spy", stacks)
        self.server()
        root = xml.etree.ElementTree.parse(self.picture).getroot()
        self.assertGreater(len(list(root.iter(SVG + "g"))), 50)


class Failures(FlameGraph):
    def expect_refused(self, done, *words):
        self.assertEqual(done.stderr.count("\n"), 1, done.stderr)
        for word in words:
            self.assertIn(word, done.stderr)
        self.assertEqual(done.stdout, "")
        self.assertFalse(self.picture.exists())

    def test_a_tool_that_is_missing(self):
        for mode, tool, source in (("on-cpu", "perf", "linux-perf"), ("off-cpu", "offcputime-bpfcc", "bpfcc-tools"),
                                   ("wakeup", "wakeuptime-bpfcc", "bpfcc-tools"), ("gil", "py-spy", "pip install")):
            if (pathlib.Path("/usr/sbin") / tool).exists():
                continue
            self.expect_refused(self.server(mode=mode, status=2, with_others=False),
                                "--flamegraph on: %s is not installed" % tool, source)
            self.expect_refused(self.engine("--profile-engine-pid", os.getpid(), mode=mode, status=2, with_others=False),
                                tool, source)
            if mode != "gil":
                self.expect_refused(self.l2(mode=mode, status=2, with_others=False), tool, source)

    @unittest.skipIf(os.geteuid() == 0, "root may")
    def test_what_only_root_may(self):
        self.recorder("offcputime-bpfcc")
        self.expect_refused(self.l2(mode="off-cpu", status=2), "offcputime-bpfcc works for root only")

    def test_usage(self):
        self.recorder("py-spy")
        for mode, words in (("gil,x", "'x' is not accepted"), ("", "one of on-cpu"), ("gil,", "''"),
                            ("gil,wall", "--flamegraph-output names one picture")):
            self.expect_refused(self.server("--profile-server-pid", os.getpid(), mode=mode, status=2), words)
        self.expect_refused(self.engine(status=2), "--profile-engine-pid")
        self.expect_refused(self.engine("--profile-engine-pid", 999999999, mode="gil", status=2),
                            "--profile-engine-pid 999999999: No such process")
        self.expect_refused(self.engine("--profile-engine-pid", 0, status=2), "--profile-engine-pid")
        self.expect_refused(self.l2(mode="gil", status=2), "is for Python")
        self.expect_refused(self.run_command([PROGRAM, "bench", "server", "--mode", "cpu", "--flamegraph", "on"], status=2),
                            "--profile-server-pid")
        self.picture = pathlib.Path("/dev/null/x")
        self.expect_refused(self.server(status=2), "--flamegraph-output: ", "/dev/null/x")

    def test_a_profiler_that_ends_at_once(self):
        for script, words in (("echo 'Error:' >&2; echo 'No permission here.' >&2; echo hint", "No permission here."),
                              ("printf 'Traceback (most recent call last):\\n  File x\\nKeyError: 7\\n' >&2", "KeyError: 7"),
                              ("", "it says nothing")):
            self.tool("py-spy", script + "\nexit 3\n")
            self.expect_refused(self.server("-q", status=1), "--flamegraph on: py-spy ended at once: " + words)

    def test_a_profiler_that_saw_nothing(self):
        """The run is reported all the same."""
        self.recorder("py-spy", {})
        done = self.server(status=1)
        self.assertIn("Warm Retrieve", done.stdout)
        self.assertIn("py-spy saw nothing", done.stderr)
        self.assertFalse(self.picture.exists())
        self.recorder("py-spy", {"py-spy is in bad mood": 0})
        self.server(status=1)

    def test_a_profiler_that_ends_on_the_way(self):
        """What it has written until then is drawn."""
        self.recorder("py-spy")
        script = (self.tools / "py-spy").read_text()
        self.tool("py-spy", script.replace("while :; do sleep 0.02; done", "sleep 1.5; cat %s/py-spy.seen > \"$to\""
                                           % self.folder).split("/bin/sh\n")[1])
        self.server("--warmup", 1, "--interval", "0.5")
        self.expect_picture(STACKS, "samples")

    def interrupt(self, number):
        self.recorder("py-spy")
        mock = "%s mock --bind tcp://127.0.0.1:{rpc_port} --http 127.0.0.1:{http_port}" % PROGRAM
        bench = subprocess.Popen(
            self.command("server", "--mode", "cpu", "--transfer-mode", "lmcache_driven", "--kvcache-shape-spec",
                         "(2,64,16,2,8):float16:2", "--interval", 0, "--launch", mock), stdout=subprocess.PIPE,
            stderr=subprocess.PIPE, text=True, env=self.environment())
        self.assertTrue(until((self.folder / "processes").exists))
        time.sleep(0.6)
        bench.send_signal(number)
        out, err = bench.communicate(timeout=30)
        return bench.returncode, out + err

    def test_interrupted(self):
        status, said = self.interrupt(signal.SIGINT)
        self.assertEqual(status, 130, said)
        self.expect_picture(STACKS, "samples")
        self.expect_nothing_left()

    def test_killed(self):
        self.interrupt(signal.SIGKILL)
        for process in (self.folder / "processes").read_text().split():
            self.assertTrue(until(lambda: not pathlib.Path("/proc", process).exists()), "a profiler goes on")
        for call in self.calls():
            for path in [pathlib.Path(word) for word in call.split() if word.startswith("/tmp/kvconform-")]:
                subprocess.run(["rm", "-r", path.parent])


if __name__ == "__main__":
    del sys.argv[1]
    unittest.main()
