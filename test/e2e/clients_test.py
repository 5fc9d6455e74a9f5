#!/usr/bin/env python3
"""`qrun serve` through clients that people use: curl, the `openai` package and
lm-evaluation-harness. What they get is compared with what the command line
says about the same pair.

    clients_test.py QRUN PAIR.tandem TARGET VENV

TARGET is the checkpoint of the pair (lm-eval takes its tokenizer from there),
VENV is what scripts/clients makes; without it the test is skipped (77).
"""

import json
import math
import os
import subprocess
import sys
import tempfile
import unittest

QRUN, PAIR, TARGET, VENV = sys.argv[1:5]
if not os.path.exists(os.path.join(VENV, "installed.txt")):
    print(f"skipped: {VENV} lacks the clients, scripts/clients installs them")
    sys.exit(77)
PYTHON = os.path.join(VENV, "bin", "python")
if not os.path.samefile(sys.prefix, VENV):
    os.execv(PYTHON, [PYTHON, *sys.argv])
del sys.argv[1:5]

HOME = tempfile.TemporaryDirectory()
# No client may look for anything on the network.
os.environ.update(
    HF_HOME=HOME.name,
    HF_HUB_OFFLINE="1",
    HF_DATASETS_OFFLINE="1",
    HF_DATASETS_DISABLE_PROGRESS_BARS="1",
    TOKENIZERS_PARALLELISM="false",
    OPENAI_API_KEY="secret",
)

from server import PROMPT, Server  # noqa: E402

KEY = ["-H", "Authorization: Bearer secret"]
PACKAGES = ["Package: tortoisehg\n", "Package: libghc-free-prof\n"]


def setUpModule():
    global server
    server = Server(QRUN, PAIR, key="secret")


def tearDownModule():
    assert server.stop() == 0


def write(prompt, *flags):
    """The text that the command line writes."""
    command = [QRUN, PAIR, "--threads", "1", "-p", prompt, "--json", *flags]
    return json.loads(subprocess.check_output(command))["text"]


class Curl(unittest.TestCase):
    def curl(self, path, *flags):
        """Status and body."""
        command = ["curl", "-sS", "-w", "\n%{http_code}", server.url + path]
        text = subprocess.check_output([*command, *flags], text=True)
        body, status = text.rsplit("\n", 1)
        return int(status), body

    def test_completion(self):
        body = json.dumps({"prompt": PROMPT, "max_tokens": 8, "temperature": 0})
        status, answer = self.curl("/v1/completions", *KEY, "-d", body)
        self.assertEqual(status, 200)
        text = json.loads(answer)["choices"][0]["text"]
        self.assertEqual(text, write(PROMPT, "-n", "8"))
        # Old clients, and those that ask before they send.
        for flags in (["-0"], ["-H", "Expect: 100-continue"]):
            status, old = self.curl("/v1/completions", *KEY, "-d", body, *flags)
            self.assertEqual(status, 200)
            self.assertEqual(json.loads(old)["choices"][0]["text"], text)

    def test_stream(self):
        body = {"messages": [{"role": "user", "content": "Hello"}],
                "max_tokens": 8, "stream": True}
        status, answer = self.curl(
            "/v1/chat/completions", *KEY, "-N", "-d", json.dumps(body)
        )
        self.assertEqual(status, 200)
        self.assertEqual(answer.strip().split("\n\n")[-1], "data: [DONE]")

    def test_errors(self):
        status, answer = self.curl("/v1/models")
        self.assertEqual(status, 401)
        self.assertEqual(json.loads(answer)["error"]["code"], "invalid_api_key")
        with tempfile.NamedTemporaryFile() as file:
            file.write(b"x" * (9 << 20))
            file.flush()
            status, answer = self.curl(
                "/v1/completions", *KEY, "--data-binary", "@" + file.name
            )
        self.assertEqual(status, 413)
        self.assertEqual(json.loads(answer)["error"]["code"], "body_too_large")


class OpenAI(unittest.TestCase):
    def setUp(self):
        import openai

        self.openai = openai
        self.client = openai.OpenAI(
            base_url=server.url + "/v1", api_key="secret", max_retries=0
        )
        self.addCleanup(self.client.close)

    def test_models(self):
        models = self.client.models
        self.assertEqual([model.id for model in models.list()], ["demo"])
        self.assertEqual(models.retrieve("demo").owned_by, "tandem")

    def test_completions(self):
        create = self.client.completions.create
        arguments = dict(
            model="demo", prompt=PROMPT, max_tokens=12, temperature=0
        )
        whole = create(**arguments, logprobs=2)
        choice = whole.choices[0]
        self.assertEqual(choice.text, write(PROMPT, "-n", "12"))
        self.assertEqual(choice.finish_reason, "length")
        self.assertEqual(len(choice.logprobs.tokens), 12)
        self.assertEqual(whole.usage.completion_tokens, 12)
        chunks = create(**arguments, stream=True)
        text = "".join(chunk.choices[0].text for chunk in chunks)
        self.assertEqual(text, choice.text)

    def test_chats(self):
        create = self.client.chat.completions.create
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
        whole = create(**arguments, logprobs=True, top_logprobs=2)
        message = whole.choices[0].message
        self.assertEqual(message.role, "assistant")
        content = whole.choices[0].logprobs.content
        self.assertEqual(len(content[0].top_logprobs), 2)
        options = {"include_usage": True}
        chunks = list(create(**arguments, stream=True, stream_options=options))
        parts = [chunk.choices[0] for chunk in chunks if chunk.choices]
        text = "".join(part.delta.content or "" for part in parts)
        self.assertEqual(text, message.content)
        self.assertEqual(
            chunks[-1].usage.completion_tokens, whole.usage.completion_tokens
        )
        reasons = [part.finish_reason for part in parts]
        self.assertIn(reasons.pop(), ("stop", "length"))
        self.assertEqual(reasons, [None] * len(reasons))

    def test_errors_are_the_kinds_of_the_package(self):
        create = self.client.completions.create
        fields = dict(model="demo", prompt=PROMPT)
        with self.assertRaisesRegex(self.openai.BadRequestError, "temperature"):
            create(**fields, temperature=-1)
        with self.assertRaisesRegex(self.openai.NotFoundError, "other"):
            create(**{**fields, "model": "other"})
        with self.assertRaisesRegex(self.openai.AuthenticationError, "API key"):
            self.client.with_options(api_key="x").models.list()


class LmEval(unittest.TestCase):
    """Two small tasks of our own: one that compares probabilities, one whose
    answers are written."""

    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)

    def put(self, name, documents, **task):
        data = os.path.join(self.folder.name, name + ".jsonl")
        with open(data, "w", encoding="utf-8") as file:
            for document in documents:
                file.write(json.dumps(document) + "\n")
        task = {
            "task": name,
            "dataset_path": "json",
            "dataset_kwargs": {"data_files": {"test": data}},
            "test_split": "test",
            **task,
        }
        path = os.path.join(self.folder.name, name + ".yaml")
        with open(path, "w", encoding="utf-8") as file:
            json.dump(task, file)  # JSON is YAML.

    def evaluate(self, model, path, task, **others):
        import lm_eval
        from lm_eval.tasks import TaskManager

        arguments = {
            "model": "demo",
            "base_url": server.url + path,
            "num_concurrent": 1,
            "max_retries": 1,
            **others.pop("model_args", {}),
        }
        manager = TaskManager(
            include_path=self.folder.name, include_defaults=False
        )
        return lm_eval.simple_evaluate(
            model=model, model_args=arguments, tasks=[task],
            task_manager=manager, bootstrap_iters=0, **others,
        )

    def put_answers(self, *flags):
        """A task whose right answers are what the command line writes."""
        documents = [
            {
                "prompt": prompt,
                "expected": write(prompt, "-n", "24", "--stop", "\n", *flags),
            }
            for prompt in PACKAGES
        ]
        for document in documents:
            self.assertGreater(len(document["expected"]), 5)
        self.put(
            "answers", documents,
            output_type="generate_until",
            doc_to_text="{{prompt}}",
            doc_to_target="{{expected}}",
            generation_kwargs={
                "until": ["\n"], "max_gen_toks": 24, "temperature": 0,
                **({"chat_template_kwargs": {"enable_thinking": False}}
                   if flags else {}),
            },
            metric_list=[{"metric": "exact_match", "aggregation": "mean",
                          "higher_is_better": True}],
        )

    def test_local_completions_writes(self):
        self.put_answers()
        results = self.evaluate(
            "local-completions", "/v1/completions", "answers",
            model_args={"tokenizer": TARGET},
        )
        score = results["results"]["answers"]["exact_match,none"]
        self.assertEqual(score, 1, results["samples"]["answers"])

    def test_local_chat_completions(self):
        self.put_answers("--chat", "--template", "qwen3.5", "--no-thinking")
        results = self.evaluate(
            "local-chat-completions", "/v1/chat/completions", "answers",
            apply_chat_template=True,
        )
        score = results["results"]["answers"]["exact_match,none"]
        self.assertEqual(score, 1, results["samples"]["answers"])

    def log_probability(self, ids, begin):
        """Of ids[begin:] behind ids[:begin], by `qrun score`."""
        from safetensors.numpy import load_file

        path = os.path.join(self.folder.name, "ids.json")
        out = os.path.join(self.folder.name, "scores.safetensors")
        with open(path, "w") as file:
            json.dump(ids, file)
        subprocess.check_call([QRUN, "score", PAIR, "--ids", path, "-o", out])
        logits = load_file(out)["logits"].astype("float64")
        total = 0
        for position in range(begin, len(ids)):
            row = logits[position - 1]
            top = row.max()
            total += row[ids[position]] - top
            total -= math.log(sum(math.e ** (row - top)))
        return total

    def test_local_completions_compares(self):
        import transformers

        documents = [
            {
                "context": prompt + "Description:",
                "choices": ["library for Haskell", "ferry on the river", "xx"],
                "answer": 0,
            }
            for prompt in PACKAGES
        ]
        self.put(
            "choices", documents,
            output_type="multiple_choice",
            doc_to_text="{{context}}",
            doc_to_choice="{{choices}}",
            doc_to_target="answer",
            metric_list=[{"metric": "acc", "aggregation": "mean",
                          "higher_is_better": True}],
        )
        results = self.evaluate(
            "local-completions", "/v1/completions", "choices",
            model_args={"tokenizer": TARGET}, batch_size=2,
        )
        tokenizer = transformers.AutoTokenizer.from_pretrained(TARGET)
        right = 0
        for sample in results["samples"]["choices"]:
            context = tokenizer.encode(sample["doc"]["context"])
            scores = []
            for choice, (response,) in zip(
                sample["doc"]["choices"], sample["resps"]
            ):
                text = sample["doc"]["context"] + " " + choice
                scores.append(
                    self.log_probability(tokenizer.encode(text), len(context))
                )
                self.assertAlmostEqual(response[0], scores[-1], delta=1e-3)
            right += scores.index(max(scores)) == sample["doc"]["answer"]
        self.assertEqual(
            results["results"]["choices"]["acc,none"], right / len(documents)
        )


class Latency(unittest.TestCase):
    def test_script(self):
        """test/peers/latency_http.py measures, and compares with a baseline."""
        script = os.path.join(
            os.path.dirname(os.path.abspath(__file__)), "..", "peers",
            "latency_http.py",
        )
        times = os.path.join(HOME.name, "times.json")
        command = [sys.executable, script, server.url, "--warm-ups", "1",
                   "--requests", "3", "--scenarios", "64/8,128/8"]
        subprocess.check_output([*command, "--save", times])
        text = subprocess.check_output(
            [*command, "--baseline", times, "--fresh"], text=True
        )
        self.assertRegex(text, r"64/8  prompt +6\d  median +[0-9.]+ ms")
        self.assertRegex(text, r"mean speed-up [0-9.]+\n$")


if __name__ == "__main__":
    unittest.main()
