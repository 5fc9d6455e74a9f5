#!/usr/bin/env python3
"""fuzz.py QOPT ROOT [--qcompile QCOMPILE] [--seed N] [--seconds N] [--module FILE]...: no IR makes the compiler crash.

Takes the modules of the lit tests under ROOT/test and those given by --module (dumped stages), changes one or two things in
each, and runs qopt with a whole pipeline on the result: an error or a result is fine, a signal is not. Some are then compiled by
QCOMPILE down to the kernels. The same seed makes the same modules in the same order; --seconds is where it stops. Modules that
crash are printed, and how to run them.
"""

import argparse
import pathlib
import random
import re
import subprocess
import sys
import tempfile
import time

SEPARATOR = "\n// -----\n"
NUMBERS = ["0", "1", "-1", "2", "3", "7", "15", "16", "17", "63", "64", "65", "4096", "2147483647", "2147483648",
           "4294967296", "9223372036854775807", "-9223372036854775808", "1.0e38", "-0.0", "0x7FC00000"]
TYPES = ["f32", "bf16", "f16", "f64", "i32", "i8", "i64", "i1", "index"]
TOKEN = re.compile(r'"[^"\n]*"|[%@#!]?[\w.$]+|->|\S')
# The lines of a module that a mutation may copy or drop.
STATEMENT = re.compile(r"^\s*(%|lm\.|plan\.|return|func\.func)")
# Modules in a run of qopt: starting it costs more than a small module.
BATCH = 24


def read_modules(root, extra):
    """All modules of the lit tests, then the extra files."""
    modules = []
    for path in sorted(pathlib.Path(root, "test").rglob("*.mlir")):
        for part in path.read_text().split("// -----"):
            # Directives and comments are no part of a module.
            text = "\n".join(line for line in part.splitlines() if not line.lstrip().startswith("//"))
            if text.strip():
                modules.append(text)
    return modules + [pathlib.Path(path).read_text() for path in extra]


def split_tokens(line):
    return [(match.start(), match.end()) for match in TOKEN.finditer(line)]


def replace(line, span, text):
    return line[: span[0]] + text + line[span[1] :]


def mutate_token(line, pool, rng):
    """Another number for a number, another type for a type, another name for a name."""
    spans = split_tokens(line)
    if not spans:
        return line
    span = rng.choice(spans)
    token = line[span[0] : span[1]]
    number = re.search(r"\d+", token)
    if token in TYPES:
        return replace(line, span, rng.choice(TYPES))
    if token[0] in "%@#!" or re.match(r"(lm|plan)\.", token):
        same = [other for other in pool if other[0] == token[0] and ("." in other) == ("." in token)]
        return replace(line, span, rng.choice(same or [token]))
    if number:
        if rng.random() < 0.5:
            value = str(max(0, int(number.group()) + rng.choice([-1, 1, -16, 16])))
        else:
            value = rng.choice(NUMBERS)
        start = span[0] + number.start()
        return replace(line, (start, start + len(number.group())), value)
    # What remains are keywords and punctuation.
    return replace(line, span, rng.choice(["", token + " " + token, rng.choice(pool)]))


# A number in a shape, a list or an attribute; not one in a name.
FREE_NUMBER = re.compile(r"(?<=[<x ,(:=\[])\d+(?=[x>, ):\n}\]])")
# Ops with operands and results of the same kind.
KINDS = [
    ["lm.silu", "lm.sigmoid"],
    ["lm.add", "lm.mul"],
    ["lm.linear", "lm.quant_linear"],
    ["lm.rms_norm", "lm.gated_rms_norm", "lm.l2_norm"],
    ["lm.last_row", "lm.live_rows", "lm.drop_rows"],
]


def choose_number(number, rng):
    near = [str(max(0, int(number) + step)) for step in (-1, 1, -16, 16)]
    return rng.choice(near + [str(int(number) * 2), str(int(number) // 2)] + NUMBERS)


def mutate_size(text, rng):
    """A size is another one, wherever it stands: types keep agreeing with each other."""
    numbers = FREE_NUMBER.findall(text)
    if not numbers:
        return text
    old = rng.choice(numbers)
    new = choose_number(old, rng)
    return FREE_NUMBER.sub(lambda match: new if match.group() == old else match.group(), text)


def mutate_number(text, rng):
    """One number is another one."""
    matches = list(FREE_NUMBER.finditer(text))
    if not matches:
        return text
    match = rng.choice(matches)
    return replace(text, match.span(), choose_number(match.group(), rng))


def mutate_element(text, rng):
    """An element type is another one, wherever it stands."""
    old = rng.choice(["f32", "bf16", "i32"])
    return re.sub(rf"(?<=x){old}(?=>)|(?<=: ){old}\b", rng.choice(TYPES), text)


def mutate_operand(text, rng):
    """An operand is another value of the module."""
    names = re.findall(r"%[\w$.-]+", text)
    uses = [match for match in re.finditer(r"(?<=[ (\[])%[\w$.-]+(?!\s*(:|=|,\s*%\w+\s*=))", text)]
    if not uses:
        return text
    return replace(text, rng.choice(uses).span(), rng.choice(names))


def mutate_op(text, rng):
    """An op is another one of its kind."""
    kind = rng.choice(KINDS)
    matches = [match for name in kind for match in re.finditer(re.escape(name) + r"\b", text)]
    return replace(text, rng.choice(matches).span(), rng.choice(kind)) if matches else text


def mutate_string(text, rng):
    """A name of a port, a state or a tensor is another one."""
    matches = list(re.finditer(r'"[^"\n]*"', text))
    if not matches:
        return text
    return replace(text, rng.choice(matches).span(), rng.choice([match.group() for match in matches]))


def mutate_lines(text, rng):
    """A line loses a token, gets one, is doubled, dropped or moved."""
    lines = text.splitlines()
    pool = [match.group() for match in TOKEN.finditer(text)]
    statements = [i for i, line in enumerate(lines) if STATEMENT.match(line)]
    index = rng.choice(statements) if statements else rng.randrange(len(lines))
    action = rng.random()
    if action < 0.5:
        # A statement can go over several lines.
        index = min(len(lines) - 1, index + rng.randint(0, 2))
        lines[index] = mutate_token(lines[index], pool, rng)
    elif action < 0.7:
        lines.insert(rng.randrange(len(lines) + 1), lines[index])
    elif action < 0.85 and len(lines) > 1:
        del lines[index]
    else:
        other = rng.randrange(len(lines))
        lines[index], lines[other] = lines[other], lines[index]
    return "\n".join(lines)


# Most mutations leave a module that can be parsed: what is to be tested are verifiers and passes.
MUTATIONS = [mutate_size] * 6 + [mutate_number] * 4 + [mutate_operand] * 4 + [
    mutate_element, mutate_op, mutate_string, mutate_lines]


def mutate(text, rng):
    for _ in range(rng.randint(1, 2)):
        text = rng.choice(MUTATIONS)(text, rng)
    # On this MLIR's own parser crashes; qcompile looks first.
    return text.replace("array<index", "array<i64")


def run(tool, arguments, text, limit):
    """The exit code of a tool on text; negative for a signal, 124 when it does not end."""
    with tempfile.NamedTemporaryFile("w", suffix=".mlir") as file:
        file.write(text)
        file.flush()
        command = [tool, file.name, *arguments]
        try:
            done = subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, timeout=limit)
        except subprocess.TimeoutExpired:
            return 124
        return done.returncode


# The passes on lm without the check in front of them, which refuses most hand-written functions: they have no ports.
LM_PASSES = (
    "lm-fuse-dequant-linear,cse,lm-hoist-last-row,lm-fuse-gated-mlp,lm-fuse-projections,lm-fuse-head-argmax,"
    "lm-fuse-norm-linear,lm-fuse-residual,lm-fuse-delta-inputs,canonicalize,lm-lower-denoise,lm-lower-sliding-window,"
    "lm-lower-speculate,convert-lm-to-plan,"
)
PLAN_PASSES = "canonicalize,plan-select-kernels,plan-assign-buffers,plan-verify"
# All that needs no weights.
COMPILE = ["--arch", "x86-64-v3", "--emit", "cpu"]


def choose_pipeline(text, rng):
    if "plan.program" in text or "plan.launch" in text:
        return f"--pass-pipeline=builtin.module({PLAN_PASSES})"
    if rng.random() < 0.5:
        return f"--pass-pipeline=builtin.module({LM_PASSES}{PLAN_PASSES})"
    return "--tandem-pipeline" + rng.choice(
        ["", "=arch=sm_86", "=disable=lm-fuse-norm-linear", "=disable=lm-fuse-projections"])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("qopt")
    parser.add_argument("root")
    parser.add_argument("--qcompile")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=8)
    parser.add_argument("--module", action="append", default=[])
    options = parser.parse_args()

    rng = random.Random(options.seed)
    modules = read_modules(options.root, options.module)
    start, count, crashes = time.monotonic(), 0, 0
    while time.monotonic() - start < options.seconds:
        origin = rng.choice(modules)
        pipeline = choose_pipeline(origin, rng)
        batch = [mutate(origin, rng) for _ in range(BATCH if len(origin) < 10000 else 1)]
        count += len(batch)
        runs = [(options.qopt, ["--split-input-file", pipeline], SEPARATOR.join(batch))]
        if options.qcompile:
            runs.append((options.qcompile, COMPILE, rng.choice(batch)))
        for tool, arguments, text in runs:
            if run(tool, arguments, text, limit=60) in (0, 1):
                continue
            for part in text.split(SEPARATOR):
                code = run(tool, arguments, part, limit=30)
                if code not in (0, 1):
                    crashes += 1
                    print(f"// exit code {code}: {tool} {' '.join(arguments)}\n{part}\n")
    print(f"{count} modules, {crashes} crashes", file=sys.stderr)
    return 1 if crashes else 0


if __name__ == "__main__":
    sys.exit(main())
