#!/usr/bin/env python3
"""generate.py TBLGEN ROOT INCLUDE [--check]: writes docs/reference from ODS with mlir-tblgen.

With --check nothing is written: exit code 1 when a file is not what would be.
"""

import pathlib
import subprocess
import sys

# File, what mlir-tblgen makes it from, and how; passes get a title, which mlir-tblgen leaves out.
PAGES = [
    ("lm.md", "dialects/lm/LmOps.td", ["-gen-dialect-doc", "-dialect=lm"], ""),
    ("plan.md", "dialects/plan/PlanOps.td", ["-gen-dialect-doc", "-dialect=plan"], ""),
    ("passes.md", "passes/Passes.td", ["-gen-pass-doc"], "# Passes\n\n"),
]


def generate(tblgen, root, include, source, arguments):
    command = [tblgen, *arguments, "-I", root, "-I", include, str(pathlib.Path(root, source))]
    text = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout
    # A table of contents is what Hugo would put there.
    lines = [line.rstrip() for line in text.splitlines() if line != "[TOC]"]
    # No two empty lines in a row, none at the end.
    kept = [line for i, line in enumerate(lines) if line or (i > 0 and lines[i - 1])]
    return "\n".join(kept).strip() + "\n"


def main():
    arguments = [argument for argument in sys.argv[1:] if argument != "--check"]
    check = len(arguments) + 1 != len(sys.argv)
    tblgen, root, include = arguments
    folder = pathlib.Path(root, "docs", "reference")
    stale = []
    for name, source, options, title in PAGES:
        text = generate(tblgen, root, include, source, options)
        first, rest = text.split("\n", 1)
        text = first + "\n\n" + title + rest.lstrip("\n")
        path = folder / name
        if check:
            if not path.exists() or path.read_text() != text:
                stale.append(path)
        else:
            folder.mkdir(exist_ok=True)
            path.write_text(text)
    for path in stale:
        print(f"{path} is out of date: build the target `docs`", file=sys.stderr)
    return 1 if stale else 0


if __name__ == "__main__":
    sys.exit(main())
