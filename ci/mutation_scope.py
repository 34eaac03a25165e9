"""Which lines of the mock run only with a defect, or make no difference without one: a change there is no
change of the mock as it runs without one. For ci/mutation.

Found by reading: what a condition guards that asks for a defect, what comes behind a return that is taken
without one, conditions and results that are the same whatever stands beside the question for a defect, and
functions, variables and constants that are used nowhere else. A flag that is only ever set by asking for a
defect (a variable, a member, a parameter) asks for one, too. What is not recognised counts as ordinary."""
import re

BRANCH = re.compile(r"\b(if|while|for) (?=\()")
RETURN = re.compile(r"\breturn\b([^;]+);")
FUNCTION = re.compile(r"^[a-z][^;{}=]*?\b(\w+)\(([^;{}]*)\)\n\{", re.M)
VARIABLE = re.compile(r"^ +(?:const |struct |enum |static )*\w+ \**(?:const )?(\w+)(?:\[\w*\])? =([^;]+);", re.M)
CONSTANTS = re.compile(r"^enum \{ ([^}]+) \};", re.M)
DECLARED = re.compile(r"(?: \*|LIST_HEAD\(, \w+\) )(\w+)(?:\[\w*\])?; +/\*[^*]*\bdefect\b")
EMPTY = re.compile(r"(\*?\w+) == NULL|\w+->(\w+) == NULL|LIST_EMPTY\(&\w+->(\w+)(?:\[\w+\])?\)")
MEMBER_SET = re.compile(r"(?:->|\.)(\w+) [|&+-]?= ?([^,;]+)")
CALL = re.compile(r"\b(\w+)\(")
# What changes nothing, of the functions that are defined elsewhere.
LOOKS = {"sizeof", "strstr", "memcmp", "kvc_str_is", "kvc_str_equal", "mock_has"}
LIST = "what only a defect puts something into"
OPEN, CLOSE = "({", ")}"


# ---- text ----

def end_of_group(text, start):
    """Behind what closes the parenthesis or brace at start."""
    depth = 0
    for at in range(start, len(text)):
        depth += (text[at] in OPEN) - (text[at] in CLOSE)
        if depth == 0:
            return at + 1
    return len(text)


def end_of_statement(text, start):
    """Behind the statement at start: a block, or what ends with a semicolon."""
    at = re.compile(r"\s*").match(text, start).end()
    if text[at] == "{":
        return end_of_group(text, at)
    control = BRANCH.match(text, at)
    if control:
        return end_of_statement(text, end_of_group(text, control.end()))
    return text.index(";", at) + 1


def spans(text, start, end, operator):
    """Where the parts of an expression, or of a list, lie between an operator, outside of parentheses."""
    depth = 0
    for at in range(start, end):
        depth += (text[at] in OPEN) - (text[at] in CLOSE)
        if depth == 0 and text.startswith(operator, at):
            yield start, at
            start = at + len(operator)
    yield start, end


def terms(text, operator):
    return [text[start:end].strip() for start, end in spans(text, 0, len(text), operator)]


def lines_of(text, start, end):
    return set(range(text.count("\n", 0, start) + 1, text.count("\n", 0, end) + 2))


# ---- conditions ----

def says_defect(condition, value, flags):
    """Whether a condition can only have that value with a defect. flags: what names stand for, of members
    with a dot before them."""
    condition = condition.strip()
    while condition.startswith("(") and end_of_group(condition, 0) == len(condition):
        condition = condition[1:-1].strip()
    alternatives, conjuncts = terms(condition, "||"), terms(condition, "&&")
    if len(alternatives) > 1:
        return (all if value else any)(says_defect(term, value, flags) for term in alternatives)
    if len(conjuncts) > 1:
        return (any if value else all)(says_defect(term, value, flags) for term in conjuncts)
    if condition.startswith("!"):
        return says_defect(condition[1:], not value, flags)
    name = re.fullmatch(r"(?:\w+((?:->|\.)))*(\w+)", condition)
    if name and ("." if name[1] else "") + name[2] in flags:
        return says_defect(flags[("." if name[1] else "") + name[2]], value, flags)
    unequal = re.fullmatch(r"(.+) != NULL", condition)
    if unequal:
        return says_defect(unequal[1] + " == NULL", not value, flags)
    empty = EMPTY.fullmatch(condition)
    if empty:
        name = "*" + empty[1].lstrip("*") if empty[1] else "." + (empty[2] or empty[3])
        return not value and flags.get(name) == LIST
    asks = condition.startswith("mock_has(") and end_of_group(condition, 8) == len(condition)
    return value and asks


def is_settled(condition, flags):
    """Whether a condition has one value only without a defect."""
    return says_defect(condition, True, flags) or says_defect(condition, False, flags)


def settled_lines(text, start, end, flags):
    """Lines of a condition with nothing but parts that are the same without a defect: `|| (… && mock_has(…))`."""
    while text[start:end].strip().startswith("(") and text[start:end].strip().endswith(")"):
        start, end = text.index("(", start) + 1, text.rindex(")", start, end)
    for operator, value in ("||", True), ("&&", False):
        parts = list(spans(text, start, end, operator))
        if len(parts) > 1:
            break
    else:
        return set()
    lines = set()
    for start, end in parts:
        if says_defect(text[start:end], value, flags):
            words = [match.start() for match in re.finditer(r"\w+", text[start:end])]
            first, last = start + words[0], start + words[-1]
            whole = lines_of(text, first, last)
            if re.search(r"\w", text[text.rindex("\n", 0, first):first]):
                whole.discard(min(whole))
            if whole and re.search(r"\w", text[end:text.index("\n", end)]):
                whole.discard(max(whole))
            lines |= whole
        else:
            lines |= settled_lines(text, start, end, flags)
    return lines


def is_asked_for(text, at):
    """Whether the name at this place is only reached if a defect is on: `mock_has(…) && name`."""
    before = text[max(0, at - 120):at]
    return re.search(r"(?<!!)mock_has\([^()]*\)\s*&&\s*[!(]*$|!mock_has\([^()]*\)\s*\|\|\s*[!(]*$",
                     before) is not None


# ---- one function ----

class Function:
    def __init__(self, file, text, match):
        self.file, self.text, self.name = file, text, match[1]
        words = [parameter.split() for parameter in match[2].split(",")]
        self.parameters = [each[-1].lstrip("*") for each in words if each]
        self.only_looks = all("const" in each for each in words if "*" in "".join(each))
        self.start, self.body, self.end = match.start(), match.end(), end_of_group(text, match.end() - 1)
        self.lines = lines_of(text, self.start, self.end - 1)
        self.flags = {m[1]: m[2] for m in VARIABLE.finditer(text, self.body, self.end)
                      if m[0].split("=")[0].split()[:-1] in (["const", "bool"], ["bool"])
                      and not re.search(rf"\b{m[1]} [|&]?= ", text[m.end():self.end])}
        self.starts = {"*" + m[1]: m[2].split("->")[-1] for m in VARIABLE.finditer(text, self.body, self.end)
                       if re.fullmatch(r" &?\w+->\w+", m[2])}

    def guarded_lines(self, members):
        """What conditions guard that ask for a defect, and what is behind a return without one."""
        text, lines, flags = self.text, set(), {**members, **self.flags}
        flags |= {name: LIST for name, member in self.starts.items() if members.get("." + member) == LIST}
        for match in BRANCH.finditer(text, self.body, self.end):
            start = end_of_group(text, match.end())
            condition, end = text[match.end() + 1:start - 1], end_of_statement(text, start)
            if match[1] == "for":
                condition = (terms(condition, ";") + ["true"])[1]
            else:
                lines |= settled_lines(text, match.end() + 1, start - 1, flags)
            if says_defect(condition, True, flags):
                lines |= lines_of(text, match.start(), end - 1)
                otherwise = re.compile(r"\s*else\s").match(text, end)
                if otherwise:
                    lines |= lines_of(text, otherwise.end() - 2, otherwise.end() - 2)
            elif says_defect(condition, False, flags):
                lines |= lines_of(text, match.start(), start - 1)
                if re.search(r"\breturn\b[^;]*;\s*\}?$", text[start:end]):
                    lines |= lines_of(text, text.index("\n", end) + 1, text.index("\n}", end))
        for match in RETURN.finditer(text, self.body, self.end):
            lines |= settled_lines(text, match.start(1), match.end(1), flags)
            if is_settled(match[1], flags):
                lines |= lines_of(text, match.start(), match.end())
        return lines


# ---- all files ----

def members_of(texts, headers):
    """Members of structures that are only ever set by asking for a defect; and those that are said to be for
    one where they are declared: lists that are empty without."""
    lists = {"." + name: LIST for text in headers.values() for name in DECLARED.findall(text)}
    values = {}
    for text in texts.values():
        for match in MEMBER_SET.finditer(text):
            values.setdefault("." + match[1], []).append(match[2])
    return lists | {name: "mock_has()" for name, set_to in values.items()
            if any(v.startswith("mock_has(") for v in set_to)
            and all(v == "false" or says_defect(v, True, {}) for v in set_to)}


class Reading:
    """The lines that were found so far, {file: lines}."""

    def __init__(self, texts, headers):
        self.texts, self.members = texts, members_of(texts, headers)
        self.functions = [Function(name, text, match) for name, text in texts.items()
                          for match in FUNCTION.finditer(text)]
        self.only_look = LOOKS | {f.name for f in self.functions if f.only_looks}
        self.lines = {name: set() for name in texts}
        self.uses = {}  # {name: [(file, place, line)]}
        for file, text in texts.items():
            start = 0
            for number, line in enumerate(text.split("\n"), 1):
                for match in re.finditer(r"\b[A-Za-z_]\w*\b", line):
                    self.uses.setdefault(match[0], []).append((file, start + match.start(), number))
                start += len(line) + 1

    def is_defects(self, name, files, home, definition):
        """Whether a name is used in these files outside of the lines of its definition, and only with a defect."""
        found = [use for use in self.uses.get(name, ())
                 if use[0] in files and (use[0] != home or use[2] not in definition)]
        return bool(found) and all(
            (line in self.lines[file] or is_asked_for(self.texts[file], at))
            and not self.texts[file].endswith("mock_has(", 0, at) for file, at, line in found)

    def calls(self, function):
        """(caller, arguments) of each call."""
        for file, at, _ in self.uses[function.name]:
            text, start = self.texts[file], at + len(function.name)
            for caller in self.functions:
                if caller.file == file and caller.body <= at < caller.end and text[start] == "(":
                    yield caller, terms(text[start + 1:end_of_group(text, start) - 1], ",")

    def learn_parameters(self, function):
        """Parameters for which every call asks for a defect."""
        calls = list(self.calls(function))
        for position, name in enumerate(function.parameters):
            given = [(arguments[position], {**self.members, **caller.flags})
                     for caller, arguments in calls if len(arguments) == len(function.parameters)]
            asking = [(value, flags) for value, flags in given if value != "false"]
            if asking and all(says_defect(value, True, flags) for value, flags in asking):
                function.flags[name] = "mock_has()"

    def add(self, file, lines):
        self.lines[file] |= lines

    def look(self):
        for function in self.functions:
            file, text = function.file, function.text
            self.learn_parameters(function)
            self.add(file, function.guarded_lines(self.members))
            if self.is_defects(function.name, self.texts, file, function.lines):
                self.add(file, function.lines)
            for match in VARIABLE.finditer(text, function.body, function.end):
                own = lines_of(text, match.start(1), match.end())
                outside = set(range(1, text.count("\n") + 2)) - function.lines
                if set(CALL.findall(match[2])) <= self.only_look and self.is_defects(
                        match[1], [file], file, own | outside):
                    self.add(file, own)
        for file, text in self.texts.items():
            for match in CONSTANTS.finditer(text):
                own = lines_of(text, match.start(), match.end())
                if all(self.is_defects(words.split()[0], [file], file, own)
                       for words in match[1].split(",")):
                    self.add(file, own)


def defect_lines(texts, headers):
    """{file: lines}, from {file: text} of all files, and of their headers."""
    reading = Reading(texts, headers)
    before = None
    while before != sum(map(len, reading.lines.values())):
        before = sum(map(len, reading.lines.values()))
        reading.look()
    return reading.lines
