"""layering.py ROOT: who may include whom (the table of docs/architecture.md).

Reads the #include and include lines of every source file below ROOT and prints those that the folder of the file may not
have.
"""

import pathlib
import re
import sys

COMPILER = ("mlir", "llvm", "clang", "lld")
ALL = ("dialects", "passes", "models", "codegen", "runtime", "tools", "test")


def others(*allowed):
    """Every folder of ours but ALLOWED."""
    return tuple(folder for folder in ALL if folder not in allowed)


# Folder: folders that nothing in it may include, and exceptions. The longest folder that matches a file counts.
RULES = {
    "runtime": (others("runtime") + COMPILER, ()),
    "dialects": (others("dialects"), ()),
    "passes": (others("passes", "dialects"), ()),
    "models": (others("models", "dialects"), ()),
    "codegen": (
        others("codegen", "dialects"),
        ("models/ChatData.h", "models/Safetensors.h", "models/Synthetic.h", "models/TokenizerData.h", "runtime/KernelAbi.h", "runtime/Artifact_generated.h", "runtime/cpu/TilePermission.h"),
    ),
    "tools/qrun": (others("tools", "runtime") + COMPILER, ()),
    "tools": (("test",), ()),
}
INCLUDE = re.compile(r'^\s*#?\s*include\s*[<"]([^>"]+)[>"]')
SUFFIXES = {".c", ".cpp", ".cu", ".cuh", ".h", ".td"}


def main():
    root = pathlib.Path(sys.argv[1])
    violations = checked = 0
    for folder in sorted({rule.split("/")[0] for rule in RULES}):
        for path in sorted((root / folder).rglob("*")):
            if path.suffix not in SUFFIXES:
                continue
            checked += 1
            name = path.relative_to(root).as_posix()
            rule = max((rule for rule in RULES if name.startswith(rule + "/")), key=len)
            forbidden, exceptions = RULES[rule]
            for number, line in enumerate(path.read_text().splitlines(), 1):
                match = INCLUDE.match(line)
                if not match or match[1] in exceptions or match[1].split("/")[0] not in forbidden:
                    continue
                print(f"{name}:{number}: {rule} may not include {match[1]}")
                violations += 1
    if violations or not checked:
        sys.exit(f"{violations} includes against the layering in {checked} files")


if __name__ == "__main__":
    main()
