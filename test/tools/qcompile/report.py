#!/usr/bin/env python3
"""report.py TARGET DRAFTER FOLDER: the totals of qcompile --report, in text and in JSON, against sums over the shapes.

The pair is Qwen3.5-4B with 4-bit weights in groups of 32 and a drafter of 5 layers in groups of 128, with a window of 1024, from
configurations alone. Its bytes and operations were worked out from the shapes, not from a plan; they agree within 2%. The artefact goes
to FOLDER; qcompile is found by PATH.
"""

import json
import re
import subprocess
import sys

# Weights that a run reads, in MB: body in int4 and its small tensors in bf16, the head in bf16; the drafter, its keys and values of the
# context, the head again.
WEIGHTS = {"verify": 2005.4 + 9.8 + 1271.4, "draft": 277.1 + 13.5 + 1271.4}
# All bytes of a round, draft and verify, in MB behind 128 tokens, and what a token of the context adds: keys and values in bf16 of the
# target and, as far as its window goes, of the drafter.
ROUND, TARGET_TOKEN, DRAFT_TOKEN, WINDOW = 4943.0, 0.032768, 0.020480, 1024
# Billions of operations: a round behind few tokens, what a token adds (16 rows, 4096 numbers of all heads, in 8 and in 5 layers with
# attention, 4 operations each), and prompts.
ROUND_OPERATIONS = 134 + 38
TARGET_ATTENTION, DRAFT_ATTENTION = [4 * 16 * 4096 * layers / 1e9 for layers in (8, 5)]
PROMPTS = {64: 470, 2048: 15300, 8192: 64100}
COLUMNS = ["weight_bytes", "key_value_bytes", "state_bytes", "activation_bytes", "operations", "floor_s"]
UNITS = [1e6, 1e6, 1e6, 1e6, 1e9, 1e-3]


def compare(what, found, expected):
    if abs(found / expected - 1) > 0.02:
        sys.exit(f"{what}: {found:.1f}, expected {expected:.1f}")


def run(target, drafter, folder, *flags):
    command = ["qcompile", "--target", target, "--drafter", drafter, "--synthetic-weights", "1", "--arch", "x86-64-v3",
               "--max-context", "8448", "--draft-window", "1024", "-o", f"{folder}/pair.tandem", "--report", "--machine", "a10g",
               # The sums count all rows of all layers.
               "--disable-pass", "lm-hoist-last-row", *flags]
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout


def check_totals(totals):
    for tokens, operations in PROMPTS.items():
        verify, draft = totals["verify", tokens], totals["draft", tokens]
        compare(f"weights of verify behind {tokens}", verify["weight_bytes"] / 1e6, WEIGHTS["verify"])
        compare(f"weights of draft behind {tokens}", draft["weight_bytes"] / 1e6, WEIGHTS["draft"])
        # The plan has its caches in f32.
        found = sum(run["weight_bytes"] + run["state_bytes"] + run["key_value_bytes"] / 2 for run in (verify, draft)) / 1e6
        seen = min(tokens, WINDOW) - 128
        compare(f"bytes behind {tokens}", found, ROUND + (tokens - 128) * TARGET_TOKEN + seen * DRAFT_TOKEN)
        attention = tokens * TARGET_ATTENTION + min(tokens, WINDOW) * DRAFT_ATTENTION
        compare(f"operations behind {tokens}", (verify["operations"] + draft["operations"]) / 1e9, ROUND_OPERATIONS + attention)
        compare(f"operations of {tokens}", totals["prefill", tokens]["operations"] / 1e9, operations)


def read_json(text):
    return {(run["program"], run["context"] or run["rows"]): run["total"] for run in json.loads(text)["programs"]}


def read_text(text):
    totals = {}
    pattern = r"^(?:(\w+) behind|(prefill) of) (\d+) tokens, \d+ rows\n(?:  .*\n)*?  total +(.*)$"
    for program, prefill, tokens, numbers in re.findall(pattern, text, re.M):
        values = [float(number) for number in numbers.split()[1:]]
        totals[program or prefill, int(tokens)] = {
            name: value * unit for name, value, unit in zip(COLUMNS, values, UNITS)}
    return totals


def main():
    totals = read_json(run(*sys.argv[1:4], "--json"))
    check_totals(totals)
    text = read_text(run(*sys.argv[1:4]))
    if text.keys() != totals.keys():
        sys.exit(f"text has {sorted(text)}, JSON has {sorted(totals)}")
    for key, values in text.items():
        for name, value in values.items():
            # What is printed is rounded.
            if abs(value - totals[key][name]) > 0.006 * UNITS[COLUMNS.index(name)]:
                sys.exit(f"{name} of {key}: {value} in text, {totals[key][name]} in JSON")
    print(f"{len(totals)} totals")


if __name__ == "__main__":
    main()
