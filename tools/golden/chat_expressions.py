"""Expressions, each printed by a template of its own, for make_chat.py, and what they can name."""

VARIABLES = {
    "yes": True,
    "no": False,
    "nothing": None,
    "zero": 0,
    "three": 3,
    "half": 0.5,
    "empty": "",
    "word": "Tide",
    "text": "  The quick brown\n\n\tfox  ",
    "greek": "ΟΔΥΣΣΕΥΣ ß ﬁ ǆ",
    "face": "a👩‍🚀é世",
    "list": [3, 1, 2],
    "words": ["b", "A", "c", "a"],
    "mixed": [1, "1", True, None, 2.0],
    "nested": [[1, 2], [3, [4]]],
    "record": {"b": 1, "a": {"x": [1, None]}, "items": 5, "ü": "é"},
    "people": [
        {"name": "Eve", "age": 30, "home": {"city": "Rome"}},
        {"name": "adam", "age": 7, "home": {"city": "Oslo"}},
        {"name": "Bob", "age": 30},
    ],
}

# One a line; a line that ends with a backslash goes on.
_LINES = r"""
yes
[0.5, 1e3, 2.5e-9, half, 1.0]
1
-1
1.0
1e3
1e16
1e-5
0.1 + 0.2
1.5e300 * 1e10
123456789012345678
0x1F + 0b101 + 0o17 + 1_000
7 / 2
6 / 2
7 // 2
-7 // 2
-7 % 3
7 % -3
7.5 // 2
-7.5 % 2
1 / 0
1 % 0
true + 1
2 * 3 + 4
2 * (3 + 4)
2 - 3 - 4
'a' + 'b'
'a' + 1
'a' * 3
3 * 'ab'
[1] * 2
[1] + [2]
[1] + (2,)
'a' ~ 1 ~ none ~ true ~ missing
1 ~ 2 + 3
'a' < 'b'
1 < 'b'
1 < 2 < 3
1 < 3 < 2
1 == 1.0
true == 1
'1' == 1
none == false
missing == missing
missing == none
[1, 2] == [1, 2]
[1, 2] == (1, 2)
[1, 2] < [1, 3]
{'a': 1, 'b': 2} == {'b': 2, 'a': 1}
not 1 == 2
not missing
1 and 2
0 or 'x'
'' and missing.x
1 in list
9 not in list
'id' in word
1 in 'abc'
'b' in record
'z' in record
missing in list
1 in missing
1 in nothing
1 if yes else 2
1 if no else 2 if no else 3
1 if no
(1 if no) is defined
'a' if yes
[1, 2, 3]
(1, 2)
(1,)
()
1, 2
{'a': 1, 2: [3]}
{}
['it\'s', "say \"hi\"", 'both \' and "', 'back\\slash', 'tab\t\n\x01é\u200b']
'\x41\u00e9\U0001F30A\101\q\n' ~ 'joined' 'strings'
'line \
goes on'
record
record.a
record['a']
record.a.x
record.a.x[1]
record.items is defined
record['items']
record.missing
record.missing.more
record['missing']['more']
missing
missing.more
missing['more']
nothing.x
nothing['x']
nothing.x.y
word.x
three.x
list.0
list[0]
list[-1]
list[9]
list['x']
list[1.5]
list[true]
word[0]
word[-1]
word[99]
face[1]
face[-1]
face|length
record[1]
{1: 'one'}[1]
{1: 'one'}[true]
{1: 'one'}[1.0]
list[1:]
list[:-1]
list[::-1]
list[::2]
list[-2:]
list[5:]
list[2:0:-1]
list[::0]
list['a':]
word[1:3]
word[::-1]
face[1:-1]
face[::-1]
word[:100]
nothing[1:]
missing[1:]
record[1:]
list[yes:]
(1, 2, 3)[1:]
word|upper
word|lower
greek|lower
greek|upper
greek|title
greek|capitalize
greek.title()
'HELLO wORLD-foo (bar) x'|title
"they're bill's".title()
'hELLO'|capitalize
text|trim
text|trim('T ')
'xxaxx'|trim('x')
none|trim
missing|trim
5|trim
text.strip()
text.lstrip()
text.rstrip()
'xyaxy'.strip('yx')
'xyaxy'.lstrip('yx')
'xyaxy'.rstrip('yx')
'\u00a0\u3000a\x1c'.strip()
text.split()
text.split(none, 1)
text.split(' ')
'a,b,c'.split(',')
'a,b,c'.split(',', 1)
'a,b,c'.split(',', maxsplit=1)
'a,b,c'.rsplit(',', 1)
'a,b'.split('')
''.split()
''.split(',')
'a,b'.split(1)
'a\nb\r\nc\n'.splitlines()
word.startswith('Ti')
word.startswith(('x', 'T'))
word.startswith(1)
word.endswith('de')
word.endswith('')
word.upper()
word.lower()
word.replace('i', 'o')
'aaa'.replace('a', 'b', 2)
'abc'.replace('', '-')
'aé'.replace('', '-', 2)
word.replace('i', 1)
word.replace('i')
'a-b'.title()
'abc'.capitalize()
'aXbX'.find('X')
'éé世'.find('世')
'abc'.find('z')
'banana'.count('an')
'-'.join(['a', 'b'])
'-'.join('abc')
'-'.join([1])
'abc'.removeprefix('a').removesuffix('c')
word.nothing()
word()
missing()
record.get('b')
record.get('z')
record.get('z', 'none')
record.get([1])
record.keys()|list
record.values()|list
record.items()|list
record.keys()
record.items()|length
record.items() is sequence
record.pop('a')
list.append(1)
list.append is defined
word.__class__
record.clear
word|length
list|count
record|length
missing|length
nothing|length
three|length
word|replace('i', 'o')
'aaa'|replace('a', 'b', 2)
5|replace(5, 6)
missing|replace('a', 'b')
list|join
list|join(', ')
words|join(1)
people|join(',', attribute='name')
people|join(',', attribute='home.city')
word|join('-')
missing|join(',')
nothing|join(',')
list|first
list|last
word|first
word|last
[]|first
[]|last
missing|first
record|first
record|last
three|first
missing|default('x')
missing|default
missing|d(1)
nothing|default('x')
nothing|default('x', true)
''|default('x', boolean=true)
record.z|default(record.b)
record.z.z|default(1)
word|list
record|list
(1, 2)|list
missing|list
nothing|list
3.0|string + 'x'
none|string
'42'|int
' 42 '|int
'-4_2'|int
'4_'|int
'42.9'|int
'x'|int
'x'|int(7)
'ff'|int(base=16)
'0xff'|int(0, 16)
none|int
3.99|int
-3.99|int
true|int
missing|int
'1e400'|int
'1.5'|float
' 1e3 '|float
'inf'|float
'x'|float
'x'|float(2.5)
3|float
missing|float
-3|abs
-3.5|abs
'x'|abs
2.5|round
3.5|round
2.675|round(2)
2.55|round(1)
42.55|round(1, 'floor')
42.1|round(0, 'ceil')
3|round
3|round(1, 'ceil')
1.5|round(method='up')
record|items|list
missing|items|list
list|items|list
record|dictsort
record|dictsort(reverse=true)
{'B': 1, 'a': 2}|dictsort
{'B': 1, 'a': 2}|dictsort(true)
{'B': 2, 'a': 1}|dictsort(false, 'value')
{'a': 1, 2: 3}|dictsort
list|dictsort
people|map(attribute='name')|list
people|map(attribute='home.city')|list
people|map(attribute='home.city', default='?')|list
people|map(attribute='home')|map(attribute='city')|list
nested|map(attribute=0)|list
nested|map(attribute='1.0')|list
words|map('upper')|list
words|map('replace', 'a', 'z')|join
words|map('length')|list
missing|map('upper')|list
nothing|map('upper')|list
three|map('upper')|list
words|map|list
words|map(attribute='x', other=1)|list
people|selectattr('age', 'equalto', 30)|map(attribute='name')|list
people|selectattr('home')|list|length
people|selectattr('home', 'defined')|list|length
people|rejectattr('age', 'gt', 10)|map(attribute='name')|join
people|selectattr('name', 'in', ['Bob', 'Eve'])|map(attribute='name')|list
people|selectattr('missing.deeper')|list
people|selectattr('age', '>', 10)|list|length
people|selectattr('age', 'equalto', 99)|list
people|selectattr|list
mixed|select|list
mixed|select('string')|list
mixed|select('number')|list
mixed|reject('none')|list
list|select('odd')|list
list|select('divisibleby', 2)|list
list|select('lessthan', 3)|list
list|select('odd')|length
(list|select('equalto', 99)) is defined
'true' if list|select('equalto', 99) else 'false'
'true' if list|select('equalto', 99)|list else 'false'
list|sort
list|sort(reverse=true)
words|sort
words|sort(case_sensitive=true)
words|sort(true)
people|sort(attribute='name')|map(attribute='name')|list
people|sort(attribute='age,name')|map(attribute='name')|list
people|sort(attribute='age', reverse=true)|map(attribute='name')|list
mixed|sort
missing|sort
words|unique|list
words|unique(true)|list
people|unique(attribute='age')|map(attribute='name')|list
nested|unique|list
list|reverse|list
list|reverse|first
list|reverse|last
word|reverse
record|reverse|list
missing|reverse|list
nothing|reverse
'a\nb\n\nc'|indent
'a\nb\n\nc'|indent(2)
'a\nb\n\nc'|indent(2, true)
'a\nb\n\nc'|indent(2, blank=true)
'a\nb'|indent('> ')
''|indent(first=true)
'a\n'|indent(2, blank=true)
5|indent
'<b>'|safe
5|safe
('<b>'|safe) ~ '<i>'
'<b>'|safe if yes else '<i>'|safe
('<b>'|safe) + '<i>&"' + "'"
'<i>' + ('<b>'|safe)
('<b>'|safe) + ('<i>'|safe)
('<b>'|safe|trim) + '<'
('<b>'|safe|upper) + '<'
('<b>'|safe|string) + '<'
('<b>'|safe|title) + '<'
('<b>'|safe|replace('b', 'c')) + '<'
('<b>'|safe) == '<b>'
('<b>'|safe) is string
'b' in ('<b>'|safe)
('<b>'|safe)|length
[3, 1, 2]|min
words|min
words|min(case_sensitive=true)
people|min(attribute='age')
[]|min
[1, 'a']|min
words|max
words|max(true)
people|max(attribute='name')
face|max
list|sum
list|sum(start=10)
people|sum(attribute='age')
words|sum
[]|sum
'{} and {}'.format(1, 'two')
'{1}{0}{1}'.format('a', 'b')
'{name}: {age:>4}|'.format(name='Eve', age=30)
'{0.name} of {0[home][city]}'.format(people[0])
'{{}} {}'.format(none)
'{:<5}|{:^5}|{:>5}|{:*^7}|'.format('ab', 'ab', 'ab', 'é')
'{:05d} {:+d} {:,} {:x} {:b}'.format(42, 7, 1234567, 255, 5)
'{:.2f} {:8.3f}| {:e} {:%}'.format(3.14159, -2.5, 12345.678, 0.25)
'{:.2}|{!r}|{!s}'.format('abc', 'a', 'b')
'{}'.format(true) ~ '{:d}'.format(true)
'{} {}'.format(1)
'{x}'.format(1)
'{'.format(1)
'}'.format(1)
'{:q}'.format(1)
'{:d}'.format('a')
'{}'.format([1, 'a', {'b': none}])
'{:>3}'.format([1])
'{0} {}'.format(1, 2)
'{}{}'.format(missing, half)
'a' if yes else 'b'|from_json
record|tojson
record|tojson(indent=2)
record|tojson(indent='\t')
record|tojson(separators=(',', ':'))
record|tojson(sort_keys=true)
record|tojson(ensure_ascii=true)
'👩‍🚀"\\/\b\f\n\r\t\x01\x7f<>&'|tojson
'👩‍🚀\x7f'|tojson(ensure_ascii=true)
[]|tojson(indent=2)
{}|tojson(indent=2)
[[], {}, [1]]|tojson(indent=1)
[1.0, 1e20, 1e-7, -0.0, 123456789.125]|tojson
{1: 2, none: 3, true: 4, 1.5: 5}|tojson
{(1, 2): 3}|tojson
(1, 2)|tojson
none|tojson
missing|tojson
'inf'|float|tojson
list|select('odd')|tojson
[missing]|tojson
word is string
three is string
missing is defined
word is defined
record.z is defined
record.z is undefined
record.z.z is defined
nothing is none
nothing is not none
missing is none
yes is true
yes is false
1 is true
no is boolean
0 is boolean
three is integer
yes is integer
half is float
three is float
half is number
yes is number
word is number
record is mapping
list is mapping
list is sequence
word is sequence
record is sequence
three is sequence
missing is sequence
nothing is sequence
range(3) is sequence
list is iterable
word is iterable
three is iterable
nothing is iterable
missing is iterable
3 is odd
3 is even
'x' is even
missing is odd
9 is divisibleby 3
9 is divisibleby(4)
3 is equalto 3
3 is eq 4
3 is ne 4
3 is gt 2
3 is le 2
3 is in [1, 3]
3 is in list
'a' is in 'abc'
'abc' is lower
'ABC1' is upper
'' is lower
3 is not odd
word is string and three is number
word is string or missing.x
word is defined == true
not word is defined
range(3)|list
range(1, 4)|list
range(5, 0, -2)|list
range(0)|list
range(3)|length
range(3)[1]
range(3)|last
range(3)|reverse|list
2 in range(3)
range(1, 2, 0)
range(100001)
range('a')
range()
dict(a=1, b=2)
dict([('a', 1)], b=2)
dict({'a': 1}, a=3)
dict([1])
namespace(a=1).a
namespace({'a': 1}).a
namespace(a=1)['a']
namespace(a=1).b
namespace(_a=1)
raise_exception('no ' ~ word)
raise_exception()
strftime_now('%%')
strftime_now('')
strftime_now is defined
strftime_now()
-three
+three
--three
-word
-1|abs
(-1)|abs
-missing
three.5
1.5.x
'a' 'b'|upper
not yes or yes
1 + 2 ~ 3
2 * 3 ~ 4
1 if yes else missing.x
[1, 2,]
(1, 2,)
{'a': 1,}
record.a["x"][0]
people[0].home.city[0]|upper
people|length > 2 and people[-1].home is undefined
(people|selectattr('age', 'equalto', 30)|list)[0].name
words|join(', ')|upper|replace('A', '*')
none
none.x is defined
[none, true, 1.5, missing]
'%s' is string
{'a': missing}.a is defined
{[1]: 2}
[1] in record
"a'b" ~ 'c"d'
"\'"
1000000 * 1000000
0.1|string
100000000000000000000.0
1e22
1.0e15
12345678.9
"""

EXPRESSIONS = [
    "{{ " + line.replace("\x00", "\\\n") + " }}"
    for line in _LINES.replace("\\\n", "\x00").split("\n")
    if line
]
