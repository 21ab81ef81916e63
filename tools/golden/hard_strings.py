"""Strings that tokenizers get wrong, and a text to train small ones on; for make_tokenizers.py.

The strings are put together from a few hundred fragments by a generator that
the C++ test repeats (tests/text/hard_strings.h), so only the fragments are
committed. All characters are of Unicode 14 or older, which is what PCRE2 10.42
and utf8proc 2.8 know: newer ones would be unassigned there and not here. Nor
are there any that the tokenizers library, whose tables of normal forms are
older still, normalizes in another way than Unicode 14.
"""

import unicodedata

from tokenizers import normalizers

TOKENS = """<|endoftext|> <|begin_of_text|> <|end_of_text|> <|start_header_id|> <|eot_id|> <|im_start|>
<|im_end|> <tool_call> </tool_call> <think> <unk> <s> </s> [INST] [/INST] <bos> <eos> <table>
<start_of_turn> <end_of_turn> [LEFT] [RIGHT] [BOTH] word Straße STRASSE <|endof <|im_start <s <0x41> <0xE2>
""".split()

WORDS = """the The THE of and ignorance encyclopedia don't DON'T we've I'll she'd it's IT'S you're I'm 'S 'ſ
naïve café Ångström Straße İstanbul ǅ ŉ ﬁ ﬃ Ⅷ ½ ² １２３ ① ㎏ ℌ Ω μ
Привет мир Ёлка Ελληνικά ΟΔΟΣ שלום עולם مرحبا العالم ١٢٣ हिन्दी नमस्ते বাংলা தமிழ் ไทย สวัสดีครับ ภาษาไทย
你好 世界 中文字符 日本語 ひらがな カタカナ ガギグ ｶﾞ 한국어 안녕하세요 ᄒ 각 ខ្មែរ မြန်မာ አማርኛ ᚠᚢ 𝔾𝕠𝕠𝕕 𐍈 𠮷野家 Ꭰ ꮳ
""".split()

EMOJI = """😀 👍🏽 👨‍👩‍👧‍👦 🏳️‍🌈 🏴󠁧󠁢󠁥󠁮󠁧󠁿 🇩🇪 🇩 1️⃣ ☺️ ☺ ❤️‍🔥 🧑‍🚀 😀😀 👩🏾‍❤️‍💋‍👨🏻""".split()

CODE = [
    "def f(x):\n\treturn x**2  # note\n",
    "for (int i = 0; i < n; ++i) { a[i] += b[i]; }",
    "\n\n\n    if (x != nullptr) {\r\n\t\t",
    "std::vector<std::string> v{\"a\", \"b\"};",
    "SELECT * FROM t WHERE a >= 10.5e-3;",
    "https://example.org/a?b=c&d=%20#e",
    "{\"key\": [1, 2, {\"x\": null}]}",
    "CamelCaseName snake_case_name kebab-case",
    "0x1F600 1234567890 3.14159 1,000,000 2026-11-15",
    "\\n \\t \\u00e9 $x^2$ `code` **bold** ...---...",
    "<div class=\"x\">&nbsp;</div>",
]

SPACES = [
    " ", "  ", "   ", "\t", "\n", "\r\n", "\n\n", " \n", "\n ", " \t ", "\u00a0", "\u1680", "\u2003",
    "\u2028", "\u2029", "\u202f", "\u205f", "\u3000", "\u0085", "\x0b", "\x0c", "\x1c", "\u180e", "\u200b",
    "\u200c", "\u200d", "\u2060", "\ufeff", "\u00ad", "▁", "▁▁", "Ġ", "\x00", "\x7f", "\ufffd", "\u0378",
]

MARKS = [
    "e\u0301", "\u0301", "a\u0323\u0302", "a\u0302\u0323", "\u1ea5", "q\u0307\u0323", "\u1e9b\u0323",
    "\u0344", "\u2126", "\u212b", "\u0958", "\u09c7\u09be", "\u1100\u1161\u11a8", "\uac00\u11a8",
    "\u3099", "か\u3099", "\u0f71\u0f72\u0f74", "\U0001d15e", "\ufb2c", "\u2adc", "x\u0338", "=\u0338",
    "\u0e33", "\u0f0c", "\u0332\u0333\u0325\u0301\u0300",
]

BROKEN = [
    b"\x80", b"\xff", b"\xc0\xaf", b"\xc3", b"\xe2\x82", b"\xe2\x28\xa1", b"\xf0\x9f\x98", b"\xf0\x9f",
    b"\xed\xa0\x80", b"\xed\xb0\x80", b"\xf4\x90\x80\x80", b"\xf8\x88\x80\x80\x80", b"\xe0\x80\xaf",
    b"\xf0\x80\x80\x80", b"a\xc3b", b"\xe2\x96", b"\x81\xe2\x96\x81", b"\xfe\xff",
]

# First and last character of scripts to draw from.
SCRIPTS = [
    (0x20, 0x7E), (0x20, 0x7E), (0xA0, 0x24F), (0x250, 0x36F), (0x370, 0x52F), (0x530, 0x6FF),
    (0x700, 0xDFF), (0xE00, 0x10FF), (0x1100, 0x13FF), (0x1400, 0x1FFF), (0x2000, 0x2BFF),
    (0x2C00, 0x30FF), (0x3100, 0x9FFF), (0xA000, 0xABFF), (0xAC00, 0xD7FF), (0xE000, 0xFFFD),
    (0x10000, 0x1FFFF), (0x1F300, 0x1FAFF), (0x20000, 0x2FFFF), (0xE0000, 0x10FFFF),
]  # fmt: skip


def agreed(character):
    """Whether the library's tables of normal forms have this character as Unicode 14 has it."""
    text = f"a{character}\u0301"  # a mark whose class is unknown would not be reordered
    return all(
        getattr(normalizers, form)().normalize_str(text) == unicodedata.normalize(form, text)
        for form in ("NFC", "NFD", "NFKC", "NFKD")
    )


def assigned(rng, first, last):
    while True:
        character = chr(rng.randint(first, last))
        if unicodedata.category(character) not in ("Cn", "Cs") and agreed(character):
            return character


def fragments(rng):
    """Short byte strings, not all of them UTF-8."""
    drawn = [
        "".join(assigned(rng, *script) for _ in range(rng.randint(1, 5)))
        for script in SCRIPTS
        for _ in range(12)
    ]
    numbers = ["".join(rng.choices("0123456789", k=k)) for k in (1, 2, 3, 4, 7, 19)]
    texts = TOKENS + WORDS + EMOJI + CODE + SPACES + MARKS + numbers + drawn
    texts += list("abcdefghijklmnopqrstuvwxyz'.,;:!?-_()[]{}<>/\\\"@#$%^&*+=|~`")
    texts += [" " + word for word in WORDS[:40]]
    assert all(agreed(character) for text in texts for character in text)
    return [text.encode() for text in texts] + BROKEN


def splitmix(state):
    """The next state and number."""
    mask = (1 << 64) - 1
    state = (state + 0x9E3779B97F4A7C15) & mask
    z = state
    z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & mask
    z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & mask
    return state, z ^ (z >> 31)


def strings(parts, seed, count):
    """String 0 is empty; the first ones after it are the parts alone, the others drawn."""
    result = [b""] + parts
    state = seed
    while len(result) < count:
        text = b""
        state, number = splitmix(state)
        for _ in range(1 + number % 9):
            state, number = splitmix(state)
            part = parts[number % len(parts)]
            # Some parts come in runs, a few in very long ones.
            run = (number >> 32) % 1000
            times = 400 if run < 2 else 30 if run < 12 else 5 if run < 40 else 1
            text += part * times
            if (number >> 60) < 5:
                text += b" "
        result.append(text)
    return result[:count]


def fnv1a(data):
    value = 0x811C9DC5
    for byte in data:
        value = ((value ^ byte) * 0x01000193) & 0xFFFFFFFF
    return value


def corpus(rng):
    """Lines of made-up words in several scripts, with the fragments among them."""
    syllables = "ba be bi bo ka ke ko la le lo ma me mi na ne no ra re ri sa se so ta te ti to".split()
    syllables += "ing er th and tion st sh ch qu ou ea".split()
    words = ["".join(rng.choices(syllables, k=rng.randint(1, 4))) for _ in range(600)]
    words += [word.capitalize() for word in words[:80]] + WORDS * 2
    weights = [1 / (rank + 3) for rank in range(len(words))]
    lines = []
    for _ in range(1500):
        line = rng.choices(words, weights=weights, k=rng.randint(3, 14))
        if rng.random() < 0.15:
            line.insert(rng.randrange(len(line)), rng.choice(CODE + EMOJI + MARKS + SPACES[:12]))
        lines.append(" ".join(line) + rng.choice([".", "!", "?", ",", "\n", "  ", ""]))
    return lines
