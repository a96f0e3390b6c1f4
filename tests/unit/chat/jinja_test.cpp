// What templates give was computed by Jinja2 3.1.6 in its sandbox, set up as transformers does: trim_blocks,
// lstrip_blocks, loop controls, tojson as json.dumps with ensure_ascii off.
#include <gtest/gtest.h>

#include "base/error.h"
#include "chat/jinja/json.h"
#include "chat/jinja/template.h"

namespace kda::jinja {
namespace {

constexpr const char* kVariables =
    R"json({"messages": [{"role": "system", "content": "S"}, {"role": "user", "content": "Hi there"}, {"role": "assistant", "content": "Yes", "tool_calls": [{"id": "c1", "type": "function", "function": {"name": "f", "arguments": "{\"a\": 1}"}}]}], "tools": [{"type": "function", "function": {"name": "f", "parameters": {"b": 1, "a": [true, null, 2.5, {}]}}}], "text": "  A \"quoted\" line\n<b>\t天气😀  ", "n": 7, "x": 2.5, "t": true, "nothing": null, "empty": [], "d": {"b": 1, "a": 2, "items": 3}, "names": ["Bo", "al", "Cy"], "bos_token": "[BOS]", "s": "a-b-c"})json";

std::string render(const std::string& source, Limits limits = {}) {
  const Template parsed(source);
  Context context(limits);
  return parsed.render(context, parse_json(context, kVariables, "variables").as_dict()).bytes();
}

/// The code and text of the error that rendering ends in.
std::pair<ErrorCode, std::string> error_of(const std::string& source, Limits limits = {}) {
  try {
    const std::string text = render(source, limits);
    ADD_FAILURE() << source << "\ngave \"" << text << '"';
  } catch (const Error& error) {
    return {error.code(), error.what()};
  }
  return {ErrorCode::kInterrupted, ""};
}

struct Case {
  const char* source;
  const char* expected;
};

constexpr Case kCases[] = {
    {"a\n{% if t %}\n  x\n{% endif %}\nb\n", "a\n  x\nb"},
    {"  {% if t %}  y  {% endif %}  \n z", "  y    \n z"},
    {"a  {%- if t -%}  b  {%- endif -%}  c", "abc"},
    {"a\n  {%+ if t %}b{% endif %}\n", "a\n  b"},
    {"a\n{% if t +%}\nb{% endif %}", "a\n\nb"},
    {"x {{- n -}} y", "x7y"},
    {"x {{ n }}\ny\n\n", "x 7\ny\n"},
    {"{# note #}\na{#- b -#} c{# d #}\n e", "ac e"},
    {"  {# note #}\n  {{ n }}\n", "  7"},
    {"a\r\nb\r{{ n }}\r\n", "a\nb\n7"},
    {"line {% set q = 1 %}\n{{ q }}", "line 1"},
    {"{{ '{{' }}{{ \"%}\" }}", "{{%}"},
    {"{{ {'a': {'b': n}}['a']['b'] }}", "7"},
    {"", ""},
    {"\n", ""},
    {"{%- for m in messages -%}\n  {{ m.role }}\n{%- endfor -%}\n", "systemuserassistant"},
    {"{{ 1 + 2 * 3 - 4 // 3 }} {{ 7 % 3 }} {{ -7 // 2 }} {{ -7 % 3 }} {{ 7 / 2 }} {{ 2 ** 10 }} {{ 2 ** -1 }}",
     "6 1 -4 2 3.5 1024 0.5"},
    {"{{ 1.0 }} {{ 1e20 }} {{ 0.1 + 0.2 }} {{ 1e16 }} {{ 123456789.0 }} {{ 1e-5 }} {{ 0.0001 }} {{ -0.0 }} {{ 1.5e300 "
     "* 1e300 }}",
     "1.0 1e+20 0.30000000000000004 1e+16 123456789.0 1e-05 0.0001 -0.0 inf"},
    {"{{ 'a' ~ 1 ~ none ~ true ~ missing }}", "a1NoneTrue"},
    {"{{ 'a' + 'b' }} {{ [1] + [2] }} {{ 'ab' * 3 }}", "ab [1, 2] ababab"},
    {"{{ 1 < 2 < 3 }} {{ 1 < 3 < 2 }} {{ 1 == 1.0 }} {{ 'a' != 'b' }} {{ 'b' > 'a' }} {{ true == 1 }}",
     "True False True True True True"},
    {"{{ not t }} {{ t and 'x' }} {{ nothing or 'y' }} {{ nothing and 1 }} {{ not not n }}", "False x y None True"},
    {"{{ 'x' in 'axb' }} {{ 'q' not in names }} {{ 'a' in d }} {{ 2 in [1, 2] }} {{ 'a' in missing }}",
     "True True True True False"},
    {"{{ 'yes' if t else 'no' }} {{ 'yes' if not t }} {{ 1 if false else 2 if false else 3 }}", "yes  3"},
    {"{{ true }} {{ True }} {{ none }} {{ None }} {{ false }} {{ missing }}", "True True None None False "},
    {"{{ [1, 'a', none, 2.5, [true], {'k': \"it's\"}, ('x',), (1, 2)] }}",
     "[1, 'a', None, 2.5, [True], {'k': \"it's\"}, ('x',), (1, 2)]"},
    {"{{ 'tab\\tnl\\nq\\'u\\\\ \\x41 \\u5929 \\d' }}", "tab\tnl\nq'u\\ A 天 \\d"},
    {"{{ 'one' 'two' }}", "onetwo"},
    {"{{ -n }} {{ +n }} {{ -n|abs }} {{ (-n)|abs }} {{ n|string + '!' }}", "-7 7 7 7 7!"},
    {"{{ 10_000 + 1 }}", "10001"},
    {"{{ d == {'items': 3, 'a': 2, 'b': 1} }} {{ [1, 2] == [1, 2] }} {{ (1, 2) == [1, 2] }}", "True True False"},
    {"{{ () }} {{ [] }} {{ {} }}", "() [] {}"},
    {"{{ 2 ** 3 ** 2 }}", "64"},
    {"{{ messages[0].role }} {{ messages[-1]['content'] }} {{ messages[9] }} {{ messages[0].nope }} {{ messages.0.role "
     "}}",
     "system Yes   system"},
    {"{{ messages[2].tool_calls[0].function.name }}", "f"},
    {"{{ text[2] }}{{ text[-3] }} {{ text[2:9] }}|{{ s[::2] }}|{{ s[::-1] }}|{{ s[-3:] }}|{{ s[:1] }}|{{ s[5:2] }}|{{ "
     "s[9] }}",
     "A😀 A \"quot|abc|c-b-a|b-c|a||"},
    {"{{ names[1:] }} {{ names[:-1] }} {{ names[::-1] }} {{ names[5:] }} {{ names[-9:2] }}",
     "['al', 'Cy'] ['Bo', 'al'] ['Cy', 'al', 'Bo'] [] ['Bo', 'al']"},
    {"{{ none.x }}|{{ n.x }}|{{ 'abc'.x }}", "||"},
    {"{{ d['items'] }} {{ d.get('a') }} {{ d.get('z') }} {{ d.get('z', 5) }} {{ d.items() | list }}",
     "3 2 None 5 [('b', 1), ('a', 2), ('items', 3)]"},
    {"{{ d.keys() | list }} {{ d.values() | list }}", "['b', 'a', 'items'] [1, 2, 3]"},
    {"{% if n > 9 %}a{% elif n > 5 %}b{% else %}c{% endif %}", "b"},
    {"{% for m in messages %}{{ loop.index }}{{ loop.index0 }}{{ loop.first }}{{ loop.last }}{{ loop.length }}{{ "
     "loop.revindex }}{{ loop.previtem.role if loop.previtem is defined }}{{ loop.nextitem.role if not loop.last }};{% "
     "endfor %}",
     "10TrueFalse33user;21FalseFalse32systemassistant;32FalseTrue31user;"},
    {"{% for m in messages if m.role != 'system' %}{{ loop.index }}{{ m.role }}{% else %}none{% endfor %}",
     "1user2assistant"},
    {"{% for m in empty %}x{% else %}none{% endfor %}{% for m in missing %}x{% else %}none{% endfor %}", "nonenone"},
    {"{% for k, v in d.items() %}{{ k }}={{ v }},{% endfor %}{% for k in d %}{{ k }}{% endfor %}{% for c in 'a天' "
     "%}[{{ c }}]{% endfor %}",
     "b=1,a=2,items=3,baitems[a][天]"},
    {"{% for i in range(5) %}{% if i == 1 %}{% continue %}{% endif %}{% if i == 3 %}{% break %}{% endif %}{{ i }}{% "
     "endfor %}",
     "02"},
    {"{{ range(3) | list }} {{ range(2, 8, 3) | list }} {{ range(3, 0, -1) | list }}", "[0, 1, 2] [2, 5] [3, 2, 1]"},
    {"{% set a = 1 %}{% for i in [1, 2] %}{% set a = a + i %}{{ a }}{% endfor %}{{ a }}", "231"},
    {"{% set ns = namespace(found=false, k=1) %}{% for i in [1, 2] %}{% set ns.found = true %}{% set ns.k = ns.k + i "
     "%}{% endfor %}{{ ns.found }}{{ ns.k }}{{ ns['k'] }}{{ ns.nope }}",
     "True44"},
    {"{% set a %}x{{ n }}{% set inner = 1 %}{% endset %}[{{ a }}]{{ inner }}", "[x7]"},
    {"{% set a, b = [1, 2] %}{{ b }}{{ a }}{% set c = 1, 2 %}{{ c }}", "21(1, 2)"},
    {"{% if t %}{% set a = 1 %}{% endif %}{{ a }}", "1"},
    {"{% macro m(a, b=2, c='x' ~ b) %}({{ a }},{{ b }},{{ c }}){% endmacro %}{{ m(1) }}{{ m(1, 3) }}{{ m(1, c=0) }}{{ "
     "m() }}{{ m(b=5, a=4) }}",
     "(1,2,x2)(1,3,x3)(1,2,0)(,2,x2)(4,5,x5)"},
    {"{% macro m() %}{{ q }}{% endmacro %}{% set q = 1 %}{{ m() }}{% set q = 2 %}{{ m() }}", "12"},
    {"{% macro m(a) %}{% set z = a %}{% for i in [1] %}{% set z = 9 %}{% endfor %}{{ z }}{% endmacro %}{{ m(3) }}{{ z "
     "}}",
     "3"},
    {"{% macro f(k) %}{{ k }}{% if k > 0 %}{{ f(k - 1) }}{% endif %}{% endmacro %}{{ f(3) }}", "3210"},
    {"{% macro m() %}a{% endmacro %}{% if m() == 'a' %}eq{% endif %}{{ m() | upper ~ m()|length }}", "eqA1"},
    {"{% generation %}g{{ n }}{% endgeneration %}", "g7"},
    {"{% for i in [1,2] %}{% for j in [3,4] %}{{ i }}{{ j }}{{ loop.index }}{% endfor %}{{ loop.index }}{% endfor %}",
     "13114212312422"},
    {"{{ tools | tojson }}",
     "[{\"type\": \"function\", \"function\": {\"name\": \"f\", \"parameters\": {\"b\": 1, \"a\": [true, null, 2.5, "
     "{}]}}}]"},
    {"{{ tools | tojson(indent=2) }}",
     "[\n  {\n    \"type\": \"function\",\n    \"function\": {\n      \"name\": \"f\",\n      \"parameters\": {\n      "
     "  \"b\": 1,\n        \"a\": [\n          true,\n          null,\n          2.5,\n          {}\n        ]\n      "
     "}\n    }\n  }\n]"},
    {"{{ tools | tojson(separators=(',', ':'), sort_keys=true) }}",
     "[{\"function\":{\"name\":\"f\",\"parameters\":{\"a\":[true,null,2.5,{}],\"b\":1}},\"type\":\"function\"}]"},
    {"{{ text | tojson }} {{ text | tojson(ensure_ascii=true) }} {{ '</script>&\\u007f\\u0001' | tojson }}",
     "\"  A \\\"quoted\\\" line\\n<b>\\t天气😀  \" \"  A \\\"quoted\\\" line\\n<b>\\t\\u5929\\u6c14\\ud83d\\ude00  \" "
     "\"</script>&\177\\u0001\""},
    {"{{ {'a': 1.0, 'b': [], 2: {}, none: 1e30, true: -1} | tojson }} {{ [] | tojson(indent=4) }}",
     "{\"a\": 1.0, \"b\": [], \"2\": {}, \"null\": 1e+30, \"true\": -1} []"},
    {"{{ text | length }} {{ names | length }} {{ d | count }} {{ missing | length }}", "27 3 3 0"},
    {"[{{ text | trim }}] [{{ 'xxaxx' | trim('x') }}] {{ '\\u3000a\\u00a0' | trim }}",
     "[A \"quoted\" line\n<b>\t天气😀] [a] a"},
    {"{{ names | join }} {{ names | join(', ') }} {{ messages | join('/', attribute='role') }} {{ [1, none] | "
     "join('-') }}",
     "BoalCy Bo, al, Cy system/user/assistant 1-None"},
    {"{{ missing | default('z') }} {{ nothing | default('z') }} {{ '' | default('z', true) }} {{ missing | d }}",
     "z None z "},
    {"{{ names | first }} {{ names | last }} {{ 'abc' | first }} {{ empty | first }}", "Bo Cy a "},
    {"{{ 'aBc DeF' | upper }} {{ 'aBc' | lower }} {{ 'aBC dEF' | capitalize }} {{ 'hello wORLD-x (y' | title }}",
     "ABC DEF abc Abc def Hello World-X (Y"},
    {"{{ s | replace('-', '+') }} {{ s | replace('-', '', 1) }} {{ 'aaa' | replace('aa', 'b') }}", "a+b+c ab-c ba"},
    {"{{ messages | map(attribute='role') | list }} {{ names | map('upper') | join(',') }} {{ messages | "
     "map(attribute='nope', default='-') | join }}",
     "['system', 'user', 'assistant'] BO,AL,CY ---"},
    {"{{ messages | selectattr('role', 'equalto', 'user') | map(attribute='content') | list }} {{ messages | "
     "rejectattr('tool_calls') | list | length }} {{ messages | selectattr('tool_calls', 'defined') | list | length }}",
     "['Hi there'] 2 1"},
    {"{{ [0, 1, 2, ''] | select | list }} {{ [1, 2, 3] | reject('odd') | list }} {{ [1, 2, 3] | select('greaterthan', "
     "1) | list }}",
     "[1, 2] [2] [2, 3]"},
    {"{{ '12' | int + 1 }} {{ 'x' | int }} {{ 'x' | int(5) }} {{ '3.9' | int }} {{ 2.9 | int }} {{ '2.5' | float }} {{ "
     "'q' | float }}",
     "13 0 5 3 2 2.5 0.0"},
    {"{{ d | items | list }} {{ d | dictsort }} {{ {'B': 1, 'a': 2} | dictsort }} {{ d | dictsort(by='value', "
     "reverse=true) }}",
     "[('b', 1), ('a', 2), ('items', 3)] [('a', 2), ('b', 1), ('items', 3)] [('a', 2), ('B', 1)] [('items', 3), ('a', "
     "2), ('b', 1)]"},
    {"{{ 'abc' | reverse }} {{ names | reverse | list }} {{ 'ab' | list }} {{ d | list }}",
     "cba ['Cy', 'al', 'Bo'] ['a', 'b'] ['b', 'a', 'items']"},
    {"{{ 'a\\nb\\n\\nc' | indent }}|{{ 'a\\nb' | indent(2, true) }}|{{ 'a\\n\\nb\\n' | indent(2, blank=true) }}|{{ "
     "'a\\nb' | indent('> ') }}|{{ '' | indent }}|{{ 'x\\n' | indent(1) }}",
     "a\n    b\n\n    c|  a\n  b|a\n  \n  b\n  |a\n> b||x\n"},
    {"{{ n | string | length }} {{ text | safe | length }}", "1 27"},
    {"{{ s.split('-') }} {{ ' a  b c '.split() }} {{ ' a  b c '.split(none, 1) }} {{ 'a-b-c'.split('-', 1) }} {{ "
     "''.split('-') }} {{ ''.split() }}",
     "['a', 'b', 'c'] ['a', 'b', 'c'] ['a', 'b c '] ['a', 'b-c'] [''] []"},
    {"[{{ text.strip() }}] [{{ text.lstrip() }}] [{{ text.rstrip() }}] {{ 'xyaxy'.strip('yx') }} {{ 'aab'.lstrip('a') "
     "}} {{ 'baa'.rstrip('a') }}",
     "[A \"quoted\" line\n<b>\t天气😀] [A \"quoted\" line\n<b>\t天气😀  ] [  A \"quoted\" line\n<b>\t天气😀] a b b"},
    {"{{ s.startswith('a-') }} {{ s.endswith('c') }} {{ s.startswith(('x', 'a')) }} {{ s.upper() }} {{ 'AB'.lower() }} "
     "{{ s.replace('-', '') }} {{ 'ab c'.title() }} {{ 'aB'.capitalize() }}",
     "True True True A-B-C ab abc Ab C Ab"},
    {"{% set l = [] %}{% set _ = l.append(1) %}{{ l.append(2) }}{{ l }}{{ l.pop() }}{{ l }}{{ l.pop(0) }}{{ l }}",
     "None[1, 2]2[1]1[]"},
    {"{% set e = {'k': 1, 'm': 2} %}{{ e.pop('k') }}{{ e }}{{ e.pop('z', 9) }}", "1{'m': 2}9"},
    {"{{ '</think>x</think>y'.split('</think>')[-1].lstrip('\\n') }}", "y"},
    {"{{ n is defined }} {{ missing is undefined }} {{ nothing is none }} {{ n is not none }} {{ s is string }} {{ d "
     "is mapping }} {{ d is string }}",
     "True True True True True True False"},
    {"{{ names is sequence }} {{ s is sequence }} {{ d is sequence }} {{ n is sequence }} {{ names is iterable }} {{ n "
     "is iterable }} {{ missing is iterable }} {{ (1,) is sequence }}",
     "True True True False True False True True"},
    {"{{ n is number }} {{ x is number }} {{ t is number }} {{ t is boolean }} {{ n is boolean }} {{ t is true }} {{ t "
     "is false }} {{ 1 is true }} {{ n is integer }} {{ t is integer }} {{ x is float }}",
     "True True True True False True False False True False True"},
    {"{{ n is odd }} {{ n is even }} {{ n is eq 7 }} {{ n is equalto(7) }} {{ n is ne 7 }} {{ n is gt 3 }} {{ n is in "
     "[7] }} {{ n is lt(3) }} {{ n is ge 7 and t }}",
     "True False True True False True True False True"},
    {"{{ raise_exception is defined }} {{ raise_exception is callable }} {{ strftime_now is defined }} {{ n is "
     "callable }}",
     "True True False False"},
    {"{% if messages[0]['role'] == 'system' and messages[1] is defined %}ok{% endif %}", "ok"},
    {"{% set loop_messages = messages[1:] %}{{ loop_messages | length }}{{ bos_token }}", "2[BOS]"},
    {"{{ (messages | last).role }} {{ messages|length - 1 }}", "assistant 2"},
    {"{{ namespace(a=1).a }} {{ dict(a=1, b=2) }} {{ dict({'z': 1}, a=2) }}", "1 {'a': 1, 'b': 2} {'z': 1, 'a': 2}"},
    {"{{ 'ab'.upper().lower() }} {{ (s ~ 'x').split('-')[1] }}", "ab b"},
    {"{{ 'A' if messages[0].role is eq 'system' else 'B' }}", "A"},
    {"{{ text is string and text | trim | length > 3 }}", "True"},
    {"{% set x = [] %}{{ x is sequence and x | length == 0 }}", "True"},
    {"{% for a, b in [[1, 2], (3, 4)] %}{{ a + b }} {% endfor %}", "3 7 "},
    {"{{ messages | selectattr('role', 'in', ['user', 'system']) | list | length }}", "2"},
    {"{{ 'e天'|upper }} {{ '天气' | length }} {{ '天气'[1] }} {{ '天气' | list }}", "E天 2 气 ['天', '气']"},
    {"{{ d | length }}", "3"},
};

constexpr const char* kFailing[] = {
    "{{ missing.x }}",
    "{{ missing['x'] }}",
    "{{ missing() }}",
    "{{ n() }}",
    "{{ 'a' + 1 }}",
    "{{ missing + 1 }}",
    "{{ 'a' < 1 }}",
    "{{ 1 // 0 }}",
    "{{ 1 % 0 }}",
    "{{ raise_exception('no ' ~ n) }}",
    "{% for i in n %}{% endfor %}",
    "{% for a, b in [[1, 2, 3]] %}{% endfor %}",
    "{{ n | length }}",
    "{{ missing | tojson }}",
    "{{ 1 in 2 }}",
    "{{ 1 in 'a' }}",
    "{{ nothing['x']['y'] }}",
    "{% macro m(a) %}{% endmacro %}{{ m(1, 2) }}",
    "{% macro m(a) %}{% endmacro %}{{ m(b=2) }}",
    "{% set n.x = 1 %}",
    "{% if t %}",
    "{% endif %}",
    "{{ n",
    "{{ n }",
    "{% if %}x{% endif %}",
    "{{ 'abc }}",
    "{{ (1, 2 }}",
    "{{ [1, 2) }}",
    "{# open",
    "{% for x %}{% endfor %}",
    "{{ 1 2 }}",
    "{{ n ! 2 }}",
    "{{ namespace(1) }}",
    "{{ s.split('') }}",
    "{{ [].pop() }}",
    "{{ d.pop('nope') }}",
    "{{ 'x' * 'y' }}",
    "{{ -'x' }}",
    "{{ range() }}",
    "{{ {[1]: 2} }}",
    "{% break %}",
    "{{ a b }}",
    "{% set 1 = 2 %}",
    "{% macro (a) %}{% endmacro %}",
    "{{ x | }}",
    "{{ x is }}",
    "{{ s[::0] }}",
    "{{ n[1:] }}",
    "{{ d | dictsort(by='q') }}",
};

TEST(JinjaTemplate, GivesTheTextThatJinja2Gives) {
  for (const Case& c : kCases) EXPECT_EQ(render(c.source), c.expected) << c.source;
}

TEST(JinjaTemplate, FailsWhereJinja2Fails) {
  for (const char* source : kFailing) {
    const auto [code, message] = error_of(source);
    EXPECT_TRUE(code == ErrorCode::kFormat || code == ErrorCode::kUsage || code == ErrorCode::kUnsupported) << source;
    EXPECT_EQ(message.rfind("chat template, line 1: ", 0), 0U) << message;
  }
}

TEST(JinjaTemplate, NamesTheLineOfAnError) {
  EXPECT_EQ(error_of("a\n\n{{ n }}\n{% if t %}\n{{ missing.x }}{% endif %}").second,
            "chat template, line 5: 'missing' is undefined, 'x' cannot be taken of it");
  EXPECT_EQ(error_of("{# a\nb #}\n{% if t %}x{% endif %}{{ n | nope }}").second,
            "chat template, line 3: the filter 'nope' is not supported");
  EXPECT_EQ(error_of("{{ 'a\nb' }}\n{% set x = {'a':\n1} %}\n{{ 1 // 0 }}").second,
            "chat template, line 5: division by zero");
  EXPECT_EQ(error_of("{% macro m() %}\n{{ n.x.y }}{% endmacro %}\n\n{{ m() }}").second,
            "chat template, line 2: 'n.x' is undefined, 'y' cannot be taken of it");
}

TEST(JinjaTemplate, RefusesWhatItDoesNotKnowWhenParsed) {
  const auto parse_error = [](const char* source) {
    try {
      const Template parsed(source);
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::kUnsupported) << source;
      return std::string(error.what());
    }
    return std::string("accepted");
  };
  EXPECT_EQ(parse_error("\n{% call m() %}{% endcall %}"), "chat template, line 2: the tag 'call' is not supported");
  EXPECT_EQ(parse_error("{% include 'x' %}"), "chat template, line 1: the tag 'include' is not supported");
  EXPECT_EQ(parse_error("{%- raw %}{{{% endraw %}"), "chat template, line 1: the tag 'raw' is not supported");
  EXPECT_EQ(parse_error("{{ x | groupby('a') }}"), "chat template, line 1: the filter 'groupby' is not supported");
  EXPECT_EQ(parse_error("{{ x is sameas y }}"), "chat template, line 1: the test 'sameas' is not supported");
  EXPECT_EQ(parse_error("{{ x.casefold() }}"), "chat template, line 1: the method 'casefold' is not supported");
  EXPECT_EQ(parse_error("{% for x in y recursive %}{% endfor %}"),
            "chat template, line 1: 'recursive' in a for tag is not supported");
  EXPECT_EQ(parse_error("{% macro m() %}{{ caller() }}{% endmacro %}"),
            "chat template, line 1: 'caller' in a macro is not supported");
  EXPECT_EQ(parse_error("{{ f(*x) }}"), "chat template, line 1: '*' in a call is not supported");
  EXPECT_EQ(parse_error("{{ 99999999999999999999 }}"),
            "chat template, line 1: the number 99999999999999999999 has more than 64 bits");
}

TEST(JinjaTemplate, SaysThatThereIsNoClock) {
  const auto [code, message] = error_of("{{ strftime_now('%Y') }}");
  EXPECT_EQ(code, ErrorCode::kUnsupported);
  EXPECT_NE(message.find("strftime_now"), std::string::npos);
  EXPECT_EQ(render("{% if strftime_now is defined %}{{ strftime_now('%Y') }}{% else %}no date{% endif %}"), "no date");
}

TEST(JinjaTemplate, PassesOnTheMessageOfATemplateThatRefuses) {
  const auto [code, message] = error_of("\n{{ raise_exception('Roles must alternate') }}");
  EXPECT_EQ(code, ErrorCode::kUsage);
  EXPECT_EQ(message, "chat template, line 2: Roles must alternate");
}

TEST(JinjaTemplate, EndsHostileTemplatesWithAnError) {
  const Limits limits{.max_steps = 200'000, .max_output_bytes = 1 << 20, .max_depth = 300};
  for (const char* source : {
           "{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}",
           "{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}",
           "{{ range(9999999999) }}",
           "{{ 'x' * 9999999999 }}",
           "{{ '' * 9999999999 }}",
           "{% set ns = namespace(s='xxxxxxxx') %}{% for i in range(99999) %}{% set ns.s = ns.s + ns.s %}{% endfor %}",
           "{% set ns = namespace(s='xxxxxxxx') %}{% for i in range(999) %}{% set ns.s = ns.s | replace('x', ns.s) %}"
           "{% endfor %}",
           "{% set ns = namespace(s=['x']) %}{% for i in range(99999) %}{% set ns.s = ns.s + ns.s %}{% endfor %}",
           "{% set ns = namespace(l=[]) %}{% for i in range(9999) %}{% set ns.l = [ns.l] %}{% endfor %}{{ ns.l }}",
           "{% set ns = namespace(l=[]) %}{% for i in range(9999) %}{% set ns.l = [ns.l] %}{% endfor %}"
           "{{ ns.l | tojson }}",
           "{% set ns = namespace(l=[]) %}{% for i in range(9999) %}{% set ns.l = [ns.l] %}{% endfor %}"
           "{{ ns.l == [ns.l] }}",
           "{% set l = [] %}{% set _ = l.append(l) %}{{ l }}",
           "{% set l = [] %}{% set _ = l.append(l) %}{{ l | tojson }}",
           "{% set l = [1] %}{% set _ = l.append(l) %}{{ l == [1, l] }}",
           "{% set l = [0] %}{% for a in range(99999) %}{% set _ = l.append(l + l) %}{% endfor %}",
           "{{ [1] | tojson(indent=9999999999) }}",
           "{{ 'a\nb' | indent(9999999999) }}",
           "{{ 2 ** 64 }}",
           "{{ 9223372036854775807 + 1 }}",
           "{{ (-9223372036854775807 - 1) // -1 }}",
           "{{ -(-9223372036854775807 - 1) }}",
           "{{ 1 ** 9223372036854775807 }}",
           "{% for i in range(99999) %}xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx{% endfor %}",
           "{{ ['abcdefgh' * 20000] * 3 }}",
           "{{ ('abcdefgh' * 20000).strip('abcdefghij' * 20000) }}",
       }) {
    const auto [code, message] = error_of(source, limits);
    EXPECT_TRUE(code == ErrorCode::kLimit || code == ErrorCode::kFormat) << source << "\n" << message;
  }
}

TEST(JinjaTemplate, RefusesDeepNestingAndHugeSources) {
  const auto repeat = [](std::string_view part, int n) {
    std::string text;
    for (int i = 0; i < n; ++i) text += part;
    return text;
  };
  for (const std::string& source : {
           "{{ " + repeat("(", 100000) + "1" + repeat(")", 100000) + " }}",
           "{{ " + repeat("[", 100000) + repeat("]", 100000) + " }}",
           "{{ " + repeat("not ", 100000) + "1 }}",
           "{{ " + repeat("-", 100000) + "1 }}",
           "{{ 1" + repeat(" + 1", 100000) + " }}",
           "{{ 1" + repeat(" or 0", 100000) + " }}",
           "{{ s" + repeat("|trim", 100000) + " }}",
           "{{ s" + repeat(".x", 100000) + " }}",
           "{{ s" + repeat("()", 100000) + " }}",
           "{{ 1" + repeat(" if 1 else 2", 10000) + " }}",
           repeat("{% if 1 %}", 10000) + repeat("{% endif %}", 10000),
           std::string(size_t{2} << 20, 'x'),
       }) {
    EXPECT_EQ(error_of(source).first, ErrorCode::kLimit) << source.substr(0, 20);
  }
  EXPECT_EQ(render("{{ 1" + repeat(" + 1", 150) + " }}" + repeat("{% if 1 %}", 90) + "x" + repeat("{% endif %}", 90)),
            "151x");
}

TEST(JinjaTemplate, AcceptsAnyBytes) {
  EXPECT_EQ(render("\xFF{{ '\xE5\x8C' | length }}{{ '\xFF\xE5\x8C\x97'[1] }}\xC0"),
            "\xFF"
            "2\xE5\x8C\x97\xC0");
  EXPECT_EQ(render(std::string("a\0b", 3)), std::string("a\0b", 3));
}

// --- who wrote what ---

/// The template is rendered with user = "INPUT" and obj = {"Key": "Value"}; input bytes come out in lower case, what
/// the template wrote in upper case.
std::string marked(const std::string& source) {
  const Template parsed(source);
  Context context;
  const Value variables =
      parse_json(context, R"({"user": "INPUT", "obj": {"Key": "Value"}, "list": ["Ab", "Cd"]})", "variables");
  const Text text = parsed.render(context, variables.as_dict());
  std::string result;
  size_t begin = 0;
  for (const Text::Run& run : text.runs()) {
    for (const char c : text.bytes().substr(begin, run.end - begin))
      result += static_cast<char>(run.from_template ? std::toupper(c) : std::tolower(c));
    begin = run.end;
  }
  EXPECT_EQ(begin, text.size());
  return result;
}

TEST(JinjaTrust, EveryByteKeepsItsOrigin) {
  EXPECT_EQ(marked("lit {{ user }} {{ 'const' }}"), "LIT input CONST");
  EXPECT_EQ(marked("{{ 'a' ~ user ~ 'b' }}{{ 'a' + user + 'b' }}"), "AinputBAinputB");
  EXPECT_EQ(marked("{{ (' x' ~ user ~ 'y ') | trim }}"), "XinputY");
  EXPECT_EQ(marked("{{ (' x' ~ user ~ 'y ').strip() }}{{ user.lstrip('IN') }}"), "XinputYput");
  EXPECT_EQ(marked("{{ 'axb' | replace('x', user) }}{{ user | replace('N', 'new') }}"), "AinputBiNEWput");
  EXPECT_EQ(marked("{{ user.replace('PUT', 'q') }}"), "inQ");
  EXPECT_EQ(marked("{{ list | join('-') }}{{ ['a', user] | join }}"), "ab-cdAinput");
  EXPECT_EQ(marked("{{ ('ab' ~ user)[1:4] }}{{ ('ab' ~ user)[-6] }}{{ ('a' ~ user)[::-1] }}"), "BinBtupniA");
  EXPECT_EQ(marked("{{ ('a-' ~ user ~ '-b').split('-')[1] }}{{ (user ~ ' b').split()[1] }}"), "inputB");
  EXPECT_EQ(marked("{{ user | upper }}{{ user | lower }}{{ ('ab' ~ user) | capitalize }}"), "inputinputABinput");
  EXPECT_EQ(marked("{{ {'a': user, user: 'b'} | tojson }}"), "{\"A\": \"input\", \"input\": \"B\"}");
  EXPECT_EQ(marked("{{ obj | tojson }}{{ obj }}{{ [user] }}"), "{\"key\": \"value\"}{'key': 'value'}['input']");
  EXPECT_EQ(marked("{% for c in 'a' ~ user %}{{ c }}.{% endfor %}"), "A.i.n.p.u.t.");
  EXPECT_EQ(marked("{% set x %}a{{ user }}{% endset %}{{ x }}"), "Ainput");
  EXPECT_EQ(marked("{% macro m(v) %}a{{ v }}{% endmacro %}{{ m(user) | string }}"), "Ainput");
  EXPECT_EQ(marked("{{ user | indent('> ', true) }}{{ missing | default(user) }}{{ user | list | first }}"),
            "> inputinputi");
  EXPECT_EQ(marked("{{ user if user else 'x' }}{{ user or 'x' }}{{ ('a' ~ user) | reverse }}"), "inputinputtupniA");
}

// --- JSON ---

TEST(JinjaJson, RefusesBrokenAndDeepText) {
  Context context;
  for (const std::string& text : {std::string("{"), std::string("[1,]"), std::string("nul"), std::string(""),
                                  std::string("1 2"), std::string("\"\xFF\""), std::string(100000, '[')}) {
    try {
      (void)parse_json(context, text, "tools");
      ADD_FAILURE() << text.substr(0, 20);
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::kFormat);
      EXPECT_EQ(std::string(error.what()).rfind("tools: ", 0), 0U);
    }
  }
}

TEST(JinjaJson, KeepsOrderAndTheLastOfEqualKeys) {
  Context context;
  const Value value =
      parse_json(context, R"({"b": 1, "a": 18446744073709551615, "b": [-2, 1e2, "\u00e9\ud83d\ude00"]})", "x");
  EXPECT_EQ(to_json(context, value, {}).bytes(), R"({"b": [-2, 100.0, "é😀"], "a": 1.8446744073709552e+19})");
}

TEST(JinjaJson, HandlesObjectsWithManyKeysInLinearTime) {
  std::string text = "{";
  for (int i = 0; i < 100000; ++i) text += (i > 0 ? ",\"k" : "\"k") + std::to_string(i) + "\":0";
  Context context;
  const Value value = parse_json(context, text + "}", "x");
  EXPECT_EQ(value.as_dict().entries().size(), 100000U);
  EXPECT_NE(value.as_dict().find("k99999"), nullptr);
}

}  // namespace
}  // namespace kda::jinja
