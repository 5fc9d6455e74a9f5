#!/usr/bin/env python3
"""Makes a checkpoint that differs from another one.

    edit_checkpoint.py SOURCE DESTINATION [EDIT...]

Edits, in any number and applied in order:
    --set KEY=JSON        a value of config.json; dots go into objects: a.b=1
    --unset KEY           takes a key out of config.json
    --drop TENSOR         takes a tensor out of model.safetensors
    --reshape TENSOR=JSON gives a tensor another shape of the same size
    --shuffle SEED        permutes the words of every matrix: valid codes and scales, no meaning

Files that no edit touches are links to those of SOURCE.
"""

import argparse
import array
import json
import os
import random
import shutil
import struct


class OrderedEdit(argparse.Action):
    """Keeps edits in the order of the command line."""

    def __call__(self, parser, namespace, value, option=None):
        namespace.edits.append((self.dest, value))


def parse_arguments():
    parser = argparse.ArgumentParser(usage=__doc__)
    parser.set_defaults(edits=[])
    parser.add_argument("source")
    parser.add_argument("destination")
    for edit in ("set", "unset", "drop", "reshape", "shuffle"):
        parser.add_argument("--" + edit, action=OrderedEdit)
    return parser.parse_args()


def read_safetensors(path):
    """Returns the header and the data of every tensor by name."""
    with open(path, "rb") as file:
        (length,) = struct.unpack("<Q", file.read(8))
        header = json.loads(file.read(length))
        data = file.read()
    metadata = header.pop("__metadata__", None)
    tensors = {}
    for name, entry in header.items():
        begin, end = entry["data_offsets"]
        tensors[name] = {"dtype": entry["dtype"], "shape": entry["shape"], "data": data[begin:end]}
    return metadata, tensors


def write_safetensors(path, metadata, tensors):
    header = {} if metadata is None else {"__metadata__": metadata}
    offset = 0
    for name, tensor in tensors.items():
        end = offset + len(tensor["data"])
        header[name] = {"dtype": tensor["dtype"], "shape": tensor["shape"], "data_offsets": [offset, end]}
        offset = end
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        for tensor in tensors.values():
            file.write(tensor["data"])


def find_object(config, key):
    """The object that holds KEY, and the last part of KEY."""
    *parents, last = key.split(".")
    for parent in parents:
        config = config[parent]
    return config, last


def shuffle(tensors, seed):
    rng = random.Random(seed)
    for tensor in tensors.values():
        # Shapes of packed matrices are I64 vectors, norms are vectors: they stay.
        if len(tensor["shape"]) < 2:
            continue
        words = array.array("I" if tensor["dtype"] in ("I32", "F32") else "H", tensor["data"])
        rng.shuffle(words)
        tensor["data"] = words.tobytes()


def main():
    arguments = parse_arguments()
    source, destination = os.path.abspath(arguments.source), arguments.destination
    shutil.rmtree(destination, ignore_errors=True)
    os.makedirs(destination)

    config = weights = None
    for edit, value in arguments.edits:
        if edit in ("set", "unset"):
            if config is None:
                with open(os.path.join(source, "config.json")) as file:
                    config = json.load(file)
            key, _, text = value.partition("=")
            parent, last = find_object(config, key)
            if edit == "set":
                parent[last] = json.loads(text)
            else:
                del parent[last]
            continue
        if weights is None:
            weights = read_safetensors(os.path.join(source, "model.safetensors"))
        tensors = weights[1]
        if edit == "drop":
            del tensors[value]
        elif edit == "reshape":
            name, _, shape = value.partition("=")
            tensors[name]["shape"] = json.loads(shape)
        else:
            shuffle(tensors, int(value))

    for name in os.listdir(source):
        path = os.path.join(destination, name)
        if name == "config.json" and config is not None:
            with open(path, "w") as file:
                json.dump(config, file, indent=2)
        elif name == "model.safetensors" and weights is not None:
            write_safetensors(path, *weights)
        else:
            os.symlink(os.path.join(source, name), path)


if __name__ == "__main__":
    main()
