#!/usr/bin/env python3
"""expect_error.py CODE COMMAND...: runs a command that has to fail with exit code CODE, in one line on stderr and
nothing on stdout, and prints that line."""

import subprocess
import sys


def main():
    code, command = int(sys.argv[1]), sys.argv[2:]
    result = subprocess.run(command, capture_output=True, text=True, errors="replace")
    sys.stdout.write(result.stderr)
    if result.returncode != code:
        sys.exit(f"exit code {result.returncode}, expected {code}")
    if result.stdout:
        sys.exit(f"on stdout: {result.stdout}")
    if result.stderr.count("\n") != 1:
        sys.exit("expected one line on stderr")


if __name__ == "__main__":
    main()
