#!/usr/bin/env python3
"""Records what a client and a server say to each other, and compares two such exchanges.

    exchange.py record --upstream URL --output FILE -- COMMAND...
        runs COMMAND with {rpc_url} replaced by the address of a relay in front of URL
        and writes every message to FILE, in the form of fixtures/frames/*.json
    exchange.py compare FILE REFERENCE...
        fails unless FILE and the REFERENCEs (taken together) hold exchanges of the same shapes

Two exchanges have the same shape when the same operations come with the same frames: their number,
the type of each value, the keys of each map and their order, and follow each other in the same way.
Values and repetitions do not matter.

Needs pyzmq and msgspec, which an LMCache installation brings along.
"""
import argparse
import json
import subprocess
import sys
import threading
import time

import msgspec
import zmq


class Relay(threading.Thread):
    """A ROUTER in front of a server. Each client gets a DEALER of its own towards the server, so that
    the server tells clients apart as it would without the relay."""

    def __init__(self, upstream):
        super().__init__(daemon=True)
        self.context = zmq.Context()
        self.front = self.context.socket(zmq.ROUTER)
        self.port = self.front.bind_to_random_port("tcp://127.0.0.1")
        self.upstream = upstream
        self.messages = []
        self.stopping = threading.Event()

    def run(self):
        started = time.monotonic()
        numbers = {}  # client identity -> connection number
        backs = {}  # DEALER towards the server -> client identity
        poller = zmq.Poller()
        poller.register(self.front, zmq.POLLIN)

        def note(direction, client, frames):
            self.messages.append({"t": round(time.monotonic() - started, 4), "dir": direction,
                                  "client": client, "frames": [f.hex() for f in frames]})

        while not self.stopping.is_set():
            for source, _ in poller.poll(50):
                if source is self.front:
                    identity, *frames = self.front.recv_multipart()
                    if identity not in numbers:
                        numbers[identity] = len(numbers)
                        back = self.context.socket(zmq.DEALER)
                        back.linger = 0
                        back.connect(self.upstream)
                        backs[back] = identity
                        poller.register(back, zmq.POLLIN)
                    back = next(b for b, i in backs.items() if i == identity)
                    note("c2s", numbers[identity], frames)
                    back.send_multipart(frames)
                else:
                    frames = source.recv_multipart()
                    note("s2c", numbers[backs[source]], frames)
                    self.front.send_multipart([backs[source], *frames])

    def stop(self):
        self.stopping.set()
        self.join()
        self.context.destroy(linger=0)


def shape(value):
    """A value without its contents, as a hashable thing that prints well."""
    if isinstance(value, dict):
        return "{%s}" % ", ".join("%s: %s" % (k, shape(v)) for k, v in value.items())
    if isinstance(value, (list, tuple)):
        return "[%s]" % " | ".join(sorted({shape(v) for v in value}))
    if isinstance(value, msgspec.msgpack.Ext):
        return "ext %d" % value.code
    return type(value).__name__


def describe(frames):
    return tuple(shape(msgspec.msgpack.decode(f)) for f in frames)


def load(path):
    """The shapes in a recorded exchange: a dict whose values show each to a person."""
    with open(path) as file:
        messages = json.load(file)
    waiting, shapes, before = {}, {}, None
    for message in messages:
        uid, operation, *payload = [bytes.fromhex(f) for f in message["frames"]]
        name = msgspec.msgpack.decode(operation)
        if message["dir"] == "c2s":
            waiting[message["client"], uid] = (name, describe(payload))
            if before not in (None, name):
                shapes[before, name] = "op %s is followed by op %s" % (before, name)
            before = name
            continue
        request = waiting.pop((message["client"], uid), None)
        if request is None:
            raise SystemExit("%s: a reply to nothing: op %s, uid %s" % (path, name, uid.hex()))
        shapes[request, name, describe(payload)] = "op %s (%s) -> op %s: %s" % (
            request[0], ", ".join(request[1]) or "nothing",
            name, ", ".join(describe(payload)) or "no third frame")
    if waiting:
        raise SystemExit("%s: never answered: op %s" % (path, ", ".join(str(w[0]) for w in waiting.values())))
    return shapes


def compare(path, references):
    mine = load(path)
    theirs = {}
    for reference in references:
        theirs.update(load(reference))
    for where, here, there in (("only here", mine, theirs), ("only in the reference", theirs, mine)):
        for key in here.keys() - there.keys():
            print("   %s: %s" % (where, here[key]))
    if mine.keys() != theirs.keys():
        return 1
    print("   the exchange has the shape of %s" % ", ".join(references))
    return 0


def record(upstream, output, command):
    relay = Relay(upstream)
    relay.start()
    url = "tcp://127.0.0.1:%d" % relay.port
    status = subprocess.run([word.replace("{rpc_url}", url) for word in command]).returncode
    relay.stop()
    with open(output, "w") as file:
        file.write("[\n%s\n]\n" % ",\n".join(json.dumps(m) for m in relay.messages))
    return status


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    commands = parser.add_subparsers(dest="verb", required=True)
    verb = commands.add_parser("record")
    verb.add_argument("--upstream", required=True)
    verb.add_argument("--output", required=True)
    verb.add_argument("command", nargs="+")
    verb = commands.add_parser("compare")
    verb.add_argument("file")
    verb.add_argument("reference", nargs="+")
    args = parser.parse_args()
    if args.verb == "record":
        return record(args.upstream, args.output, args.command)
    return compare(args.file, args.reference)


if __name__ == "__main__":
    sys.exit(main())
