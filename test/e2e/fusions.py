#!/usr/bin/env python3
"""fusions.py TINY FOLDER: with and without every fusion the tiny pair scores a text in the same bytes.

Compiles the pair of folder TINY once with all fusions, once without each, and once without any; artefacts and scores go to FOLDER.
qcompile and qrun are found by PATH.
"""

import concurrent.futures
import json
import os
import pathlib
import re
import subprocess
import sys


def run(*command):
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout


def get_optional_passes():
    """What --disable-pass takes, from the help: NAME:{a,b,c}."""
    text = re.sub(r"\s+", "", run("qcompile", "--help"))
    return re.search(r"--disable-passNAME:\{([^}]*)\}", text).group(1).split(",")


def score(tiny, folder, name, disabled):
    artefact, scores = folder / f"{name}.tandem", folder / f"{name}.safetensors"
    flags = [word for flag in disabled for word in ("--disable-pass", flag)]
    run("qcompile", "--target", str(tiny / "target-w4a16"), "--drafter", str(tiny / "drafter-w4a16"),
        "--max-context", "128", "-o", str(artefact), *flags)
    run("qrun", "score", str(artefact), "--ids", str(folder / "ids.json"), "-o", str(scores))
    return scores.read_bytes()


def main():
    tiny, folder = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2])
    (folder / "ids.json").write_text(json.dumps([(3 + 37 * i) % 900 for i in range(40)]))
    passes = get_optional_passes()
    variants = [("all", [])] + [(flag, [flag]) for flag in passes] + [("none", passes)]
    # Compiling is what takes the time, and qcompile uses one core.
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as threads:
        scores = list(threads.map(lambda variant: score(tiny, folder, *variant), variants))
    for (name, disabled), found in zip(variants, scores):
        if found != scores[0]:
            sys.exit(f"without {', '.join(disabled)} the scores are others: {folder}/{name}.safetensors and all.safetensors")
    print(f"{len(passes)} fusions")


if __name__ == "__main__":
    main()
