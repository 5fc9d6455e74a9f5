# How lit runs the tests of the compiler half. Settings of a build come from lit.site.cfg.py.in.

import os

import lit.formats

config.name = "Tandem"
# The internal shell: a pipe fails when any of its commands fails.
config.test_format = lit.formats.ShTest(execute_external=False)
config.suffixes = [".mlir", ".test"]
config.excludes = ["Inputs"]
config.test_source_root = os.path.dirname(__file__)

# qopt, qcompile and qrun of the build, then FileCheck, not and split-file.
config.environment["PATH"] = os.pathsep.join(
    [config.tandem_tools_dir, config.llvm_tools_dir, config.environment["PATH"]]
)
config.environment["FILECHECK_OPTS"] = "--enable-var-scope --allow-unused-prefixes=false"
# What a sanitizer needs to find is kept, and what it finds is printed.
for name in ("ASAN_OPTIONS", "UBSAN_OPTIONS", "LSAN_OPTIONS", "ASAN_SYMBOLIZER_PATH"):
    if name in os.environ:
        config.environment[name] = os.environ[name]

config.substitutions.append(("%python", config.python))
config.substitutions.append(("%fails", f"{config.python} {config.test_source_root}/expect_error.py"))
config.substitutions.append(
    ("%edit_checkpoint", f"{config.python} {config.test_source_root}/e2e/edit_checkpoint.py"))
config.substitutions.append(("%source", config.tandem_source_dir))
config.substitutions.append(("%inputs", os.path.join(config.test_source_root, "Inputs")))
