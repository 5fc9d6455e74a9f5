#!/usr/bin/env python3
"""Talks to `qrun serve` over HTTP: shapes, errors, streams, clients that leave,
a full queue, signals. Only the standard library is needed.

    serve_test.py QRUN PAIR.tandem
"""

import gzip
import http.client
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
import unittest

from server import PROMPT, Server

QRUN, PAIR = sys.argv.pop(1), sys.argv.pop(1)


def start(*flags, **others):
    return Server(QRUN, PAIR, *flags, **others)


# Long enough to be met while it runs.
LONG = {"max_tokens": 100000, "ignore_eos": True, "temperature": 0}


class OneServer(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.server = start("--queue", "1")

    @classmethod
    def tearDownClass(cls):
        assert cls.server.stop() == 0

    def test_completion(self):
        answer = self.server.complete(max_tokens=8)
        self.assertEqual(answer["object"], "text_completion")
        self.assertEqual(answer["model"], "demo")
        choice = answer["choices"][0]
        self.assertEqual(choice["finish_reason"], "length")
        self.assertEqual(answer["usage"]["completion_tokens"], 8)
        # The same text as the command line writes.
        command = [QRUN, PAIR, "-p", PROMPT, "-n", "8", "--json"]
        expected = json.loads(subprocess.check_output(command))
        self.assertEqual(choice["text"], expected["text"])

    def test_chat(self):
        fields = {
            "messages": [{"role": "user", "content": "Tell me of the ferry."}],
            "max_tokens": 12,
            "temperature": 0,
            "chat_template_kwargs": {"enable_thinking": False},
        }
        status, answer = self.server.post("/v1/chat/completions", fields)
        self.assertEqual(status, 200)
        message = answer["choices"][0]["message"]
        self.assertEqual(message["role"], "assistant")
        events = self.server.stream(
            "/v1/chat/completions",
            {**fields, "stream_options": {"include_usage": True}},
        )
        text = "".join(
            event["choices"][0]["delta"].get("content", "")
            for event in events[:-1]
        )
        self.assertEqual(text, message["content"])
        self.assertEqual(events[0]["choices"][0]["delta"]["role"], "assistant")
        self.assertEqual(events[-1]["choices"], [])
        usage = events[-1]["usage"]
        self.assertEqual(
            usage["completion_tokens"], answer["usage"]["completion_tokens"]
        )

    def test_streams_say_the_same(self):
        for fields in (
            {"max_tokens": 20},
            {"max_tokens": 20, "stop": "the"},
            {"max_tokens": 20, "temperature": 1, "seed": 5},
            {"max_tokens": 6, "logprobs": 2, "echo": True},
        ):
            fields = {"prompt": PROMPT, "temperature": 0, **fields}
            whole = self.server.complete(**fields)["choices"][0]
            events = self.server.stream("/v1/completions", fields)
            choices = [event["choices"][0] for event in events]
            self.assertEqual(
                "".join(choice["text"] for choice in choices), whole["text"]
            )
            self.assertEqual(
                choices[-1]["finish_reason"], whole["finish_reason"]
            )
            reasons = [choice["finish_reason"] for choice in choices[:-1]]
            self.assertEqual(reasons, [None] * len(reasons))

    def test_seed(self):
        def sample(seed, **fields):
            fields = {"temperature": 1, "max_tokens": 16, **fields}
            return self.server.complete(seed=seed, **fields)["choices"][0]

        self.assertEqual(sample(1), sample(1))
        self.assertNotEqual(sample(1)["text"], sample(2)["text"])
        greedy = self.server.complete()["choices"][0]
        self.assertEqual(sample(3, top_k=1), greedy)

    def test_logprobs(self):
        choice = self.server.complete(max_tokens=4, logprobs=3)["choices"][0]
        logprobs = choice["logprobs"]
        self.assertEqual(len(logprobs["tokens"]), 4)
        for token, value, top in zip(
            logprobs["tokens"],
            logprobs["token_logprobs"],
            logprobs["top_logprobs"],
        ):
            self.assertLess(value, 0)
            self.assertEqual(max(top, key=top.get), token)
            self.assertEqual(top[token], value)
        # The prompt of the longer text has what the answer had.
        prompt = self.server.complete(max_tokens=4)["choices"][0]["text"]
        echoed = self.server.complete(
            prompt=PROMPT + prompt, max_tokens=0, logprobs=0, echo=True
        )["choices"][0]["logprobs"]
        self.assertEqual(echoed["tokens"][-4:], logprobs["tokens"])
        self.assertEqual(
            echoed["token_logprobs"][-4:], logprobs["token_logprobs"]
        )
        self.assertIsNone(echoed["token_logprobs"][0])

    def test_prefix_reuse(self):
        first = self.server.complete(max_tokens=10)
        text = PROMPT + first["choices"][0]["text"] + " And then"
        reused = self.server.complete(prompt=text, max_tokens=10)
        self.server.complete(prompt="Something else", max_tokens=1)
        cold = self.server.complete(prompt=text, max_tokens=10)
        self.assertEqual(cold["choices"], reused["choices"])
        details = "prompt_tokens_details"
        self.assertEqual(cold["usage"][details]["cached_tokens"], 0)
        self.assertGreater(reused["usage"][details]["cached_tokens"], 10)

    def test_chat_turns_reuse_the_last_question(self):
        def ask(messages, thinking):
            fields = {
                "messages": messages,
                "max_tokens": 40,
                "temperature": 0,
                "ignore_eos": True,
                "chat_template_kwargs": {"enable_thinking": thinking},
            }
            status, answer = self.server.post("/v1/chat/completions", fields)
            self.assertEqual(status, 200)
            usage = answer["usage"]
            return (
                answer["choices"],
                usage["prompt_tokens"],
                usage["prompt_tokens_details"]["cached_tokens"],
            )

        for thinking in (True, False):
            self.server.complete(prompt="Something else", max_tokens=1)
            messages, turns, known = [], [], 0
            for question in ("Where is the ferry?", "And the bell?", "Why?"):
                messages.append({"role": "user", "content": question})
                choices, length, cached = ask(messages, thinking)
                turns.append((list(messages), choices))
                # All but the few tokens with which an answer begins.
                self.assertLessEqual(cached, known)
                self.assertGreaterEqual(cached, max(known - 16, 0))
                known = length
                # As clients do, without the thoughts.
                content = choices[0]["message"]["content"] or "Who knows."
                messages.append({"role": "assistant", "content": content})
            for messages, choices in turns:
                self.server.complete(prompt="Something else", max_tokens=1)
                again, _, cached = ask(messages, thinking)
                self.assertEqual(cached, 0)
                self.assertEqual(again, choices)
                # Another answer to the same question.
                again, length, cached = ask(messages, thinking)
                self.assertGreaterEqual(cached, length - 16)
                self.assertEqual(again, choices)

    def test_errors(self):
        for body, status, word in (
            ("{", 400, "JSON"),
            (b"\xff\xfe", 400, "JSON"),
            ('{"prompt":"\\ud83d"}', 400, "JSON"),
            ("[" * 100000, 400, "nested"),
            ({}, 400, "prompt"),
            ({"prompt": "a", "max_tokens": "5"}, 400, "max_tokens"),
            ({"prompt": "a", "temprature": 1}, 400, "temprature"),
            ({"prompt": "a", "model": "other"}, 404, "other"),
            ({"prompt": "a " * 9000}, 400, "tokens"),
        ):
            got, answer = self.server.post("/v1/completions", body)
            self.assertEqual(got, status, answer)
            self.assertIn(word, answer["error"]["message"])
            self.assertEqual(
                list(answer["error"]), ["message", "type", "param", "code"]
            )

    def test_bodies_of_any_kind(self):
        # What `curl -d` says its data are; a form could have 8 KiB.
        body = json.dumps(
            {"prompt": PROMPT, "max_tokens": 1, "user": "x" * 20000}
        )
        form = {"Content-Type": "application/x-www-form-urlencoded"}
        packed = {"Content-Encoding": "gzip"}
        parts = {"Content-Type": "multipart/form-data; boundary=x"}
        large = "x" * (9 << 20)
        for sent, headers, status, word in (
            (body, form, 200, ""),
            (gzip.compress(body.encode()), packed, 200, ""),
            (large, {}, 413, "larger than 8 MiB"),
            # Neither has a length that says how much it is.
            (iter([large.encode()] * 3), {}, 413, "larger than 8 MiB"),
            (gzip.compress(large.encode()), packed, 413, "larger than 8 MiB"),
            ("--x\r\n\r\n{}\r\n--x--\r\n", parts, 400, "form"),
        ):
            got, answer = self.server.post(
                "/v1/completions", sent, headers=headers
            )
            self.assertEqual(got, status, answer)
            self.assertIn(word, json.dumps(answer))
        # A body that is not there is no reason to wait for it.
        client = socket.create_connection(("127.0.0.1", self.server.port))
        client.settimeout(20)
        client.sendall(b"POST /v1/completions HTTP/1.1\r\nHost: x\r\n\r\n")
        self.assertIn(b" 400 ", client.recv(1000))
        client.close()

    def test_routes(self):
        self.assertEqual(self.server.get("/health"), (200, '{"status":"ok"}'))
        models = json.loads(self.server.get("/v1/models")[1])
        self.assertEqual(models["data"][0]["id"], "demo")
        self.assertEqual(self.server.get("/v1/models/demo")[0], 200)
        self.assertEqual(self.server.get("/v1/models/other")[0], 404)
        self.assertEqual(self.server.get("/nothing")[0], 404)
        self.assertEqual(self.server.get("/v1/models/" + "a" * 8000)[0], 414)
        response, _ = self.server.request("GET", "/v1/completions")
        self.assertEqual(response.status, 405)
        self.assertEqual(response.headers["Allow"], "POST")
        self.assertIn("tandem_accept_length_bucket", self.server.get("/metrics")[1])

    def test_queue_and_clients_that_leave(self):
        # One runs, one waits, the third is refused.
        running = self.server.send(LONG)
        self.server.wait_for("tandem_requests_running", 1)
        waiting = self.server.send({"max_tokens": 4})
        self.server.wait_for("tandem_requests_waiting", 1)
        status, answer = self.server.post("/v1/completions", {"prompt": "a"})
        self.assertEqual((status, answer["error"]["code"]), (429, "queue_full"))
        # A client that leaves the queue makes room in it, one that leaves its
        # answer ends it.
        waiting.close()
        self.server.wait_for("tandem_requests_waiting", 0)
        running.close()
        self.server.wait_for("tandem_requests_running", 0)
        # The text after that is that of a fresh server.
        self.test_completion()

    def test_stream_that_nobody_reads(self):
        client = self.server.send({**LONG, "stream": True})
        self.assertIn(b"200 OK", client.recv(100))
        client.close()
        self.server.wait_for("tandem_requests_running", 0)

    def test_client_that_does_not_read(self):
        server = start("--send-timeout", "0.5")
        # More than the system takes for a client that does not read.
        fields = {**LONG, "logprobs": 20, "temperature": 1, "stream": True}
        fields["prompt"] = [PROMPT] * 8
        client = server.send(fields, receive_buffer=4096)
        server.wait_for("tandem_requests_running", 1)
        # Waits for its turn, which does not take until the end of that text.
        server.complete(max_tokens=4)
        dropped = 'tandem_requests_total{endpoint="completions",status="499"}'
        server.wait_for(dropped, 1)
        client.close()
        self.assertEqual(server.stop(), 0)

    def test_client_that_leaves_during_the_prefill(self):
        client = self.server.send({"prompt": "word " * 4000, "max_tokens": 1})
        self.server.wait_for("tandem_requests_running", 1)
        client.close()
        self.server.wait_for("tandem_requests_running", 0)


class OwnServers(unittest.TestCase):
    def test_api_key(self):
        server = start("--api-key", "secret")
        for key, status in ((None, 401), ("Bearer wrong", 401),
                            ("Bearer secret", 200)):
            headers = {"Authorization": key} if key else {}
            self.assertEqual(
                server.get("/v1/models", headers=headers)[0], status
            )
        self.assertEqual(server.get("/health")[0], 200)
        # A body that nobody wanted is not the next request.
        connection = http.client.HTTPConnection("127.0.0.1", server.port)
        body = json.dumps({"prompt": "a", "max_tokens": 1, "user": "x" * 20000})
        for path, key, status in (
            ("/v1/completions", "wrong", 401),
            ("/v1/nothing", "wrong", 401),
            ("/v1/nothing", "secret", 404),
            ("/v1/models", "secret", 405),
            ("/v1/completions", "secret", 200),
        ):
            connection.request(
                "POST", path, body, {"Authorization": "Bearer " + key}
            )
            response = connection.getresponse()
            self.assertEqual(response.status, status, response.read())
            response.read()
        connection.close()
        self.assertEqual(server.stop(), 0)

    def test_threads_come_with_connections(self):
        server = start("--queue", "4096")
        clients = [
            socket.create_connection(("127.0.0.1", server.port))
            for _ in range(8)
        ]
        self.assertEqual(server.get("/health")[0], 200)
        tasks = os.listdir(f"/proc/{server.process.pid}/task")
        self.assertGreaterEqual(len(tasks), 9)
        self.assertLess(len(tasks), 100)
        for client in clients:
            client.close()
        self.assertEqual(server.stop(), 0)

    def test_connections_wait_for_a_busy_server(self):
        server = start()
        server.process.send_signal(signal.SIGSTOP)
        clients = []
        try:
            # The system takes them; it would have a client that it refuses try
            # again a second later.
            for _ in range(50):
                client = socket.create_connection(
                    ("127.0.0.1", server.port), timeout=0.9
                )
                client.sendall(b"GET /health HTTP/1.1\r\nHost: x\r\n\r\n")
                client.settimeout(60)
                clients.append(client)
        finally:
            server.process.send_signal(signal.SIGCONT)
        for client in clients:
            self.assertIn(b" 200 ", client.recv(64))
            client.close()
        self.assertEqual(server.stop(), 0)

    def test_port_is_not_shared(self):
        first = start()
        second = start(port=first.port)
        self.assertEqual(second.process.wait(60), 1)
        self.assertRegex(
            second.process.stderr.read(),
            "^qrun: cannot listen on 127.0.0.1:[0-9]+: Address already in use",
        )
        second.stop()
        self.assertEqual(first.stop(), 0)

    def test_sigterm_lets_answers_finish(self):
        server = start()
        expected = server.complete(max_tokens=200, ignore_eos=True)
        result = {}

        def ask():
            result["answer"] = server.complete(max_tokens=200, ignore_eos=True)

        thread = threading.Thread(target=ask)
        thread.start()
        server.wait_for("tandem_requests_running", 1)
        server.process.send_signal(signal.SIGTERM)
        thread.join()
        self.assertEqual(result["answer"]["choices"], expected["choices"])
        self.assertEqual(server.stop(), 0)

    def test_second_signal_ends_answers(self):
        server = start()
        client = server.send({**LONG, "stream": True})
        server.wait_for("tandem_requests_running", 1)
        server.process.send_signal(signal.SIGTERM)
        time.sleep(0.3)
        self.assertIsNone(server.process.poll())
        self.assertEqual(server.get("/health")[0], 503)
        status, _ = server.post("/v1/completions", {"prompt": "a"})
        self.assertEqual(status, 503)
        self.assertEqual(server.stop(), 0)
        client.close()

    def test_timeout(self):
        server = start("--timeout", "0.2")
        status, answer = server.post("/v1/completions", {"prompt": "a", **LONG})
        self.assertEqual((status, answer["error"]["code"]), (504, "timeout"))
        self.assertEqual(server.stop(), 0)


if __name__ == "__main__":
    unittest.main()
