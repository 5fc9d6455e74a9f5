#!/usr/bin/env python3
"""Writes the index of a checkpoint that is one file: write_index.py FOLDER"""

import json
import pathlib
import sys

folder = pathlib.Path(sys.argv[1])
contents = (folder / "model.safetensors").read_bytes()
size = int.from_bytes(contents[:8], "little")
names = json.loads(contents[8 : 8 + size]).keys() - {"__metadata__"}
index = {"weight_map": {name: "model.safetensors" for name in names}}
(folder / "model.safetensors.index.json").write_text(json.dumps(index))
