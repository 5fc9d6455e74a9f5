"""interrupt.py FILE COMMAND...: sends signals to a command that is about to write the file, as soon as there is anything
in its folder. The command has to die of them and leave the folder empty, but go on when it was told to ignore them."""

import os
import signal
import subprocess
import sys
import time

path = sys.argv[1]
folder = os.path.dirname(path)


def interrupt(number, handler):
    signal.signal(number, handler)  # The command inherits what is not a function.
    process = subprocess.Popen(sys.argv[2:])
    while not os.listdir(folder):
        if process.poll() is not None:
            sys.exit(f"ended with {process.returncode} before it began to write")
        time.sleep(0.001)
    # The handlers are there a moment after the file.
    time.sleep(0.05)
    process.send_signal(number)
    return process.wait()


for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
    code = interrupt(number, signal.SIG_DFL)
    if code != -number:
        sys.exit(f"{number.name}: ended with {code}")
    if os.listdir(folder):
        sys.exit(f"{number.name}: left {os.listdir(folder)}")

code = interrupt(signal.SIGHUP, signal.SIG_IGN)
if code != 0 or os.listdir(folder) != [os.path.basename(path)]:
    sys.exit(f"ignored signal: ended with {code} and left {os.listdir(folder)}")
