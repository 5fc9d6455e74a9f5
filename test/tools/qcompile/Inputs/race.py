"""race.py FOLDER QCOMPILE FIRST.mlir SECOND.mlir: two compilers write one path at the same time, and are interrupted.

Whoever looks at the path sees nothing or one whole artefact, whenever that is, and nothing else stays in FOLDER.
"""

import os
import pathlib
import random
import signal
import subprocess
import sys
import time

folder, qcompile, *sources = sys.argv[1:]
folder = pathlib.Path(folder)
path = folder / "a.tandem"
numbers = (signal.SIGINT, signal.SIGTERM)
for number in numbers:
    signal.signal(number, signal.SIG_DFL)  # Whoever runs this may have them ignored.


def start(source):
    return subprocess.Popen([qcompile, source, "-o", path])


def expect_whole(contents, when):
    if contents not in wholes:
        sys.exit(f"{when}: {len(contents)} bytes that are the artefact of neither compiler")


def expect_clean(when):
    names = os.listdir(folder)
    if names not in ([], [path.name]):
        sys.exit(f"{when}: left {names}")


wholes, seconds = [], 0.0
for source in sources:
    begin = time.monotonic()
    if start(source).wait() != 0:
        sys.exit(f"{source} does not compile")
    seconds = max(seconds, time.monotonic() - begin)
    wholes.append(path.read_bytes())
    path.unlink()
if wholes[0] == wholes[1]:
    sys.exit("the artefacts have to differ")

for turn in range(6):
    processes = [start(source) for source in (sources if turn % 2 else reversed(sources))]
    while any(process.poll() is None for process in processes):
        if path.exists():
            expect_whole(path.read_bytes(), f"while compiling in turn {turn}")
        time.sleep(0.0005)
    codes = [process.returncode for process in processes]
    if codes != [0, 0]:
        sys.exit(f"turn {turn}: ended with {codes}")
    expect_whole(path.read_bytes(), f"turn {turn}")
    expect_clean(f"turn {turn}")
    path.unlink()

rng = random.Random(1)
interrupted = 0
for turn in range(14):
    number = rng.choice(numbers)
    when = f"{number.name} in turn {turn}"
    process = start(sources[0])
    time.sleep(rng.uniform(0, 1.1 * seconds))
    process.send_signal(number)
    code = process.wait()
    if code not in (0, -number):
        sys.exit(f"{when}: ended with {code}")
    interrupted += code != 0
    expect_clean(when)
    if path.exists():
        expect_whole(path.read_bytes(), when)
        path.unlink()
    elif code == 0:
        sys.exit(f"{when}: success without an artefact")
if interrupted == 0:
    sys.exit("no compiler was interrupted")
