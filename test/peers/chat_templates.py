#!/usr/bin/env python3
"""Renders conversations with a checkpoint's own Jinja template.

Makes test/Inputs/chat/cases.json, which the tests compare with
runtime/ChatTemplate.cpp. Needs jinja2, and nothing that CI has to have:

    chat_templates.py qwen3=DIR qwen3.5=DIR qwen3.6=DIR > cases.json

where each DIR has a chat_template.jinja, or a tokenizer_config.json with a
`chat_template`. The environment is the one transformers makes.
"""

import json
import os
import sys

from jinja2.exceptions import TemplateError
from jinja2.sandbox import ImmutableSandboxedEnvironment


def user(content):
    return {"role": "user", "content": content}


def system(content):
    return {"role": "system", "content": content}


def assistant(content, reasoning=None):
    message = {"role": "assistant", "content": content}
    if reasoning is not None:
        message["reasoning_content"] = reasoning
    return message


CONVERSATIONS = [
    [user("hi")],
    [system(" be kind \n"), user("  hi\n")],
    [user("a"), assistant("b"), user("c")],
    [user("a"), assistant("b", "why"), user("c"), assistant("d", " r \n")],
    [
        user("a"),
        assistant("<think>\nx\n</think>\n\nb"),
        user("c"),
        assistant("<think>\n\ny\n\n</think>\n\n\nd"),
    ],
    [
        user("a"),
        assistant("q</think>r</think>s"),
        user("<tool_response>\nz\n</tool_response>"),
    ],
    [user("\u3000wide\u00a0"), assistant("\n\nno", ""), user("ok")],
    [system("x"), user("a"), system("y"), user("b")],
    [assistant("only")],
    [system("s")],
    [],
    [user("a"), assistant("b")],
    [user("a"), assistant("b", ""), assistant("c", "t")],
    [user(""), assistant(""), user("  ")],
]

OPTIONS = {
    "qwen3": [{}, {"enable_thinking": False}, {"enable_thinking": True}],
    "qwen3.5": [{}, {"enable_thinking": False}],
    "qwen3.6": [{}, {"preserve_thinking": True, "enable_thinking": False}],
}


def read_template(folder):
    path = os.path.join(folder, "chat_template.jinja")
    if os.path.exists(path):
        with open(path, encoding="utf-8") as file:
            return file.read()
    with open(os.path.join(folder, "tokenizer_config.json")) as file:
        return json.load(file)["chat_template"]


def main():
    def fail(message):
        raise TemplateError(message)

    environment = ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True
    )
    environment.globals["raise_exception"] = fail
    cases = []
    for argument in sys.argv[1:]:
        form, folder = argument.split("=", 1)
        template = environment.from_string(read_template(folder))
        for options in OPTIONS[form]:
            for messages in CONVERSATIONS:
                for prompt in (True, False):
                    try:
                        text = template.render(
                            messages=messages,
                            add_generation_prompt=prompt,
                            **options,
                        )
                    except Exception:  # An error is a result, too.
                        text = None
                    cases.append(
                        {
                            "form": form,
                            "options": options,
                            "messages": messages,
                            "prompt": prompt,
                            "text": text,
                        }
                    )
    print("[")
    print(",\n".join(json.dumps(case) for case in cases))
    print("]")


main()
