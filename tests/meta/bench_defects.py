#!/usr/bin/env python3
"""What `kvconform bench server` makes of each defect of the mock: bench-defects.txt names those under which no run may
come out valid, and on which paths.

A run that must fail has to end with a status other than 0, in bounded time, and without a figure in its report. A path
with a question mark is not tried. With --all the other defects are: none of them may fail a bench, or the file is not
complete.

usage: bench_defects.py KVCONFORM [--all] [DEFECT…]
"""
import argparse
import concurrent.futures
import json
import pathlib
import subprocess
import sys

TABLE = pathlib.Path(__file__).with_name("bench-defects.txt")
OPERATIONS = {"cold_lookup", "cold_store", "warm_lookup", "warm_retrieve"}
LIMIT = 60
# Mode, and what the mock has to be for it.
PATHS = {"engine_driven": ("engine_driven", []), "engine_driven_inline": ("engine_driven", ["--no-pool"]),
         "lmcache_driven": ("lmcache_driven", [])}
# Two clients of two ranks, every workload; then one client, whose bytes are compared over HTTP as well.
RUNS = [["--clients", "2", "--tp-size", "2", "--workload", "pair:2,store,retrieve,lookup,prefix", "--prepared", "1",
         "--end", "30", "--kvcache-shape-spec", "(2,64,16,2,8):float16:3"],
        ["--end", "2", "--kvcache-shape-spec", "(2,64,16,2,8):bfloat16:3"]]


def read_table():
    """{defect: paths}"""
    table = {}
    for number, line in enumerate(TABLE.read_text().splitlines(), 1):
        defect, _, paths = line.split("#")[0].partition(":")
        if defect.strip():
            table[defect.strip()] = paths.split()
            if not paths.split() or not {path.rstrip("?") for path in paths.split()} <= set(PATHS):
                sys.exit(f"{TABLE.name}:{number}: paths are {', '.join(PATHS)}")
    return table


def bench(program, defect, path, options):
    """(status, whether the report has figures, what it says) of one run."""
    mode, mock_options = PATHS[path]
    mock = subprocess.Popen([program, "mock", "--bind", "tcp://127.0.0.1:0", "--http", "127.0.0.1:0", "--defect", defect,
                             *mock_options], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    with mock:
        rpc_url, http_url = mock.stdout.readline().strip(), mock.stdout.readline().strip()
        try:
            done = subprocess.run(
                [program, "bench", "server", "--mode", "cpu", "--transfer-mode", mode, "--rpc-url", rpc_url, "--url", http_url,
                 "--dialect", "0.5.6", "--num-tokens", "800", "--interval", "0", "--timeout", "3", "--seed", "11",
                 "--format", "json", *options], capture_output=True, text=True, timeout=LIMIT)
        except subprocess.TimeoutExpired:
            return "no end", True, ""
        finally:
            mock.terminate()
    if not done.stdout:  # it ended before there was anything to report
        return done.returncode, False, done.stderr.strip()
    metrics = json.loads(done.stdout)["metrics"]
    results = metrics["results"]
    return done.returncode, bool(OPERATIONS & set(metrics)), results.get("first_problem", results["verdict"])


def meet(program, defect, path, must_fail):
    """What is wrong with what came of it; None when nothing is."""
    for options in RUNS:
        status, has_figures, says = bench(program, defect, path, options)
        if status == 0 and has_figures:
            continue
        if not must_fail:
            return f"status {status}: {says}; {TABLE.name} does not name it"
        return f"status {status}, with figures: {says}" if has_figures or status not in (1, 3) else None
    return "valid" if must_fail else None


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("kvconform")
    parser.add_argument("defects", nargs="*", metavar="DEFECT")
    parser.add_argument("--all", action="store_true")
    options = parser.parse_intermixed_args()
    table = read_table()
    listed = subprocess.run([options.kvconform, "mock", "--list-defects"], capture_output=True, text=True, check=True)
    defects = [line.split()[0] for line in listed.stdout.splitlines()]
    unknown = (set(table) | set(options.defects)) - set(defects)
    if unknown:
        sys.exit("the mock has no such defects: " + " ".join(sorted(unknown)))
    meetings = [(defect, path, path in table.get(defect, [])) for defect in options.defects or defects for path in PATHS]
    meetings = [(defect, path, must_fail) for defect, path, must_fail in meetings
                if must_fail or (options.all and path + "?" not in table.get(defect, []))]
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        faults = list(pool.map(lambda meeting: meet(options.kvconform, *meeting), meetings))
    failed = [(meeting, fault) for meeting, fault in zip(meetings, faults) if fault]
    for (defect, path, _), fault in failed:
        print(f"FAIL {defect}, {path}: {fault}")
    print(f"{len(meetings)} benches, {len(failed)} went wrong")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
