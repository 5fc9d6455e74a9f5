#!/usr/bin/env python3
"""Many clients at once: every accepted request must get the text that it gets
alone, and the server must neither grow nor hang.

    load_http.py QRUN PAIR.tandem [--clients 50] [--seconds 120]

Starts the server itself. Prints what was answered and refused, latencies, and
the memory of the server early and late; exits with 1 when something is wrong.
Only the standard library is needed.
"""

import argparse
import collections
import http.client
import json
import random
import signal
import statistics
import subprocess
import sys
import threading
import time

WORDS = "ferry river rope winter ice hills nets road path stone".split()


def make_requests(count):
    """Different prompts, lengths, seeds and stops."""
    random.seed(1)
    requests = []
    for index in range(count):
        request = {
            "prompt": " ".join(random.choices(WORDS, k=random.randint(2, 60))),
            "max_tokens": random.randint(1, 24),
        }
        if index % 3 == 0:
            request.update(temperature=0)
        else:
            request.update(temperature=0.8, top_p=0.9, seed=index)
        if index % 5 == 0:
            request.update(stop=" the")
        requests.append(request)
    return requests


def ask(port, request, stream, timeout=300):
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=timeout)
    try:
        body = json.dumps({**request, "stream": stream})
        connection.request("POST", "/v1/completions", body)
        response = connection.getresponse()
        data = response.read()
    finally:
        connection.close()
    if response.status != 200:
        return response.status, None
    if not stream:
        return 200, json.loads(data)["choices"][0]["text"]
    text = ""
    for event in data.decode().split("\n\n"):
        if event and event != "data: [DONE]":
            text += json.loads(event[6:])["choices"][0]["text"]
    return 200, text


def memory_of(process):
    """Resident bytes that belong to the process alone."""
    with open(f"/proc/{process.pid}/status") as file:
        for line in file:
            if line.startswith("RssAnon:"):
                return int(line.split()[1]) * 1024
    return 0


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("qrun")
    parser.add_argument("pair")
    parser.add_argument("--clients", type=int, default=50)
    parser.add_argument("--seconds", type=float, default=120)
    parser.add_argument("--queue", type=int, default=32)
    parser.add_argument("--threads", type=int, help="of the server")
    parser.add_argument("--ignore-memory", action="store_true",
                        help="for a server that is known to keep some")
    arguments = parser.parse_args()

    server = subprocess.Popen(
        [arguments.qrun, "serve", arguments.pair, "--port", "0"]
        + ["--queue", str(arguments.queue)]
        + (["--threads", str(arguments.threads)] if arguments.threads else []),
        stdout=subprocess.PIPE,
        text=True,
    )
    port = int(server.stdout.readline().rsplit(":", 1)[1])
    requests = make_requests(24)
    expected = [ask(port, request, False)[1] for request in requests]

    statuses, latencies, wrong = collections.Counter(), [], []
    lock = threading.Lock()
    end = time.monotonic() + arguments.seconds

    def client(number):
        chosen = random.Random(number)
        while time.monotonic() < end:
            index = chosen.randrange(len(requests))
            begin = time.monotonic()
            try:
                status, text = ask(port, requests[index], chosen.random() < 0.5)
            except OSError as error:
                status, text = type(error).__name__, None
            with lock:
                statuses[status] += 1
                if status == 200:
                    latencies.append(time.monotonic() - begin)
                    if text != expected[index]:
                        wrong.append((index, text, expected[index]))
            if status == 429:
                time.sleep(chosen.random())

    threads = [
        threading.Thread(target=client, args=(number,))
        for number in range(arguments.clients)
    ]
    for thread in threads:
        thread.start()
    # Caches of a text come and go, so peaks are compared.
    early = late = 0
    while any(thread.is_alive() for thread in threads):
        time.sleep(0.02)
        left = (end - time.monotonic()) / arguments.seconds
        if 0.5 < left < 0.75:
            early = max(early, memory_of(server))
        elif left < 0.25:
            late = max(late, memory_of(server))
    for thread in threads:
        thread.join()
    server.send_signal(signal.SIGTERM)
    code = server.wait(60)

    answered = statuses[200]
    print(f"{arguments.clients} clients, {arguments.seconds:.0f} s: "
          f"{dict(statuses)}")
    print(f"{answered / arguments.seconds:.1f} answers/s, median latency "
          f"{statistics.median(latencies):.2f} s, largest {max(latencies):.2f} s")
    print(f"memory {early / 1e6:.1f} MB at most in the second quarter, "
          f"{late / 1e6:.1f} MB in the last; exit code {code}")
    for index, text, right in wrong[:3]:
        print(f"wrong text: request {index}: {text!r}, expected {right!r}")
    unexpected = set(statuses) - {200, 429}
    grown = late > early * 1.05 + 4e6 and not arguments.ignore_memory
    if wrong or unexpected or grown or code != 0 or not answered:
        print(f"FAILED: {len(wrong)} wrong texts, statuses {unexpected}, "
              f"memory {'grew' if grown else 'is flat'}")
        return 1
    print("every accepted request got its text, memory is flat")
    return 0


sys.exit(main())
