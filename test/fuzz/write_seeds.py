#!/usr/bin/env python3
"""write_seeds.py ROOT FOLDER: every module of the lit tests under ROOT/test as a file of FOLDER, for StageFuzzer."""

import pathlib
import sys

from fuzz import read_modules

folder = pathlib.Path(sys.argv[2])
folder.mkdir(parents=True, exist_ok=True)
for number, text in enumerate(read_modules(sys.argv[1], [])):
    (folder / str(number)).write_text(text)
