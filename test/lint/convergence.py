"""convergence.py ROOT: patterns that end, over the whole test set.

Canonicalizes every .mlir test until nothing changes, and runs every pass that a test runs a second time on what it made:
that changes nothing. Prints the tests where it is otherwise.
"""

import pathlib
import re
import subprocess
import sys

SECONDS = 60


def qopt(arguments, text):
    """Standard output of qopt on TEXT; None when it fails or does not end."""
    try:
        result = subprocess.run(
            ["qopt", "--allow-unregistered-dialect", "--split-input-file", *arguments, "-"],
            input=text, capture_output=True, text=True, timeout=SECONDS,
        )
    except subprocess.TimeoutExpired:
        return None
    return result.stdout if result.returncode == 0 else None


def get_pass_flags(text):
    """The pass flags of the RUN lines, a list for every line."""
    runs = "\n".join(re.findall(r"^// RUN:(.*)$", text, re.M)).replace("\\\n", " ")
    commands = [command for command in runs.splitlines() if "qopt %s" in command and "FileCheck" in command]
    flags = [re.findall(r"--(?:lm|plan|convert)-\S+", command.split("|")[0]) for command in commands]
    return [list(unique) for unique in {tuple(given): None for given in flags if given}]


def main():
    root = pathlib.Path(sys.argv[1])
    faults = checked = 0

    def report(path, fault):
        nonlocal faults
        faults += 1
        print(f"{path.relative_to(root)}: {fault}")

    for path in sorted([*root.glob("test/dialects/*/*.mlir"), *root.glob("test/passes/*.mlir")]):
        # What the parser or a verifier refuses is another test's; the rest of a split file is checked.
        chunks = re.split(r"^// -----$", path.read_text(), flags=re.M)
        good = [chunk for chunk in chunks if "expected-error" not in chunk]
        text = "\n// -----\n".join(good)
        if not good or qopt([], text) is None:
            continue
        checked += 1
        if qopt(["--canonicalize=test-convergence=true"], text) is None:
            report(path, "canonicalization does not end")
        for flags in get_pass_flags(path.read_text()):
            once = qopt(flags, text)
            if once is not None and qopt(flags, once) != once:
                report(path, " ".join(flags) + " changes what it made")
    if faults or not checked:
        sys.exit(f"{faults} faults in {checked} tests")


if __name__ == "__main__":
    main()
