#!/usr/bin/env python3
"""Measures the latency of an OpenAI server, as the competition of the reference
system does: one request at a time, temperature 0, wall clock with prefill.

    latency_http.py http://127.0.0.1:8000 [--text FILE] [--save times.json]
                    [--baseline times.json] [--scenarios 64/128,2048/256,8192/256]

Prompts are repeated filler text, or pieces of FILE. Each scenario has 5 requests
to warm up and 50 that count; the median of those is printed, with the speed-up
over a file of another run, and the mean of the speed-ups. Works with any server
of that API (vLLM, llama.cpp); only the standard library is needed.

The length of a prompt is brought to the wanted number of tokens by what the
server says it has: no tokenizer is needed here.
"""

import argparse
import json
import os
import statistics
import time
import urllib.request

FILLER = (
    "The cable ferry crosses the river every half hour. In winter, when ice "
    "drifts down from the hills, the ferryman waits and mends nets. "
)


class Client:
    def __init__(self, url, model, key):
        self.url, self.key = url.rstrip("/"), key
        self.model = model or self.call("/v1/models")["data"][0]["id"]

    def call(self, path, body=None):
        request = urllib.request.Request(self.url + path)
        request.add_header("Content-Type", "application/json")
        if self.key:
            request.add_header("Authorization", "Bearer " + self.key)
        data = json.dumps(body).encode() if body is not None else None
        with urllib.request.urlopen(request, data, timeout=3600) as response:
            return json.load(response)

    def complete(self, prompt, tokens, ignore_eos=True):
        body = {
            "model": self.model,
            "prompt": prompt,
            "max_tokens": tokens,
            "temperature": 0,
        }
        if ignore_eos:
            body["ignore_eos"] = True
        return self.call("/v1/completions", body)

    def count(self, prompt):
        return self.complete(prompt, 1)["usage"]["prompt_tokens"]


def make_prompt(client, source, tokens):
    """The beginning of SOURCE, repeated, that has about TOKENS tokens; at most
    that many."""
    # Not a guess that is longer than the server takes.
    sample = (source * (2000 // len(source) + 1))[:2000]
    size = int(tokens * len(sample) / client.count(sample))
    text = source * (size // len(source) + 1)
    for _ in range(6):
        counted = client.count(text[:size])
        if tokens - 4 <= counted <= tokens:
            break
        size = max(8, int(size * tokens / counted) - (counted > tokens))
        text = source * (size // len(source) + 1)
    return text[:size]


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("url")
    parser.add_argument("--model", help="default: the server's first one")
    parser.add_argument("--text", help="a file to take prompts from")
    parser.add_argument("--scenarios", default="64/128,2048/256,8192/256")
    parser.add_argument("--warm-ups", type=int, default=5)
    parser.add_argument("--requests", type=int, default=50)
    parser.add_argument("--save", help="write the medians here")
    parser.add_argument("--baseline", help="medians to compare with")
    parser.add_argument("--fresh", action="store_true",
                        help="another first word for every request, so that no "
                        "server finds a prompt in its caches")
    arguments = parser.parse_args()

    client = Client(arguments.url, arguments.model, os.getenv("OPENAI_API_KEY"))
    source = FILLER
    if arguments.text:
        with open(arguments.text, encoding="utf-8") as file:
            source = file.read()
    baseline = {}
    if arguments.baseline:
        with open(arguments.baseline, encoding="utf-8") as file:
            baseline = json.load(file)

    medians, ratios = {}, []
    for scenario in arguments.scenarios.split(","):
        length, answer = map(int, scenario.split("/"))
        prompt = make_prompt(client, source, length)
        times = []
        for index in range(arguments.warm_ups + arguments.requests):
            text = f"{index} {prompt}" if arguments.fresh else prompt
            begin = time.perf_counter()
            usage = client.complete(text, answer)["usage"]
            if index >= arguments.warm_ups:
                times.append(time.perf_counter() - begin)
        if usage["completion_tokens"] != answer:
            print(f"  answers have {usage['completion_tokens']} tokens, not "
                  f"{answer}: the server does not know 'ignore_eos'")
        medians[scenario] = statistics.median(times)
        line = (
            f"{scenario:>10}  prompt {usage['prompt_tokens']:5d}  median "
            f"{medians[scenario] * 1e3:9.1f} ms  "
            f"{usage['completion_tokens'] / medians[scenario]:8.1f} tokens/s"
        )
        if scenario in baseline:
            ratios.append(baseline[scenario] / medians[scenario])
            line += f"  {ratios[-1]:.2f} times as fast"
        print(line, flush=True)
    if ratios:
        print(f"mean speed-up {statistics.mean(ratios):.2f}")
    if arguments.save:
        with open(arguments.save, "w", encoding="utf-8") as file:
            json.dump(medians, file, indent=1)


main()
