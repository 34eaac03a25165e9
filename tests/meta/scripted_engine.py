"""An OpenAI-compatible engine for tests: counts tokens by a rule of its own, remembers every request, and
is right or wrong in one named way.

Alone, until it is killed; prints its address: scripted_engine.py PORT BEHAVIOUR
"""
import http.server
import json
import socket
import ssl
import sys
import threading
import time

OVERHEAD = 5       # tokens that a request has besides its messages
ROLE_OVERHEAD = 3  # and each message besides its text


def count_tokens(text):
    """A token for every three letters of a word, rounded up; words end at spaces and lines."""
    return sum((len(word) + 2) // 3 for word in text.split())


def count_prompt(messages):
    return OVERHEAD + sum(ROLE_OVERHEAD + count_tokens(m["content"]) for m in messages)


def event(delta=None, finish=None, usage=None):
    choices = [] if delta is None else [{"index": 0, "delta": delta, "finish_reason": finish}]
    return b"data: " + json.dumps({"id": "c", "object": "chat.completion.chunk", "choices": choices,
                                   "usage": usage}).encode() + b"\n\n"


class Server(http.server.ThreadingHTTPServer):
    request_queue_size = 2048
    daemon_threads = True
    block_on_close = False

    def handle_error(self, request, client_address):
        pass  # clients that leave are part of the tests


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def do_GET(self):
        engine = self.server.engine
        with engine.lock:
            engine.gets.append((self.path, self.headers.get("Authorization")))
        body = json.dumps(engine.documents.get(self.path, {"detail": "Not Found"})).encode()
        self.answer(200 if self.path in engine.documents else 404, "application/json", body)

    def do_POST(self):
        engine = self.server.engine
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        with engine.lock:
            number = len(engine.requests)
            self.kept = {"body": body, "time": time.monotonic(), "path": self.path,
                         "key": self.headers.get("Authorization"), "connection": id(self.connection)}
            engine.requests.append(self.kept)
            engine.in_flight += 1
            engine.most_in_flight = max(engine.most_in_flight, engine.in_flight)
        try:
            behaviour = engine.behaviour(number, body)
            getattr(self, "do_" + behaviour.replace("-", "_"))(body)
        finally:
            with engine.lock:
                engine.in_flight -= 1

    def answer(self, status, kind, body, **headers):
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def start_stream(self):
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream; charset=utf-8")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()

    def chunk(self, data):
        self.wfile.write(b"%x\r\n%s\r\n" % (len(data), data))

    def end_stream(self):
        self.wfile.write(b"0\r\n\r\n")

    def usage(self, body, completion=None):
        prompt = count_prompt(body["messages"])
        completion = body["max_tokens"] if completion is None else completion
        return {"prompt_tokens": prompt, "completion_tokens": completion,
                "total_tokens": prompt + completion}

    # ---- right ----

    def do_good(self, body):
        engine = self.server.engine
        self.start_stream()
        self.chunk(event({"role": "assistant", "content": ""}))
        time.sleep(engine.first_delay)
        engine.wait_for_others(body)
        for i in range(body["max_tokens"]):
            if i > 0 and engine.delay:
                time.sleep(engine.delay)
            self.kept["last_sent"] = time.time()
            self.chunk(event({"content": " word%d" % i}))
        self.chunk(event({}, "length"))
        self.chunk(event(usage=self.usage(body)))
        self.chunk(b"data: [DONE]\n\n")
        self.end_stream()

    def do_one_event(self, body):
        """All of it in one event: nobody can tell a decoding speed."""
        self.start_stream()
        self.chunk(event({"content": "all of it"}, "length", self.usage(body)) + b"data: [DONE]\n\n")
        self.end_stream()

    def do_split(self, body):
        """Cut at every byte, with comments and carriage returns."""
        data = b": ping\r\n\r\n" + event({"content": "h\u00e9"}) + event({"content": "x"})
        data += event({}, "stop", self.usage(body)) + b"data: [DONE]\n\n"
        self.start_stream()
        for byte in data.replace(b"\n", b"\r\n"):
            self.chunk(bytes([byte]))
        self.end_stream()

    # ---- wrong ----

    def do_error_500(self, body):
        self.answer(500, "application/json", b'{"error": {"message": "boom"}}')

    def do_too_long(self, body):
        self.answer(400, "application/json",
                    b'{"object": "error", "message": "maximum context length is 10 tokens"}')

    def do_redirect(self, body):
        self.answer(307, "text/plain", b"", Location="/elsewhere")

    def do_no_usage(self, body):
        self.start_stream()
        self.chunk(event({"content": "x"}) + event({}, "length") + b"data: [DONE]\n\n")
        self.end_stream()

    def do_no_stream(self, body):
        self.answer(200, "application/json", json.dumps(
            {"choices": [{"message": {"content": "x"}}], "usage": self.usage(body)}).encode())

    def do_malformed(self, body):
        self.start_stream()
        self.chunk(event({"content": "x"}) + b"data: {\"choices\": [{\x1b[31m\n\n")
        self.end_stream()

    def do_not_utf8(self, body):
        self.start_stream()
        self.chunk(b'data: {"choices": [{"delta": {"content": "\xff\xfe"}}]}\n\n')
        self.end_stream()

    def do_halfway(self, body):
        self.start_stream()
        self.chunk(event({"content": "x"}))
        self.wfile.flush()
        self.close_connection = True
        self.connection.shutdown(socket.SHUT_RDWR)

    def do_cut(self, body):
        """Ends as HTTP ends, but in the middle of the stream."""
        self.start_stream()
        self.chunk(event({"content": "x"}))
        self.end_stream()

    def do_reset(self, body):
        self.close_connection = True
        self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
        self.connection.close()

    def do_silent(self, body):
        self.server.engine.over.wait(30)
        self.close_connection = True

    def do_pings(self, body):
        """Alive for ever, and nothing comes of it."""
        self.start_stream()
        while not self.server.engine.over.wait(0.05):
            self.chunk(b": ping\n\n")
        self.close_connection = True

    def do_endless_line(self, body):
        self.start_stream()
        while not self.server.engine.over.is_set():
            self.chunk(b"data: " + b"x" * 65536)
        self.close_connection = True

    def do_endless(self, body):
        self.start_stream()
        while not self.server.engine.over.is_set():
            self.chunk(event({"content": "x"}))
        self.close_connection = True

    def do_never_closes(self, body):
        """Right up to [DONE]; the response goes on."""
        self.start_stream()
        self.chunk(event({"content": "x"}, "length", self.usage(body)) + b"data: [DONE]\n\n")
        self.server.engine.over.wait(30)
        self.close_connection = True

    def do_error_event(self, body):
        self.start_stream()
        self.chunk(event({"content": "x"}) + b'data: {"error": {"message": "engine died"}}\n\n')
        self.end_stream()

    def do_no_token(self, body):
        self.start_stream()
        self.chunk(event({}, "stop", self.usage(body, 0)) + b"data: [DONE]\n\n")
        self.end_stream()

    def do_too_many_tokens(self, body):
        self.start_stream()
        self.chunk(event({"content": "x"}, "stop", self.usage(body, 10 ** 9)) + b"data: [DONE]\n\n")
        self.end_stream()

    def do_garbage(self, body):
        self.wfile.write(b"\x00\xffSSH-2.0-OpenSSH\r\n" * 4)
        self.close_connection = True

    # ---- fast ----

    def do_flood(self, body, at_once=256):
        """As many events as there are tokens, so many with each write."""
        self.start_stream()
        self.chunk(event({"role": "assistant", "content": ""}))
        one = event({"content": " word"})
        for sent in range(0, body["max_tokens"], at_once):
            self.chunk(one * min(at_once, body["max_tokens"] - sent))
        self.chunk(event({}, "length") + event(usage=self.usage(body)) + b"data: [DONE]\n\n")
        self.end_stream()


    def do_flood_singly(self, body):
        self.do_flood(body, 1)


class Engine:
    """Runs until stop(). behaviour: a name, or a function of (number of the request, its body)."""

    def __init__(self, behaviour="good", first_delay=0.0, delay=0.0, certificate=None, port=0):
        self.behaviour = behaviour if callable(behaviour) else lambda number, body: behaviour
        self.first_delay, self.delay = first_delay, delay
        self.lock = threading.Lock()
        self.over = threading.Event()
        self.requests, self.gets = [], []
        self.in_flight = self.most_in_flight = 0
        self.held = threading.Condition()
        self.held_tokens = None
        self.documents = {"/v1/models": {"object": "list", "data": [{"id": "org/tiny"}]}}
        self.server = Server(("127.0.0.1", port), Handler)
        self.server.engine = self
        if certificate:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(certificate)
            self.server.socket = context.wrap_socket(self.server.socket, server_side=True)
        self.url = "%s://127.0.0.1:%d" % ("https" if certificate else "http",
                                          self.server.server_address[1])
        self.thread = threading.Thread(target=self.server.serve_forever, args=(0.02,), daemon=True)
        self.thread.start()

    def hold(self, tokens, count):
        """Requests with prompts of so many tokens are answered when so many are there, or after 30 s."""
        self.held_tokens, self.held_count = tokens, count

    def wait_for_others(self, body):
        if count_prompt(body["messages"]) != self.held_tokens:
            return
        with self.held:
            self.held_count -= 1
            self.held.notify_all()
            self.held.wait_for(lambda: self.held_count <= 0, 30)

    def stop(self):
        self.over.set()
        self.server.shutdown()
        self.server.server_close()
        self.thread.join()


if __name__ == "__main__":
    alone = Engine(sys.argv[2], port=int(sys.argv[1]))
    print(alone.url, flush=True)
    alone.thread.join()
