"""truncate.py FILE COMMAND...: cuts FILE to its first page as soon as the command has mapped it. Prints what the command says
last; it has to end with 1."""

import os
import subprocess
import sys
import time

path = sys.argv[1]
process = subprocess.Popen(sys.argv[2:], stderr=subprocess.PIPE, text=True)
while path not in open(f"/proc/{process.pid}/maps").read():
    if process.poll() is not None:
        sys.exit(f"ended with {process.returncode} before it mapped the file")
    time.sleep(0.001)
# Its header is read a moment later.
time.sleep(0.05)
os.truncate(path, 4096)
lines = process.stderr.read().splitlines()
if process.wait() != 1:
    sys.exit(f"ended with {process.returncode}: {lines}")
print(lines[-1])
