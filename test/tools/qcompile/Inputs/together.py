"""together.py COMMAND...: runs the command four times at once and checks that each succeeds."""

import subprocess
import sys

processes = [subprocess.Popen(sys.argv[1:]) for _ in range(4)]
sys.exit(max(process.wait() for process in processes))
