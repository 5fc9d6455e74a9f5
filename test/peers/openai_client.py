#!/usr/bin/env python3
"""Checks `qrun serve` with the `openai` package. By hand:

    python3 -m venv /tmp/venv && /tmp/venv/bin/pip install openai
    /tmp/venv/bin/python openai_client.py QRUN PAIR.tandem
"""

import signal
import subprocess
import sys

import openai

server = subprocess.Popen(
    [sys.argv[1], "serve", sys.argv[2], "--port", "0", "--model-name", "demo"]
    + ["--template", "qwen3.5", "--api-key", "secret"],
    stdout=subprocess.PIPE,
    text=True,
)
port = server.stdout.readline().strip().rsplit(":", 1)[1]
client = openai.OpenAI(
    base_url=f"http://127.0.0.1:{port}/v1", api_key="secret", max_retries=0
)


def fails(kind, word, call):
    try:
        call()
    except kind as error:
        assert word in str(error), error
    else:
        raise AssertionError(f"no {kind.__name__}")


try:
    assert [model.id for model in client.models.list()] == ["demo"]
    assert client.models.retrieve("demo").owned_by == "tandem"

    # Completions, whole and streamed.
    arguments = dict(
        model="demo", prompt="The ferry", max_tokens=12, temperature=0
    )
    whole = client.completions.create(**arguments, logprobs=2)
    assert whole.choices[0].finish_reason in ("length", "stop")
    assert len(whole.choices[0].logprobs.tokens) == 12
    assert whole.usage.completion_tokens == 12
    chunks = list(client.completions.create(**arguments, stream=True))
    text = "".join(chunk.choices[0].text for chunk in chunks)
    assert text == whole.choices[0].text, (text, whole.choices[0].text)

    # Chats, whole and streamed.
    arguments = dict(
        model="demo",
        messages=[
            {"role": "system", "content": "Be brief."},
            {"role": "user", "content": "Tell me of the ferry."},
        ],
        max_tokens=12,
        seed=3,
        temperature=0.8,
        extra_body={"chat_template_kwargs": {"enable_thinking": False}},
    )
    whole = client.chat.completions.create(
        **arguments, logprobs=True, top_logprobs=2
    )
    message = whole.choices[0].message
    assert message.role == "assistant"
    assert len(whole.choices[0].logprobs.content[0].top_logprobs) == 2
    chunks = list(
        client.chat.completions.create(
            **arguments, stream=True, stream_options={"include_usage": True}
        )
    )
    text = "".join(
        chunk.choices[0].delta.content or ""
        for chunk in chunks
        if chunk.choices
    )
    assert text == message.content, (text, message.content)
    assert chunks[-1].usage.completion_tokens == whole.usage.completion_tokens
    reasons = [c.choices[0].finish_reason for c in chunks if c.choices]
    assert reasons[-1] and not any(reasons[:-1]), reasons

    # Errors arrive as the package's own kinds.
    chat = client.chat.completions.create
    fails(openai.BadRequestError, "temperature",
          lambda: chat(**{**arguments, "temperature": -1}))
    fails(openai.NotFoundError, "does not exist",
          lambda: chat(**{**arguments, "model": "other"}))
    fails(openai.AuthenticationError, "API key",
          lambda: client.with_options(api_key="x").models.list())
    print("openai", openai.__version__, "is content")
finally:
    server.send_signal(signal.SIGTERM)
    server.wait(60)
