"""truncate.py FILE MARKER COMMAND...: cuts FILE to its first page as soon as the command has written MARKER. Prints what the
command says last; it has to end with 1."""

import os
import subprocess
import sys
import time

path, marker = sys.argv[1:3]
process = subprocess.Popen(sys.argv[3:], stderr=subprocess.PIPE, text=True)
while not os.path.exists(marker):
    if process.poll() is not None:
        sys.exit(f"ended with {process.returncode} before it wrote {marker}")
    time.sleep(0.001)
os.truncate(path, 4096)
lines = process.stderr.read().splitlines()
if process.wait() != 1:
    sys.exit(f"ended with {process.returncode}: {lines}")
print(lines[-1])
