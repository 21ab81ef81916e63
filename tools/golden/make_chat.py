#!/usr/bin/env python3
"""Makes the golden files of the chat templates: tests/golden/chat/*.json.

Every template of tests/golden/chat/templates, written for this project in the formats of known
models, is rendered by transformers with every conversation below, and every snippet of
chat_expressions.py and chat_statements.py by the same environment. README.md in this folder says
how to set up Python; the files are the same on every run and every machine.

conversations.json holds the inputs, rendered.json for each template a row a conversation with an
entry for each of the settings, snippets.json each snippet with its result. A result is a text, a
refusal (what the template said with raise_exception) or an error (the name of Python's exception).
"""

import argparse
import json
import os
from pathlib import Path

os.environ.setdefault("HF_HUB_OFFLINE", "1")

import jinja2
from transformers.utils.chat_template_utils import _compile_jinja_template, render_jinja_template

from chat_expressions import EXPRESSIONS, VARIABLES
from chat_statements import STATEMENTS

TOKENS = {"bos_token": "<s>", "eos_token": "</s>", "date_string": "29 Feb 2024"}


def user(content):
    return {"role": "user", "content": content}


def assistant(content, **more):
    return {"role": "assistant", "content": content, **more}


def system(content):
    return {"role": "system", "content": content}


def call(name, arguments, id="abcdef123"):
    return {"id": id, "type": "function", "function": {"name": name, "arguments": arguments}}


WEATHER = {
    "type": "function",
    "function": {
        "name": "weather",
        "description": "What it's like <outside>\nnow & \"later\"",
        "parameters": {
            "type": "object",
            "properties": {
                "place": {"type": "string", "description": "Zürich, 東京, …"},
                "unit": {"type": "string", "enum": ["°C", "F"]},
                "days": {"type": "array", "items": {"type": "integer"}},
                "Around": {
                    "type": "object",
                    "properties": {"km": {"type": "number"}},
                    "required": [],
                },
            },
            "required": ["place"],
        },
        "return": {"type": "string"},
    },
}
CLOCK = {
    "type": "function",
    "function": {"name": "clock", "parameters": {"type": "object", "properties": {}}},
}
TALK = [user("Hello"), assistant("Hi there."), user("How are you?"), assistant("Well, thanks.")]

CONVERSATIONS = {
    "one question": [user("What is a tide?")],
    "system and question": [system("Be brief."), user("What is a tide?")],
    "several turns": TALK,
    "several turns and a question": [*TALK, user("And the sea?")],
    "system and several turns": [system("You are a sailor.\nSpeak so."), *TALK, user("Why?")],
    "empty content": [user(""), assistant(""), user("still there?")],
    "empty system": [system(""), user("Hello")],
    "unicode": [user("Grüße, 世界! 👩‍🚀 é"), assistant("ß Ünï ﷽"), user("ไทย\u2028\u00a0x")],
    "spaces around": [system("  \n be kind \t\n"), user("\n\n  hi  \n"), assistant("  ok \n\n"), user(" \t ")],
    "quotes and tags": [user("{{ bos_token }} {% raw %} 'a' \"b\" <s> </s> <|im_end|> \\n & <b>")],
    "assistant first": [assistant("I begin."), user("You do?")],
    "user twice": [user("One"), user("Two"), assistant("Three")],
    "system in the middle": [user("One"), system("Change."), assistant("Two"), user("Three")],
    "unknown role": [user("One"), {"role": "critic", "content": "Bad."}],
    "system alone": [system("Be brief.")],
    "nobody": [],
    "thinking in the text": [
        user("2+2?"),
        assistant("<think>\nadd them\n</think>\n\n4"),
        user("3+3?"),
        assistant("<think>\n\nagain\n</think>\n\n\n6\n"),
    ],
    "thinking apart": [
        user("2+2?"),
        assistant("4", reasoning_content="\nadd\n"),
        user("3+3?"),
        assistant("6", thinking="again"),
    ],
    "thinking under an old name": [user("2+2?"), assistant("4", reasoning="hm")],
    "tool call": [
        user("Weather in Zürich?"),
        assistant("", tool_calls=[call("weather", {"place": "Zürich", "days": [1, 2], "x": None})]),
        {"role": "tool", "content": "{\"t\": 3.5}", "name": "weather", "tool_call_id": "abcdef123"},
        assistant("Cold."),
    ],
    "two tool calls": [
        system("Use tools."),
        user("Weather and time?"),
        assistant(
            "Let me see.",
            tool_calls=[
                call("weather", {"place": "a\"b", "unit": "°C", "exact": True, "t": 1e-7}),
                call("clock", {}, "bcdefg234"),
            ],
        ),
        {"role": "tool", "content": "warm", "tool_call_id": "abcdef123"},
        {"role": "tool", "content": "noon", "tool_call_id": "bcdefg234"},
    ],
    "content in parts": [
        user([{"type": "text", "text": " Look: "}, {"type": "image"}, {"type": "text", "text": "this"}]),
        assistant([{"type": "text", "text": "I see."}]),
        user([]),
    ],
    "content none": [user("Hello"), assistant(None), user("?")],
    "content missing": [user("Hello"), {"role": "assistant"}, user("?")],
    "long numbers": [user("1"), assistant("2", weight=1.0, id=12345678901234567), user("3")],
}

# Beside the messages. What is named here goes to the template as it is.
SETTINGS = [
    {"add_generation_prompt": True},
    {"add_generation_prompt": False},
    {"add_generation_prompt": True, "tools": [WEATHER, CLOCK]},
]


def outcome(render):
    try:
        return {"text": render()}
    except jinja2.exceptions.TemplateError as error:
        # What a template says with raise_exception is of exactly this type.
        if type(error) is jinja2.exceptions.TemplateError:
            return {"refusal": str(error)}
        return {"error": type(error).__name__}
    except Exception as error:  # Python's own: a TypeError and the like are results too
        return {"error": type(error).__name__}


def rendered(template, messages, settings):
    texts, _ = render_jinja_template(
        conversations=[messages], chat_template=template, **TOKENS, **settings
    )
    return texts[0]


def render_templates(folder):
    results = {}
    for path in sorted((folder / "templates").glob("*.jinja")):
        template = path.read_text(encoding="utf-8")
        results[path.stem] = [
            [outcome(lambda: rendered(template, messages, settings)) for settings in SETTINGS]
            for messages in CONVERSATIONS.values()
        ]
    return results


def render_snippets():
    results = []
    for snippet in EXPRESSIONS + STATEMENTS:
        run = lambda: _compile_jinja_template(snippet).render(**json.loads(json.dumps(VARIABLES)))
        results.append({"template": snippet, **outcome(run)})
    return results


def write(path, content):
    text = json.dumps(content, ensure_ascii=False, indent=1) + "\n"
    # These two end lines for some readers of files, not in JSON.
    path.write_text(text.replace("\u2028", "\\u2028").replace("\u2029", "\\u2029"), encoding="utf-8")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    default = Path(__file__).resolve().parents[2] / "tests" / "golden" / "chat"
    parser.add_argument("--folder", type=Path, default=default)
    folder = parser.parse_args().folder
    write(
        folder / "conversations.json",
        {"tokens": TOKENS, "settings": SETTINGS, "conversations": CONVERSATIONS},
    )
    write(folder / "rendered.json", render_templates(folder))
    write(folder / "snippets.json", {"variables": VARIABLES, "snippets": render_snippets()})


if __name__ == "__main__":
    main()
