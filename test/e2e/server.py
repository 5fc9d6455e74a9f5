"""A `qrun serve` for tests to talk to. Only the standard library is needed."""

import http.client
import json
import signal
import socket
import subprocess
import time

PROMPT = "The old ferry crosses"


class Server:
    """A server on a free port of the loopback, whose model is called demo."""

    def __init__(self, qrun, pair, *flags, port=0, key=None):
        self.key = key
        self.process = subprocess.Popen(
            [qrun, "serve", pair, "--port", str(port), "--threads", "1"]
            + ["--model-name", "demo", "--template", "qwen3.5", *flags]
            + (["--api-key", key] if key else []),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        self.line = self.process.stdout.readline()
        if self.line.startswith("serving"):
            self.port = int(self.line.rsplit(":", 1)[1])
            self.url = f"http://127.0.0.1:{self.port}"

    def request(self, method, path, body=None, headers=None, timeout=300):
        connection = http.client.HTTPConnection(
            "127.0.0.1", self.port, timeout=timeout
        )
        if isinstance(body, dict):
            body = json.dumps(body)
        headers = dict(headers or {})
        if self.key:
            headers.setdefault("Authorization", "Bearer " + self.key)
        connection.request(method, path, body, headers)
        response = connection.getresponse()
        text = response.read()
        connection.close()
        return response, text

    def post(self, path, body, **others):
        response, text = self.request("POST", path, body, **others)
        return response.status, json.loads(text)

    def get(self, path, **others):
        response, text = self.request("GET", path, **others)
        return response.status, text.decode()

    def complete(self, **fields):
        fields = {"prompt": PROMPT, "temperature": 0, **fields}
        status, answer = self.post("/v1/completions", fields)
        assert status == 200, answer
        return answer

    def stream(self, path, fields):
        """The events of a stream, without the last one."""
        response, text = self.request("POST", path, {**fields, "stream": True})
        assert response.status == 200, text
        assert response.headers["Content-Type"] == "text/event-stream"
        events = text.decode().split("\n\n")
        assert events[-1] == "" and events[-2] == "data: [DONE]", events[-2:]
        return [json.loads(event[len("data: ") :]) for event in events[:-2]]

    def metric(self, name):
        for line in self.get("/metrics")[1].splitlines():
            if line.startswith(name + " "):
                return float(line.split()[-1])
        return None

    def send(self, fields, path="/v1/completions", receive_buffer=None):
        """A socket with a request whose answer nobody has read."""
        body = json.dumps({"prompt": PROMPT, **fields}).encode()
        client = socket.socket()
        if receive_buffer:
            client.setsockopt(
                socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer
            )
        client.connect(("127.0.0.1", self.port))
        client.sendall(
            b"POST %s HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n%s"
            % (path.encode(), len(body), body)
        )
        return client

    def wait_for(self, name, value, seconds=120):
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            if self.metric(name) == value:
                return
            time.sleep(0.02)
        raise AssertionError(f"{name} is {self.metric(name)}, not {value}")

    def stop(self, number=signal.SIGTERM):
        self.process.send_signal(number)
        try:
            self.process.wait(120)
        finally:
            self.process.kill()
            self.process.stdout.close()
            self.process.stderr.close()
        return self.process.returncode
