// What templates may not do: what is not supported is refused before anything runs, and what would
// take too long or too much ends in an error.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "base/json.h"
#include "ebb/error.h"
#include "ebb/units.h"
#include "heap_watch.h"
#include "text/chat/chat_template.h"

namespace ebb::text {
namespace {

const Json kHello = {{{"role", "user"}, {"content", "Hello"}}};

std::string error_of_parsing(const std::string& source) {
  try {
    const ChatTemplate parsed(source, "t");
  } catch (const FormatError& error) {
    return error.what();
  }
  return "no error";
}

std::string error_of_rendering(const std::string& source) {
  const ChatTemplate parsed(source, "t");
  try {
    parsed.render(kHello, {}, true);
  } catch (const FormatError& error) {
    return error.what();
  }
  return "no error";
}

std::string repeated(std::string_view text, int count) {
  std::string out;
  for (int i = 0; i < count; ++i) out += text;
  return out;
}

// What a template asks for in a branch that no conversation takes is no reason to refuse it.
TEST(ChatRefusals, WhatIsNotSupportedIsNamedWithItsLineWhereItRuns) {
  const std::pair<const char*, const char*> cases[] = {
      {"{{ x | xmlattr }}", "filter 'xmlattr' is not supported"},
      {"{{ x | from_json }}", "filter 'from_json' is not supported"},
      {"{{ x | e(1, b=2) | upper }}", "filter 'e' is not supported"},
      {"{{ [1] | map('batch', 2) }}", "filter 'batch' is not supported"},
      {"{{ [1] | selectattr('a', 'sameas', 1) }}", "test 'sameas' is not supported"},
      {"{{ [1] | reject('escaped') }}", "test 'escaped' is not supported"},
      {"{{ x is sameas y }}", "test 'sameas' is not supported"},
      {"{{ x is not callable }}", "test 'callable' is not supported"},
      {"{{ 'x'.zfill(3) }}", "method 'zfill' of 'str' is not supported"},
      {"{{ 2 ** 3 + 1 }}", "operator '**' is not supported"},
      {"{{ range(*x) }}", "arguments with '*' are not supported"},
      {"{{ range(1, **x) }}", "arguments with '**' are not supported"},
      {"{{ lipsum() }}", "'lipsum' is not supported"},
      {"{% set c = cycler('a', 'b') %}", "'cycler' is not supported"},
      {"{{ joiner(',') }}", "'joiner' is not supported"},
      {"{{ self.x() }}", "'self' is not supported"},
      {"{% macro m() %}{{ varargs }}{% endmacro %}{{ m() }}", "'varargs' is not supported"},
      {"{% macro m() %}{{ kwargs }}{% endmacro %}{{ m() }}", "'kwargs' is not supported"},
      {"{% for x in [1] %}{{ loop.changed(x) }}{% endfor %}", "'loop.changed' is not supported"},
      {"{% for x in [1] recursive %}{% endfor %}", "'recursive' loops are not supported"},
      {"{% include 'x' %}", "statement 'include' is not supported"},
      {"{% import 'x' as y %}", "statement 'import' is not supported"},
      {"{% extends 'x' %}", "statement 'extends' is not supported"},
      {"{% set x | nl2br %}a{% endset %}", "filter 'nl2br' is not supported"},
  };
  for (const auto& [source, message] : cases) {
    EXPECT_EQ(error_of_parsing(source), "no error") << source;
    EXPECT_EQ(error_of_rendering(source), fmt::format("t: line 1: {}", message)) << source;
    EXPECT_EQ(error_of_rendering(fmt::format("{{% if false %}}{}{{% endif %}}", source)),
              "no error")
        << source;
  }
}

TEST(ChatRefusals, WhatCannotBeReadIsNamedWithItsLine) {
  const std::pair<const char*, const char*> cases[] = {
      {"{{ x[1, 2] }}", "several subscripts in one bracket are not supported"},
      {"{% block x %}{% endblock %}", "statement 'block' is not supported"},
      {"{% with x = 1 %}{% endwith %}", "statement 'with' is not supported"},
      {"{% call m() %}{% endcall %}", "statement 'call' is not supported"},
      {"{% filter upper %}{% endfilter %}", "statement 'filter' is not supported"},
      {"{% do x %}", "statement 'do' is not supported"},
      {"{{ '\\N{DASH}' }}", "escapes by name, '\\N{...}', are not supported"},
      {"{{ größe }}", "names with letters that are not ASCII are not supported"},
      {"{{ 9223372036854775808 }}", "an integer does not fit 64 bits"},
  };
  for (const auto& [source, message] : cases) {
    EXPECT_EQ(error_of_parsing(source), fmt::format("t: line 1: {}", message)) << source;
    // Also where it would never run.
    const std::string hidden = fmt::format("a\n{{% if false %}}\n{}{{% endif %}}", source);
    EXPECT_EQ(error_of_parsing(hidden), fmt::format("t: line 3: {}", message)) << hidden;
  }
}

TEST(ChatRefusals, NamesThatTheTemplateAssignsAreItsOwn) {
  EXPECT_EQ(error_of_parsing("{% set joiner = ',' %}{{ joiner }}"), "no error");
  EXPECT_EQ(error_of_parsing("{% macro m(kwargs) %}{{ kwargs }}{% endmacro %}"), "no error");
  EXPECT_EQ(error_of_parsing("{{ kwargs }}"), "no error");
}

TEST(ChatRefusals, WhatIsKnownOnlyWhenItRuns) {
  const std::pair<const char*, const char*> cases[] = {
      {"{{ ['a'] | map('up' ~ 'per2') | list }}", "filter 'upper2' is not supported"},
      {"{{ ['a'] | select('o' ~ 'dder') | list }}", "test 'odder' is not supported"},
      {"{{ 'a'.zfill }}", "method 'zfill' of 'str' is not supported"},
      {"{{ '%s' % 1 }}", "formatting strings with '%' is not supported"},
      {"{{ [1] | map('string') }}",
       "a 'generator' cannot be printed; make a list of it with '|list'"},
      {"{{ range }}", "a 'function' cannot be printed"},
      {"{{ {}.keys() == {}.keys() }}", "comparing a 'dict_keys' is not supported"},
      {"{{ [].append(1) }}", "access to attribute 'append' of 'list' object is unsafe"},
      {"{{ messages[0].update({}) }}", "access to attribute 'update' of 'dict' object is unsafe"},
      {"{{ ''.__class__.mro() }}", "access to attribute '__class__' of 'str' object is unsafe"},
      {"{{ 9223372036854775807 + 1 }}", "an integer does not fit 64 bits"},
      {"{{ -9223372036854775807 - 2 }}", "an integer does not fit 64 bits"},
      {"{{ 4294967296 * 4294967296 }}", "an integer does not fit 64 bits"},
      {"{{ (-9223372036854775807 - 1) // -1 }}", "an integer does not fit 64 bits"},
      {"{{ -(-9223372036854775807 - 1) }}", "an integer does not fit 64 bits"},
      {"{{ 1e300 | int }}", "an integer does not fit 64 bits"},
      {"{{ ('9' * 30) | int }}", "an integer does not fit 64 bits"},
      {"{{ strftime_now('%10000Y') }}", "the format of 'strftime_now' gives too long a text"},
      {"{{ strftime_now('a\\x00b') }}", "'strftime_now' needs a format"},
  };
  for (const auto& [source, message] : cases)
    EXPECT_EQ(error_of_rendering(source), fmt::format("t: line 1: {}", message)) << source;
}

TEST(ChatRefusals, SyntaxNestedTooDeep) {
  const auto nested = [](std::string_view open, std::string_view close, int levels) {
    return "{{ " + repeated(open, levels) + "1" + repeated(close, levels) + " }}";
  };
  const std::string deep = "t: line 1: nested deeper than 100 levels";
  for (const int levels : {100, 80000}) {
    EXPECT_EQ(error_of_parsing(nested("(", ")", levels)), deep);
    EXPECT_EQ(error_of_parsing(nested("[", "]", levels)), deep);
    EXPECT_EQ(error_of_parsing(nested("{1:", "}", levels)), deep);
    EXPECT_EQ(error_of_parsing(nested("f(", ")", levels)), deep);
    EXPECT_EQ(error_of_parsing(nested("a[", "]", levels)), deep);
    EXPECT_EQ(error_of_parsing(nested("not ", "", levels)), deep);
    EXPECT_EQ(error_of_parsing(nested("- ", "", levels)), deep);
    EXPECT_EQ(error_of_parsing(nested("1 if 1 else ", "", levels)), deep);
    EXPECT_EQ(error_of_parsing(repeated("{% if 1 %}", levels)), deep);
    EXPECT_EQ(error_of_parsing("{% set " + repeated("(", levels) + repeated(")", levels) + "%}"),
              deep);
  }
  EXPECT_EQ(error_of_rendering(nested("(", ")", 90)), "no error");
}

TEST(ChatRefusals, TemplatesThatAreNone) {
  EXPECT_EQ(error_of_parsing(repeated("a", (1 << 20) + 1)), "t: the template is longer than 1 MiB");
  EXPECT_EQ(error_of_parsing("{{ 'a' }}\xff"), "t: the template is not UTF-8");
  EXPECT_EQ(error_of_parsing("a\n{% if x %}\nb"),
            "t: line 3: expected 'endif' before the end of the template");
  EXPECT_EQ(error_of_parsing("a\n{{ x"), "t: line 2: a tag without an end, '}}'");
  EXPECT_EQ(error_of_parsing("{# x"), "t: line 1: a comment without an end, '#}'");
  EXPECT_EQ(error_of_parsing("\n{% raw %}\n"), "t: line 2: 'raw' without 'endraw'");
  EXPECT_EQ(error_of_parsing("{{ 'x }}"), "t: line 1: a string without its closing quote");
}

TEST(ChatRefusals, ExpressionsWithTooManyPartsInARow) {
  const std::string tall = "t: line 1: an expression of more than 400 parts in a row";
  for (const char* part :
       {" + 1", " * 1", " and 1", " or 1", ".a", "[0]", "()", " | list", " if 1"})
    EXPECT_EQ(error_of_parsing("{{ 1" + repeated(part, 100000) + " }}"), tall) << part;
  EXPECT_EQ(error_of_rendering("{{ '' " + repeated(" + 'a'", 300) + " }}"), "no error");
  EXPECT_EQ(error_of_rendering("{{ '' " + repeated(" ~ 'a'", 100000) + " }}"), "no error");
}

TEST(ChatRefusals, WorkWithoutEnd) {
  const std::string work = "the template does more than 10000000 steps of work";
  const std::string loops = repeated("{% for i in range(100000) %}", 5);
  const std::string ends = repeated("{% endfor %}", 5);
  const std::string slow[] = {
      loops + "x" + ends,
      loops + ends,
      "{% set s = 'a' * 60000000 %}{% for i in range(100000) %}{{ 'b' in s }}{% endfor %}",
      "{% set s = 'a' * 60000000 %}{% for i in range(100000) %}{% if s == s ~ '' %}{% endif %}"
      "{% endfor %}",
      "{% set s = 'a' * 60000000 %}{% for i in range(100000) %}{{ s[i] }}{% endfor %}",
      "{% set s = 'a' * 60000000 %}{% for i in range(100000) %}{{ s | length }}{% endfor %}",
      "{% set s = 'a' * 60000000 %}{{ (s.rsplit('a' * 1000000 ~ 'b', 3)) | length }}",
      "{% set ns = namespace(x=[0]) %}{% for i in range(60) %}{% set ns.x = [ns.x, ns.x] %}"
      "{% endfor %}{{ ns.x | tojson | length }}",
      "{% set ns = namespace(x=[0]) %}{% for i in range(60) %}{% set ns.x = [ns.x, ns.x] %}"
      "{% endfor %}{{ ns.x | string | length }}",
      "{% set ns = namespace(x=[0], y=[0]) %}{% for i in range(60) %}{% set ns.x = [ns.x, ns.x] %}"
      "{% set ns.y = [ns.y, ns.y] %}{% endfor %}{{ ns.x == ns.y }}",
      "{% set ns = namespace(x=(0,)) %}{% for i in range(60) %}{% set ns.x = (ns.x, ns.x) %}"
      "{% endfor %}{{ {ns.x: 1} }}",
      "{% macro m(n) %}{% if n > 0 %}{{ m(n - 1) }}{{ m(n - 1) }}{% endif %}{% endmacro %}"
      "{{ m(60) }}",
      "{% set x = range(100000) | list %}{% for i in x %}{{ x | sort | first }}{% endfor %}",
      "{{ range(100000) | map('string') | unique | list | length }}",
      "{% set x = range(100000) | list %}{% set y = (x + x) * 5 %}{% for i in x %}"
      "{{ y[1:] | length }}{% endfor %}",
  };
  // Work that is done for a step of the template and grows with the template, or with a text of it.
  std::string sets, parameters;
  for (int i = 0; i < 900; ++i) {
    sets += fmt::format("{{% set a{} = 1 %}}", i);
    parameters += fmt::format("{}a{}=1", i == 0 ? "" : ",", i);
  }
  const std::string long_key = "'x' * 1000000";
  const std::string grown[] = {
      repeated("{% for i in range(1000) %}", 2) + "{% continue %}" + sets +
          repeated("{% endfor %}", 2),
      "{% macro m(" + parameters + ") %}{% endmacro %}{% for i in range(9000) %}{{ m(" +
          parameters + ") }}{% endfor %}",
      "{% set d = {" + long_key + " ~ 'y': 1} %}{% set k = " + long_key +
          " ~ 'z' %}{% for i in range(9000) %}{{ d[k] }}{% endfor %}",
      "{% set f = '%' ~ '-' * 1000000 ~ 'd' %}{% for i in range(9000) %}{{ strftime_now(f) }}"
      "{% endfor %}",
  };
  for (const std::string& source : grown)
    EXPECT_NE(error_of_rendering(source).find(work), std::string::npos) << source.substr(0, 100);
  for (const std::string& source : slow)
    EXPECT_NE(error_of_rendering(source).find(work), std::string::npos)
        << source << "\n"
        << error_of_rendering(source);
}

TEST(ChatRefusals, NamesAndArgumentsWithoutEnd) {
  std::string sets;
  for (int i = 0; i < 1001; ++i) sets += fmt::format("{{% set a{} = 1 %}}", i);
  EXPECT_NE(error_of_parsing(sets).find("more than 1000 names"), std::string::npos);
  EXPECT_NE(error_of_rendering("{{ 'a' | map(" + repeated("'map', ", 100) + "'list') }}")
                .find("'map' takes at most 64 arguments"),
            std::string::npos);
  // Each of these is looked for among the others: a square of them would take minutes.
  std::string attributes = "{% set n = namespace() %}";
  for (int i = 0; i < 20000; ++i) attributes += fmt::format("{{% set n.a{} = 1 %}}", i);
  EXPECT_EQ(error_of_rendering(attributes + "{{ n.a19999 }}"), "no error");
}

TEST(ChatRefusals, ErrorsCanBePrinted) {
  const std::string message = error_of_rendering("{{ raise_exception('\x1b[2J' + 'x' * 100000) }}");
  EXPECT_NE(message.find("?[2Jxxx"), std::string::npos) << message.substr(0, 100);
  EXPECT_LT(message.size(), 1100u);
}

TEST(ChatRefusals, TextAndListsWithoutEnd) {
  const std::string text = "the template makes a text longer than 64.0 MiB";
  const std::string list = "the template makes a list longer than 1000000 items";
  const std::pair<std::string, std::string> cases[] = {
      {"{{ 'a' * 1000000000 }}", text},
      {"{{ 1000000000000000000 * 'ab' }}", text},
      {"{{ [1] * 1000000000 }}", list},
      {"{{ 1000000000000000000 * [1, 2] }}", list},
      {"{% set ns = namespace(x='a') %}{% for i in range(40) %}{% set ns.x = ns.x + ns.x %}"
       "{% endfor %}",
       text},
      {"{% set ns = namespace(x='a') %}{% for i in range(40) %}{% set ns.x = ns.x ~ ns.x %}"
       "{% endfor %}",
       text},
      {"{% set ns = namespace(x=[1]) %}{% for i in range(40) %}{% set ns.x = ns.x + ns.x %}"
       "{% endfor %}",
       list},
      {"{% set s = 'a' * 1000000 %}{{ s.replace('a', s) | length }}", text},
      {"{% set s = 'a' * 1000000 %}{{ s | replace('', s) | length }}", text},
      {"{% set s = 'a' * 1000000 %}{{ s.join(s[:1000]) | length }}", text},
      {"{% set s = 'a' * 1000000 %}{{ range(1000) | join(s) | length }}", text},
      {"{{ 'a\nb' | indent(1000000000) }}", text},
      {"{% set s = 'a\n' * 1000 %}{{ s | indent(1000000) }}", text},
      {"{{ [1] | tojson(indent=1000000000) }}", text},
      {"{{ range(1000) | list | tojson(indent=1000000) | length }}", text},
      {"{{ ('a' * 30000000) | list | length }}", list},
      {"{% set s = 'a' * 1000000 %}{% for i in range(1000) %}{{ s }}{% endfor %}", text},
      {"{% set ns = namespace(x=1) %}{% for i in range(1000) %}{% set ns.x = [ns.x] %}{% endfor %}",
       "lists nested deeper than 100 levels"},
      {"{% set ns = namespace(x=1) %}{% for i in range(1000) %}{% set ns.x = {'a': ns.x} %}"
       "{% endfor %}",
       "lists nested deeper than 100 levels"},
      {"{{ range(100001) }}", "a range of more than 100000 numbers"},
      {"{{ range(-9223372036854775807, 9223372036854775807) }}",
       "a range of more than 100000 numbers"},
      {"{% for i in range(100000) %}{% set x = namespace() %}{% endfor %}",
       "more than 10000 namespaces and macros"},
      {"{% for i in range(100000) %}{% macro m() %}{% endmacro %}{% endfor %}",
       "more than 10000 namespaces and macros"},
      {"{% macro m(x) %}{{ m(x) }}{% endmacro %}{{ m(1) }}",
       "the template calls itself, or nests, deeper than 1000 levels"},
      {"{% macro m(x) %}{% if 1 %}{% for y in [1] %}{% set z %}{{ [[[m(x)]]] }}{% endset %}"
       "{% endfor %}{% endif %}{% endmacro %}{{ m(1) }}",
       "the template calls itself, or nests, deeper than 1000 levels"},
      {"{% macro m(x=m()) %}{% endmacro %}{{ m() }}",
       "the template calls itself, or nests, deeper than 1000 levels"},
  };
  for (const auto& [source, message] : cases)
    EXPECT_NE(error_of_rendering(source).find(message), std::string::npos)
        << source << "\n"
        << error_of_rendering(source);
}

TEST(ChatRefusals, ValuesInCirclesAreFreed) {
  // The leak checker of a sanitized build would tell.
  EXPECT_EQ(error_of_rendering("{% set a = namespace() %}{% set a.me = a %}{% set a.l = [a] %}"
                               "{% macro m() %}{% endmacro %}{% set a.m = m %}"
                               "{% for i in [1] %}{% macro n() %}{{ i }}{% endmacro %}"
                               "{% set a.n = n %}{% set a.loop = loop %}{% endfor %}{{ a.n() }}"),
            "no error");
}

// Values that live on, lists of very many of them, texts in the making, macros' texts in macros'
// texts: whatever it is, it ends before the memory does.
TEST(ChatRefusals, ARenderingHoldsNoMoreThanItsMemory) {
  if (!HeapWatch::works()) GTEST_SKIP() << "sanitizers take memory of their own";
  const char* const hungry[] = {
      "{% set s = 'ab' * 30000000 %}",
      "{{ ('a ' * 1000000).split() | length }}",
      "{{ ('a ' * 4000000).split(' ') | length }}",
      "{{ ('ab' * 4000000) | list | length }}",
      "{% set l = ('a' * 100000) | list %}{{ (l * 10) | map('upper') | list | length }}",
      "{% set ns = namespace(t='') %}{% for i in range(100000) %}{% set ns.t = ns.t + 'abcdefgh' * "
      "500 %}{% endfor %}",
      "{% for i in range(100000) %}{{ 'abcdefgh' * 500 }}{% endfor %}",
      "{% for i in range(90000) %}some text that is written out again and again{% endfor %}",
      "{% macro m(n) %}{{ 'abcdefgh' * 9000 }}{% if n > 0 %}{{ m(n - 1) }}{% endif %}"
      "{% endmacro %}{{ m(150) }}",
      "{% set ns = namespace(l=[]) %}{% for i in range(100000) %}{% set ns.l = [ns.l, i] %}"
      "{% endfor %}",
      "{% set ns = namespace(l=[]) %}{% for i in range(3000) %}{% set ns.l = ns.l + ['x'.strip] %}"
      "{% endfor %}{{ (ns.l * 300) | length }}",
      "{{ (['a' * 60000] * 100000) | join | length }}",
      "{{ ('a' * 60000).replace('a', 'b' * 60000) }}",
      "{{ (['a' * 1000] * 40000) | tojson }}",
      "{{ range(100000) | map('string') | list | length }}",
      "{{ dict(messages[0]).items() | list * 100000 }}",
      "{% macro f() %}{% endmacro %}{% set ns = namespace(l=[]) %}{% for i in range(9000) %}"
      "{% set a = 'x' * 9000 %}{% macro g() %}{{ a }}{% endmacro %}{% endfor %}"};
  for (const Bytes memory : {kMiB, 4 * kMiB}) {
    for (const char* source : hungry) {
      ChatTemplate parsed(source, "t");
      parsed.limit_memory(static_cast<std::size_t>(memory));
      const HeapWatch heap;
      std::string error;
      try {
        parsed.render(kHello, {}, true);
      } catch (const FormatError& refusal) {
        error = refusal.what();
      }
      EXPECT_LE(heap.peak(), memory) << source;
      EXPECT_EQ(error.empty(), error.find("t: line ") != 0) << error;
    }
  }
}

TEST(ChatRefusals, MemoryThatIsGivenBackIsCountedNoMore) {
  // 80 MB of text in all, 4 KB at a time.
  ChatTemplate parsed(
      "{% for i in range(20000) %}{% set s = 'abcdefgh' * 500 %}{% endfor %}{{ messages | length "
      "}}",
      "t");
  parsed.limit_memory(4 * kMiB);
  EXPECT_EQ(parsed.render(kHello, {}, true), "1");
}

TEST(ChatRefusals, AConversationThatIsTooLargeIsRefusedWithItsMessage) {
  ChatTemplate parsed("{{ messages[0].content }}", "t");
  parsed.limit_memory(kMiB);
  try {
    parsed.render({{{"role", "user"}, {"content", std::string(2'000'000, 'a')}}}, {}, true);
    FAIL() << "rendered";
  } catch (const FormatError& error) {
    EXPECT_EQ(std::string(error.what()),
              "t: message 1: the template's values need more than 512 KiB of memory at once");
  }
}

}  // namespace
}  // namespace ebb::text
